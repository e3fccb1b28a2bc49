//! Facts: what was observed or chosen in a run, as the journal keeps it. This is a stored format:
//! a field may be added with a default, never renamed or given another meaning.

use serde::{Deserialize, Serialize};

pub use super::submission::{Member, SourceFile, Submitted};
use crate::{
    ids::{
        AttemptNumber, CheckNumber, CommitId, CoordinatorId, EmployeeId, Epoch, Incarnation, NodeId, Seq,
        TaskId,
    },
    outcome::{Changes, Delivery, Outcome},
    plan::TaskSpec,
    text::Text,
};

/// Version of the fact format that this build writes.
pub const FACT_VERSION: u32 = 1;

/// A fact with its place in the run's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place, from 1.
    pub seq: Seq,
    /// The owner's epoch when it was stored.
    pub epoch: Epoch,
    /// Wall-clock time in milliseconds since the epoch; for people and durations, never for order.
    pub time_ms: u64,
    /// What happened.
    pub fact: Fact,
}

/// Something observed or chosen in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// A user handed in a goal. Always the first.
    Submitted(Box<Submitted>),
    /// Tasks of the plan; a large plan comes in several of these, the last one `complete`.
    Planned {
        /// What the project is.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        scope: Text,
        /// The plan's conventions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conventions: Vec<Text>,
        /// The tasks, in plan order.
        tasks: Vec<TaskSpec>,
        /// Whether the plan ends here.
        complete: bool,
    },
    /// A coordinator process took the run over; the envelope's epoch is its own.
    Claimed {
        /// Who.
        coordinator: CoordinatorId,
    },
    /// A task was given to an employee on a node. Its sequence is the attempt's token.
    Dispatched(Box<Dispatch>),
    /// The node could not take it; costs no attempt.
    Refused {
        /// Which attempt.
        #[serde(flatten)]
        at: AttemptRef,
        /// Why, for people.
        reason: String,
    },
    /// The agent runs.
    Started {
        /// Which attempt.
        #[serde(flatten)]
        at: AttemptRef,
    },
    /// The attempt ended and the node captured what it left.
    Reported {
        /// Which attempt.
        #[serde(flatten)]
        at: AttemptRef,
        /// What came of it.
        report: Box<Report>,
    },
    /// The attempt is over without a word of its agent; costs no attempt.
    Lost {
        /// Which attempt.
        #[serde(flatten)]
        at: AttemptRef,
        /// What happened to it.
        cause: LossCause,
        /// What it had in its worktree, kept under the attempt's ref.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capture: Option<Delivery>,
        /// Why, for people; empty where the cause says it all.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A check was given to a node. Its sequence is the check's token.
    CheckDispatched {
        /// What is checked.
        of: CheckOf,
        /// Number of the check attempt.
        check: CheckNumber,
        /// Which of the commands, from 0.
        command: u32,
        /// The commit it runs on.
        commit: CommitId,
        /// Where.
        place: Place,
    },
    /// A check ended.
    CheckReported {
        /// Which check.
        #[serde(flatten)]
        at: CheckRef,
        /// Whether the command exited with 0.
        passed: bool,
        /// How it ended, for people: `exit 1`, `timed out`.
        ended: String,
        /// The end of its output.
        output: Text,
    },
    /// A check is over without a verdict; costs nothing.
    CheckLost {
        /// Which check.
        #[serde(flatten)]
        at: CheckRef,
        /// What happened to it.
        cause: LossCause,
        /// Why, for people; empty where the cause says it all.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The task's attempt succeeded and there is nothing to merge.
    Accepted {
        /// Which task.
        task: TaskId,
        /// Which attempt of it.
        attempt: AttemptNumber,
    },
    /// A merge was ordered; it is the only one of the run until it ends.
    MergeOrdered {
        /// Which task.
        task: TaskId,
        /// Which attempt of it.
        attempt: AttemptNumber,
        /// The run branch's head: the first parent.
        ours: CommitId,
        /// The attempt's commit: the second parent.
        theirs: CommitId,
    },
    /// The merge commit exists; with `gate: each` the run's checks are run on it before the branch moves.
    Prepared {
        /// Which task.
        task: TaskId,
        /// Which attempt of it.
        attempt: AttemptNumber,
        /// The merge commit.
        commit: CommitId,
        /// What it changed on the run branch.
        changes: Changes,
    },
    /// The run branch stands at the merge commit: the task succeeded.
    Merged {
        /// Which task.
        task: TaskId,
        /// Which attempt of it.
        attempt: AttemptNumber,
        /// The merge commit.
        commit: CommitId,
        /// What it changed on the run branch.
        changes: Changes,
    },
    /// The two sides can't be merged without understanding; both are kept.
    Conflicted {
        /// Which task.
        task: TaskId,
        /// Which attempt of it.
        attempt: AttemptNumber,
        /// The files, each with what happened to it on both sides.
        files: Vec<String>,
    },
    /// Somebody wants a task, or the whole run, to stop.
    StopRequested {
        /// The task; the run when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// Somebody wants another try.
    Retried {
        /// The task; all that failed or are blocked by themselves, and the run's checks, when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        /// What to tell the employee first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Text>,
    },
    /// Somebody wants nothing new to start; what runs finishes.
    Paused,
    /// Somebody wants a paused run to go on.
    Resumed,
    /// Nothing can go on until a person does something.
    Waiting {
        /// For what.
        reason: WaitReason,
    },
    /// The run is over (a retry may open it again).
    Ended {
        /// How.
        state: EndState,
        /// Why, when not delivered.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Where the result stands.
        head: CommitId,
    },
}

/// A process start of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
}

/// What is fixed when a task is dispatched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The task.
    pub task: TaskId,
    /// The number of this try.
    pub attempt: AttemptNumber,
    /// Who gets it.
    pub employee: EmployeeId,
    /// Where.
    pub place: Place,
    /// What its worktree starts from: the run branch's head.
    pub base: CommitId,
    /// Longest time in milliseconds.
    pub timeout_ms: u64,
    /// What each dependency hands on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Handed>,
}

