//! The database file: is it ours, is it whole, is its schema known; how it becomes the present one.
//! A file that is refused is not written to. What the tables hold is `sqlite`'s business.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::Error;

/// Marks the file as ours ("Ensb" in ASCII).
const APPLICATION_ID: i64 = 0x456e_7362;

/// How long another process may hold the database.
const BUSY: Duration = Duration::from_secs(10);

/// Largest file that is read in full at each start (at 1 GB/s a quarter of a second). In a larger
/// one damage is found when it is met: SQLite checks each page that it reads.
const CHECKED_BYTES: i64 = 256 * 1024 * 1024;

/// Each brings the schema from its index to the next version; none is ever changed once released.
///
/// Facts lie in the order in which they came, found by a unique index. Measured with 200 000 facts
/// of 100 streams, the alternatives are worse where it counts: without rowid, whole bodies become
/// keys of the tree (2 kB bodies: insertion takes 2.6 times as long, the file is 1.6 times as big).
/// Streams have a small number of their own so that index entries stay short. SQLite knows damage of
/// its own structures only; a fact's `sum` covers the rest.
pub(crate) const MIGRATIONS: &[&str] = &["
CREATE TABLE streams (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE facts (
    stream  INTEGER NOT NULL REFERENCES streams (id),
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    sum     INTEGER NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT;
CREATE TABLE cursors (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"];

/// What a file is.
enum Kind {
    Empty,
    Version(i64),
}

/// Makes sure that `path` is a journal of the present schema: creates, checks and migrates it.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Foreign`], [`Error::Newer`], and those of the database.
pub(crate) fn prepare(path: &Path, migrations: &[&str]) -> Result<(), Error> {
    // The log first: whoever creates the journal at this moment writes the file before it.
    let log = length(&beside(path, "-wal"))?;
    let file = length(path)?;
    if file == 0 && log > 0 {
        // SQLite would throw the log away, and with it facts that were acknowledged.
        let detail = "it is missing or empty, but its write-ahead log is not".to_owned();
        return Err(Error::Damaged { path: path.to_owned(), detail });
    }
    if file > 0 {
        inspect(path, migrations.len())?;
    }
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    use_write_ahead_log(&connection, path)?;
    migrate(&mut connection, path, migrations)
}

/// Opens `path`, which is known to be ours, for reading and writing.
///
/// # Errors
/// Those of the database.
pub(crate) fn open(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")
        .map_err(|e| Error::sqlite(path, e))?;
    Ok(connection)
}

/// The schema version that the file has now.
///
/// # Errors
/// Those of the database.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Refuses what is not ours, newer or damaged. Reads only: closing a connection that may write
/// would move the log into a file that is about to be refused.
fn inspect(path: &Path, known: usize) -> Result<(), Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let ours = |e| Error::sqlite(path, e);
    if matches!(classify(&connection, path, known)?, Kind::Empty) {
        return Ok(());
    }
    let bytes: i64 = connection
        .query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| {
            row.get(0)
        })
        .map_err(ours)?;
    if bytes > CHECKED_BYTES {
        return Ok(());
    }
    let word: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(ours)?;
    if word != "ok" {
        return Err(Error::Damaged { path: path.to_owned(), detail: word });
    }
    // The names of streams are held against their index: a run whose name was changed would be gone.
    let word: String =
        connection.query_row("PRAGMA integrity_check(streams)", [], |row| row.get(0)).map_err(ours)?;
    if word != "ok" {
        return Err(Error::Damaged { path: path.to_owned(), detail: word });
    }
    Ok(())
}

fn classify(connection: &Connection, path: &Path, known: usize) -> Result<Kind, Error> {
    let ours = |e| Error::sqlite(path, e);
    let version = version(connection).map_err(ours)?;
    let (application, tables): (i64, i64) = connection
        .query_row(
            "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(ours)?;
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    let path = path.to_owned();
    match (application, version, tables) {
        // A process may have died between creating the file and its tables.
        (0, 0, 0) => Ok(Kind::Empty),
        (APPLICATION_ID, found, _) if found > known => Err(Error::Newer { path, found, known }),
        (APPLICATION_ID, found, 1..) if found > 0 => Ok(Kind::Version(found)),
        (APPLICATION_ID, ..) => Err(Error::Damaged { path, detail: "its tables are missing".to_owned() }),
        _ => Err(Error::Foreign { path }),
    }
}

/// Brings the schema to the last version in one transaction. Other processes may try the same at
/// the same time: what there is to do is decided inside.
fn migrate(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), Error> {
    let ours = |e| Error::sqlite(path, e);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(ours)?;
    let from = match classify(&transaction, path, migrations.len())? {
        Kind::Empty => 0,
        Kind::Version(version) => usize::try_from(version).unwrap_or(usize::MAX),
    };
    let steps = migrations.get(from..).unwrap_or_default();
    if steps.is_empty() {
        return Ok(());
    }
    let to = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    for step in steps {
        transaction.execute_batch(step).map_err(ours)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(ours)?;
    transaction.pragma_update(None, "user_version", to).map_err(ours)?;
    transaction.commit().map_err(|e| Error::commit(path, e))?;
    tracing::info!(path = %path.display(), from, to, "journal schema written");
    Ok(())
}

/// Switches to the write-ahead log, which stays so in the file. While another process does the
/// same, SQLite answers "locked" without waiting, so we wait.
fn use_write_ahead_log(connection: &Connection, path: &Path) -> Result<(), Error> {
    let end = Instant::now() + BUSY;
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let kind = std::io::ErrorKind::Unsupported;
                let word = format!("no write-ahead log on this file system (mode {mode}); use a local disk");
                return Err(Error::io(path, std::io::Error::new(kind, word)));
            }
            Err(e) if is_busy(&e) && Instant::now() < end => thread::sleep(Duration::from_millis(10)),
            Err(e) => return Err(Error::sqlite(path, e)),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .and_then(|connection| connection.busy_timeout(BUSY).map(|()| connection))
        .map_err(|e| Error::sqlite(path, e))
}

/// The file's length, 0 when there is none. Only asked, never opened: closing a file drops the
/// locks that SQLite holds on it in this process.
fn length(path: &Path) -> Result<u64, Error> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        Ok(_) => Err(Error::io(path, std::io::ErrorKind::IsADirectory.into())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(Error::io(path, e)),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    const FIRST: &str = "CREATE TABLE streams (name TEXT UNIQUE) STRICT;
        CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);";

    fn read(path: &Path, sql: &str) -> i64 {
        open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_older_schema_is_brought_up_with_what_it_holds() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("journal.db");
        prepare(&path, &[FIRST]).unwrap();
        let steps = [FIRST, "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 1;", "UPDATE a SET y = x + y;"];
        prepare(&path, &steps).unwrap();
        assert_eq!(read(&path, "SELECT y FROM a"), 8);
        assert_eq!(read(&path, "PRAGMA user_version"), 3);
        prepare(&path, &steps).unwrap();
        assert_eq!(read(&path, "SELECT y FROM a"), 8, "done once");
    }

    #[test]
    fn a_migration_that_fails_half_way_changes_nothing() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("journal.db");
        prepare(&path, &[FIRST]).unwrap();
        let broken = [FIRST, "UPDATE a SET x = 8;", "UPDATE nowhere SET x = 9;"];
        assert!(prepare(&path, &broken).is_err());
        assert_eq!(read(&path, "SELECT x FROM a"), 7);
        assert_eq!(read(&path, "PRAGMA user_version"), 1);
    }
}
