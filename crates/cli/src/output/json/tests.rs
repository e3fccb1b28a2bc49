//! The golden files: what programs read. `UPDATE_GOLDEN=1` writes them anew; look at the difference
//! before it is committed.

use std::{env, fs, path::Path};

use ensemble_core::{
    ids::AttemptNumber,
    outcome::Ending,
    plan,
    run::{Fact, State, fact::EndState},
};

use super::*;
use crate::{
    output::{Into, Standing, Tally, report, report_object},
    testing::{at, begun, changes, commit, dispatched, entry, reported, run, spec, task},
};

/// A run that failed: one task merged, one used up its attempts, one is blocked.
fn facts() -> Vec<Entry> {
    let mut facts = begun(vec![
        spec("schema", "Schema", &[], &[]),
        spec("api", "API", &["schema"], &["sh check.sh"]),
        spec("page", "Page", &["api"], &[]),
    ]);
    let (task, attempt) = (task("schema"), AttemptNumber(1));
    let later = vec![
        dispatched("schema", 1, "back"),
        Fact::Started { at: at("schema", 1, 4) },
        reported(at("schema", 1, 4), Ending::Done, "The table.", Some(changes(2, 120, 3))),
        Fact::MergeOrdered { task: task.clone(), attempt, ours: commit('0'), theirs: commit('d') },
        Fact::Merged { task, attempt, commit: commit('e'), changes: changes(2, 120, 3) },
        dispatched("api", 1, "back"),
        reported(at("api", 1, 9), Ending::Failed, "no space", None),
        dispatched("api", 2, "back"),
        reported(at("api", 2, 11), Ending::Failed, "no space", Some(changes(1, 1, 0))),
        Fact::Ended { state: EndState::Failed, reason: "failed: api".to_owned(), head: commit('e') },
    ];
    facts.extend((4..).zip(later).map(|(seq, fact)| entry(seq, fact)));
    // The dispatch of a later attempt starts from the head that the merge made.
    for entry in &mut facts {
        if let (Fact::Dispatched(dispatch), 9..) = (&mut entry.fact, entry.seq.0) {
            dispatch.base = commit('e');
        }
    }
    facts
}

fn state() -> State {
    let mut state = State::new(run());
    for entry in facts() {
        assert_eq!(ensemble_core::run::admit(&state, &entry.fact), Ok(()), "{:?}", entry.fact);
        state.apply(&entry);
    }
    state
}

/// Compares with a golden file.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} has changed");
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

#[test]
fn ps_show_and_run_keep_their_shapes() {
    let state = state();
    golden("ps.json", &pretty(&Value::from(vec![ps_object(&state)])));
    golden("show.json", &pretty(&run_object(&state, None)));
    let into = Some(("main".to_owned(), Into::NotDelivered));
    let home = Home { branch: true, problem: None, into };
    golden("run.json", &pretty(&run_object(&state, Some(&home))));
}

#[test]
fn events_are_one_fact_a_line_with_their_envelope_first() {
    let lines: Vec<String> = facts().iter().map(|entry| event_object(run(), entry).to_string()).collect();
    golden("events.jsonl", &(lines.join("\n") + "\n"));
}

#[test]
fn check_and_plan_keep_their_shapes() {
    let text = "sub_tasks:\n  - {id: a, description: A}\n  - {id: b, description: B, dependencies: [a]}\n";
    let (plan, findings) = plan::read("plan.yaml", text, None).unwrap();
    let value = Some(serde_json::to_value(&plan).unwrap());
    let bad = plan::read("bad.yaml", "sub_tasks:\n  - {id: a, descripton: A}\n", None).unwrap_err();
    let objects = vec![
        check_object("plan.yaml", "plan", &findings, value),
        check_object("bad.yaml", "plan", &bad, None),
    ];
    golden("check.json", &pretty(&Value::from(objects)));
    golden("plan.json", &pretty(&plan_object(&plan, &Graph::of(&plan))));
}

#[test]
fn a_time_is_written_in_utc_and_a_broken_clock_is_borne() {
    assert_eq!(time(1_796_140_800_123), "2026-12-01T16:00:00.123Z");
    assert!(time(u64::MAX).starts_with("9999-"));
}

#[test]
fn wait_diff_and_notices_keep_their_shapes() {
    let state = state();
    golden("wait.json", &pretty(&wait_object(&state, Rest::Over, Exit::Failed)));
    let file = |path: &str, status, binary| FileChange {
        path: path.to_owned(),
        status,
        added: 3,
        removed: 1,
        binary,
    };
    let files = [file("app/api.py", FileStatus::Modified, false), file("logo.png", FileStatus::Added, true)];
    let text = Some("diff --git a/app/api.py b/app/api.py\n".to_owned());
    let (base, head) = (commit('0'), commit('e'));
    golden("diff.json", &pretty(&diff_object(run(), Some("api"), (&base, &head), &files, text)));
    let home = Home { branch: true, ..Home::default() };
    golden("notice.json", &pretty(&notice_object(&state, &home)));
    golden("detached.json", &pretty(&detached_object(run(), 7, Path::new("/data/detached/run.log"))));
}

#[test]
fn a_report_keeps_its_shape_and_reads_the_same() {
    let (state, mut tally) = (state(), Tally::default());
    facts().iter().for_each(|entry| tally.count(&entry.fact));
    let standing = Standing { at_home: Some(true), taken_by: vec!["main".to_owned()] };
    golden("report.json", &pretty(&report_object(&state, &tally, &standing)));
    let said = ["The table.\n\nWith an index.", "no space", ""].map(str::to_owned);
    golden("report.md", &report(&state, &tally, &standing, &said));
}

#[test]
fn init_doctor_and_prune_keep_their_shapes() {
    let build = |file: &str, check: Option<&str>, problem: Option<&str>| Build {
        file: file.to_owned(),
        check: check.map(str::to_owned),
        problem: problem.map(str::to_owned),
    };
    let found = [
        build("Makefile", Some("make test"), None),
        build("go.mod", Some("go test ./..."), Some("go is not on your PATH")),
    ];
    let written = [PathBuf::from(".ensemble/team.yaml")];
    golden("init.json", &pretty(&init_object(Path::new("."), &written, &found, &["claude".to_owned()])));
    let finding = |health, remedy: &str| crate::verbs::Finding {
        name: "free space",
        health,
        detail: "12.0 MiB".to_owned(),
        remedy: remedy.to_owned(),
    };
    let findings = [finding(Health::Good, ""), finding(Health::Bad, "make room")];
    golden("doctor.json", &pretty(&doctor_object(&findings)));
    let verdicts = BTreeMap::from([(run(), Verdict::Owned(7)), (RunId::from_parts(1, 1), Verdict::Young)]);
    let reclaimed = Reclaimed { facts: 12, refs: 3, ..Reclaimed::default() };
    let left = [PathBuf::from("/data/repositories/x.git")];
    golden("prune.json", &pretty(&prune_object(true, &verdicts, &reclaimed, &left)));
}
