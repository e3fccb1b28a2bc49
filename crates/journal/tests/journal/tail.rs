//! Waiting for facts, of this process and of others.

use std::time::{Duration, Instant};

use ensemble_core::ids::{Epoch, Seq};
use ensemble_journal::{Error, Journal};
use tempfile::tempdir;

use crate::{LONG, facts, run};

#[tokio::test]
async fn facts_that_are_there_end_the_wait_at_once() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let epoch = journal.claim(&run(1), Epoch(0)).await.unwrap();
    journal.append(&run(1), epoch, Seq(0), facts(&["a"])).await.unwrap();
    assert!(journal.wait_beyond(&run(1), Seq(0), Duration::MAX).await.unwrap());
}

#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    assert!(!journal.wait_beyond(&run(1), Seq(0), Duration::from_millis(250)).await.unwrap());
}

#[tokio::test]
async fn an_append_of_the_same_stream_wakes_and_another_does_not() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let epoch = journal.claim(&run(1), Epoch(0)).await.unwrap();
    journal.claim(&run(2), Epoch(0)).await.unwrap();
    let waiter = journal.clone();
    let (stream, other) = (run(1), run(2));
    // More than once: the first look for writes of others always wakes.
    for last in [0, 2, 4] {
        let (woken, ()) = tokio::join!(waiter.wait_beyond(&stream, Seq(last + 1), LONG), async {
            journal.append(&other, Epoch(1), Seq(last), facts(&["a", "b"])).await.unwrap();
            journal.append(&stream, epoch, Seq(last), facts(&["a"])).await.unwrap();
            journal.append(&stream, epoch, Seq(last + 1), facts(&["b"])).await.unwrap();
        });
        assert!(woken.unwrap());
        assert_eq!(journal.last_seq(&stream).await.unwrap(), Seq(last + 2), "not by the other stream");
    }
}

#[tokio::test]
async fn an_append_through_another_handle_is_noticed() {
    let dir = tempdir().unwrap();
    let (here, there) = (Journal::open(dir.path()).unwrap(), Journal::open(dir.path()).unwrap());
    let stream = run(1);
    let epoch = there.claim(&stream, Epoch(0)).await.unwrap();
    for last in 0..3 {
        let start = Instant::now();
        let (woken, ()) = tokio::join!(here.wait_beyond(&stream, Seq(last), LONG), async {
            there.append(&stream, epoch, Seq(last), facts(&["a"])).await.unwrap();
        });
        assert!(woken.unwrap());
        assert!(start.elapsed() < LONG / 2, "noticed by looking, not at the deadline");
    }
}

#[tokio::test]
async fn closing_ends_the_wait() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let waiter = journal.clone();
    let (stream, closer) = (run(1), journal.clone());
    let (ended, ()) = tokio::join!(waiter.wait_beyond(&stream, Seq(0), LONG), closer.close());
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
