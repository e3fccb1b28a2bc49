//! Three-way merges of trees, in memory and with no policy but "never drop a side" (S36). Files are
//! merged line by line where both sides changed different lines; everything else that both sides
//! changed differently is a conflict, a rename on one side and a change on the other included.
//! Attributes and merge drivers are never looked at. Who resolves a conflict is decided elsewhere.

use std::collections::HashMap;

use ensemble_core::{ids::CommitId, outcome::Changes};
use git2::{MergeFileInput, Oid, Repository as Git};

use crate::{
    diff::{self, is_binary},
    error::{Doing, Error},
    fault,
    note::MergeNote,
    repository::Repository,
    tree::{self, Change, Changed, Edits, Entry, TreePath, commit, commit_id, spell},
};

/// How a merge ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Both sides are in `commit`, whose parents are ours and theirs.
    Clean {
        /// The merge commit. No ref points at it yet.
        commit: CommitId,
        /// What it changed against ours.
        changes: Changes,
    },
    /// Nothing was merged.
    Conflict {
        /// The files that stand against it, in order.
        files: Vec<ConflictFile>,
    },
}

/// A file that both sides changed in ways that don't go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictFile {
    /// Its path.
    pub path: String,
    /// What the sides did.
    pub what: What,
}

/// Why a file is in conflict. "Here" is ours, "there" is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Both changed the same lines, or it is no text.
    BothChanged,
    /// Both added it, differently.
    BothAdded,
    /// Deleted or renamed here, changed there.
    DeletedHere,
    /// Changed here, deleted or renamed there.
    DeletedThere,
    /// A file on one side is a folder on the other.
    FileAndFolder,
    /// It became different kinds of thing: file, symbolic link, submodule, executable or not.
    KindsDiffer,
    /// The merge would have lost lines of a side; it was not made.
    LinesLost,
}

impl What {
    /// The word that facts and messages use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BothChanged => "both_changed",
            Self::BothAdded => "both_added",
            Self::DeletedHere => "deleted_here",
            Self::DeletedThere => "deleted_there",
            Self::FileAndFolder => "file_and_folder",
            Self::KindsDiffer => "kinds_differ",
            Self::LinesLost => "lines_lost",
        }
    }
}

impl Repository {
    /// Merges `theirs` into `ours` over their common ancestor `base`, the attempt's base. Always a
    /// merge commit with two parents, never a fast-forward; the same inputs give the same id.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], [`Error::NotABase`], or when the repository can't be read or written.
    pub fn merge(
        &self,
        ours: &CommitId,
        theirs: &CommitId,
        base: &CommitId,
        note: &MergeNote,
    ) -> Result<Merge, Error> {
        fault!("workspace.merge");
        let repo = self.git()?;
        let (our, their) = (commit(&repo, ours)?, commit(&repo, theirs)?);
        let ancestor = commit(&repo, base)?;
        for side in [&our, &their] {
            let id = side.id();
            if id != ancestor.id()
                && !repo.graph_descendant_of(id, ancestor.id()).doing("walk the history")?
            {
                let (base, ours, theirs) = (base.clone(), ours.clone(), theirs.clone());
                return Err(Error::NotABase { base, ours, theirs });
            }
        }
        let from = ancestor.tree_id();
        let sides = Sides {
            ours: tree::diff(&repo, Some(from), Some(our.tree_id()))?,
            theirs: tree::diff(&repo, Some(from), Some(their.tree_id()))?,
        };
        let edits = match sides.edits(&repo)? {
            Ok(edits) => edits,
            Err(files) => return Ok(Merge::Conflict { files }),
        };
        let merged = tree::edit(&repo, Some(our.tree_id()), &edits)?;
        let changed = tree::diff(&repo, Some(our.tree_id()), Some(merged))?;
        let files = sides.unaccounted(&changed, &tree::diff(&repo, Some(their.tree_id()), Some(merged))?);
        if !files.is_empty() {
            return Ok(Merge::Conflict { files });
        }
        let changes = diff::count(&repo, &changed)?;
        let written = note.written()?;
        let tree = repo.find_tree(merged).doing("read a tree")?;
        let who = &written.signature;
        let id = repo
            .commit(None, who, who, &written.message, &tree, &[&our, &their])
            .doing("write a merge commit")?;
        fault!("workspace.merge.done");
        Ok(Merge::Clean { commit: commit_id(id)?, changes })
    }
}

/// What each side changed against the base.
struct Sides {
    ours: Changed,
    theirs: Changed,
}

impl Sides {
    /// What to do to our tree so that it holds both sides, or what stands against it.
    fn edits(&self, repo: &Git) -> Result<Result<Edits, Vec<ConflictFile>>, Error> {
        let (mut edits, mut files) = (Edits::new(), Vec::new());
        for (path, their) in &self.theirs {
            let outcome = match self.ours.get(path) {
                None if their.new.is_some() && self.in_the_way(path) => Err(What::FileAndFolder),
                None => Ok(their.new),
                Some(our) => combine(repo, *our, *their)?,
            };
            match outcome {
                Ok(entry) => drop(edits.insert(path.clone(), entry)),
                Err(what) => files.push(ConflictFile { path: spell(path), what }),
            }
        }
        Ok(if files.is_empty() { Ok(edits) } else { Err(files) })
    }

