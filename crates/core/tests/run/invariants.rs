//! What must hold after every fact of every run, however strange. Each rule is written here a second
//! time, from the specification and not from the code that it guards.

use std::collections::{BTreeMap, BTreeSet};

use ensemble_core::{
    ids::{AttemptNumber, TaskId},
    run::{
        Changes, Duty, Entry, Fact, State,
        fact::{EndState, LossCause, WaitReason},
        state::{Checks, Counts, MAX_LOSSES, MAX_REFUSALS, Stage, Task, TaskState, Why},
    },
};

use crate::desk::run_id;

/// What has been seen of a run so far.
pub struct Watch {
    replayed: State,
    log: Vec<Entry>,
    ended_attempts: BTreeSet<(TaskId, AttemptNumber)>,
    successes: BTreeSet<TaskId>,
    dispatched: BTreeMap<TaskId, AttemptNumber>,
    spent: Spent,
    turns: u64,
}

/// What counts against the budget since it was granted.
#[derive(Default)]
struct Spent {
    turns: u64,
    tokens: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            replayed: State::new(run_id()),
            log: Vec::new(),
            ended_attempts: BTreeSet::new(),
            successes: BTreeSet::new(),
            dispatched: BTreeMap::new(),
            spent: Spent::default(),
            turns: 0,
        }
    }
}

/// A full replay costs as much as the log is long: beyond this many facts only some have one.
const REPLAY_EACH: usize = 30;

impl Watch {
    pub fn check(&mut self, before: &State, after: &State, entry: &Entry, changes: &Changes) {
        let stored = serde_json::to_string(entry).unwrap();
        let read: Entry = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, *entry, "a fact survives being stored: {stored}");
        self.replayed.apply(&read);
        assert_eq!(self.replayed, *after, "replay equals live state after {entry:?}");
        self.log.push(read);
        if self.log.len() < REPLAY_EACH || self.log.len().is_multiple_of(50) {
            assert_eq!(State::replay(run_id(), &self.log), *after, "the whole log replays");
        }
        duties(before, after, changes, entry);
        self.history(before, entry);
        self.budget(before, entry);
        assert_eq!(self.turns, after.turns, "every attempt that a node took is counted");
        counts(after);
        exclusive_names(after);
        merging(after);
        for task in &after.tasks {
            words(task, after);
            dependencies(task, after);
        }
        end(after);
    }

    /// What may happen once only, and in which order.
    fn history(&mut self, before: &State, entry: &Entry) {
        match &entry.fact {
            Fact::Dispatched(dispatch) => {
                let (_, task) = before.find(&dispatch.task).unwrap();
                for dependency in &task.spec.dependencies {
                    let done = self.successes.contains(dependency);
                    assert!(done, "{} was dispatched before {dependency} succeeded", task.spec.id);
                }
                assert!(!self.successes.contains(&dispatch.task), "dispatched after its success");
                assert!(before.ended.is_none() && !before.stopping, "dispatched while the run ends");
                let last = self.dispatched.insert(dispatch.task.clone(), dispatch.attempt);
                assert_eq!(
                    last.unwrap_or_default().next(),
                    dispatch.attempt,
                    "attempts are numbered in order"
                );
                assert_eq!(before.head.as_ref(), Some(&dispatch.base), "an attempt starts from the head");
            }
            Fact::Reported { at, .. } | Fact::Lost { at, .. } | Fact::Refused { at, .. } => {
                let first = self.ended_attempts.insert((at.task.clone(), at.attempt));
                assert!(first, "an attempt ends once (S41): {at:?}");
            }
            Fact::Accepted { task, .. } | Fact::Merged { task, .. } => {
                assert!(self.successes.insert(task.clone()), "{task} was accepted twice");
            }
            Fact::Ended { state: EndState::Delivered, .. } => {
                let due = !before.submitted.as_ref().unwrap().checks.is_empty();
                let checks = before.final_checks.as_ref();
                assert!(!due || checks.is_some_and(Checks::passed), "delivered unchecked");
                assert!(checks.is_none_or(|checks| Some(&checks.commit) == before.head.as_ref()));
            }
            Fact::MergeOrdered { .. } => assert!(before.merging.is_none(), "one merge at a time"),
            _ => {}
        }
    }

    /// Budgets are reserved before dispatch (S25); a retry of a run that waits for it grants it anew.
    fn budget(&mut self, before: &State, entry: &Entry) {
        match &entry.fact {
            Fact::Dispatched(_) => {
                let budget = before.submitted.as_ref().unwrap().budget;
                assert!(budget.turns.is_none_or(|limit| self.spent.turns < limit), "beyond the turns");
                assert!(budget.tokens.is_none_or(|limit| self.spent.tokens < limit), "beyond the tokens");
                self.spent.turns += 1;
                self.turns += 1;
            }
            Fact::Refused { .. } | Fact::Lost { cause: LossCause::Refused, .. } => {
                self.spent.turns -= 1;
                self.turns -= 1;
            }
            Fact::Reported { report, .. } => self.spent.tokens += report.outcome.usage.total_tokens,
            Fact::Retried { .. } if before.waiting == Some(WaitReason::Budget) => {
                self.spent = Spent::default()
            }
            _ => {}
        }
    }
}

