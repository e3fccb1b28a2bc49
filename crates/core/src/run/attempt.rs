//! What the facts of one attempt change: from its dispatch over its report and its checks to the merge.
//! The arrows: Assigned → Working → Checking → Queued → Ordered → (Gating → Advancing →) success;
//! from every stage back to pending, or to failed, blocked, stopped.

use super::{
    duty::Touched,
    fact::{AttemptRef, Dispatch, Entry, Fact, LossCause, Report},
    state::{
        Attempt, CheckState, Checks, DEFAULT_MAX_ATTEMPTS, LossWord, MAX_LOSSES, MAX_REFUSALS, Previous,
        Stage, State, TaskIx, TaskState, Why,
    },
};
use crate::{
    ids::{CheckNumber, Seq},
    outcome::{Delivery, Ending, Outcome},
    text::Text,
};

impl State {
    pub(super) fn change_attempt(&mut self, fact: &Fact, entry: &Entry, touched: &mut Touched) {
        match fact {
            Fact::Dispatched(dispatch) => self.dispatch(dispatch, entry, touched),
            Fact::Refused { at, reason } => self.lose(at, LossCause::Refused, None, reason, touched),
            Fact::Started { at } => self.start(at, touched),
            Fact::Reported { at, report } => self.report(at, report, touched),
            Fact::Lost { at, cause, capture, reason } => {
                self.lose(at, *cause, capture.clone(), reason, touched);
            }
            Fact::CheckDispatched { of, check, command, place, .. } => {
                let live = CheckState::Live { number: *check, token: entry.seq, place: place.clone() };
                self.dispatch_check(of, *check, *command as usize, live, touched);
            }
            Fact::CheckReported { at, passed, ended, output } => {
                self.judge(at, *passed, ended, output, touched);
            }
            Fact::CheckLost { at, cause, reason } => self.lose_check(at, *cause, reason, touched),
            Fact::Accepted { task, .. } => self.accept(task, touched),
            Fact::MergeOrdered { task, ours, .. } => self.order_merge(task, ours, touched),
            Fact::Prepared { task, commit, changes, .. } => self.prepare(task, commit, changes, touched),
            Fact::Merged { task, commit, changes, .. } => self.merged(task, commit, changes, touched),
            Fact::Conflicted { task, files, .. } => self.conflict(task, files, touched),
            _ => {}
        }
    }

    fn dispatch(&mut self, dispatch: &Dispatch, entry: &Entry, touched: &mut Touched) {
        let Some((ix, _)) = self.find(&dispatch.task) else { return };
        self.turns += 1;
        let task = self.task_mut(ix);
        task.last_attempt = dispatch.attempt;
        task.employee = Some(dispatch.employee.clone());
        task.place = Some(dispatch.place.clone());
        task.attempt = Some(Attempt {
            dispatch: dispatch.clone(),
            token: entry.seq,
            since_ms: entry.time_ms,
            stage: Stage::Assigned,
            stopping: false,
            last_check: CheckNumber(0),
        });
        self.set_state(ix, TaskState::Dispatched, None);
        self.hold(ix, touched);
        touched.tasks.insert(ix);
    }

    fn start(&mut self, at: &AttemptRef, touched: &mut Touched) {
        let Some((ix, _)) = self.find(&at.task) else { return };
        if let Some(attempt) = &mut self.task_mut(ix).attempt {
            attempt.stage = Stage::Working;
        }
        self.set_state(ix, TaskState::Running, None);
        touched.tasks.insert(ix);
    }

    fn report(&mut self, at: &AttemptRef, report: &Report, touched: &mut Touched) {
        let Some((ix, task)) = self.find(&at.task) else { return };
        let Some(attempt) = &task.attempt else { return };
        touched.tasks.insert(ix);
        let (base, stopping) = (attempt.dispatch.base.clone(), attempt.stopping);
        let commands = task.spec.checks.clone();
        self.tokens = self.tokens.saturating_add(report.outcome.usage.total_tokens);
        let said = said(&report.outcome);
        match report.outcome.ending {
            _ if stopping => self.end_attempt(ix, report, said, TaskState::Stopped, Why::Stopped, touched),
            Ending::Stopped => self.end_attempt(ix, report, said, TaskState::Stopped, Why::Stopped, touched),
            Ending::Blocked => {
                let why = Why::Agent(said.head().to_owned());
                self.end_attempt(ix, report, said, TaskState::Blocked, why, touched);
            }
            Ending::Failed | Ending::Revise => {
                let (capture, outcome) = (report.delivery.clone(), Some(report.outcome.clone()));
                self.fail_attempt(ix, said, capture, outcome, touched);
            }
            Ending::Done if commands.is_empty() => self.queue(ix, report.clone(), touched),
            Ending::Done => {
                let commit = report.delivery.as_ref().map_or(base, |delivery| delivery.commit.clone());
                let checks = Checks::new(commit, &commands, CheckNumber(0));
                if let Some(attempt) = &mut self.task_mut(ix).attempt {
                    attempt.stage = Stage::Checking(Box::new(report.clone()), checks);
                }
                self.set_state(ix, TaskState::Running, None);
            }
        }
    }

    /// The attempt is through: its commit waits for the merge, or for the acceptance if there is none.
    pub(super) fn queue(&mut self, ix: TaskIx, report: Report, touched: &mut Touched) {
        let queue = if report.delivery.is_some() { &mut self.merge_queue } else { &mut self.accept_queue };
        queue.push_back(ix);
        if let Some(attempt) = &mut self.task_mut(ix).attempt {
            attempt.stage = Stage::Queued(Box::new(report));
        }
        self.set_state(ix, TaskState::Merging, None);
        touched.tasks.insert(ix);
    }

