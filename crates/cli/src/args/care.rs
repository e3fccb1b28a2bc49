//! The verbs that set up a project, look after an installation and clean up, as typed.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use clap_complete::Shell;

use super::{Output, Place, look::duration};

/// `ensemble init`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble init                        for the project in this folder
  ensemble init ~/src/shop && ensemble run --plan .ensemble/plan.yaml --repo ~/src/shop

Writes .ensemble/team.yaml, .ensemble/plan.yaml and a script that stands in for an agent until you
name a real one. A file that is there already is never written over: that is exit 2.")]
pub struct Init {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble doctor`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble doctor
  ensemble doctor --repo ~/src/shop --team team.yaml -o json
  ensemble doctor --fault-points

Exit 0 when nothing is in the way of a run (warnings included), 1 when something is.")]
pub struct Doctor {
    /// The team file whose back ends are looked for [default: the repository's, if it has one]
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// Only list the points where tests make ensemble fail, one a line
    #[arg(long)]
    pub fault_points: bool,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble prune`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble prune --dry-run             what would go, and what is kept and why
  ensemble prune --older-than 7d
  ensemble prune --older-than 0s --untaken

A run that has been over for so long is forgotten with its journal, logs, blobs, refs and working
copies. Kept is what is unfinished, what a process works on and, without --untaken, work that is
in none of your branches but ensemble/RUN. Branches of your repository are never touched.")]
pub struct Prune {
    /// Only runs that have been over for longer
    #[arg(long, value_name = "D", default_value = "30d", value_parser = duration)]
    pub older_than: Duration,
    /// Forget also runs whose work is in none of your branches
    #[arg(long)]
    pub untaken: bool,
    /// Change nothing, only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble completions`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble completions bash > ~/.local/share/bash-completion/completions/ensemble
  ensemble completions zsh > ~/.zfunc/_ensemble
  ensemble completions fish > ~/.config/fish/completions/ensemble.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}
