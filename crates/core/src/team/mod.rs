//! Teams: who works on a project and how, as the team file says it.
//! Reading and checking the file lives below; what a run keeps of it is `run::Roster`.

mod backend;
mod employee;
mod markdown;
mod read;

pub use read::{Include, read};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{EmployeeId, ProjectId, TeamId};

/// Longest time of one attempt where nothing is said, in milliseconds: half an hour.
pub const DEFAULT_TIMEOUT_MS: u64 = 30 * 60 * 1000;

/// A team file that has been read and checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    /// The project's name.
    pub name: ProjectId,
    /// What the team builds.
    pub description: String,
    /// Rules that stand in every brief.
    pub conventions: String,
    /// The coordinator's own part.
    pub coordinator: CoordinatorSpec,
    /// The employees, in the order of the file.
    pub employees: Vec<Employee>,
    /// Named groups of employees.
    pub teams: Vec<Group>,
    /// Commands that must pass on the merged tree.
    pub checks: Vec<String>,
    /// When those commands run.
    pub gate: Gate,
    /// Whether a plan that a model made may bring checks of its own.
    pub plan_checks: PlanChecks,
    /// Limits of one run.
    pub budget: Budget,
    /// Where nodes may fetch the repository from.
    pub remote: Option<String>,
    /// Whether the file has a `collaboration:` part, which this version reads and does not follow.
    pub has_collaboration: bool,
}

/// The coordinator's part of a team file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorSpec {
    /// How a run decides what comes next.
    pub strategy: Option<Strategy>,
    /// Its own prompt.
    pub prompt: String,
    /// Its back end.
    pub backend: Option<Backend>,
}

/// How a run decides what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// A dependency graph of tasks (spec 3).
    Plan,
    /// One employee at a time (spec 1).
    Loop,
    /// Declared routing (spec 4).
    Graph,
    /// Delegation tools (spec 2).
    Delegate,
}

/// A defined specialist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Employee {
    /// Its id (S1).
    pub id: EmployeeId,
    /// The name that people see; the id when none is given.
    pub name: String,
    /// What the coordinator chooses by.
    pub description: String,
    /// What plans route by; the id when left out.
    pub agent_type: String,
    /// What the employee is told in every brief.
    pub prompt: String,
    /// How its agent runs; the defaults' when left out.
    pub backend: Option<Backend>,
    /// How many instances of it a node runs.
    pub instances: u32,
    /// Attempts at once per instance.
    pub slots: u32,
    /// Longest time of one attempt in milliseconds.
    pub timeout_ms: u64,
    /// Attempts that may fail by what the agent did.
    pub max_attempts: Option<u32>,
    /// Whether ignored files that an attempt left may be there for this employee's next one.
    pub keep_ignored: bool,
}

/// How an employee's agent runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Any command.
    Exec(Exec),
    /// A back end by name: a preset, or one that the node's owner defined.
    Named(String),
    /// A kind that this version reads and cannot run yet (`acp`, `model`, `script`).
    Later(String),
}

/// A command as back end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Program and arguments; `${TEAM_DIR}` is already replaced.
    pub command: Vec<String>,
    /// Environment variables to set; `${TEAM_DIR}` is already replaced.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables of the node's process to hand on.
    #[serde(default)]
    pub pass_env: Vec<String>,
}

/// A named group of employees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its id.
    pub id: TeamId,
    /// Who is in it.
    pub members: Vec<EmployeeId>,
    /// Whom a message to it reaches (S44).
    pub policy: Policy,
    /// Who leads it; required by the policy `lead`.
    pub lead: Option<EmployeeId>,
}

/// Whom a message to a team reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// All members but the sender.
    #[default]
    Broadcast,
    /// The lead alone.
    Lead,
}

/// When the run's checks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Once, on the merged tree at the end.
    #[default]
    End,
    /// Before every merge, and at the end.
    Each,
}

/// Whether a model's plan may bring checks that the team file does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanChecks {
    /// Only those of the team file.
    #[default]
    Refuse,
    /// Any.
    Allow,
}

/// Limits of one run; none where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens of all attempts.
    pub tokens: Option<u64>,
    /// Attempts.
    pub turns: Option<u64>,
}

impl Team {
    /// The employees that may do a task which names `employee`, or `agent_type`, or neither.
    pub fn eligible<'a>(
        &'a self,
        employee: Option<&'a EmployeeId>,
        agent_type: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Employee> {
        self.employees.iter().filter(move |one| match (employee, agent_type) {
            (Some(id), _) => one.id == *id,
            (None, Some(kind)) => one.agent_type == kind || one.id.as_str() == kind,
            (None, None) => true,
        })
    }
}
