//! What a fact changes. Total: whatever was admitted can be applied, and nothing here can fail.
//! This file holds the facts of the whole run; `attempt` holds those of one attempt.

use super::{
    duty::{self, Changes, Touched},
    fact::{EndState, Entry, Fact, Submitted, WaitReason},
    state::{Checks, Spent, State, Task, TaskIx, TaskState, Why},
};
use crate::{
    ids::{AttemptNumber, CheckNumber, TaskId},
    plan::TaskSpec,
    text::Text,
};

impl State {
    /// Applies a fact that was admitted, and says which duties appeared and vanished.
    pub fn apply(&mut self, entry: &Entry) -> Changes {
        self.seq = entry.seq;
        self.epoch = entry.epoch;
        self.changed_ms = entry.time_ms;
        let mut touched = Touched::default();
        let budget_left = self.budget_left();
        self.change(entry, &mut touched);
        touched.all |= budget_left != self.budget_left();
        self.reindex(&touched)
    }

    fn change(&mut self, entry: &Entry, touched: &mut Touched) {
        match &entry.fact {
            Fact::Submitted(submitted) => self.submit(submitted, entry.time_ms),
            Fact::Planned { scope, conventions, tasks, complete } => {
                if !scope.is_empty() {
                    self.scope = scope.clone();
                }
                self.conventions.extend(conventions.iter().cloned());
                self.plan(tasks, *complete, touched);
            }
            Fact::Claimed { .. } => {}
            Fact::StopRequested { task: None } => self.stop_run(touched),
            Fact::StopRequested { task: Some(task) } => self.stop_task(task, touched),
            Fact::Retried { task, prompt } => self.retry(task.as_ref(), prompt.as_ref(), touched),
            Fact::Paused => self.pause(true, touched),
            Fact::Resumed => self.pause(false, touched),
            Fact::Waiting { reason } => self.waiting = Some(*reason),
            Fact::Ended { state, reason, .. } => {
                self.ended = Some(*state);
                self.ended_ms = Some(entry.time_ms);
                self.end_reason.clone_from(reason);
                self.final_checks = None;
                self.paused = false;
                touched.all = true;
            }
            other => self.change_attempt(other, entry, touched),
        }
    }

    fn submit(&mut self, submitted: &Submitted, time_ms: u64) {
        self.began_ms = time_ms;
        self.head = Some(submitted.base.clone());
        self.submitted = Some(Box::new(submitted.clone()));
    }

