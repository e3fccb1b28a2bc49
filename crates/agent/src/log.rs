//! The log of an attempt on disk: the first 1 MiB and the last 15 MiB of all its output, in one
//! file of at most 16 MiB that can be read while it grows and after a crash of its writer.
//! Offsets count the bytes ever written, so a follower that keeps up sees everything once.
//!
//! Layout: magic, bytes written, bytes claimed (8 each, little endian), head, ring. A writer claims
//! before it writes over the ring and counts afterwards, so a reader knows what it can't trust.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::{
    tail::gap,
    turn::{Output, Stream},
};

/// Bytes kept from the beginning.
const HEAD: u64 = 1024 * 1024;
/// Bytes kept from the end.
const RING: u64 = 15 * 1024 * 1024;
/// Bytes before the head.
const HEADER: u64 = 24;
const MAGIC: &[u8; 8] = b"enslog1\n";

/// The writer of a log; there is one at a time.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    written: u64,
    /// Highest end ever claimed: after a crash it may be beyond what was written.
    claimed: u64,
    lost: u64,
}

/// A reader of a log, of any process.
#[derive(Debug)]
pub struct LogReader {
    file: File,
}

impl LogFile {
    /// Opens the log `path` to write at its end; makes it when it is missing.
    ///
    /// # Errors
    /// When it can't be opened, or is not a log (`InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < HEADER {
            file.set_len(0)?;
            file.write_all_at(&header(0, 0), 0)?;
        }
        let (written, claimed) = counters(&file)?;
        Ok(Self { file, written, claimed, lost: 0 })
    }

    /// Writes `bytes` at the end.
    ///
    /// # Errors
    /// What the disk says. The part that was not written is not counted; the log stays readable.
    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (at, room) = place(self.written);
            let (piece, rest) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            let after = self.written + piece.len() as u64;
            self.claimed = self.claimed.max(after);
            if after > HEAD + RING {
                self.file.write_all_at(&header(self.written, self.claimed), 0)?;
            }
            self.file.write_all_at(piece, at)?;
            self.file.write_all_at(&header(after, self.claimed), 0)?;
            self.written = after;
            bytes = rest;
        }
        Ok(())
    }

    /// Bytes ever written: the offset of its end.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// As [`LogReader::read_from`].
    ///
    /// # Errors
    /// What the disk says.
    pub fn read_from(&self, offset: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        read_from(&self.file, offset, max)
    }
}

/// A log never fails its attempt: what the disk refuses is counted and named in the log as soon as
/// it takes bytes again.
impl Output for LogFile {
    fn chunk(&mut self, _stream: Stream, bytes: &[u8]) {
        if self.lost > 0 {
            let note = format!("\n[… {} bytes lost: the disk did not take them …]\n", self.lost);
            if self.append(note.as_bytes()).is_ok() {
                self.lost = 0;
            }
        }
        let before = self.written;
        if let Err(error) = self.append(bytes) {
            if self.lost == 0 {
                tracing::warn!(%error, "the log of an attempt can't be written; its output is dropped for now");
            }
            self.lost += bytes.len() as u64 - (self.written - before);
        }
    }
}

impl LogReader {
    /// Bytes that are kept from the beginning.
    pub const HEAD: u64 = HEAD;
    /// Longest log that is kept whole.
    pub const KEPT: u64 = HEAD + RING;

    /// Opens the log `path`.
    ///
    /// # Errors
    /// When it is missing, can't be opened, or is not a log (`InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        counters(&file)?;
        Ok(Self { file })
    }

    /// At most `max` bytes from `offset` on, and the offset to go on from. Nothing: the end, for
    /// now. Where the middle was dropped: a line that says how many bytes, whole even beyond `max`.
    ///
    /// # Errors
    /// What the disk says.
    pub fn read_from(&self, offset: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        read_from(&self.file, offset, max)
    }

    /// Everything that is kept, at most 16 MiB and a line.
    ///
    /// # Errors
    /// What the disk says.
    pub fn read_all(&self) -> io::Result<Vec<u8>> {
        let (end, _) = counters(&self.file)?;
        let mut all = Vec::new();
        let mut offset = 0;
        while offset < end {
            let (bytes, next) = self.read_from(offset, usize::MAX)?;
            all.extend_from_slice(&bytes);
            offset = next;
        }
        Ok(all)
    }
}

fn header(written: u64, claimed: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&written.to_le_bytes());
    bytes[16..].copy_from_slice(&claimed.to_le_bytes());
    bytes
}

