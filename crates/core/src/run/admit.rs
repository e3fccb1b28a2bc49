//! May this fact be true now? Refuses stale attempts, duplicates and what the state does not allow.
//! Whoever proposes a fact asks here first; what is refused is never stored.

use std::collections::BTreeSet;

use super::{
    duty::{may_check, may_start},
    fact::{AttemptRef, CheckRef, Dispatch, EndState, Fact},
    state::{Attempt, Check, CheckState, Stage, State, Task, TaskState, Why},
};
use crate::{
    ids::{AttemptNumber, CommitId, TaskId},
    plan::TaskSpec,
};

/// Why a fact is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It speaks of an attempt, a check or a merge that is over or was never ordered.
    #[error("it speaks of something that is over")]
    Stale,
    /// There is no such task in the run.
    #[error("there is no such task in the run")]
    UnknownTask,
    /// The run has ended.
    #[error("the run has ended")]
    Over,
    /// Only a task that failed, is blocked or was stopped can be tried again.
    #[error("only what failed, is blocked or was stopped can be tried again")]
    NotEnded,
    /// The task waits for another one that did not succeed.
    #[error("it depends on a task that did not succeed; try that one again")]
    Dependency,
    /// The task can't be stopped: it has already ended or its result is being merged.
    #[error("it has already ended, or its result is being merged")]
    TooLate,
    /// The run is paused already.
    #[error("it is paused already")]
    Paused,
    /// Only a paused run can be resumed.
    #[error("it is not paused")]
    NotPaused,
    /// The state does not allow it now.
    #[error("the state of the run does not allow it now: {0}")]
    NotNow(&'static str),
}

/// Whether `fact` may be applied to `state`.
///
/// # Errors
/// [`Refusal`] with the reason; the state is unchanged.
pub fn admit(state: &State, fact: &Fact) -> Result<(), Refusal> {
    if state.submitted.is_none() != matches!(fact, Fact::Submitted(_)) {
        return Err(Refusal::NotNow("a run begins with one submission"));
    }
    match fact {
        Fact::Submitted(_) | Fact::Claimed { .. } => Ok(()),
        Fact::Planned { tasks, complete, .. } => admit_plan(state, tasks, *complete),
        Fact::Dispatched(dispatch) => admit_dispatch(state, dispatch),
        Fact::Refused { at, .. } => live(state, at).map(drop),
        Fact::Started { at } => match live(state, at)?.stage {
            Stage::Assigned => Ok(()),
            _ => Err(Refusal::Stale),
        },
        Fact::Reported { at, .. } | Fact::Lost { at, .. } => live(state, at).map(drop),
        Fact::CheckDispatched { of, check, command, commit, .. } => {
            let checks = state.checks(of).filter(|_| may_check(state, of)).ok_or(Refusal::Stale)?;
            let open =
                checks.each.get(*command as usize).is_some_and(|check| check.state == CheckState::Open);
            expect(open && *check == checks.last.next() && *commit == checks.commit)
        }
        Fact::CheckReported { at, .. } | Fact::CheckLost { at, .. } => live_check(state, at).map(drop),
        Fact::Accepted { task, attempt } => match stage(state, task, *attempt)? {
            Stage::Queued(report) => expect(report.delivery.is_none()),
            _ => Err(Refusal::Stale),
        },
        Fact::MergeOrdered { task, attempt, ours, theirs } => match stage(state, task, *attempt)? {
            Stage::Queued(report) => expect(
                state.merging.is_none()
                    && state.head.as_ref() == Some(ours)
                    && report.delivery.as_ref().is_some_and(|delivery| delivery.commit == *theirs),
            ),
            _ => Err(Refusal::Stale),
        },
        Fact::Prepared { task, attempt, .. } | Fact::Conflicted { task, attempt, .. } => {
            match stage(state, task, *attempt)? {
                Stage::Ordered(..) => Ok(()),
                _ => Err(Refusal::Stale),
            }
        }
        Fact::Merged { task, attempt, commit, .. } => admit_merged(state, task, *attempt, commit),
        Fact::StopRequested { task } => admit_stop(state, task.as_ref()),
        Fact::Retried { task, .. } => admit_retry(state, task.as_ref()),
        Fact::Paused => admit_pause(state),
        Fact::Resumed if state.paused => Ok(()),
        Fact::Resumed => Err(Refusal::NotPaused),
        Fact::Waiting { reason } => expect(super::decide::wait_reason(state) == Some(*reason)),
        Fact::Ended { state: end, head, .. } => expect(
            super::decide::end(state).is_some_and(|(due, _)| due == *end)
                && state.head.as_ref() == Some(head),
        ),
    }
}

fn expect(condition: bool) -> Result<(), Refusal> {
    if condition { Ok(()) } else { Err(Refusal::Stale) }
}

fn admit_plan(state: &State, tasks: &[TaskSpec], complete: bool) -> Result<(), Refusal> {
    if state.ended.is_some() {
        return Err(Refusal::Over);
    }
    if state.planned || state.stopping {
        return Err(Refusal::NotNow("the plan is complete, or the run is being stopped"));
    }
    let mut new = BTreeSet::new();
    if !tasks.iter().all(|task| state.find(&task.id).is_none() && new.insert(&task.id)) {
        return Err(Refusal::NotNow("a task of this id is there already"));
    }
    let known = |id: &TaskId| new.contains(id) || state.find(id).is_some();
    let mut specs = state.tasks.iter().map(|task| &task.spec).chain(tasks);
    if complete && !specs.all(|spec| spec.dependencies.iter().all(known)) {
        return Err(Refusal::NotNow("a task depends on one that is not in the plan"));
    }
    Ok(())
}

