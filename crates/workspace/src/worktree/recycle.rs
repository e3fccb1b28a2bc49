//! Making a working copy that was used before ready for another base: only what differs is written,
//! what is untracked goes, the agent's `.git` is made anew. Whether anything may still run in it,
//! and whose leftovers may stay, is decided elsewhere.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use ensemble_core::ids::CommitId;
use git2::Repository as Git;
use rustix::{
    fd::OwnedFd,
    fs::{FileType, Stat, fgetxattr, flistxattr, fstat},
};

use super::{
    Worktree, at,
    checkout::Whole,
    ignored::{self, Rules},
    remove,
    stat::Looks,
    walk,
};
use crate::{
    error::{Doing, DoingTo, Error},
    fault,
    repository::Repository,
    tree::{Entry, FOLDER, LINK, TreePath, commit, escapes, join},
};

/// Largest attribute, and largest list of attribute names, that is looked at: the kernel's limit.
const ATTRIBUTE_LIMIT: usize = 64 * 1024;

impl Worktree {
    /// Makes the working copy at `path`, which was made before and in which nothing runs any more,
    /// ready for `base`: afterwards it is as [`Worktree::create`] makes one. With `keep_ignored`,
    /// untracked files that the `.gitignore` files of `base` leave out stay, for an employee who
    /// meets its own build again. The record beside the copy goes first and comes back last, so an
    /// interrupted call leaves a copy without one, and that is refused.
    ///
    /// # Errors
    /// [`Error::Unfinished`] for a copy in an unknown state, and all that `create` refuses. The copy
    /// is good for [`Worktree::discard`] only then.
    pub fn recycle(
        mirror: &Repository,
        path: impl Into<PathBuf>,
        base: &CommitId,
        keep_ignored: bool,
    ) -> Result<Self, Error> {
        fault!("workspace.recycle");
        let worktree = Self { path: path.into() };
        let unfinished = || Error::Unfinished { path: worktree.path.clone() };
        let repo = mirror.git()?;
        let tree = commit(&repo, base)?.tree_id();
        let record = worktree.stat_path();
        let looks = Looks::read(&record);
        match fs::remove_file(&record) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unfinished()),
            done => done.doing_to("delete", &record)?,
        }
        let root = at::open_root(&worktree.path).doing_to("open", &worktree.path)?;
        let fresh = Look::of_new(&worktree.path)?;
        if Look::of(&root).doing_to("look at", &worktree.path)? != fresh {
            return Err(unfinished());
        }
        remove::entry(&root, b".git").doing_to("delete files in", &worktree.path)?;
        fault!("workspace.recycle");
        let rules = keep_ignored.then(Rules::default);
        let mut old = Leftovers { repo: &repo, place: &worktree.path, looks, fresh, rules };
        worktree.fill(mirror, base, &Whole { repo: &repo, tree, root: &root }, Some(&mut old))?;
        fault!("workspace.recycle.done");
        Ok(worktree)
    }

    /// Moves the working copy to `path`, which must not exist and lies on the same file system. An
    /// interrupted call leaves nothing that looks whole in two places.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn move_to(self, path: impl Into<PathBuf>) -> Result<Self, Error> {
        let moved = Self { path: path.into() };
        if let Some(parent) = moved.path.parent() {
            fs::create_dir_all(parent).doing_to("make the folder", parent)?;
        }
        fs::rename(self.stat_path(), moved.stat_path()).doing_to("move", self.stat_path())?;
        fs::rename(&self.path, &moved.path).doing_to("move", &self.path)?;
        Ok(moved)
    }
}

/// What an earlier attempt left in a working copy.
pub(super) struct Leftovers<'a> {
    repo: &'a Git,
    place: &'a Path,
    looks: Looks,
    fresh: Look,
    /// What may stay although it is untracked; nothing where all of it goes.
    rules: Option<Rules>,
}

/// A folder of the tree and what is known of it.
pub(super) struct Here<'f> {
    pub(super) folder: &'f OwnedFd,
    pub(super) prefix: &'f [u8],
    /// Whether it, or a folder above it, is ignored.
    pub(super) ignored: bool,
}

