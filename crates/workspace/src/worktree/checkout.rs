//! Writing a tree's files into a worktree: raw bytes, exec bits, symbolic links as links, submodules
//! as empty folders. Every name is checked, and every step goes through a descriptor of the folder
//! above. What an earlier attempt left is cleared on the way by `recycle`.

use std::{
    collections::HashMap,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use git2::{Index, Oid, Repository};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, Stat, mkdirat, symlinkat},
};

use super::{
    at,
    recycle::{Here, Leftovers},
    stat,
};
use crate::{
    error::{Doing, DoingTo, Error},
    tree::{EXECUTABLE, Entry, FILE, LINK, MODULE, TreePath, entries, escapes, join, spell},
};

/// A tree and where it is to be.
pub(super) struct Whole<'a> {
    pub(super) repo: &'a Repository,
    pub(super) tree: Oid,
    pub(super) root: &'a OwnedFd,
}

/// Makes `root`, which is empty or holds `old`, have the files of the tree and no others, and fills
/// `index` with them.
pub(super) fn write(
    whole: &Whole<'_>,
    old: Option<&mut Leftovers<'_>>,
    place: &Path,
    index: &mut Index,
) -> Result<(), Error> {
    let mut checkout = Checkout { repo: whole.repo, place, index };
    let here = Here { folder: whole.root, prefix: &[], ignored: false };
    checkout.folder(whole.tree, &here, old)
}

struct Checkout<'a> {
    repo: &'a Repository,
    place: &'a Path,
    index: &'a mut Index,
}

impl Checkout<'_> {
    fn folder(
        &mut self,
        tree: Oid,
        here: &Here<'_>,
        mut old: Option<&mut Leftovers<'_>>,
    ) -> Result<(), Error> {
        let entries = entries(self.repo, tree)?;
        let (mut kept, mut depth) = (HashMap::new(), 0);
        if let Some(old) = &mut old {
            depth = old.enter(here.prefix, &entries)?;
            kept = old.clear(here, &entries)?;
        }
        for (name, entry) in entries {
            let path = join(here.prefix, &name);
            // A path's length bounds the depth, and with it the open descriptors and the stack.
            if escapes(&name) || path.iter().filter(|b| **b == b'/').count() > super::walk::DEPTH_LIMIT {
                return Err(Error::Escapes { path: spell(&path) });
            }
            let there = kept.get(&name);
            match entry.mode {
                FILE | EXECUTABLE | LINK => {
                    let seen = match there {
                        Some(seen) => *seen,
                        None => self.put(here.folder, &name, &path, entry)?,
                    };
                    self.note(path, entry, &seen)?;
                }
                mode => {
                    let below = self.enter(here.folder, &name, &path, there.is_some())?;
                    if mode == MODULE {
                        let seen = rustix::fs::fstat(&below).doing_to("look at", self.at(&path))?;
                        self.note(path, entry, &seen)?;
                    } else {
                        // In a folder that was just made nothing is left over.
                        let old = old.as_deref_mut().filter(|_| there.is_some());
                        let ignored = old.as_ref().is_some_and(|old| old.ignores(here, &path));
                        let below = Here { folder: &below, prefix: &path, ignored };
                        self.folder(entry.id, &below, old)?;
                    }
                }
            }
        }
        if let Some(old) = old {
            old.leave(depth);
        }
        Ok(())
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.place.join(std::ffi::OsStr::from_bytes(path))
    }

    fn enter(&self, folder: &OwnedFd, name: &[u8], path: &[u8], there: bool) -> Result<OwnedFd, Error> {
        if !there {
            mkdirat(folder, name, Mode::from_raw_mode(0o777)).doing_to("make the folder", self.at(path))?;
        }
        at::open_folder(folder, name).doing_to("open", self.at(path))
    }

    fn put(&self, folder: &OwnedFd, name: &[u8], path: &[u8], entry: Entry) -> Result<Stat, Error> {
        let blob = self.repo.find_blob(entry.id).doing("read a file")?;
        put(folder, name, entry.mode, blob.content()).doing_to("write", self.at(path))
    }

    fn note(&mut self, path: TreePath, entry: Entry, seen: &Stat) -> Result<(), Error> {
        self.index.add(&stat::index_entry(path, entry, seen)).doing("fill an index")
    }
}

fn put(folder: &OwnedFd, name: &[u8], mode: i32, bytes: &[u8]) -> io::Result<Stat> {
    if mode == LINK {
        symlinkat(bytes, folder, name)?;
        return at::look(folder, name);
    }
    let mode = if mode == EXECUTABLE { 0o777 } else { 0o666 };
    at::create_file(folder, name, Mode::from_raw_mode(mode), bytes)
}
