//! The verbs that look at or act on runs that exist, as typed.

use std::path::PathBuf;

use clap::Args;

use super::{Output, Place, branch};

/// `ensemble ps`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble ps
  ensemble ps -o json")]
pub struct Ps {
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble show`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble show last
  ensemble show 01KB -o json")]
pub struct Show {
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

/// `ensemble events`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble events last
  ensemble events last -o json --follow")]
pub struct Events {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Go on as long as the run does
    #[arg(short, long)]
    pub follow: bool,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble logs`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble logs last                   the last attempt of every task, and the run's checks
  ensemble logs last api               the last attempt of one task, with its checks
  ensemble logs last api --attempt 1
  ensemble logs last api --follow")]
pub struct Logs {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The task [default: all]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Which attempt [default: the last]
    #[arg(long, value_name = "N", requires = "task")]
    pub attempt: Option<u32>,
    /// Go on as long as the run does
    #[arg(short, long)]
    pub follow: bool,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// `ensemble stop`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble stop last                   the run; its branch is brought home
  ensemble stop last api               one task; those that need it are blocked")]
pub struct Stop {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The task [default: the whole run]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble retry`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble retry last                  all that failed, is blocked by itself or was stopped
  ensemble retry last api --prompt 'Use the sqlite3 module.'")]
pub struct Retry {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The task [default: all that failed, is blocked by itself or was stopped]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// What to tell the employee first
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Run the employees as this team file says now; what they are told stays as it was handed in
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble resume`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble resume                      the only unfinished run
  ensemble resume 01KB")]
pub struct Resume {
    /// The run [default: the only unfinished one]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Run the employees as this team file says now; what they are told stays as it was handed in
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble fetch`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble fetch last                  creates the branch ensemble/RUN
  ensemble fetch last --into main      and moves main, if the run is delivered and main is not checked out")]
pub struct Fetch {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Also move this branch to the result
    #[arg(long, value_name = "BRANCH", value_parser = branch)]
    pub into: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}
