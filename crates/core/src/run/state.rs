//! The state of a run: a fold over its facts. Types and look-ups live here; what changes them is
//! `apply`, what may change them is `admit`, what follows from them is `duty` and `decide`.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::{
    duty::{Duty, Index},
    fact::{CheckOf, Dispatch, EndState, Member, Place, Report, Submitted, WaitReason},
};
use crate::{
    ids::{AttemptNumber, CheckNumber, CommitId, Epoch, RunId, Seq, TaskId},
    outcome::{Changes, Delivery, Outcome},
    plan::TaskSpec,
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
    /// Whether somebody wants the whole run to stop.
    pub stopping: bool,
    /// For what the run waits, if it does.
    pub waiting: Option<WaitReason>,
    /// How the run ended, if it did.
    pub ended: Option<EndState>,
    /// Why, when not delivered.
    pub end_reason: String,
    /// Tasks by state.
    pub counts: Counts,
    /// Attempts dispatched so far.
    pub turns: u64,
    /// Tokens that agents said they used.
    pub tokens: u64,
    pub(super) duties: Index,
}

/// A task and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What is to be done.
    pub spec: TaskSpec,
    /// How far it is.
    pub state: TaskState,
    /// Who may do it: places in the roster.
    pub eligible: Vec<u32>,
    pub(super) dependants: Vec<TaskIx>,
    /// Dependencies that have not succeeded yet.
    pub open_dependencies: u32,
    /// Number of the last attempt.
    pub last_attempt: AttemptNumber,
    /// Attempts that count.
    pub failures: u32,
    /// Attempts that were lost.
    pub losses: u32,
    /// Attempts that nodes refused.
    pub refusals: u32,
    /// The attempt under way.
    pub attempt: Option<Attempt>,
    /// The last attempt that did not succeed, for the next brief.
    pub previous: Option<Previous>,
    /// What to tell the employee first.
    pub prompt: Option<Text>,
    /// Why it is blocked, failed or stopped.
    pub why: Option<Why>,
    /// What it delivered, once it succeeded.
    pub delivered: Option<Delivered>,
    /// When its state last changed.
    pub changed_ms: u64,
}

/// States of a task, as stored and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Not begun; its dependencies may be open.
    Pending,
    /// Given to a node.
    Dispatched,
    /// Its agent or its checks run.
    Running,
    /// Its commit waits for, or is in, a merge.
    Merging,
    /// Merged, or accepted with nothing to merge.
    Success,
    /// Its attempts are used up.
    Failed,
    /// It can't go on until something else changes.
    Blocked,
    /// Somebody stopped it.
    Stopped,
}

impl TaskState {
    /// The word that is stored and printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dispatched => "dispatched",
            Self::Running => "running",
            Self::Merging => "merging",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
        }
    }
}

/// How many tasks are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// [`TaskState::Pending`].
    pub pending: u32,
    /// [`TaskState::Dispatched`].
    pub dispatched: u32,
    /// [`TaskState::Running`].
    pub running: u32,
    /// [`TaskState::Merging`].
    pub merging: u32,
    /// [`TaskState::Success`].
    pub success: u32,
    /// [`TaskState::Failed`].
    pub failed: u32,
    /// [`TaskState::Blocked`].
    pub blocked: u32,
    /// [`TaskState::Stopped`].
    pub stopped: u32,
}

impl Counts {
    pub(super) fn of(&mut self, state: TaskState) -> &mut u32 {
        match state {
            TaskState::Pending => &mut self.pending,
            TaskState::Dispatched => &mut self.dispatched,
            TaskState::Running => &mut self.running,
            TaskState::Merging => &mut self.merging,
            TaskState::Success => &mut self.success,
            TaskState::Failed => &mut self.failed,
            TaskState::Blocked => &mut self.blocked,
            TaskState::Stopped => &mut self.stopped,
        }
    }

    /// Tasks that something outside is doing.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.dispatched + self.running + self.merging
    }
}

/// A try at a task that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What was fixed at its dispatch.
    pub dispatch: Dispatch,
    /// Its token: the sequence of that fact.
    pub token: Seq,
    /// When it was dispatched.
    pub since_ms: u64,
    /// How far it is.
    pub stage: Stage,
    /// Whether somebody wants it to stop.
    pub stopping: bool,
    /// Number of its last check.
    pub last_check: CheckNumber,
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The node has been told, or will be.
    Assigned,
    /// Its agent runs.
    Working,
    /// Its agent reported; its checks run on its commit.
    Checking(Box<Report>, Checks),
    /// It is through; its commit waits for the merge.
    Queued(Box<Report>),
    /// Its merge is ordered onto this head.
    Ordered(Box<Report>, CommitId),
    /// The merge commit exists; the run's checks run on it (`gate: each`).
    Gating(Box<Report>, Prepared),
    /// All is checked; the branch moves to the merge commit.
    Advancing(Box<Report>, Prepared),
}

