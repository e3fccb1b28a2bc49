//! Stories of checks: before the merge, on the merge commit and on the merged tree.

use ensemble_core::{
    ids::CheckNumber,
    outcome::Ending,
    run::{
        Duty, Fact, Refusal, admit,
        fact::{CheckRef, LossCause},
        state::MAX_LOSSES,
    },
};

use crate::desk::{Desk, gated, node, retried};

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
    let mut desk = Desk::with("a [check=make test]", gated);
    desk.fail("a", "no");
    desk.fail("a", "no");
    desk.done("a");
    let of = desk.check_of(Some("a"));
    let first = desk.dispatch_check(&of, 0, node(1));
    assert_eq!(desk.show(), "a running [3.c1]; => running");
    desk.put(Fact::CheckLost { at: first, cause: LossCause::Node, reason: String::new() });
    let again = desk.duties();
    desk.dispatch_check(&of, 0, node(1));
    assert_eq!(desk.show(), "a running [3.c2]; => running");
    let at = CheckRef { of: of.clone(), check: CheckNumber(2), token: desk.state.seq };
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
    let mut desk = Desk::with("a; b", gated);
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
            desk.put(Fact::CheckLost { at, cause, reason: String::new() });
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
