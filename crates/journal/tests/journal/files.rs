//! Files that are not a journal of this release: refused by name, and left byte for byte.

use std::{fs, path::Path};

use ensemble_core::ids::{Epoch, Seq};
use ensemble_journal::{Doubt, Error, Journal};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::{fact, facts, run};

/// A journal with enough in it to have several pages.
async fn written() -> TempDir {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let epoch = journal.claim(&run(1), Epoch(0)).await.unwrap();
    journal.append(&run(1), epoch, Seq(0), vec![fact(&"x".repeat(5_000)); 20]).await.unwrap();
    journal.close().await;
    dir
}

fn content(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        // The index of the log holds nothing of its own; SQLite makes it anew.
        .filter(|entry| entry.file_type().unwrap().is_file() && !entry.path().ends_with("journal.db-shm"))
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    files.sort();
    files
}

/// Opens the journal, which must be refused without a change, and returns why.
fn refused(dir: &Path) -> Error {
    let before = content(dir);
    let error = Journal::open(dir).map(|_| ()).unwrap_err();
    assert_eq!(content(dir), before, "bytes are kept");
    assert_eq!(error.doubt(), Doubt::Final);
    assert!(error.to_string().contains("journal.db"), "{error}");
    error
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let dir = written().await;
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let error = refused(dir.path());
    assert!(matches!(error, Error::Newer { found: 99, known: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_that_is_still_in_the_log_is_refused() {
    let dir = written().await;
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    // As after a crash of the newer release: copy the files while they are open.
    let copy = tempdir().unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    assert!(fs::metadata(copy.path().join("journal.db-wal")).unwrap().len() > 0);
    assert!(matches!(refused(copy.path()), Error::Newer { .. }));
}

#[tokio::test]
async fn a_schema_that_changes_under_an_open_journal_stops_its_writes() {
    let dir = written().await;
    let journal = Journal::open(dir.path()).unwrap();
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    let error = journal.append(&run(1), Epoch(1), Seq(20), facts(&["a"])).await.unwrap_err();
    assert!(matches!(error, Error::Newer { .. }), "{error}");
    assert_eq!(journal.last_seq(&run(1)).await.unwrap(), Seq(20));
}

#[test]
fn a_database_of_something_else_is_refused() {
    let dir = tempdir().unwrap();
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.execute_batch("CREATE TABLE songs (name TEXT); PRAGMA user_version = 1;").unwrap();
    drop(database);
    assert!(matches!(refused(dir.path()), Error::Foreign { .. }));
}

#[tokio::test]
async fn damage_is_refused() {
    let whole = written().await;
    let bytes = fs::read(whole.path().join("journal.db")).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("other text", |bytes| *bytes = b"this is no database".to_vec()),
        ("header", |bytes| bytes[..16].fill(0)),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
        ("pages", |bytes| bytes[4096..].fill(0xa5)),
    ];
    for (name, damage) in damages {
        let dir = tempdir().unwrap();
        let mut copy = bytes.clone();
        damage(&mut copy);
        fs::write(dir.path().join("journal.db"), copy).unwrap();
        let error = refused(dir.path());
        assert!(matches!(error, Error::Damaged { .. }), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_fact_that_was_changed_from_outside_is_refused() {
    for change in ["body = replace(body, 'x', 'y')", "time_ms = time_ms + 1", "epoch = 2", "kind = 'other'"] {
        let dir = written().await;
        let database = Connection::open(dir.path().join("journal.db")).unwrap();
        database.execute_batch(&format!("UPDATE facts SET {change} WHERE seq = 7")).unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let error = journal.read(&run(1), Seq(0), 100).await.unwrap_err();
        assert!(error.to_string().contains("fact 7 of run/"), "{change}: {error}");
        assert_eq!(error.doubt(), Doubt::Final);
        assert_eq!(journal.read(&run(1), Seq(7), 100).await.unwrap().len(), 13, "{change}");
    }
}

#[tokio::test]
async fn a_fact_that_is_gone_is_missed() {
    let dir = written().await;
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.execute_batch("DELETE FROM facts WHERE seq = 7").unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    assert!(matches!(journal.read(&run(1), Seq(0), 100).await, Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn a_log_without_its_database_is_refused() {
    let dir = written().await;
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(&run(1), Epoch(1), Seq(20), facts(&["a"])).await.unwrap();
    let copy = tempdir().unwrap();
    fs::copy(dir.path().join("journal.db-wal"), copy.path().join("journal.db-wal")).unwrap();
    assert!(matches!(refused(copy.path()), Error::Damaged { .. }));
    fs::write(copy.path().join("journal.db"), "").unwrap();
    assert!(matches!(refused(copy.path()), Error::Damaged { .. }));
}

#[tokio::test]
async fn what_a_crash_left_in_the_log_is_read() {
    let dir = written().await;
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(&run(1), Epoch(1), Seq(20), facts(&["a"])).await.unwrap();
    let copy = tempdir().unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let resumed = Journal::open(copy.path()).unwrap();
    assert_eq!(resumed.last_seq(&run(1)).await.unwrap(), Seq(21));
    assert_eq!(resumed.claim(&run(1), Epoch(1)).await.unwrap(), Epoch(2));
}

#[tokio::test]
async fn an_interrupted_first_start_is_taken_up() {
    let dir = tempdir().unwrap();
    let database = Connection::open(dir.path().join("journal.db")).unwrap();
    database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    drop(database);
    let journal = Journal::open(dir.path()).unwrap();
    journal.claim(&run(1), Epoch(0)).await.unwrap();
}

#[test]
fn many_may_create_it_at_the_same_moment() {
    for _ in 0..10 {
        let dir = tempdir().unwrap();
        let path = dir.path().join("a/b");
        std::thread::scope(|scope| {
            let opening: Vec<_> = (0..6).map(|_| scope.spawn(|| Journal::open(&path))).collect();
            for opened in opening {
                opened.join().unwrap().unwrap();
            }
        });
    }
}
