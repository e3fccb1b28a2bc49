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
}
