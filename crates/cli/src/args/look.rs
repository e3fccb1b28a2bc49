//! The verbs that follow a run or read its result, as typed.

use std::time::Duration;

use clap::Args;

use super::{Output, Place};

/// `ensemble watch`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble watch last                  what happened so far, then what happens, until the run is over
  ensemble watch last --after 120      only what comes after fact 120
  ensemble watch last -o json          its facts, one JSON object a line

Ends with exit 0 when the run is over or no process works on it; `ensemble wait` ends as it did.")]
pub struct Watch {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Leave out what was told up to this fact
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: u64,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble wait`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble wait last
  ensemble wait last --timeout 30m && git merge ensemble/RUN

Exit codes: 0 delivered · 1 failed or stopped · 3 waits for a person, still goes on when the time is up,
            or no process works on it")]
pub struct Wait {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// How long at most, such as 90s, 10m or 1h30m [default: as long as it takes]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble report`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble report last > report.md
  ensemble report 01KB -o json

Markdown: what each employee delivered, figures of checks, what is open, and what to do now.")]
pub struct Report {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble diff`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble diff last                   what the run changed so far, against its base
  ensemble diff last api               what one task changed: its merge, else what its last attempt left
  ensemble diff last --stat            only the figures of each file
  ensemble diff last api -o json       the same for programs")]
pub struct Diff {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The task [default: the whole run]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Only the figures of each file
    #[arg(long)]
    pub stat: bool,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// A length of time with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write it with its unit: 90s, 10m, 1h30m, 30d".to_owned())
}
