//! The store on SQLite: one connection, its statements, a savepoint around each write.
//! Which file, and whether it may be used, is `schema`'s business; who calls when is `writer`'s.

use std::path::{Path, PathBuf};

use ensemble_core::ids::{Epoch, Malformed, Seq};
use rusqlite::{Connection, OptionalExtension, Params, params};
use sha2::{Digest, Sha256};

use crate::{
    Error, NewFact, Row, Store, Stream, StreamInfo,
    faults::{APPEND, CLAIM},
    schema,
};

/// A connection to a journal file.
pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// What `data_version` last answered.
    seen: Option<i64>,
}

impl Sqlite {
    /// Opens a file that [`schema::prepare`] has accepted.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { connection: schema::open(path)?, path: path.to_owned(), seen: None })
    }

    /// The same, for reading only.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn open_reader(path: &Path) -> Result<Self, Error> {
        let reader = Self::open(path)?;
        reader.ours(reader.connection.execute_batch("PRAGMA query_only = ON"))?;
        Ok(reader)
    }

    fn ours<T>(&self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|e| Error::sqlite(&self.path, e))
    }

    fn number(&self, sql: &str, params: impl Params) -> Result<Option<u64>, Error> {
        self.ours(number(&self.connection, sql, params))
    }
}

impl Store for Sqlite {
    fn begin(&mut self) -> Result<(), Error> {
        self.ours(self.connection.execute_batch("BEGIN IMMEDIATE"))?;
        // A newer release may have migrated the file under us.
        let known = i64::try_from(schema::MIGRATIONS.len()).unwrap_or(i64::MAX);
        let refused = match self.ours(schema::version(&self.connection)) {
            Ok(found) if found == known => return Ok(()),
            Ok(found) => Error::Newer { path: self.path.clone(), found, known },
            Err(error) => error,
        };
        self.rollback();
        Err(refused)
    }

    fn commit(&mut self) -> Result<(), Error> {
        let result = self.connection.execute_batch("COMMIT").map_err(|e| Error::commit(&self.path, e));
        self.rollback();
        result
    }

    fn rollback(&mut self) {
        if self.connection.is_autocommit() {
            return; // already over: SQLite itself rolls back after the worst errors
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::warn!(path = %self.path.display(), %error, "rollback failed");
        }
    }

    fn claim(&mut self, stream: &Stream, read: Epoch) -> Result<Epoch, Error> {
        let ours = |e| Error::sqlite(&self.path, e);
        let savepoint = self.connection.savepoint().map_err(ours)?;
        let current = find(&savepoint, stream).map_err(ours)?.map_or(Epoch(0), |(_, epoch)| epoch);
        if current != read {
            return Err(Error::Fenced { stream: stream.clone(), current });
        }
        let claimed = current.next();
        savepoint
            .prepare_cached(
                "INSERT INTO streams (name, epoch) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch",
            )
            .and_then(|mut statement| statement.execute(params![stream.to_string(), signed(claimed.0)]))
            .map_err(ours)?;
        CLAIM.before()?;
        savepoint.commit().map_err(ours)?;
        Ok(claimed)
    }

    fn append(&mut self, stream: &Stream, epoch: Epoch, after: Seq, facts: &[NewFact]) -> Result<Seq, Error> {
        let ours = |e| Error::sqlite(&self.path, e);
        let savepoint = self.connection.savepoint().map_err(ours)?;
        let id = match find(&savepoint, stream).map_err(ours)? {
            Some((id, current)) if current == epoch => id,
            other => {
                let current = other.map_or(Epoch(0), |(_, epoch)| epoch);
                return Err(Error::Fenced { stream: stream.clone(), current });
            }
        };
        let at = number(&savepoint, "SELECT max(seq) FROM facts WHERE stream = ?1", [id]).map_err(ours)?;
        let at = Seq(at.unwrap_or_default());
        if at != after {
            return Err(Error::OutOfSequence { stream: stream.clone(), at });
        }
        let last = insert(&savepoint, id, epoch, after, facts).map_err(ours)?;
        APPEND.before()?;
        savepoint.commit().map_err(ours)?;
        Ok(last)
    }