/// What a dependency hands on, in figures; the brief has it in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// The dependency.
    pub from: TaskId,
    /// Names of its artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// How many files it changed.
    pub files: u32,
}

/// An attempt, named so that a stale word about it is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The task.
    pub task: TaskId,
    /// The number of the try.
    pub attempt: AttemptNumber,
    /// Sequence of the fact that dispatched it.
    pub token: Seq,
}

/// What is checked: an attempt's commit, or the run's merged tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckOf {
    /// The task; the run when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The attempt; for the run the round, from 1.
    pub attempt: AttemptNumber,
}

/// A check attempt, named so that a stale word about it is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckRef {
    /// What is checked.
    pub of: CheckOf,
    /// Number of the check attempt.
    pub check: CheckNumber,
    /// Sequence of the fact that dispatched it.
    pub token: Seq,
}

/// What a node reports of an ended attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What the agent said, corrected by what the runtime saw.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The captured commit, if anything changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// What was left out of the capture or dropped, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The attempt's log in the blob store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<crate::ids::BlobId>,
}

/// Why an attempt or a check ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// The node that ran it is gone while the coordinator lived on.
    Node,
    /// It ended together with the process that owned the run.
    Process,
    /// The node was told to end and handed it back.
    Interrupted,
    /// The node could not do it: no room, no worktree, no process.
    Environment,
    /// The node could not take it.
    Refused,
}

/// For what a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// Only blocked tasks are left.
    Blocked,
    /// The budget is spent.
    Budget,
    /// Somebody paused the run, and nothing of it runs any more.
    Paused,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// All tasks succeeded and the run's checks passed.
    Delivered,
    /// A task failed, or a check of the run.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl Fact {
    /// The name under which it is stored.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::Planned { .. } => "planned",
            Self::Claimed { .. } => "claimed",
            Self::Dispatched(_) => "dispatched",
            Self::Refused { .. } => "refused",
            Self::Started { .. } => "started",
            Self::Reported { .. } => "reported",
            Self::Lost { .. } => "lost",
            Self::CheckDispatched { .. } => "check_dispatched",
            Self::CheckReported { .. } => "check_reported",
            Self::CheckLost { .. } => "check_lost",
            Self::Accepted { .. } => "accepted",
            Self::MergeOrdered { .. } => "merge_ordered",
            Self::Prepared { .. } => "prepared",
            Self::Merged { .. } => "merged",
            Self::Conflicted { .. } => "conflicted",
            Self::StopRequested { .. } => "stop_requested",
            Self::Retried { .. } => "retried",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Waiting { .. } => "waiting",
            Self::Ended { .. } => "ended",
        }
    }
}
