//! The outbox on disk: ends that no coordinator has acknowledged, and the highest epoch seen of each
//! run. A SQLite file of the node's own; every call is one durable transaction. When it is called,
//! and from where, is `outbox`.

use std::path::Path;

use ensemble_core::{
    ids::{Epoch, RunId},
    link::AttemptKey,
    message::Ended,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Error, fault, folder};

/// Format of the file.
const FORMAT: i64 = 1;
/// Runs whose epochs are remembered. A run older than so many others has no owner that is alive.
const EPOCHS: u32 = 10_000;

/// The open outbox.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

/// An end with what is known of it besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The end.
    pub(crate) ended: Ended,
    /// Whether the coordinator has its commit, or it has none.
    pub(crate) pushed: bool,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if found > FORMAT {
            return Err(Error::Newer { path: path.to_owned(), found, known: FORMAT });
        }
        connection.execute_batch(
            "BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS ended (
                 key TEXT PRIMARY KEY, pushed INTEGER NOT NULL, bytes BLOB NOT NULL
             ) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS epochs (run TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
             PRAGMA user_version = 1;
             COMMIT;",
        )?;
        // Run ids grow with time.
        connection.execute(
            "DELETE FROM epochs WHERE run NOT IN (SELECT run FROM epochs ORDER BY run DESC LIMIT ?1)",
            params![EPOCHS],
        )?;
        Ok(Self { connection })
    }

    /// Keeps an end; again changes nothing, so the first word stands.
    pub(crate) fn keep(&self, kept: &Kept) -> Result<(), Error> {
        fault!("node.outbox");
        self.connection.execute(
            "INSERT INTO ended (key, pushed, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            params![spell(&kept.ended.key), kept.pushed, ensemble_proto::encode_ended(&kept.ended)],
        )?;
        fault!("node.outbox.done");
        Ok(())
    }

    /// Puts another end in the place of the one that is kept, or notes that its commit has arrived.
    pub(crate) fn amend(&self, kept: &Kept) -> Result<(), Error> {
        self.connection.execute(
            "UPDATE ended SET pushed = ?2, bytes = ?3 WHERE key = ?1",
            params![spell(&kept.ended.key), kept.pushed, ensemble_proto::encode_ended(&kept.ended)],
        )?;
        Ok(())
    }

    pub(crate) fn find(&self, key: &AttemptKey) -> Result<Option<Kept>, Error> {
        let mut query = self.connection.prepare_cached("SELECT pushed, bytes FROM ended WHERE key = ?1")?;
        Ok(query.query_row([spell(key)], kept).optional()?)
    }

    pub(crate) fn forget(&self, key: &AttemptKey) -> Result<(), Error> {
        self.connection.execute("DELETE FROM ended WHERE key = ?1", [spell(key)])?;
        Ok(())
    }

    /// All that is kept, in order.
    pub(crate) fn all(&self) -> Result<Vec<Kept>, Error> {
        let mut query = self.connection.prepare("SELECT pushed, bytes FROM ended ORDER BY key")?;
        let rows = query.query_map([], kept)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Notes an epoch of a run; a lower one than before changes nothing.
    pub(crate) fn note_epoch(&self, run: RunId, epoch: Epoch) -> Result<(), Error> {
        self.connection.execute(
            "INSERT INTO epochs (run, epoch) VALUES (?1, ?2)
             ON CONFLICT (run) DO UPDATE SET epoch = max(epoch, excluded.epoch)",
            params![run.to_string(), i64::try_from(epoch.0).unwrap_or(i64::MAX)],
        )?;
        Ok(())
    }

    /// The highest epoch of each run.
    pub(crate) fn epochs(&self) -> Result<Vec<(RunId, Epoch)>, Error> {
        let mut query = self.connection.prepare("SELECT run, epoch FROM epochs")?;
        let rows = query.query_map([], |row| {
            let run = row.get::<_, String>(0)?.parse().map_err(|why| unreadable(0, why))?;
            Ok((run, Epoch(row.get::<_, i64>(1)?.unsigned_abs())))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Takes over all that another outbox keeps, and empties that one afterwards.
    pub(crate) fn adopt(&self, other: &Self) -> Result<(), Error> {
        for (run, epoch) in other.epochs()? {
            self.note_epoch(run, epoch)?;
        }
        for kept in other.all()? {
            self.keep(&kept)?;
            other.forget(&kept.ended.key)?;
        }
        Ok(())
    }
}

fn spell(key: &AttemptKey) -> String {
    format!("{}/{}", key.run, folder::name(key))
}

fn kept(row: &rusqlite::Row<'_>) -> rusqlite::Result<Kept> {
    let bytes: Vec<u8> = row.get(1)?;
    let ended = ensemble_proto::decode_ended(&bytes).map_err(|why| unreadable(1, why))?;
    Ok(Kept { ended, pushed: row.get(0)? })
}

fn unreadable(column: usize, why: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(why))
}

#[cfg(test)]
mod tests {
    use ensemble_core::{message::How, run::fact::LossCause};

    use super::*;
    use crate::folder::tests::key;

    fn lost(token: u64, reason: &str) -> Kept {
        let how = How::Lost { cause: LossCause::Process, capture: None, reason: reason.to_owned() };
        Kept { ended: Ended { key: key(token), how }, pushed: false }
    }

    #[test]
    fn an_end_stays_until_it_is_forgotten_and_its_first_word_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("outbox.db");
        let store = Store::open(&path).unwrap();
        store.keep(&lost(1, "first")).unwrap();
        store.keep(&lost(1, "second")).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.all().unwrap(), [lost(1, "first")]);
        store.amend(&Kept { pushed: true, ..lost(1, "first") }).unwrap();
        assert!(store.find(&key(1)).unwrap().unwrap().pushed);
        store.forget(&key(1)).unwrap();
        assert_eq!(store.find(&key(1)).unwrap(), None);
    }

    #[test]
    fn epochs_never_go_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("outbox.db")).unwrap();
        let run = key(1).run;
        for epoch in [3, 2] {
            store.note_epoch(run, Epoch(epoch)).unwrap();
        }
        assert_eq!(store.epochs().unwrap(), [(run, Epoch(3))]);
    }

    #[test]
    fn an_adopted_outbox_moves_over_whole() {
        let dir = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["a", "b"].map(|name| Store::open(&dir.path().join(name)).unwrap());
        theirs.keep(&lost(1, "theirs")).unwrap();
        theirs.note_epoch(key(1).run, Epoch(4)).unwrap();
        ours.adopt(&theirs).unwrap();
        assert_eq!(ours.all().unwrap(), [lost(1, "theirs")]);
        assert_eq!(ours.epochs().unwrap(), [(key(1).run, Epoch(4))]);
        assert!(theirs.all().unwrap().is_empty());
    }

    #[test]
    fn a_newer_format_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("outbox.db");
        drop(Store::open(&path).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
        assert!(matches!(Store::open(&path), Err(Error::Newer { found: 9, .. })));
    }
}
