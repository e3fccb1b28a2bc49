//! What can go wrong with a repository or a working copy, each with its remedy. Every operation of
//! this crate may be repeated: what is already there counts as done.

use std::{io, path::PathBuf};

use ensemble_core::ids::CommitId;

/// Why an operation on a repository or a working copy failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository at the path or above it.
    #[error("{} is not in a git repository; run `git init` there first", path.display())]
    NotARepository {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The repository belongs to another user, so its configuration is not trusted.
    #[error(
        "{} belongs to another user; if you trust it, run `git config --global --add safe.directory {}`",
        path.display(), path.display()
    )]
    ForeignOwner {
        /// The repository.
        path: PathBuf,
    },
    /// The repository uses a format or extension that can't be read here.
    #[error("{} can't be read here: {what}; use a full clone in the default format (SHA-1, refs as files)", path.display())]
    Unsupported {
        /// The repository.
        path: PathBuf,
        /// Git's word for it.
        what: String,
    },
    /// A shallow clone lacks the history that names a repository.
    #[error("{} is a shallow clone; run `git fetch --unshallow` in it first", path.display())]
    Shallow {
        /// The repository.
        path: PathBuf,
    },
    /// A revision that the repository doesn't know.
    #[error("`{rev}` is not a revision of this repository; see `git log --all`")]
    NoSuchRevision {
        /// The revision as it was given.
        rev: String,
    },
    /// A commit that the repository doesn't have.
    #[error("commit {commit} is not in this repository; send it first, then repeat")]
    NoSuchCommit {
        /// The commit.
        commit: CommitId,
    },
    /// A compare-and-swap found something else.
    #[error("{name} is at {}, not where it was expected; look at it and decide anew", spell(now.as_ref()))]
    Moved {
        /// The ref.
        name: String,
        /// Where it is now; nothing if it does not exist.
        now: Option<CommitId>,
    },
    /// Another process kept a ref's lock for longer than this one was willing to wait.
    #[error(
        "{name} is locked by another process; repeat it (if no git runs there, a `.lock` file was left behind: remove it)"
    )]
    Locked {
        /// The ref.
        name: String,
    },
    /// A ref's name is malformed, or another ref is in its way.
    #[error("the name {name} can't be used: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// More bytes than allowed.
    #[error("{what} is larger than {limit} bytes; make it smaller")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A pack that is damaged or cut off.
    #[error("the pack is refused: {why}; send it again")]
    BadPack {
        /// Git's word for it.
        why: String,
    },
    /// A pack or repository that lacks an object which belongs to a commit.
    #[error("the history of {tip} is not complete: {what}; send what is missing with it")]
    Incomplete {
        /// The commit that was to be proven.
        tip: CommitId,
        /// What is missing or malformed.
        what: String,
    },
    /// The repository can't be written.
    #[error("{} is read-only; make it writable and repeat, or fetch the result into another clone", path.display())]
    ReadOnly {
        /// The repository.
        path: PathBuf,
    },
    /// A path that would leave the working copy, or go into git's own folder.
    #[error("`{path}` would leave the working copy or enter `.git`; rename it")]
    Escapes {
        /// The path.
        path: String,
    },
    /// A path that breaks the rules for paths.
    #[error("`{path}` {why}")]
    BadPath {
        /// The path.
        path: String,
        /// The rule.
        why: ensemble_core::plan::path::BadPath,
    },
    /// A working copy whose making or recycling was interrupted, or that was changed as a whole.
    #[error("{} is not a whole working copy; delete it and make a new one", path.display())]
    Unfinished {
        /// The working copy.
        path: PathBuf,
    },
    /// A merge was ordered over a base that is not an ancestor of both sides.
    #[error("{base} is not an ancestor of both {ours} and {theirs}; merge over their common ancestor")]
    NotABase {
        /// The base as it was given.
        base: CommitId,
        /// One side.
        ours: CommitId,
        /// The other side.
        theirs: CommitId,
    },
    /// A fault that a test asked for.
    #[error("injected fault at {0}")]
    Injected(&'static str),
    /// The file system said no.
    #[error("can't {doing} {}: {source}; repeat it once that is put right", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Git said no.
    #[error("can't {doing}: {}; repeating is safe", source.message())]
    Git {
        /// What was tried.
        doing: &'static str,
        /// Git's word.
        source: git2::Error,
    },
}

fn spell(commit: Option<&CommitId>) -> &str {
    commit.map_or("nothing", CommitId::as_str)
}

/// Says what was being done when the other library failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, git2::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Git { doing, source })
    }
}

/// Says what was being done, and to which file, when the system failed.
pub(crate) trait DoingTo<T> {
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> DoingTo<T> for Result<T, E> {
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing, path: path.into(), source: source.into() })
    }
}

/// Whether the system refused because nothing may be written there.
pub(crate) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
