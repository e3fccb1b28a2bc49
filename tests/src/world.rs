//! A world for one test: a repository, a home, a state directory, a team and a plan in a folder of
//! its own, and the binary run in it. The folder is kept when the test fails.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{Census, Evidence, Finished, Git, Plan, Started, Team, process::within};

/// Longest time of a command that does not say otherwise.
const LIMIT: Duration = Duration::from_secs(120);

/// Longest time until no process of a world is left once its owner has ended.
const GONE: Duration = Duration::from_secs(2);

/// The world of a test.
#[derive(Debug)]
pub struct World {
    root: PathBuf,
    /// Stands in the environment of every agent.
    pub mark: String,
    /// The user's repository.
    pub git: Git,
    commands: AtomicUsize,
}

/// The binary under test: `ENSEMBLE_BIN`, else the one beside the tests' own build.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn binary() -> PathBuf {
    let beside = || {
        let me = env::current_exe().unwrap();
        me.parent().and_then(Path::parent).unwrap().join("ensemble")
    };
    let path = env::var_os("ENSEMBLE_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.is_file(), "no binary at {}: `cargo build -p ensemble --features faults`", path.display());
    path
}

impl World {
    /// A world whose repository has one commit with a `README`.
    #[must_use]
    pub fn new() -> Self {
        let world = Self::with_repository("shop");
        world.git.write("README", "A shop.\n");
        world.git.commit("Begin");
        world
    }

    /// A world whose repository has this name and no commit.
    #[must_use]
    pub fn with_repository(name: &str) -> Self {
        let root = tempfile::Builder::new().prefix("ensemble-").tempdir().unwrap().keep();
        // The system may reach its temporary folder by a link; `/proc` shows where that leads.
        let root = fs::canonicalize(root).unwrap();
        for folder in ["home", "state", "runtime", "tmp", "out", "team"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let last = root.file_name().unwrap().to_string_lossy();
        let mark = format!("mark-{last}-{}", std::process::id());
        let git = Git::init(&root.join(name));
        fs::write(root.join("team/agent.sh"), include_str!("agent.sh")).unwrap();
        Self { mark, git, root, commands: AtomicUsize::new(0) }
    }

    /// A path in the world.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The team file's path.
    #[must_use]
    pub fn team_file(&self) -> PathBuf {
        self.path("team/team.yaml")
    }

    /// The plan file's path.
    #[must_use]
    pub fn plan_file(&self) -> PathBuf {
        self.path("team/plan.json")
    }

    /// The agents' log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.path("agents.log")
    }

    /// Where the runs of the world's repository are kept.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes team and plan.
    pub fn set_up(&self, team: &Team, plan: &Plan) {
        self.write_team(team);
        self.write_plan(plan);
    }

    /// Writes the team file.
    pub fn write_team(&self, team: &Team) {
        let team = team.to_json(&self.log_file(), &self.mark);
        fs::write(self.team_file(), format!("{team:#}")).unwrap();
    }

    /// Writes the plan and what the agents need for it.
    pub fn write_plan(&self, plan: &Plan) {
        fs::write(self.plan_file(), format!("{:#}", plan.to_json())).unwrap();
        plan.equip(&self.path("team"));
    }

