//! What a node makes of broken links, absent coordinators and its own death.

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode, time::Duration};

use ensemble_core::{
    ids::{CoordinatorId, Epoch},
    message::{Assign, Ended, How, ToNode},
    outcome::Ending,
    run::fact::LossCause,
};
use ensemble_node::{Config, Dial};
use ensemble_proto::door::open;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Endpoint;

use crate::{
    bench::{self, Bench},
    coordinator::Coordinator,
};

/// Waits for a file `go` beside the data directory.
const WAIT: &str = "until [ -e \"$BENCH/go\" ]; do sleep 0.02; done";

pub async fn a_broken_link_loses_nothing() {
    let bench = Bench::new();
    let _node = bench.node(&format!("echo code > api.py; {WAIT}")).await;
    let key = bench.hand_out(bench.work(5)).await;
    bench.coordinator.started(&key).await;
    for round in 2..5 {
        bench.coordinator.hang_up();
        bench.coordinator.wait("attachment", |inner| (inner.attachments >= round).then_some(())).await;
    }
    fs::write(bench.path("go"), "").unwrap();
    let How::Report(report) = bench.coordinator.end(&key).await.how else { panic!() };
    assert_eq!(report.outcome.ending, Ending::Done);
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
    assert_eq!(bench.coordinator.inner().ends(&key).count(), 1);
}

pub async fn an_end_waits_for_its_receipt_across_a_restart() {
    let mut bench = Bench::new();
    bench.coordinator.inner().receipts = false;
    let node = bench.node("echo code > api.py").await;
    let key = bench.hand_out(bench.work(5)).await;
    let first = bench.coordinator.end(&key).await;
    let incarnation = node.incarnation();
    node.kill().await;
    bench.restart_coordinator(2);
    let node = bench.node("echo other > api.py").await;
    assert!(node.incarnation() > incarnation);
    let inventory = bench.coordinator.inventory().await;
    assert_eq!(inventory.epoch, Epoch(2));
    assert_eq!((inventory.running, inventory.ended), (vec![], vec![key.clone()]));
    assert_eq!(bench.coordinator.end(&key).await, first);
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
}

pub async fn a_run_moves_to_another_coordinator_with_its_agents() {
    let bench = Bench::new();
    let (first, second) = (bench.coordinator.clone(), Coordinator::new(&bench.path("coordinator.git"), 7));
    let there = [("first", first.dial()), ("second", second.dial())];
    let there = BTreeMap::from(there.map(|(id, dial)| (id.parse::<CoordinatorId>().unwrap(), dial)));
    let (peers, coordinators) = watch::channel(there);
    let config = bench.config(&format!("echo code > api.py; {WAIT}"), first.dial());
    let _node = ensemble_node::start(Config { coordinators, ..config }).await.unwrap();
    let key = bench.hand_out(bench.work(5)).await;
    first.started(&key).await;

    second.attached().await;
    second.say(ToNode::Claimed { run: bench.run, epoch: Epoch(2) });
    assert_eq!(second.inventory().await.running, std::slice::from_ref(&key));
    fs::write(bench.path("go"), "").unwrap();
    let How::Report(report) = second.end(&key).await.how else { panic!() };
    assert_eq!(report.outcome.ending, Ending::Done);
    assert_eq!(first.inner().ends(&key).count(), 0, "told to who does not own the run");

    // One that has left the directory is kept while it can be heard, and not dialled when it can't.
    peers.send_modify(|there| drop(there.remove("first")));
    let attachments = first.inner().attachments;
    first.hang_up();
    let late = Assign { key: bench.key("late", 9), epoch: Epoch(2), ..bench.work(9) };
    let late_key = late.key.clone();
    second.say(ToNode::Assign(Box::new(late)));
    second.end(&late_key).await;
    assert_eq!(first.inner().attachments, attachments);
    bench.until("both attempts are cleared away", || bench.attempts().is_empty()).await;
}

pub async fn a_drained_node_hands_back_what_its_agents_had() {
    let bench = Bench::new();
    // An agent that does not listen is killed once the time is up.
    let node = bench.node("trap '' TERM; echo half > api.py; echo begun; sleep 600 & wait; sleep 600").await;
    let key = bench.hand_out(bench.work(5)).await;
    bench.coordinator.wait("output", |inner| inner.logs.get(&key).map(drop)).await;
    node.drain(Duration::from_millis(300)).await;
    node.ended().await;
    let Ended { how: How::Lost { cause, capture, .. }, .. } = bench.coordinator.end(&key).await else {
        panic!()
    };
    assert_eq!(cause, LossCause::Process);
    assert_eq!(bench.file(&capture.unwrap().commit, "api.py").unwrap(), "half\n");
    bench.nobody_left().await;
}

