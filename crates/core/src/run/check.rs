//! What the facts of checks change: those of an attempt's commit, of a merge commit (`gate: each`)
//! and of the merged tree. A failed one fails the attempt; a lost one costs nothing within a bound.

use super::{
    duty::Touched,
    fact::{CheckOf, CheckRef, LossCause},
    state::{Check, CheckState, Checks, LossWord, MAX_LOSSES, Stage, State, TaskIx, TaskState, Why},
};
use crate::{ids::CheckNumber, team::Gate, text::Text};

impl State {
    fn task_of(&self, of: &CheckOf) -> Option<TaskIx> {
        of.task.as_ref().and_then(|id| self.find(id)).map(|(ix, _)| ix)
    }

    fn checks_mut(&mut self, of: &CheckOf, touched: &mut Touched) -> Option<&mut Checks> {
        let Some(ix) = self.task_of(of) else { return self.final_checks.as_mut() };
        touched.tasks.insert(ix);
        self.task_mut(ix).attempt.as_mut().and_then(|attempt| attempt.stage.checks_mut())
    }

    fn live_check(&mut self, at: &CheckRef, touched: &mut Touched) -> Option<&mut Check> {
        let checks = self.checks_mut(&at.of, touched)?;
        checks
            .each
            .iter_mut()
            .find(|one| matches!(one.state, CheckState::Live { number, .. } if number == at.check))
    }

    /// Whether the run's checks must pass on a merge commit before the branch moves to it. A run that
    /// is being stopped has nobody left to run them; a merge that was ordered is let finish.
    pub(super) fn gated(&self) -> bool {
        let gate = self.submitted.as_ref();
        !self.stopping && gate.is_some_and(|it| it.gate == Gate::Each && !it.checks.is_empty())
    }

    pub(super) fn dispatch_check(
        &mut self,
        of: &CheckOf,
        number: CheckNumber,
        command: usize,
        live: CheckState,
        touched: &mut Touched,
    ) {
        if let Some(ix) = self.task_of(of)
            && let Some(attempt) = &mut self.task_mut(ix).attempt
        {
            // Numbers of one attempt go on, whatever the checks are for.
            attempt.last_check = number;
        }
        let Some(checks) = self.checks_mut(of, touched) else { return };
        checks.last = number;
        if let Some(check) = checks.each.get_mut(command) {
            check.tries += 1;
            check.state = live;
        }
    }

    pub(super) fn judge(
        &mut self,
        at: &CheckRef,
        passed: bool,
        ended: &str,
        output: &Text,
        touched: &mut Touched,
    ) {
        let Some(check) = self.live_check(at, touched) else { return };
        if passed {
            check.state = CheckState::Passed;
            self.checks_passed(&at.of, touched);
            return;
        }
        let headline = format!("check `{}` failed ({ended})", check.command);
        let Some(ix) = self.task_of(&at.of) else {
            self.final_checks = None;
            self.check_failure = Some(headline);
            self.check_output = output.clone();
            return;
        };
        let (capture, outcome) = self.reported(ix);
        self.fail_attempt(ix, with_output(headline, output), capture, outcome, touched);
    }

    fn checks_passed(&mut self, of: &CheckOf, touched: &mut Touched) {
        if !self.checks(of).is_some_and(Checks::passed) {
            return;
        }
        let Some(ix) = self.task_of(of) else { return };
        let Some(attempt) = &mut self.task_mut(ix).attempt else { return };
        match attempt.stage.clone() {
            Stage::Checking(report, _) => self.queue(ix, *report, touched),
            Stage::Gating(report, prepared) => attempt.stage = Stage::Advancing(report, prepared),
            _ => {}
        }
    }

    pub(super) fn lose_check(
        &mut self,
        at: &CheckRef,
        cause: LossCause,
        reason: &str,
        touched: &mut Touched,
    ) {
        let Some(check) = self.live_check(at, touched) else { return };
        check.state = CheckState::Open;
        let Some(checks) = self.checks_mut(&at.of, touched) else { return };
        if cause != LossCause::Process {
            checks.losses += 1;
        }
        if checks.losses < MAX_LOSSES {
            return;
        }
        let why = Why::Losses(LossWord::Checks, reason.to_owned());
        let Some(ix) = self.task_of(&at.of) else {
            self.final_checks = None;
            self.check_failure = Some(why.to_string());
            self.check_output = Text::default();
            return;
        };
        let (capture, outcome) = self.reported(ix);
        self.remember(ix, why.to_string().into(), capture, outcome);
        self.give_up(ix, TaskState::Failed, why, touched);
    }
}

fn with_output(headline: String, output: &Text) -> Text {
    if output.is_empty() { headline.into() } else { format!("{headline}\n{}", output.head()).into() }
}
