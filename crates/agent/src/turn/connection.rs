//! The node's end of a keeper: its process, the socket to it and the agent's two outputs.
//! Closing the socket, also by dropping this, is the order to kill everything. The keeper's
//! process itself is never killed from here: it is the one that ends the others.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use fail::fail_point;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, Take},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, ChildStderr, ChildStdout, Command},
};

use super::Turn;
use crate::{
    Error,
    keeper::{
        Cgroup,
        protocol::{Control, LINE_LIMIT, Report, Spec, line},
        tree,
    },
};

/// Longest time to hand over spec and brief, and to see a keeper's process end after its last word.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// A keeper that was started.
pub(super) struct Connection {
    child: Child,
    pid: Option<i32>,
    reports: Lines<BufReader<Take<OwnedReadHalf>>>,
    controls: OwnedWriteHalf,
}

impl Connection {
    /// Starts the keeper's process. It starts nothing before it has the spec.
    pub(super) fn open(turn: &Turn) -> Result<Self, Error> {
        fail_point!("agent.spawn", |_| Err(Error::Fault("agent.spawn")));
        let spawn = |source| Error::Spawn { program: turn.keeper.program.clone(), source };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(spawn)?;
        ours.set_nonblocking(true).map_err(spawn)?;
        let ours = UnixStream::from_std(ours).map_err(spawn)?;
        // The agent inherits environment and outputs from the keeper, so no secret is written down
        // and no descriptor has to be handed over by number.
        let child = Command::new(&turn.keeper.program)
            .args(&turn.keeper.args)
            .env_clear()
            .envs(&turn.env)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(spawn)?;
        fail_point!("agent.spawn.done", |_| Err(Error::Fault("agent.spawn.done")));
        let (read, controls) = ours.into_split();
        let reports = BufReader::new(read.take(LINE_LIMIT as u64)).lines();
        let pid = child.id().map(u32::cast_signed);
        Ok(Self { child, pid, reports, controls })
    }

    /// The agent's standard output, once.
    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The agent's standard error, once.
    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Hands over what is to be started. A keeper that is gone is noticed at its first report.
    pub(super) async fn send_spec(&mut self, turn: &Turn) -> Result<(), Error> {
        let spec = Spec {
            command: turn.command.clone(),
            dir: turn.dir.clone(),
            lock: turn.lock.clone(),
            brief: turn.stdin.len(),
            cgroup: turn.cgroup,
        };
        let mut bytes = line(&spec);
        bytes.extend_from_slice(&turn.stdin);
        match tokio::time::timeout(HANDSHAKE, self.controls.write_all(&bytes)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Refused { why: "it does not listen".to_owned() }),
        }
    }

    /// Asks the keeper for something. A keeper that is gone is noticed at its next report.
    pub(super) async fn send(&mut self, control: Control) {
        // An agent may have stopped its keeper, which could end nothing then.
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, Signal::CONT);
        }
        let _ = self.controls.write_all(&line(&control)).await;
    }

    /// The keeper's next word; `None` when it is gone. Safe to drop while waiting.
    pub(super) async fn report(&mut self) -> Result<Option<Report>, Error> {
        match self.reports.next_line().await {
            Ok(Some(text)) => {
                let odd = |error| Error::io("reading the keeper's report")(io::Error::from(error));
                serde_json::from_str(&text).map(Some).map_err(odd)
            }
            // A reset is an end, too.
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// Cleans up after a keeper that ended without having ended the agent.
    pub(super) async fn lost(mut self, cgroup: Option<Cgroup>) -> Error {
        let pid = self.pid;
        let sweep = move || pid.map_or(0, |pid| tree::sweep(pid, cgroup.as_ref()));
        let swept = tokio::task::spawn_blocking(sweep).await.unwrap_or(0);
        let how = match tokio::time::timeout(HANDSHAKE, self.child.wait()).await {
            Ok(Ok(status)) => in_words(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its socket".to_owned(),
        };
        Error::Lost { how, swept }
    }

    /// Sees the keeper's process end after its last word.
    pub(super) async fn close(mut self) {
        if tokio::time::timeout(HANDSHAKE, self.child.wait()).await.is_err() {
            tracing::warn!(pid = self.pid, "a keeper has said its last word but does not end");
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}