impl Stage {
    /// The report, once there is one.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Assigned | Self::Working => None,
            Self::Checking(report, _)
            | Self::Queued(report)
            | Self::Ordered(report, _)
            | Self::Gating(report, _)
            | Self::Advancing(report, _) => Some(report),
        }
    }

    pub(super) fn checks_mut(&mut self) -> Option<&mut Checks> {
        match self {
            Self::Checking(_, checks) => Some(checks),
            Self::Gating(_, prepared) => Some(&mut prepared.checks),
            _ => None,
        }
    }

    /// The checks that run at this stage.
    #[must_use]
    pub fn checks(&self) -> Option<&Checks> {
        match self {
            Self::Checking(_, checks) => Some(checks),
            Self::Gating(_, prepared) => Some(&prepared.checks),
            _ => None,
        }
    }
}

/// A merge commit that the run branch has not reached yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The head that it was made onto.
    pub ours: CommitId,
    /// The merge commit.
    pub commit: CommitId,
    /// What it changed.
    pub changes: Changes,
    /// The run's checks on it.
    pub checks: Checks,
}

/// A set of commands that must all pass on one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// The commit.
    pub commit: CommitId,
    /// The commands with what is known of each.
    pub each: Vec<Check>,
    /// Number of the last check attempt.
    pub last: CheckNumber,
    /// Check attempts that were lost.
    pub losses: u32,
}

/// One command of a set of checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The command, for `sh -c`.
    pub command: String,
    /// What is known.
    pub state: CheckState,
    /// How often it was dispatched.
    pub tries: u32,
}

/// What is known of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// It waits for a slot.
    Open,
    /// It runs.
    Live {
        /// Number of the check attempt.
        number: CheckNumber,
        /// Sequence of the fact that dispatched it.
        token: Seq,
        /// Where.
        place: Place,
    },
    /// It passed.
    Passed,
}

impl Checks {
    pub(super) fn new(commit: CommitId, commands: &[String], last: CheckNumber) -> Self {
        let each = commands
            .iter()
            .map(|command| Check { command: command.clone(), state: CheckState::Open, tries: 0 })
            .collect();
        Self { commit, each, last, losses: 0 }
    }

    /// Whether all have passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.each.iter().all(|check| check.state == CheckState::Passed)
    }
}

/// What the next brief says of an attempt that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    /// Which attempt.
    pub attempt: AttemptNumber,
    /// What went wrong, with a check's output where there is one.
    pub why: Text,
    /// What it had in its worktree.
    pub capture: Option<Delivery>,
    /// What the agent said, if it said something.
    pub outcome: Option<Outcome>,
}

/// What a task that succeeded hands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The attempt that succeeded.
    pub attempt: AttemptNumber,
    /// Its report.
    pub report: Report,
    /// The merge commit on the run branch, if there was something to merge.
    pub merged: Option<CommitId>,
    /// What the merge changed on the run branch.
    pub changes: Changes,
}

/// Why a task can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A task that it depends on can't.
    Dependency(TaskId),
    /// Its merge meets other changes in these files.
    Conflict(Vec<String>),
    /// Its agent said so.
    Agent(String),
    /// Its attempts are used up; the last one ended so.
    Attempts(String),
    /// It was lost too often.
    Losses(LossWord),
    /// Somebody stopped it.
    Stopped,
}

/// Which bound on lost attempts was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossWord {
    /// [`MAX_LOSSES`] attempts.
    Attempts,
    /// [`MAX_LOSSES`] checks of one attempt.
    Checks,
    /// [`MAX_REFUSALS`] refusals.
    Refusals,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dependency(task) => write!(f, "depends on {task}, which did not succeed"),
            Self::Conflict(files) => write!(f, "merge conflict in {}", files.join(", ")),
            Self::Agent(text) | Self::Attempts(text) => f.write_str(text),
            Self::Losses(LossWord::Attempts) => write!(f, "its attempts were lost {MAX_LOSSES} times"),
            Self::Losses(LossWord::Checks) => write!(f, "its checks were lost {MAX_LOSSES} times"),
            Self::Losses(LossWord::Refusals) => write!(f, "nodes refused it {MAX_REFUSALS} times"),
            Self::Stopped => f.write_str("stopped on request"),
        }
    }
}

/// States of a run, as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
            stopping: false,
            waiting: None,
            ended: None,
            end_reason: String::new(),
            counts: Counts::default(),
            turns: 0,
            tokens: 0,
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
        submitted.budget.turns.is_none_or(|turns| self.turns < turns)
            && submitted.budget.tokens.is_none_or(|tokens| self.tokens < tokens)
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
