//! Stored journals: each must replay for ever to the state beside it. `UPDATE_GOLDEN=1` rewrites the
//! summaries and writes a journal that is not there yet; a journal that is there is never touched.

#![allow(clippy::disallowed_methods, reason = "stored journals are files; the heart itself reads none")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use ensemble_core::{
    outcome::{Changes as Files, Ending, Outcome, Usage},
    run::{
        Entry, Fact, State, View,
        fact::{LossCause, Report},
        state::Task,
    },
    team::Gate,
};
use serde_json::{Value, json};

use crate::desk::{Desk, commit, id, node, report, run_id};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/journal/v1").join(name)
}

fn update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

/// Compares with what is stored under `name`, or stores it.
fn golden(name: &str, found: &Value) {
    let path = file(name);
    let text = format!("{}\n", serde_json::to_string_pretty(found).unwrap());
    if update() {
        fs::write(&path, &text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{} differs; if that is meant, run with UPDATE_GOLDEN=1. Found:\n{text}",
        path.display()
    );
}

/// The state in short: what must never change for a journal that is stored.
fn summary(state: &State) -> Value {
    let task = |task: &Task| {
        json!({
            "id": task.spec.id,
            "state": task.state.word(),
            "attempt": task.last_attempt,
            "failures": task.failures,
            "losses": task.losses,
            "refusals": task.refusals,
            "why": task.why.as_ref().map(ToString::to_string),
            "previous": task.previous.as_ref().map(|previous| previous.why.head()),
            "merged": task.delivered.as_ref().and_then(|delivered| delivered.merged.clone()),
        })
    };
    json!({
        "run": state.run,
        "state": state.state().word(),
        "seq": state.seq,
        "epoch": state.epoch,
        "head": state.head,
        "turns": state.turns,
        "tokens": state.tokens,
        "end_reason": state.end_reason,
        "counts": state.counts,
        "duties": state.duties().map(|duty| format!("{duty:?}")).collect::<Vec<_>>(),
        "tasks": state.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}

/// Replays the journal of this name; `story` is how it first came about.
fn replays(name: &str, story: impl FnOnce() -> Desk) {
    let path = file(&format!("{name}.jsonl"));
    if update() && !path.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines =
            story().log.iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect::<String>();
        fs::write(&path, lines).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let entries: Vec<Entry> = text.lines().map(stored).collect();
    let state = State::replay(run_id(), &entries);
    assert!(state.index_holds());
    golden(&format!("{name}.state.json"), &summary(&state));
    let view = serde_json::to_value(View::with_tasks(&state)).unwrap();
    golden(&format!("{name}.view.json"), &view);
    let read: View = serde_json::from_value(view).unwrap();
    assert_eq!(read, View::with_tasks(&state), "a view can be read back");
}

/// A stored line, which must mean the same when it is written again.
fn stored(line: &str) -> Entry {
    let entry: Entry = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    let again = serde_json::to_value(&entry).unwrap();
    assert_eq!(again, serde_json::from_str::<Value>(line).unwrap(), "a field was dropped or renamed");
    entry
}

/// A report with everything in it that a report can have.
fn rich(desk: &mut Desk, task: &str) {
    let work = desk.new_commit();
    let plain = report(Ending::Done, "The schema and its tables", Some(work));
    let outcome = Outcome {
        artifacts: [("schema".to_owned(), json!({"tables": ["book", "author"]}))].into(),
        messages: vec!["Dates are ISO 8601.".into()],
        usage: Usage { total_tokens: 1200, tool_uses: 7, duration_ms: 5300 },
        ..plain.outcome
    };
    let left_out = vec!["build/ (ignored)".to_owned()];
    let at = desk.at(task);
    desk.put(Fact::Reported { at, report: Box::new(Report { outcome, left_out, ..*plain }) });
    desk.decide();
}

#[test]
fn success() {
    replays("success", || {
        let mut desk = Desk::new("schema; api: schema; page: schema; review: api page");
        desk.start("schema");
        rich(&mut desk, "schema");
        desk.merge("schema");
        desk.start("api");
        desk.start("page");
        desk.report("page", Ending::Done, "The page");
        desk.report("api", Ending::Done, "The API");
        desk.merge("page");
        desk.merge("api");
        desk.start("review");
        let at = desk.at("review");
        desk.put(Fact::Reported { at, report: report(Ending::Done, "Nothing to complain about", None) });
        desk.decide();
        desk
    });
}

#[test]
fn failure_and_retry() {
    replays("failure_and_retry", || {
        let mut desk = Desk::new("api [max=2]; test: api; page");
        desk.fail("api", "no such module: sqlite4");
        desk.fail("api", "no such module: sqlite5");
        desk.start("page");
        desk.report("page", Ending::Blocked, "which colour?");
        let prompt = Some("Use sqlite3.".into());
        desk.put(Fact::Retried { task: Some(id("api")), prompt });
        desk.done("api");
        desk.merge("api");
        desk.done("test");
        desk.merge("test");
        desk
    });
}

#[test]
fn conflict() {
    replays("conflict", || {
        let mut desk = Desk::new("a; b; c: b");
        desk.start("a");
        desk.start("b");
        desk.report("b", Ending::Done, "the other way");
        desk.report("a", Ending::Done, "one way");
        desk.merge("b");
        desk.conflict("a", "api.py");
        desk.done("c");
        desk.merge("c");
        desk
    });
}

#[test]
fn losses_and_resume() {
    replays("losses_and_resume", || {
        let mut desk = Desk::new("a [exclusive=port]; b [exclusive=port]; c [check=make test]");
        desk.dispatch("a");
        let at = desk.at("a");
        desk.put(Fact::Refused { at, reason: "no free slot".into() });
        desk.lose("a", LossCause::Node);
        desk.start("a");
        desk.done("c");
        let of = desk.check_of(Some("c"));
        let check = desk.dispatch_check(&of, 0, node(2));
        desk.crash();
        let at = desk.at("a");
        let work = desk.new_commit();
        let capture = report(Ending::Done, "", Some(work)).delivery;
        desk.put(Fact::Lost { at, cause: LossCause::Process, capture, reason: String::new() });
        desk.put(Fact::CheckLost { at: check, cause: LossCause::Process, reason: String::new() });
        desk.decide();
        desk.check(Some("c"), 0, true);
        desk.done("a");
        desk.crash();
        desk.merge("c");
        desk.merge("a");
        desk
    });
}

#[test]
fn checks_with_gate_each() {
    replays("checks_with_gate_each", || {
        let mut desk = Desk::with("a [check=make test]; b: a", |submitted| {
            submitted.gate = Gate::Each;
            submitted.checks = vec!["sh tests/run.sh".into()];
            submitted.budget.turns = Some(20);
            submitted.into = Some("main".into());
        });
        desk.done("a");
        desk.check(Some("a"), 0, false);
        desk.done("a");
        desk.check(Some("a"), 0, true);
        desk.prepare("a");
        desk.check(Some("a"), 0, true);
        desk.merge("a");
        desk.done("b");
        desk.prepare("b");
        desk.check(Some("b"), 0, true);
        desk.merge("b");
        desk.check(None, 0, false);
        desk
    });
}

#[test]
fn stop() {
    replays("stop", || {
        let mut desk = Desk::new("a; b; c: a; d");
        desk.start("a");
        desk.start("b");
        desk.stop(Some("b"));
        desk.report("b", Ending::Stopped, "half of it");
        desk.start("d");
        desk.report("d", Ending::Done, "did it");
        desk.stop(None);
        let at = desk.at("a");
        desk.put(Fact::Lost { at, cause: LossCause::Interrupted, capture: None, reason: String::new() });
        let fact = Fact::Merged {
            task: id("d"),
            attempt: desk.attempt("d"),
            commit: commit(0xd),
            changes: Files { files: 1, added: 3, removed: 0, paths: vec!["d.txt".into()] },
        };
        desk.put(fact);
        desk.decide();
        desk
    });
}

#[test]
fn planning_in_parts() {
    replays("planning_in_parts", || {
        let mut desk = Desk::empty();
        desk.put(Fact::Submitted(Box::new(crate::desk::submitted())));
        let tasks = crate::desk::tasks("a [employee=front] [max=5]; b: c [exclusive=port]");
        desk.put(Fact::Planned { scope: "".into(), conventions: Vec::new(), tasks, complete: false });
        desk
    });
}

#[test]
fn pause_and_resume() {
    replays("pause_and_resume", || {
        let mut desk = Desk::new("a; b; c: a");
        desk.start("a");
        desk.pause();
        desk.report("a", Ending::Done, "The first");
        desk.merge("a");
        desk.resume();
        desk.start("b");
        desk.pause();
        desk.lost("b", LossCause::Interrupted);
        desk
    });
}

#[test]
fn every_kind_of_fact_is_in_a_stored_journal() {
    // The names as the source gives them: `Self::Started { .. } => "started",`.
    let source = include_str!("../../src/run/fact.rs");
    let arms = source.lines().filter(|line| line.trim_start().starts_with("Self::"));
    let kinds: Vec<&str> = arms.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(kinds.len() >= 20, "{kinds:?}");
    let files = fs::read_dir(file("")).unwrap().map(|entry| entry.unwrap().path());
    let journals = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let lines: String = journals.map(|path| fs::read_to_string(path).unwrap()).collect();
    let stored: BTreeSet<&str> =
        lines.split("\"kind\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let missing: Vec<&&str> = kinds.iter().filter(|kind| !stored.contains(**kind)).collect();
    assert!(missing.is_empty(), "no stored journal has these: {missing:?}");
}
