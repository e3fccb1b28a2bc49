//! Facts for tests: a small run, told in the order in which a coordinator journals it.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{
        AttemptNumber, CommitId, CoordinatorId, EmployeeId, Epoch, Incarnation, NodeId, ProjectId,
        RepositoryId, RunId, Seq, TaskId,
    },
    outcome::{Changes, Delivery, Ending, Outcome},
    plan::TaskSpec,
    run::{
        Entry, Fact,
        fact::{AttemptRef, Dispatch, Handed, Member, Place, Report, Submitted},
    },
    team::{Budget, Gate, Strategy},
};

/// 2026-12-01T16:00:00Z.
const BEGAN: u64 = 1_796_140_800_000;

pub(crate) fn run() -> RunId {
    RunId::from_parts(BEGAN, 42)
}

/// Fact number `seq`, one second after the one before.
pub(crate) fn entry(seq: u64, fact: Fact) -> Entry {
    Entry { seq: Seq(seq), epoch: Epoch(1), time_ms: BEGAN + seq * 1000, fact }
}

pub(crate) fn commit(digit: char) -> CommitId {
    CommitId::new(digit.to_string().repeat(40)).unwrap()
}

pub(crate) fn place() -> Place {
    Place { node: NodeId::new("n1").unwrap(), incarnation: Incarnation(1) }
}

pub(crate) fn task(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(crate) fn dispatched(id: &str, attempt: u32, employee: &str) -> Fact {
    handed(id, attempt, employee, Vec::new())
}

pub(crate) fn handed(id: &str, attempt: u32, employee: &str, context: Vec<Handed>) -> Fact {
    Fact::Dispatched(Box::new(Dispatch {
        task: task(id),
        attempt: AttemptNumber(attempt),
        employee: EmployeeId::new(employee).unwrap(),
        place: place(),
        base: commit('0'),
        timeout_ms: 60_000,
        context,
    }))
}

pub(crate) fn at(id: &str, attempt: u32, token: u64) -> AttemptRef {
    AttemptRef { task: task(id), attempt: AttemptNumber(attempt), token: Seq(token) }
}

pub(crate) fn changes(files: u32, added: u64, removed: u64) -> Changes {
    Changes { files, added, removed, paths: vec!["a.txt".to_owned()] }
}

/// A report with a commit, if `changed` says what it changed.
pub(crate) fn reported(at: AttemptRef, ending: Ending, said: &str, changed: Option<Changes>) -> Fact {
    let mut outcome = Outcome::new(ending, said);
    outcome.artifacts = BTreeMap::from([("schema".to_owned(), serde_json::json!("book(id)"))]);
    let delivery = changed.map(|changes| Delivery { commit: commit('d'), changes });
    let report = Report { outcome, delivery, left_out: Vec::new(), log: None };
    Fact::Reported { at, report: Box::new(report) }
}

/// A run's first facts: what was asked for, its claim, and its tasks.
pub(crate) fn begun(tasks: Vec<TaskSpec>) -> Vec<Entry> {
    let member = |id: &str| Member {
        employee: EmployeeId::new(id).unwrap(),
        agent_type: id.to_owned(),
        timeout_ms: 60_000,
        max_attempts: Some(2),
    };
    let project = ProjectId::new("shop").unwrap();
    let submitted = Submitted {
        repository: RepositoryId::of(&commit('0'), &project),
        project,
        goal: "A shop for books".into(),
        strategy: Strategy::Plan,
        base: commit('0'),
        into: None,
        roster: vec![member("back"), member("front")],
        checks: vec!["sh tests/run.sh".to_owned()],
        gate: Gate::End,
        budget: Budget::default(),
        files: Vec::new(),
        plan_file: None,
    };
    let coordinator = CoordinatorId::new("local-1").unwrap();
    let (scope, conventions) = (ensemble_core::text::Text::default(), Vec::new());
    vec![
        entry(1, Fact::Submitted(Box::new(submitted))),
        entry(2, Fact::Claimed { coordinator }),
        entry(3, Fact::Planned { scope, conventions, tasks, complete: true }),
    ]
}

/// A task with dependencies and a title.
pub(crate) fn spec(id: &str, title: &str, needs: &[&str], checks: &[&str]) -> TaskSpec {
    let mut spec = TaskSpec::new(task(id), "Something is to be done.");
    spec.title = Some(title.to_owned());
    spec.dependencies = needs.iter().map(|id| task(id)).collect();
    spec.checks = checks.iter().map(|check| (*check).to_owned()).collect();
    spec
}