fn duties(before: &State, after: &State, changes: &Changes, entry: &Entry) {
    assert!(after.index_holds(), "the index of duties equals full recomputation after {entry:?}");
    let old: BTreeSet<&Duty> = before.duties().collect();
    let new: BTreeSet<&Duty> = after.duties().collect();
    assert_eq!(old.len(), before.duties().count(), "no duty stands twice");
    let appeared: BTreeSet<&Duty> = changes.appeared.iter().collect();
    let vanished: BTreeSet<&Duty> = changes.vanished.iter().collect();
    assert_eq!(appeared, new.difference(&old).copied().collect(), "appeared by {entry:?}");
    assert_eq!(vanished, old.difference(&new).copied().collect(), "vanished by {entry:?}");
}

fn counts(state: &State) {
    let of = |which| u32::try_from(state.tasks.iter().filter(|task| task.state == which).count()).unwrap();
    let recount = Counts {
        pending: of(TaskState::Pending),
        dispatched: of(TaskState::Dispatched),
        running: of(TaskState::Running),
        merging: of(TaskState::Merging),
        success: of(TaskState::Success),
        failed: of(TaskState::Failed),
        blocked: of(TaskState::Blocked),
        stopped: of(TaskState::Stopped),
    };
    assert_eq!(state.counts, recount);
}

fn exclusive_names(state: &State) {
    let mut holders: BTreeMap<&str, &TaskId> = BTreeMap::new();
    for task in state.tasks.iter().filter(|task| task.attempt.is_some()) {
        for name in &task.spec.exclusive {
            let other = holders.insert(name, &task.spec.id);
            assert!(other.is_none(), "{name} is held by {} and {other:?}", task.spec.id);
        }
    }
}

fn merging(state: &State) {
    let under_way: Vec<&TaskId> = state
        .tasks
        .iter()
        .filter(|task| {
            let stage = task.attempt.as_ref().map(|attempt| &attempt.stage);
            matches!(stage, Some(Stage::Ordered(..) | Stage::Gating(..) | Stage::Advancing(..)))
        })
        .map(|task| &task.spec.id)
        .collect();
    let named: Vec<&TaskId> = state.merging.iter().map(|ix| &state.task(*ix).spec.id).collect();
    assert_eq!(under_way, named, "at most one merge is under way, and the state names it");
    let merge_duties =
        state.duties().filter(|duty| matches!(duty, Duty::Merge { .. } | Duty::Advance { .. })).count();
    assert!(merge_duties <= 1);
}

/// The state's word fits what else is known of the task.
fn words(task: &Task, state: &State) {
    let stage = task.attempt.as_ref().map(|attempt| &attempt.stage);
    let fits = match task.state {
        TaskState::Dispatched => matches!(stage, Some(Stage::Assigned)),
        TaskState::Running => matches!(stage, Some(Stage::Working | Stage::Checking(..))),
        TaskState::Merging => matches!(
            stage,
            Some(Stage::Queued(_) | Stage::Ordered(..) | Stage::Gating(..) | Stage::Advancing(..))
        ),
        _ => stage.is_none(),
    };
    assert!(fits, "{} is {} in {stage:?}", task.spec.id, task.state.word());
    let given_up = matches!(task.state, TaskState::Failed | TaskState::Blocked | TaskState::Stopped);
    assert_eq!(task.why.is_some(), given_up, "{}: a reason where one is due", task.spec.id);
    assert_eq!(task.delivered.is_some(), task.state == TaskState::Success);
    let most = [task.spec.max_attempts.unwrap_or(3), 3].into_iter().max().unwrap();
    assert!(task.failures <= most && task.losses <= MAX_LOSSES && task.refusals <= MAX_REFUSALS);
    if let Some(attempt) = &task.attempt {
        assert_eq!(attempt.dispatch.attempt, task.last_attempt);
        let checks = attempt.stage.checks();
        assert!(checks.is_none_or(|checks| !checks.passed()), "passed checks let the attempt go on");
        let waits = matches!(attempt.stage, Stage::Queued(_)) && state.stopping;
        assert!(!waits, "{} waits for a merge in a run that is being stopped", task.spec.id);
    }
}

fn dependencies(task: &Task, state: &State) {
    let known: Vec<&Task> = task.spec.dependencies.iter().filter_map(|id| Some(state.find(id)?.1)).collect();
    if state.planned {
        let open = known.iter().filter(|one| one.state != TaskState::Success).count();
        assert_eq!(task.open_dependencies as usize, open, "{}", task.spec.id);
    }
    let gone =
        |one: &&&Task| matches!(one.state, TaskState::Failed | TaskState::Blocked | TaskState::Stopped);
    if task.state == TaskState::Pending && state.planned {
        let gone = known.iter().find(gone).map(|one| &one.spec.id);
        assert_eq!(gone, None, "{} waits for a task that can't go on", task.spec.id);
    }
    if let Some(Why::Dependency(root)) = &task.why {
        assert_eq!(task.state, TaskState::Blocked);
        assert!(known.iter().any(|one| gone(&one)), "{} is blocked by nobody", task.spec.id);
        let (_, root) = state.find(root).unwrap();
        let by_itself = gone(&&root) && !matches!(root.why, Some(Why::Dependency(_)));
        assert!(by_itself, "{} is blocked by {}, which is fine", task.spec.id, root.spec.id);
    }
}

fn end(state: &State) {
    assert!(!(state.ended.is_some() && state.waiting.is_some()), "it has ended or it waits");
    if state.ended.is_some() || state.waiting.is_some() {
        assert_eq!(state.counts.active(), 0, "nothing is under way any more");
        assert_eq!(state.duties().count(), 0, "nothing is owed any more");
    }
    if state.ended == Some(EndState::Delivered) {
        assert_eq!(state.counts.success as usize, state.tasks.len());
        assert!(state.check_failure.is_none());
    }
}
