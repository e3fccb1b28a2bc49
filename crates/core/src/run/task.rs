//! The types of one task: how far it is, its attempt with the stages and checks of that, what it
//! delivered and why it can't go on. Look-ups alone; what changes them is in `apply` and beside it.

use serde::{Deserialize, Serialize};

use super::{
    fact::{Dispatch, Place, Report},
    state::{MAX_LOSSES, MAX_REFUSALS, TaskIx},
};
use crate::{
    ids::{AttemptNumber, CheckNumber, CommitId, EmployeeId, Seq, TaskId},
    outcome::{Changes, Delivery, Outcome},
    plan::TaskSpec,
    text::Text,
};

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
    /// Who has or had that attempt.
    pub employee: Option<EmployeeId>,
    /// Where.
    pub place: Option<Place>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The report, taken out of a stage that is over.
    pub(super) fn into_report(self) -> Option<Box<Report>> {
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
    /// Number of the last check before these.
    pub(super) before: CheckNumber,
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
        Self { commit, each, last, losses: 0, before: last }
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
    /// It was lost too often, the last time for this reason, if one is known.
    Losses(LossWord, String),
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
            Self::Losses(word, reason) => {
                match word {
                    LossWord::Attempts => write!(f, "its attempts were lost {MAX_LOSSES} times")?,
                    LossWord::Checks => write!(f, "its checks were lost {MAX_LOSSES} times")?,
                    LossWord::Refusals => write!(f, "nodes refused it {MAX_REFUSALS} times")?,
                }
                if reason.is_empty() { Ok(()) } else { write!(f, ", at last because: {reason}") }
            }
            Self::Stopped => f.write_str("stopped on request"),
        }
    }
}
