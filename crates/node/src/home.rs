//! A node's directory, `<data>/nodes/<n>`: who it is, its outbox, mirrors, attempts, free copies. A
//! kernel lock held for the process's life says that it is in use; a starting process takes a free
//! one and adopts all the others that are free, so that nothing a dead process left is forgotten.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use ensemble_core::{
    ids::{Incarnation, NodeId},
    link::AttemptKey,
};
use ensemble_workspace::Repository;

use crate::{
    Error, clock,
    error::DoingTo,
    folder::{self, Folder},
    mirrors::Mirrors,
};

/// The directories of this node: its own, and those that it has adopted.
#[derive(Debug)]
pub struct Home {
    own: Held,
    adopted: Vec<Held>,
}

/// A node's directory whose lock this process holds.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    id: NodeId,
    mirrors: Mirrors,
    lock: Arc<File>,
}

impl Home {
    /// Takes the first free directory below `<data>/nodes`, or makes a new one, and adopts all
    /// others that are free. Those that another process has locked are not touched.
    ///
    /// # Errors
    /// When the data directory can't be read or written.
    pub fn open_free(data: &Path) -> Result<Self, Error> {
        let nodes = data.join("nodes");
        fs::create_dir_all(&nodes).doing_to("make the folder", &nodes)?;
        let mut numbers: Vec<u32> = fs::read_dir(&nodes)
            .doing_to("list", &nodes)?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let mut held = Vec::new();
        for number in &numbers {
            held.extend(Held::take(nodes.join(number.to_string()))?);
        }
        let mut next = numbers.last().map_or(1, |last| last.saturating_add(1));
        // Another process may be making one at the same time: the lock decides.
        while held.is_empty() {
            held.extend(Held::take(nodes.join(next.to_string()))?);
            next = next.saturating_add(1);
        }
        let own = held.remove(0);
        Ok(Self { own, adopted: held })
    }

    /// The node's id, which survives its process.
    #[must_use]
    pub fn id(&self) -> &NodeId {
        &self.own.id
    }

    /// The directory of this node's own.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.own.path
    }

    /// Own and adopted directories, the own one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Held> {
        std::iter::once(&self.own).chain(&self.adopted)
    }

    pub(crate) fn own(&self) -> &Held {
        &self.own
    }

    pub(crate) fn adopted(&self) -> &[Held] {
        &self.adopted
    }

    /// The attempt's directory, wherever one of this key lies, and the mirrors beside it.
    pub(crate) fn find(&self, key: &AttemptKey) -> Option<(Folder, Mirrors)> {
        let places = self.all().map(|held| (held.folder(key), held.mirrors().clone()));
        places.into_iter().find(|(folder, _)| folder.exists())
    }

    /// All attempts that have a directory, with the mirrors beside it.
    pub(crate) fn attempts(&self) -> Result<Vec<(Folder, Mirrors)>, Error> {
        let mut all = Vec::new();
        for held in self.all() {
            all.extend(folder::list(&held.path)?.into_iter().map(|folder| (folder, held.mirrors.clone())));
        }
        Ok(all)
    }

    /// A new incarnation, higher than every one before it: the wall clock, unless that went back.
    pub(crate) fn next_incarnation(&self) -> Result<Incarnation, Error> {
        let path = self.own.path.join("incarnation");
        let last = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| damaged(&path, "it holds no number"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error).doing_to("read", path),
        };
        let next = clock::wall_ms().max(last + 1);
        write_durably(&path, next.to_string().as_bytes())?;
        Ok(Incarnation(next))
    }
}

