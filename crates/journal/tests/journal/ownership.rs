//! Claims, fencing, sequence and group commit, through two handles on one directory.

use ensemble_core::ids::{Epoch, ProjectId, Seq};
use ensemble_journal::{Doubt, Error, Journal, MAX_FACTS, Stream};
use tempfile::tempdir;

use crate::{LONG, assert_in_order, bodies, fact, facts, run};

#[tokio::test]
async fn a_claim_fences_the_owner_before() {
    let dir = tempdir().unwrap();
    let (old, new) = (Journal::open(dir.path()).unwrap(), Journal::open(dir.path()).unwrap());
    let stream = run(1);

    assert_eq!(old.epoch(&stream).await.unwrap(), Epoch(0));
    assert_eq!(old.claim(&stream, Epoch(0)).await.unwrap(), Epoch(1));
    assert_eq!(old.append(&stream, Epoch(1), Seq(0), facts(&["a", "b"])).await.unwrap(), Seq(2));

    // A claim that starts from what is no longer so is refused and names what is.
    let refused = new.claim(&stream, Epoch(0)).await.unwrap_err();
    assert!(matches!(refused, Error::Fenced { current: Epoch(1), .. }), "{refused}");
    assert_eq!(new.claim(&stream, Epoch(1)).await.unwrap(), Epoch(2));

    let fenced = old.append(&stream, Epoch(1), Seq(2), facts(&["late"])).await.unwrap_err();
    assert!(matches!(fenced, Error::Fenced { current: Epoch(2), .. }), "{fenced}");
    assert_eq!(fenced.doubt(), Doubt::Final);
    let ahead = new.append(&stream, Epoch(3), Seq(2), facts(&["early"])).await.unwrap_err();
    assert!(matches!(ahead, Error::Fenced { current: Epoch(2), .. }), "{ahead}");

    assert_eq!(new.append(&stream, Epoch(2), Seq(2), facts(&["c"])).await.unwrap(), Seq(3));
    let rows = old.read(&stream, Seq(0), 10).await.unwrap();
    assert_eq!(bodies(&rows), ["a", "b", "c"]);
    assert_eq!(rows.iter().map(|row| row.epoch.0).collect::<Vec<_>>(), [1, 1, 2]);
    assert_in_order(&rows);
}

#[tokio::test]
async fn a_stream_that_nobody_claimed_takes_no_facts() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    for epoch in [0, 1] {
        let refused = journal.append(&run(1), Epoch(epoch), Seq(0), facts(&["a"])).await.unwrap_err();
        assert!(matches!(refused, Error::Fenced { current: Epoch(0), .. }), "{refused}");
    }
    assert!(journal.streams().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_must_follow_the_last_fact() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let stream = run(1);
    let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
    journal.append(&stream, epoch, Seq(0), facts(&["a"])).await.unwrap();
    for after in [0, 2, u64::MAX] {
        let refused = journal.append(&stream, epoch, Seq(after), facts(&["b"])).await.unwrap_err();
        assert!(matches!(refused, Error::OutOfSequence { at: Seq(1), .. }), "{refused}");
        assert_eq!(refused.doubt(), Doubt::Final);
    }
    assert_eq!(journal.last_seq(&stream).await.unwrap(), Seq(1));
    assert_eq!(journal.append(&stream, epoch, Seq(1), Vec::new()).await.unwrap(), Seq(1));
}

