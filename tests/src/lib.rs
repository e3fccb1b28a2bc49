//! The harness of the tests across processes: a world of its own for each test (repository, home,
//! data), the binary run in it with deadlines, a fake agent that keeps a log outside the system, and
//! the judge that holds this log, the journal, git and `/proc` against each other. The tests
//! themselves lie in `tests/`.

// A harness panics where a test would: with what it saw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod census;
mod evidence;
mod files;
mod git;
mod process;
mod world;

pub use census::Census;
pub use evidence::{Evidence, Interval, most_at_once, task_of};
pub use files::{Plan, Team};
pub use git::{Files, Git, Merge};
pub use process::{Finished, Started, tell, within};
pub use world::{World, binary};
