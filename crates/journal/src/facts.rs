//! What is written and what is read back: streams, facts, rows, and the bounds of one batch.
//! Bodies are opaque text here.

use std::{fmt, str::FromStr};

use ensemble_core::ids::{Epoch, Malformed, ProjectId, RunId, Seq};

/// Most facts in one append: what a run's mailbox gathers while the batch before is being stored.
pub const MAX_FACTS: usize = 256;

/// Most bytes of one append. A plan file of 10 MiB (the largest allowed) still fits when it is
/// escaped as JSON text.
pub const MAX_BATCH_BYTES: usize = 64 * 1024 * 1024;

/// Whose facts: each stream is owned, claimed and fenced on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// A run.
    Run(RunId),
    /// A project, for its teams and messages.
    Project(ProjectId),
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run/{run}"),
            Self::Project(project) => write!(f, "project/{project}"),
        }
    }
}

impl FromStr for Stream {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        match text.split_once('/') {
            Some(("run", id)) => id.parse().map(Self::Run),
            Some(("project", id)) => id.parse().map(Self::Project),
            _ => Err(Malformed {
                what: "stream",
                text: text.to_owned(),
                rule: "`run/` and a run id, or `project/` and a project name",
            }),
        }
    }
}

/// A fact to append; its sequence and epoch are given with the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    /// What kind of fact, as its stored name.
    pub kind: String,
    /// Version of the body's format.
    pub version: u32,
    /// The body as JSON.
    pub body: String,
    /// Wall-clock time, in milliseconds since the epoch.
    pub time_ms: u64,
}

impl NewFact {
    /// What the fact counts towards [`MAX_BATCH_BYTES`]: its texts and a fixed part for the rest.
    pub(crate) fn weight(&self) -> usize {
        const ENVELOPE: usize = 64;
        ENVELOPE + self.kind.len() + self.body.len()
    }
}

/// A stored fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Place in its stream, from 1, without gaps.
    pub seq: Seq,
    /// Epoch of the owner that appended it.
    pub epoch: Epoch,
    /// Wall-clock time, in milliseconds since the epoch.
    pub time_ms: u64,
    /// What kind of fact, as its stored name.
    pub kind: String,
    /// Version of the body's format.
    pub version: u32,
    /// The body as JSON.
    pub body: String,
}

/// A stream at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Which stream.
    pub stream: Stream,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its last fact; `Seq(0)` when it has none.
    pub last: Seq,
    /// Time of its first fact, in milliseconds since the epoch; 0 when it has none.
    pub first_ms: u64,
    /// Time of its last fact, in milliseconds since the epoch; 0 when it has none.
    pub last_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_survives_its_text() {
        for stream in [
            Stream::Run(RunId::from_parts(1_796_000_000_000, 7)),
            Stream::Project(ProjectId::new("bookshop").unwrap()),
        ] {
            assert_eq!(stream.to_string().parse::<Stream>().unwrap(), stream);
        }
        for bad in ["", "run", "run/", "run/x", "project/Ä", "team/a"] {
            assert!(bad.parse::<Stream>().is_err(), "{bad}");
        }
    }
}
