//! Writing a tree's files into a new worktree: raw bytes, exec bits, symbolic links as links,
//! submodules as empty folders. Every name is checked, and every step goes through a descriptor of
//! the folder above.

use std::{io, os::unix::ffi::OsStrExt, path::Path};

use git2::{Index, Oid, Repository};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, Stat, mkdirat, symlinkat},
};

use super::{at, stat};
use crate::{
    error::{Doing, DoingTo, Error},
    tree::{EXECUTABLE, Entry, FILE, LINK, MODULE, TreePath, entries, escapes, join, spell},
};

/// Writes all of `tree` into the empty folder `root` and fills `index` with what was written.
pub(super) fn write(
    repo: &Repository,
    tree: Oid,
    root: &OwnedFd,
    place: &Path,
    index: &mut Index,
) -> Result<(), Error> {
    Checkout { repo, place, index }.folder(tree, root, &[])
}

struct Checkout<'a> {
    repo: &'a Repository,
    place: &'a Path,
    index: &'a mut Index,
}

impl Checkout<'_> {
    fn folder(&mut self, tree: Oid, folder: &OwnedFd, prefix: &[u8]) -> Result<(), Error> {
        for (name, entry) in entries(self.repo, tree)? {
            let path = join(prefix, &name);
            // A path's length bounds the depth, and with it the open descriptors and the stack.
            if escapes(&name) || path.iter().filter(|b| **b == b'/').count() > super::walk::DEPTH_LIMIT {
                return Err(Error::Escapes { path: spell(&path) });
            }
            let place = || self.place.join(std::ffi::OsStr::from_bytes(&path));
            match entry.mode {
                FILE | EXECUTABLE | LINK => {
                    let blob = self.repo.find_blob(entry.id).doing("read a file")?;
                    let written = put(folder, &name, entry.mode, blob.content());
                    let seen = written.doing_to("write", place())?;
                    self.note(path, entry, &seen)?;
                }
                mode => {
                    mkdirat(folder, name.as_slice(), Mode::from_raw_mode(0o777))
                        .doing_to("make the folder", place())?;
                    let below = at::open_folder(folder, name.as_slice()).doing_to("open", place())?;
                    if mode == MODULE {
                        let seen = rustix::fs::fstat(&below).doing_to("look at", place())?;
                        self.note(path, entry, &seen)?;
                    } else {
                        self.folder(entry.id, &below, &path)?;
                    }
                }
            }
        }
        Ok(())
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
