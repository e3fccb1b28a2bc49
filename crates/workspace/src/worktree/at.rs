//! Files by folder descriptor and name: no symbolic link is ever followed, so nothing that an
//! agent left behind can lead out of its worktree.

use std::{
    fs::File,
    io::{self, Read as _, Write},
    path::Path,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat},
    path::Arg,
};

pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What was read of a file.
pub(super) enum Read {
    Whole(Vec<u8>),
    TooLarge,
}

/// Opens the worktree's own folder.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, FOLDER | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Opens a folder in a folder.
pub(super) fn open_folder(folder: &OwnedFd, name: impl Arg) -> io::Result<OwnedFd> {
    Ok(openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Looks at a name without following it.
pub(super) fn look(folder: &OwnedFd, name: impl Arg) -> io::Result<Stat> {
    Ok(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Opens a plain file for reading; nothing if it is something else. Never waits for a pipe's
/// other end.
pub(super) fn open_file(folder: &OwnedFd, name: impl Arg) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(None),
        opened => opened?,
    };
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    Ok((kind == FileType::RegularFile).then(|| File::from(file)))
}

/// Reads a file that may be changing: never more than `limit` bytes.
pub(super) fn read(file: File, limit: u64) -> io::Result<Read> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > limit { Read::TooLarge } else { Read::Whole(bytes) })
}

/// Makes a file that must not exist, and says how it looks then.
pub(super) fn create_file(folder: &OwnedFd, name: impl Arg, mode: Mode, bytes: &[u8]) -> io::Result<Stat> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, mode)?);
    file.write_all(bytes)?;
    Ok(fstat(&file)?)
}
