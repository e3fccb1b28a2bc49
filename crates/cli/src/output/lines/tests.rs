//! A run told line by line, in the words that people and scripts rely on.

use ensemble_core::{
    ids::{AttemptNumber, CheckNumber, RunId},
    outcome::{Delivery, Ending},
    run::{
        Entry, Fact, State,
        fact::{CheckOf, CheckRef, EndState, Handed, LossCause, WaitReason},
    },
};

use super::*;
use crate::testing::{at, begun, changes, commit, dispatched, entry, handed, place, reported, spec, task};

/// A narrator who knows a run of three tasks: `ST-2`, then `ST-3`, which needs it, then `ST-4`.
fn narrator() -> Narrator {
    let mut narrator = Narrator::new(State::new(crate::testing::run()));
    let tasks = vec![
        spec("ST-2", "Schema", &[], &[]),
        spec("ST-3", "API", &["ST-2"], &["sh check.sh"]),
        spec("ST-4", "Page", &["ST-2", "ST-3"], &[]),
    ];
    for entry in begun(tasks) {
        narrator.tell(&entry);
    }
    narrator
}

/// Tells facts from sequence `first` on and returns the lines of the last one.
fn tell(narrator: &mut Narrator, first: u64, facts: Vec<Fact>) -> Vec<String> {
    let mut lines = Vec::new();
    for (seq, fact) in (first..).zip(facts) {
        let entry: Entry = entry(seq, fact);
        assert_eq!(ensemble_core::run::admit(narrator.state(), &entry.fact), Ok(()), "{:?}", entry.fact);
        lines = narrator.tell(&entry);
    }
    lines
}

/// The facts by which `ST-2` succeeds, from sequence 4 on.
fn schema_is_merged() -> Vec<Fact> {
    vec![
        dispatched("ST-2", 1, "back"),
        Fact::Started { at: at("ST-2", 1, 4) },
        reported(at("ST-2", 1, 4), Ending::Done, "The table.", Some(changes(2, 120, 3))),
        Fact::MergeOrdered {
            task: task("ST-2"),
            attempt: AttemptNumber(1),
            ours: commit('0'),
            theirs: commit('d'),
        },
        Fact::Merged {
            task: task("ST-2"),
            attempt: AttemptNumber(1),
            commit: commit('0'),
            changes: changes(2, 120, 3),
        },
    ]
}

#[test]
fn a_task_is_told_from_its_dispatch_to_its_merge() {
    let mut narrator = narrator();
    let facts = schema_is_merged();
    let mut lines = Vec::new();
    for (seq, fact) in (4..).zip(facts) {
        lines.extend(narrator.tell(&entry(seq, fact)));
    }
    assert_eq!(lines, ["dispatched ST-2 (Schema) to back", "done ST-2: 2 files, +120 −3", "merged ST-2"]);
}

#[test]
fn a_dispatch_names_what_was_needed_and_what_is_handed_on() {
    let mut narrator = narrator();
    let context = vec![Handed { from: task("ST-2"), artifacts: vec!["schema".to_owned()], files: 3 }];
    let mut facts = schema_is_merged();
    facts.push(handed("ST-3", 1, "back", context));
    assert_eq!(
        tell(&mut narrator, 4, facts),
        ["dispatched ST-3 (API) to back: ST-2 done", "brief ST-3: schema from ST-2, 3 files"]
    );
}

#[test]
fn a_failed_attempt_is_tried_again_and_the_last_one_blocks_who_needs_it() {
    let mut narrator = narrator();
    let first = reported(at("ST-2", 1, 4), Ending::Failed, "no space", None);
    let lines = tell(&mut narrator, 4, vec![dispatched("ST-2", 1, "back"), first]);
    assert_eq!(lines, ["failed ST-2 attempt 1: no space; it is tried again"]);
    let second = reported(at("ST-2", 2, 6), Ending::Failed, "no space\u{1b}[2J", None);
    let lines = tell(&mut narrator, 6, vec![dispatched("ST-2", 2, "back"), second]);
    assert_eq!(
        lines,
        [
            "failed ST-2: no space\u{fffd}[2J",
            "blocked ST-3: depends on ST-2, which did not succeed",
            "blocked ST-4: depends on ST-2, which did not succeed"
        ]
    );
    let end = Fact::Ended { state: EndState::Failed, reason: "failed: ST-2".to_owned(), head: commit('0') };
    assert_eq!(tell(&mut narrator, 8, vec![end]), ["failed: ST-2"]);
}

