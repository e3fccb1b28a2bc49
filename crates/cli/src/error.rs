//! What a verb can end with when it does not do what it was asked: exit codes, one-line messages with
//! their remedy, and the same as JSON. What the outcome of a run means for the exit code lives here too.

use std::{fmt, io, path::PathBuf, time::Duration};

use ensemble_coordinator::Error as Owned;
use ensemble_core::{ids::RunId, run::state::RunState, source::Finding};
use ensemble_proto::{Advice, advice};
use ensemble_workspace::Error as Git;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for is done; for a run: delivered.
    Good = 0,
    /// A task failed, or the work could not be done.
    Failed = 1,
    /// Usage, an invalid file, or something that this version does not have.
    Usage = 2,
    /// A person must do something first, or only blocked tasks are left.
    Waiting = 3,
    /// Nobody answers.
    Unreachable = 4,
    /// Interrupted; the run can go on.
    Interrupted = 130,
}

impl Exit {
    /// The exit code that a run in this state stands for.
    #[must_use]
    pub fn of(state: RunState) -> Self {
        match state {
            RunState::Delivered => Self::Good,
            RunState::Failed | RunState::Stopped => Self::Failed,
            RunState::Waiting => Self::Waiting,
            RunState::Planning | RunState::Running | RunState::Checking => Self::Interrupted,
        }
    }
}

/// Why a verb did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request makes no sense as it stands.
    #[error("{what}; {remedy}")]
    Usage {
        /// What is wrong with it.
        what: String,
        /// How to put it right.
        remedy: String,
    },
    /// Files are refused; the findings were printed, or stand in the JSON.
    #[error("{}", refused(.0))]
    Files(Vec<Finding>),
    /// Something that later versions have.
    #[error("{what} is not available in this version; {instead}")]
    Later {
        /// What was asked for.
        what: String,
        /// What there is.
        instead: String,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] ensemble_journal::Error),
    /// The user's repository, or a working copy.
    #[error(transparent)]
    Git(#[from] ensemble_workspace::Error),
    /// A stored fact that this version can't read.
    #[error("fact {seq} of run {run} can't be read: {why}; use the version of ensemble that wrote it")]
    Fact {
        /// The run.
        run: RunId,
        /// Where in it.
        seq: u64,
        /// What is wrong.
        why: String,
    },
    /// Who owns a run can't be told.
    #[error(transparent)]
    Directory(#[from] ensemble_directory::Error),
    /// The coordinator in this process.
    #[error(transparent)]
    Coordinator(#[from] ensemble_coordinator::Error),
    /// The node in this process.
    #[error(transparent)]
    Node(#[from] ensemble_node::Error),
    /// A coordinator refused, or did not answer.
    #[error("can't {doing}: {}; {}", status.message(), again(status))]
    Call {
        /// What was tried.
        doing: &'static str,
        /// Its answer.
        status: Box<Status>,
    },
    /// Nobody answers at a socket.
    #[error("nobody answers at {}; the process may just have ended: repeat it", socket.display())]
    Unreachable {
        /// Where.
        socket: PathBuf,
    },
    /// A part of this process broke.
    #[error("{0}; what is journalled is safe: go on with `ensemble resume`")]
    Broken(String),
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
    /// Nobody reads standard output any more.
    #[error("standard output is closed")]
    Closed,
}

/// Whether repeating a call is safe, in words.
fn again(status: &Status) -> &'static str {
    match advice(status) {
        Advice::Retry => "nothing was done, repeat it",
        Advice::Unknown => "it may have been done: look with `ensemble show` before you repeat it",
        Advice::Final => "repeating it as it is gives the same",
    }
}

fn refused(findings: &[Finding]) -> String {
    let files: std::collections::BTreeSet<&str> = findings.iter().map(|one| one.file.as_str()).collect();
    let files = files.into_iter().collect::<Vec<_>>().join(", ");
    format!("{files}: refused; put right what is named above, then repeat")
}

impl Error {
    /// A request that makes no sense, with how to put it right.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), remedy: remedy.into() }
    }

    /// A part of this process that ended when it should not have.
    pub fn broken(what: impl fmt::Display) -> Self {
        Self::Broken(what.to_string())
    }

    /// How the process ends with it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::Files(_) | Self::Later { .. } => Exit::Usage,
            Self::Git(
                Git::NotARepository { .. }
                | Git::ForeignOwner { .. }
                | Git::Unsupported { .. }
                | Git::Shallow { .. }
                | Git::BadName { .. }
                | Git::NoSuchRevision { .. },
            ) => Exit::Usage,
            Self::Call { status, .. } => match status.code() {
                Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => Exit::Usage,
                Code::Unavailable => Exit::Unreachable,
                _ => Exit::Failed,
            },
            Self::Coordinator(
                Owned::Owned { .. }
                | Owned::UnknownRun(_)
                | Owned::Refused(_)
                | Owned::Invalid(_)
                | Owned::Unfit(_),
            ) => Exit::Usage,
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Closed => Exit::Good,
            _ => Exit::Failed,
        }
    }

    /// Whether the same may succeed a moment later, for what is safe to repeat.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Call { status, .. } => advice(status) != Advice::Final,
            Self::Git(Git::Locked { .. } | Git::Injected(_)) => true,
            _ => false,
        }
    }

    /// A short, stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "usage",
            Self::Files(_) => "invalid_file",
            Self::Later { .. } => "not_available",
            Self::Journal(_) | Self::Fact { .. } => "journal",
            Self::Git(_) => "repository",
            Self::Directory(_) => "directory",
            Self::Coordinator(_) => "coordinator",
            Self::Node(_) => "node",
            Self::Call { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Broken(_) => "internal",
            Self::Io { .. } => "io",
            Self::Closed => "closed",
        }
    }

    /// The error for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error =
            json!({ "code": self.code(), "message": self.to_string(), "exit": self.exit() as u8 });
        if let (Self::Files(findings), Some(map)) = (self, error.as_object_mut()) {
            map.insert("findings".to_owned(), json!(findings));
        }
        json!({ "error": error })
    }
}

