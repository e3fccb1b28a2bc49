//! Shapes for programs. They are a promise, kept by the golden files in `testdata/`: keys are added,
//! never renamed or given another meaning.

use std::time::{Duration, UNIX_EPOCH};

use ensemble_core::{
    plan::{Plan, graph::Graph},
    run::{Entry, State, state::{Task, TaskState}},
    source::{Finding, Severity},
};
use serde_json::{Map, Value, json};

use super::summary::advice;
use crate::{error::Exit, story::Story};

/// What became of the result in the user's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// Whether the result branch is there.
    pub branch: bool,
    /// Why not, if not.
    pub problem: Option<String>,
    /// What became of `--into`, with the branch.
    pub into: Option<(String, super::Into)>,
}

/// A run in `ps`.
#[must_use]
pub fn ps_object(state: &State) -> Value {
    json!({
        "id": state.run,
        "state": state.state().word(),
        "goal": goal(state),
        "tasks": state.counts,
        "branch": state.branch(),
    })
}

fn goal(state: &State) -> &str {
    state.submitted.as_ref().map_or("", |submitted| submitted.goal.head())
}

/// A fact in `events`: its envelope, then its own fields.
#[must_use]
pub fn event_object(run: ensemble_core::ids::RunId, entry: &Entry) -> Value {
    let mut object = Map::new();
    object.insert("run".to_owned(), json!(run));
    object.insert("seq".to_owned(), json!(entry.seq));
    object.insert("epoch".to_owned(), json!(entry.epoch));
    object.insert("time".to_owned(), json!(time(entry.time_ms)));
    object.insert("kind".to_owned(), json!(entry.fact.kind()));
    if let Ok(Value::Object(fact)) = serde_json::to_value(&entry.fact) {
        for (key, value) in fact {
            object.entry(key).or_insert(value);
        }
    }
    Value::Object(object)
}

/// A time as RFC 3339 in UTC.
fn time(milliseconds: u64) -> String {
    // Beyond the year 9999 there is no such text; a broken clock must not end the program.
    const LAST: u64 = 253_402_300_799_999;
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds.min(LAST));
    humantime::format_rfc3339_millis(time).to_string()
}

/// A run in `show`, and with `home` the final object of `run`.
#[must_use]
pub fn run_object(story: &Story, home: Option<&Home>) -> Value {
    let state = &story.state;
    let mut object = json!({
        "run": state.run,
        "state": state.state().word(),
        "exit": Exit::of(state.state()) as u8,
        "goal": goal(state),
        "reason": state.end_reason,
        "began": time(state.began_ms),
        "duration_ms": state.changed_ms.saturating_sub(state.began_ms),
        "tasks": state.counts,
        "branch": state.branch(),
        "head": state.head,
        "results": state.tasks.iter().map(|task| task_object(story, task)).collect::<Vec<_>>(),
        "next": advice(state, home),
    });
    if let (Some(home), Some(object)) = (home, object.as_object_mut()) {
        object.insert("brought_home".to_owned(), json!(home.branch));
        if let Some(problem) = &home.problem {
            object.insert("problem".to_owned(), json!(problem));
        }
        if let Some((branch, into)) = &home.into {
            object.insert("into".to_owned(), json!({ "branch": branch, "result": into.word() }));
        }
    }
    object
}

fn task_object(story: &Story, task: &Task) -> Value {
    let mut object = json!({
        "task": task.spec.id,
        "title": task.spec.label(),
        "state": task.state.word(),
        "attempts": task.last_attempt,
        "dependencies": task.spec.dependencies,
    });
    let Some(map) = object.as_object_mut() else { return object };
    let mut set = |key: &str, value: Value| map.insert(key.to_owned(), value);
    if let Some(employee) = story.who(&task.spec.id) {
        set("employee", json!(employee));
    }
    if let Some(delivered) = &task.delivered {
        let report = &delivered.report;
        let changes = match (&delivered.merged, &report.delivery) {
            (None, Some(delivery)) => &delivery.changes,
            _ => &delivered.changes,
        };
        set("summary", json!(report.outcome.summary.head()));
        set("artifacts", json!(report.outcome.artifacts.keys().collect::<Vec<_>>()));
        set("changes", json!(changes));
        set("merged", json!(delivered.merged));
    }
    if let Some(why) = &task.why {
        set("why", json!(why.to_string()));
    }
    if let (TaskState::Failed | TaskState::Blocked | TaskState::Stopped, Some(previous)) =
        (task.state, &task.previous)
    {
        set("last", json!({ "attempt": previous.attempt, "why": previous.why.head(), "capture": previous.capture }));
    }
    object
}

/// A file in `check`: whether it is accepted, its findings, and the accepted value.
#[must_use]
pub fn check_object(file: &str, kind: &str, findings: &[Finding], value: Option<Value>) -> Value {
    let accepted = findings.iter().all(|one| one.severity != Severity::Error);
    json!({ "file": file, "kind": kind, "accepted": accepted, "findings": findings, "value": value })
}

/// A plan in `plan`.
#[must_use]
pub fn plan_object(plan: &Plan, graph: &Graph) -> Value {
    let id = |place: &usize| plan.sub_tasks.get(*place).map(|task| &task.id);
    let ids = |places: &[usize]| places.iter().filter_map(id).map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "tasks": plan.sub_tasks.len(),
        "order": ids(graph.order()),
        "levels": graph.levels().iter().map(|level| ids(level)).collect::<Vec<_>>(),
        "critical_path": ids(&graph.critical_path(|_| 1)),
    })
}
