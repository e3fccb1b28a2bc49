//! What can go wrong around an agent, as opposed to what the agent itself does wrong: that is an
//! `Exit` and costs the task an attempt, these do not.

use std::{io, path::PathBuf};

/// Why a turn has no end to report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The keeper's process could not be started. Nothing runs.
    #[error("can't start the keeper `{}`: {source}; nothing was started, repeating is safe", program.display())]
    Spawn {
        /// The program that was to be the keeper.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another keeper still holds the attempt's directory. Nothing was started.
    #[error(
        "`{}` is still locked by an earlier agent's keeper; nothing was started, repeat once the lock is free",
        lock.display()
    )]
    Held {
        /// The lock file.
        lock: PathBuf,
    },
    /// The keeper could not do its work and started nothing.
    #[error("the keeper refused: {why}; nothing was started, repeating is safe")]
    Refused {
        /// What it said.
        why: String,
    },
    /// The keeper's process ended, or stopped talking, before it had ended the agent.
    #[error(
        "the keeper was lost ({how}); {swept} processes of its session were killed, but some that made a session \
         of their own may be left; repeat in another directory"
    )]
    Lost {
        /// How it ended.
        how: String,
        /// Processes killed in its stead.
        swept: usize,
    },
    /// Processes of the agent outlive SIGKILL (stuck in the kernel, or another user's). The keeper
    /// stays and holds the lock until they are gone.
    #[error(
        "processes of the agent can't be ended; its directory stays locked until they are gone, repeat in another \
         directory"
    )]
    Survivors,
    /// A file or pipe of the attempt failed.
    #[error("{what}: {source}; whatever was started is being killed, repeat once the lock is free")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A fault point fired.
    #[error("fault point `{0}`")]
    Fault(&'static str),
}

impl Error {
    /// An [`Error::Io`] for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
