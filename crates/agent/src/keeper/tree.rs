//! The process tree below a process, as /proc shows it, and the way to end all of it: stop what is
//! seen until nothing new appears (a stopped process can't fork), then kill it. Process ids are
//! reused, so a signal goes to a process only after its start time was seen again.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use super::Cgroup;

/// Looks in one round for processes that are not stopped yet; the next round goes on.
const PASSES: usize = 32;

/// A process that was there when we looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    /// Clock ticks since boot at its start: with the id it names the process.
    started: u64,
    /// Ended, but not yet fetched by its parent.
    ended: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// From the text of `/proc/PID/stat`; its second field may hold anything, also `)`.
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let text = std::str::from_utf8(&stat[after..]).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Sends `signal` if this very process is still there.
    fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // A process that is gone, or not ours to signal, is seen by whoever counts what is left.
        let _ = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) if self.is_there() => pidfd_send_signal(handle, signal),
            Err(Errno::NOSYS) if self.is_there() => kill_process(pid, signal),
            Ok(_) | Err(_) => Ok(()),
        };
    }

    fn is_there(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.started == self.started && !now.ended)
    }
}

/// All processes that we can see.
///
/// # Errors
/// When there is no /proc.
pub(crate) fn processes() -> io::Result<Vec<Process>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.filter_map(Process::read).collect())
}

/// Those of `all` below `top` that have not ended.
fn below(top: i32, all: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut next = vec![top];
    while let Some(pid) = next.pop() {
        // Taken out, so that even an inconsistent look has an end.
        for child in children.remove(&pid).unwrap_or_default() {
            next.push(child.pid);
            found.push(child);
        }
    }
    found.retain(|process| !process.ended);
    found
}

/// What was killed so far, by id and start time.
#[derive(Debug, Default)]
pub(crate) struct Killed(BTreeSet<(i32, u64)>);

impl Killed {
    /// Kills everything below `top`; the caller reaps and repeats until nothing is left.
    pub(crate) fn round(&mut self, top: i32, cgroup: Option<&Cgroup>) {
        let seen = stop(|all| below(top, all));
        cgroup.inspect(|one| one.kill());
        for process in &seen {
            process.signal(Signal::KILL);
            self.0.insert((process.pid, process.started));
        }
    }

    /// How many were killed besides `pid`.
    pub(crate) fn without(&self, pid: i32) -> usize {
        self.0.iter().filter(|(one, _)| *one != pid).count()
    }
}

/// Stops the processes that `choose` picks until it picks no new ones; those that were stopped.
fn stop(choose: impl Fn(&[Process]) -> Vec<Process>) -> Vec<Process> {
    let mut known = BTreeSet::new();
    let mut seen = Vec::new();
    for _ in 0..PASSES {
        let mut fresh = choose(&processes().unwrap_or_default());
        fresh.retain(|process| known.insert((process.pid, process.started)));
        if fresh.is_empty() {
            break;
        }
        fresh.iter().for_each(|process| process.signal(Signal::STOP));
        seen.append(&mut fresh);
    }
    seen
}

/// In a lost keeper's stead: kills what is left of its session and its cgroup. How many that were.
/// `keeper` must not have been waited for yet, or its id might mean another session.
pub(crate) fn sweep(keeper: i32, cgroup: Option<&Cgroup>) -> usize {
    let mut killed = Killed::default();
    for _ in 0..PASSES {
        let of_session = |all: &[Process]| {
            let members = all.iter().filter(|one| one.session == keeper && one.pid != keeper && !one.ended);
            members.copied().collect::<Vec<_>>()
        };
        let seen = stop(of_session);
        cgroup.inspect(|one| one.kill());
        if seen.is_empty() {
            break;
        }
        for process in seen {
            process.signal(Signal::KILL);
            killed.0.insert((process.pid, process.started));
        }
    }
    cgroup.inspect(|one| one.remove());
    killed.without(keeper)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, session: 1, started: 0, ended: false }
    }

    #[test]
    fn a_name_full_of_brackets_hides_nothing() {
        let stat = b"42 (a) R 1 (b)) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2 3";
        let read = Process::parse(42, stat).unwrap();
        assert_eq!(read, Process { pid: 42, parent: 7, session: 9, started: 12345, ended: false });
    }

    #[test]
    fn a_tree_is_found_through_dead_parents_and_odd_loops() {
        let mut dead = process(11, 10);
        dead.ended = true;
        let all = [process(10, 1), dead, process(12, 11), process(13, 13), process(20, 2)];
        let pids: BTreeSet<i32> = below(1, &all).iter().map(|one| one.pid).collect();
        assert_eq!(pids, BTreeSet::from([10, 12]));
    }

    #[test]
    fn we_see_ourselves() {
        let own = std::process::id().cast_signed();
        assert!(processes().unwrap().iter().any(|one| one.pid == own && one.is_there()));
    }
}
