//! The walk through a worktree: what every name in it is, and whether it belongs to the capture.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _},
};

use ensemble_core::plan::path;
use rustix::{
    fd::OwnedFd,
    fs::{Dir, FileType, Stat, readlinkat},
};

use super::{
    at,
    capture::{Capture, Skipped, Why},
    ignored::{self, Rules},
    stat::Looks,
    store::Store,
};
use crate::{
    error::Error,
    tree::{EXECUTABLE, Entry, FILE, LINK, join, spell},
};

/// Deepest folder: each open one holds a descriptor.
pub(super) const DEPTH_LIMIT: usize = 200;

/// Largest file: what an attempt's pack may carry (design: 1 GiB).
pub(super) const FILE_LIMIT: u64 = 1 << 30;

/// All that a capture reads, before compression: beyond it no pack would fit.
const TOTAL_LIMIT: u64 = 4 << 30;

/// What a walk found.
#[derive(Default)]
pub(super) struct Found {
    /// What belongs to the capture.
    pub(super) files: BTreeMap<String, Entry>,
    /// What was left out, first ones first.
    pub(super) skipped: Vec<Skipped>,
    pub(super) more_skipped: u64,
    /// Paths that stay as they are in the base, with all below them.
    kept: BTreeSet<String>,
}

impl Found {
    /// Whether `path` stays as it is in the base.
    pub(super) fn keeps(&self, path: &str) -> bool {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above.chain([path]).any(|path| self.kept.contains(path))
    }

    /// Whether `output` is there, as a file or as a folder with files.
    pub(super) fn holds(&self, output: &str) -> bool {
        self.files.contains_key(output) || any_below(self.files.keys_from(output), output)
    }

    fn skip(&mut self, path: &str, why: Why) {
        self.kept.insert(path.to_owned());
        self.name(path, why);
    }

    fn name(&mut self, path: &str, why: Why) {
        if self.skipped.len() < Capture::NAMED {
            self.skipped.push(Skipped { path: path.to_owned(), why });
        } else {
            self.more_skipped += 1;
        }
    }
}

/// The keys of an ordered collection that are not below `start`.
trait KeysFrom {
    fn keys_from(&self, start: &str) -> impl Iterator<Item = &String>;
}

impl<V> KeysFrom for BTreeMap<String, V> {
    fn keys_from(&self, start: &str) -> impl Iterator<Item = &String> {
        self.range(format!("{start}/")..).map(|(key, _)| key)
    }
}

impl KeysFrom for BTreeSet<String> {
    fn keys_from(&self, start: &str) -> impl Iterator<Item = &String> {
        self.range(format!("{start}/")..)
    }
}

