//! Pausing a run: nothing new starts, what runs finishes with its checks and its merge, then the run
//! waits until somebody resumes it.

use ensemble_core::{
    outcome::Ending,
    run::{
        Duty, Fact, Refusal, admit,
        fact::{LossCause, WaitReason},
    },
};

use crate::desk::{Desk, node};

#[test]
fn what_runs_finishes_and_is_merged_and_nothing_new_starts() {
    let mut desk = Desk::new("a; b; c: a");
    desk.start("a");
    desk.pause();
    assert_eq!(desk.state.waiting, None, "an attempt still runs");
    assert!(desk.duties().iter().all(|duty| !matches!(duty, Duty::Grant { .. })), "nothing new starts");
    desk.report("a", Ending::Done, "made");
    desk.merge("a");
    assert_eq!(desk.show(), "a success; b pending; c pending; => waiting (paused)");
    desk.resume();
    assert_eq!(desk.show(), "a success; b pending; c pending; => running");
    for task in ["b", "c"] {
        desk.done(task);
        desk.merge(task);
    }
    assert!(desk.state.is_delivered());
}

#[test]
fn a_task_that_fails_or_is_lost_while_paused_is_tried_again_after_the_resume() {
    let mut desk = Desk::new("a; b");
    desk.start("a");
    desk.start("b");
    desk.pause();
    desk.report("a", Ending::Failed, "no space");
    desk.lost("b", LossCause::Node);
    assert_eq!(desk.state.waiting, Some(WaitReason::Paused));
    desk.resume();
    assert_eq!(desk.duties().len(), 2, "both are wanted again");
}

#[test]
fn a_check_of_the_merged_tree_that_runs_finishes_and_the_next_one_waits() {
    let mut desk = Desk::with("a", |submitted| submitted.checks = vec!["one".into(), "two".into()]);
    desk.done("a");
    desk.merge("a");
    let at = desk.dispatch_check(&desk.check_of(None), 0, node(1));
    desk.pause();
    assert_eq!((desk.state.waiting, desk.duties().len()), (None, 1), "only the one that runs is owed");
    desk.put(Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() });
    desk.decide();
    assert_eq!(desk.state.waiting, Some(WaitReason::Paused));
    desk.resume();
    desk.check(None, 1, true);
    assert!(desk.state.is_delivered());
}

#[test]
fn a_run_with_nothing_left_to_do_ends_though_it_was_paused() {
    let mut desk = Desk::new("a");
    desk.start("a");
    desk.pause();
    desk.report("a", Ending::Done, "made");
    desk.merge("a");
    assert!(desk.state.is_delivered());
    assert_eq!(admit(&desk.state, &Fact::Resumed), Err(Refusal::NotPaused));
}

#[test]
fn a_paused_run_can_be_stopped_and_what_is_opened_again_is_not_paused() {
    let mut desk = Desk::new("a; b");
    desk.pause();
    desk.stop(None);
    assert_eq!(desk.state.ended.map(|end| format!("{end:?}")), Some("Stopped".to_owned()));
    desk.retry(None);
    assert_eq!(desk.duties().len(), 2);
}

#[test]
fn a_retry_of_a_task_leaves_the_run_paused() {
    let mut desk = Desk::new("a; b");
    desk.start("a");
    desk.report("a", Ending::Blocked, "needs a key");
    desk.pause();
    desk.retry(Some("a"));
    assert_eq!(desk.show(), "a pending; b pending; => waiting (paused)");
}

#[test]
fn pausing_twice_or_resuming_what_is_not_paused_is_refused() {
    let mut desk = Desk::new("a");
    assert_eq!(admit(&desk.state, &Fact::Resumed), Err(Refusal::NotPaused));
    desk.pause();
    assert_eq!(admit(&desk.state, &Fact::Paused), Err(Refusal::Paused));
    let mut desk = Desk::new("a");
    desk.start("a");
    desk.put(Fact::StopRequested { task: None });
    assert!(matches!(admit(&desk.state, &Fact::Paused), Err(Refusal::NotNow(_))));
}
