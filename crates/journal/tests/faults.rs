//! Fault points: before them nothing is stored, after them everything is. A program of its own,
//! because fault points belong to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

use ensemble_core::ids::{Epoch, RunId, Seq};
use ensemble_journal::{Doubt, FAULT_POINTS, Journal, NewFact, Stream};
use fail::FailScenario;
use tempfile::tempdir;

fn run(number: u128) -> Stream {
    Stream::Run(RunId::from_parts(1_796_000_000_000, number))
}

fn fact() -> NewFact {
    NewFact { kind: "noted".to_owned(), version: 1, body: "{}".to_owned(), time_ms: 1_796_000_000_123 }
}

/// Every operation once, in the order of the fault points' names; whether each failed, and how.
async fn everything(journal: &Journal, epoch: Epoch, last: Seq) -> Vec<(&'static str, Option<Doubt>)> {
    let doubt = |error: ensemble_journal::Error| error.doubt();
    vec![
        ("journal.append", journal.append(&run(1), epoch, last, vec![fact()]).await.err().map(doubt)),
        ("journal.claim", journal.claim(&run(2), Epoch(0)).await.err().map(doubt)),
        ("journal.blob", journal.put_blob(b"abc".to_vec()).await.err().map(doubt)),
    ]
}

#[tokio::test]
async fn each_point_fails_its_operation_once_before_or_after_the_effect() {
    let scenario = FailScenario::setup();
    for point in FAULT_POINTS {
        for (name, doubt, stored) in
            [((*point).to_owned(), Doubt::Retry, false), (format!("{point}.done"), Doubt::Unknown, true)]
        {
            let dir = tempdir().unwrap();
            let journal = Journal::open(dir.path()).unwrap();
            let epoch = journal.claim(&run(1), Epoch(0)).await.unwrap();
            fail::cfg(&name, "1*return->off").unwrap();
            for (operation, answer) in everything(&journal, epoch, Seq(0)).await {
                assert_eq!(answer, (operation == *point).then_some(doubt), "{name}: {operation}");
            }
            let id = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".parse().unwrap();
            let seen = match *point {
                "journal.append" => journal.last_seq(&run(1)).await.unwrap() == Seq(1),
                "journal.claim" => journal.epoch(&run(2)).await.unwrap() == Epoch(1),
                _ => journal.get_blob(&id).await.unwrap().is_some(),
            };
            assert_eq!(seen, stored, "{name}");
            fail::remove(&name);
        }
    }
    scenario.teardown();
}
