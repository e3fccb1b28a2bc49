//! Stories: what a person would tell of one run, and how it must come out. Each ends with the whole
//! run in a line, so a story also says what did *not* change.

use ensemble_core::{
    outcome::Ending,
    run::{
        Duty, Fact, Refusal, admit,
        fact::{LossCause, Submitted, WaitReason},
        state::{MAX_LOSSES, MAX_REFUSALS},
    },
    team::{Budget, Gate},
};

use crate::{
    desk::{Desk, id, node, planned, report, retried, submitted, tasks},
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
    desk.put(Fact::Lost { at, cause: LossCause::Interrupted, capture });
    let previous = desk.state.tasks[0].previous.clone().unwrap();
    assert_eq!((previous.attempt.0, previous.capture.unwrap().commit), (1, work));
}

#[test]
fn a_failed_check_fails_the_attempt_and_the_next_brief_holds_its_output() {
    let mut desk = Desk::new("a [check=make test] [check=make lint] [max=2]");
    desk.done("a");
    assert_eq!(desk.show(), "a running [open open]; => running");
    let of = desk.check_of(Some("a"));
    let lint = desk.dispatch_check(&of, 1, node(2));
    desk.check(Some("a"), 0, false);
    assert_eq!(desk.show(), "a pending; => running");
    let previous = desk.state.tasks[0].previous.clone().unwrap();
    assert_eq!(previous.why.head(), "check `make test` failed (exit 1)\nassertion failed: 1 == 2\n");
    assert!(previous.capture.is_some() && previous.outcome.is_some());
    let late = Fact::CheckReported { at: lint, passed: true, ended: "exit 0".into(), output: "".into() };
    assert_eq!(admit(&desk.state, &late), Err(Refusal::Stale));

    desk.done("a");
    let of = desk.check_of(Some("a"));
    desk.dispatch_check(&of, 1, node(2));
    desk.check(Some("a"), 0, false);
    assert_eq!(desk.show(), "a failed (check `make test` failed (exit 1)); => failed (failed: a)");
    assert_eq!(desk.duties(), [], "its other check is abandoned");
}

#[test]
fn checks_are_numbered_under_their_attempt_before_and_on_the_merge() {
    let gate = |submitted: &mut Submitted| {
        submitted.gate = Gate::Each;
        submitted.checks = vec!["sh tests/run.sh".into()];
    };
    let mut desk = Desk::with("a [check=make test]", gate);
    desk.fail("a", "no");
    desk.fail("a", "no");
    desk.done("a");
    let of = desk.check_of(Some("a"));
    let first = desk.dispatch_check(&of, 0, node(1));
    assert_eq!(desk.show(), "a running [3.c1]; => running");
    desk.put(Fact::CheckLost { at: first, cause: LossCause::Node });
    let again = desk.duties();
    desk.dispatch_check(&of, 0, node(1));
    assert_eq!(desk.show(), "a running [3.c2]; => running");
    let at = ensemble_core::run::fact::CheckRef {
        of: of.clone(),
        check: ensemble_core::ids::CheckNumber(2),
        token: desk.state.seq,
    };
    desk.put(Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() });
    desk.decide();
    desk.prepare("a");
    assert_eq!(desk.show(), "a merging [open]; => running");
    assert!(
        again.iter().all(|duty| !desk.duties().contains(duty)),
        "no duty comes back with another meaning"
    );
    desk.dispatch_check(&of, 0, node(1));
    assert_eq!(desk.show(), "a merging [3.c3]; => running");
}

#[test]
fn with_gate_each_the_branch_moves_only_to_a_checked_merge() {
    let gate = |submitted: &mut Submitted| {
        submitted.gate = Gate::Each;
        submitted.checks = vec!["sh tests/run.sh".into()];
    };
    let mut desk = Desk::with("a; b", gate);
    let base = desk.state.head.clone();
    desk.start("b");
    desk.done("a");
    desk.report("b", Ending::Done, "did it");
    let hasty = desk.merged("a");
    assert!(matches!(admit(&desk.state, &hasty), Err(Refusal::NotNow(_))));
    desk.prepare("a");
    desk.check(Some("a"), 0, false);
    assert_eq!(desk.state.head, base, "a merge that fails its checks leaves the branch where it was");
    assert_eq!(desk.show(), "a pending; b merging; => running");
    desk.prepare("b");
    desk.check(Some("b"), 0, true);
    assert!(matches!(desk.duties().as_slice(), [Duty::Grant { .. }, Duty::Advance { .. }]));
    desk.merge("b");
    desk.done("a");
    desk.prepare("a");
    desk.check(Some("a"), 0, true);
    desk.merge("a");
    assert_eq!(desk.show(), "a success; b success; => checking", "and once more at the end");
    desk.check(None, 0, true);
    assert_eq!(desk.show(), "a success; b success; => delivered");
}