impl Held {
    /// The directory with its lock; nothing if another process holds it.
    fn take(path: PathBuf) -> Result<Option<Self>, Error> {
        fs::create_dir_all(&path).doing_to("make the folder", &path)?;
        let file = path.join("lock");
        let lock = File::options().create(true).append(true).open(&file).doing_to("open", &file)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).doing_to("lock", file),
        }
        let id = identify(&path)?;
        for folder in ["mirrors", "attempts"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).doing_to("make the folder", &folder)?;
        }
        unlock_mirrors(&path.join("mirrors"))?;
        let mirrors = Mirrors::new(path.join("mirrors"));
        Ok(Some(Self { path, id, mirrors, lock: Arc::new(lock) }))
    }

    /// All directories below `<data>/nodes` that no other process holds, and how many are held.
    pub(crate) fn free(data: &Path) -> Result<(Vec<Self>, usize), Error> {
        let nodes = data.join("nodes");
        let entries = match fs::read_dir(&nodes) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(error).doing_to("list", nodes),
        };
        let (mut free, mut taken) = (Vec::new(), 0);
        for entry in entries {
            let path = entry.doing_to("list", &nodes)?.path();
            if path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.parse::<u32>().is_err())
            {
                continue;
            }
            match Self::take(path)? {
                Some(held) => free.push(held),
                None => taken += 1,
            }
        }
        Ok((free, taken))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> &NodeId {
        &self.id
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.path.join("outbox.db")
    }

    /// Where working copies wait for their next attempt.
    pub(crate) fn idle(&self) -> PathBuf {
        self.path.join("free")
    }

    /// The directory's lock.
    pub(crate) fn lock(&self) -> &Arc<File> {
        &self.lock
    }

    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    pub(crate) fn folder(&self, key: &AttemptKey) -> Folder {
        Folder::of(&self.path, key)
    }
}

/// Makes the mirrors' refs writable again: a process that was killed may have held the lock of one.
fn unlock_mirrors(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).doing_to("list", folder)? {
        let path = entry.doing_to("list", folder)?.path();
        if path.extension().is_some_and(|extension| extension == "git") {
            Repository::open_or_create(path)?.clear_locks("refs")?;
        }
    }
    Ok(())
}

/// The node id in the directory, made on first use.
fn identify(path: &Path) -> Result<NodeId, Error> {
    let file = path.join("id");
    match fs::read_to_string(&file) {
        Ok(text) => NodeId::new(text.trim()).map_err(|why| damaged(&file, why)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = format!("n-{:012x}", rand::random::<u64>() >> 16);
            write_durably(&file, id.as_bytes())?;
            NodeId::new(id).map_err(|why| damaged(&file, why))
        }
        Err(error) => Err(error).doing_to("read", file),
    }
}

fn damaged(path: &Path, what: impl ToString) -> Error {
    Error::Damaged { path: path.to_owned(), what: what.to_string() }
}

/// Writes a file so that after a crash it is there whole, or as it was before.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).doing_to("write", &new)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).doing_to("write", &new)?;
    fs::rename(&new, path).doing_to("write", path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes what was created in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).doing_to("write out", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_gets_a_directory_of_its_own_and_a_third_adopts_what_is_free() {
        let data = tempfile::tempdir().unwrap();
        let first = Home::open_free(data.path()).unwrap();
        let second = Home::open_free(data.path()).unwrap();
        assert_ne!(first.id(), second.id());
        assert!(second.adopted().is_empty(), "the first is locked");
        let (one, two) = (first.id().clone(), second.id().clone());
        drop((first, second));
        let third = Home::open_free(data.path()).unwrap();
        assert_eq!(third.id(), &one);
        assert_eq!(third.adopted()[0].id(), &two);
    }

    #[test]
    fn what_a_killed_process_locked_in_a_mirror_is_free_again() {
        let data = tempfile::tempdir().unwrap();
        let home = Home::open_free(data.path()).unwrap();
        let mirror = Repository::open_or_create(home.path().join("mirrors/shop.git")).unwrap();
        let lock = mirror.path().join("refs/ensemble/run/task/1.lock");
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(&lock, "").unwrap();
        drop(home);
        drop(Home::open_free(data.path()).unwrap());
        assert!(!lock.exists());
    }

    #[test]
    fn incarnations_grow_even_when_the_clock_goes_back() {
        let data = tempfile::tempdir().unwrap();
        let home = Home::open_free(data.path()).unwrap();
        let first = home.next_incarnation().unwrap();
        let future = clock::wall_ms() + 1_000_000;
        fs::write(home.path().join("incarnation"), future.to_string()).unwrap();
        assert_eq!(home.next_incarnation().unwrap(), Incarnation(future + 1));
        assert!(first < Incarnation(future));
    }
}
