//! Duties: what the outside still owes a run, as a function of its state. A shell starts those that
//! appear and abandons those that vanish; doing one twice is harmless.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fact::CheckOf,
    state::{Attempt, CheckState, Checks, Stage, State, TaskIx, TaskState},
};
use crate::ids::{AttemptNumber, CheckNumber, CommitId, Seq};

/// Something the outside owes the run. Its value is its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// Find a slot for this task.
    Grant {
        /// The task.
        task: TaskIx,
        /// The number that the attempt will have.
        attempt: AttemptNumber,
    },
    /// Keep this attempt alive on its node until it reports or is lost.
    Attempt {
        /// The task.
        task: TaskIx,
        /// Its attempt.
        attempt: AttemptNumber,
        /// The attempt's token.
        token: Seq,
    },
    /// Have this attempt stopped on its node until it reports or is lost.
    Stop {
        /// The task.
        task: TaskIx,
        /// Its attempt.
        attempt: AttemptNumber,
        /// The attempt's token.
        token: Seq,
    },
    /// Find a slot for this check.
    GrantCheck {
        /// What is checked.
        of: CheckOf,
        /// Which of the commands, from 0.
        command: u32,
        /// Tells the tries at this command apart, and those before the merge from those on it.
        attempt: u32,
    },
    /// Keep this check alive on its node until it reports or is lost.
    Check {
        /// What is checked.
        of: CheckOf,
        /// Number of the check attempt.
        check: CheckNumber,
        /// The check's token.
        token: Seq,
    },
    /// Make the merge commit, and move the run branch to it unless it must be checked first.
    Merge {
        /// The task.
        task: TaskIx,
        /// Its attempt.
        attempt: AttemptNumber,
        /// First parent.
        ours: CommitId,
        /// Second parent.
        theirs: CommitId,
    },
    /// Move the run branch to a merge commit that has been checked.
    Advance {
        /// The task.
        task: TaskIx,
        /// Its attempt.
        attempt: AttemptNumber,
        /// Where the branch stands.
        ours: CommitId,
        /// Where it goes.
        commit: CommitId,
    },
}

/// Duties by the task that they belong to; those of the run itself stand under `None`.
pub type Index = BTreeMap<Option<TaskIx>, BTreeSet<Duty>>;

/// All duties, computed afresh. The index in [`State`] must always equal this.
#[must_use]
pub fn all(state: &State) -> Index {
    let owners = (0_u32..).map(|ix| Some(TaskIx(ix))).take(state.tasks.len());
    owners
        .chain([None])
        .map(|owner| (owner, of_owner(state, owner)))
        .filter(|(_, duties)| !duties.is_empty())
        .collect()
}

fn of_owner(state: &State, owner: Option<TaskIx>) -> BTreeSet<Duty> {
    let mut duties = BTreeSet::new();
    match owner {
        Some(ix) => of_task(state, ix, &mut duties),
        None => of_run(state, &mut duties),
    }
    duties
}

/// The duties of the run itself: the checks of the merged tree.
fn of_run(state: &State, into: &mut BTreeSet<Duty>) {
    if state.ended.is_none()
        && !state.stopping
        && let Some(checks) = &state.final_checks
    {
        let of = CheckOf { task: None, attempt: AttemptNumber(state.check_rounds) };
        of_checks(state, &of, checks, into);
    }
}

/// The duties of one task.
fn of_task(state: &State, ix: TaskIx, into: &mut BTreeSet<Duty>) {
    let task = state.task(ix);
    if let Some(attempt) = &task.attempt {
        of_attempt(state, ix, attempt, into);
    } else if may_start(state, ix) {
        into.insert(Duty::Grant { task: ix, attempt: task.last_attempt.next() });
    }
}

/// Whether a task may be dispatched now.
pub(super) fn may_start(state: &State, ix: TaskIx) -> bool {
    let task = state.task(ix);
    task.state == TaskState::Pending
        && task.open_dependencies == 0
        && state.planned
        && state.ended.is_none()
        && !state.stopping
        && !state.paused
        && state.budget_left()
        && task.spec.exclusive.iter().all(|name| !state.held.contains_key(name))
}

