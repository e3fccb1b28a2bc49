//! The directory: who owns which run. On one machine a kernel lock on a file in the data directory
//! elects the owner, and the file names the socket where it answers; the journal's epoch fences it.
//! Who is attached, and with what slots, the coordinator knows from its links.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use ensemble_core::ids::{CoordinatorId, RunId};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// Points at which tests inject faults.
pub const FAULT_POINTS: &[&str] = &["directory.own"];

/// Largest lock file that is read: a few short lines.
const OWNER_LIMIT: u64 = 64 * 1024;

/// Why the directory could not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lock file can't be used.
    #[error("can't use the lock file {path}: {source}; repeating is safe")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A test asked for it.
    #[error("injected fault at {0}")]
    Injected(&'static str),
}

/// The process that owns a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its coordinator.
    pub coordinator: CoordinatorId,
    /// Its process id, for people.
    pub pid: u32,
    /// Where it answers.
    pub socket: PathBuf,
}

impl Owner {
    fn write(&self, file: &mut File) -> std::io::Result<()> {
        let socket = self.socket.to_string_lossy();
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        write!(file, "{}\n{}\n{socket}\n", self.coordinator, self.pid)
    }

    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.take(OWNER_LIMIT).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let coordinator = lines.next()?.parse().ok()?;
        let pid = lines.next()?.parse().ok()?;
        Some(Self { coordinator, pid, socket: PathBuf::from(lines.next()?) })
    }
}

/// What came of the wish to own a run.
#[derive(Debug)]
pub enum Election {
    /// It is ours for as long as the value lives.
    Won(Ownership),
    /// Another process has it; `None` when it has not written its name yet.
    Held(Option<Owner>),
}

/// The ownership of a run; dropping it gives it back. It is the kernel's lock that counts, never the
/// existence of the file, so a killed owner leaves nothing behind.
#[derive(Debug)]
pub struct Ownership {
    _lock: Flock<File>,
}

/// The directory of one data directory.
#[derive(Clone, Debug)]
pub struct Local {
    locks: PathBuf,
}

impl Local {
    /// The directory of the data directory `data`.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { locks: data.join("runs") }
    }

    /// Tries to become the owner of a run. Never waits.
    ///
    /// # Errors
    /// [`Error::Io`] when the lock file can't be made or locked.
    pub fn own(&self, run: RunId, me: &Owner) -> Result<Election, Error> {
        fail::fail_point!("directory.own", |_| Err(Error::Injected("directory.own")));
        let path = self.path(run);
        std::fs::create_dir_all(&self.locks).map_err(|source| Error::Io { path: path.clone(), source })?;
        let election = match lock(&path, true)? {
            Lock::Ours(mut lock) => {
                me.write(&mut lock).map_err(|source| Error::Io { path, source })?;
                Election::Won(Ownership { _lock: lock })
            }
            Lock::Theirs(mut file) => Election::Held(Owner::read(&mut file)),
            Lock::Nobodys => Election::Held(None),
        };
        fail::fail_point!("directory.own.done", |_| Err(Error::Injected("directory.own")));
        Ok(election)
    }

    /// The living owner of a run, if there is one.
    ///
    /// # Errors
    /// [`Error::Io`] when the lock file can't be read.
    pub fn owner(&self, run: RunId) -> Result<Option<Owner>, Error> {
        match lock(&self.path(run), false)? {
            Lock::Theirs(mut file) => Ok(Owner::read(&mut file)),
            Lock::Ours(_) | Lock::Nobodys => Ok(None),
        }
    }

    fn path(&self, run: RunId) -> PathBuf {
        self.locks.join(format!("{run}.lock"))
    }
}

enum Lock {
    Ours(Flock<File>),
    Theirs(File),
    Nobodys,
}

/// Locks the file if nobody else has. A look-up takes a shared lock: two look-ups at the same moment
/// must not take each other for an owner.
fn lock(path: &Path, create: bool) -> Result<Lock, Error> {
    let wrap = |source| Error::Io { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(create).create(create).truncate(false).mode(0o600);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::Nobodys),
        Err(error) => return Err(wrap(error)),
    };
    let how = if create { FlockArg::LockExclusiveNonblock } else { FlockArg::LockSharedNonblock };
    match Flock::lock(file, how) {
        Ok(lock) => Ok(Lock::Ours(lock)),
        Err((file, Errno::EWOULDBLOCK)) => Ok(Lock::Theirs(file)),
        Err((_, errno)) => Err(wrap(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(socket: &str) -> Owner {
        Owner { coordinator: "c-1".parse().unwrap(), pid: 7, socket: socket.into() }
    }

    #[test]
    fn one_owner_at_a_time_and_everybody_sees_who() {
        let data = tempfile::tempdir().unwrap();
        let directory = Local::new(data.path());
        let run = RunId::from_parts(1, 1);
        assert_eq!(directory.owner(run).unwrap(), None);
        let Election::Won(ownership) = directory.own(run, &me("/a b/ü")).unwrap() else { panic!("held") };
        assert_eq!(directory.owner(run).unwrap(), Some(me("/a b/ü")));
        let Election::Held(owner) = directory.own(run, &me("/c")).unwrap() else { panic!("won twice") };
        assert_eq!(owner, Some(me("/a b/ü")));
        drop(ownership);
        assert_eq!(directory.owner(run).unwrap(), None);
        assert!(matches!(directory.own(run, &me("/c")).unwrap(), Election::Won(_)));
    }
}