fn admit_dispatch(state: &State, dispatch: &Dispatch) -> Result<(), Refusal> {
    let (ix, task) = state.find(&dispatch.task).ok_or(Refusal::UnknownTask)?;
    if task.attempt.is_some() || dispatch.attempt != task.last_attempt.next() {
        return Err(Refusal::Stale);
    }
    if !may_start(state, ix) {
        return Err(Refusal::NotNow("the task can't start"));
    }
    if !state.eligible(task).any(|member| member.employee == dispatch.employee) {
        return Err(Refusal::NotNow("this employee can't do the task"));
    }
    if state.head.as_ref() != Some(&dispatch.base) {
        return Err(Refusal::NotNow("an attempt starts from the run branch's head"));
    }
    Ok(())
}

/// The attempt that `at` names, while its node still owes a word about it.
fn live<'a>(state: &'a State, at: &AttemptRef) -> Result<&'a Attempt, Refusal> {
    let (_, task) = state.find(&at.task).ok_or(Refusal::UnknownTask)?;
    task.attempt
        .as_ref()
        .filter(|attempt| attempt.dispatch.attempt == at.attempt && attempt.token == at.token)
        .filter(|attempt| matches!(attempt.stage, Stage::Assigned | Stage::Working))
        .ok_or(Refusal::Stale)
}

/// The check that `at` names, while it runs.
fn live_check<'a>(state: &'a State, at: &CheckRef) -> Result<&'a Check, Refusal> {
    let checks = state.checks(&at.of).ok_or(Refusal::Stale)?;
    checks
        .each
        .iter()
        .find(|check| {
            matches!(&check.state, CheckState::Live { number, token, .. } if *number == at.check && *token == at.token)
        })
        .ok_or(Refusal::Stale)
}

fn stage<'a>(state: &'a State, task: &TaskId, attempt: AttemptNumber) -> Result<&'a Stage, Refusal> {
    let (_, task) = state.find(task).ok_or(Refusal::UnknownTask)?;
    let current = task.attempt.as_ref().filter(|current| current.dispatch.attempt == attempt);
    current.map(|current| &current.stage).ok_or(Refusal::Stale)
}

fn admit_merged(
    state: &State,
    task: &TaskId,
    attempt: AttemptNumber,
    commit: &CommitId,
) -> Result<(), Refusal> {
    match stage(state, task, attempt)? {
        Stage::Ordered(..) if state.gated() => Err(Refusal::NotNow("the run's checks come before the merge")),
        Stage::Ordered(..) => Ok(()),
        Stage::Advancing(_, prepared) => expect(prepared.commit == *commit),
        _ => Err(Refusal::Stale),
    }
}

fn admit_stop(state: &State, task: Option<&TaskId>) -> Result<(), Refusal> {
    if state.ended.is_some() {
        return Err(Refusal::Over);
    }
    let Some(task) = task else {
        return if state.stopping { Err(Refusal::TooLate) } else { Ok(()) };
    };
    let (_, task) = state.find(task).ok_or(Refusal::UnknownTask)?;
    match (&task.state, &task.attempt) {
        (TaskState::Pending | TaskState::Blocked, _) => Ok(()),
        (_, Some(attempt)) if attempt.stopping => Err(Refusal::TooLate),
        (TaskState::Dispatched | TaskState::Running, Some(_)) => Ok(()),
        _ => Err(Refusal::TooLate),
    }
}

fn admit_pause(state: &State) -> Result<(), Refusal> {
    if state.ended.is_some() {
        return Err(Refusal::Over);
    }
    match (state.stopping, state.paused) {
        (true, _) => Err(Refusal::NotNow("the run is being stopped")),
        (_, true) => Err(Refusal::Paused),
        _ => Ok(()),
    }
}

fn admit_retry(state: &State, task: Option<&TaskId>) -> Result<(), Refusal> {
    if state.ended == Some(EndState::Delivered) {
        return Err(Refusal::Over);
    }
    if state.stopping && state.ended.is_none() {
        return Err(Refusal::NotNow("the run is being stopped"));
    }
    let Some(task) = task else {
        let anything = state.counts.failed + state.counts.blocked + state.counts.stopped > 0;
        let idle = state.waiting.is_some() || state.ended.is_some();
        return if anything || idle { Ok(()) } else { Err(Refusal::NotEnded) };
    };
    let (_, task) = state.find(task).ok_or(Refusal::UnknownTask)?;
    match (task.state, &task.why) {
        (TaskState::Blocked, Some(Why::Dependency(_))) => Err(Refusal::Dependency),
        (TaskState::Failed | TaskState::Blocked | TaskState::Stopped, _) if needs_another(state, task) => {
            Err(Refusal::Dependency)
        }
        (TaskState::Failed | TaskState::Blocked | TaskState::Stopped, _) => Ok(()),
        _ => Err(Refusal::NotEnded),
    }
}

/// Whether a task that this one depends on can't go on.
fn needs_another(state: &State, task: &Task) -> bool {
    let dependencies = task.spec.dependencies.iter().filter_map(|id| state.find(id));
    dependencies
        .map(|(_, dependency)| dependency.state)
        .any(|it| matches!(it, TaskState::Failed | TaskState::Blocked | TaskState::Stopped))
}
