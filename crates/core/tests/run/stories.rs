//! Stories: what a person would tell of one run, and how it must come out. Each ends with the whole
//! run in a line, so a story also says what did *not* change.

use ensemble_core::{
    outcome::Ending,
    run::{
        Duty, Fact, Refusal, admit,
        fact::{EndState, LossCause, Submitted, WaitReason},
        state::{MAX_LOSSES, MAX_REFUSALS},
    },
    team::Budget,
};

use crate::{
    desk::{Desk, commit, id, node, planned, report, retried, submitted, tasks},
    world::CAUSES,
};

#[test]
fn a_failure_blocks_its_dependants_and_leaves_independent_branches_running() {
    let mut desk = Desk::new("a [max=1]; b: a; c: b; x; y: x");
    desk.fail("a", "no compiler");
    desk.done("x");
    desk.merge("x");
    let blocked = "depends on a, which did not succeed";
    assert_eq!(
        desk.show(),
        format!(
            "a failed (no compiler); b blocked ({blocked}); c blocked ({blocked}); x success; y pending; => running"
        )
    );
    desk.done("y");
    desk.merge("y");
    assert!(desk.show().ends_with("=> failed (failed: a)"), "{}", desk.show());
}

#[test]
fn a_retry_reopens_the_task_and_unblocks_its_dependants() {
    let mut desk = Desk::new("a [max=1]; b: a; c: b");
    desk.fail("a", "no compiler");
    assert_eq!(admit(&desk.state, &retried(Some("b"))), Err(Refusal::Dependency));
    desk.retry(Some("a"));
    assert_eq!(desk.show(), "a pending; b pending; c pending; => running");
    for task in ["a", "b", "c"] {
        desk.done(task);
        desk.merge(task);
    }
    assert_eq!(desk.show(), "a success; b success; c success; => delivered");
    assert_eq!(admit(&desk.state, &retried(None)), Err(Refusal::Over));
}

#[test]
fn a_retry_while_other_branches_run_disturbs_nobody() {
    let mut desk = Desk::new("a [max=1]; b: a; x");
    desk.start("x");
    desk.fail("a", "no compiler");
    let token = desk.at("x");
    desk.retry(Some("a"));
    assert_eq!(desk.show(), "a pending; b pending; x running; => running");
    assert_eq!(desk.at("x"), token);
}

#[test]
fn of_two_failed_parents_the_other_one_still_blocks() {
    let mut desk = Desk::new("a [max=1]; b [max=1]; c: a b; d: c");
    desk.fail("a", "no compiler");
    desk.fail("b", "no linker");
    let since = desk.state.find(&id("c")).unwrap().1.changed_ms;
    desk.retry(Some("a"));
    let blocked = "depends on b, which did not succeed";
    assert_eq!(
        desk.show(),
        format!("a pending; b failed (no linker); c blocked ({blocked}); d blocked ({blocked}); => running")
    );
    assert_eq!(desk.state.find(&id("c")).unwrap().1.changed_ms, since, "it has been blocked all the time");
    desk.retry(Some("b"));
    assert_eq!(desk.show(), "a pending; b pending; c pending; d pending; => running");
}

#[test]
fn a_conflict_blocks_the_task_and_the_run_waits() {
    let mut desk = Desk::new("a; b; c: b");
    desk.start("a");
    desk.start("b");
    desk.report("a", Ending::Done, "did it");
    desk.merge("a");
    desk.report("b", Ending::Done, "did it");
    desk.conflict("b", "api.py");
    assert_eq!(
        desk.show(),
        "a success; b blocked (merge conflict in api.py (changed on both sides)); \
         c blocked (depends on b, which did not succeed); => waiting (blocked)"
    );
    let (_, b) = desk.state.find(&id("b")).unwrap();
    assert_eq!((b.failures, b.previous.as_ref().unwrap().capture.is_some()), (0, true), "its side is kept");
    desk.retry(Some("b"));
    desk.start("b");
    let base = &desk.state.find(&id("b")).unwrap().1.attempt.as_ref().unwrap().dispatch.base;
    assert_eq!(Some(base), desk.state.head.as_ref(), "the next attempt starts from the head");
}

#[test]
fn with_a_failed_task_a_blocked_one_does_not_make_the_run_wait() {
    let mut desk = Desk::new("a [max=1]; b");
    desk.start("b");
    desk.report("b", Ending::Blocked, "needs a key");
    assert_eq!(desk.show(), "a pending; b blocked (needs a key); => running");
    desk.fail("a", "no compiler");
    assert_eq!(desk.show(), "a failed (no compiler); b blocked (needs a key); => failed (failed: a)");
}

#[test]
fn only_what_the_agent_did_counts_and_the_last_attempt_fails_the_task() {
    let mut desk = Desk::new("a");
    for (ending, word) in [(Ending::Failed, "first"), (Ending::Revise, "second")] {
        desk.start("a");
        desk.report("a", ending, word);
        assert_eq!(desk.show(), "a pending; => running");
        assert_eq!(desk.state.tasks[0].previous.as_ref().unwrap().why.head(), word);
    }
    for cause in CAUSES {
        desk.lose("a", cause);
        assert_eq!(desk.show(), "a pending; => running", "{cause:?} costs no attempt");
    }
    desk.fail("a", "third");
    assert_eq!(desk.show(), "a failed (third); => failed (failed: a)");
    assert_eq!(desk.attempt("a").0, 8, "each try has a number of its own");
}

