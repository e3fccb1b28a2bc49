//! Plans: the tasks of a run and what each needs, as a file, a person or a model wrote them.
//! Reading, checking, ordering and drawing them lives below; carrying one out is `run`.

pub mod check;
pub mod draw;
pub mod graph;
pub mod path;
mod read;
mod staff;

pub use check::check;
pub use read::read;
pub(crate) use read::{attempts, from_tree};
pub use staff::Staff;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{EmployeeId, TaskId},
    text::Text,
};

/// Most tasks in one plan.
pub const TASK_LIMIT: usize = 100_000;

/// A plan that has been read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the project is, for every brief.
    pub project_scope: String,
    /// Rules for every brief, after those of the team file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conventions: Vec<String>,
    /// The tasks, in the order of the file.
    pub sub_tasks: Vec<TaskSpec>,
}

/// One task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its id, unique in the plan after case folding (S50).
    pub id: TaskId,
    /// A short name for people; the first line of the description when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is to be done.
    pub description: Text,
    /// What kind of specialist it needs; any employee when neither this nor `employee` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// A particular employee instead of a type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub employee: Option<EmployeeId>,
    /// Tasks that must succeed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<TaskId>,
    /// Files that must exist in the delivered commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// What the work is judged by; part of the brief.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<String>,
    /// Commands that must pass on the task's commit before it is merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Longest time of one attempt in milliseconds; the employee's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Attempts that may fail by what the agent did; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Which tasks it goes before and after when they want the same slot.
    #[serde(default, skip_serializing_if = "Priority::is_default")]
    pub priority: Priority,
    /// What happens to changes in the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeMode>,
    /// Names of things that no two attempts may use at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusive: Vec<String>,
    /// Artifacts that it delivers by name, each with a description or schema.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provides: BTreeMap<String, String>,
    /// Artifacts of other tasks that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumes: Vec<String>,
}

impl TaskSpec {
    /// A task with nothing but an id and a description.
    #[must_use]
    pub fn new(id: TaskId, description: impl Into<Text>) -> Self {
        Self {
            id,
            title: None,
            description: description.into(),
            agent_type: None,
            employee: None,
            dependencies: Vec::new(),
            outputs: Vec::new(),
            acceptance_criteria: Vec::new(),
            checks: Vec::new(),
            timeout_ms: None,
            max_attempts: None,
            priority: Priority::default(),
            worktree: None,
            exclusive: Vec::new(),
            provides: BTreeMap::new(),
            consumes: Vec::new(),
        }
    }

    /// What people call it: the title, else the description's first line, clipped.
    #[must_use]
    pub fn label(&self) -> &str {
        let text = self.title.as_deref().unwrap_or_else(|| self.description.head());
        crate::text::clip(text.lines().next().unwrap_or_default().trim(), 72)
    }
}

/// Which tasks go first when they want the same slot (S33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Priority {
    /// Before all others.
    P1,
    /// Before what nothing is said about.
    P2,
    /// Where nothing is said.
    #[default]
    P3,
    /// When nothing else wants the slot.
    P4,
}

impl Priority {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the runtime does with the changes that a task leaves in its worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorktreeMode {
    /// Changes are merged; none is failure.
    Write,
    /// Changes are dropped and named.
    Read,
    /// No files at all, and no git is paid for.
    None,
}