/// Says what was being done, and to which file, when the system failed.
pub trait DoingTo<T> {
    /// The same result with that said.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> DoingTo<T> for io::Result<T> {
    fn doing_to(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing, path: path.into(), source })
    }
}

/// Says what a call was about when it failed.
pub trait Said<T> {
    /// The same result with that said.
    ///
    /// # Errors
    /// [`Error::Call`].
    fn said(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Said<T> for Result<T, Status> {
    fn said(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|status| Error::Call { doing, status: Box::new(status) })
    }
}

/// Pauses before something that is safe to repeat is tried again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1)];

/// Tries what is safe to repeat a few times, as long as its errors are passing ones.
///
/// # Errors
/// The last one.
pub async fn patiently<T>(mut attempt: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for pause in PAUSES {
        match attempt().await {
            Err(error) if error.is_passing() => tokio::time::sleep(pause).await,
            done => return done,
        }
    }
    attempt().await
}

/// A list of choices for a message: `a, b or c`.
#[must_use]
pub fn or_list<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.to_string(),
        [head @ .., last] => {
            let head = head.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("{head} or {last}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(status: Status) -> Error {
        Error::Call { doing: "stop", status: Box::new(status) }
    }

    #[test]
    fn exit_codes_tell_usage_from_failure_and_from_silence() {
        let exits = [
            Error::usage("a", "b").exit(),
            call(Status::failed_precondition("it is over")).exit(),
            call(Status::internal("broken")).exit(),
            call(Status::unavailable("gone")).exit(),
            Error::from(Git::Shallow { path: "/r".into() }).exit(),
        ];
        assert_eq!(exits, [Exit::Usage, Exit::Usage, Exit::Failed, Exit::Unreachable, Exit::Usage]);
    }

    #[test]
    fn an_error_says_whether_repeating_is_safe_and_is_an_object_for_programs() {
        let error = call(Status::unavailable("gone"));
        assert_eq!(error.to_string(), "can't stop: gone; nothing was done, repeat it");
        let object = Error::usage("no run", "see ps").to_json();
        assert_eq!(object, json!({ "error": { "code": "usage", "message": "no run; see ps", "exit": 2 } }));
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_what_is_final_is_not() {
        let mut tries = 0;
        let done = patiently(async || {
            tries += 1;
            if tries < 3 { Err(call(Status::unavailable("gone"))) } else { Ok(tries) }
        });
        assert_eq!(done.await.unwrap(), 3);
        let mut tries = 0;
        let done = patiently(async || {
            tries += 1;
            Err::<(), _>(call(Status::invalid_argument("no")))
        });
        assert!(done.await.is_err());
        assert_eq!(tries, 1);
    }

    #[test]
    fn choices_read_as_a_sentence() {
        assert_eq!(or_list(&["a", "b", "c"]), "a, b or c");
    }
}
