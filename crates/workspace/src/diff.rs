//! What a commit changed: counted for facts, and as a unified diff for people. Made from the bytes
//! alone, so no attribute or configuration of anybody changes the numbers.

use std::fmt::Write as _;

use ensemble_core::{ids::CommitId, outcome::Changes, text::clip};
use git2::{Patch, Repository as Git};

use crate::{
    error::{Doing, Error},
    repository::Repository,
    tree::{self, Change, Entry, commit, spell},
};

/// Files above this are taken as binary: line by line they would cost too much memory.
pub(crate) const TEXT_LIMIT: usize = 32 * 1024 * 1024;

/// Git looks for a zero byte in as much of a file to tell binary from text.
const SNIFFED: usize = 8000;

/// What a commit did to one file, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// What happened to it.
    pub status: FileStatus,
    /// Lines added; 0 in a binary file.
    pub added: u64,
    /// Lines removed; 0 in a binary file.
    pub removed: u64,
    /// Whether it is not compared line by line.
    pub binary: bool,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStatus {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It has another content, or only another mode.
    Modified,
}

impl Repository {
    /// What `commit` changed against `base`, file by file in the order of their paths.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], or when the repository can't be read.
    pub fn file_changes(&self, base: &CommitId, id: &CommitId) -> Result<Vec<FileChange>, Error> {
        let repo = self.git()?;
        let (old, new) = (commit(&repo, base)?.tree_id(), commit(&repo, id)?.tree_id());
        let changed = tree::diff(&repo, Some(old), Some(new))?;
        changed.into_iter().map(|(path, change)| figures(&repo, spell(&path), change)).collect()
    }

    /// What `commit` changed against `base`.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], or when the repository can't be read.
    pub fn changes(&self, base: &CommitId, commit: &CommitId) -> Result<Changes, Error> {
        let repo = self.git()?;
        let [old, new] = [base, commit].map(|id| tree::commit(&repo, id).map(|c| c.tree_id()));
        count(&repo, &tree::diff(&repo, Some(old?), Some(new?))?)
    }

    /// What `commit` changed against `base`, as a unified diff of about `limit` bytes at most; the
    /// last line says so if something was left out.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], or when the repository can't be read.
    pub fn diff_text(&self, base: &CommitId, id: &CommitId, limit: usize) -> Result<String, Error> {
        let repo = self.git()?;
        let (old, new) = (commit(&repo, base)?.tree_id(), commit(&repo, id)?.tree_id());
        let mut text = String::new();
        for (path, change) in tree::diff(&repo, Some(old), Some(new))? {
            describe(&repo, &spell(&path), change, &mut text)?;
            if text.len() > limit {
                let kept = clip(&text, limit).rfind('\n').map_or(0, |at| at + 1);
                text.truncate(kept);
                text.push_str("... the rest is left out\n");
                break;
            }
        }
        Ok(text)
    }
}

/// Counts files and lines.
pub(crate) fn count(repo: &Git, changed: &tree::Changed) -> Result<Changes, Error> {
    let mut changes =
        Changes { files: u32::try_from(changed.len()).unwrap_or(u32::MAX), ..Changes::default() };
    changes.paths = changed.keys().take(Changes::NAMED).map(|path| spell(path)).collect();
    for change in changed.values() {
        let (added, removed, _) = lines(repo, *change)?;
        changes.added += added;
        changes.removed += removed;
    }
    Ok(changes)
}

/// Lines added and removed, and whether the file is binary.
fn lines(repo: &Git, change: Change) -> Result<(u64, u64, bool), Error> {
    let (old, new) = (content(repo, change.old)?, content(repo, change.new)?);
    let binary = is_binary(&old) || is_binary(&new);
    if old == new || binary {
        return Ok((0, 0, binary));
    }
    let patch = Patch::from_buffers(&old, None, &new, None, None).doing("compare two files")?;
    let (_, added, removed) = patch.line_stats().doing("compare two files")?;
    Ok((added as u64, removed as u64, false))
}

