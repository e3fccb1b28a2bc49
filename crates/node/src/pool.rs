//! Working copies that no attempt has any more, kept for the next one in the same repository: making
//! one ready again costs a fraction of a new one. Each is in one place at a time, an attempt's
//! directory or here; what is not whole is deleted, never trusted. Everything here waits for the
//! disk, so callers are on a thread where they may.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use ensemble_core::{
    ids::{CommitId, EmployeeId, RepositoryId},
    message::What,
};
use ensemble_workspace::{Repository, Worktree};

use crate::{Error, error::DoingTo};

/// Working copies that are kept at most, however many slots there are: they cost room on the disk.
const LIMIT: usize = 16;

/// Who worked in a copy: only the same employee may meet what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An employee.
    Employee(EmployeeId),
    /// A check.
    Check,
}

impl Owner {
    /// Who does this.
    pub(crate) fn of(what: &What) -> Self {
        match what {
            What::Work(work) => Self::Employee(work.employee.clone()),
            What::Check { .. } => Self::Check,
        }
    }
}

/// The copies below one node's directory.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    folder: PathBuf,
    limit: usize,
    /// The lock of the node's directory: nothing is done here without it.
    lock: Weak<File>,
    /// Oldest first.
    idle: Arc<Mutex<Vec<Idle>>>,
}

#[derive(Clone, Debug)]
struct Idle {
    path: PathBuf,
    repository: RepositoryId,
    owner: Owner,
}

impl Pool {
    /// The copies in `folder`, as an earlier process of this start of the machine left them: after a
    /// power failure files may not be what their times say.
    pub(crate) fn open(folder: PathBuf, slots: usize, lock: &Arc<File>) -> Result<Self, Error> {
        let mut idle = Vec::new();
        for path in below(&folder)? {
            match Idle::read(&path) {
                Some(one) => idle.push(one),
                None => discard(&path),
            }
        }
        let pool = Self {
            folder,
            limit: slots.min(LIMIT),
            lock: Arc::downgrade(lock),
            idle: Arc::new(Mutex::new(idle)),
        };
        pool.shrink(pool.limit);
        Ok(pool)
    }

    /// Deletes what another node's directory has of these.
    pub(crate) fn clear(folder: &Path) -> Result<(), Error> {
        below(folder)?.iter().for_each(|path| discard(path));
        Ok(())
    }

    /// A working copy of `base` at `path`: one from here made ready, else a new one. With
    /// `keep_ignored` it may hold ignored files, if `owner` was the last to work in it.
    pub(crate) fn take(
        &self,
        mirror: &Repository,
        (repository, base): (&RepositoryId, &CommitId),
        (owner, keep_ignored): (&Owner, bool),
        path: &Path,
    ) -> Result<Worktree, Error> {
        let _lock = self.hold()?;
        while let Some(idle) = self.claim(repository, owner) {
            let keep = keep_ignored && idle.owner == *owner;
            let ready = Worktree::recycle(mirror, idle.work(), base, keep);
            match ready.and_then(|worktree| worktree.move_to(path)) {
                Ok(worktree) => {
                    discard(&idle.path);
                    return Ok(worktree);
                }
                Err(error) => {
                    tracing::debug!(%error, "a working copy is not used again");
                    discard(&idle.path);
                }
            }
        }
        Ok(Worktree::create(mirror, path, base)?)
    }

    /// Takes in a working copy in which nothing runs any more, or deletes it if there are enough.
    pub(crate) fn put(
        &self,
        worktree: Worktree,
        repository: &RepositoryId,
        owner: &Owner,
    ) -> Result<(), Error> {
        let _lock = self.hold()?;
        if self.limit == 0 {
            return Ok(worktree.remove()?);
        }
        let path = self.folder.join(format!("{:016x}", rand::random::<u64>()));
        let idle = Idle { path, repository: repository.clone(), owner: owner.clone() };
        let kept = idle.write().and_then(|()| Ok(worktree.clone().move_to(idle.work())?));
        if let Err(error) = kept {
            tracing::debug!(%error, "a working copy is not kept");
            discard(&idle.path);
            return Ok(worktree.remove()?);
        }
        self.lock_idle().push(idle);
        self.shrink(self.limit);
        Ok(())
    }

    /// Deletes the oldest until no more than `count` are left.
    pub(crate) fn shrink(&self, count: usize) {
        loop {
            let oldest = {
                let mut idle = self.lock_idle();
                if idle.len() <= count {
                    return;
                }
                idle.remove(0)
            };
            discard(&oldest.path);
        }
    }

    /// Whether the node's directory is still this process's, which it is for as long as this is held.
    fn hold(&self) -> Result<Arc<File>, Error> {
        self.lock.upgrade().ok_or(Error::Gone("its directory was given up"))
    }

    /// Takes one of this repository off the list, one of the same owner before others.
    fn claim(&self, repository: &RepositoryId, owner: &Owner) -> Option<Idle> {
        let mut idle = self.lock_idle();
        let fits = |one: &Idle| one.repository == *repository;
        let at = idle.iter().rposition(|one| fits(one) && one.owner == *owner);
        let at = at.or_else(|| idle.iter().rposition(fits))?;
        Some(idle.remove(at))
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Says whose it was before it comes.
    fn write(&self) -> Result<(), Error> {
        fs::create_dir_all(&self.path).doing_to("make the folder", &self.path)?;
        let owner = match &self.owner {
            Owner::Employee(id) => format!("employee {id}"),
            Owner::Check => "check".to_owned(),
        };
        let file = self.path.join("whose");
        fs::write(&file, format!("{}\n{}\n{owner}\n", boot(), self.repository)).doing_to("write", file)
    }

    /// What lies at `path`; nothing if it is not whole or from before the machine was started.
    fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path.join("whose")).ok()?;
        let mut lines = text.split_terminator('\n');
        let (booted, repository, owner) = (lines.next()?, lines.next()?, lines.next()?);
        let owner = match owner.split_once(' ') {
            Some(("employee", id)) => Owner::Employee(EmployeeId::new(id).ok()?),
            None if owner == "check" => Owner::Check,
            _ => return None,
        };
        let repository = repository.parse().ok()?;
        let whole = text.ends_with('\n') && booted == boot() && path.join("work").is_dir();
        whole.then(|| Self { path: path.to_owned(), repository, owner })
    }
}

/// Names this start of the machine.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.doing_to("list", folder)?,
    };
    listing.map(|entry| Ok(entry.doing_to("list", folder)?.path())).collect()
}

/// Deletes a place with all in it. What resists stays, out of everybody's way, until the next start.
fn discard(path: &Path) {
    // Its description goes first: what is left is then known to be nothing.
    let _ = fs::remove_file(path.join("whose"));
    let gone = Worktree::discard(path.join("work")).map_err(Error::from);
    let gone = gone.and_then(|()| match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).doing_to("delete", path),
        _ => Ok(()),
    });
    if let Err(error) = gone {
        tracing::warn!(%error, "a working copy that is not needed any more can't be deleted");
    }
}

#[cfg(test)]
mod tests;