    /// Writes a file beside the team file.
    pub fn beside_team(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path("team").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The binary with these arguments, in the repository, with an environment of the world's own.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).current_dir(self.git.path()).env_clear();
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command.env("LANG", "C.UTF-8").env("NO_COLOR", "1").env("RUST_BACKTRACE", "1");
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("runtime"));
        command.env("ENSEMBLE_DATA", self.data());
        command
    }

    /// Starts a command.
    #[must_use]
    pub fn launch(&self, command: Command) -> Started {
        let number = self.commands.fetch_add(1, Ordering::SeqCst);
        Started::new(command, self.root.join("out").join(format!("{number:03}")))
    }

    /// Starts the binary.
    #[must_use]
    pub fn start(&self, args: &[&str]) -> Started {
        self.launch(self.command(args))
    }

    /// Runs the binary to its end.
    #[must_use]
    pub fn ensemble(&self, args: &[&str]) -> Finished {
        self.start(args).wait(LIMIT)
    }

    /// The binary, set to carry out the world's plan with its team.
    #[must_use]
    pub fn run_command(&self, more: &[&str]) -> Command {
        let (plan, team) = (self.plan_file(), self.team_file());
        let (plan, team) = (plan.to_str().unwrap(), team.to_str().unwrap());
        self.command(&[&["run", "--plan", plan, "--team", team, "-o", "json"], more].concat())
    }

    /// Carries out the world's plan to its end.
    #[must_use]
    pub fn run(&self, more: &[&str]) -> Finished {
        self.start_run(more).wait(LIMIT)
    }

    /// Starts to carry out the world's plan.
    #[must_use]
    pub fn start_run(&self, more: &[&str]) -> Started {
        self.launch(self.run_command(more))
    }

    /// The runs as `ps` has them, newest first.
    #[must_use]
    pub fn ps(&self) -> Vec<Value> {
        let answer = self.ensemble(&["ps", "-o", "json"]).expect(0).json();
        answer.as_array().cloned().unwrap_or_else(|| panic!("no array: {answer}"))
    }

    /// The id of the newest run, once there is one.
    #[must_use]
    pub fn newest(&self) -> String {
        within(Duration::from_secs(30), "a run", || {
            let runs = self.ensemble(&["ps", "-o", "json"]);
            runs.stdout.starts_with('[').then(|| runs.json()[0]["id"].as_str().map(str::to_owned))?
        })
    }

    /// A run as `show` has it.
    #[must_use]
    pub fn show(&self, run: &str) -> Value {
        self.ensemble(&["show", run, "-o", "json"]).expect(0).json()
    }

    /// Everything that is known of a run from outside.
    #[must_use]
    pub fn evidence(&self, run: &str) -> Evidence<'_> {
        Evidence::gather(self, run)
    }

    /// The coordinator's own repository.
    ///
    /// # Panics
    /// When there is not exactly one.
    #[must_use]
    pub fn kept(&self) -> Git {
        let folder = self.data().join("repositories");
        let all: Vec<_> = fs::read_dir(folder).unwrap().filter_map(Result::ok).collect();
        assert_eq!(all.len(), 1, "repositories: {all:?}");
        Git::at(&all[0].path())
    }

    /// Waits until the agents' log holds a line that begins so.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn await_agent(&self, beginning: &str, of: &mut Started) {
        within(Duration::from_secs(60), &format!("an agent: {beginning}"), || {
            let found = self.agents().iter().any(|line| line.starts_with(beginning));
            assert!(found || !of.has_ended(), "ended before {beginning}: {}\n{}", of.stdout(), of.stderr());
            found.then_some(())
        });
    }

    /// The agents' log, the run's id left out of each line.
    #[must_use]
    pub fn agents(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        let short = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            [&words[..1], &words[2..]].concat().join(" ")
        };
        text.lines().map(short).collect()
    }

    /// The processes of this world but those in `except`.
    #[must_use]
    pub fn census(&self, except: &[u32]) -> Census {
        Census::take(&self.root, &self.mark, except)
    }

    /// Waits until no process of the world is left but those in `except`.
    ///
    /// # Panics
    /// When some are left after two seconds.
    #[track_caller]
    pub fn nobody_left(&self, except: &[u32]) {
        let mut last = Census { alive: Vec::new() };
        let began = std::time::Instant::now();
        while began.elapsed() < GONE {
            last = self.census(except);
            if last.alive.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("left after {GONE:?}: {:?}", last.alive);
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for (pid, _) in self.census(&[]).alive {
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap_or(0).max(2)), Signal::SIGKILL);
        }
        if thread::panicking() {
            eprintln!("kept for a look: {}", self.root.display());
        } else {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}
