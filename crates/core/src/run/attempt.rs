//! What the facts of one attempt change: from its dispatch over its report and its checks to the merge.
//! The arrows: Assigned → Working → Checking → Queued → Ordered → (Gating → Advancing →) success;
//! from every stage back to pending, or to failed, blocked, stopped.

use super::{
    duty::Touched,
    fact::{AttemptRef, CheckOf, Dispatch, Entry, Fact, LossCause, Report},
    state::{
        Attempt, CheckState, Checks, DEFAULT_MAX_ATTEMPTS, Delivered, LossWord, MAX_LOSSES, MAX_REFUSALS,
        Prepared, Previous, Stage, State, TaskIx, TaskState, Why,
    },
};
use crate::{
    ids::{CheckNumber, CommitId, Seq, TaskId},
    outcome::{Changes, Delivery, Ending, Outcome},
    team::Gate,
    text::Text,
};

impl State {
    pub(super) fn change_attempt(&mut self, fact: &Fact, entry: &Entry, touched: &mut Touched) {
        match fact {
            Fact::Dispatched(dispatch) => self.dispatch(dispatch, entry, touched),
            Fact::Refused { at, .. } => self.lose(at, LossCause::Refused, None, touched),
            Fact::Started { at } => self.start(at, touched),
            Fact::Reported { at, report } => self.report(at, report, touched),
            Fact::Lost { at, cause, capture } => self.lose(at, *cause, capture.clone(), touched),
            Fact::CheckDispatched { of, check, command, place, .. } => {
                self.number_check(of, *check);
                self.with_check(of, *command as usize, touched, |checks, command| {
                    checks.last = *check;
                    checks.each[command].tries += 1;
                    let (number, token) = (*check, entry.seq);
                    checks.each[command].state = CheckState::Live { number, token, place: place.clone() };
                });
            }
            Fact::CheckReported { at, passed, ended, output } => {
                if let Some(command) = self.live_command(&at.of, at.check) {
                    self.judge(&at.of, command, *passed, ended, output, touched);
                }
            }
            Fact::CheckLost { at, cause } => self.lose_check(&at.of, at.check, *cause, touched),
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
    fn queue(&mut self, ix: TaskIx, report: Report, touched: &mut Touched) {
        let queue = if report.delivery.is_some() { &mut self.merge_queue } else { &mut self.accept_queue };
        queue.push_back(ix);
        if let Some(attempt) = &mut self.task_mut(ix).attempt {
            attempt.stage = Stage::Queued(Box::new(report));
        }
        self.set_state(ix, TaskState::Merging, None);
        touched.tasks.insert(ix);
    }

    fn remember(&mut self, ix: TaskIx, why: Text, capture: Option<Delivery>, outcome: Option<Outcome>) {
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
    fn fail_attempt(
        &mut self,
        ix: TaskIx,
        why: Text,
        capture: Option<Delivery>,
        outcome: Option<Outcome>,
        touched: &mut Touched,
    ) {
        let bound = self.max_attempts(ix);
        let word = why.head().to_owned();
        self.remember(ix, why, capture, outcome);
        let task = self.task_mut(ix);
        task.failures += 1;
        if task.failures >= bound {
            self.give_up(ix, TaskState::Failed, Why::Attempts(word), touched);
        } else {
            self.reopen(ix, touched);
        }
    }

    fn reopen(&mut self, ix: TaskIx, touched: &mut Touched) {
        self.release(ix, touched);
        self.task_mut(ix).attempt = None;
        self.set_state(ix, TaskState::Pending, None);
        if self.stopping {
            self.set_state(ix, TaskState::Stopped, Some(Why::Stopped));
        }
        touched.tasks.insert(ix);
    }

    fn max_attempts(&self, ix: TaskIx) -> u32 {
        let task = self.task(ix);
        let employee = task.attempt.as_ref().map(|attempt| &attempt.dispatch.employee);
        let member = self.eligible(task).find(|member| Some(&member.employee) == employee);
        let said = task.spec.max_attempts.or_else(|| member.and_then(|member| member.max_attempts));
        said.unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }

    fn lose(&mut self, at: &AttemptRef, cause: LossCause, capture: Option<Delivery>, touched: &mut Touched) {
        let Some((ix, task)) = self.find(&at.task) else { return };
        let stopping = task.attempt.as_ref().is_some_and(|attempt| attempt.stopping);
        touched.tasks.insert(ix);
        if capture.is_some() {
            self.remember(ix, "it was interrupted; what it had is kept".into(), capture, None);
        }
        let task = self.task_mut(ix);
        match cause {
            LossCause::Process => {}
            LossCause::Refused => task.refusals += 1,
            LossCause::Node | LossCause::Interrupted | LossCause::Environment => task.losses += 1,
        }
        if stopping {
            self.give_up(ix, TaskState::Stopped, Why::Stopped, touched);
        } else if self.task(ix).losses >= MAX_LOSSES {
            self.give_up(ix, TaskState::Failed, Why::Losses(LossWord::Attempts), touched);
        } else if self.task(ix).refusals >= MAX_REFUSALS {
            self.give_up(ix, TaskState::Failed, Why::Losses(LossWord::Refusals), touched);
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
                self.merge_queue.retain(|queued| *queued != ix);
                self.accept_queue.retain(|queued| *queued != ix);
                if self.merging == Some(ix) {
                    self.merging = None;
                }
                self.end_attempt(ix, &report, "stopped".into(), TaskState::Stopped, Why::Stopped, touched);
            }
        }
    }

    fn with_check(
        &mut self,
        of: &CheckOf,
        command: usize,
        touched: &mut Touched,
        change: impl FnOnce(&mut Checks, usize),
    ) {
        let ix = of.task.as_ref().and_then(|id| self.find(id)).map(|(ix, _)| ix);
        touched.tasks.extend(ix);
        let checks = match ix {
            Some(ix) => self.task_mut(ix).attempt.as_mut().and_then(|attempt| attempt.stage.checks_mut()),
            None => self.final_checks.as_mut(),
        };
        if let Some(checks) = checks.filter(|checks| command < checks.each.len()) {
            change(checks, command);
        }
    }

    /// Check numbers of one attempt go on, whatever the checks are for.
    fn number_check(&mut self, of: &CheckOf, check: CheckNumber) {
        let Some((ix, _)) = of.task.as_ref().and_then(|id| self.find(id)) else { return };
        if let Some(attempt) = &mut self.task_mut(ix).attempt {
            attempt.last_check = check;
        }
    }

    fn live_command(&self, of: &CheckOf, check: CheckNumber) -> Option<usize> {
        let checks = self.checks(of)?;
        checks
            .each
            .iter()
            .position(|one| matches!(one.state, CheckState::Live { number, .. } if number == check))
    }

    fn judge(
        &mut self,
        of: &CheckOf,
        command: usize,
        passed: bool,
        ended: &str,
        output: &Text,
        touched: &mut Touched,
    ) {
        if passed {
            self.with_check(of, command, touched, |checks, command| {
                checks.each[command].state = CheckState::Passed;
            });
            self.checks_passed(of, touched);
            return;
        }
        let words = self.checks(of).map(|checks| checks.each[command].command.clone()).unwrap_or_default();
        let headline = format!("check `{words}` failed ({ended})");
        match of.task.as_ref().and_then(|id| self.find(id)).map(|(ix, _)| ix) {
            Some(ix) => {
                let attempt = self.task(ix).attempt.as_ref();
                let report = attempt.and_then(|attempt| attempt.stage.report()).cloned();
                let (capture, outcome) = report.map_or((None, None), |r| (r.delivery, Some(r.outcome)));
                if self.merging == Some(ix) {
                    self.merging = None;
                }
                self.fail_attempt(ix, with_output(headline, output), capture, outcome, touched);
            }
            None => {
                self.final_checks = None;
                self.check_failure = Some(headline);
            }
        }
    }

    fn checks_passed(&mut self, of: &CheckOf, touched: &mut Touched) {
        if !self.checks(of).is_some_and(Checks::passed) {
            return;
        }
        let Some((ix, task)) = of.task.as_ref().and_then(|id| self.find(id)) else { return };
        match task.attempt.as_ref().map(|attempt| attempt.stage.clone()) {
            Some(Stage::Checking(report, _)) => self.queue(ix, *report, touched),
            Some(Stage::Gating(report, prepared)) => {
                if let Some(attempt) = &mut self.task_mut(ix).attempt {
                    attempt.stage = Stage::Advancing(report, prepared);
                }
            }
            _ => {}
        }
    }

    fn lose_check(&mut self, of: &CheckOf, check: CheckNumber, cause: LossCause, touched: &mut Touched) {
        let Some(command) = self.live_command(of, check) else { return };
        self.with_check(of, command, touched, |checks, command| {
            checks.each[command].state = CheckState::Open;
            if cause != LossCause::Process {
                checks.losses += 1;
            }
        });
        if self.checks(of).is_some_and(|checks| checks.losses < MAX_LOSSES) {
            return;
        }
        match of.task.as_ref().and_then(|id| self.find(id)).map(|(ix, _)| ix) {
            Some(ix) => {
                if self.merging == Some(ix) {
                    self.merging = None;
                }
                self.give_up(ix, TaskState::Failed, Why::Losses(LossWord::Checks), touched);
            }
            None => {
                self.final_checks = None;
                self.check_failure = Some(Why::Losses(LossWord::Checks).to_string());
            }
        }
    }

    fn accept(&mut self, id: &TaskId, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        self.accept_queue.retain(|queued| *queued != ix);
        self.succeed(ix, None, Changes::default(), touched);
    }

    fn order_merge(&mut self, id: &TaskId, ours: &CommitId, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        self.merge_queue.retain(|queued| *queued != ix);
        self.merging = Some(ix);
        touched.tasks.insert(ix);
        if let Some(attempt) = &mut self.task_mut(ix).attempt
            && let Stage::Queued(report) = &attempt.stage
        {
            attempt.stage = Stage::Ordered(report.clone(), ours.clone());
        }
    }

    fn prepare(&mut self, id: &TaskId, commit: &CommitId, changes: &Changes, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        touched.tasks.insert(ix);
        let commands = match &self.submitted {
            Some(submitted) if submitted.gate == Gate::Each => submitted.checks.clone(),
            _ => Vec::new(),
        };
        let stopping = self.stopping;
        let Some(attempt) = &mut self.task_mut(ix).attempt else { return };
        let Stage::Ordered(report, ours) = attempt.stage.clone() else { return };
        let checks = Checks::new(commit.clone(), &commands, attempt.last_check);
        let prepared = Prepared { ours, commit: commit.clone(), changes: changes.clone(), checks };
        let open = !prepared.checks.passed() && !stopping;
        attempt.stage =
            if open { Stage::Gating(report, prepared) } else { Stage::Advancing(report, prepared) };
    }

    fn merged(&mut self, id: &TaskId, commit: &CommitId, changes: &Changes, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        self.merging = None;
        self.head = Some(commit.clone());
        self.succeed(ix, Some(commit.clone()), changes.clone(), touched);
    }

    fn succeed(&mut self, ix: TaskIx, merged: Option<CommitId>, changes: Changes, touched: &mut Touched) {
        touched.tasks.insert(ix);
        self.release(ix, touched);
        let task = self.task_mut(ix);
        let Some(attempt) = task.attempt.take() else { return };
        let Some(report) = attempt.stage.report().cloned() else { return };
        task.delivered = Some(Delivered { attempt: attempt.dispatch.attempt, report, merged, changes });
        self.set_state(ix, TaskState::Success, None);
        for dependant in self.task(ix).dependants.clone() {
            let task = self.task_mut(dependant);
            task.open_dependencies = task.open_dependencies.saturating_sub(1);
            touched.tasks.insert(dependant);
        }
        self.check_merged_tree();
    }

    fn conflict(&mut self, id: &TaskId, files: &[String], touched: &mut Touched) {
        let Some((ix, task)) = self.find(id) else { return };
        let report = task.attempt.as_ref().and_then(|attempt| attempt.stage.report()).cloned();
        let (capture, outcome) = report.map_or((None, None), |r| (r.delivery, Some(r.outcome)));
        self.merging = None;
        touched.tasks.insert(ix);
        let why = Why::Conflict(files.to_vec());
        self.remember(ix, why.to_string().into(), capture, outcome);
        self.give_up(ix, TaskState::Blocked, why, touched);
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

fn with_output(headline: String, output: &Text) -> Text {
    if output.is_empty() { headline.into() } else { format!("{headline}\n{}", output.head()).into() }
}
