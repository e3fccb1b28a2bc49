//! Where the bytes of a capture go: small files into memory, from where they are put on the disk
//! together, large ones and what exceeds a bound of memory straight to the disk.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
};

use git2::{ObjectType, Odb, Oid, Repository};

use super::{at, walk::FILE_LIMIT};
use crate::error::{Doing, Error};

/// Above the priorities of git's own stores, so that writing goes to memory.
const BEFORE_ALL: i32 = 1000;

/// What a capture keeps in memory: enough for any usual change.
const MEMORY_LIMIT: u64 = 64 << 20;

/// Files up to here are read at once, larger ones streamed.
const WHOLE_LIMIT: u64 = 16 << 20;

pub(super) struct Store<'r> {
    memory: Odb<'r>,
    disk: Odb<'r>,
    held: u64,
}

impl<'r> Store<'r> {
    /// From now on `repo` writes to memory; `disk` is another handle of the same repository.
    pub(super) fn new(repo: &'r Repository, disk: &'r Repository) -> Result<Self, Error> {
        let memory = repo.odb().doing("open the mirror")?;
        memory.add_new_mempack_backend(BEFORE_ALL).doing("open the mirror")?;
        Ok(Self { memory, disk: disk.odb().doing("open the mirror")?, held: 0 })
    }

    /// Stores bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<Oid, Error> {
        self.held += bytes.len() as u64;
        let odb = if self.held > MEMORY_LIMIT { &self.disk } else { &self.memory };
        odb.write(ObjectType::Blob, bytes).doing("store a file")
    }

    /// Stores a file's bytes; the inner result tells whether they could be read.
    pub(super) fn file(&mut self, file: File, size: u64) -> Result<io::Result<Oid>, Error> {
        if size > WHOLE_LIMIT {
            return self.stream(file, size);
        }
        match at::read(file, FILE_LIMIT) {
            Ok(at::Read::Whole(bytes)) => self.bytes(&bytes).map(Ok),
            Ok(at::Read::TooLarge) => Ok(Err(io::Error::other("it grew while it was read"))),
            Err(error) => Ok(Err(error)),
        }
    }

    fn stream(&self, file: File, size: u64) -> Result<io::Result<Oid>, Error> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let mut writer = self.disk.writer(length, ObjectType::Blob).doing("store a file")?;
        let mut file = file.take(size);
        let (mut chunk, mut left) = (vec![0; 1 << 20], size);
        while left > 0 {
            let count = match file.read(&mut chunk) {
                Ok(0) => return Ok(Err(io::Error::other("it shrank while it was read"))),
                Ok(count) => count,
                Err(error) => return Ok(Err(error)),
            };
            writer.write_all(&chunk[..count]).map_err(|source| Error::Io {
                doing: "store a file in",
                path: "the mirror".into(),
                source,
            })?;
            left -= count as u64;
        }
        writer.finalize().map(Ok).doing("store a file")
    }
}
