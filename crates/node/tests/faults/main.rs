//! Each fault point of a node made to fail, before its effect and after it, while an attempt goes
//! from its assignment to its receipt: the same end comes of it, or a loss that costs nothing, and
//! nothing is left behind. A program of its own, since fault points belong to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(dead_code, unreachable_pub)]

#[path = "../node/bench.rs"]
mod bench;
#[path = "../node/coordinator.rs"]
mod coordinator;

use std::{process::ExitCode, time::Duration};

use ensemble_core::{
    message::{Assign, How, ToCoordinator},
    run::fact::LossCause,
};
use libtest_mimic::{Arguments, Trial};

use bench::Bench;

/// How an attempt may end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    Lost,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("keeper") {
        return ensemble_agent::keeper::main();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = ensemble_node::fault_points().into_iter().flat_map(|point| {
        ["", ".done"].map(|when| {
            let name = format!("{point}{when}");
            Trial::test(name.clone(), move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
                runtime.block_on(fails_once(&name));
                runtime.shutdown_timeout(Duration::from_secs(5));
                Ok(())
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// What may come of a failure at this point.
fn expected(point: &str) -> &'static [End] {
    match point.trim_end_matches(".done") {
        "node.assign" => &[End::Refused],
        "node.outbox" | "node.receipt" | "node.send" | "workspace.merge" => &[End::Done],
        "workspace.ref" => &[End::Done, End::Lost],
        "workspace.capture" | "workspace.checkout" | "agent.spawn" => &[End::Lost],
        // Fetching is tried again; a working copy that can't be made ready again is made anew.
        "workspace.pack" | "workspace.recycle" => &[End::Done],
        other => panic!("say what is to come of a failure at {other}"),
    }
}

/// Has an attempt carried out whose working copy waits for the next one.
async fn leave_a_working_copy(bench: &Bench) {
    // Of another task: an attempt's ref is set once.
    let first = bench.hand_out(Assign { key: bench.key("page", 4), ..bench.work(4) }).await;
    let is_first = |word: &ToCoordinator| matches!(word, ToCoordinator::Ended(ended) if ended.key == first);
    let ended =
        bench.coordinator.wait("the first end", |inner| inner.heard.iter().any(is_first).then_some(()));
    ended.await;
    bench.until("the first attempt is cleared away", || bench.attempts().is_empty()).await;
}

async fn fails_once(point: &str) {
    let bench = Bench::new();
    let node = bench.node("echo code > api.py").await;
    bench.coordinator.attached().await;
    if point.starts_with("workspace.recycle") {
        leave_a_working_copy(&bench).await;
    }
    fail::cfg(point, "1*return").unwrap();
    let key = bench.hand_out(bench.work(5)).await;
    let end = bench
        .coordinator
        .wait("end", |inner| {
            inner.heard.iter().find_map(|word| match word {
                ToCoordinator::Refused { key: of, .. } if *of == key => Some(End::Refused),
                ToCoordinator::Ended(ended) if ended.key == key => Some(match &ended.how {
                    How::Report(_) => End::Done,
                    How::Lost { cause, .. } => {
                        assert_eq!(*cause, LossCause::Environment, "{ended:?}");
                        End::Lost
                    }
                    How::Check { .. } => panic!("{ended:?}"),
                }),
                _ => None,
            })
        })
        .await;
    assert!(expected(point).contains(&end), "{end:?}");
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
    bench.nobody_left().await;
    node.drain(Duration::from_secs(5)).await;
    let unused = fail::eval(point, |_| ()).is_some();
    assert_eq!(unused, point.starts_with("workspace.merge"), "a node hits every point but that");
    fail::remove(point);
}
