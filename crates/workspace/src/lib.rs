//! Working copies: bare repositories, packs between them, in-memory merges, an attempt's isolated
//! worktree and its capture, and the little that is done in the user's own repository (S35–S39).
//! Everything here is synchronous; callers move it off their threads. Nothing of a repository's
//! configuration, hooks, filters, attributes or merge drivers is ever run. Who may call what, and
//! when, is decided elsewhere.

mod diff;
mod error;
mod merge;
mod note;
mod objects;
mod pack;
mod refs;
mod repository;
mod tree;
mod user;
mod worktree;

#[cfg(test)]
mod testing;

pub use diff::{FileChange, FileStatus};
pub use error::Error;
pub use merge::{ConflictFile, Merge, What};
pub use note::{CaptureNote, MergeNote};
pub use refs::Expect;
pub use repository::Repository;
pub use user::{BranchMove, Head, Standing, UserRepository, is_branch_name};
pub use worktree::{Capture, Skipped, Why, Worktree};

/// The fault points of this crate. Each stands before its effect under this name, and after it
/// under this name with `.done` appended.
pub const FAULT_POINTS: &[&str] = &[
    "workspace.capture",
    "workspace.merge",
    "workspace.ref",
    "workspace.pack",
    "workspace.checkout",
    "workspace.recycle",
];

/// A fault point: with the feature `faults` the tests make it fail, else it is nothing.
macro_rules! fault {
    ($name:literal) => {
        fail::fail_point!($name, |_| Err($crate::Error::Injected($name)))
    };
}
pub(crate) use fault;