pub async fn a_killed_node_leaves_no_agent_and_its_successor_captures() {
    let mut bench = Bench::new();
    let socket = bench.path("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    bench.coordinator.serve(UnixListenerStream::new(listener));
    let script = "echo half > api.py; (setsid sleep 600 &) ; echo begun; sleep 600";
    let mut node = tokio::process::Command::new(std::env::current_exe().unwrap())
        .arg("node")
        .args([bench.data().as_path(), &socket])
        .arg(script)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let key = bench.hand_out(bench.work(5)).await;
    let check = Assign {
        key: bench.check(6, &bench.base, "sleep 600").key,
        ..bench.check(6, &bench.base, "sleep 600")
    };
    let check = bench.hand_out(check).await;
    bench.coordinator.started(&check).await;
    bench.coordinator.wait("output", |inner| inner.logs.get(&key).map(drop)).await;
    let first = bench.coordinator.attached().await;
    node.kill().await.unwrap();
    bench.nobody_left().await;

    bench.restart_coordinator(2);
    let node = bench.node("true").await;
    assert_eq!(*node.id(), first.node, "its directory was free");
    let inventory = bench.coordinator.inventory().await;
    assert_eq!(inventory.speaks_for, [first.node]);
    let mut named = [inventory.running, inventory.ended].concat();
    named.sort();
    assert_eq!(named, [key.clone(), check.clone()], "what is being taken in is not lost");
    let Ended { how: How::Lost { cause, capture, .. }, .. } = bench.coordinator.end(&key).await else {
        panic!()
    };
    assert_eq!(cause, LossCause::Process);
    assert_eq!(bench.file(&capture.unwrap().commit, "api.py").unwrap(), "half\n");
    let ended = bench.coordinator.end(&check).await;
    assert!(matches!(ended.how, How::Lost { cause: LossCause::Process, capture: None, .. }));
    bench.until("the attempts are cleared away", || bench.attempts().is_empty()).await;
}

pub async fn a_commit_that_is_never_taken_is_a_loss() {
    let bench = Bench::new();
    bench.coordinator.inner().refuse_pushes = true;
    let _node = bench.node("echo code > api.py").await;
    let key = bench.hand_out(bench.work(5)).await;
    let Ended { how: How::Lost { cause, capture: None, reason }, .. } = bench.coordinator.end(&key).await
    else {
        panic!()
    };
    assert_eq!(cause, LossCause::Environment);
    assert!(reason.contains("never"), "{reason}");
}

pub async fn a_commit_waits_for_a_coordinator_that_is_away() {
    let mut bench = Bench::new();
    let node = bench.node(&format!("echo code > api.py; echo begun; {WAIT}")).await;
    let key = bench.hand_out(bench.work(5)).await;
    bench.coordinator.wait("output", |inner| inner.logs.get(&key).map(drop)).await;
    bench.coordinator.inner().reachable = false;
    bench.coordinator.hang_up();
    node.kill().await;
    bench.nobody_left().await;
    bench.restart_coordinator(2);
    bench.coordinator.inner().reachable = false;
    let _node = bench.node("true").await;
    bench.until("the capture is made", || bench.attempts().len() == 1).await;
    bench.coordinator.inner().reachable = true;
    let Ended { how: How::Lost { capture, .. }, .. } = bench.coordinator.end(&key).await else { panic!() };
    assert_eq!(bench.file(&capture.unwrap().commit, "api.py").unwrap(), "code\n");
}

pub async fn an_older_owner_is_not_believed() {
    let mut bench = Bench::new();
    bench.coordinator.inner().receipts = false;
    let node = bench.node("true").await;
    bench.coordinator.claim(bench.run, 7);
    let key = bench.hand_out(Assign { epoch: Epoch(7), ..bench.work(5) }).await;
    bench.coordinator.end(&key).await;
    node.kill().await;
    bench.restart_coordinator(6);
    let _node = bench.node("true").await;
    bench.coordinator.attached().await;
    let refused = bench.hand_out(Assign { epoch: Epoch(6), ..bench.work(8) }).await;
    assert!(bench.coordinator.refusal(&refused).await.contains("superseded by 7"));
    assert_eq!(bench.coordinator.inner().heard.len(), 1, "no inventory, no end");
    bench.coordinator.claim(bench.run, 8);
    bench.coordinator.end(&key).await;
    bench.coordinator.say(ToNode::Receipt(key));
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
}

pub async fn a_successor_speaks_for_all_that_are_gone() {
    let mut bench = Bench::new();
    bench.coordinator.inner().receipts = false;
    let one = bench.node("echo one > one.txt").await;
    let first = bench.hand_out(bench.work(5)).await;
    bench.coordinator.end(&first).await;
    // A second process in the same data directory, with another coordinator.
    let other = Coordinator::new(&bench.path("coordinator.git"), 9);
    other.inner().owned.insert(bench.run, Epoch(1));
    let config = bench.config(&format!("echo two > two.txt; echo begun; {WAIT}"), other.dial());
    let two = ensemble_node::start(config).await.unwrap();
    other.attached().await;
    let second = Assign { key: bench.key("second", 6), ..bench.work(6) };
    other.say(ToNode::Assign(Box::new(second)));
    let second = bench.key("second", 6);
    other.wait("output", |inner| inner.logs.get(&second).map(drop)).await;
    assert_ne!(one.id(), two.id());
    one.kill().await;
    two.kill().await;

    bench.restart_coordinator(2);
    let three = bench.node("true").await;
    assert_eq!(three.id(), one.id());
    let inventory = bench.coordinator.inventory().await;
    assert_eq!(inventory.speaks_for, [one.id().clone(), two.id().clone()]);
    bench.coordinator.end(&first).await;
    let Ended { how: How::Lost { capture, .. }, .. } = bench.coordinator.end(&second).await else { panic!() };
    assert_eq!(bench.file(&capture.unwrap().commit, "two.txt").unwrap(), "two\n");
    bench.until("the attempts are cleared away", || bench.attempts().is_empty()).await;
}

/// A node in a process of its own: data directory, the coordinator's socket, the script.
pub fn node() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [data, socket, script] = arguments.try_into().unwrap();
    let dial = Dial::new(move || {
        let socket = socket.clone();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        Box::pin(async {
            Ok(open(Endpoint::from_static("http://socket").connect_with_connector(connect).await?))
        })
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = ensemble_node::start(bench::config(Path::new(&data), &script, dial)).await.unwrap();
        node.ended().await;
    });
    ExitCode::FAILURE
}
