//! A run: its facts, its state as a fold over them, and what follows from it. `admit` guards what may
//! be stored, `State::apply` is the only place that changes state, `duty` says what the outside owes,
//! `decide` what the run itself does next. Nothing here performs anything.

mod admit;
mod apply;
mod attempt;
mod check;
mod decide;
pub mod duty;
pub mod fact;
mod merge;
pub mod state;
mod submission;
mod task;
pub mod view;

pub use admit::{Refusal, admit};
pub use decide::decide;
pub use duty::{Changes, Duty};
pub use fact::{Entry, Fact};
pub use state::State;
pub use view::{TaskView, View};