#[test]
fn a_lost_check_costs_nothing_within_its_bound() {
    let mut desk = Desk::new("a [check=make test]");
    desk.done("a");
    for round in 1..=MAX_LOSSES {
        assert_eq!(desk.show(), "a running [open]; => running", "round {round}");
        let of = desk.check_of(Some("a"));
        for cause in [LossCause::Process, LossCause::Node] {
            let at = desk.dispatch_check(&of, 0, node(1));
            desk.put(Fact::CheckLost { at, cause });
        }
    }
    desk.decide();
    assert_eq!(desk.show(), "a failed (its checks were lost 10 times); => failed (failed: a)");
    assert!(desk.state.tasks[0].previous.as_ref().unwrap().capture.is_some(), "its work is kept");
}

#[test]
fn failed_final_checks_fail_the_run_and_a_retry_checks_again() {
    let mut desk = Desk::with("a", |submitted| submitted.checks = vec!["sh tests/run.sh".into()]);
    desk.done("a");
    desk.merge("a");
    assert_eq!(desk.show(), "a success; => checking");
    desk.check(None, 0, false);
    assert_eq!(desk.show(), "a success; => failed (check `sh tests/run.sh` failed (exit 1))");
    assert_eq!(desk.state.check_output.head(), "assertion failed: 1 == 2\n");
    assert_eq!(admit(&desk.state, &retried(Some("a"))), Err(Refusal::NotEnded));
    desk.retry(None);
    assert_eq!(desk.show(), "a success; => checking");
    assert_eq!(desk.check_of(None).attempt.0, 2, "a new round");
    desk.check(None, 0, true);
    assert_eq!(desk.show(), "a success; => delivered");
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

/// Where a task may stand, and what becomes of it when the task or the whole run is stopped there.
#[test]
fn a_stop_in_every_stage() {
    let gate = |submitted: &mut Submitted| {
        submitted.gate = Gate::Each;
        submitted.checks = vec!["sh tests/run.sh".into()];
    };
    type Way = fn(&mut Desk);
    let pending: Way = |_| {};
    let assigned: Way = |desk| desk.dispatch("a");
    let working: Way = |desk| desk.start("a");
    let checking: Way = |desk| desk.done("a");
    let queued: Way = |desk| {
        desk.done("a");
        let of = desk.check_of(Some("a"));
        let at = desk.dispatch_check(&of, 0, node(1));
        desk.put(Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() });
    };
    let ordered: Way = |desk| {
        desk.done("a");
        desk.check(Some("a"), 0, true);
    };
    let gating: Way = |desk| {
        desk.done("a");
        desk.check(Some("a"), 0, true);
        desk.prepare("a");
    };
    let advancing: Way = |desk| {
        desk.done("a");
        desk.check(Some("a"), 0, true);
        desk.prepare("a");
        desk.check(Some("a"), 0, true);
    };
    let stopped = "a stopped (stopped on request)";
    let after_the_task = |rest: &str| {
        format!("{rest}; b blocked (depends on a, which did not succeed); => stopped (stopped: a)")
    };
    let after_the_run =
        |rest: &str| format!("{rest}; b stopped (stopped on request); => stopped (stopped on request)");
    let soon = |rest: &str| format!("{rest}; b pending; => running");
    let soon_all = |rest: &str| format!("{rest}; b stopped (stopped on request); => running");
    let rows: [(&str, Way, Option<String>, String); 8] = [
        ("pending", pending, Some(after_the_task(stopped)), after_the_run(stopped)),
        ("assigned", assigned, Some(soon("a dispatched")), soon_all("a dispatched")),
        ("working", working, Some(soon("a running")), soon_all("a running")),
        ("checking", checking, Some(after_the_task(stopped)), after_the_run(stopped)),
        ("queued", queued, None, after_the_run(stopped)),
        ("ordered", ordered, None, soon_all("a merging")),
        ("gating", gating, None, after_the_run(stopped)),
        ("advancing", advancing, None, soon_all("a merging")),
    ];
    for (stage, way, task, run) in rows {
        let mut desk = Desk::with("a [check=make test]; b: a", gate);
        way(&mut desk);
        match task {
            Some(shown) => {
                desk.stop(Some("a"));
                assert_eq!(desk.show(), shown, "the task, {stage}");
            }
            None => {
                let stop = Fact::StopRequested { task: Some(id("a")) };
                assert_eq!(admit(&desk.state, &stop), Err(Refusal::TooLate), "the task, {stage}");
            }
        }
        let mut desk = Desk::with("a [check=make test]; b: a", gate);
        way(&mut desk);
        desk.stop(None);
        assert_eq!(desk.show(), run, "the run, {stage}");
    }
}

