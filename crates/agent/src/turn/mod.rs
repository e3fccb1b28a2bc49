//! One turn of an agent, from the node's side: start a keeper, pass its output on as it comes,
//! end it when it is told to or its time is up, say how it ended. What the agent's words mean is
//! `result`; who may run what where is the node's business.
//!
//! Dropping the future of [`run`] closes the keeper's socket, which kills everything at once.

mod connection;
mod course;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{Cancellation, Error, Tail};
use connection::Connection;
use course::Course;

/// Bytes taken from a pipe at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;
/// Standard output kept for reading the result: a result block has at most 1 MiB.
const STDOUT_KEPT: [usize; 2] = [64 * 1024, 1024 * 1024];
/// Standard error kept for messages.
const STDERR_KEPT: [usize; 2] = [4 * 1024, 16 * 1024];
/// How long the pipes may stay open after the last process that we know of: somebody else was
/// given them, and may keep them.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// How to execute our own binary as a keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperCommand {
    /// The binary.
    pub program: PathBuf,
    /// What makes it call [`keeper::main`](crate::keeper::main): `keeper`.
    pub args: Vec<OsString>,
}

/// All that a turn needs.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The keeper to start it with.
    pub keeper: KeeperCommand,
    /// Program and arguments of the agent; the program is looked for in `env`'s `PATH`, a relative
    /// path is taken from `dir`.
    pub command: Vec<String>,
    /// The agent's whole environment, as [`environment`](crate::environment) makes it.
    pub env: BTreeMap<String, OsString>,
    /// Its working directory.
    pub dir: PathBuf,
    /// What it reads on standard input, from memory; closed after it. Empty: nothing to read.
    pub stdin: Vec<u8>,
    /// The lock file of the attempt's directory, held until no process of the agent is left.
    pub lock: PathBuf,
    /// Longest time of the turn.
    pub time_limit: Duration,
    /// Time from TERM to KILL.
    pub grace: Duration,
    /// Whether the keeper may make a cgroup for the agent where the system allows it.
    pub cgroup: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The agent ended by itself with this status.
    Code(i32),
    /// A signal that we did not send ended it.
    Signal(i32),
    /// Its time was up.
    TimedOut,
    /// It was told to end.
    Cancelled,
    /// Its command could not be executed, for this reason.
    NotStarted(String),
}

/// What a turn left behind.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    /// How it ended.
    pub exit: Exit,
    /// The first 64 KiB and the last 1 MiB of standard output.
    pub stdout: Tail,
    /// The first 4 KiB and the last 16 KiB of standard error.
    pub stderr: Tail,
    /// From the start to the end of the last process.
    pub duration: Duration,
    /// Processes that had to be killed besides the agent's own.
    pub left_behind: usize,
}

impl TurnEnd {
    fn not_started(why: String) -> Self {
        let [stdout, stderr] = [STDOUT_KEPT, STDERR_KEPT].map(|[head, tail]| Tail::new(head, tail));
        Self { exit: Exit::NotStarted(why), stdout, stderr, duration: Duration::ZERO, left_behind: 0 }
    }
}

/// Where output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Who gets the output while it comes.
pub trait Output: Send {
    /// The next bytes, at most 64 KiB, cut anywhere. Called on the turn's own task, so it must not
    /// wait for anything but a local disk; while it runs the agent's pipes fill, nothing is lost.
    fn chunk(&mut self, stream: Stream, bytes: &[u8]);
}

impl<F: FnMut(Stream, &[u8]) + Send> Output for F {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        self(stream, bytes);
    }
}

/// Runs a turn to its end. Ends by itself at most `time_limit` + `grace` + 30 s after the start,
/// and `grace` + 30 s after a wish to stop; then no process of the agent is left.
///
/// # Errors
/// [`Error`]: the machinery failed, not the agent. Each variant says whether repeating is safe.
pub async fn run(
    turn: Turn,
    output: &mut dyn Output,
    mut cancellation: Cancellation,
) -> Result<TurnEnd, Error> {
    let started = Instant::now();
    let mut keeper = match Connection::open(&turn) {
        Ok(keeper) => keeper,
        Err(Error::Spawn { source, .. }) if is_about_environment(&source) => {
            return Ok(TurnEnd::not_started(format!("its environment can't be handed over: {source}")));
        }
        Err(error) => return Err(error),
    };
    let mut course = Course::new(&turn, started);
    let (mut stdout, mut stderr) =
        (Pipe::new(Stream::Stdout, keeper.stdout()), Pipe::new(Stream::Stderr, keeper.stderr()));
    keeper.send_spec(&turn).await?;
    while !course.is_over() {
        let control = tokio::select! {
            report = keeper.report() => match report? {
                Some(report) => { course.hear(report, &turn.lock)?; None }
                None => return Err(keeper.lost(course.cgroup()).await),
            },
            wish = cancellation.beyond(course.wish()) => course.wished(wish),
            () = tokio::time::sleep_until(course.until().into()) => course.time_is_up()?,
            length = stdout.read() => { stdout.pass(length, output); None }
            length = stderr.read() => { stderr.pass(length, output); None }
        };
        if let Some(control) = control {
            keeper.send(control).await;
        }
    }
    let drained = tokio::time::timeout(DRAIN_LIMIT, async {
        stdout.drain(output).await;
        stderr.drain(output).await;
    });
    if drained.await.is_err() {
        tracing::warn!("an agent's output is held open by a process outside its tree; it is read no further");
    }
    keeper.close().await;
    let (exit, left_behind) = course.end();
    Ok(TurnEnd { exit, stdout: stdout.kept, stderr: stderr.kept, duration: started.elapsed(), left_behind })
}

/// Whether a keeper could not be started because of what its agent was to be given: that is the
/// team file's fault and would be the same on every other try.
fn is_about_environment(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput)
}

/// One of the agent's outputs.
struct Pipe<R> {
    stream: Stream,
    source: Option<R>,
    buffer: Vec<u8>,
    kept: Tail,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(stream: Stream, source: Option<R>) -> Self {
        let [head, tail] = match stream {
            Stream::Stdout => STDOUT_KEPT,
            Stream::Stderr => STDERR_KEPT,
        };
        Self { stream, source, buffer: vec![0; CHUNK], kept: Tail::new(head, tail) }
    }

    /// Waits for what comes next; never ready once the pipe is closed. Safe to drop while waiting.
    async fn read(&mut self) -> usize {
        match &mut self.source {
            // A pipe has no errors that more reading would cure.
            Some(source) => source.read(&mut self.buffer).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    }

    /// Passes on what was read; nothing read means that the pipe is closed.
    fn pass(&mut self, length: usize, output: &mut dyn Output) {
        if length == 0 {
            self.source = None;
            return;
        }
        self.kept.push(&self.buffer[..length]);
        output.chunk(self.stream, &self.buffer[..length]);
    }

    /// Passes on all that is left.
    async fn drain(&mut self, output: &mut dyn Output) {
        while self.source.is_some() {
            let length = self.read().await;
            self.pass(length, output);
        }
    }
}
