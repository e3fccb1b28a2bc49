//! Stories of stopping: a task or a whole run, wherever it stands, and what goes on afterwards.

use ensemble_core::{
    outcome::Ending,
    run::{Duty, Fact, Refusal, admit, fact::WaitReason},
};

use crate::desk::{Desk, gated, id, node, planned, retried, submitted, tasks};

/// Brings the task `a` to a stage.
type Way = fn(&mut Desk);

/// Every stage of a task, in order.
const WAYS: [(&str, Way); 8] = [
    ("pending", |_| {}),
    ("assigned", |desk| desk.dispatch("a")),
    ("working", |desk| desk.start("a")),
    ("checking", |desk| desk.done("a")),
    ("queued", |desk| {
        desk.done("a");
        let of = desk.check_of(Some("a"));
        let at = desk.dispatch_check(&of, 0, node(1));
        desk.put(Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() });
    }),
    ("ordered", to_the_merge),
    ("gating", |desk| {
        to_the_merge(desk);
        desk.prepare("a");
    }),
    ("advancing", |desk| {
        to_the_merge(desk);
        desk.prepare("a");
        desk.check(Some("a"), 0, true);
    }),
];

fn to_the_merge(desk: &mut Desk) {
    desk.done("a");
    desk.check(Some("a"), 0, true);
}

/// Where a task may stand, and what becomes of it when the task or the whole run is stopped there.
#[test]
fn a_stop_in_every_stage() {
    let stopped = "a stopped (stopped on request)";
    let after_the_task = |rest: &str| {
        format!("{rest}; b blocked (depends on a, which did not succeed); => stopped (stopped: a)")
    };
    let after_the_run =
        |rest: &str| format!("{rest}; b stopped (stopped on request); => stopped (stopped on request)");
    let soon = |rest: &str| format!("{rest}; b pending; => running");
    let soon_all = |rest: &str| format!("{rest}; b stopped (stopped on request); => running");
    let rows: [(Option<String>, String); 8] = [
        (Some(after_the_task(stopped)), after_the_run(stopped)),
        (Some(soon("a dispatched")), soon_all("a dispatched")),
        (Some(soon("a running")), soon_all("a running")),
        (Some(after_the_task(stopped)), after_the_run(stopped)),
        (None, after_the_run(stopped)),
        (None, soon_all("a merging")),
        (None, after_the_run(stopped)),
        (None, soon_all("a merging")),
    ];
    for ((stage, way), (task, run)) in WAYS.into_iter().zip(rows) {
        let mut desk = Desk::with("a [check=make test]; b: a", gated);
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
        let mut desk = Desk::with("a [check=make test]; b: a", gated);
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
