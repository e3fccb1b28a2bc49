//! A run as far as it was read: its state, and who had which task last, which the state forgets once
//! an attempt is over.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{EmployeeId, RunId, TaskId},
    run::{Entry, Fact, State},
};

/// A run as far as it was read.
#[derive(Clone, Debug)]
pub struct Story {
    /// Its state.
    pub state: State,
    who: BTreeMap<TaskId, EmployeeId>,
}

impl Story {
    /// A run of which nothing was read yet.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { state: State::new(run), who: BTreeMap::new() }
    }

    /// Takes a fact in.
    pub fn apply(&mut self, entry: &Entry) {
        if let Fact::Dispatched(dispatch) = &entry.fact {
            self.who.insert(dispatch.task.clone(), dispatch.employee.clone());
        }
        self.state.apply(entry);
    }

    /// Who has the task, or had it last.
    #[must_use]
    pub fn who(&self, task: &TaskId) -> Option<&EmployeeId> {
        self.who.get(task)
    }
}
