//! Running agents: the back ends, the keeper that stands between a node and an agent, and reading
//! what an agent said. One outside thing: processes. Nothing here knows of worktrees' contents,
//! git, runs, journals or the wire; the node brings those together.

pub mod backend;
mod cancel;
mod environment;
mod error;
pub mod keeper;
mod lock;
mod log;
pub mod result;
mod tail;
mod turn;

pub use backend::{Backend, Exec, Reply, Request, Session};
pub use cancel::{Cancellation, Canceller, Wish, cancellation};
pub use environment::{ALLOWED, environment};
pub use error::Error;
pub use lock::{lock_is_free, wait_until_free};
pub use log::{LogFile, LogReader};
pub use result::{OutputValue, Reading, outcome};
pub use tail::Tail;
pub use turn::{Exit, KeeperCommand, Output, Stream, Turn, TurnEnd, run};

/// The fault points of this crate; each has a second one named `….done` after the act.
pub const FAULT_POINTS: &[&str] = &["agent.spawn"];