    pub(super) fn remember(
        &mut self,
        ix: TaskIx,
        why: Text,
        capture: Option<Delivery>,
        outcome: Option<Outcome>,
    ) {
        let task = self.task_mut(ix);
        let attempt = task.last_attempt;
        task.previous = Some(Previous { attempt, why, capture, outcome });
    }

    fn end_attempt(
        &mut self,
        ix: TaskIx,
        report: &Report,
        said: Text,
        state: TaskState,
        why: Why,
        touched: &mut Touched,
    ) {
        self.remember(ix, said, report.delivery.clone(), Some(report.outcome.clone()));
        self.give_up(ix, state, why, touched);
    }

    /// A try that counts. The next one starts from the head; at the bound the task has failed.
    pub(super) fn fail_attempt(
        &mut self,
        ix: TaskIx,
        why: Text,
        capture: Option<Delivery>,
        outcome: Option<Outcome>,
        touched: &mut Touched,
    ) {
        let bound = self.max_attempts(ix);
        let word = why.head().lines().next().unwrap_or_default().to_owned();
        self.remember(ix, why, capture, outcome);
        let task = self.task_mut(ix);
        task.failures += 1;
        if task.failures >= bound {
            self.give_up(ix, TaskState::Failed, Why::Attempts(word), touched);
        } else {
            self.reopen(ix, touched);
        }
    }

    /// Back to the start: the next attempt may be dispatched.
    fn reopen(&mut self, ix: TaskIx, touched: &mut Touched) {
        self.put_down(ix, touched);
        self.set_state(ix, TaskState::Pending, None);
    }

    /// What the attempt under way delivered and said, once it reported.
    pub(super) fn reported(&self, ix: TaskIx) -> (Option<Delivery>, Option<Outcome>) {
        let attempt = self.task(ix).attempt.as_ref();
        let report = attempt.and_then(|attempt| attempt.stage.report());
        report.map_or((None, None), |report| (report.delivery.clone(), Some(report.outcome.clone())))
    }

    fn max_attempts(&self, ix: TaskIx) -> u32 {
        let task = self.task(ix);
        let employee = task.attempt.as_ref().map(|attempt| &attempt.dispatch.employee);
        let member = self.eligible(task).find(|member| Some(&member.employee) == employee);
        let said = task.spec.max_attempts.or_else(|| member.and_then(|member| member.max_attempts));
        said.unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }

    fn lose(
        &mut self,
        at: &AttemptRef,
        cause: LossCause,
        capture: Option<Delivery>,
        reason: &str,
        touched: &mut Touched,
    ) {
        let Some((ix, task)) = self.find(&at.task) else { return };
        let stopping = task.attempt.as_ref().is_some_and(|attempt| attempt.stopping);
        touched.tasks.insert(ix);
        if capture.is_some() {
            self.remember(ix, "it was interrupted; what it had is kept".into(), capture, None);
        }
        let task = self.task_mut(ix);
        match cause {
            LossCause::Process => {}
            LossCause::Refused => {
                // Nothing was begun, so nothing of the budget is spent.
                task.refusals += 1;
                self.turns = self.turns.saturating_sub(1);
            }
            LossCause::Node | LossCause::Interrupted | LossCause::Environment => task.losses += 1,
        }
        if stopping {
            self.give_up(ix, TaskState::Stopped, Why::Stopped, touched);
        } else if self.task(ix).losses >= MAX_LOSSES {
            self.give_up(ix, TaskState::Failed, Why::Losses(LossWord::Attempts, reason.to_owned()), touched);
        } else if self.task(ix).refusals >= MAX_REFUSALS {
            self.give_up(ix, TaskState::Failed, Why::Losses(LossWord::Refusals, reason.to_owned()), touched);
        } else {
            self.reopen(ix, touched);
        }
    }

    /// Stops what the task has under way; a merge that is ordered is let finish.
    pub(super) fn stop_attempt(&mut self, ix: TaskIx, with_queued: bool, touched: &mut Touched) {
        let Some(attempt) = &mut self.task_mut(ix).attempt else { return };
        match &attempt.stage {
            Stage::Assigned | Stage::Working => attempt.stopping = true,
            Stage::Ordered(..) | Stage::Advancing(..) => {}
            Stage::Queued(_) | Stage::Gating(..) if !with_queued => {}
            Stage::Checking(report, _) | Stage::Queued(report) | Stage::Gating(report, _) => {
                let report = report.clone();
                self.end_attempt(ix, &report, "stopped".into(), TaskState::Stopped, Why::Stopped, touched);
            }
        }
    }

    /// The token of a task's attempt under way.
    #[must_use]
    pub fn token(&self, ix: TaskIx) -> Option<Seq> {
        self.task(ix).attempt.as_ref().map(|attempt| attempt.token)
    }
}

/// What an agent gave as its reason: the blockers, else the summary.
fn said(outcome: &Outcome) -> Text {
    if outcome.blockers.is_empty() {
        return outcome.summary.clone();
    }
    match outcome.blockers.as_slice() {
        [one] => one.clone(),
        many => many.iter().map(Text::head).collect::<Vec<_>>().join("; ").into(),
    }
}
