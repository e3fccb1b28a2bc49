//! The turn itself: the employee's agent, or the check's command, under its keeper, with its output
//! written to the attempt's log and followed by the coordinator.

use std::time::{Duration, Instant};

use ensemble_agent::{Backend, Exec, LogFile, Output, Reading, Request, Stream, Turn, TurnEnd};
use ensemble_core::{message::What, team};
use tokio::sync::watch;

use super::{Job, follow::Follower, prepare::Prepared};

/// How long a lost keeper's processes may take to vanish before their files are looked at.
const VANISH: Duration = Duration::from_secs(10);

/// Who carries out an attempt.
#[derive(Clone, Debug)]
pub(crate) enum Performer {
    /// An employee.
    Employee {
        /// Its agent's command.
        exec: team::Exec,
        /// Whether it may meet ignored files of its own.
        keep_ignored: bool,
    },
    /// Nobody: the command of a check.
    Check,
}

/// What a turn came to.
pub(super) enum Performance {
    /// An agent had its turn.
    Agent(Box<Reading>),
    /// A check ran.
    Check(Box<TurnEnd>),
    /// The machinery failed; whether the files may be looked at, and why it failed.
    Broken { quiet: bool, why: String },
}

/// Writes output to the log and tells the follower that there is more.
struct Logged {
    log: LogFile,
    grown: watch::Sender<()>,
}

impl Output for Logged {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        self.log.chunk(stream, bytes);
        self.grown.send_replace(());
    }
}

impl Job {
    pub(super) async fn performance(&mut self, prepared: &Prepared) -> (Performance, Option<Follower>) {
        let log = match LogFile::open(&self.folder.log()) {
            Ok(log) => log,
            Err(error) => {
                return (Performance::Broken { quiet: true, why: format!("no log: {error}") }, None);
            }
        };
        let (grown, growing) = watch::channel(());
        let key = self.stored.assign.key.clone();
        let follower = Follower::start(self.world.peers.dial(key.run), key, self.folder.log(), growing);
        let mut output = Logged { log, grown };
        if let Some(started) = self.started.take() {
            started();
        }
        let performed = self.turn(prepared, &mut output).await;
        // The follower goes on to the log's end once nobody writes to it any more.
        drop(output);
        (performed, Some(follower))
    }

    async fn turn(&self, prepared: &Prepared, output: &mut dyn Output) -> Performance {
        let cancellation = self.halting.cancellation();
        let time_limit = Duration::from_millis(self.stored.assign.timeout_ms);
        let keeper = self.world.keeper.clone();
        let turned = match (&self.stored.assign.what, &self.performer) {
            (What::Work(work), Performer::Employee { exec, .. }) => {
                let backend = Exec { keeper, command: exec.command.clone(), grace: Exec::GRACE };
                let request = Request {
                    brief: work.brief.clone(),
                    session: None,
                    worktree: prepared.dir.clone(),
                    attempt: self.folder.path().to_owned(),
                    env: prepared.env.clone(),
                    time_limit,
                };
                let reply = backend.turn(request, output, cancellation).await;
                reply.map(|reply| Performance::Agent(Box::new(reply.reading)))
            }
            (What::Check { command }, _) => {
                let turn = Turn {
                    keeper,
                    // One pipe, so that people read the output in the order it was written.
                    command: ["sh", "-c", "exec sh -c \"$0\" 2>&1", command].map(str::to_owned).to_vec(),
                    env: prepared.env.clone(),
                    dir: prepared.dir.clone(),
                    stdin: Vec::new(),
                    lock: self.folder.lock(),
                    time_limit,
                    grace: Exec::GRACE,
                    cgroup: true,
                };
                let end = ensemble_agent::run(turn, output, cancellation).await;
                end.map(|end| Performance::Check(Box::new(end)))
            }
            (What::Work(_), Performer::Check) => {
                return Performance::Broken {
                    quiet: true,
                    why: "a task was given to a check slot".to_owned(),
                };
            }
        };
        match turned {
            Ok(performance) => performance,
            Err(error) => {
                let until = Instant::now() + VANISH;
                let quiet = ensemble_agent::wait_until_free(&self.folder.lock(), until).await;
                Performance::Broken { quiet, why: error.to_string() }
            }
        }
    }
}