#[test]
fn a_failed_check_shows_the_end_of_its_output() {
    let mut narrator = narrator();
    let of = CheckOf { task: Some(task("ST-3")), attempt: AttemptNumber(1) };
    let mut facts = schema_is_merged();
    facts.push(dispatched("ST-3", 1, "back"));
    facts.push(reported(at("ST-3", 1, 9), Ending::Done, "The API.", None));
    let check = CheckNumber(1);
    let dispatch =
        Fact::CheckDispatched { of: of.clone(), check, command: 0, commit: commit('0'), place: place() };
    facts.push(dispatch);
    assert_eq!(tell(&mut narrator, 4, facts), ["check ST-3: sh check.sh"]);
    let check_at = CheckRef { of, check, token: ensemble_core::ids::Seq(11) };
    let output: String = (1..=30).map(|number| format!("line {number}\n")).collect();
    let report = Fact::CheckReported {
        at: check_at,
        passed: false,
        ended: "exit 1".to_owned(),
        output: output.into(),
    };
    let lines = tell(&mut narrator, 12, vec![report]);
    assert_eq!(lines[0], "check failed ST-3 (exit 1): sh check.sh");
    assert_eq!((lines[1].as_str(), lines[20].as_str()), ("    line 11", "    line 30"));
    assert!(lines[21].starts_with("failed ST-3 attempt 1: "), "{}", lines[21]);
}

#[test]
fn checks_beside_one_that_failed_come_to_an_end_too() {
    let mut narrator = Narrator::new(State::new(crate::testing::run()));
    for entry in begun(vec![spec("api", "API", &[], &["sh a.sh", "sh b.sh"])]) {
        narrator.tell(&entry);
    }
    let of = CheckOf { task: Some(task("api")), attempt: AttemptNumber(1) };
    let check = |number: u32| Fact::CheckDispatched {
        of: of.clone(),
        check: CheckNumber(number),
        command: number - 1,
        commit: commit('0'),
        place: place(),
    };
    let facts = vec![
        dispatched("api", 1, "back"),
        reported(at("api", 1, 4), Ending::Done, "The API.", None),
        check(1),
        check(2),
        Fact::CheckReported {
            at: CheckRef { of: of.clone(), check: CheckNumber(1), token: ensemble_core::ids::Seq(6) },
            passed: false,
            ended: "exit 1".to_owned(),
            output: "no".into(),
        },
    ];
    let lines = tell(&mut narrator, 4, facts);
    assert_eq!(lines[0], "check failed api (exit 1): sh a.sh");
    assert_eq!(lines.last().unwrap(), "dropped check api (sh b.sh): another check failed");
}

#[test]
fn who_took_a_run_over_is_named_as_people_know_it() {
    let mut narrator = narrator();
    let claim = |by: &str| Fact::Claimed { coordinator: ensemble_core::ids::CoordinatorId::new(by).unwrap() };
    let lines = tell(&mut narrator, 4, vec![dispatched("ST-2", 1, "back"), claim("local-24044")]);
    assert_eq!(lines, ["process 24044 took the run over"]);
    assert_eq!(tell(&mut narrator, 6, vec![claim("c1")]), ["c1 took the run over"]);
}

#[test]
fn losses_conflicts_and_waits_say_why() {
    let mut narrator = narrator();
    let capture = Some(Delivery { commit: commit('d'), changes: changes(1, 1, 0) });
    let lost =
        Fact::Lost { at: at("ST-2", 1, 4), cause: LossCause::Interrupted, capture, reason: String::new() };
    assert_eq!(
        tell(&mut narrator, 4, vec![dispatched("ST-2", 1, "back"), lost]),
        ["lost ST-2 attempt 1: it was interrupted, what it had is kept; it is tried again"]
    );
    let cause = LossCause::Environment;
    let lost =
        Fact::Lost { at: at("ST-2", 1, 4), cause, capture: None, reason: "no room on the disk".into() };
    assert_eq!(
        tell(&mut self::narrator(), 4, vec![dispatched("ST-2", 1, "back"), lost]),
        ["lost ST-2 attempt 1: the node could not run it: no room on the disk; it is tried again"]
    );
    let mut facts = schema_is_merged();
    facts.truncate(4);
    let mut narrator = self::narrator();
    facts.push(Fact::Conflicted {
        task: task("ST-2"),
        attempt: AttemptNumber(1),
        files: vec!["a.txt (changed on both sides)".to_owned()],
    });
    let lines = tell(&mut narrator, 4, facts);
    let run: RunId = crate::testing::run();
    assert_eq!(
        lines[0],
        format!(
            "conflict ST-2: a.txt (changed on both sides); the sides are kept as ensemble/{run} and refs/ensemble/{run}/ST-2/1"
        )
    );
    assert_eq!(lines.len(), 3);
    let wait = Fact::Waiting { reason: WaitReason::Blocked };
    assert_eq!(tell(&mut narrator, 9, vec![wait]), ["waiting: only blocked tasks are left"]);
}

#[test]
fn a_pause_and_its_end_are_told() {
    let mut narrator = narrator();
    let asked = tell(&mut narrator, 4, vec![Fact::Paused]);
    assert_eq!(asked, ["pause requested: what runs finishes, nothing new starts"]);
    let wait = Fact::Waiting { reason: WaitReason::Paused };
    assert_eq!(tell(&mut narrator, 5, vec![wait]), ["waiting: the run is paused"]);
    assert_eq!(tell(&mut narrator, 6, vec![Fact::Resumed]), ["resumed"]);
}