impl Leftovers<'_> {
    /// Deletes what is in a folder and not in `wanted`, or there in another form. What is left of
    /// `wanted` stays as it is.
    pub(super) fn clear(
        &mut self,
        here: &Here<'_>,
        wanted: &[(Vec<u8>, Entry)],
    ) -> Result<HashMap<Vec<u8>, Stat>, Error> {
        let place =
            || self.place.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(here.prefix));
        let entries: HashMap<&[u8], Entry> = wanted.iter().map(|(name, e)| (name.as_slice(), *e)).collect();
        let mut kept = HashMap::new();
        for name in walk::list(here.folder).doing_to("list", place())? {
            if here.prefix.is_empty() && name == b".git" {
                continue;
            }
            let path = join(here.prefix, &name);
            let seen = match at::look(here.folder, name.as_slice()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                seen => seen.doing_to("look at", place())?,
            };
            match entries.get(name.as_slice()) {
                Some(entry) if self.fits(here.folder, &name, &path, *entry, &seen) => {
                    kept.insert(name, seen);
                }
                None if self.may_stay(here, &name, &path, &seen) => {}
                _ => remove::entry(here.folder, &name).doing_to("delete files in", place())?,
            }
        }
        Ok(kept)
    }

    /// Whether what is there is what a new copy would have: content, kind, rights and attributes.
    fn fits(&self, folder: &OwnedFd, name: &[u8], path: &TreePath, entry: Entry, seen: &Stat) -> bool {
        if entry.is_file() || entry.mode == LINK {
            // A second name would let whoever holds it change the file later.
            return seen.st_nlink == 1 && self.looks.unchanged(path, entry, seen);
        }
        entry.mode == FOLDER
            && FileType::from_raw_mode(seen.st_mode) == FileType::Directory
            && at::open_folder(folder, name)
                .and_then(|folder| Look::of(&folder))
                .is_ok_and(|l| l == self.fresh)
    }

    fn may_stay(&self, here: &Here<'_>, name: &[u8], path: &[u8], seen: &Stat) -> bool {
        let Some(rules) = &self.rules else { return false };
        let is_folder = FileType::from_raw_mode(seen.st_mode) == FileType::Directory;
        !escapes(name)
            && (here.ignored || std::str::from_utf8(path).is_ok_and(|path| rules.ignores(path, is_folder)))
    }

    /// Whether the folder at `path` is ignored, so that all that is untracked below may stay.
    pub(super) fn ignores(&self, here: &Here<'_>, path: &[u8]) -> bool {
        let rules = self.rules.as_ref();
        here.ignored
            || rules
                .is_some_and(|rules| std::str::from_utf8(path).is_ok_and(|path| rules.ignores(path, true)))
    }

    /// Goes into a folder whose files are `wanted`; what to give [`Leftovers::leave`]. The rules are
    /// those of the base: what the agent wrote into a `.gitignore` keeps nothing.
    pub(super) fn enter(&mut self, prefix: &[u8], wanted: &[(Vec<u8>, Entry)]) -> Result<usize, Error> {
        let Some(rules) = &mut self.rules else { return Ok(0) };
        let depth = rules.depth();
        if let Some((_, entry)) = wanted.iter().find(|(name, e)| name == b".gitignore" && e.is_file()) {
            let blob = self.repo.find_blob(entry.id).doing("read a file")?;
            let limit = usize::try_from(ignored::LIMIT).unwrap_or(usize::MAX);
            let text = &blob.content()[..blob.size().min(limit)];
            rules.push(if prefix.is_empty() { 0 } else { prefix.len() + 1 }, text);
        }
        Ok(depth)
    }

    pub(super) fn leave(&mut self, depth: usize) {
        if let Some(rules) = &mut self.rules {
            rules.truncate(depth);
        }
    }
}

/// How a folder looks apart from what is in it: rights, owner, extended attributes, which the files
/// made in it may inherit.
#[derive(PartialEq, Eq)]
struct Look {
    mode: u32,
    owner: (u32, u32),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Look {
    fn of(folder: &OwnedFd) -> io::Result<Self> {
        let seen = fstat(folder)?;
        let mut names = Vec::with_capacity(ATTRIBUTE_LIMIT);
        let attributes = match flistxattr(folder, rustix::buffer::spare_capacity(&mut names)) {
            Ok(_) => names,
            Err(rustix::io::Errno::NOTSUP) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let each = attributes.split(|b| *b == 0).filter(|name| !name.is_empty());
        let attributes = each.map(|name| {
            let mut value = Vec::with_capacity(ATTRIBUTE_LIMIT);
            fgetxattr(folder, name, rustix::buffer::spare_capacity(&mut value))?;
            Ok((name.to_vec(), value))
        });
        let mut attributes = attributes.collect::<io::Result<Vec<_>>>()?;
        attributes.sort();
        Ok(Self { mode: seen.st_mode, owner: (seen.st_uid, seen.st_gid), attributes })
    }

    /// How a folder looks that is made where the working copy is.
    fn of_new(worktree: &Path) -> Result<Self, Error> {
        let mut name = worktree.file_name().unwrap_or_default().to_owned();
        name.push(".look");
        let probe = worktree.with_file_name(name);
        match fs::create_dir(&probe) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.doing_to("make the folder", &probe)?,
        }
        let look = at::open_root(&probe).and_then(|folder| Self::of(&folder));
        fs::remove_dir(&probe).doing_to("delete", &probe)?;
        look.doing_to("look at", probe)
    }
}

#[cfg(test)]
mod tests;
