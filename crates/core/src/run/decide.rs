//! What follows from a state without asking anybody: the next merge, an acceptance with nothing to
//! merge, the end. The owner stores these as facts like any other.

use super::{
    fact::{EndState, Fact, WaitReason},
    state::{Stage, State, TaskState},
};

/// The next fact that the state itself demands, if there is one. Ask again after applying it.
#[must_use]
pub fn decide(state: &State) -> Option<Fact> {
    accept(state).or_else(|| order_merge(state)).or_else(|| finish(state))
}

fn accept(state: &State) -> Option<Fact> {
    let task = state.task(*state.accept_queue.front()?);
    let attempt = task.attempt.as_ref()?.dispatch.attempt;
    Some(Fact::Accepted { task: task.spec.id.clone(), attempt })
}

fn order_merge(state: &State) -> Option<Fact> {
    if state.merging.is_some() {
        return None;
    }
    let task = state.task(*state.merge_queue.front()?);
    let attempt = task.attempt.as_ref()?;
    let Stage::Queued(report) = &attempt.stage else { return None };
    Some(Fact::MergeOrdered {
        task: task.spec.id.clone(),
        attempt: attempt.dispatch.attempt,
        ours: state.head.clone()?,
        theirs: report.delivery.as_ref()?.commit.clone(),
    })
}

fn finish(state: &State) -> Option<Fact> {
    if let Some((end, reason)) = end(state) {
        return Some(Fact::Ended { state: end, reason, head: state.head.clone()? });
    }
    wait_reason(state).map(|reason| Fact::Waiting { reason })
}

/// How the run must end now, if it must.
pub(super) fn end(state: &State) -> Option<(EndState, String)> {
    if state.ended.is_some() || state.submitted.is_none() || state.counts.active() > 0 {
        return None;
    }
    if state.stopping {
        return Some((EndState::Stopped, "stopped on request".to_owned()));
    }
    if !state.planned {
        return None;
    }
    if state.counts.pending > 0 {
        // S21: with nothing under way and nothing to start, waiting would never end.
        let stuck = state.budget_left() && !state.paused && state.duties.is_empty();
        return stuck.then(|| (EndState::Failed, "tasks are left, and none of them can start".to_owned()));
    }
    if let Some(failure) = &state.check_failure {
        return Some((EndState::Failed, failure.clone()));
    }
    if state.counts.failed > 0 {
        return Some((EndState::Failed, named(state, TaskState::Failed)));
    }
    if state.counts.stopped > 0 {
        return Some((EndState::Stopped, named(state, TaskState::Stopped)));
    }
    let checked = state.final_checks.as_ref().is_none_or(super::state::Checks::passed);
    (state.counts.blocked == 0 && checked).then(|| (EndState::Delivered, String::new()))
}

/// The first few tasks in this state, for the reason of an end.
fn named(state: &State, which: TaskState) -> String {
    const SHOWN: usize = 5;
    let mut ids: Vec<&str> = state
        .tasks
        .iter()
        .filter(|task| task.state == which)
        .map(|task| task.spec.id.as_str())
        .take(SHOWN + 1)
        .collect();
    let more = if ids.len() > SHOWN { ", …" } else { "" };
    ids.truncate(SHOWN);
    format!("{}: {}{more}", which.word(), ids.join(", "))
}

/// For what the run must begin to wait now, if it must.
pub(super) fn wait_reason(state: &State) -> Option<WaitReason> {
    let counts = &state.counts;
    if state.ended.is_some() || state.waiting.is_some() || state.stopping || counts.active() > 0 {
        return None;
    }
    if state.paused {
        // A check of the merged tree that runs is waited for like an attempt.
        return (!state.duties.contains_key(&None)).then_some(WaitReason::Paused);
    }
    if !state.planned {
        return None;
    }
    if counts.pending > 0 {
        return (!state.budget_left()).then_some(WaitReason::Budget);
    }
    (counts.blocked > 0 && counts.failed == 0 && counts.stopped == 0).then_some(WaitReason::Blocked)
}
