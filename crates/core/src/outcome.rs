//! What an attempt ended with, as the runtime took it from the agent's words and saw it in the
//! worktree. An agent's word is not evidence: `changes` is what the runtime captured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ids::CommitId, text::Text};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The work is there, as far as the agent and the runtime's own look can tell.
    Done,
    /// The agent asks for another round.
    Revise,
    /// The agent can't go on without something from outside.
    Blocked,
    /// The work was not done.
    Failed,
    /// It was stopped from outside.
    Stopped,
}

/// What the agent said, read from its result file, its last `result` block or its plain output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// One paragraph for people and for dependent tasks.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub summary: Text,
    /// Artifacts by name: texts or any JSON, passed on to dependent tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, serde_json::Value>,
    /// Remarks for dependent tasks and the coordinator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Text>,
    /// Why it failed or what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Text>,
    /// What it cost, as far as the agent said.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

impl Outcome {
    /// An outcome with nothing but an ending and a summary.
    #[must_use]
    pub fn new(ending: Ending, summary: impl Into<Text>) -> Self {
        Self {
            ending,
            summary: summary.into(),
            artifacts: BTreeMap::new(),
            messages: Vec::new(),
            blockers: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// A failure whose one blocker is `why`.
    #[must_use]
    pub fn failed(why: impl Into<Text>) -> Self {
        let why = why.into();
        let mut outcome = Self::new(Ending::Failed, why.head());
        outcome.blockers = vec![why];
        outcome
    }
}

/// Resources that an agent says it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read and written.
    #[serde(default)]
    pub total_tokens: u64,
    /// Tools called.
    #[serde(default)]
    pub tool_uses: u64,
    /// Time of the turn in milliseconds, measured by the runtime.
    #[serde(default)]
    pub duration_ms: u64,
}

impl Usage {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What a commit changed against its base, as the runtime counted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Files changed, all of them.
    pub files: u32,
    /// Lines added, binary files not counted.
    pub added: u64,
    /// Lines removed, binary files not counted.
    pub removed: u64,
    /// The first [`Changes::NAMED`] paths, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl Changes {
    /// How many paths a fact names; the commit has them all.
    pub const NAMED: usize = 100;
}

/// The captured work of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The captured commit, a child of the attempt's base.
    pub commit: CommitId,
    /// What it changed.
    pub changes: Changes,
}
