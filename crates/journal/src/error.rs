//! What can go wrong, and whether repeating is safe.
//! Errors of SQLite and of the file system become ours here and nowhere else.

use std::{
    error::Error as StdError,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ensemble_core::ids::{Epoch, Seq};
use rusqlite::ErrorCode;

use crate::Stream;

/// Whether an operation that failed may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Nothing was stored; repeating is safe and may succeed.
    Retry,
    /// It may have been stored: read before doing anything else.
    Unknown,
    /// Nothing was stored, and repeating the same can't succeed.
    Final,
}

/// Why the journal did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The stream's epoch is another one: somebody else claimed it, or nobody did.
    #[error("{stream} is at epoch {current}: nothing was stored; reload and claim it again, or stop")]
    Fenced {
        /// The stream.
        stream: Stream,
        /// Its epoch now; `Epoch(0)` when it was never claimed.
        current: Epoch,
    },
    /// The batch does not follow the last stored fact.
    #[error("{stream} ends at fact {at}: nothing was stored; reload it before appending")]
    OutOfSequence {
        /// The stream.
        stream: Stream,
        /// Its last fact.
        at: Seq,
    },
    /// The batch is above a bound.
    #[error(
        "{size} {unit} in one batch, the limit is {limit}: nothing was stored; split it, or put large bodies into blobs"
    )]
    Oversized {
        /// What was counted: facts or bytes.
        unit: &'static str,
        /// How many there are.
        size: usize,
        /// How many may be.
        limit: usize,
    },
    /// No space is left.
    #[error("no space left for `{path}`: nothing was stored; free some, then repeating is safe")]
    Full {
        /// The file or folder that could not grow.
        path: PathBuf,
    },
    /// Another process held the database for too long.
    #[error("`{path}` was held by another process for too long: nothing was stored, repeating is safe")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// It may or may not have been stored.
    #[error("it is unknown whether this was stored: {detail}; read the journal before going on")]
    Unknown {
        /// What happened.
        detail: String,
    },
    /// A file does not hold what was written.
    #[error("`{path}` is damaged ({detail}); it was left as it is: restore it from a copy, or move it away")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The journal was written by a newer release.
    #[error(
        "`{path}` has schema {found}, this release knows up to {known}; it was left as it is: use a newer release"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The highest version known here.
        known: i64,
    },
    /// The file is a database of something else.
    #[error("`{path}` is not a journal of ensemble; it was left as it is: choose another data directory")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("`{path}`: {source}; nothing was stored")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's word.
        source: Arc<io::Error>,
    },
    /// The database failed before anything was stored.
    #[error("`{path}`: {source}; nothing was stored")]
    Store {
        /// The database.
        path: PathBuf,
        /// The database's word.
        source: Arc<dyn StdError + Send + Sync>,
        /// Whether it may be otherwise a moment later.
        passing: bool,
    },
    /// A fault that was asked for at a fault point, before anything was stored.
    #[error("fault injected at {point}: nothing was stored, repeating is safe")]
    Injected {
        /// The fault point.
        point: &'static str,
    },
    /// The journal was closed before.
    #[error("the journal is closed: nothing was stored")]
    Closed,
}

impl Error {
    /// Whether repeating is safe.
    #[must_use]
    pub fn doubt(&self) -> Doubt {
        match self {
            Self::Full { .. }
            | Self::Busy { .. }
            | Self::Store { passing: true, .. }
            | Self::Injected { .. } => Doubt::Retry,
            Self::Unknown { .. } => Doubt::Unknown,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory => Doubt::Final,
                _ => Doubt::Retry,
            },
            Self::Fenced { .. }
            | Self::OutOfSequence { .. }
            | Self::Oversized { .. }
            | Self::Store { passing: false, .. }
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Foreign { .. }
            | Self::Closed => Doubt::Final,
        }
    }

    /// Whether only this one write is refused, and the transaction around it goes on.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Fenced { .. } | Self::OutOfSequence { .. } | Self::Oversized { .. } | Self::Injected { .. }
        )
    }

    /// Turns a file system's error on `path` into ours.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source: Arc::new(source) },
        }
    }

    /// Turns an error of the database at `path` into ours, for anything but a commit.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        // Growing the index of the write-ahead log on a full disk reports this instead of "full".
        if source.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
            return Self::Full { path: path.to_owned() };
        }
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, detail: source.to_string() }
            }
            code => Self::Store { path, source: Arc::new(source), passing: code.is_some_and(is_passing) },
        }
    }

    /// Turns an error of a commit into ours. A full disk and a lock are certain: the mark that
    /// ends a transaction is written last. After anything else it may be on disk.
    pub(crate) fn commit(path: &Path, source: rusqlite::Error) -> Self {
        match Self::sqlite(path, source) {
            certain @ (Self::Full { .. } | Self::Busy { .. }) => certain,
            other => Self::Unknown { detail: other.to_string() },
        }
    }
}

/// The device, memory or open files may recover; a read-only file or a wrong statement does not.
fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationInterrupted
            | ErrorCode::SchemaChanged
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_full_disk_is_certain_and_may_be_repeated() {
        let path = Path::new("journal.db");
        for error in [
            Error::sqlite(path, failure(ffi::SQLITE_FULL)),
            Error::sqlite(path, failure(ffi::SQLITE_IOERR_SHMSIZE)),
            Error::commit(path, failure(ffi::SQLITE_FULL)),
            Error::io(path, io::ErrorKind::StorageFull.into()),
        ] {
            assert!(matches!(error, Error::Full { .. }), "{error}");
            assert_eq!(error.doubt(), Doubt::Retry);
        }
    }

    #[test]
    fn a_commit_whose_sync_failed_is_in_doubt_but_a_statement_is_not() {
        let path = Path::new("journal.db");
        let code = ffi::SQLITE_IOERR_FSYNC;
        assert_eq!(Error::commit(path, failure(code)).doubt(), Doubt::Unknown);
        assert_eq!(Error::sqlite(path, failure(code)).doubt(), Doubt::Retry);
    }

    #[test]
    fn damage_and_a_read_only_file_are_final() {
        let path = Path::new("journal.db");
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_READONLY] {
            assert_eq!(Error::sqlite(path, failure(code)).doubt(), Doubt::Final);
        }
    }
}