fn any_below<'a>(mut keys: impl Iterator<Item = &'a String>, folder: &str) -> bool {
    keys.next().is_some_and(|key| key.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

/// Which files of a folder are wanted besides those of the base and the declared ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// Those that no rule leaves out.
    Unignored,
    /// None: the folder is ignored.
    Tracked,
    /// All: the folder is a declared output.
    All,
}

/// A walk through one worktree.
pub(super) struct Walk<'a> {
    store: Store<'a>,
    tracked: &'a BTreeMap<String, Entry>,
    outputs: &'a BTreeSet<String>,
    looks: &'a Looks,
    rules: Rules,
    found: Found,
    read: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        store: Store<'a>,
        tracked: &'a BTreeMap<String, Entry>,
        outputs: &'a BTreeSet<String>,
        looks: &'a Looks,
    ) -> Self {
        let (rules, found) = (Rules::default(), Found::default());
        Self { store, tracked, outputs, looks, rules, found, read: 0 }
    }

    pub(super) fn run(mut self, root: &OwnedFd) -> Result<Found, Error> {
        for (path, entry) in self.tracked {
            if entry.is_module() {
                self.found.kept.insert(path.clone());
            }
        }
        if let Err(source) = self.folder(root, "", Want::Unignored, 0)? {
            return Err(Error::Io { doing: "read", path: "the worktree".into(), source });
        }
        Ok(self.found)
    }

    /// Walks one folder; the inner result tells whether it could be listed.
    fn folder(
        &mut self,
        folder: &OwnedFd,
        path: &str,
        want: Want,
        depth: usize,
    ) -> Result<io::Result<()>, Error> {
        let names = match list(folder) {
            Ok(names) => names,
            Err(error) => return Ok(Err(error)),
        };
        let (rules, prefix) = (self.rules.depth(), if path.is_empty() { 0 } else { path.len() + 1 });
        if want == Want::Unignored
            && let Ok(Some(file)) = at::open_file(folder, ".gitignore")
        {
            let mut text = Vec::new();
            // One that can't be read leaves nothing out.
            let _ = file.take(ignored::LIMIT).read_to_end(&mut text);
            self.rules.push(prefix, &text);
        }
        for name in names {
            match String::from_utf8(name) {
                Ok(name) if path.is_empty() && name == ".git" => {}
                Ok(name) if path.is_empty() => self.name(folder, &name, &name, want, depth)?,
                Ok(name) => self.name(folder, &name, &format!("{path}/{name}"), want, depth)?,
                Err(error) if want != Want::Tracked => {
                    let name = join(path.as_bytes(), error.as_bytes());
                    self.found.name(&spell(&name), Why::NotText);
                }
                Err(_) => {}
            }
        }
        self.rules.truncate(rules);
        Ok(Ok(()))
    }

    fn name(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        want: Want,
        depth: usize,
    ) -> Result<(), Error> {
        let seen = match at::look(folder, name) {
            Ok(seen) => seen,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.found.skip(path, Why::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        let kind = FileType::from_raw_mode(seen.st_mode);
        let is_folder = kind == FileType::Directory;
        let want = match want {
            _ if self.outputs.contains(path) => Want::All,
            Want::Unignored if self.rules.ignores(path, is_folder) => Want::Tracked,
            want => want,
        };
        let tracked = self.tracked.get(path).copied();
        let here = want != Want::Tracked || tracked.is_some();
        let below = is_folder
            && (any_below(self.tracked.keys_from(path), path)
                || any_below(self.outputs.keys_from(path), path));
        if !here && !below {
            return Ok(());
        }
        if name == ".git" {
            self.found.name(path, Why::NestedGit);
            return Ok(());
        }
        // A name of the base is as it is; a new one must be plain.
        if tracked.is_none()
            && !below
            && let Err(why) = path::check(path)
        {
            self.found.skip(path, Why::Name(why));
            return Ok(());
        }
        if tracked.is_some_and(Entry::is_module) {
            return self.module(folder, name, path, is_folder);
        }
        match kind {
            FileType::Directory => self.enter(folder, name, path, want, depth),
            FileType::RegularFile => self.file(folder, name, path, &seen, tracked),
            FileType::Symlink => self.link(folder, name, path, tracked),
            _ => {
                self.found.skip(path, Why::Special);
                Ok(())
            }
        }
    }

    /// A submodule stays; what an agent put there is named.
    fn module(&mut self, folder: &OwnedFd, name: &str, path: &str, is_folder: bool) -> Result<(), Error> {
        let empty = is_folder
            && at::open_folder(folder, name)
                .and_then(|below| list(&below))
                .is_ok_and(|names| names.is_empty());
        if !empty {
            self.found.skip(path, Why::Submodule);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        want: Want,
        depth: usize,
    ) -> Result<(), Error> {
        if depth >= DEPTH_LIMIT {
            self.found.skip(path, Why::TooDeep);
            return Ok(());
        }
        let walked = match at::open_folder(folder, name) {
            Ok(below) => self.folder(&below, path, want, depth + 1)?,
            Err(error) => Err(error),
        };
        if let Err(error) = walked {
            self.found.skip(path, Why::Unreadable(error.to_string()));
        }
        Ok(())
    }

    fn file(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        seen: &Stat,
        tracked: Option<Entry>,
    ) -> Result<(), Error> {
        if let Some(entry) = tracked
            && entry.is_file()
            && self.looks.unchanged(path.as_bytes(), entry, seen)
        {
            self.found.files.insert(path.to_owned(), entry);
            return Ok(());
        }
        let size = u64::try_from(seen.st_size).unwrap_or(0);
        if size >= FILE_LIMIT {
            self.found.skip(path, Why::TooLarge);
            return Ok(());
        }
        self.read += size;
        if self.read > TOTAL_LIMIT {
            return Err(Error::TooLarge { what: "what changed in the worktree", limit: TOTAL_LIMIT });
        }
        match at::open_file(folder, name) {
            Ok(Some(file)) => match self.store.file(file, size)? {
                Ok(id) => {
                    let mode = if seen.st_mode & 0o100 == 0 { FILE } else { EXECUTABLE };
                    self.found.files.insert(path.to_owned(), Entry { mode, id });
                }
                Err(error) => self.found.skip(path, Why::Unreadable(error.to_string())),
            },
            Ok(None) => self.found.skip(path, Why::Special),
            Err(error) => self.found.skip(path, Why::Unreadable(error.to_string())),
        }
        Ok(())
    }

    fn link(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        tracked: Option<Entry>,
    ) -> Result<(), Error> {
        let target = match readlinkat(folder, name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(error) => {
                self.found.skip(path, Why::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        let id = self.store.bytes(&target)?;
        let entry = Entry { mode: LINK, id };
        // One that the base has is the user's own.
        if tracked == Some(entry) || stays_inside(path, &target) {
            self.found.files.insert(path.to_owned(), entry);
        } else {
            self.found.skip(path, Why::LinkOut);
        }
        Ok(())
    }
}

/// Whether a link at `path` to `target` stays in the worktree and out of `.git`. Going up is
/// allowed at the start only: after another name it would start from wherever that name leads.
fn stays_inside(path: &str, target: &[u8]) -> bool {
    let mut room = path.matches('/').count();
    let mut down = false;
    if target.first() == Some(&b'/') {
        return false;
    }
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if down || room == 0 => return false,
            b".." => room -= 1,
            name if crate::tree::escapes(name) => return false,
            _ => down = true,
        }
    }
    true
}

/// The names in a folder, in order.
pub(super) fn list(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort();
    Ok(names)
}
