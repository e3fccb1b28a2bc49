//! What can go wrong in a coordinator, and what it means to a caller.

use ensemble_core::{ids::RunId, run::Refusal, source::Finding};
use tonic::Status;

/// Why a coordinator could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal refused or failed.
    #[error(transparent)]
    Journal(#[from] ensemble_journal::Error),
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] ensemble_directory::Error),
    /// A repository failed.
    #[error(transparent)]
    Workspace(#[from] ensemble_workspace::Error),
    /// A file of the data directory can't be used.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The disk is as good as full.
    #[error(
        "{free} MiB are free below {}, {floor} MiB are needed to begin a run; make room and repeat, which is safe",
        data.display()
    )]
    Full {
        /// The data directory.
        data: std::path::PathBuf,
        /// What is free, in MiB.
        free: u64,
        /// What is needed, in MiB.
        floor: u64,
    },
    /// Another process owns the run.
    #[error("run {run} is owned by process {pid}; ask that one, or wait until it has ended")]
    Owned {
        /// Which run.
        run: RunId,
        /// Whose.
        pid: u32,
    },
    /// There is no such run.
    #[error("there is no run {0} in this data directory; `ensemble ps` lists them")]
    UnknownRun(RunId),
    /// The run's files are not valid.
    #[error("{}", findings(.0))]
    Invalid(Vec<Finding>),
    /// The submission asks for something that can't be.
    #[error("{0}")]
    Unfit(String),
    /// The run's state does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run's stored state can't be understood; nothing was changed.
    #[error("run {run}: fact {seq} can't be read ({what}); it was written by another version or is damaged")]
    Damaged {
        /// Which run.
        run: RunId,
        /// Which fact.
        seq: u64,
        /// Why.
        what: String,
    },
    /// It ended while it was asked; whether it was done is not known.
    #[error("the coordinator ended before it answered; look with `ensemble show` before you try again")]
    Gone,
}

fn findings(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match &error {
            Error::Invalid(_) | Error::Unfit(_) => Self::invalid_argument(text),
            Error::UnknownRun(_) | Error::Refused(Refusal::UnknownTask) => Self::not_found(text),
            Error::Refused(_) | Error::Owned { .. } => Self::failed_precondition(text),
            Error::Gone => Self::unknown(text),
            Error::Full { .. } => Self::resource_exhausted(text),
            Error::Damaged { .. } => Self::data_loss(text),
            Error::Journal(source) => match source.doubt() {
                ensemble_journal::Doubt::Retry => Self::unavailable(text),
                ensemble_journal::Doubt::Unknown => Self::unknown(text),
                ensemble_journal::Doubt::Final => Self::failed_precondition(text),
            },
            Error::Directory(_) | Error::Workspace(_) | Error::Io { .. } => Self::internal(text),
        }
    }
}
