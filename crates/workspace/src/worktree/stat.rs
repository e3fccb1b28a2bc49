//! What each file looked like when it was written, so that a capture reads only what changed.
//! Stored as a git index beside the worktree; a missing or damaged one costs time, nothing else.

use std::{collections::HashMap, fs, os::unix::fs::MetadataExt, path::Path};

use git2::{Index, IndexEntry, IndexTime};
use rustix::fs::Stat;

use crate::tree::{Entry, TreePath};

/// The record of an entry. The fields are 32 bits wide in git's format; cut the same way on both
/// sides they still tell files apart.
pub(super) fn index_entry(path: TreePath, entry: Entry, seen: &Stat) -> IndexEntry {
    IndexEntry {
        ctime: IndexTime::new(seen.st_ctime as i32, seen.st_ctime_nsec as u32),
        mtime: IndexTime::new(seen.st_mtime as i32, seen.st_mtime_nsec as u32),
        dev: seen.st_dev as u32,
        ino: seen.st_ino as u32,
        mode: entry.mode as u32,
        uid: seen.st_uid,
        gid: seen.st_gid,
        file_size: seen.st_size as u32,
        id: entry.id,
        flags: 0,
        flags_extended: 0,
        path,
    }
}

/// The recorded looks of a worktree's files.
pub(super) struct Looks {
    entries: HashMap<TreePath, IndexEntry>,
    /// When the record was written.
    written: (i64, i64),
}

impl Looks {
    /// Reads the record at `path`; an empty one if it can't be read.
    pub(super) fn read(path: &Path) -> Self {
        let written = fs::metadata(path).map_or((0, 0), |m| (m.mtime(), m.mtime_nsec()));
        let entries = Index::open(path)
            .map(|index| index.iter().map(|entry| (entry.path.clone(), entry)).collect())
            .unwrap_or_default();
        Self { entries, written }
    }

    /// Whether the file at `path` is as it was written, with the content `entry`. The change time
    /// can't be set back by a program; a file as young as the record is not trusted, since a
    /// change within one tick of the clock would not show.
    pub(super) fn unchanged(&self, path: &[u8], entry: Entry, seen: &Stat) -> bool {
        let Some(then) = self.entries.get(path) else { return false };
        let now = index_entry(Vec::new(), entry, seen);
        let same =
            |a: &IndexTime, b: &IndexTime| (a.seconds(), a.nanoseconds()) == (b.seconds(), b.nanoseconds());
        then.id == now.id
            && then.mode == now.mode
            && same(&then.ctime, &now.ctime)
            && same(&then.mtime, &now.mtime)
            && (then.dev, then.ino, then.file_size) == (now.dev, now.ino, now.file_size)
            && (i64::from(then.ctime.seconds()), i64::from(then.ctime.nanoseconds())) < self.written
    }
}
