//! A world that carries out a run: it performs duties well or badly, repeats itself, loses nodes,
//! is told to stop and to retry, and crashes. What it does next is an input, so a run can be repeated.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{Seq, TaskId},
    outcome::{Changes as Files, Ending, Usage},
    run::{
        Duty, Fact,
        fact::{AttemptRef, CheckOf, CheckRef, Dispatch, LossCause, Place},
        state::{CheckState, Stage, TaskIx},
    },
    team::Gate,
};

use crate::desk::{Desk, commit, id, node, report};

/// What the world does next. Numbers choose among what is possible then.
#[derive(Clone, Debug)]
pub enum Step {
    /// Performs one open duty, well or badly.
    Perform { duty: u16, how: u8 },
    /// Performs one open duty as well as it can be.
    Help { duty: u16 },
    /// Lets the run decide.
    Decide,
    /// Says something again that was said before.
    Repeat { fact: u16 },
    /// Says something of an attempt, a check or a merge that never was.
    Invent { fact: u16, how: u8 },
    /// Somebody is in a hurry: a dispatch that is not due, or a merge before its checks.
    Rush { task: u16, how: u8 },
    /// A node is gone with everything on it.
    LoseNode { node: u8 },
    /// Somebody stops a task.
    StopTask { task: u16 },
    /// Somebody stops the run.
    StopRun,
    /// Somebody retries a task.
    RetryTask { task: u16 },
    /// Somebody retries the run.
    RetryRun,
    /// Somebody pauses the run.
    Pause,
    /// Somebody lets it go on.
    Resume,
    /// The coordinator's process dies; with `embedded` all attempts die with it.
    Crash { embedded: bool },
}

/// A world with the run that it carries out.
pub struct World {
    pub desk: Desk,
    /// How often each kind of fact was stored, and each kind of refusal given.
    pub seen: BTreeMap<String, u32>,
}

/// The causes of loss, all of them.
pub const CAUSES: [LossCause; 5] =
    [LossCause::Node, LossCause::Process, LossCause::Interrupted, LossCause::Environment, LossCause::Refused];