#[tokio::test]
async fn a_batch_has_bounds() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let stream = run(1);
    let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
    let refused = journal.append(&stream, epoch, Seq(0), vec![fact("{}"); MAX_FACTS + 1]).await.unwrap_err();
    assert!(matches!(refused, Error::Oversized { unit: "facts", .. }), "{refused}");
    let huge = fact(&"x".repeat(ensemble_journal::MAX_BATCH_BYTES));
    let refused = journal.append(&stream, epoch, Seq(0), vec![huge]).await.unwrap_err();
    assert!(matches!(refused, Error::Oversized { unit: "bytes", .. }), "{refused}");
    let full = vec![fact("{}"); MAX_FACTS];
    assert_eq!(journal.append(&stream, epoch, Seq(0), full).await.unwrap(), Seq(256));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_at_once_keep_each_stream_in_order() {
    const STREAMS: u128 = 16;
    const BATCHES: u64 = 20;
    let dir = tempdir().unwrap();
    let journals = [Journal::open(dir.path()).unwrap(), Journal::open(dir.path()).unwrap()];
    let mut writers = Vec::new();
    for number in 0..STREAMS {
        let journal = journals[usize::try_from(number % 2).unwrap()].clone();
        writers.push(tokio::spawn(async move {
            let stream = run(number);
            let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
            let mut last = Seq(0);
            for batch in 0..BATCHES {
                // One that is refused, in the middle of everybody's transactions.
                let stale = journal.append(&stream, epoch, Seq(last.0 + 1), facts(&["no"])).await;
                assert!(matches!(stale, Err(Error::OutOfSequence { .. })));
                let bodies = [format!("{number}.{batch}.0"), format!("{number}.{batch}.1")];
                let batch = bodies.iter().map(|body| fact(body)).collect();
                last = journal.append(&stream, epoch, last, batch).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for number in 0..STREAMS {
        let rows = journals[0].read(&run(number), Seq(0), usize::MAX).await.unwrap();
        let expected: Vec<_> = (0..BATCHES)
            .flat_map(|batch| (0..2).map(move |part| format!("{number}.{batch}.{part}")))
            .collect();
        assert_eq!(bodies(&rows), expected);
        assert_in_order(&rows);
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_a_new_start() {
    let dir = tempdir().unwrap();
    let project = Stream::Project(ProjectId::new("bookshop").unwrap());
    let journal = Journal::open(dir.path()).unwrap();
    let mut odd = fact("{\"text\":\"ä\u{0}\\n'; DROP TABLE facts\"}");
    odd.time_ms = 7;
    odd.version = u32::MAX;
    for stream in [&run(1), &project] {
        let epoch = journal.claim(stream, Epoch(0)).await.unwrap();
        journal.append(stream, epoch, Seq(0), vec![odd.clone(), fact("b")]).await.unwrap();
    }
    journal.claim(&run(2), Epoch(0)).await.unwrap();
    journal.set_cursor("trace", u64::MAX).await.unwrap();
    let before = journal.read(&project, Seq(0), 10).await.unwrap();
    let listed = journal.streams().await.unwrap();
    journal.close().await;

    let journal = Journal::open(dir.path()).unwrap();
    assert_eq!(journal.read(&project, Seq(0), 10).await.unwrap(), before);
    assert_eq!(
        (before[0].body.as_str(), before[0].version, before[0].time_ms),
        (odd.body.as_str(), u32::MAX, 7)
    );
    assert_eq!(journal.streams().await.unwrap(), listed);
    let newest_first: Vec<_> = listed.iter().map(|info| info.stream.clone()).collect();
    assert_eq!(newest_first, [run(2), project.clone(), run(1)]);
    assert_eq!((listed[0].last, listed[0].first_ms, listed[0].last_ms), (Seq(0), 0, 0));
    assert_eq!((listed[1].last, listed[1].first_ms, listed[1].last_ms), (Seq(2), 7, 1_796_000_000_123));
    assert_eq!(journal.cursor("trace").await.unwrap(), Some(u64::MAX));
    assert_eq!(journal.cursor("none").await.unwrap(), None);
    assert_eq!(journal.epoch(&project).await.unwrap(), Epoch(1));
    assert_eq!(bodies(&journal.read(&project, Seq(1), 10).await.unwrap()), ["b"]);
    assert_eq!(journal.read(&project, Seq(0), 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_does_not_stop_the_write() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let stream = run(1);
    let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
    tokio::select! {
        biased;
        _ = journal.append(&stream, epoch, Seq(0), facts(&["a"])) => {}
        () = std::future::ready(()) => {}
    }
    assert!(journal.wait_beyond(&stream, Seq(0), LONG).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_stores_what_was_sent_and_refuses_the_rest() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let stream = run(1);
    let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
    let sent = {
        let (journal, stream) = (journal.clone(), stream.clone());
        tokio::spawn(async move { journal.append(&stream, epoch, Seq(0), facts(&["a"])).await })
    };
    let other = journal.clone();
    journal.close().await;
    let answer = sent.await.unwrap();
    let closed = other.append(&stream, epoch, Seq(1), facts(&["b"])).await.unwrap_err();
    assert!(matches!(closed, Error::Closed), "{closed}");
    assert!(matches!(other.read(&stream, Seq(0), 1).await, Err(Error::Closed)));

    // Whichever came first, append or close: what the caller heard is what is stored.
    let stored = Journal::open(dir.path()).unwrap().last_seq(&stream).await.unwrap();
    match answer {
        Ok(last) => assert_eq!(last, stored),
        Err(error) => assert!(matches!(error, Error::Closed) && stored == Seq(0), "{error}, {stored}"),
    }
}
