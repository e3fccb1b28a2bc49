//! The bench of these tests: an attempt's directory, what runs in it, and the helpers that wait for a
//! condition with a deadline. What is tested stands elsewhere.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ensemble_agent::{
    ALLOWED, Cancellation, KeeperCommand, Stream, Turn, TurnEnd, Wish, cancellation, environment,
    lock_is_free, run,
};

const MARK: &str = "ENSEMBLE_TEST_MARK";
/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// An attempt's directory and a mark of its own.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub mark: String,
    pub cgroup: bool,
}

impl Bench {
    pub fn new(cgroup: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        Self { dir, mark, cgroup }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn turn(&self, command: &[&str]) -> Turn {
        Turn {
            keeper: keeper_command(),
            command: command.iter().map(|part| (*part).to_owned()).collect(),
            env: environment_with(&self.mark),
            dir: self.dir.path().to_owned(),
            stdin: Vec::new(),
            lock: self.path("lock"),
            time_limit: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            cgroup: self.cgroup,
        }
    }

    pub fn sh(&self, script: &str) -> Turn {
        self.turn(&["sh", "-c", script])
    }

    /// A node of its own process that runs `script`.
    pub fn node(&self, script: &str) -> Command {
        let mut node = Command::new(std::env::current_exe().unwrap());
        node.arg("node").arg(self.dir.path()).args([&self.mark, &self.cgroup.to_string(), script]);
        node.stdin(Stdio::null());
        node
    }

    /// Processes that carry our mark, dead ones not counted.
    pub fn marked(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            env.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
        })
        .collect()
    }

    pub fn assert_nothing_left(&self) {
        assert_eq!(self.marked(), Vec::<u32>::new(), "processes left");
        assert!(lock_is_free(&self.path("lock")), "the lock is held");
    }
}

/// The environment of an agent with this mark.
pub fn environment_with(mark: &str) -> BTreeMap<String, OsString> {
    let set = BTreeMap::from([(MARK.to_owned(), mark.to_owned())]);
    environment(ALLOWED, &set, &[], |name| std::env::var_os(name))
}

pub fn keeper_command() -> KeeperCommand {
    KeeperCommand { program: std::env::current_exe().unwrap(), args: vec!["keeper".into()] }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub fn never() -> Cancellation {
    cancellation().1
}

pub fn finish(turn: Turn) -> TurnEnd {
    block_on(run(turn, &mut |_, _: &[u8]| {}, never())).unwrap()
}

pub fn stdout(end: &TurnEnd) -> String {
    String::from_utf8(end.stdout.to_bytes()).unwrap()
}

/// Waits until `holds`; panics when that takes too long.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub async fn until_exists(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < PATIENCE, "waited in vain for {}", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs `turn` and wishes `wish` as soon as the file `sign` is there.
pub fn run_until(turn: Turn, sign: &Path, wish: Wish) -> TurnEnd {
    block_on(async {
        let (canceller, cancellation) = cancellation();
        let mut ignore = |_: Stream, _: &[u8]| {};
        let going = run(turn, &mut ignore, cancellation);
        let wishing = async {
            until_exists(sign).await;
            canceller.wish(wish);
        };
        tokio::join!(going, wishing).0.unwrap()
    })
}
