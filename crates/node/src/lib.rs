//! The role of a node: it hosts employees, carries out attempts and checks in isolated working
//! copies, and keeps every end on its disk until a coordinator has acknowledged it. It decides
//! nothing about runs and never opens a journal; what the words on the link mean is `core`.

mod attempt;
mod clock;
mod employee;
mod error;
mod folder;
mod home;
mod link;
mod mirrors;
mod node;
mod outbox;
mod peers;
mod pool;
mod ports;
mod prune;
mod recover;
mod restart;
mod room;
mod store;
mod transfer;

pub use ensemble_agent::KeeperCommand;
pub use error::Error;
pub use home::Home;
pub use node::{Config, NodeHandle, start};
pub use peers::{Coordinators, one_coordinator};
pub use prune::{Pruned, prune};
pub use transfer::{Dial, Dialling, Unreached};

/// The fault points of this crate. Each stands before its effect under this name, and after it
/// under this name with `.done` appended.
const FAULT_POINTS: [&str; 4] = ["node.assign", "node.outbox", "node.receipt", "node.send"];

/// All fault points of a node's process: its own, those of its working copies and of its agents.
/// Each has a second one named `….done`.
#[must_use]
pub fn fault_points() -> Vec<&'static str> {
    [&FAULT_POINTS, ensemble_workspace::FAULT_POINTS, ensemble_agent::FAULT_POINTS].concat()
}

/// A fault point: with the feature `faults` the tests make it fail, else it is nothing.
macro_rules! fault {
    ($name:literal) => {
        fail::fail_point!($name, |_| Err($crate::Error::Injected($name)))
    };
}
pub(crate) use fault;