fn figures(repo: &Git, path: String, change: Change) -> Result<FileChange, Error> {
    let (added, removed, binary) = lines(repo, change)?;
    let status = match (change.old, change.new) {
        (None, _) => FileStatus::Added,
        (_, None) => FileStatus::Deleted,
        _ => FileStatus::Modified,
    };
    Ok(FileChange { path, status, added, removed, binary })
}

/// Whether the bytes are compared as a whole and not line by line.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.len() > TEXT_LIMIT || bytes[..bytes.len().min(SNIFFED)].contains(&0)
}

/// What stands at an entry, as a diff shows it.
pub(crate) fn content(repo: &Git, entry: Option<Entry>) -> Result<Vec<u8>, Error> {
    match entry {
        None => Ok(Vec::new()),
        Some(entry) if entry.is_module() => Ok(format!("Subproject commit {}\n", entry.id).into_bytes()),
        Some(entry) => repo.find_blob(entry.id).map(|blob| blob.content().to_vec()).doing("read a file"),
    }
}

fn describe(repo: &Git, path: &str, change: Change, text: &mut String) -> Result<(), Error> {
    let _ = writeln!(text, "diff --git a/{path} b/{path}");
    let _ = match (change.old, change.new) {
        (None, Some(new)) => writeln!(text, "new file mode {:o}", new.mode),
        (Some(old), None) => writeln!(text, "deleted file mode {:o}", old.mode),
        (Some(old), Some(new)) if old.mode != new.mode => {
            writeln!(text, "old mode {:o}\nnew mode {:o}", old.mode, new.mode)
        }
        _ => Ok(()),
    };
    let (old, new) = (content(repo, change.old)?, content(repo, change.new)?);
    if old == new {
        return Ok(());
    }
    let side = |there: bool, letter: char| {
        if there { format!("{letter}/{path}") } else { "/dev/null".to_owned() }
    };
    let (before, after) = (side(change.old.is_some(), 'a'), side(change.new.is_some(), 'b'));
    if is_binary(&old) || is_binary(&new) {
        let _ = writeln!(text, "Binary files {before} and {after} differ");
        return Ok(());
    }
    let _ = writeln!(text, "--- {before}\n+++ {after}");
    let mut patch = Patch::from_buffers(&old, None, &new, None, None).doing("compare two files")?;
    patch
        .print(&mut |_, _, line| {
            let shown = String::from_utf8_lossy(line.content());
            match line.origin() {
                'F' => {}
                sign @ ('+' | '-' | ' ') => {
                    text.push(sign);
                    text.push_str(&shown);
                }
                _ => text.push_str(&shown),
            }
            true
        })
        .doing("compare two files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn each_file_is_told_with_its_figures() {
        let bench = Bench::new();
        let base = bench.commit(&[], &[("gone", b"1\n"), ("kept", b"1\n"), ("mine", b"1\n2\n")]);
        let files: [(&str, &[u8]); 4] =
            [("kept", b"1\n"), ("logo", b"\0x"), ("mine", b"1\n3\n4\n"), ("new", b"1\n")];
        let commit = bench.commit(&[&base], &files);
        let told = bench.repository.file_changes(&base, &commit).unwrap();
        let told: Vec<_> = told
            .iter()
            .map(|one| (one.path.as_str(), one.status, one.added, one.removed, one.binary))
            .collect();
        assert_eq!(
            told,
            [
                ("gone", FileStatus::Deleted, 0, 1, false),
                ("logo", FileStatus::Added, 0, 0, true),
                ("mine", FileStatus::Modified, 2, 1, false),
                ("new", FileStatus::Added, 1, 0, false),
            ]
        );
        let whole = bench.repository.changes(&base, &commit).unwrap();
        assert_eq!((whole.files, whole.added, whole.removed), (4, 3, 2));
    }
}