#[test]
fn the_employee_bounds_attempts_where_the_task_says_nothing() {
    let careful = |submitted: &mut Submitted| submitted.roster[0].max_attempts = Some(1);
    let mut desk = Desk::with("a; b [max=2]", careful);
    desk.fail("a", "no");
    desk.fail("b", "no");
    assert_eq!(desk.show(), "a failed (no); b pending; => running");
}

#[test]
fn losses_are_borne_up_to_their_bound() {
    let bounds = [
        (LossCause::Node, MAX_LOSSES, "its attempts were lost 10 times"),
        (LossCause::Interrupted, MAX_LOSSES, "its attempts were lost 10 times"),
        (LossCause::Environment, MAX_LOSSES, "its attempts were lost 10 times"),
        (LossCause::Refused, MAX_REFUSALS, "nodes refused it 100 times"),
    ];
    for (cause, bound, why) in bounds {
        let mut desk = Desk::new("a");
        for _ in 1..bound {
            desk.lose("a", cause);
        }
        assert_eq!(desk.show(), "a pending; => running", "{cause:?}");
        desk.lose("a", cause);
        assert_eq!(desk.show(), format!("a failed ({why}); => failed (failed: a)"), "{cause:?}");
        desk.retry(Some("a"));
        desk.lose("a", cause);
        assert_eq!(desk.show(), "a pending; => running", "a retry counts from the start");
    }
}

#[test]
fn what_dies_with_the_coordinators_process_has_no_bound() {
    let mut desk = Desk::new("a");
    for _ in 0..2 * MAX_REFUSALS {
        desk.lose("a", LossCause::Process);
    }
    assert_eq!(desk.show(), "a pending; => running");
}

#[test]
fn an_interrupted_attempts_work_is_named_to_the_next_one() {
    let mut desk = Desk::new("a");
    desk.start("a");
    let work = desk.new_commit();
    let capture = report(Ending::Done, "", Some(work.clone())).delivery;
    let at = desk.at("a");
    desk.put(Fact::Lost { at, cause: LossCause::Interrupted, capture, reason: String::new() });
    let previous = desk.state.tasks[0].previous.clone().unwrap();
    assert_eq!((previous.attempt.0, previous.capture.unwrap().commit), (1, work));
}

#[test]
fn a_spent_budget_makes_the_run_wait_and_a_retry_grants_it_anew() {
    let budget = |submitted: &mut Submitted| submitted.budget = Budget { turns: Some(2), tokens: None };
    let mut desk = Desk::with("a; b; c; d", budget);
    desk.start("a");
    desk.start("b");
    assert_eq!(desk.duties().len(), 2, "parallel dispatches can't overshoot");
    desk.report("a", Ending::Done, "did it");
    desk.report("b", Ending::Done, "did it");
    desk.merge("a");
    desk.merge("b");
    assert_eq!(desk.show(), "a success; b success; c pending; d pending; => waiting (budget)");
    desk.retry(None);
    for task in ["c", "d"] {
        desk.done(task);
        desk.merge(task);
    }
    assert!(desk.state.is_delivered());
    assert_eq!(desk.state.turns, 4);
}

#[test]
fn a_refused_dispatch_spends_nothing_of_the_budget() {
    let budget = |submitted: &mut Submitted| submitted.budget = Budget { turns: Some(1), tokens: None };
    let mut desk = Desk::with("a", budget);
    desk.dispatch("a");
    let at = desk.at("a");
    desk.put(Fact::Refused { at, reason: "no slot".into() });
    desk.decide();
    assert_eq!(desk.show(), "a pending; => running");
}

#[test]
fn tokens_are_counted_as_agents_report_them() {
    let budget = |submitted: &mut Submitted| submitted.budget = Budget { turns: None, tokens: Some(100) };
    let mut desk = Desk::with("a; b", budget);
    desk.start("a");
    let mut words = report(Ending::Done, "did it", None);
    words.outcome.usage.total_tokens = 100;
    let at = desk.at("a");
    desk.put(Fact::Reported { at, report: words });
    desk.decide();
    assert_eq!(desk.show(), "a success; b pending; => waiting (budget)");
}

#[test]
fn nothing_to_merge_is_accepted_and_leaves_the_branch() {
    let mut desk = Desk::new("a; b: a");
    let base = desk.state.head.clone();
    desk.start("a");
    let at = desk.at("a");
    desk.put(Fact::Reported { at, report: report(Ending::Done, "it is fine", None) });
    assert_eq!(desk.show(), "a merging; b pending; => running");
    desk.decide();
    assert_eq!(desk.show(), "a success; b pending; => running");
    assert_eq!(desk.state.head, base);
}

