//! Back ends: how an employee's agent runs. One trait for all kinds, and `exec`, which runs any
//! command. A back end knows the attempt's directory and the brief, nothing of tasks, employees
//! or git; what is in the worktree afterwards is looked at by the node.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use crate::{
    Cancellation, Error, KeeperCommand, Output, Reading, Turn, TurnEnd,
    result::{outcome, read_file},
    run,
};

/// The brief, in the attempt's directory.
const PROMPT_FILE: &str = "prompt.md";
/// The agent's result, in the attempt's directory.
const RESULT_FILE: &str = "result.json";
/// The agent's `HOME`, in the attempt's directory, unless the request's environment names another.
const HOME: &str = "home";
/// The lock that the keeper holds, in the attempt's directory.
const LOCK: &str = "lock";

/// A conversation that a back end can take up again. Opaque: only the back end that gave it out
/// reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session(pub String);

/// What a back end is asked to do: one turn.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the agent is told.
    pub brief: String,
    /// The conversation to go on with, if any. A back end that can't go on starts anew.
    pub session: Option<Session>,
    /// The worktree, or the directory that stands for one: where the agent works.
    pub worktree: PathBuf,
    /// The attempt's own directory, which exists, outside of the worktree.
    pub attempt: PathBuf,
    /// The agent's environment, as [`environment`](crate::environment) makes it; the back end adds
    /// what it offers itself.
    pub env: BTreeMap<String, OsString>,
    /// Longest time of the turn.
    pub time_limit: Duration,
}

/// What came of a turn.
#[derive(Clone, Debug)]
pub struct Reply {
    /// How the agent's process ended and what it wrote.
    pub end: TurnEnd,
    /// What that comes to, usage included.
    pub reading: Reading,
    /// The conversation to go on with, where the back end has such.
    pub session: Option<Session>,
}

/// A turn that is being carried out. Dropping it kills the agent.
pub type Going<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// How an employee's agent runs.
pub trait Backend: Send + Sync {
    /// Starts a conversation or takes one up, carries out one turn of it with its output passed on
    /// as it comes, and ends with no process of the agent left. A wish to stop ends it within
    /// `grace` + 30 s, a wish to kill within 30 s.
    ///
    /// # Errors
    /// [`Error`]: the machinery failed, not the agent, whose failures are in the reply.
    fn turn<'a>(
        &'a self,
        request: Request,
        output: &'a mut dyn Output,
        cancellation: Cancellation,
    ) -> Going<'a>;
}

/// Any command as back end. The brief is on its standard input and in `$ENSEMBLE_PROMPT_FILE`; its
/// outcome is read from `$ENSEMBLE_RESULT_FILE`, else from its output and exit status. It has no
/// sessions: each turn is a new process.
#[derive(Clone, Debug)]
pub struct Exec {
    /// How to execute our own binary as a keeper.
    pub keeper: KeeperCommand,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Time from TERM to KILL.
    pub grace: Duration,
}

impl Exec {
    /// Time from TERM to KILL where nothing else is said.
    pub const GRACE: Duration = Duration::from_secs(5);

    /// The lock file of an attempt's directory, for [`lock_is_free`](crate::lock_is_free).
    #[must_use]
    pub fn lock(attempt: &Path) -> PathBuf {
        attempt.join(LOCK)
    }

    /// Puts the files of a turn in their places and says how to run it.
    fn prepare(&self, request: Request) -> std::io::Result<Turn> {
        let Request { brief, worktree, attempt, mut env, time_limit, .. } = request;
        let (prompt, result, home) =
            (attempt.join(PROMPT_FILE), attempt.join(RESULT_FILE), attempt.join(HOME));
        fs::write(&prompt, &brief)?;
        // What an earlier turn said is not this one's word.
        match fs::remove_file(&result) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        env.insert("ENSEMBLE_PROMPT_FILE".to_owned(), prompt.into());
        env.insert("ENSEMBLE_RESULT_FILE".to_owned(), result.into());
        if !env.contains_key("HOME") {
            fs::create_dir_all(&home)?;
            env.insert("HOME".to_owned(), home.into());
        }
        Ok(Turn {
            keeper: self.keeper.clone(),
            command: self.command.clone(),
            env,
            dir: worktree,
            stdin: brief.into_bytes(),
            lock: Self::lock(&attempt),
            time_limit,
            grace: self.grace,
            cgroup: true,
        })
    }
}

impl Backend for Exec {
    fn turn<'a>(
        &'a self,
        request: Request,
        output: &'a mut dyn Output,
        cancellation: Cancellation,
    ) -> Going<'a> {
        Box::pin(async move {
            let result = request.attempt.join(RESULT_FILE);
            let turn = self.prepare(request).map_err(Error::io("preparing the attempt's directory"))?;
            let end = run(turn, output, cancellation).await?;
            let reading = read(&end, &result);
            Ok(Reply { end, reading, session: None })
        })
    }
}

fn read(end: &TurnEnd, result: &Path) -> Reading {
    let (stdout, stderr) = (end.stdout.to_bytes(), end.stderr.to_bytes());
    let mut reading = match read_file(result) {
        Ok(file) => outcome(&end.exit, file.as_deref(), &stdout, &stderr),
        Err(why) => {
            let mut reading = outcome(&end.exit, None, &stdout, &stderr);
            let failed = ensemble_core::outcome::Outcome::failed(why);
            if reading.outcome.ending != ensemble_core::outcome::Ending::Stopped {
                reading.outcome.ending = failed.ending;
            }
            reading.outcome.blockers.extend(failed.blockers);
            reading
        }
    };
    // Measured, not claimed.
    reading.outcome.usage.duration_ms = u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
    reading
}
