//! The first fact of a run: what was asked for, on which repository, with whom. Part of the stored
//! format that `fact` describes.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CommitId, EmployeeId, ProjectId, RepositoryId},
    team::{Budget, Gate, Strategy, Team},
    text::Text,
};

/// The first fact of a run: what was asked for and with whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The project's name.
    pub project: ProjectId,
    /// The repository.
    pub repository: RepositoryId,
    /// What the user wants, in a sentence or more.
    pub goal: Text,
    /// How the run decides what comes next.
    pub strategy: Strategy,
    /// The commit that the run starts from.
    pub base: CommitId,
    /// The user's branch to move at the end, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Who can be given tasks.
    pub roster: Vec<Member>,
    /// The run's checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// When they run.
    #[serde(default)]
    pub gate: Gate,
    /// Limits.
    #[serde(default)]
    pub budget: Budget,
    /// The team file and the definition files that it uses, team file first.
    pub files: Vec<SourceFile>,
    /// The plan file, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<SourceFile>,
}

/// A user's file as it was at submission; resume and retry use this copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its name as the user gave it, or as `use:` names it.
    pub name: String,
    /// The folder it lies in, for `${TEAM_DIR}`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dir: String,
    /// What it says.
    pub text: Text,
}

/// What the heart needs to know of an employee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub employee: EmployeeId,
    /// What plans route by.
    pub agent_type: String,
    /// Longest time of one attempt in milliseconds.
    pub timeout_ms: u64,
    /// Attempts that may fail by what the agent did, when the task says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
}

impl Member {
    /// The roster of a team.
    #[must_use]
    pub fn of(team: &Team) -> Vec<Self> {
        team.employees
            .iter()
            .map(|one| Self {
                employee: one.id.clone(),
                agent_type: one.agent_type.clone(),
                timeout_ms: one.timeout_ms,
                max_attempts: one.max_attempts,
            })
            .collect()
    }
}
