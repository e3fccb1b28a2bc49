//! The keeper: the process between a node and an agent. It outlives the agent and everything the
//! agent started, so that a node, however it dies, leaves nothing running and no directory in use.
//! Single-threaded; it knows processes and its one socket, nothing of tasks or runs.
//!
//! As the node sees it: spec → refused | started → (control)* → exited | not started → ended.
//! At the socket's end, wherever that comes, everything is killed at once.

mod cgroup;
mod channel;
mod launch;
pub(crate) mod protocol;
pub(crate) mod tree;

use std::{
    fs::File,
    os::fd::AsFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, killpg},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpid, setsid},
};

pub(crate) use cgroup::Cgroup;
use channel::Channel;
use protocol::{Control, Report};

/// How long the keeper of an earlier attempt may still be clearing up in the same directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How long after the agent's own process its helpers may end by themselves (a `tee` that writes
/// its last lines), before they are killed.
const LINGER: Duration = Duration::from_millis(500);
/// Pauses between two rounds of killing: the first, doubled up to the last. None while processes
/// appear faster than they are stopped.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

/// The hidden verb of our binary. Call it first in `main`, before any thread, parser or log is
/// started, and whatever else stands on the command line: the keeper starts the agent by
/// executing this verb once more with arguments of its own.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(order) = launch::ordered(std::env::args_os()) {
        return launch::become_agent(order);
    }
    close_inherited();
    let Ok(mut channel) = Channel::open() else { return ExitCode::FAILURE };
    match Keeper::start(&mut channel) {
        Ok(Some(mut keeper)) => keeper.watch(&mut channel),
        Ok(None) => ExitCode::SUCCESS,
        Err(refusal) => {
            channel.report(&refusal);
            ExitCode::FAILURE
        }
    }
}

/// Closes all but the standard descriptors: whatever the node itself was started with and does not
/// know of (a build tool's pipe, a terminal's log) is none of the agent's.
fn close_inherited() {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let all: Vec<i32> = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in all.into_iter().filter(|number| *number > 2) {
        // The listing's own is among them and closed by now.
        let _ = nix::unistd::close(descriptor);
    }
}

/// What the keeper is about.
enum Aim {
    /// The agent runs.
    Watch,
    /// The agent has ended; what it left may end by itself until then.
    Linger(Instant),
    /// Nothing may be left; the pause before the next round.
    End(Duration),
}

struct Keeper {
    signals: SignalFd,
    agent: Pid,
    verdict: File,
    aim: Aim,
    killed: tree::Killed,
    cgroup: Option<Cgroup>,
    /// Held until this process ends.
    _lock: File,
}

impl Keeper {
    /// Reads the spec and starts the agent; `None` when the node was gone before it said anything.
    fn start(channel: &mut Channel) -> Result<Option<Self>, Report> {
        let refuse = |what: &str, error: &dyn std::fmt::Display| Report::Refused {
            held: false,
            why: format!("{what}: {error}"),
        };
        // Blocked, not ignored: an ignored signal would stay ignored in the agent.
        SigSet::all().thread_block().map_err(|error| refuse("signal mask", &error))?;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(|error| refuse("signalfd", &error))?;
        setsid().map_err(|error| refuse("setsid", &error))?;
        prctl::set_child_subreaper(true).map_err(|error| refuse("child subreaper", &error))?;
        tree::processes().map_err(|error| refuse("/proc", &error))?;

        let Some((spec, brief)) = channel.spec().map_err(|error| refuse("spec", &error))? else {
            return Ok(None);
        };
        let lock = crate::lock::hold(&spec.lock, LOCK_PATIENCE)
            .map_err(|error| refuse("lock", &error))?
            .ok_or_else(|| Report::Refused { held: true, why: "the lock is held".to_owned() })?;
        let cgroup = if spec.cgroup { Cgroup::make(getpid().as_raw()) } else { None };
        let started = launch::start(&spec, &brief, cgroup.as_ref());
        match started {
            Ok((agent, verdict)) => {
                let path = cgroup.as_ref().map(|one| one.path().to_owned());
                channel.report(&Report::Started { pid: agent.as_raw(), cgroup: path });
                let killed = tree::Killed::default();
                Ok(Some(Self { signals, agent, verdict, aim: Aim::Watch, killed, cgroup, _lock: lock }))
            }
            Err(error) => {
                cgroup.inspect(Cgroup::remove);
                channel.report(&Report::NotStarted { why: format!("`{}`: {error}", spec.program()) });
                channel.report(&Report::Ended { left_behind: 0 });
                Ok(None)
            }
        }
    }

