//! The state of a run: a fold over its facts. Its fields and look-ups live here; the types of one
//! task are in `task`, what changes them is `apply`, what may change them is `admit`, what follows from them is `duty` and `decide`.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use super::task::{
    Attempt, Check, CheckState, Checks, Counts, Delivered, LossWord, Prepared, Previous, Stage, Task,
    TaskState, Why,
};
use super::{
    duty::{Duty, Index},
    fact::{CheckOf, EndState, Member, Submitted, WaitReason},
};
use crate::{
    ids::{AttemptNumber, CommitId, Epoch, RunId, Seq, TaskId},
    text::Text,
};

/// Attempts of a task that may fail by what the agent did, when nothing else is said.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;

/// Losses of one task that are borne; each costs no attempt, but they must not go on for ever.
pub const MAX_LOSSES: u32 = 10;

/// Refusals of one task that are borne; several coordinators may grant the same slot at once.
pub const MAX_REFUSALS: u32 = 100;

/// Place of a task in the plan's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TaskIx(pub u32);

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The run.
    pub run: RunId,
    /// Sequence of the last fact applied.
    pub seq: Seq,
    /// Epoch of the last fact applied.
    pub epoch: Epoch,
    /// What was asked for; `None` before the first fact.
    pub submitted: Option<Box<Submitted>>,
    /// Time of the first fact.
    pub began_ms: u64,
    /// Time of the last fact.
    pub changed_ms: u64,
    /// What the project is, from the plan.
    pub scope: Text,
    /// The plan's conventions.
    pub conventions: Vec<Text>,
    /// Whether the whole plan is here.
    pub planned: bool,
    /// The tasks in plan order.
    pub tasks: Vec<Task>,
    pub(super) by_id: BTreeMap<TaskId, TaskIx>,
    /// The run branch's head.
    pub head: Option<CommitId>,
    /// The one merge that is under way.
    pub merging: Option<TaskIx>,
    pub(super) merge_queue: VecDeque<TaskIx>,
    pub(super) accept_queue: VecDeque<TaskIx>,
    /// Holders of exclusive names.
    pub(super) held: BTreeMap<String, TaskIx>,
    /// The tasks that use an exclusive name.
    pub(super) users: BTreeMap<String, Vec<TaskIx>>,
    /// The checks of the merged tree, once all tasks succeeded.
    pub final_checks: Option<Checks>,
    /// How often the checks of the merged tree were started afresh.
    pub check_rounds: u32,
    /// A failed check of the merged tree, for people.
    pub check_failure: Option<String>,
    /// The end of that check's output.
    pub check_output: Text,
    /// Whether somebody wants the whole run to stop.
    pub stopping: bool,
    /// Whether somebody wants nothing new to start.
    pub paused: bool,
    /// For what the run waits, if it does.
    pub waiting: Option<WaitReason>,
    /// How the run ended, if it did.
    pub ended: Option<EndState>,
    /// Why, when not delivered.
    pub end_reason: String,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Tasks by state.
    pub counts: Counts,
    /// Attempts dispatched so far, those that a node refused not counted.
    pub turns: u64,
    /// Tokens that agents said they used.
    pub tokens: u64,
    /// What was spent when somebody last granted the budget anew.
    pub(super) renewed: Spent,
    pub(super) duties: Index,
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub turns: u64,
    pub tokens: u64,
}