impl World {
    pub fn new(desk: Desk) -> Self {
        Self { desk, seen: BTreeMap::new() }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Perform { duty, how } => self.perform(*duty, *how),
            Step::Help { duty } => self.perform(*duty, u8::MAX),
            Step::Decide => self.desk.decide(),
            Step::Repeat { fact } => self.repeat(*fact),
            Step::Invent { fact, how } => self.invent(*fact, *how),
            Step::Rush { task, how } => self.rush(*task, *how),
            Step::LoseNode { node: number } => self.lose_node(&node(u32::from(*number % 3))),
            Step::StopTask { task } => self.ask(*task, |task| Fact::StopRequested { task }),
            Step::StopRun => self.offer(Fact::StopRequested { task: None }),
            Step::RetryTask { task } => {
                self.ask(*task, |task| Fact::Retried { task, prompt: Some("Again".into()) })
            }
            Step::RetryRun => self.offer(Fact::Retried { task: None, prompt: None }),
            Step::Pause => self.offer(Fact::Paused),
            Step::Resume => self.offer(Fact::Resumed),
            Step::Crash { embedded } => self.crash(*embedded),
        }
    }

    /// Offers a fact that may well be refused.
    fn offer(&mut self, fact: Fact) {
        let kind = fact.kind();
        let word = match self.desk.offer(fact) {
            Ok(_) => kind.to_owned(),
            Err(refusal) => format!("{kind}: {refusal}"),
        };
        *self.seen.entry(word).or_default() += 1;
    }

    fn must(&mut self, fact: Fact) {
        *self.seen.entry(fact.kind().to_owned()).or_default() += 1;
        self.desk.put(fact);
    }

    fn ask(&mut self, task: u16, fact: impl FnOnce(Option<TaskId>) -> Fact) {
        let tasks = &self.desk.state.tasks;
        if !tasks.is_empty() {
            let task = tasks[usize::from(task) % tasks.len()].spec.id.clone();
            self.offer(fact(Some(task)));
        }
    }

    /// Performs the duty at this place. What comes of a duty that is open is always admitted.
    fn perform(&mut self, duty: u16, how: u8) {
        let duties = self.desk.duties();
        let Some(duty) = duties.get(usize::from(duty) % duties.len().max(1)) else { return };
        let fact = match duty.clone() {
            Duty::Grant { task, .. } => {
                self.desk.dispatch_of(task, usize::from(how), node(u32::from(how % 3))).unwrap()
            }
            Duty::Attempt { task, .. } => self.work(task, how),
            Duty::Stop { task, .. } => self.end_stopped(task, how),
            Duty::GrantCheck { of, command, .. } => self.check_dispatched(&of, command, how),
            Duty::Check { of, check, token } => verdict(CheckRef { of, check, token }, how),
            Duty::Merge { task, .. } => self.merge(task, how),
            Duty::Advance { task, .. } => self.merged(task),
        };
        self.must(fact);
    }

    fn at(&self, ix: TaskIx) -> AttemptRef {
        self.desk.at(self.desk.state.task(ix).spec.id.as_str())
    }

    fn work(&mut self, ix: TaskIx, how: u8) -> Fact {
        let at = self.at(ix);
        let fresh = matches!(self.desk.state.task(ix).attempt.as_ref().unwrap().stage, Stage::Assigned);
        let work = self.desk.new_commit();
        let said = |ending, commit| {
            let mut report = report(ending, "a word", commit);
            report.outcome.usage = Usage { total_tokens: u64::from(how % 8), ..Usage::default() };
            Fact::Reported { at: at.clone(), report }
        };
        match how {
            u8::MAX | 120.. if fresh => Fact::Started { at },
            0..10 => said(Ending::Failed, Some(work)),
            10..20 => said(Ending::Failed, None),
            20..30 => said(Ending::Revise, Some(work)),
            30..40 => said(Ending::Blocked, None),
            40..45 => said(Ending::Stopped, Some(work)),
            45..70 => {
                Fact::Lost { at, cause: CAUSES[usize::from(how % 5)], capture: None, reason: String::new() }
            }
            70..80 => {
                let capture = report(Ending::Done, "", Some(work)).delivery;
                Fact::Lost { at, cause: LossCause::Interrupted, capture, reason: String::new() }
            }
            80..90 => Fact::Refused { at, reason: "no slot".into() },
            90..130 => said(Ending::Done, None),
            _ => said(Ending::Done, Some(work)),
        }
    }

    fn end_stopped(&mut self, ix: TaskIx, how: u8) -> Fact {
        let at = self.at(ix);
        let work = self.desk.new_commit();
        match how {
            0..60 => Fact::Reported { at, report: report(Ending::Done, "it was done already", Some(work)) },
            60..120 => Fact::Reported { at, report: report(Ending::Stopped, "stopped", Some(work)) },
            120..150 => Fact::Reported { at, report: report(Ending::Blocked, "it needs a key", None) },
            _ => Fact::Lost { at, cause: CAUSES[usize::from(how % 5)], capture: None, reason: String::new() },
        }
    }

    fn check_dispatched(&self, of: &CheckOf, command: u32, how: u8) -> Fact {
        let checks = self.desk.state.checks(of).unwrap();
        let place = node(u32::from(how % 3));
        let (check, commit) = (checks.last.next(), checks.commit.clone());
        Fact::CheckDispatched { of: of.clone(), check, command, commit, place }
    }

    fn merge(&mut self, ix: TaskIx, how: u8) -> Fact {
        let (state, gated) = (&self.desk.state, self.gated());
        let (task, attempt) = (state.task(ix).spec.id.clone(), state.task(ix).last_attempt);
        match how {
            0..40 => Fact::Conflicted { task, attempt, files: vec!["a.txt".into()] },
            40..100 => {
                Fact::Prepared { task, attempt, commit: self.desk.new_commit(), changes: Files::default() }
            }
            _ if gated => {
                Fact::Prepared { task, attempt, commit: self.desk.new_commit(), changes: Files::default() }
            }
            _ => self.merged(ix),
        }
    }

    fn merged(&mut self, ix: TaskIx) -> Fact {
        let task = self.desk.state.task(ix).spec.id.clone();
        self.desk.merged(task.as_str())
    }

    /// Whatever a node, a repository or the owner said once is refused the second time.
    fn repeat(&mut self, fact: u16) {
        let said: Vec<&Fact> =
            self.desk.log.iter().map(|entry| &entry.fact).filter(|fact| once(fact)).collect();
        let fact = said[usize::from(fact) % said.len()].clone();
        self.refused(fact);
    }

    fn refused(&mut self, fact: Fact) {
        let kind = fact.kind();
        match self.desk.offer(fact.clone()) {
            Err(refusal) => *self.seen.entry(format!("{kind}: {refusal}")).or_default() += 1,
            Ok(_) => panic!("{fact:?} was admitted\n{}", self.desk.show()),
        }
    }

    /// Something that looks like a fact of this run and is none.
    fn invent(&mut self, fact: u16, how: u8) {
        if how >= 128 {
            return self.forge(fact);
        }
        let said: Vec<&Fact> =
            self.desk.log.iter().map(|entry| &entry.fact).filter(|fact| once(fact)).collect();
        let mut fact = said[usize::from(fact) % said.len()].clone();
        match &mut fact {
            Fact::Reported { at, .. }
            | Fact::Lost { at, .. }
            | Fact::Started { at }
            | Fact::Refused { at, .. } => match how % 3 {
                0 => at.token = Seq(at.token.0 + 1_000_000),
                1 => at.attempt.0 += 1_000,
                _ => at.task = id("no-such-task"),
            },
            Fact::CheckReported { at, .. } | Fact::CheckLost { at, .. } => match how % 3 {
                0 => at.token = Seq(at.token.0 + 1_000_000),
                1 => at.check.0 += 1_000,
                _ => at.of.attempt.0 += 1_000,
            },
            Fact::Dispatched(dispatch) => match how % 3 {
                0 => dispatch.attempt.0 += 1_000,
                1 => dispatch.base = commit(0xbad),
                _ => dispatch.task = id("no-such-task"),
            },
            Fact::CheckDispatched { commit: on, check, .. } => match how % 2 {
                0 => *on = commit(0xbad),
                _ => check.0 += 1_000,
            },
            Fact::MergeOrdered { ours, theirs, .. } => match how % 2 {
                0 => *ours = commit(0xbad),
                _ => *theirs = commit(0xbad),
            },
            Fact::Merged { attempt, .. }
            | Fact::Prepared { attempt, .. }
            | Fact::Conflicted { attempt, .. } => {
                attempt.0 += 1_000;
            }
            Fact::Accepted { task, .. } => *task = id("no-such-task"),
            _ => {}
        }
        self.refused(fact);
    }

    /// A word about what is due or under way that names the wrong dispatch or the wrong head.
    fn forge(&mut self, duty: u16) {
        let ended = || ("exit 0".to_owned(), "ok".into());
        let forged = |duty| match duty {
            Duty::Attempt { task, token, .. } | Duty::Stop { task, token, .. } => {
                let at = AttemptRef { token: Seq(token.0 + 1), ..self.at(task) };
                Some(Fact::Reported { at, report: report(Ending::Done, "did it", None) })
            }
            Duty::Check { of, check, token } => {
                let (at, (ended, output)) = (CheckRef { of, check, token: Seq(token.0 + 1) }, ended());
                Some(Fact::CheckReported { at, passed: true, ended, output })
            }
            Duty::Grant { task, .. } => match self.desk.dispatch_of(task, 0, node(1)) {
                Some(Fact::Dispatched(dispatch)) => {
                    Some(Fact::Dispatched(Box::new(Dispatch { base: commit(0xbad), ..*dispatch })))
                }
                other => other,
            },
            _ => None,
        };
        let all: Vec<Fact> = self.desk.duties().into_iter().filter_map(forged).collect();
        if !all.is_empty() {
            self.refused(all[usize::from(duty) % all.len()].clone());
        }
    }

    /// A dispatch is admitted exactly when the run asks for one, to those who may do the task.
    fn rush(&mut self, task: u16, how: u8) {
        let ordered = self.desk.duties().into_iter().find_map(|duty| match duty {
            Duty::Merge { task, .. } if self.gated() => Some(task),
            _ => None,
        });
        if let Some(ix) = ordered {
            let fact = self.merged(ix);
            return self.refused(fact);
        }
        let Ok(tasks @ 1..) = u32::try_from(self.desk.state.tasks.len()) else { return };
        let ix = TaskIx(u32::from(task) % tasks);
        let task = self.desk.state.task(ix).clone();
        let Some(mut fact) = self.desk.dispatch_of(ix, usize::from(how), node(1)) else { return };
        let mut due =
            self.desk.state.duties().any(|duty| matches!(duty, Duty::Grant { task, .. } if *task == ix));
        if let (Fact::Dispatched(dispatch), true) = (&mut fact, how.is_multiple_of(2)) {
            dispatch.employee =
                if dispatch.employee.as_str() == "back" { "front" } else { "back" }.parse().unwrap();
            due &= self.desk.state.eligible(&task).any(|one| one.employee == dispatch.employee);
        }
        if due { self.must(fact) } else { self.refused(fact) }
    }

    /// Whether a merge commit is checked before the branch moves to it.
    fn gated(&self) -> bool {
        let submitted = self.desk.state.submitted.as_ref().unwrap();
        !self.desk.state.stopping && submitted.gate == Gate::Each && !submitted.checks.is_empty()
    }

    fn lose_node(&mut self, place: &Place) {
        for ix in (0_u32..).map(TaskIx).take(self.desk.state.tasks.len()) {
            self.lose_there(ix, place, LossCause::Node);
        }
        self.lose_checks(|at| at == place, LossCause::Node);
    }

    fn lose_there(&mut self, ix: TaskIx, place: &Place, cause: LossCause) {
        let Some(attempt) = &self.desk.state.task(ix).attempt else { return };
        if attempt.dispatch.place == *place && matches!(attempt.stage, Stage::Assigned | Stage::Working) {
            let at = self.at(ix);
            self.must(Fact::Lost { at, cause, capture: None, reason: String::new() });
        }
    }

    fn lose_checks(&mut self, which: impl Fn(&Place) -> bool, cause: LossCause) {
        for duty in self.desk.duties() {
            let Duty::Check { of, check, token } = duty else { continue };
            let live = self.desk.state.checks(&of).is_some_and(|checks| {
                checks.each.iter().any(|one| {
                    matches!(&one.state, CheckState::Live { number, place, .. } if *number == check && which(place))
                })
            });
            if live {
                self.must(Fact::CheckLost {
                    at: CheckRef { of, check, token },
                    cause,
                    reason: String::new(),
                });
            }
        }
    }

    fn crash(&mut self, embedded: bool) {
        self.desk.crash();
        *self.seen.entry("claimed".to_owned()).or_default() += 1;
        if !embedded {
            return;
        }
        for duty in self.desk.duties() {
            if let Duty::Attempt { task, .. } | Duty::Stop { task, .. } = duty {
                let at = self.at(task);
                self.must(Fact::Lost { at, cause: LossCause::Process, capture: None, reason: String::new() });
            }
        }
        self.lose_checks(|_| true, LossCause::Process);
    }

    /// Lets everything go well until the run ends or waits. The bound is generous and finite: a task
    /// needs a dispatch, a start, a report, a merge and, per check, a dispatch and a verdict.
    pub fn settle(&mut self) {
        let state = &self.desk.state;
        let gate = state.submitted.as_ref().map_or(0, |submitted| submitted.checks.len());
        let checks: usize = state.tasks.iter().map(|task| task.spec.checks.len() + gate).sum();
        let bound = 20 * (state.tasks.len() + 1) + 4 * (checks + gate + 1);
        for _ in 0..bound {
            self.desk.decide();
            if self.resting() {
                return;
            }
            assert!(self.desk.duties().iter().len() > 0, "it hangs\n{}", self.desk.show());
            self.perform(0, u8::MAX);
        }
        panic!("after {bound} steps it has neither ended nor begun to wait\n{}", self.desk.show());
    }

    /// Whether the run has ended or waits for a person.
    pub fn resting(&self) -> bool {
        self.desk.state.ended.is_some() || self.desk.state.waiting.is_some()
    }
}

/// A check passes, fails or is lost.
fn verdict(at: CheckRef, how: u8) -> Fact {
    match how {
        0..40 => {
            Fact::CheckReported { at, passed: false, ended: "exit 1".into(), output: "no such table".into() }
        }
        40..100 => Fact::CheckLost { at, cause: CAUSES[usize::from(how % 5)], reason: String::new() },
        _ => Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "ok".into() },
    }
}

/// Whether a fact may be said once only; people may ask again, and owners come and go.
fn once(fact: &Fact) -> bool {
    !matches!(
        fact,
        Fact::Claimed { .. }
            | Fact::StopRequested { .. }
            | Fact::Retried { .. }
            | Fact::Paused
            | Fact::Resumed
            | Fact::Waiting { .. }
            | Fact::Ended { .. }
    )
}
