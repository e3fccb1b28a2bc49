//! What nodes and coordinators say to each other, as values of the heart. The crate `proto` alone
//! knows how they look on the wire; a link carries them without looking inside.

use crate::{
    ids::{CommitId, CoordinatorId, EmployeeId, Epoch, NodeId, RepositoryId, RunId},
    link::{AttemptKey, Greeting},
    outcome::Delivery,
    plan::WorktreeMode,
    run::fact::{LossCause, Report},
    text::Text,
};

/// Version of the meaning of all this; both sides name theirs when a node attaches.
pub const PROTOCOL: u32 = 1;

/// Longest brief in bytes.
pub const BRIEF_LIMIT: usize = 256 * 1024;

/// A node introduces itself: its first word on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who it is.
    pub node: NodeId,
    /// [`PROTOCOL`] as it knows it.
    pub protocol: u32,
    /// With what the numbering goes on.
    pub greeting: Greeting,
    /// Whom it hosts, with the slots of all instances together.
    pub employees: Vec<(EmployeeId, u32)>,
    /// Checks that it runs at once.
    pub check_slots: u32,
}

/// The coordinator's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Who it is.
    pub coordinator: CoordinatorId,
    /// [`PROTOCOL`] as it knows it.
    pub protocol: u32,
    /// With what the numbering goes on.
    pub greeting: Greeting,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCoordinator {
    /// All that it holds of a run; the answer to [`ToNode::Claimed`].
    Inventory(Inventory),
    /// The agent, or the check, runs.
    Started(AttemptKey),
    /// It could not take an assignment; nothing of it is left there.
    Refused {
        /// Which.
        key: AttemptKey,
        /// Why, for people.
        reason: String,
    },
    /// It offers other slots than it said before; about no run.
    Slots {
        /// Whom it hosts, with the slots of all instances together.
        employees: Vec<(EmployeeId, u32)>,
        /// Checks that it runs at once.
        check_slots: u32,
        /// Why, for people; empty when it offers all that it has.
        reason: String,
    },
    /// An attempt or a check is over. Kept on the node's disk until its receipt comes.
    Ended(Box<Ended>),
}

/// All that a node holds of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The run.
    pub run: RunId,
    /// The epoch that it was claimed under.
    pub epoch: Epoch,
    /// Alive.
    pub running: Vec<AttemptKey>,
    /// Over, with a report that follows.
    pub ended: Vec<AttemptKey>,
    /// Nodes whose data this one has adopted, itself included.
    pub speaks_for: Vec<NodeId>,
}

/// The end of an attempt or a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub key: AttemptKey,
    /// How.
    pub how: How,
}

/// How an attempt or a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// With a word of its agent.
    Report(Report),
    /// With a verdict.
    Check {
        /// Whether the command exited with 0.
        passed: bool,
        /// How it ended, for people: `exit 1`, `timed out`.
        ended: String,
        /// The end of its output.
        output: Text,
    },
    /// Without either.
    Lost {
        /// What happened to it.
        cause: LossCause,
        /// What it had in its worktree.
        capture: Option<Delivery>,
        /// For people.
        reason: String,
    },
}

/// What a coordinator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode {
    /// It owns a run from now on.
    Claimed {
        /// The run.
        run: RunId,
        /// Under this epoch; frames of lower ones are refused from now on.
        epoch: Epoch,
    },
    /// Work.
    Assign(Box<Assign>),
    /// Stop an attempt or a check; its end is reported as always.
    Stop(AttemptKey),
    /// The end of an attempt or check is journalled; the node may forget it.
    Receipt(AttemptKey),
}

/// Work for an employee, or a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assign {
    /// Which.
    pub key: AttemptKey,
    /// The owner's epoch.
    pub epoch: Epoch,
    /// Longest time in milliseconds.
    pub timeout_ms: u64,
    /// The repository.
    pub repository: RepositoryId,
    /// The commit to start from.
    pub base: CommitId,
    /// The trace context of the attempt, as in W3C `traceparent`.
    pub traceparent: String,
    /// What is to be done.
    pub what: What,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A task.
    Work(Work),
    /// A command that must exit with 0, for `sh -c`, in a fresh copy of the commit.
    Check {
        /// The command.
        command: String,
    },
}

/// A task as its employee is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Who does it.
    pub employee: EmployeeId,
    /// What people call it.
    pub title: String,
    /// What the agent is told, at most [`BRIEF_LIMIT`].
    pub brief: String,
    /// The same as JSON, for agents that are programs.
    pub context: String,
    /// What happens to changes in the worktree.
    pub worktree: Option<WorktreeMode>,
    /// Paths that must exist at the end.
    pub outputs: Vec<String>,
    /// What the attempt before this one had, for a look: the ref that keeps it and its commit.
    pub previous: Option<(String, CommitId)>,
}