    fn forget(&mut self, stream: &Stream, epoch: Epoch) -> Result<u64, Error> {
        let ours = |e| Error::sqlite(&self.path, e);
        let savepoint = self.connection.savepoint().map_err(ours)?;
        let found = find(&savepoint, stream).map_err(ours)?;
        let current = found.map_or(Epoch(0), |(_, epoch)| epoch);
        if current != epoch {
            return Err(Error::Fenced { stream: stream.clone(), current });
        }
        let Some((id, _)) = found else { return Ok(0) };
        let facts = savepoint.execute("DELETE FROM facts WHERE stream = ?1", [id]).map_err(ours)?;
        savepoint.execute("DELETE FROM streams WHERE id = ?1", [id]).map_err(ours)?;
        savepoint.commit().map_err(ours)?;
        Ok(facts as u64)
    }

    fn set_cursor(&mut self, name: &str, value: u64) -> Result<(), Error> {
        let set = self
            .connection
            .prepare_cached(
                "INSERT INTO cursors (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            )
            .and_then(|mut statement| statement.execute(params![name, value.cast_signed()]));
        self.ours(set).map(|_| ())
    }

    fn changed_elsewhere(&mut self) -> Result<bool, Error> {
        let now = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        let now = self.ours(now)?;
        Ok(self.seen.replace(now) != Some(now))
    }

    fn epoch(&mut self, stream: &Stream) -> Result<Epoch, Error> {
        let found = self.ours(find(&self.connection, stream))?;
        Ok(found.map_or(Epoch(0), |(_, epoch)| epoch))
    }

    fn last_seq(&mut self, stream: &Stream) -> Result<Seq, Error> {
        let last = self.number(
            "SELECT max(seq) FROM facts WHERE stream = (SELECT id FROM streams WHERE name = ?1)",
            [stream.to_string()],
        )?;
        Ok(Seq(last.unwrap_or_default()))
    }

    fn read(&mut self, stream: &Stream, after: Seq, limit: usize) -> Result<Vec<Row>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self
            .connection
            .prepare_cached(
                "SELECT seq, epoch, time_ms, kind, version, body, stream, sum FROM facts
                 WHERE stream = (SELECT id FROM streams WHERE name = ?1) AND seq > ?2
                 ORDER BY seq LIMIT ?3",
            )
            .and_then(|mut statement| {
                statement.query_map(params![stream.to_string(), signed(after.0), limit], row)?.collect()
            });
        let rows: Vec<Option<Row>> = self.ours(rows)?;
        let mut expected = after;
        let whole = rows.into_iter().map(|row| {
            expected = expected.next();
            row.filter(|row| row.seq == expected).ok_or_else(|| Error::Damaged {
                path: self.path.clone(),
                detail: format!("fact {expected} of {stream} is not as it was written"),
            })
        });
        whole.collect()
    }

    fn streams(&mut self) -> Result<Vec<StreamInfo>, Error> {
        let found = self
            .connection
            .prepare_cached(
                "SELECT name, epoch, last,
                     ifnull((SELECT time_ms FROM facts WHERE stream = id ORDER BY seq LIMIT 1), 0),
                     ifnull((SELECT time_ms FROM facts WHERE stream = id AND seq = last), 0)
                 FROM (SELECT id, name, epoch,
                     ifnull((SELECT max(seq) FROM facts WHERE stream = id), 0) AS last FROM streams)
                 ORDER BY id DESC",
            )
            .and_then(|mut statement| statement.query_map([], info)?.collect::<rusqlite::Result<Vec<_>>>());
        let damaged =
            |detail: Malformed| Error::Damaged { path: self.path.clone(), detail: detail.to_string() };
        self.ours(found)?.into_iter().map(|info| info.map_err(damaged)).collect()
    }

    fn cursor(&mut self, name: &str) -> Result<Option<u64>, Error> {
        self.number("SELECT value FROM cursors WHERE name = ?1", [name])
    }
}

