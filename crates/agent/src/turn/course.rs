//! Where a turn stands and what comes next, without any waiting of its own:
//! starting → running → (terminating → killing)? → ending → over. Each state has a deadline.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{Exit, Turn};
use crate::{
    Error, Wish,
    keeper::{
        Cgroup,
        protocol::{Control, Report},
    },
};

/// Longest time until the keeper has started the agent.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Longest time from KILL, or from the agent's own end, to the end of its last descendant.
const END_LIMIT: Duration = Duration::from_secs(30);
/// In place of a deadline beyond what a clock can say.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    Terminating,
    Killing,
    Ending,
    Over,
}

pub(super) struct Course {
    phase: Phase,
    until: Instant,
    wish: Wish,
    time_limit: Duration,
    grace: Duration,
    /// Why we ended it, if we did.
    cause: Option<Exit>,
    /// How the agent's own process ended.
    exit: Option<Exit>,
    left_behind: usize,
    cgroup: Option<std::path::PathBuf>,
}

impl Course {
    pub(super) fn new(turn: &Turn, now: Instant) -> Self {
        Self {
            phase: Phase::Starting,
            until: after(now, START_LIMIT),
            wish: Wish::Go,
            time_limit: turn.time_limit,
            grace: turn.grace,
            cause: None,
            exit: None,
            left_behind: 0,
            cgroup: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    pub(super) fn wish(&self) -> Wish {
        self.wish
    }

    /// The cgroup that the keeper made, if it made one.
    pub(super) fn cgroup(&self) -> Option<Cgroup> {
        self.cgroup.clone().map(Cgroup::at)
    }

    /// How it ended and how many had to be killed besides.
    pub(super) fn end(self) -> (Exit, usize) {
        let unknown = || Exit::NotStarted("the keeper did not say how the agent ended".to_owned());
        let exit = match self.exit {
            // What never ran was not stopped by us either.
            Some(exit @ Exit::NotStarted(_)) => exit,
            exit => self.cause.or(exit).unwrap_or_else(unknown),
        };
        (exit, self.left_behind)
    }

    /// Takes in the keeper's word.
    pub(super) fn hear(&mut self, report: Report, lock: &Path) -> Result<(), Error> {
        match report {
            Report::Refused { held: true, .. } => return Err(Error::Held { lock: lock.to_owned() }),
            Report::Refused { held: false, why } => return Err(Error::Refused { why }),
            Report::Started { cgroup, .. } => {
                self.cgroup = cgroup;
                if self.phase == Phase::Starting {
                    self.enter(Phase::Running, self.time_limit);
                }
            }
            Report::NotStarted { why } => self.agent_ended(Exit::NotStarted(why)),
            Report::Exited { code: Some(code), .. } => self.agent_ended(Exit::Code(code)),
            Report::Exited { code: None, signal } => self.agent_ended(Exit::Signal(signal.unwrap_or(0))),
            Report::Ended { left_behind } => {
                self.left_behind = left_behind;
                self.phase = Phase::Over;
            }
        }
        Ok(())
    }

    /// Takes in a wish to end.
    pub(super) fn wished(&mut self, wish: Wish) -> Option<Control> {
        self.wish = wish;
        match (wish, self.phase) {
            (Wish::Stop, Phase::Starting | Phase::Running) => {
                self.cause = Some(Exit::Cancelled);
                self.terminate()
            }
            (Wish::Kill, Phase::Starting | Phase::Running | Phase::Terminating) => {
                self.cause.get_or_insert(Exit::Cancelled);
                self.kill()
            }
            // What the agent left is not worth waiting for any more; how it ended stands.
            (Wish::Kill, Phase::Ending) => Some(Control::Kill),
            _ => None,
        }
    }

    /// The deadline of the present state has passed.
    pub(super) fn time_is_up(&mut self) -> Result<Option<Control>, Error> {
        match self.phase {
            Phase::Starting => Err(Error::Refused { why: "it has started nothing in time".to_owned() }),
            Phase::Running => {
                self.cause = Some(Exit::TimedOut);
                Ok(self.terminate())
            }
            Phase::Terminating => Ok(self.kill()),
            Phase::Killing | Phase::Ending => Err(Error::Survivors),
            Phase::Over => Ok(None),
        }
    }

    fn terminate(&mut self) -> Option<Control> {
        self.enter(Phase::Terminating, self.grace);
        Some(Control::Term)
    }

    fn kill(&mut self) -> Option<Control> {
        self.enter(Phase::Killing, END_LIMIT);
        Some(Control::Kill)
    }

    fn agent_ended(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.enter(Phase::Ending, END_LIMIT);
    }

    fn enter(&mut self, phase: Phase, length: Duration) {
        self.phase = phase;
        self.until = after(Instant::now(), length);
    }
}

fn after(now: Instant, length: Duration) -> Instant {
    now.checked_add(length).unwrap_or_else(|| now + FAR)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;
    use crate::KeeperCommand;

    fn course() -> Course {
        let turn = Turn {
            keeper: KeeperCommand { program: PathBuf::new(), args: vec![] },
            command: vec![],
            env: BTreeMap::new(),
            dir: PathBuf::new(),
            stdin: vec![],
            lock: PathBuf::new(),
            time_limit: Duration::MAX,
            grace: Duration::from_secs(5),
            cgroup: false,
        };
        Course::new(&turn, Instant::now())
    }

    fn hear(course: &mut Course, reports: impl IntoIterator<Item = Report>) {
        reports.into_iter().for_each(|report| course.hear(report, Path::new("lock")).unwrap());
    }

    fn started() -> Report {
        Report::Started { pid: 1, cgroup: None }
    }

    fn exited(code: i32) -> Report {
        Report::Exited { code: Some(code), signal: None }
    }

    #[test]
    fn an_agent_that_ends_by_itself_is_never_signalled() {
        let mut course = course();
        hear(&mut course, [started(), exited(3), Report::Ended { left_behind: 2 }]);
        assert!(course.is_over());
        assert_eq!(course.end(), (Exit::Code(3), 2));
    }

    #[test]
    fn time_brings_term_then_kill_then_gives_up() {
        let mut course = course();
        hear(&mut course, [started()]);
        assert_eq!(course.time_is_up().unwrap(), Some(Control::Term));
        assert_eq!(course.time_is_up().unwrap(), Some(Control::Kill));
        assert!(matches!(course.time_is_up(), Err(Error::Survivors)));
    }

    #[test]
    fn an_agent_that_heeds_term_still_timed_out() {
        let mut course = course();
        hear(&mut course, [started()]);
        course.time_is_up().unwrap();
        hear(&mut course, [exited(0), Report::Ended { left_behind: 0 }]);
        assert_eq!(course.end().0, Exit::TimedOut);
    }

    #[test]
    fn a_wish_before_the_start_holds_after_it() {
        let mut course = course();
        assert_eq!(course.wished(Wish::Stop), Some(Control::Term));
        hear(&mut course, [started()]);
        assert_eq!(course.wished(Wish::Kill), Some(Control::Kill));
        hear(&mut course, [exited(0), Report::Ended { left_behind: 0 }]);
        assert_eq!(course.end().0, Exit::Cancelled);
    }

    #[test]
    fn a_late_wish_does_not_change_how_it_ended() {
        let mut course = course();
        hear(&mut course, [started(), exited(0)]);
        assert_eq!(course.wished(Wish::Stop), None);
        assert_eq!(course.wished(Wish::Kill), Some(Control::Kill));
        hear(&mut course, [Report::Ended { left_behind: 1 }]);
        assert_eq!(course.end(), (Exit::Code(0), 1));
    }

    #[test]
    fn a_held_lock_is_told_apart_from_other_refusals() {
        let refused = |held| Report::Refused { held, why: "x".to_owned() };
        assert!(matches!(course().hear(refused(true), Path::new("l")), Err(Error::Held { .. })));
        assert!(matches!(course().hear(refused(false), Path::new("l")), Err(Error::Refused { .. })));
    }
}