/// States of a run, as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// The plan is not complete.
    Planning,
    /// Tasks are under way.
    Running,
    /// A person must do something.
    Waiting,
    /// The merged tree is checked.
    Checking,
    /// The result is there.
    Delivered,
    /// A task failed, or a check.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl RunState {
    /// The word that is stored and printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Checking => "checking",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl State {
    /// The state of a run of which nothing is known yet.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            seq: Seq(0),
            epoch: Epoch(0),
            submitted: None,
            began_ms: 0,
            changed_ms: 0,
            scope: Text::default(),
            conventions: Vec::new(),
            planned: false,
            tasks: Vec::new(),
            by_id: BTreeMap::new(),
            head: None,
            merging: None,
            merge_queue: VecDeque::new(),
            accept_queue: VecDeque::new(),
            held: BTreeMap::new(),
            users: BTreeMap::new(),
            final_checks: None,
            check_rounds: 0,
            check_failure: None,
            check_output: Text::default(),
            stopping: false,
            paused: false,
            waiting: None,
            ended: None,
            end_reason: String::new(),
            ended_ms: None,
            counts: Counts::default(),
            turns: 0,
            tokens: 0,
            renewed: Spent::default(),
            duties: Index::new(),
        }
    }

    /// The task of this id.
    #[must_use]
    pub fn find(&self, id: &TaskId) -> Option<(TaskIx, &Task)> {
        let ix = *self.by_id.get(id)?;
        Some((ix, self.task(ix)))
    }

    /// The task at this place.
    #[must_use]
    pub fn task(&self, ix: TaskIx) -> &Task {
        &self.tasks[ix.0 as usize]
    }

    pub(super) fn task_mut(&mut self, ix: TaskIx) -> &mut Task {
        &mut self.tasks[ix.0 as usize]
    }

    /// The employees that may do a task.
    pub fn eligible(&self, task: &Task) -> impl Iterator<Item = &Member> {
        let roster = self.submitted.as_ref().map_or(&[][..], |submitted| &submitted.roster);
        task.eligible.iter().filter_map(move |place| roster.get(*place as usize))
    }

    /// The longest time of one attempt of `task` by `member`, in milliseconds.
    #[must_use]
    pub fn timeout_ms(task: &Task, member: &Member) -> u64 {
        task.spec.timeout_ms.unwrap_or(member.timeout_ms)
    }

    /// The checks that are under way for `of`.
    #[must_use]
    pub fn checks(&self, of: &CheckOf) -> Option<&Checks> {
        let Some(task) = &of.task else {
            return (of.attempt.0 == self.check_rounds).then_some(self.final_checks.as_ref()).flatten();
        };
        let attempt = self.find(task)?.1.attempt.as_ref()?;
        (attempt.dispatch.attempt == of.attempt).then_some(attempt.stage.checks()).flatten()
    }

    /// Whether the budget allows another attempt.
    #[must_use]
    pub fn budget_left(&self) -> bool {
        let Some(submitted) = &self.submitted else { return true };
        let (turns, tokens) =
            (self.turns.saturating_sub(self.renewed.turns), self.tokens.saturating_sub(self.renewed.tokens));
        submitted.budget.turns.is_none_or(|limit| turns < limit)
            && submitted.budget.tokens.is_none_or(|limit| tokens < limit)
    }

    /// What the run is doing, in one word.
    #[must_use]
    pub fn state(&self) -> RunState {
        match (self.ended, self.waiting) {
            (Some(EndState::Delivered), _) => RunState::Delivered,
            (Some(EndState::Failed), _) => RunState::Failed,
            (Some(EndState::Stopped), _) => RunState::Stopped,
            (None, Some(_)) => RunState::Waiting,
            (None, None) if !self.planned => RunState::Planning,
            (None, None) if self.final_checks.is_some() => RunState::Checking,
            (None, None) => RunState::Running,
        }
    }

    /// What the outside owes the run now.
    pub fn duties(&self) -> impl Iterator<Item = &Duty> {
        self.duties.values().flatten()
    }

    /// The name of the run's result branch, without `refs/heads/`.
    #[must_use]
    pub fn branch(&self) -> String {
        result_branch(self.run)
    }
}

/// The name of a run's result branch, without `refs/heads/`.
#[must_use]
pub fn result_branch(run: RunId) -> String {
    format!("ensemble/{run}")
}

/// The ref under which an attempt's commit is kept.
#[must_use]
pub fn attempt_ref(run: RunId, task: &TaskId, attempt: AttemptNumber) -> String {
    format!("refs/ensemble/{run}/{task}/{attempt}")
}
