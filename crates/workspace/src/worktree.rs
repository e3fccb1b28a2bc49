//! An attempt's isolated working copy: a clone of its own that borrows the mirror's objects. A
//! *linked* worktree would let an agent run code in this process and move its branches. Its `.git`
//! is made here for the agent alone and never opened again. Who gets a worktree, and when it may be
//! removed, is decided elsewhere.

mod at;
mod capture;
mod checkout;
mod ignored;
mod recycle;
mod remove;
mod stat;
mod store;
mod walk;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ensemble_core::{ids::CommitId, plan};
use rustix::fs::{Mode, OFlags};

use crate::{
    error::{Doing, DoingTo, Error},
    fault,
    repository::Repository,
    tree::commit,
};
pub use capture::{Capture, Skipped, Why};
use checkout::Whole;
use recycle::Leftovers;

/// Branch that HEAD is on.
const BRANCH: &str = "task";

/// The agent's own git finds: no background work, no conversions (bytes are raw both ways), and a
/// name for the commits that it may make, of which only the files count.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tautocrlf = false
\tsymlinks = true
\tfsmonitor = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[user]
\tname = ensemble
\temail = ensemble@ensemble.localhost
";

/// Beats every `.gitattributes`, so that the agent's git sees the same bytes as we do.
const ATTRIBUTES: &str = "* -text -filter -ident -working-tree-encoding\n";

/// An isolated working copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    path: PathBuf,
}

