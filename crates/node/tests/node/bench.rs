//! A data directory, a coordinator with a repository, and a team of shell scripts.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{
        AttemptNumber, CheckNumber, CommitId, EmployeeId, Epoch, ProjectId, RepositoryId, RunId, Seq, TaskId,
    },
    link::AttemptKey,
    message::{Assign, Ended, How, ToNode, What, Work},
    plan::WorktreeMode,
    run::fact::Report,
    team::{Backend, Budget, CoordinatorSpec, Employee, Exec, Gate, PlanChecks, Team},
};
use ensemble_node::{Config, Dial, Home, KeeperCommand, NodeHandle, one_coordinator};

use crate::coordinator::{Coordinator, PATIENCE};

/// In the environment of every agent, with the name of the bench's directory.
const MARK: &str = "ENSEMBLE_TEST_MARK";

pub struct Bench {
    dir: tempfile::TempDir,
    pub coordinator: Coordinator,
    pub base: CommitId,
    pub run: RunId,
}

impl Bench {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("ensemble-node-").tempdir().unwrap();
        let coordinator = Coordinator::new(&dir.path().join("coordinator.git"), 1);
        let base = coordinator.inner().repository.empty_root().unwrap();
        let run = RunId::from_parts(1_796_000_000_000, 1);
        coordinator.inner().owned.insert(run, Epoch(1));
        Self { dir, coordinator, base, run }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Another start of the coordinator, which has the same repository.
    pub fn restart_coordinator(&mut self, epoch: u64) {
        self.coordinator = Coordinator::new(&self.path("coordinator.git"), 2);
        self.coordinator.inner().owned.insert(self.run, Epoch(epoch));
    }

    pub async fn node(&self, script: &str) -> NodeHandle {
        ensemble_node::start(self.config(script, self.coordinator.dial())).await.unwrap()
    }

    pub fn config(&self, script: &str, dial: Dial) -> Config {
        config(&self.data(), script, dial)
    }

    pub fn key(&self, task: &str, token: u64) -> AttemptKey {
        AttemptKey {
            run: self.run,
            task: Some(TaskId::new(task).unwrap()),
            attempt: AttemptNumber(1),
            check: None,
            token: Seq(token),
        }
    }

    pub fn work(&self, token: u64) -> Assign {
        let what = What::Work(Work {
            employee: EmployeeId::new("back").unwrap(),
            title: "Write the API".to_owned(),
            brief: "You write the API.".to_owned(),
            context: r#"{"task":"api"}"#.to_owned(),
            worktree: None,
            outputs: Vec::new(),
            previous: None,
        });
        self.assign(self.key("api", token), what)
    }

    pub fn work_with(&self, token: u64, change: impl FnOnce(&mut Work)) -> Assign {
        let mut assign = self.work(token);
        let What::Work(work) = &mut assign.what else { unreachable!() };
        change(work);
        assign
    }

    pub fn check(&self, token: u64, base: &CommitId, command: &str) -> Assign {
        let key = AttemptKey { check: Some(CheckNumber(1)), ..self.key("api", token) };
        let assign = self.assign(key, What::Check { command: command.to_owned() });
        Assign { base: base.clone(), ..assign }
    }

    fn assign(&self, key: AttemptKey, what: What) -> Assign {
        Assign {
            key,
            epoch: Epoch(1),
            timeout_ms: 60_000,
            repository: RepositoryId::of(&self.base, &ProjectId::new("shop").unwrap()),
            base: self.base.clone(),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            what,
        }
    }

    /// Hands out an assignment; its key.
    pub async fn hand_out(&self, assign: Assign) -> AttemptKey {
        self.coordinator.attached().await;
        let key = assign.key.clone();
        self.coordinator.say(ToNode::Assign(Box::new(assign)));
        key
    }

    /// Hands out an assignment and waits for its report.
    pub async fn report(&self, assign: Assign) -> Report {
        let key = self.hand_out(assign).await;
        match self.coordinator.end(&key).await {
            Ended { how: How::Report(report), .. } => report,
            other => panic!("{other:?}"),
        }
    }

    pub fn file(&self, commit: &CommitId, path: &str) -> Option<String> {
        let bytes = self.coordinator.inner().repository.file_at(commit, path).unwrap()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    /// Directories of attempts that are there.
    pub fn attempts(&self) -> Vec<PathBuf> {
        let below = |path: &Path| -> Vec<PathBuf> {
            fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        let nodes = below(&self.data().join("nodes"));
        let runs = nodes.iter().flat_map(|node| below(&node.join("attempts")));
        runs.flat_map(|run| below(&run)).collect()
    }

    pub async fn until(&self, what: &str, mut seen: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !seen() {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until no process of an agent of this bench is left.
    pub async fn nobody_left(&self) {
        let wanted = format!("{MARK}={}", mark(&self.data()));
        self.until("no agent is left", || {
            let pids = fs::read_dir("/proc").unwrap();
            let mut pids = pids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
            !pids.any(|pid| {
                let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                env.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
            })
        })
        .await;
    }
}

fn mark(data: &Path) -> String {
    data.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

pub fn config(data: &Path, script: &str, dial: Dial) -> Config {
    let program = std::env::current_exe().unwrap();
    Config {
        home: Home::open_free(data).unwrap(),
        team: team(script, data),
        check_slots: 1,
        keeper: KeeperCommand { program, args: vec!["keeper".into()] },
        link_ttl: Duration::from_secs(3),
        coordinators: one_coordinator("bench".parse().unwrap(), dial),
    }
}

/// One employee with two slots whose agent is `script`, and one whose kind can't run here.
fn team(script: &str, data: &Path) -> Team {
    let bench = data.parent().unwrap().to_str().unwrap().to_owned();
    let exec = Exec {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: [(MARK.to_owned(), mark(data)), ("BENCH".to_owned(), bench)].into(),
        pass_env: Vec::new(),
    };
    let employee = |id: &str, backend| Employee {
        id: EmployeeId::new(id).unwrap(),
        name: id.to_owned(),
        description: String::new(),
        agent_type: id.to_owned(),
        prompt: String::new(),
        backend: Some(backend),
        instances: 1,
        slots: 2,
        timeout_ms: 60_000,
        max_attempts: None,
        keep_ignored: false,
    };
    Team {
        name: ProjectId::new("shop").unwrap(),
        description: String::new(),
        conventions: String::new(),
        coordinator: CoordinatorSpec::default(),
        employees: vec![
            employee("back", Backend::Exec(exec)),
            employee("model", Backend::Later("model".to_owned())),
        ],
        teams: Vec::new(),
        checks: Vec::new(),
        gate: Gate::End,
        plan_checks: PlanChecks::Refuse,
        budget: Budget::default(),
        remote: None,
        has_collaboration: false,
    }
}

pub fn mode(mode: WorktreeMode) -> impl FnOnce(&mut Work) {
    move |work| work.worktree = Some(mode)
}