/// Whether a check may be dispatched now. What belongs to an attempt is finished with it; the merged
/// tree is checked only while the run goes on.
pub(super) fn may_check(state: &State, of: &CheckOf) -> bool {
    of.task.is_some() || !(state.stopping || state.paused)
}

fn of_attempt(state: &State, ix: TaskIx, attempt: &Attempt, into: &mut BTreeSet<Duty>) {
    let number = attempt.dispatch.attempt;
    match &attempt.stage {
        Stage::Assigned | Stage::Working if attempt.stopping => {
            into.insert(Duty::Stop { task: ix, attempt: number, token: attempt.token });
        }
        Stage::Assigned | Stage::Working => {
            into.insert(Duty::Attempt { task: ix, attempt: number, token: attempt.token });
        }
        Stage::Checking(_, checks) => of_checks(state, &check_of(state, ix, number), checks, into),
        Stage::Gating(_, prepared) => of_checks(state, &check_of(state, ix, number), &prepared.checks, into),
        Stage::Queued(_) => {}
        Stage::Ordered(report, ours) => {
            if let Some(delivery) = &report.delivery {
                let theirs = delivery.commit.clone();
                into.insert(Duty::Merge { task: ix, attempt: number, ours: ours.clone(), theirs });
            }
        }
        Stage::Advancing(_, prepared) => {
            let (ours, commit) = (prepared.ours.clone(), prepared.commit.clone());
            into.insert(Duty::Advance { task: ix, attempt: number, ours, commit });
        }
    }
}

fn check_of(state: &State, ix: TaskIx, attempt: AttemptNumber) -> CheckOf {
    CheckOf { task: Some(state.task(ix).spec.id.clone()), attempt }
}

fn of_checks(state: &State, of: &CheckOf, checks: &Checks, into: &mut BTreeSet<Duty>) {
    for (command, check) in (0_u32..).zip(&checks.each) {
        match &check.state {
            CheckState::Open if may_check(state, of) => {
                let attempt = checks.before.0 + check.tries + 1;
                into.insert(Duty::GrantCheck { of: of.clone(), command, attempt });
            }
            CheckState::Live { number, token, .. } => {
                into.insert(Duty::Check { of: of.clone(), check: *number, token: *token });
            }
            CheckState::Open | CheckState::Passed => {}
        }
    }
}

/// What a batch of facts did to the duties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// To be started.
    pub appeared: BTreeSet<Duty>,
    /// To be abandoned.
    pub vanished: BTreeSet<Duty>,
}

impl Changes {
    /// Adds what came later; what came and went in between leaves no trace.
    pub fn then(&mut self, later: Self) {
        for duty in later.vanished {
            if !self.appeared.remove(&duty) {
                self.vanished.insert(duty);
            }
        }
        for duty in later.appeared {
            if !self.vanished.remove(&duty) {
                self.appeared.insert(duty);
            }
        }
    }
}

/// Whose duties a fact may have changed, collected while it is applied.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub tasks: BTreeSet<TaskIx>,
    pub all: bool,
}

impl State {
    /// Brings the index up to date for what a fact touched.
    pub(super) fn reindex(&mut self, touched: &Touched) -> Changes {
        let mut changes = Changes::default();
        if touched.all {
            let fresh = all(self);
            let stale = std::mem::replace(&mut self.duties, fresh);
            changes.vanished = stale.into_values().flatten().collect();
            let appeared =
                Changes { appeared: self.duties.values().flatten().cloned().collect(), ..Changes::default() };
            changes.then(appeared);
            return changes;
        }
        for owner in touched.tasks.iter().copied().map(Some).chain([None]) {
            let fresh = of_owner(self, owner);
            // What most facts touch owes what it owed before: look, and move nothing.
            if self.duties.get(&owner).map_or(fresh.is_empty(), |stale| *stale == fresh) {
                continue;
            }
            let stale = self.duties.remove(&owner).unwrap_or_default();
            changes.vanished.extend(stale.difference(&fresh).cloned());
            changes.appeared.extend(fresh.difference(&stale).cloned());
            if !fresh.is_empty() {
                self.duties.insert(owner, fresh);
            }
        }
        changes
    }
}