#[test]
fn tasks_that_share_an_exclusive_name_take_turns_until_the_merge() {
    let mut desk = Desk::new("a [exclusive=port]; b [exclusive=port]; c");
    desk.start("a");
    assert_eq!(desk.duties().iter().filter(|duty| matches!(duty, Duty::Grant { .. })).count(), 1, "only c");
    desk.report("a", Ending::Done, "did it");
    let hasty = desk.dispatch_of(desk.state.find(&id("b")).unwrap().0, 0, node(1)).unwrap();
    assert!(matches!(admit(&desk.state, &hasty), Err(Refusal::NotNow(_))));
    desk.merge("a");
    desk.put(hasty_now(&desk));
    assert_eq!(desk.show(), "a success; b dispatched; c pending; => running");
}

fn hasty_now(desk: &Desk) -> Fact {
    desk.dispatch_of(desk.state.find(&id("b")).unwrap().0, 0, node(1)).unwrap()
}

#[test]
fn a_plan_comes_in_parts_and_nothing_starts_before_the_last() {
    let mut desk = Desk::empty();
    assert!(admit(&desk.state, &planned(tasks("a"))).is_err(), "a run begins with its submission");
    desk.put(Fact::Submitted(Box::new(submitted())));
    let part = |plan, complete| Fact::Planned {
        scope: "".into(),
        conventions: Vec::new(),
        tasks: tasks(plan),
        complete,
    };
    desk.put(part("a; b: d", false));
    assert_eq!(desk.show(), "a pending; b pending; => planning");
    assert_eq!(desk.duties(), []);
    assert!(admit(&desk.state, &part("a", true)).is_err(), "a part that was read twice");
    assert!(admit(&desk.state, &part("c", true)).is_err(), "b depends on a task that isn't there");
    desk.stop(Some("a"));
    desk.put(part("c: a; d", true));
    desk.decide();
    assert_eq!(
        desk.show(),
        "a stopped (stopped on request); b pending; c blocked (depends on a, which did not succeed); d pending; => running"
    );
}

#[test]
fn nothing_runnable_ends_the_run_with_a_reason() {
    let mut desk = Desk::new("a: b; b: a");
    desk.decide();
    assert_eq!(desk.show(), "a pending; b pending; => failed (tasks are left, and none of them can start)");
}

#[test]
fn an_empty_plan_is_delivered() {
    let mut desk = Desk::empty();
    desk.put(Fact::Submitted(Box::new(submitted())));
    desk.put(planned(Vec::new()));
    desk.decide();
    assert_eq!(desk.show(), "=> delivered");
}

#[test]
fn after_a_crash_a_live_attempt_goes_on_and_its_report_is_taken() {
    let mut desk = Desk::new("a; b: a");
    desk.start("a");
    let at = desk.at("a");
    let before = desk.duties();
    desk.crash();
    assert_eq!(desk.duties(), before, "nothing is dispatched again (S52)");
    let work = desk.new_commit();
    let fact = Fact::Reported { at, report: report(Ending::Done, "did it", Some(work)) };
    desk.put(fact.clone());
    assert_eq!(admit(&desk.state, &fact), Err(Refusal::Stale), "receiving it twice changes nothing");
    desk.decide();
    desk.crash();
    desk.merge("a");
    assert_eq!(desk.show(), "a success; b pending; => running");
}

#[test]
fn with_something_failed_the_run_must_not_wait() {
    let mut desk = Desk::new("a [max=1]; b");
    desk.start("b");
    desk.start("a");
    desk.report("b", Ending::Blocked, "needs a key");
    let at = desk.at("a");
    desk.put(Fact::Reported { at, report: report(Ending::Failed, "no compiler", None) });
    let waiting = Fact::Waiting { reason: WaitReason::Blocked };
    assert_eq!(admit(&desk.state, &waiting), Err(Refusal::Stale));
}

#[test]
fn an_end_names_the_head_and_comes_when_it_is_due() {
    let mut desk = Desk::new("a");
    let head = desk.state.head.clone().unwrap();
    let end = |state, head| Fact::Ended { state, reason: String::new(), head };
    assert!(admit(&desk.state, &end(EndState::Delivered, head.clone())).is_err(), "a is not done");
    desk.start("a");
    let at = desk.at("a");
    desk.put(Fact::Reported { at, report: report(Ending::Done, "fine", None) });
    let attempt = desk.attempt("a");
    desk.put(Fact::Accepted { task: id("a"), attempt });
    assert!(admit(&desk.state, &end(EndState::Failed, head.clone())).is_err(), "nothing failed");
    assert!(admit(&desk.state, &end(EndState::Delivered, commit(1))).is_err(), "the branch is elsewhere");
    desk.put(end(EndState::Delivered, head));
}

#[test]
fn a_task_that_was_lost_too_often_says_why_the_last_time() {
    let mut desk = Desk::new("a");
    for _ in 0..MAX_LOSSES {
        desk.start("a");
        let at = desk.at("a");
        let reason = "no room on the disk".to_owned();
        desk.put(Fact::Lost { at, cause: LossCause::Environment, capture: None, reason });
        desk.decide();
    }
    assert!(desk.show().contains("lost 10 times, at last because: no room on the disk"), "{}", desk.show());
}