/// Bytes written and bytes claimed.
fn counters(file: &File) -> io::Result<(u64, u64)> {
    let mut bytes = [0; HEADER as usize];
    file.read_exact_at(&mut bytes, 0)?;
    if bytes[..8] != MAGIC[..] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not the log of an attempt"));
    }
    let number = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok((number(8), number(16)))
}

/// Where in the file the byte `offset` lies, and how many bytes follow it there in one piece.
fn place(offset: u64) -> (u64, u64) {
    match offset.checked_sub(HEAD) {
        None => (HEADER + offset, HEAD - offset),
        Some(beyond) => (HEADER + HEAD + beyond % RING, RING - beyond % RING),
    }
}

fn read_from(file: &File, offset: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
    let (written, claimed) = counters(file)?;
    if offset >= written || max == 0 {
        return Ok((Vec::new(), offset));
    }
    if let Some(missing) = overwritten(offset, claimed) {
        return Ok(missing);
    }
    let (at, room) = place(offset);
    let length = room.min(written - offset).min(max as u64);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(max)];
    file.read_exact_at(&mut bytes, at)?;
    // The writer may have come round while we read.
    let (_, claimed) = counters(file)?;
    Ok(overwritten(offset, claimed).unwrap_or((bytes, offset + length)))
}

/// The line for a gap at `offset` and where it ends, if what lay there is gone.
fn overwritten(offset: u64, claimed: u64) -> Option<(Vec<u8>, u64)> {
    let tail = claimed.saturating_sub(RING).max(HEAD);
    (offset >= HEAD && offset < tail).then(|| (gap(tail - offset).into_bytes(), tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (tempfile::TempDir, std::path::PathBuf, LogFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = LogFile::open(&path).unwrap();
        (dir, path, log)
    }

    #[test]
    fn a_short_log_is_whole_and_is_read_piece_by_piece() {
        let (_dir, path, mut log) = log();
        log.append(b"hello ").unwrap();
        let reader = LogReader::open(&path).unwrap();
        assert_eq!(reader.read_from(0, 4).unwrap(), (b"hell".to_vec(), 4));
        assert_eq!(reader.read_from(4, 100).unwrap(), (b"o ".to_vec(), 6));
        assert_eq!(reader.read_from(6, 100).unwrap(), (Vec::new(), 6), "nothing yet");
        log.append(b"world").unwrap();
        assert_eq!(reader.read_from(6, 100).unwrap(), (b"world".to_vec(), 11));
        assert_eq!(reader.read_all().unwrap(), b"hello world");
    }

    #[test]
    fn a_long_log_keeps_both_ends_within_its_bound() {
        let (_dir, path, mut log) = log();
        let pattern: Vec<u8> = (0..100_003_u32).map(|n| (n % 251) as u8).collect();
        let mut all = Vec::new();
        while all.len() < 40 * 1024 * 1024 {
            log.append(&pattern).unwrap();
            all.extend_from_slice(&pattern);
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= HEADER + HEAD + RING);
        let gone = all.len() - (HEAD + RING) as usize;
        let mut expected = all[..HEAD as usize].to_vec();
        expected.extend_from_slice(gap(gone as u64).as_bytes());
        expected.extend_from_slice(&all[HEAD as usize + gone..]);
        assert!(LogReader::open(&path).unwrap().read_all().unwrap() == expected);
    }

    #[test]
    fn a_follower_that_keeps_up_sees_every_byte_once() {
        let (_dir, path, mut log) = log();
        let reader = LogReader::open(&path).unwrap();
        let (mut offset, mut seen, mut sent) = (0, 0_u64, 0_u64);
        for round in 0..300_u64 {
            log.append(&vec![(round % 256) as u8; 100_000]).unwrap();
            sent += 100_000;
            while offset < sent {
                let (bytes, next) = reader.read_from(offset, 70_000).unwrap();
                assert!(bytes.iter().all(|byte| u64::from(*byte) == round % 256));
                seen += bytes.len() as u64;
                offset = next;
            }
        }
        assert_eq!(seen, sent);
    }

    #[test]
    fn a_writer_goes_on_where_a_dead_one_ended() {
        let (_dir, path, mut log) = log();
        log.append(b"one ").unwrap();
        drop(log);
        let mut log = LogFile::open(&path).unwrap();
        assert_eq!(log.written(), 4);
        log.append(b"two").unwrap();
        assert_eq!(LogReader::open(&path).unwrap().read_all().unwrap(), b"one two");
    }

    #[test]
    fn another_file_is_not_taken_for_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "x".repeat(100)).unwrap();
        assert_eq!(LogFile::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(LogReader::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
