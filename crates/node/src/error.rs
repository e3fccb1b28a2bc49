//! What can go wrong with a node itself, as opposed to an attempt, whose troubles are told to the
//! coordinator as its end.

use std::{io, path::PathBuf};

/// Why a node could not start, or could not keep something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("can't {doing} {}: {source}; put that right and repeat, which is safe", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file of the node's directory holds something else.
    #[error("{} is damaged ({what}); move it away and repeat", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The outbox was written by a newer version.
    #[error("{} was written by a newer version (format {found}, known is {known}); use that version", path.display())]
    Newer {
        /// The outbox.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The highest format known here.
        known: i64,
    },
    /// The outbox said no.
    #[error("the outbox: {0}; repeating is safe")]
    Outbox(#[from] rusqlite::Error),
    /// A working copy or mirror said no.
    #[error(transparent)]
    Workspace(#[from] ensemble_workspace::Error),
    /// An actor or task of the node has ended.
    #[error("the node has ended or is being restarted ({0}); repeating is safe")]
    Gone(&'static str),
    /// A fault that a test asked for.
    #[error("injected fault at {0}")]
    Injected(&'static str),
}

/// Says what was being done, and to which file, when the system failed.
pub(crate) trait DoingTo<T> {
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> DoingTo<T> for Result<T, io::Error> {
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing, path: path.into(), source })
    }
}