#[test]
fn a_report_after_the_stop_does_not_count_but_its_work_is_kept() {
    let mut desk = Desk::new("a; b: a");
    desk.start("a");
    desk.stop(Some("a"));
    assert!(matches!(desk.duties().as_slice(), [Duty::Stop { .. }]));
    desk.report("a", Ending::Done, "I was done already");
    assert_eq!(
        desk.show(),
        "a stopped (stopped on request); b blocked (depends on a, which did not succeed); => stopped (stopped: a)"
    );
    let previous = desk.state.tasks[0].previous.clone().unwrap();
    assert!(previous.capture.is_some());
    assert_eq!(previous.why.head(), "I was done already");
}

#[test]
fn a_merge_that_was_ordered_is_let_finish() {
    let mut desk = Desk::new("a; b: a");
    desk.done("a");
    desk.stop(None);
    assert_eq!(desk.show(), "a merging; b stopped (stopped on request); => running");
    desk.merge("a");
    assert_eq!(desk.show(), "a success; b stopped (stopped on request); => stopped (stopped on request)");
    desk.retry(None);
    desk.done("b");
    desk.merge("b");
    assert_eq!(desk.show(), "a success; b success; => delivered");
}

#[test]
fn a_run_stopped_during_its_checks_can_go_on() {
    let mut desk = Desk::with("a", |submitted| submitted.checks = vec!["sh tests/run.sh".into()]);
    desk.done("a");
    desk.merge("a");
    let of = desk.check_of(None);
    let at = desk.dispatch_check(&of, 0, node(1));
    desk.stop(None);
    assert_eq!(desk.show(), "a success; => stopped (stopped on request)");
    let late = Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() };
    assert_eq!(admit(&desk.state, &late), Err(Refusal::Stale));
    desk.retry(None);
    desk.check(None, 0, true);
    assert_eq!(desk.show(), "a success; => delivered");
}

#[test]
fn the_retry_of_one_task_of_a_stopped_run_leaves_the_others_stopped() {
    let mut desk = Desk::new("a; b; c: b");
    desk.stop(None);
    let stopped = "stopped on request";
    assert_eq!(admit(&desk.state, &retried(Some("c"))), Err(Refusal::Dependency), "b comes first");
    desk.retry(Some("a"));
    assert_eq!(desk.show(), format!("a pending; b stopped ({stopped}); c stopped ({stopped}); => running"));
    desk.done("a");
    desk.merge("a");
    assert_eq!(
        desk.show(),
        format!("a success; b stopped ({stopped}); c stopped ({stopped}); => stopped (stopped: b, c)")
    );
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
fn a_plan_that_comes_after_the_stop_is_refused() {
    let mut desk = Desk::empty();
    desk.put(Fact::Submitted(Box::new(submitted())));
    desk.put(Fact::StopRequested { task: None });
    assert!(admit(&desk.state, &planned(tasks("a"))).is_err());
    desk.decide();
    assert_eq!(desk.show(), "=> stopped (stopped on request)");
    assert_eq!(admit(&desk.state, &planned(tasks("a"))), Err(Refusal::Over));
    desk.retry(None);
    desk.put(planned(tasks("a")));
    assert_eq!(desk.show(), "a pending; => running");
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
fn waiting_is_over_when_somebody_does_something() {
    let mut desk = Desk::new("a; b");
    desk.done("b");
    desk.merge("b");
    desk.start("a");
    desk.report("a", Ending::Blocked, "needs a key");
    assert_eq!(desk.state.waiting, Some(WaitReason::Blocked));
    desk.stop(Some("a"));
    assert_eq!(desk.show(), "a stopped (stopped on request); b success; => stopped (stopped: a)");
}