impl Worktree {
    /// Makes a working copy of `base` at `path`, which must not exist. The bytes of the files are
    /// those of the commit; symbolic links are made and never followed. Objects are borrowed from
    /// `mirror`, so the copy must be removed before the mirror is pruned. What an interrupted call
    /// left behind is cleared by [`Worktree::discard`].
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], [`Error::Escapes`] for a tree that would write outside, or when the
    /// file system refuses.
    pub fn create(mirror: &Repository, path: impl Into<PathBuf>, base: &CommitId) -> Result<Self, Error> {
        fault!("workspace.checkout");
        let worktree = Self { path: path.into() };
        let repo = mirror.git()?;
        let tree = commit(&repo, base)?.tree_id();
        if let Some(parent) = worktree.path.parent() {
            fs::create_dir_all(parent).doing_to("make the folder", parent)?;
        }
        fs::create_dir(&worktree.path).doing_to("make the folder", &worktree.path)?;
        let root = at::open_root(&worktree.path).doing_to("open", &worktree.path)?;
        worktree.fill(mirror, base, &Whole { repo: &repo, tree, root: &root }, None)?;
        fault!("workspace.checkout.done");
        Ok(worktree)
    }

    /// The working copy that was made at `path` before.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        at::open_root(&path).doing_to("open the worktree", &path)?;
        Ok(Self { path })
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a commit that the mirror has a name in the working copy's own git, for the agent to look at.
    ///
    /// # Errors
    /// [`Error::BadName`], or when it can't be written.
    pub fn name_commit(&self, name: &str, commit: &CommitId) -> Result<(), Error> {
        if !name.starts_with("refs/") || !git2::Reference::is_valid_name(name) {
            return Err(Error::BadName { name: name.to_owned(), why: "git does not allow it".to_owned() });
        }
        let file = self.path.join(".git").join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).doing_to("make the folder", folder)?;
        }
        fs::write(&file, format!("{commit}\n")).doing_to("write", file)
    }

    /// Bytes of the files that were written when it was made ready; 0 if that is not known.
    #[must_use]
    pub fn size(&self) -> u64 {
        let record = git2::Index::open(&self.stat_path());
        record.map_or(0, |record| record.iter().map(|entry| u64::from(entry.file_size)).sum())
    }

    /// What was written at creation, with the times of each file: beside the worktree, out of the
    /// agent's way.
    fn stat_path(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".index");
        self.path.with_file_name(name)
    }

    /// Makes `.git`, the files of the base, and at the end the record of them.
    fn fill(
        &self,
        mirror: &Repository,
        base: &CommitId,
        whole: &Whole<'_>,
        old: Option<&mut Leftovers<'_>>,
    ) -> Result<(), Error> {
        self.write_git_folder(mirror, base)?;
        let file = self.path.join(".git/index");
        let mut index = git2::Index::open(&file).doing("make an index")?;
        checkout::write(whole, old, &self.path, &mut index)?;
        index.write().doing("write an index")?;
        // Copied last: its own time tells which files are too young to be trusted by their times.
        fs::copy(&file, self.stat_path()).map(drop).doing_to("write", self.stat_path())
    }

    fn write_git_folder(&self, mirror: &Repository, base: &CommitId) -> Result<(), Error> {
        let git = self.path.join(".git");
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            let folder = git.join(folder);
            fs::create_dir_all(&folder).doing_to("make the folder", &folder)?;
        }
        let mirror = fs::canonicalize(mirror.path()).doing_to("find", mirror.path())?;
        // Bytes, not text: the path is whatever the user's folders are called.
        let objects = mirror.join("objects").into_os_string().into_encoded_bytes();
        let files = [
            ("HEAD", format!("ref: refs/heads/{BRANCH}\n").into_bytes()),
            (&format!("refs/heads/{BRANCH}"), format!("{base}\n").into_bytes()),
            ("config", CONFIG.into()),
            ("info/attributes", ATTRIBUTES.into()),
            ("objects/info/alternates", [objects.as_slice(), b"\n"].concat()),
        ];
        for (name, bytes) in files {
            let file = git.join(name);
            fs::write(&file, bytes).doing_to("write", file)?;
        }
        Ok(())
    }

    /// The bytes of the file at `path`, which is relative, at most `limit` of them; nothing if
    /// there is no file. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`Error::BadPath`], [`Error::TooLarge`], or when the file can't be read.
    pub fn read_back(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        check(path)?;
        let Some((folder, name)) = self.folder_of(path, false)? else { return Ok(None) };
        let read = at::open_file(&folder, name).and_then(|file| file.map(|f| at::read(f, limit)).transpose());
        match read {
            Ok(None) => Ok(None),
            Ok(Some(at::Read::Whole(bytes))) => Ok(Some(bytes)),
            Ok(Some(at::Read::TooLarge)) => Err(Error::TooLarge { what: "the file", limit }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).doing_to("read", self.path.join(path)),
        }
    }

    /// Writes a declared output that the agent gave in words only. A file that is there is left
    /// alone; says whether it was written.
    ///
    /// # Errors
    /// [`Error::BadPath`], [`Error::Escapes`] when a folder on the way is a symbolic link or file.
    pub fn write_missing_output(&self, path: &str, contents: &[u8]) -> Result<bool, Error> {
        check(path)?;
        let escapes = || Error::Escapes { path: path.to_owned() };
        let (folder, name) = self.folder_of(path, true)?.ok_or_else(escapes)?;
        match at::create_file(&folder, name, Mode::from_raw_mode(0o666), contents) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error).doing_to("write", self.path.join(path)),
        }
    }

    /// The folder that `path` lies in, opened step by step; with `make`, made as needed. Nothing
    /// when a step is no folder.
    fn folder_of<'p>(
        &self,
        path: &'p str,
        make: bool,
    ) -> Result<Option<(rustix::fd::OwnedFd, &'p str)>, Error> {
        let mut folder = at::open_root(&self.path).doing_to("open", &self.path)?;
        let (above, name) = path.rsplit_once('/').map_or((None, path), |(above, name)| (Some(above), name));
        for step in above.into_iter().flat_map(|above| above.split('/')) {
            if make
                && let Err(error) = rustix::fs::mkdirat(&folder, step, Mode::from_raw_mode(0o777))
                && error != rustix::io::Errno::EXIST
            {
                return Err(error).doing_to("make the folder", self.path.join(path));
            }
            folder = match rustix::fs::openat(&folder, step, at::FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => next,
                Err(_) => return Ok(None),
            };
        }
        Ok(Some((folder, name)))
    }
}

fn check(path: &str) -> Result<(), Error> {
    plan::path::check(path).map_err(|why| Error::BadPath { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests;
