//! The process tree below a process, as /proc shows it, and the way to end all of it: stop what is
//! seen until nothing new appears (a stopped process can't fork), then kill it. Process ids are
//! reused, so a signal goes to a process only after its start time was seen again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    path::Path,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use super::Cgroup;

/// Looks in one round for processes that are not stopped yet; the caller reaps, the next goes on.
const PASSES: usize = 8;
/// Rounds for what a lost keeper left, and the pause between them: two seconds in all.
const SWEEPS: usize = 100;
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

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

/// Visits what has not ended below `top`. Where the kernel lists children (nearly everywhere) a
/// process is visited microseconds after it was seen and before its children are listed, so that
/// the visitor can stop it: the only way to catch up with processes that beget others all the time.
fn visit_below(top: i32, visit: &mut dyn FnMut(Process)) {
    if !Path::new("/proc/thread-self/children").exists() {
        below(top, &processes().unwrap_or_default()).into_iter().for_each(visit);
        return;
    }
    let mut known = BTreeSet::from([top]);
    let mut next = vec![top];
    while let Some(parent) = next.pop() {
        for pid in children(parent).into_iter().filter(|pid| known.insert(*pid)) {
            if let Some(process) = Process::read(pid).filter(|process| !process.ended) {
                visit(process);
            }
            next.push(pid);
        }
    }
}

/// The children of a process, whichever of its threads they belong to.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
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
    /// Kills everything below `top`; the caller reaps and repeats until nothing is left. Whether
    /// everything was caught, so that there is time to wait for its end.
    pub(crate) fn round(&mut self, top: i32, cgroup: Option<&Cgroup>) -> bool {
        if let Some(cgroup) = cgroup {
            self.0.extend(
                cgroup.members().into_iter().filter_map(Process::read).map(|one| (one.pid, one.started)),
            );
            cgroup.kill();
        }
        self.stop_and_kill(|visit| visit_below(top, visit))
    }

    /// How many were killed besides `pid`.
    pub(crate) fn without(&self, pid: i32) -> usize {
        self.0.iter().filter(|(one, _)| *one != pid).count()
    }

    /// Stops what `look` visits until it visits nothing new, then kills it. Whether it came to that.
    fn stop_and_kill(&mut self, look: impl Fn(&mut dyn FnMut(Process))) -> bool {
        let mut stopped = BTreeMap::new();
        let mut caught = false;
        for _ in 0..PASSES {
            let before = stopped.len();
            look(&mut |process| {
                stopped.entry((process.pid, process.started)).or_insert_with(|| {
                    process.signal(Signal::STOP);
                    process
                });
            });
            caught = stopped.len() == before;
            if caught {
                break;
            }
        }
        stopped.values().for_each(|process| process.signal(Signal::KILL));
        self.0.extend(stopped.into_keys());
        caught
    }
}

/// In a lost keeper's stead: kills what is left of its session and its cgroup. How many that were.
/// `keeper` must not have been waited for yet, or its id might mean another session.
pub(crate) fn sweep(keeper: i32, cgroup: Option<&Cgroup>) -> usize {
    let mut killed = Killed::default();
    let is_left = |one: &Process| one.session == keeper && one.pid != keeper && !one.ended;
    for _ in 0..SWEEPS {
        cgroup.inspect(|one| one.kill());
        killed.stop_and_kill(|visit| {
            processes().unwrap_or_default().into_iter().filter(is_left).for_each(visit);
        });
        if !processes().unwrap_or_default().iter().any(is_left) {
            break;
        }
        std::thread::sleep(SWEEP_PAUSE);
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
