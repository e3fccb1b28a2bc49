//! What a view says of a run, in words.

use ensemble_core::{
    ids::CheckNumber,
    outcome::Ending,
    run::{
        Fact, TaskView, View,
        fact::{CheckRef, Submitted},
        view::CheckWord,
    },
    team::Budget,
};

use crate::desk::{Desk, gated, node};

#[test]
fn a_view_says_why_the_run_stands_still_and_what_helps() {
    let mut desk = Desk::new("a [max=1]; b: a; x");
    desk.fail("a", "no compiler");
    desk.done("x");
    assert_eq!(View::of(&desk.state).reason, None, "it goes on");
    desk.merge("x");
    let run = desk.state.run;
    let reason = |desk: &Desk| View::of(&desk.state).reason.unwrap();
    assert_eq!(reason(&desk), format!("failed: a; `ensemble retry {run} a` tries again"));

    let mut desk = Desk::new("a; b; c; d; e: a");
    for task in ["a", "b", "c", "d"] {
        desk.start(task);
        desk.report(task, Ending::Blocked, "needs a key\nof silver");
    }
    assert_eq!(
        reason(&desk),
        format!(
            "blocked: a (needs a key), b (needs a key), c (needs a key), …; \
             `ensemble retry {run} a` tries again once that is settled"
        )
    );

    let budget = |submitted: &mut Submitted| submitted.budget = Budget { turns: Some(1), tokens: None };
    let mut desk = Desk::with("a; b", budget);
    desk.done("a");
    desk.merge("a");
    assert_eq!(
        reason(&desk),
        format!("the budget is spent (1 turn); `ensemble retry {run}` grants it once more")
    );
}

#[test]
fn a_view_shows_each_check_as_it_stands() {
    let mut desk = Desk::with("a [check=make test] [check=make lint]", gated);
    let words = |desk: &Desk| {
        let task = TaskView::of(&desk.state.tasks[0]);
        let each =
            task.checks.iter().map(|check| format!("{} {:?}", check.command, check.state).to_lowercase());
        each.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(words(&desk), "make test open, make lint open");
    desk.done("a");
    desk.check(Some("a"), 0, true);
    let of = desk.check_of(Some("a"));
    desk.dispatch_check(&of, 1, node(1));
    assert_eq!(words(&desk), "make test passed, make lint running");
    let at = CheckRef { of, check: CheckNumber(2), token: desk.state.seq };
    desk.put(Fact::CheckReported { at, passed: true, ended: "exit 0".into(), output: "".into() });
    desk.decide();
    desk.prepare("a");
    assert_eq!(words(&desk), "make test passed, make lint passed, sh tests/run.sh open");
    desk.check(Some("a"), 0, true);
    desk.merge("a");
    assert_eq!(words(&desk), "make test passed, make lint passed");
    assert_eq!(View::of(&desk.state).checks[0].state, CheckWord::Open);
    desk.check(None, 0, true);
    assert_eq!(View::of(&desk.state).checks[0].state, CheckWord::Passed);
}
