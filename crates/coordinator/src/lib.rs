//! The coordinator's role: it owns runs. Actors (`Coordinator`, `Run`, `NodeLink`, `Workforce`,
//! `Repository`) carry messages and perform effects; every decision is taken in `ensemble-core`.
//! It executes nothing of a project: agents and checks run on nodes.

mod clock;
mod coordinator;
mod error;
mod handle;
mod link;
mod logs;
mod offline;
mod repository;
mod room;
mod run;
mod service;
mod submit;
mod workforce;

use std::{path::PathBuf, time::Duration};

pub use coordinator::Standing;
use ensemble_core::ids::CoordinatorId;
use ensemble_journal::Journal;
pub use error::Error;
pub use handle::CoordinatorHandle;
pub use logs::{name as log_name, path as log_path};
pub use offline::stop as stop_unowned;
pub use run::load::{blob_text, entry, whole};
pub use submit::Submission;

/// Points at which tests inject faults, those of the crates below included.
#[must_use]
pub fn fault_points() -> Vec<&'static str> {
    let own = ["coordinator.send", "coordinator.receipt"];
    let below =
        [ensemble_journal::FAULT_POINTS, ensemble_directory::FAULT_POINTS, ensemble_workspace::FAULT_POINTS];
    own.into_iter().chain(below.into_iter().flatten().copied()).collect()
}

/// How a coordinator is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// Who it is.
    pub id: CoordinatorId,
    /// Where it answers; named in the lock files of its runs.
    pub socket: PathBuf,
    /// The length of a lease between it and a node.
    pub link_ttl: Duration,
    /// Whether the process's own node is the only one.
    pub embedded: bool,
}

/// Starts a coordinator over an open journal.
///
/// # Errors
/// [`Error::Unfit`] when it can't be started.
pub async fn start(
    config: Config,
    journal: Journal,
    directory: ensemble_directory::Local,
) -> Result<CoordinatorHandle, Error> {
    CoordinatorHandle::start(config, journal, directory).await
}
