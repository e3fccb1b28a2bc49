//! The handle that everybody else holds: checks bounds, sends writes to the writer thread, reads
//! from the pool, waits at the tail, keeps blobs.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ensemble_core::ids::{BlobId, Epoch, Seq};
use tokio::sync::Semaphore;

use crate::{
    Error, MAX_BATCH_BYTES, MAX_FACTS, NewFact, Row, Stream, StreamInfo,
    blobs::{Blobs, Swept, names_in},
    faults::{APPEND, CLAIM},
    readers::Readers,
    schema,
    sqlite::Sqlite,
    tail::Tail,
    writer::Writer,
};

/// Facts read at a time while blobs are swept; one has at most some tens of kilobytes.
const SWEEP_PAGE: usize = 256;

/// Most blobs that are written or read at a time.
const BLOB_WORKERS: usize = 4;

/// The journal of one data directory. Cheap to clone; several processes may open the same one.
///
/// A caller that stops waiting for `claim`, `append` or `set_cursor` does not stop the write.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writer: Writer,
    readers: Arc<Readers>,
    tail: Arc<Tail>,
    blobs: Arc<Blobs>,
    blob_workers: Arc<Semaphore>,
}

impl Journal {
    /// Opens the journal in `dir`, which is created if need be, with its writer thread. Blocks on
    /// the disk, and for at most about ten seconds on other processes.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`], [`Error::Foreign`]: the file is left as it is.
    /// [`Error::Busy`], [`Error::Full`], [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let blobs = dir.join("blobs");
        create_private(&blobs).map_err(|e| Error::io(&blobs, e))?;
        let path = dir.join("journal.db");
        schema::prepare(&path, schema::MIGRATIONS)?;
        sync_names(dir)?;
        let (tail, elsewhere) = Tail::new();
        let writer =
            Writer::start(Box::new(Sqlite::open(&path)?), elsewhere).map_err(|e| Error::io(&path, e))?;
        let readers = Readers::new(move || Ok(Box::new(Sqlite::open_reader(&path)?)));
        Ok(Self(Arc::new(Inner {
            writer,
            readers,
            tail,
            blobs: Arc::new(Blobs::open(blobs)?),
            blob_workers: Arc::new(Semaphore::new(BLOB_WORKERS)),
        })))
    }

    /// Takes a stream over: if its epoch is still `read`, makes it one higher and returns that.
    /// From then on appends of every earlier owner are refused.
    ///
    /// # Errors
    /// [`Error::Fenced`] with the epoch that it has when that is not `read`.
    pub async fn claim(&self, stream: &Stream, read: Epoch) -> Result<Epoch, Error> {
        let stream = stream.clone();
        self.0.writer.write(0, move |store| store.claim(&stream, read), |_| CLAIM.after()).await
    }

    /// The stream's epoch; `Epoch(0)` when it was never claimed.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn epoch(&self, stream: &Stream) -> Result<Epoch, Error> {
        let stream = stream.clone();
        self.0.readers.read(move |store| store.epoch(&stream)).await
    }

    /// Appends facts, all or none, behind the fact `after`, as the owner of `epoch`; returns the
    /// last sequence once they are durable. An empty batch only checks ownership and sequence.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the stream has another epoch, [`Error::OutOfSequence`] when `after`
    /// is not its last fact, [`Error::Oversized`] beyond [`MAX_FACTS`] or [`MAX_BATCH_BYTES`],
    /// [`Error::Full`] when the disk is full: the batch was not stored and may be repeated as it
    /// is. [`Error::Unknown`]: read the stream to see whether it was stored.
    pub async fn append(
        &self,
        stream: &Stream,
        epoch: Epoch,
        after: Seq,
        facts: Vec<NewFact>,
    ) -> Result<Seq, Error> {
        let bytes = facts.iter().map(NewFact::weight).sum();
        for (unit, size, limit) in [("facts", facts.len(), MAX_FACTS), ("bytes", bytes, MAX_BATCH_BYTES)] {
            if size > limit {
                return Err(Error::Oversized { unit, size, limit });
            }
        }
        let (owned, announced) = (stream.clone(), stream.clone());
        let tail = Arc::clone(&self.0.tail);
        let settle = move |last: &Seq| {
            tail.announce(&announced, *last);
            APPEND.after()
        };
        self.0.writer.write(bytes, move |store| store.append(&owned, epoch, after, &facts), settle).await
    }

    /// Removes a stream with all its facts, for good; returns how many those were. Only for whoever may
    /// own the stream now. Its blobs stay until [`Journal::sweep_blobs`].
    ///
    /// # Errors
    /// [`Error::Fenced`] when the stream has another epoch; those of the database.
    pub async fn forget(&self, stream: &Stream, epoch: Epoch) -> Result<u64, Error> {
        let stream = stream.clone();
        self.0.writer.write(0, move |store| store.forget(&stream, epoch), |_| Ok(())).await
    }

    /// The first `limit` facts of the stream beyond `after`, in order. The caller chooses `limit`
    /// for the memory it has: bodies are returned whole.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn read(&self, stream: &Stream, after: Seq, limit: usize) -> Result<Vec<Row>, Error> {
        let stream = stream.clone();
        self.0.readers.read(move |store| store.read(&stream, after, limit)).await
    }

    /// The stream's last fact; `Seq(0)` when it has none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn last_seq(&self, stream: &Stream) -> Result<Seq, Error> {
        let stream = stream.clone();
        self.0.readers.read(move |store| store.last_seq(&stream)).await
    }

    /// All streams, the one first claimed last comes first. Runs that start at once may be claimed the
    /// other way round than their ids say.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn streams(&self) -> Result<Vec<StreamInfo>, Error> {
        self.0.readers.read(|store| store.streams()).await
    }

    /// Waits until the stream has facts beyond `after`, at most for `deadline`. `true` as soon as
    /// there are: at once for appends through this handle, within about 100 ms for those of others.
    ///
    /// # Errors
    /// Those of the database, and [`Error::Closed`].
    pub async fn wait_beyond(&self, stream: &Stream, after: Seq, deadline: Duration) -> Result<bool, Error> {
        match tokio::time::timeout(deadline, self.beyond(stream, after)).await {
            Ok(result) => result.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    async fn beyond(&self, stream: &Stream, after: Seq) -> Result<(), Error> {
        let mut subscription = self.0.tail.subscribe(stream);
        loop {
            if *subscription.appended.borrow_and_update() > after || self.last_seq(stream).await? > after {
                return Ok(());
            }
            let changed = tokio::select! {
                changed = subscription.appended.changed() => changed,
                changed = subscription.elsewhere.changed() => changed,
            };
            changed.map_err(|_| Error::Closed)?;
        }
    }

    /// The number that is kept under `name`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cursor(&self, name: &str) -> Result<Option<u64>, Error> {
        let name = name.to_owned();
        self.0.readers.read(move |store| store.cursor(&name)).await
    }

    /// Keeps a number under `name`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_cursor(&self, name: &str, value: u64) -> Result<(), Error> {
        let name = name.to_owned();
        self.0.writer.write(name.len(), move |store| store.set_cursor(&name, value), |()| Ok(())).await
    }

    /// Stores bytes as a blob. Storing the same again changes nothing.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]; repeating is safe.
    pub async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobId, Error> {
        self.with_blobs(move |blobs| blobs.put(&bytes)).await
    }

    /// Stores the bytes of a file as a blob, without holding them in memory.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]; repeating is safe.
    pub async fn put_blob_file(&self, file: &Path) -> Result<BlobId, Error> {
        let file = file.to_owned();
        self.with_blobs(move |blobs| blobs.put_file(&file)).await
    }

    /// The bytes of a blob, checked, if it is there.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the file's path when they are not what was stored, [`Error::Io`].
    pub async fn get_blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>, Error> {
        let id = id.clone();
        self.with_blobs(move |blobs| blobs.get(&id)).await
    }

    /// Where a blob lies, or would lie; what is read from there is not checked.
    #[must_use]
    pub fn blob_path(&self, id: &BlobId) -> PathBuf {
        self.0.blobs.path(id)
    }

    /// Removes the blobs that no fact names and that were stored more than `age` ago; with `dry_run`
    /// only counts them. Facts of the streams in `without` are taken for forgotten. What is stored
    /// meanwhile, in any process, is young and stays; `age` is what a fact may take to follow its blob.
    ///
    /// # Errors
    /// Those of the database, [`Error::Io`]. Repeating is safe.
    pub async fn sweep_blobs(
        &self,
        without: &[Stream],
        age: Duration,
        dry_run: bool,
    ) -> Result<Swept, Error> {
        let mut named = BTreeSet::new();
        for info in self.streams().await? {
            let mut after = if without.contains(&info.stream) { info.last } else { Seq(0) };
            loop {
                let rows = self.read(&info.stream, after, SWEEP_PAGE).await?;
                let Some(last) = rows.last() else { break };
                after = last.seq;
                rows.iter().for_each(|row| names_in(&row.body, &mut named));
            }
        }
        self.with_blobs(move |blobs| blobs.sweep_unnamed(&named, age, dry_run)).await
    }

    /// Stores what has been sent, then ends the writer thread and the connections. All clones of
    /// the handle answer [`Error::Closed`] afterwards.
    pub async fn close(self) {
        self.0.writer.close().await;
        self.0.readers.close().await;
    }

    async fn with_blobs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blobs) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let workers = Arc::clone(&self.0.blob_workers);
        let permit = workers.acquire_owned().await.map_err(|_| Error::Closed)?;
        let blobs = Arc::clone(&self.0.blobs);
        let working = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&blobs)
        });
        working.await.unwrap_or(Err(Error::Closed))
    }
}

/// Creates a folder that only its owner may enter: journals and blobs hold what agents were told.
fn create_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Makes the names of new files and of `dir` itself durable.
fn sync_names(dir: &Path) -> Result<(), Error> {
    let sync = |folder: &Path| fs::File::open(folder).and_then(|opened| opened.sync_all());
    sync(dir).map_err(|e| Error::io(dir, e))?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // A parent that we may not read was not created by us.
        let _ = sync(parent);
    }
    Ok(())
}