    /// Whether our side put a file where this path needs a folder, or a folder where it is a file.
    fn in_the_way(&self, path: &[u8]) -> bool {
        let put = |change: &Change| change.new.is_some();
        let above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let folder = [path, b"/"].concat();
        above.into_iter().any(|(at, _)| self.ours.get(&path[..at]).is_some_and(put))
            || self
                .ours
                .range(folder.clone()..)
                .take_while(|(below, _)| below.starts_with(&folder))
                .any(|(_, change)| put(change))
    }

    /// An independent look at the result: it may differ from one side only where the other side
    /// changed something, and there it must be the other side's file or a merge of both.
    fn unaccounted(&self, from_ours: &Changed, from_theirs: &Changed) -> Vec<ConflictFile> {
        let lost = |result: &Changed, mine: &Changed, other: &Changed| -> Vec<TreePath> {
            let kept = |path: &TreePath, change: &Change| {
                other.get(path).is_some_and(|o| o.new == change.new || mine.contains_key(path))
            };
            result.iter().filter(|(path, c)| !kept(path, c)).map(|(path, _)| path.clone()).collect()
        };
        let mut paths = lost(from_ours, &self.ours, &self.theirs);
        paths.extend(lost(from_theirs, &self.theirs, &self.ours));
        paths.sort();
        paths.dedup();
        paths.iter().map(|path| ConflictFile { path: spell(path), what: What::LinesLost }).collect()
    }
}

/// One path that both sides changed.
fn combine(repo: &Git, our: Change, their: Change) -> Result<Result<Option<Entry>, What>, Error> {
    let (ours, theirs) = match (our.new, their.new) {
        (ours, theirs) if ours == theirs => return Ok(Ok(ours)),
        (Some(ours), Some(theirs)) => (ours, theirs),
        (None, _) => return Ok(Err(What::DeletedHere)),
        (_, None) => return Ok(Err(What::DeletedThere)),
    };
    if !ours.is_file() || !theirs.is_file() {
        let same_kind = ours.mode == theirs.mode;
        return Ok(Err(if same_kind { What::BothChanged } else { What::KindsDiffer }));
    }
    let base = our.old.filter(|entry| entry.is_file());
    let mode = match base {
        _ if ours.mode == theirs.mode => ours.mode,
        Some(base) if base.mode == ours.mode => theirs.mode,
        Some(_) => ours.mode,
        None => return Ok(Err(What::KindsDiffer)),
    };
    let id = match base {
        _ if ours.id == theirs.id => ours.id,
        Some(base) if base.id == ours.id => theirs.id,
        Some(base) if base.id == theirs.id => ours.id,
        Some(base) => match merge_text(repo, base.id, ours.id, theirs.id)? {
            Ok(id) => id,
            Err(what) => return Ok(Err(what)),
        },
        None => return Ok(Err(What::BothAdded)),
    };
    Ok(Ok(Some(Entry { mode, id })))
}

/// Merges lines; every line that a side added must be in the result.
fn merge_text(repo: &Git, base: Oid, ours: Oid, theirs: Oid) -> Result<Result<Oid, What>, Error> {
    let blobs = [base, ours, theirs].map(|id| repo.find_blob(id).doing("read a file"));
    let [base, ours, theirs] = blobs;
    let (base, ours, theirs) = (base?, ours?, theirs?);
    let texts = [base.content(), ours.content(), theirs.content()];
    if texts.iter().any(|text| is_binary(text)) {
        return Ok(Err(What::BothChanged));
    }
    let [base, ours, theirs] = texts.map(|text| {
        let mut input = MergeFileInput::new();
        input.content(text);
        input
    });
    let merged = git2::merge_file(&base, &ours, &theirs, None).doing("merge a file")?;
    if !merged.is_automergeable() {
        return Ok(Err(What::BothChanged));
    }
    if !keeps_lines(texts, merged.content()) {
        return Ok(Err(What::LinesLost));
    }
    repo.blob(merged.content()).map(Ok).doing("write a merged file")
}

/// Counts each line in `[base, ours, theirs]` and in the result: a line that a side added must be
/// there as often as that side asks, less what the other side took away.
fn keeps_lines(texts: [&[u8]; 3], merged: &[u8]) -> bool {
    let mut counts: HashMap<&[u8], [i64; 4]> = HashMap::new();
    for (at, text) in texts.into_iter().chain([merged]).enumerate() {
        for line in text.split(|b| *b == b'\n') {
            counts.entry(line).or_default()[at] += 1;
        }
    }
    counts.values().all(|[base, ours, theirs, merged]| {
        let (our, their) = (ours - base, theirs - base);
        let least = if our >= 0 && their >= 0 { base + our.max(their) } else { base + our + their };
        (our <= 0 && their <= 0) || *merged >= least.max(0)
    })
}

#[cfg(test)]
mod tests;
