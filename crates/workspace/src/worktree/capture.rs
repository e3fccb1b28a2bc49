//! Taking what an attempt left in its worktree as a commit in the mirror. The folder is walked with
//! our own code; the agent's `.git` is not opened, its configuration, hooks, filters and attributes
//! mean nothing. What is left out is named, and leaving out never deletes: such a path stays as it
//! is in the base.

use std::collections::{BTreeMap, BTreeSet};

use ensemble_core::{
    ids::CommitId,
    outcome::Changes,
    plan::path::{self, BadPath},
};

use super::{
    Worktree, at,
    stat::Looks,
    store::Store,
    walk::{Found, Walk},
};
use crate::{
    diff,
    error::{Doing, DoingTo, Error},
    fault,
    note::CaptureNote,
    objects,
    repository::Repository,
    tree::{self, Edits, Entry, commit, commit_id},
};

/// What a capture found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The commit, whose only parent is the base; nothing if nothing changed. No ref points at it yet.
    pub commit: Option<CommitId>,
    /// What it changed against the base.
    pub changes: Changes,
    /// What was left out: the first [`Capture::NAMED`], in the order of the walk.
    pub skipped: Vec<Skipped>,
    /// How many more were left out.
    pub more_skipped: u64,
    /// Declared outputs that are not there, in the order they were declared.
    pub missing_outputs: Vec<String>,
}

impl Capture {
    /// How many left-out paths are named.
    pub const NAMED: usize = 100;
}

/// A path that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The path; bytes that are no text are replaced.
    pub path: String,
    /// Why.
    pub why: Why,
}

/// Why a path was left out of a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// A repository inside the worktree: its `.git` is left out, its files are not.
    #[error("is a repository's own folder")]
    NestedGit,
    /// Submodules stay as they are in the base.
    #[error("is a submodule, which stays as it was")]
    Submodule,
    /// A socket, pipe or device.
    #[error("is a socket, pipe or device")]
    Special,
    /// The system refused to read it.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// A name that breaks the rules for paths.
    #[error("{0}")]
    Name(#[from] BadPath),
    /// A name that is no text.
    #[error("has a name that is not UTF-8")]
    NotText,
    /// A symbolic link that leads out of the worktree.
    #[error("is a link that leaves the worktree or enters `.git`; link straight to a file inside")]
    LinkOut,
    /// A file of a gibibyte or more.
    #[error("is larger than {} bytes", super::walk::FILE_LIMIT)]
    TooLarge,
    /// A folder below too many others.
    #[error("lies too deep")]
    TooDeep,
}

impl Worktree {
    /// Takes what changed since `base` as a commit in `mirror`. The same files and note give the
    /// same commit. No process of the attempt may be left that writes here.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], [`Error::TooLarge`] when more changed than a pack may carry, or
    /// when the worktree can't be read or the mirror not be written.
    pub fn capture(
        &self,
        mirror: &Repository,
        base: &CommitId,
        note: &CaptureNote,
    ) -> Result<Capture, Error> {
        fault!("workspace.capture");
        // New objects gather in this handle's memory and go to the disk together, at the end.
        let (repo, disk) = (mirror.git()?, mirror.git()?);
        let store = Store::new(&repo, &disk)?;
        let parent = commit(&repo, base)?;
        // Names that are no text can't be told apart safely; such files stay as they are.
        let tracked: BTreeMap<String, Entry> = tree::files(&repo, parent.tree_id())?
            .into_iter()
            .filter_map(|(path, entry)| Some((String::from_utf8(path).ok()?, entry)))
            .collect();
        let outputs: BTreeSet<String> =
            note.outputs.iter().filter(|output| path::check(output).is_ok()).cloned().collect();
        let looks = Looks::read(&self.stat_path());
        let root = at::open_root(&self.path).doing_to("open the worktree", &self.path)?;
        let found = Walk::new(store, &tracked, &outputs, &looks).run(&root)?;
        let edits = edits(&tracked, &found);
        let changed_tree = tree::edit(&repo, Some(parent.tree_id()), &edits)?;
        let changed = tree::diff(&repo, Some(parent.tree_id()), Some(changed_tree))?;
        let id = if changed.is_empty() {
            None
        } else {
            let written = note.written()?;
            let tree = repo.find_tree(changed_tree).doing("read a tree")?;
            let who = &written.signature;
            let id = repo.commit(None, who, who, &written.message, &tree, &[&parent]);
            let id = id.doing("write a commit")?;
            objects::settle(&repo, &disk, id)?;
            Some(commit_id(id)?)
        };
        fault!("workspace.capture.done");
        Ok(Capture {
            commit: id,
            changes: diff::count(&repo, &changed)?,
            missing_outputs: note.outputs.iter().filter(|o| !found.holds(o)).cloned().collect(),
            skipped: found.skipped,
            more_skipped: found.more_skipped,
        })
    }
}

/// What turns the base into what was found.
fn edits(tracked: &BTreeMap<String, Entry>, found: &Found) -> Edits {
    let gone = tracked.keys().filter(|path| !found.files.contains_key(*path) && !found.keeps(path));
    let put = found.files.iter().filter(|(path, entry)| tracked.get(*path) != Some(entry));
    gone.map(|path| (path.clone().into_bytes(), None))
        .chain(put.map(|(path, entry)| (path.clone().into_bytes(), Some(*entry))))
        .collect()
}
