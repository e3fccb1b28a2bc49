//! What the facts of acceptance and merging change: Queued → Ordered → (Gating → Advancing →) success,
//! or a conflict, which blocks the task.

use super::{
    duty::Touched,
    state::{Checks, Delivered, Prepared, Stage, State, TaskIx, TaskState, Why},
};
use crate::{
    ids::{CommitId, TaskId},
    outcome::Changes,
};

impl State {
    pub(super) fn accept(&mut self, id: &TaskId, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        self.accept_queue.retain(|queued| *queued != ix);
        self.succeed(ix, None, Changes::default(), touched);
    }

    pub(super) fn order_merge(&mut self, id: &TaskId, ours: &CommitId, touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        self.merge_queue.retain(|queued| *queued != ix);
        self.merging = Some(ix);
        touched.tasks.insert(ix);
        let Some(attempt) = &mut self.task_mut(ix).attempt else { return };
        attempt.stage = match std::mem::replace(&mut attempt.stage, Stage::Working) {
            Stage::Queued(report) => Stage::Ordered(report, ours.clone()),
            other => other,
        };
    }

    pub(super) fn prepare(
        &mut self,
        id: &TaskId,
        commit: &CommitId,
        changes: &Changes,
        touched: &mut Touched,
    ) {
        let Some((ix, _)) = self.find(id) else { return };
        touched.tasks.insert(ix);
        let commands = match &self.submitted {
            Some(submitted) if self.gated() => submitted.checks.clone(),
            _ => Vec::new(),
        };
        let Some(attempt) = &mut self.task_mut(ix).attempt else { return };
        let checks = Checks::new(commit.clone(), &commands, attempt.last_check);
        let passed = checks.passed();
        let prepared = |ours| Prepared { ours, commit: commit.clone(), changes: changes.clone(), checks };
        attempt.stage = match std::mem::replace(&mut attempt.stage, Stage::Working) {
            Stage::Ordered(report, ours) if passed => Stage::Advancing(report, prepared(ours)),
            Stage::Ordered(report, ours) => Stage::Gating(report, prepared(ours)),
            other => other,
        };
    }

    pub(super) fn merged(
        &mut self,
        id: &TaskId,
        commit: &CommitId,
        changes: &Changes,
        touched: &mut Touched,
    ) {
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
        let Some(report) = attempt.stage.into_report() else { return };
        task.delivered =
            Some(Delivered { attempt: attempt.dispatch.attempt, report: *report, merged, changes });
        self.set_state(ix, TaskState::Success, None);
        for dependant in self.task(ix).dependants.clone() {
            let task = self.task_mut(dependant);
            task.open_dependencies = task.open_dependencies.saturating_sub(1);
            touched.tasks.insert(dependant);
        }
        self.check_merged_tree();
    }

    pub(super) fn conflict(&mut self, id: &TaskId, files: &[String], touched: &mut Touched) {
        let Some((ix, _)) = self.find(id) else { return };
        let (capture, outcome) = self.reported(ix);
        let why = Why::Conflict(files.to_vec());
        self.remember(ix, why.to_string().into(), capture, outcome);
        self.give_up(ix, TaskState::Blocked, why, touched);
    }
}
