//! Processes under a deadline: started with their output in files, waited for, judged by exit code.
//! Nothing here waits longer than it was told.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(5);

/// Waits until `look` finds something.
///
/// # Panics
/// When it has found nothing after `limit`; `what` says what was waited for.
pub fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        sleep(PERIOD);
    }
}

/// Says something beside the result: what a run of the tests measured, or which case it is at.
pub fn tell(line: &str) {
    eprintln!("{line}");
}

/// A process that may still run.
#[derive(Debug)]
pub struct Started {
    line: String,
    child: Child,
    began: Instant,
    out: PathBuf,
    err: PathBuf,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its command line, for messages.
    pub line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How long it ran, measured from outside.
    pub took: Duration,
}

impl Started {
    /// Starts a command with its output in the files `stem.out` and `stem.err`.
    #[must_use]
    pub fn new(mut command: Command, stem: PathBuf) -> Self {
        let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        command.stdin(Stdio::null());
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("can't start {line}: {error}"));
        Self { line, child, began: Instant::now(), out, err }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// What it has written to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        lossy(&self.err)
    }

    /// What it has written to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        lossy(&self.out)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it still runs after `limit`; it is killed then.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Finished {
        let end = self.began.elapsed() + limit;
        while self.child.try_wait().unwrap().is_none() {
            if self.began.elapsed() > end {
                let (out, err) = (self.stdout(), self.stderr());
                panic!("still runs after {limit:?}: {}\n{out}\n{err}", self.line);
            }
            sleep(PERIOD);
        }
        Finished {
            line: self.line.clone(),
            status: self.child.wait().unwrap(),
            stdout: self.stdout(),
            stderr: self.stderr(),
            took: self.began.elapsed(),
        }
    }

    /// Kills it and waits until it is gone.
    #[must_use]
    pub fn kill(self) -> Finished {
        // It may have ended by itself a moment ago; it is not yet waited for, so the id is still its own.
        self.signal(Signal::SIGKILL);
        self.wait(Duration::from_secs(10))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn lossy(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Finished {
    /// Its exit code; none when a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The same, if it ended with this exit code.
    ///
    /// # Panics
    /// When it did not; with all that it wrote.
    #[track_caller]
    #[must_use]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "exit code of {self}");
        self
    }

    /// The same, if standard output or error holds `text`.
    ///
    /// # Panics
    /// When neither does.
    #[track_caller]
    #[must_use]
    pub fn saying(self, text: &str) -> Self {
        assert!(self.says(text), "`{text}` is not said by {self}");
        self
    }

    /// Whether standard output or error holds `text`.
    #[must_use]
    pub fn says(&self, text: &str) -> bool {
        self.stdout.contains(text) || self.stderr.contains(text)
    }

    /// Its standard output as JSON.
    ///
    /// # Panics
    /// When it is not one JSON value.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}) from {self}"))
    }

    /// The run that its JSON speaks of.
    ///
    /// # Panics
    /// When it speaks of none.
    #[track_caller]
    #[must_use]
    pub fn run(&self) -> String {
        self.json()["id"].as_str().unwrap_or_else(|| panic!("no run in {self}")).to_owned()
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, status, stdout, stderr, took } = self;
        write!(f, "{line}\n{status} after {took:?}\n--- out\n{stdout}\n--- err\n{stderr}\n---")
    }
}
