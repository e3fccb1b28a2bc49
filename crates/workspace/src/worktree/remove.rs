//! Deleting a worktree, whatever its agent left in it: read-only folders, links that lead out,
//! trees too deep for the number of open files. The proof that nothing is lost is the caller's.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, chmodat, fchmod, renameat, unlinkat},
    io::Errno,
    path::Arg,
};

use super::{Worktree, at};
use crate::error::{DoingTo, Error};

/// Folders are open at once down to here; deeper ones are first moved to the top.
const DEPTH_LIMIT: usize = 64;

impl Worktree {
    /// Deletes the working copy and its record. Not there is success; a call that was interrupted
    /// can be repeated. Links are deleted, never followed.
    ///
    /// # Errors
    /// When something can't be deleted; the rest may be gone then.
    pub fn remove(self) -> Result<(), Error> {
        clear(&self.path)?;
        match std::fs::remove_file(self.stat_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.doing_to("delete", self.stat_path()),
        }
    }

    /// As [`Worktree::remove`], for what an interrupted creation left at `path`.
    ///
    /// # Errors
    /// As there.
    pub fn discard(path: impl Into<PathBuf>) -> Result<(), Error> {
        Self { path: path.into() }.remove()
    }
}

fn clear(path: &Path) -> Result<(), Error> {
    let _ = std::fs::symlink_metadata(path).map(|found| {
        // A folder that may not be listed may still be ours.
        if found.is_dir() { rustix::fs::chmod(path, Mode::RWXU) } else { Ok(()) }
    });
    let root = match at::open_root(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.doing_to("open", path)?,
    };
    empty(&root).doing_to("delete files in", path)?;
    std::fs::remove_dir(path).doing_to("delete", path)
}

/// Deletes what a folder holds.
fn empty(root: &OwnedFd) -> io::Result<()> {
    let mut top = Top { root, moved: 0 };
    // What was moved to the top is deleted in the next round.
    while !top.empty(root, 0)? {}
    Ok(())
}

/// Deletes what has this name in a folder, with all below. Not there is success.
pub(super) fn entry(folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
    let kind = match at::look(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        seen => FileType::from_raw_mode(seen?.st_mode),
    };
    if kind != FileType::Directory {
        return gone(unlinkat(folder, name, AtFlags::empty()));
    }
    empty(&at_any_rate(folder, name)?)?;
    gone(unlinkat(folder, name, AtFlags::REMOVEDIR))
}

/// Opens a folder, be it by changing its rights first.
fn at_any_rate(folder: &OwnedFd, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    match at::open_folder(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
            at::open_folder(folder, name)
        }
        opened => opened,
    }
}

struct Top<'a> {
    root: &'a OwnedFd,
    moved: u64,
}

impl Top<'_> {
    /// Deletes what is in `folder`; says whether there was nothing left to do.
    fn empty(&mut self, folder: &OwnedFd, depth: usize) -> io::Result<bool> {
        fchmod(folder, Mode::RWXU)?;
        let names: Vec<_> = Dir::read_from(folder)?
            .map(|entry| entry.map(|e| e.file_name().to_owned()))
            .filter(|name| !matches!(name, Ok(name) if matches!(name.to_bytes(), b"." | b"..")))
            .collect::<Result<_, _>>()?;
        for name in &names {
            let name = name.as_c_str();
            let kind = match at::look(folder, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                seen => FileType::from_raw_mode(seen?.st_mode),
            };
            if kind != FileType::Directory {
                gone(unlinkat(folder, name, AtFlags::empty()))?;
            } else if depth >= DEPTH_LIMIT {
                renameat(folder, name, self.root, self.free_name()?)?;
            } else {
                self.empty(&at_any_rate(folder, name)?, depth + 1)?;
                gone(unlinkat(folder, name, AtFlags::REMOVEDIR))?;
            }
        }
        Ok(names.is_empty())
    }

    /// A name that nothing at the top has.
    fn free_name(&mut self) -> io::Result<String> {
        loop {
            self.moved += 1;
            let name = format!(".deep-{}", self.moved);
            match at::look(self.root, name.as_str()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }
}

fn gone(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}