fn find(connection: &Connection, stream: &Stream) -> rusqlite::Result<Option<(i64, Epoch)>> {
    connection
        .prepare_cached("SELECT id, epoch FROM streams WHERE name = ?1")?
        .query_row([stream.to_string()], |row| Ok((row.get(0)?, Epoch(unsigned(row.get(1)?)))))
        .optional()
}

fn number(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Option<u64>> {
    let found: Option<Option<i64>> =
        connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
    Ok(found.flatten().map(i64::cast_unsigned))
}

fn insert(
    connection: &Connection,
    id: i64,
    epoch: Epoch,
    after: Seq,
    facts: &[NewFact],
) -> rusqlite::Result<Seq> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO facts (stream, seq, epoch, time_ms, kind, version, body, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut last = after;
    for fact in facts {
        last = last.next();
        statement.execute(params![
            id,
            signed(last.0),
            signed(epoch.0),
            signed(fact.time_ms),
            fact.kind,
            fact.version,
            fact.body,
            sum(id, [last.0, epoch.0, fact.time_ms, fact.version.into()], &fact.kind, &fact.body)
        ])?;
    }
    Ok(last)
}

/// What tells that a stored fact is the one that was written.
fn sum(stream: i64, numbers: [u64; 4], kind: &str, body: &str) -> i64 {
    let mut hash = Sha256::new();
    hash.update(stream.to_be_bytes());
    for number in numbers {
        hash.update(number.to_be_bytes());
    }
    hash.update((kind.len() as u64).to_be_bytes());
    hash.update(kind);
    hash.update(body);
    let bytes = hash.finalize();
    let first = bytes.first_chunk().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

/// A row; nothing if it is not as it was written.
fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Row>> {
    let (stream, stored): (i64, i64) = (row.get(6)?, row.get(7)?);
    let read = Row {
        seq: Seq(unsigned(row.get(0)?)),
        epoch: Epoch(unsigned(row.get(1)?)),
        time_ms: unsigned(row.get(2)?),
        kind: row.get(3)?,
        version: row.get(4)?,
        body: row.get(5)?,
    };
    let numbers = [read.seq.0, read.epoch.0, read.time_ms, read.version.into()];
    Ok((sum(stream, numbers, &read.kind, &read.body) == stored).then_some(read))
}

fn info(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<StreamInfo, Malformed>> {
    let (epoch, last) = (Epoch(unsigned(row.get(1)?)), Seq(unsigned(row.get(2)?)));
    let (first_ms, last_ms) = (unsigned(row.get(3)?), unsigned(row.get(4)?));
    let stream = row.get::<_, String>(0)?.parse::<Stream>();
    Ok(stream.map(|stream| StreamInfo { stream, epoch, last, first_ms, last_ms }))
}

/// A number that is compared or ordered in SQL: no stored one is beyond `i64`.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ensemble_core::ids::RunId;
    use tempfile::TempDir;

    use super::*;
    use crate::Doubt;

    fn store() -> (TempDir, Sqlite) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        schema::prepare(&path, schema::MIGRATIONS).unwrap();
        let store = Sqlite::open(&path).unwrap();
        (dir, store)
    }

    fn run() -> Stream {
        Stream::Run(RunId::from_parts(1, 1))
    }

    fn fact(bytes: usize) -> NewFact {
        NewFact { kind: "noted".to_owned(), version: 1, body: "x".repeat(bytes), time_ms: 1 }
    }

    #[test]
    fn a_full_disk_stores_nothing_of_the_batch_and_harms_nothing_else() {
        let (_dir, mut store) = store();
        store.begin().unwrap();
        store.claim(&run(), Epoch(0)).unwrap();
        store.append(&run(), Epoch(1), Seq(0), &[fact(10)]).unwrap();
        store.commit().unwrap();

        store.connection.pragma_update(None, "max_page_count", 20).unwrap();
        store.begin().unwrap();
        let full = store.append(&run(), Epoch(1), Seq(1), &[fact(10), fact(1_000_000)]).unwrap_err();
        store.rollback();
        assert!(matches!(full, Error::Full { .. }), "{full}");
        assert_eq!(full.doubt(), Doubt::Retry);
        assert_eq!(store.last_seq(&run()).unwrap(), Seq(1));

        store.begin().unwrap();
        assert_eq!(store.append(&run(), Epoch(1), Seq(1), &[fact(10)]).unwrap(), Seq(2));
        store.commit().unwrap();
        assert_eq!(store.last_seq(&run()).unwrap(), Seq(2));
    }

    #[test]
    fn another_writer_that_does_not_end_is_told_as_busy() {
        let (_dir, mut store) = store();
        let mut other = Sqlite::open(&store.path).unwrap();
        other.connection.busy_timeout(Duration::ZERO).unwrap();
        store.begin().unwrap();
        let busy = other.begin().unwrap_err();
        assert!(matches!(busy, Error::Busy { .. }), "{busy}");
        assert_eq!(busy.doubt(), Doubt::Retry);
        store.rollback();
        other.begin().unwrap();
    }

    #[test]
    fn a_refused_write_leaves_the_transaction_as_it_was() {
        let (_dir, mut store) = store();
        store.begin().unwrap();
        store.claim(&run(), Epoch(0)).unwrap();
        store.claim(&run(), Epoch(0)).unwrap_err();
        store.append(&run(), Epoch(1), Seq(1), &[fact(1)]).unwrap_err();
        store.append(&run(), Epoch(1), Seq(0), &[fact(1)]).unwrap();
        store.commit().unwrap();
        assert_eq!(store.last_seq(&run()).unwrap(), Seq(1));
    }

    #[test]
    fn a_forgotten_stream_is_gone_with_its_facts_and_no_other() {
        let (_dir, mut store) = store();
        let other = Stream::Run(RunId::from_parts(2, 2));
        store.begin().unwrap();
        for stream in [&run(), &other] {
            store.claim(stream, Epoch(0)).unwrap();
            store.append(stream, Epoch(1), Seq(0), &[fact(1), fact(1)]).unwrap();
        }
        let fenced = store.forget(&run(), Epoch(0)).unwrap_err();
        assert!(matches!(fenced, Error::Fenced { current: Epoch(1), .. }), "{fenced}");
        assert_eq!(store.forget(&run(), Epoch(1)).unwrap(), 2);
        assert_eq!(store.forget(&run(), Epoch(0)).unwrap(), 0, "again changes nothing");
        store.commit().unwrap();
        assert_eq!((store.last_seq(&run()).unwrap(), store.epoch(&run()).unwrap()), (Seq(0), Epoch(0)));
        assert_eq!(store.streams().unwrap().len(), 1);
        assert_eq!(store.read(&other, Seq(0), 9).unwrap().len(), 2);
    }

    #[test]
    fn only_commits_of_others_count_as_changes() {
        let (_dir, mut store) = store();
        let mut other = Sqlite::open(&store.path).unwrap();
        assert!(store.changed_elsewhere().unwrap(), "nothing is known at first");
        for (value, by_other) in [(1, false), (2, true), (3, false)] {
            let writer = if by_other { &mut other } else { &mut store };
            writer.begin().unwrap();
            writer.set_cursor("a", value).unwrap();
            writer.commit().unwrap();
            assert_eq!(store.changed_elsewhere().unwrap(), by_other);
        }
    }

    #[test]
    fn each_connection_is_durable_and_a_reader_only_reads() {
        let (_dir, store) = store();
        let mut reader = Sqlite::open_reader(&store.path).unwrap();
        for connection in [&store.connection, &reader.connection] {
            let setting =
                |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!((setting("synchronous"), setting("foreign_keys")), (2, 1));
            assert_eq!(setting("busy_timeout"), 10_000);
        }
        assert!(reader.begin().and_then(|()| reader.set_cursor("a", 1)).is_err());
    }
}
