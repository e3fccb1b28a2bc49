//! The command line as typed: verbs and their flags, with examples. What they mean together is each
//! verb's own business; nothing here reads a file.

mod care;
mod look;
mod runs;

use std::path::PathBuf;

pub use care::{Completions, Doctor, Init, Prune};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ensemble_core::ids::RunId;
pub use look::{Diff, Report, Wait, Watch};
pub use runs::{Events, Fetch, Logs, Ps, Resume, Retry, Show, Stop};

/// Lets a team of coding agents work on one git repository: a plan of tasks in, a branch out.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(
    name = "ensemble",
    version,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  ensemble demo                        the whole thing on a small project that ships inside
  ensemble run --plan plan.yaml        carry out a plan with the team of this repository
  ensemble init                        a first team file for the project in this folder
  ensemble ps                          what runs and ran here
  ensemble resume                      go on after a crash

Exit codes: 0 delivered · 1 failed or stopped · 2 usage or invalid file · 3 waits for a person, or only blocked
            · 4 nobody answers · 130 interrupted (the run can go on)
A RUN is its id, a prefix of it that only one run has, or `last`."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Verb {
    /// Write a first team file and a plan for a project
    Init(Init),
    /// Carry out a plan and bring home its result as a branch
    Run(Run),
    /// Carry out the shipped demo in a new directory
    Demo(Demo),
    /// Say everything that is wrong with team and plan files
    Check(Check),
    /// Show a plan's order, what runs at once and the critical path
    Plan(Plan),
    /// List the runs of this repository, newest first
    Ps(Ps),
    /// Show a run: its tasks, what they delivered, what failed and what to do
    Show(Show),
    /// Print what happened in a run; with -o json one fact a line
    Events(Events),
    /// Print what agents and checks wrote
    Logs(Logs),
    /// Tell a run as it happens, whoever works on it
    Watch(Watch),
    /// Wait for a run's end and end as it does
    Wait(Wait),
    /// Show what a run or a task changed, as a unified diff
    Diff(Diff),
    /// Write a run's report: deliveries, checks, what is open, how to take it over
    Report(Report),
    /// Stop a run, or one of its tasks
    Stop(Stop),
    /// Try again what failed, is blocked or was stopped, and go on
    Retry(Retry),
    /// Go on with a run whose process has ended
    Resume(Resume),
    /// Bring a run's branch into the repository
    Fetch(Fetch),
    /// Look whether anything is in the way of a run
    Doctor(Doctor),
    /// Forget old runs and give back what they take up
    Prune(Prune),
    /// Print a shell's completions
    Completions(Completions),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs, on standard output alone.
    Json,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct Output {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

/// Which repository, and where its runs are kept.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Place {
    /// The git repository, or a folder in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,
    /// Where journal, blobs and working copies are kept [default: a folder of the repository's own
    /// in $XDG_STATE_HOME/ensemble]
    #[arg(long, value_name = "DIR", env = "ENSEMBLE_DATA")]
    pub data: Option<PathBuf>,
}

/// `ensemble run`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble run --plan plan.yaml
  ensemble run --plan plan.yaml --team team.yaml --repo ~/src/shop --into main
  ensemble run --plan plan.yaml -o json > result.json
  ensemble run --plan plan.yaml --detach             prints the run's id; then watch, wait, stop
  ensemble run --plan more.yaml --base last          goes on from the last run's result

The team file is --team, else .ensemble/team.yaml, team.yaml or role.yaml in the repository.
Your checkout is never written: the result is the branch ensemble/RUN.")]
pub struct Run {
    /// What you want, in a sentence [default: the plan's project_scope]
    #[arg(value_name = "GOAL")]
    pub goal: Option<String>,
    /// The plan: a graph of tasks as YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// The team file [default: see below]
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// How the run decides what comes next: plan (loop, graph and delegate come later)
    #[arg(long, value_name = "S")]
    pub strategy: Option<String>,
    /// The commit to start from, or the run whose result to start from
    #[arg(long, value_name = "REV|RUN", default_value = "HEAD")]
    pub base: String,
    /// Make a repository with an empty first commit, should there be none
    #[arg(long)]
    pub init: bool,
    /// Leave the run going in a process of its own and print its id
    #[arg(long)]
    pub detach: bool,
    /// Be that process, for the run of this id
    #[arg(long, value_name = "RUN", hide = true, conflicts_with = "detach")]
    pub detached_as: Option<RunId>,
    /// Also move this branch to the result, if it is delivered and nobody has the branch checked out
    #[arg(long, value_name = "BRANCH", value_parser = branch)]
    pub into: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// `ensemble demo`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble demo                        into a new ./ensemble-demo
  ensemble demo /tmp/bookshop          into a directory that does not exist yet, or is empty

The employees are scripts that stand in for agents; everything else is the real thing.")]
pub struct Demo {
    /// The new directory [default: ensemble-demo, ensemble-demo-2, …]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where journal, blobs and working copies are kept
    #[arg(long, value_name = "DIR", env = "ENSEMBLE_DATA")]
    pub data: Option<PathBuf>,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A team file.
    Team,
    /// A plan.
    Plan,
    /// An answer in the loop; only with --from-model.
    Loop,
}

/// `ensemble check`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble check team.yaml plan.yaml   the plan is also checked against the team
  ensemble check --kind plan - < plan.json
  ensemble check --from-model --kind plan --roster back,front answer.txt

Exit 0 when every file is accepted (warnings included), 2 when one is refused.")]
pub struct Check {
    /// The files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What they are [default: found out from the content]
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// The files hold answers of a model: find the JSON in them and repair it where that is safe
    #[arg(long)]
    pub from_model: bool,
    /// Why the model stopped writing; `length` refuses any repair
    #[arg(long, value_name = "R", requires = "from_model")]
    pub finish_reason: Option<String>,
    /// The employees' names or types that the answer may use
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "from_model")]
    pub roster: Vec<String>,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