    fn plan(&mut self, specs: &[TaskSpec], complete: bool, touched: &mut Touched) {
        for spec in specs {
            let ix = TaskIx(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX));
            self.by_id.insert(spec.id.clone(), ix);
            for name in &spec.exclusive {
                self.users.entry(name.clone()).or_default().push(ix);
            }
            let eligible = self.eligible_for(spec);
            self.tasks.push(Task::new(spec.clone(), eligible, self.changed_ms));
            self.counts.pending += 1;
        }
        if !complete {
            return;
        }
        self.planned = true;
        for ix in (0_u32..).map(TaskIx).take(self.tasks.len()) {
            let dependencies: Vec<TaskIx> =
                self.task(ix).spec.dependencies.iter().filter_map(|id| self.by_id.get(id).copied()).collect();
            self.task_mut(ix).open_dependencies = u32::try_from(dependencies.len()).unwrap_or(u32::MAX);
            for dependency in dependencies {
                self.task_mut(dependency).dependants.push(ix);
            }
        }
        // Somebody may have stopped a task while the plan was still coming in.
        self.unblock();
        self.check_merged_tree();
        touched.all = true;
    }

    fn eligible_for(&self, spec: &TaskSpec) -> Vec<u32> {
        let Some(submitted) = &self.submitted else { return Vec::new() };
        (0_u32..)
            .zip(&submitted.roster)
            .filter(|(_, member)| match (&spec.employee, &spec.agent_type) {
                (Some(id), _) => member.employee == *id,
                (None, Some(kind)) => member.agent_type == *kind || member.employee.as_str() == kind,
                (None, None) => true,
            })
            .map(|(place, _)| place)
            .collect()
    }

    /// Starts the checks of the merged tree once every task has succeeded.
    pub(super) fn check_merged_tree(&mut self) {
        let Some(submitted) = &self.submitted else { return };
        let all = self.counts.success as usize == self.tasks.len();
        if !self.planned || !all || submitted.checks.is_empty() || self.check_failure.is_some() {
            return;
        }
        if let (Some(head), None) = (&self.head, &self.final_checks) {
            self.check_rounds += 1;
            self.final_checks = Some(Checks::new(head.clone(), &submitted.checks, CheckNumber(0)));
        }
    }

    fn pause(&mut self, paused: bool, touched: &mut Touched) {
        self.paused = paused;
        self.waiting = None;
        touched.all = true;
    }

    fn stop_run(&mut self, touched: &mut Touched) {
        self.stopping = true;
        self.paused = false;
        self.waiting = None;
        touched.all = true;
        // What has not begun first, so that nothing is called blocked by what is stopped with it.
        for ix in (0_u32..).map(TaskIx).take(self.tasks.len()) {
            if self.task(ix).state == TaskState::Pending {
                self.set_state(ix, TaskState::Stopped, Some(Why::Stopped));
            }
        }
        for ix in (0_u32..).map(TaskIx).take(self.tasks.len()) {
            self.stop_attempt(ix, true, touched);
        }
    }

    fn stop_task(&mut self, id: &TaskId, touched: &mut Touched) {
        let Some((ix, task)) = self.find(id) else { return };
        let state = task.state;
        self.waiting = None;
        match state {
            TaskState::Pending | TaskState::Blocked => {
                self.give_up(ix, TaskState::Stopped, Why::Stopped, touched)
            }
            _ => self.stop_attempt(ix, false, touched),
        }
        touched.tasks.insert(ix);
    }

    fn retry(&mut self, id: Option<&TaskId>, prompt: Option<&Text>, touched: &mut Touched) {
        let reopened: Vec<TaskIx> = match id {
            Some(id) => self.find(id).map(|(ix, _)| ix).into_iter().collect(),
            None => {
                (0_u32..).map(TaskIx).take(self.tasks.len()).filter(|ix| self.task(*ix).gave_up()).collect()
            }
        };
        if self.waiting == Some(WaitReason::Budget) {
            self.renewed = Spent { turns: self.turns, tokens: self.tokens };
        }
        self.ended = None;
        self.ended_ms = None;
        self.end_reason.clear();
        self.stopping = false;
        self.waiting = None;
        for ix in &reopened {
            let task = self.task_mut(*ix);
            task.failures = 0;
            task.losses = 0;
            task.refusals = 0;
            if let Some(prompt) = prompt {
                task.prompt = Some(prompt.clone());
            }
            self.set_state(*ix, TaskState::Pending, None);
        }
        self.unblock();
        if id.is_none() {
            self.check_failure = None;
            self.check_output = Text::default();
            self.check_merged_tree();
        }
        touched.all = true;
    }

    /// Looks afresh at who is blocked by a dependency: some may no longer be, others for another reason.
    fn unblock(&mut self) {
        let places = || (0_u32..).map(TaskIx);
        let mut blocked = Vec::new();
        for ix in places().take(self.tasks.len()) {
            let task = self.task(ix);
            if matches!(task.why, Some(Why::Dependency(_))) {
                blocked.push((ix, task.changed_ms));
                self.set_state(ix, TaskState::Pending, None);
            }
        }
        let mut touched = Touched::default();
        for ix in places().take(self.tasks.len()) {
            if self.task(ix).gave_up() {
                self.block_dependants(ix, &mut touched);
            }
        }
        for (ix, since) in blocked {
            if self.task(ix).state == TaskState::Blocked {
                self.task_mut(ix).changed_ms = since;
            }
        }
    }

    /// Marks everything that needs `ix`, directly or not, as blocked by it.
    pub(super) fn block_dependants(&mut self, ix: TaskIx, touched: &mut Touched) {
        let why = Why::Dependency(self.task(ix).spec.id.clone());
        let mut next = self.task(ix).dependants.clone();
        while let Some(dependant) = next.pop() {
            if self.task(dependant).state == TaskState::Pending {
                self.set_state(dependant, TaskState::Blocked, Some(why.clone()));
                touched.tasks.insert(dependant);
                next.extend(self.task(dependant).dependants.iter().copied());
            }
        }
    }

    /// Ends a task without success: its dependants are blocked, independent branches go on (S51).
    pub(super) fn give_up(&mut self, ix: TaskIx, state: TaskState, why: Why, touched: &mut Touched) {
        self.put_down(ix, touched);
        self.set_state(ix, state, Some(why));
        self.block_dependants(ix, touched);
    }

    /// Ends the attempt under way, wherever it stands.
    pub(super) fn put_down(&mut self, ix: TaskIx, touched: &mut Touched) {
        self.release(ix, touched);
        self.task_mut(ix).attempt = None;
        self.merge_queue.retain(|queued| *queued != ix);
        self.accept_queue.retain(|queued| *queued != ix);
        if self.merging == Some(ix) {
            self.merging = None;
        }
        touched.tasks.insert(ix);
    }

    pub(super) fn set_state(&mut self, ix: TaskIx, state: TaskState, why: Option<Why>) {
        let changed_ms = self.changed_ms;
        let task = self.task_mut(ix);
        let before = std::mem::replace(&mut task.state, state);
        task.why = why;
        if before != state {
            task.changed_ms = changed_ms;
        }
        *self.counts.of(before) -= 1;
        *self.counts.of(state) += 1;
    }

    /// Takes the exclusive names that the task needs.
    pub(super) fn hold(&mut self, ix: TaskIx, touched: &mut Touched) {
        for name in self.task(ix).spec.exclusive.clone() {
            touched.tasks.extend(self.users.get(&name).into_iter().flatten());
            self.held.insert(name, ix);
        }
    }

    /// Gives them back.
    pub(super) fn release(&mut self, ix: TaskIx, touched: &mut Touched) {
        for name in self.task(ix).spec.exclusive.clone() {
            if self.held.get(&name) == Some(&ix) {
                touched.tasks.extend(self.users.get(&name).into_iter().flatten());
                self.held.remove(&name);
            }
        }
    }

    /// Replays stored facts.
    #[must_use]
    pub fn replay<'a>(run: crate::ids::RunId, entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::new(run);
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Whether the index of duties equals a full recomputation.
    #[must_use]
    pub fn index_holds(&self) -> bool {
        self.duties == duty::all(self)
    }

    /// Whether the run is over for good: nothing can open it again.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.ended == Some(EndState::Delivered)
    }
}

impl Task {
    fn new(spec: TaskSpec, eligible: Vec<u32>, changed_ms: u64) -> Self {
        Self {
            spec,
            state: TaskState::Pending,
            eligible,
            dependants: Vec::new(),
            open_dependencies: 0,
            last_attempt: AttemptNumber(0),
            employee: None,
            place: None,
            failures: 0,
            losses: 0,
            refusals: 0,
            attempt: None,
            previous: None,
            prompt: None,
            why: None,
            delivered: None,
            changed_ms,
        }
    }

    /// Whether it ended without success by itself, not because of a dependency.
    fn gave_up(&self) -> bool {
        matches!(self.state, TaskState::Failed | TaskState::Blocked | TaskState::Stopped)
            && !matches!(self.why, Some(Why::Dependency(_)))
    }
}
