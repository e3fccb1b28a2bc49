//! Shapes for programs. They are a promise, kept by the golden files in `testdata/`: keys are added,
//! never renamed or given another meaning. What is told of a run is `core`'s view of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use ensemble_core::{
    ids::{CommitId, RunId},
    plan::{Plan, graph::Graph},
    run::{Entry, State, view::View},
    source::{Finding, Severity},
};
use ensemble_workspace::{FileChange, FileStatus};
use serde_json::{Map, Value, json};

use super::summary::{advice, advice_beside};
use crate::{
    error::Exit,
    tail::Rest,
    verbs::{Build, Health, Reclaimed, Verdict},
};

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
    json!(View::of(state))
}

/// A run in `show`, and with `home` the final object of `run`.
#[must_use]
pub fn run_object(state: &State, home: Option<&Home>) -> Value {
    run_object_beside(state, home, None)
}

/// The same of a run that the process `pid` may work on.
#[must_use]
pub fn run_object_beside(state: &State, home: Option<&Home>, pid: Option<u32>) -> Value {
    let mut object = json!(View::with_tasks(state));
    let Some(map) = object.as_object_mut() else { return object };
    let mut set = |key: &str, value: Value| map.insert(key.to_owned(), value);
    set("exit", json!(Exit::of(state.state()) as u8));
    set("next", json!(advice_beside(state, home, pid)));
    if let Some(home) = home {
        set("brought_home", json!(home.branch));
        set("problem", json!(home.problem));
        let moved = home.into.as_ref();
        set("moved", json!(moved.map(|(branch, into)| json!({ "branch": branch, "result": into.word() }))));
    }
    object
}

/// A run in `wait`: how it stands, whether it is over, and why waiting ended.
#[must_use]
pub fn wait_object(state: &State, rest: Rest, exit: Exit) -> Value {
    let ended = match rest {
        Rest::Over => "over",
        Rest::Left => "nobody_works_on_it",
        Rest::Late => "timeout",
    };
    let mut object = json!(View::of(state));
    if let Some(map) = object.as_object_mut() {
        map.insert("exit".to_owned(), json!(exit as u8));
        map.insert("wait_ended".to_owned(), json!(ended));
    }
    object
}

/// What a run or a task changed, in `diff`; `text` unless only the figures are wanted.
#[must_use]
pub fn diff_object(
    run: RunId,
    task: Option<&str>,
    (base, commit): (&CommitId, &CommitId),
    files: &[FileChange],
    text: Option<String>,
) -> Value {
    let file = |one: &FileChange| {
        let status = match one.status {
            FileStatus::Added => "added",
            FileStatus::Deleted => "deleted",
            FileStatus::Modified => "modified",
        };
        json!({
            "path": one.path, "status": status,
            "added": one.added, "removed": one.removed, "binary": one.binary,
        })
    };
    json!({
        "run": run, "task": task, "base": base, "commit": commit,
        "files": files.iter().map(file).collect::<Vec<_>>(),
        "added": files.iter().map(|one| one.added).sum::<u64>(),
        "removed": files.iter().map(|one| one.removed).sum::<u64>(),
        "diff": text,
    })
}

/// What `init` found and wrote.
#[must_use]
pub fn init_object(dir: &Path, written: &[PathBuf], found: &[Build], agents: &[String]) -> Value {
    let build = |one: &Build| json!({ "file": one.file, "check": one.check, "problem": one.problem });
    json!({
        "dir": dir, "written": written,
        "found": found.iter().map(build).collect::<Vec<_>>(), "agents": agents,
    })
}

/// A run that goes on in a process of its own, in `run --detach`.
#[must_use]
pub fn detached_object(run: RunId, pid: u32, log: &Path) -> Value {
    json!({ "id": run, "pid": pid, "log": log })
}

/// What is told by `notify`: the run as in `show`, without its tasks, and what to do now.
#[must_use]
pub fn notice_object(state: &State, home: &Home) -> Value {
    let mut object = json!({ "event": state.state().word() });
    let Some(map) = object.as_object_mut() else { return object };
    map.insert("run".to_owned(), json!(View::of(state)));
    map.insert("exit".to_owned(), json!(Exit::of(state.state()) as u8));
    map.insert("brought_home".to_owned(), json!(home.branch));
    map.insert("next".to_owned(), json!(advice(state, Some(home))));
    object
}

/// What `prune` did, or would do.
#[must_use]
pub fn prune_object(
    dry_run: bool,
    verdicts: &BTreeMap<RunId, Verdict>,
    reclaimed: &Reclaimed,
    left: &[PathBuf],
) -> Value {
    let run = |(run, verdict): (&RunId, &Verdict)| json!({ "id": run, "verdict": verdict.word(), "why": verdict.to_string() });
    let Reclaimed { facts, refs, logs, log_bytes, nodes, blobs } = reclaimed;
    json!({
        "dry_run": dry_run,
        "runs": verdicts.iter().map(run).collect::<Vec<_>>(),
        "reclaimed": {
            "facts": facts, "blobs": blobs.blobs, "logs": logs, "refs": refs + nodes.refs,
            "working_copies": nodes.attempts, "mirrors": nodes.mirrors,
            "bytes": log_bytes + nodes.bytes + blobs.bytes,
        },
        "busy_nodes": nodes.busy,
        "not_reclaimed": left,
    })
}

/// What `doctor` found.
#[must_use]
pub fn doctor_object(findings: &[crate::verbs::Finding]) -> Value {
    let one = |one: &crate::verbs::Finding| json!({ "name": one.name, "health": one.health.word(), "detail": one.detail, "remedy": one.remedy });
    let good = findings.iter().all(|one| one.health != Health::Bad);
    json!({ "good": good, "findings": findings.iter().map(one).collect::<Vec<_>>() })
}

/// A fact in `events`: its envelope, then its own fields.
#[must_use]
pub fn event_object(run: RunId, entry: &Entry) -> Value {
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

#[cfg(test)]
mod tests;