/// How a plan is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// For Markdown.
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// `ensemble plan`
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Examples:
  ensemble plan plan.yaml
  ensemble plan plan.yaml --draw dot | dot -Tsvg > plan.svg")]
pub struct Plan {
    /// The plan
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Draw it instead
    #[arg(long, value_enum)]
    pub draw: Option<Drawing>,
    /// How.
    #[command(flatten)]
    pub output: Output,
}

impl Verb {
    /// How the verb was asked to print.
    #[must_use]
    pub fn format(&self) -> Format {
        match self {
            Self::Run(args) => args.output.format,
            Self::Demo(args) => args.output.format,
            Self::Check(args) => args.output.format,
            Self::Plan(args) => args.output.format,
            Self::Ps(args) => args.output.format,
            Self::Show(args) => args.output.format,
            Self::Events(args) => args.output.format,
            Self::Stop(args) => args.output.format,
            Self::Retry(args) => args.output.format,
            Self::Resume(args) => args.output.format,
            Self::Fetch(args) => args.output.format,
            Self::Init(args) => args.output.format,
            Self::Watch(args) => args.output.format,
            Self::Wait(args) => args.output.format,
            Self::Diff(args) => args.output.format,
            Self::Report(args) => args.output.format,
            Self::Doctor(args) => args.output.format,
            Self::Prune(args) => args.output.format,
            Self::Logs(_) | Self::Completions(_) => Format::Table,
        }
    }
}

/// A branch's short name; said before anything is done for a result that could not be put there.
fn branch(text: &str) -> Result<String, String> {
    if ensemble_workspace::is_branch_name(text) {
        return Ok(text.to_owned());
    }
    Err("it is no name for a branch of yours; give a short one, such as `main`".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Verb, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.verb)
    }

    #[test]
    fn the_command_line_is_consistent_and_every_verb_has_examples() {
        let mut command = Cli::command();
        command.build();
        for verb in command.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("ensemble {}", verb.get_name());
            assert!(help.contains(&example), "{} has no example", verb.get_name());
        }
        command.debug_assert();
    }

    #[test]
    fn run_takes_a_goal_and_its_files() {
        let Verb::Run(run) = parse("ensemble run --plan p.yaml --into main -o json shop").unwrap() else {
            panic!("not a run");
        };
        assert_eq!(run.goal.as_deref(), Some("shop"));
        assert_eq!((run.base.as_str(), run.into.as_deref()), ("HEAD", Some("main")));
        assert_eq!(run.place.repo, PathBuf::from("."));
        assert_eq!(run.output.format, Format::Json);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "ensemble",
            "ensemble nonsense",
            "ensemble check",
            "ensemble check --roster a,b plan.json",
            "ensemble logs last --attempt 2",
            "ensemble plan p.yaml --draw png",
            "ensemble wait last --timeout 30",
            "ensemble completions cmd",
            "ensemble run --detached-as 01KBC000000000000000000001 --detach",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_branch_that_can_not_be_moved_is_refused_before_the_run() {
        for name in
            ["", "a..b", "HEAD", "@", "x/", "x.lock", "a b", "refs/heads/main", "ensemble", "ensemble/x"]
        {
            for verb in ["run --plan p.yaml", "fetch last"] {
                let words = format!("ensemble {verb} --into");
                let words = words.split(' ').chain([name]);
                assert!(Cli::try_parse_from(words).is_err(), "{verb} --into {name:?}");
            }
        }
        assert!(parse("ensemble run --plan p.yaml --into feature/\u{fc}").is_ok());
    }
}