    /// The keeper's life from the agent's start to the end of its last descendant.
    fn watch(&mut self, channel: &mut Channel) -> ExitCode {
        loop {
            if self.wait(channel).is_err() {
                // Not even waiting works: nothing may be left to chance.
                self.aim = Aim::End(PAUSES[0]);
            }
            self.obey(channel);
            if !self.reap(channel) {
                break;
            }
            if let Aim::Linger(until) = self.aim
                && Instant::now() >= until
            {
                self.aim = Aim::End(PAUSES[0]);
            }
            if let Aim::End(pause) = self.aim {
                let caught = self.killed.round(getpid().as_raw(), self.cgroup.as_ref());
                self.aim =
                    Aim::End(if caught { (pause * 2).clamp(PAUSES[0], PAUSES[1]) } else { Duration::ZERO });
            }
        }
        self.cgroup.as_ref().inspect(|one| one.remove());
        channel.report(&Report::Ended { left_behind: self.killed.without(self.agent.as_raw()) });
        ExitCode::SUCCESS
    }

    /// Sleeps until the node speaks, a child changes, or it is time.
    fn wait(&self, channel: &Channel) -> Result<(), Errno> {
        let timeout = match self.aim {
            // It may have gone before the first report reached it: nothing would wake us then.
            Aim::Watch if !channel.is_open() => PollTimeout::ZERO,
            Aim::Watch => PollTimeout::NONE,
            Aim::Linger(until) => whole_milliseconds(until.saturating_duration_since(Instant::now())),
            Aim::End(pause) => whole_milliseconds(pause),
        };
        let mut watched = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if channel.is_open() {
            watched.push(PollFd::new(channel.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does what the node asks, and kills when there is no node any more.
    fn obey(&mut self, channel: &mut Channel) {
        for control in channel.controls() {
            match control {
                Control::Term => {
                    // A stopped agent hears it only when it goes on. Neither may fail for good:
                    // KILL comes after it.
                    let _ = killpg(self.agent, Signal::SIGTERM);
                    let _ = killpg(self.agent, Signal::SIGCONT);
                }
                Control::Kill => self.end(),
            }
        }
        if !channel.is_open() {
            self.end();
        }
    }

    fn end(&mut self) {
        if !matches!(self.aim, Aim::End(_)) {
            self.aim = Aim::End(PAUSES[0]);
        }
    }

    /// Takes in the ends of children; whether there are any left. All orphans below become our
    /// children, so no child means no descendant.
    fn reap(&mut self, channel: &mut Channel) -> bool {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return true,
                Ok(status) if status.pid() == Some(self.agent) => self.agent_ended(status, channel),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn agent_ended(&mut self, status: WaitStatus, channel: &mut Channel) {
        let report = match launch::verdict(&self.verdict) {
            Some(why) => Report::NotStarted { why },
            None => match status {
                WaitStatus::Exited(_, code) => Report::Exited { code: Some(code), signal: None },
                WaitStatus::Signaled(_, signal, _) => {
                    Report::Exited { code: None, signal: Some(signal as i32) }
                }
                // Stops and continuations are not asked for.
                _ => return,
            },
        };
        channel.report(&report);
        if matches!(self.aim, Aim::Watch) {
            self.aim = Aim::Linger(Instant::now() + LINGER);
        }
    }
}

/// Rounded up, so that a wait is never over before its time.
fn whole_milliseconds(time: Duration) -> PollTimeout {
    PollTimeout::try_from(time + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
}
