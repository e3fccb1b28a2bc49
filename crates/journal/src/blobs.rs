//! Large bodies as files that are named by the SHA-256 of their bytes: `blobs/ab/abcdef…`.
//! Synchronous. A name that is returned belongs to bytes that survive a loss of power.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use ensemble_core::ids::BlobId;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::{Error, faults::BLOB};

/// Prefix of files that are being written.
const UNFINISHED: &str = ".new-";

/// Age at which an unfinished file has certainly lost its writer.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// How much is copied at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// Held, shared, while a blob gets its name, and alone while one is judged and removed: so the age that
/// was seen is that of the file which is removed.
const LOCK: &str = ".lock";

/// Characters of a blob's name: SHA-256 in hexadecimal.
const NAME: usize = 64;

/// What a sweep removed, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs.
    pub blobs: u64,
    /// Their length, summed up.
    pub bytes: u64,
}

/// A folder of blobs.
#[derive(Debug)]
pub(crate) struct Blobs {
    root: PathBuf,
}

impl Blobs {
    /// Opens the folder, which exists, and removes what crashed writers left in it.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be read.
    pub(crate) fn open(root: PathBuf) -> Result<Self, Error> {
        let blobs = Self { root };
        blobs.sweep().map_err(|e| Error::io(&blobs.root, e))?;
        Ok(blobs)
    }

    /// Where a blob lies, or would lie.
    pub(crate) fn path(&self, id: &BlobId) -> PathBuf {
        self.folder(id).join(id.as_str())
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]; repeating is safe.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<BlobId, Error> {
        self.store(bytes, &self.root)
    }

    /// Stores the bytes of a file, which is read once and in pieces.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]; repeating is safe.
    pub(crate) fn put_file(&self, file: &Path) -> Result<BlobId, Error> {
        let source = File::open(file).map_err(|e| Error::io(file, e))?;
        self.store(source, file)
    }

    /// The bytes of a blob, if it is there.
    ///
    /// # Errors
    /// [`Error::Damaged`] when they are not the ones that were stored, [`Error::Io`].
    pub(crate) fn get(&self, id: &BlobId) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(id);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&path, e)),
        };
        if hex::encode(Sha256::digest(&bytes)) != id.as_str() {
            let detail = "its bytes don't match its name".to_owned();
            return Err(Error::Damaged { path, detail });
        }
        Ok(Some(bytes))
    }

    fn store(&self, source: impl Read, origin: &Path) -> Result<BlobId, Error> {
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.root)
            .map_err(|e| Error::io(&self.root, e))?;
        let id = self.copy(source, origin, &mut file)?;
        file.as_file().sync_all().map_err(|e| Error::io(file.path(), e))?;
        self.place(file, &id)?;
        BLOB.after()?;
        Ok(id)
    }

    fn copy(&self, mut source: impl Read, origin: &Path, file: &mut NamedTempFile) -> Result<BlobId, Error> {
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let piece = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => chunk.get(..length).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::io(origin, e)),
            };
            hash.update(piece);
            file.write_all(piece).map_err(|e| Error::io(&self.root, e))?;
        }
        BlobId::new(hex::encode(hash.finalize()))
            .map_err(|malformed| Error::Damaged { path: origin.to_owned(), detail: malformed.to_string() })
    }

    /// Gives a complete file its name. One of that name that is there already is replaced by the
    /// same bytes, which also mends it should it be damaged.
    fn place(&self, file: NamedTempFile, id: &BlobId) -> Result<(), Error> {
        BLOB.before()?;
        let lock = self.lock()?;
        lock.lock_shared().map_err(|e| Error::io(&self.root, e))?;
        let (folder, path) = (self.folder(id), self.path(id));
        match fs::create_dir(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(Error::io(&folder, e)),
            _ => {}
        }
        file.persist(&path).map_err(|e| Error::io(&path, e.error))?;
        // The root too: the folder may be new, perhaps made by a process that has not synced it.
        for folder in [&folder, &self.root] {
            File::open(folder).and_then(|opened| opened.sync_all()).map_err(|e| Error::io(folder, e))?;
        }
        Ok(())
    }

    /// Removes blobs that are not in `named` and older than `age`.
    ///
    /// # Errors
    /// [`Error::Io`]; repeating is safe.
    pub(crate) fn sweep_unnamed(
        &self,
        named: &BTreeSet<String>,
        age: Duration,
        dry_run: bool,
    ) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        for folder in entries(&self.root)?.into_iter().filter(|path| path.is_dir()) {
            for path in entries(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.len() == NAME && !named.contains(name.as_ref()) {
                    self.remove_if_old(&path, age, dry_run, &mut swept)?;
                }
            }
        }
        Ok(swept)
    }

    fn remove_if_old(
        &self,
        path: &Path,
        age: Duration,
        dry_run: bool,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        // For one file at a time, so that nobody who stores waits long.
        let lock = self.lock()?;
        lock.lock().map_err(|e| Error::io(&self.root, e))?;
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(Error::io(path, e)),
        };
        // A time in the future says nothing, so such a file stays.
        let old = found.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|it| it >= age);
        if !old {
            return Ok(());
        }
        if !dry_run {
            fs::remove_file(path).map_err(|e| Error::io(path, e))?;
        }
        swept.blobs += 1;
        swept.bytes += found.len();
        Ok(())
    }

    /// The lock file, opened anew: a lock belongs to one opening of it.
    fn lock(&self) -> Result<File, Error> {
        let path = self.root.join(LOCK);
        let mut options = OpenOptions::new();
        options.create(true).append(true).open(&path).map_err(|e| Error::io(&path, e))
    }

    fn folder(&self, id: &BlobId) -> PathBuf {
        self.root.join(id.as_str().get(..2).unwrap_or_default())
    }

    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            let age = entry.metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
            // Another process may finish or remove it while we look.
            if unfinished && matches!(age, Ok(Ok(age)) if age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.map_err(|e| Error::io(folder, e))
}

/// Whatever in a fact's body looks like a blob's name. What a fact means is not known here, and one name
/// too many only keeps a blob that could go.
pub(crate) fn names_in(body: &str, named: &mut BTreeSet<String>) {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let words = body.split(|c| !is_hex(c)).filter(|word| word.len() == NAME);
    named.extend(words.map(str::to_owned));
}
