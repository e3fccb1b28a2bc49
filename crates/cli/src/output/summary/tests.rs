//! The end of a run as people read it.

use ensemble_core::{
    ids::AttemptNumber,
    outcome::Ending,
    run::{Fact, State, fact::EndState},
};

use super::*;
use crate::testing::{at, begun, changes, commit, dispatched, entry, reported, run, spec, task};

fn home() -> Home {
    Home { branch: true, problem: None, into: None }
}

fn state(tasks: &[&str], facts: Vec<Fact>) -> State {
    let mut state = State::new(run());
    for entry in begun(tasks.iter().map(|id| spec(id, id, &[], &[])).collect()) {
        state.apply(&entry);
    }
    for (seq, fact) in (4..).zip(facts) {
        state.apply(&entry(seq, fact));
    }
    state
}

fn merged(id: &str) -> Vec<Fact> {
    vec![
        dispatched(id, 1, "back"),
        reported(at(id, 1, 4), Ending::Done, "The table.", Some(changes(2, 120, 3))),
        Fact::MergeOrdered {
            task: task(id),
            attempt: AttemptNumber(1),
            ours: commit('0'),
            theirs: commit('d'),
        },
        Fact::Merged {
            task: task(id),
            attempt: AttemptNumber(1),
            commit: commit('e'),
            changes: changes(2, 120, 3),
        },
    ]
}

fn ended(state: EndState, reason: &str) -> Fact {
    Fact::Ended { state, reason: reason.to_owned(), head: commit('e') }
}

#[test]
fn a_delivered_run_says_what_there_is_and_how_to_take_it_over() {
    let mut facts = merged("schema");
    facts.push(ended(EndState::Delivered, ""));
    let run = run();
    assert_eq!(
        summary(&state(&["schema"], facts), &home()),
        [
            format!("run {run} delivered after 7.0 s: 1 of 1 tasks"),
            "  schema  success  back  2 files, +120 −3: The table.".to_owned(),
            format!("result: branch ensemble/{run}, 1 task merged"),
            "next:".to_owned(),
            format!("  git merge ensemble/{run}"),
        ]
    );
}

#[test]
fn a_moved_branch_needs_no_merge() {
    let mut facts = merged("schema");
    facts.push(ended(EndState::Delivered, ""));
    let home = Home { into: Some(("main".to_owned(), Into::Moved)), ..home() };
    let lines = summary(&state(&["schema"], facts), &home);
    assert_eq!(lines.last().unwrap(), "main now stands at the result");
}

#[test]
fn a_failed_run_says_what_to_do_for_each_task() {
    let facts = vec![
        dispatched("api", 1, "back"),
        reported(at("api", 1, 4), Ending::Failed, "no space", None),
        dispatched("api", 2, "back"),
        reported(at("api", 2, 6), Ending::Failed, "no space", None),
        ended(EndState::Failed, "failed: api"),
    ];
    let lines = summary(&state(&["api"], facts), &home());
    let run = run();
    assert!(lines[0].ends_with("0 of 1 tasks (failed: api)"), "{}", lines[0]);
    assert_eq!(lines[1], "  api  failed  back  no space (attempt 2)");
    let next = [format!("  ensemble logs {run} api"), format!("  ensemble retry {run} api")];
    assert_eq!(lines[lines.len() - 2..], next);
}

#[test]
fn an_unfinished_run_is_resumed_and_a_result_that_is_not_home_is_fetched() {
    let state = state(&["api"], vec![dispatched("api", 1, "back")]);
    let home = Home { problem: Some("it is read-only".to_owned()), ..Home::default() };
    let run = run();
    assert_eq!(
        advice(&state, Some(&home)),
        [format!("ensemble fetch {run}"), format!("ensemble resume {run}")]
    );
}

#[test]
fn a_run_that_goes_on_is_shown_with_who_works_on_it() {
    let state = state(&["api"], vec![dispatched("api", 1, "back")]);
    let (alone, owned) = (show(&state, None), show(&state, Some(7)));
    assert_eq!(alone[1], "goal: A shop for books");
    assert_eq!(alone.last().unwrap(), &format!("  ensemble resume {}", run()));
    assert!(owned.last().unwrap().starts_with("process 7 works on it"), "{owned:?}");
    let now = state.began_ms + 185_000;
    assert!(show_at(&state, None, now)[0].contains(" running, began 3 min ago: 0 of 1"), "{}", alone[0]);
}

#[test]
fn a_run_that_somebody_works_on_is_watched_and_not_resumed() {
    let state = state(&["api"], vec![dispatched("api", 1, "back")]);
    let lines = fetched(&state, &home(), Some(7));
    assert_eq!(lines.last().unwrap(), &format!("  ensemble watch {}", run()));
}

#[test]
fn idle_time_between_two_stretches_is_not_counted() {
    let mut facts = merged("schema");
    facts.push(ended(EndState::Delivered, ""));
    let mut state = state(&["schema"], facts);
    state.epoch = FIRST_OWNER;
    assert!(show_at(&state, None, u64::MAX)[0].contains(" delivered after 7.0 s: "));
    state.epoch = FIRST_OWNER.next();
    assert!(show_at(&state, None, state.began_ms + 7_200_000)[0].contains(" delivered, began 2 h ago: "));
}

#[test]
fn a_question_is_shown_and_answered_with_a_prompt() {
    let asked = reported(at("api", 1, 4), Ending::Blocked, "Which currency?", None);
    let wait = Fact::Waiting { reason: WaitReason::Blocked };
    let state = state(&["api"], vec![dispatched("api", 1, "back"), asked, wait]);
    let lines = summary(&state, &home());
    let next = [
        "asked:".to_owned(),
        "  api: Which currency?".to_owned(),
        "next:".to_owned(),
        format!("  ensemble retry {} api --prompt \"…\"", run()),
    ];
    assert_eq!(lines[lines.len() - 4..], next, "{lines:?}");
}

#[test]
fn many_failures_are_counted_and_tried_again_by_one_command() {
    let ids: Vec<String> = (1..=7).map(|number| format!("t{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut facts = Vec::new();
    for id in &ids {
        for attempt in 1..=2 {
            let token = 4 + facts.len() as u64;
            facts.push(dispatched(id, attempt, "back"));
            facts.push(reported(at(id, attempt, token), Ending::Failed, "no", None));
        }
    }
    facts.push(ended(EndState::Failed, "failed"));
    let lines = summary(&state(&ids, facts), &home());
    let last = [format!("  ensemble retry {}", run()), "  … and 2 tasks more like these".to_owned()];
    assert_eq!(lines[lines.len() - 2..], last, "{lines:?}");
}
