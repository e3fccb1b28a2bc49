//! Objects between repositories, as packs that stand on their own. An incoming pack is indexed in
//! quarantine and let in only once each tip is proven to be complete; so whatever commit a
//! repository of ours has, it has whole. Chunks and transports are the caller's.

use std::io::{self, Read, Write};

use ensemble_core::ids::CommitId;

use crate::{
    error::{Doing, Error},
    fault,
    objects::{self, Quarantine},
    repository::Repository,
    tree::commit,
};

/// Bytes read from an incoming pack at a time.
const CHUNK: usize = 64 * 1024;

impl Repository {
    /// Writes a pack with all that `want` has and `have` has not, and says how many bytes it is.
    /// Commits in `have` that are not here are passed over.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`] for a wanted commit, [`Error::TooLarge`] beyond `limit` bytes (part
    /// of it was written then), or when `out` fails.
    pub fn write_pack(
        &self,
        want: &[CommitId],
        have: &[CommitId],
        out: &mut dyn Write,
        limit: u64,
    ) -> Result<u64, Error> {
        write(&self.git()?, want, have, out, limit)
    }

    /// Takes in a pack: checks it, and proves that each tip is a commit whose history and trees are
    /// complete. If not, nothing is kept. Receiving twice changes nothing.
    ///
    /// # Errors
    /// [`Error::BadPack`], [`Error::Incomplete`], [`Error::TooLarge`] beyond `limit` bytes,
    /// [`Error::Escapes`] for a tree with a name such as `..` or `.git`.
    pub fn receive_pack(&self, input: &mut dyn Read, tips: &[CommitId], limit: u64) -> Result<(), Error> {
        fault!("workspace.pack");
        receive(&self.git()?, input, tips, limit)?;
        fault!("workspace.pack.done");
        Ok(())
    }
}

pub(crate) fn write(
    repo: &git2::Repository,
    want: &[CommitId],
    have: &[CommitId],
    out: &mut dyn Write,
    limit: u64,
) -> Result<u64, Error> {
    let mut walk = repo.revwalk().doing("walk the history")?;
    for id in want {
        walk.push(commit(repo, id)?.id()).doing("walk the history")?;
    }
    for id in have {
        if let Ok(known) = commit(repo, id) {
            walk.hide(known.id()).doing("walk the history")?;
        }
    }
    let mut builder = repo.packbuilder().doing("build a pack")?;
    builder.insert_walk(&mut walk).doing("gather the objects of a pack")?;
    let (mut written, mut failed) = (0, None);
    let built = builder.foreach(|bytes| {
        written += bytes.len() as u64;
        if written > limit {
            failed = Some(Error::TooLarge { what: "the pack", limit });
        } else if let Err(error) = out.write_all(bytes) {
            failed =
                Some(Error::Io { doing: "send a pack from", path: repo.path().to_owned(), source: error });
        }
        failed.is_none()
    });
    match failed {
        Some(error) => Err(error),
        None => built.doing("build a pack").map(|()| written),
    }
}

/// As [`Repository::receive_pack`], for any repository; it writes nothing but checked objects.
pub(crate) fn receive(
    repo: &git2::Repository,
    input: &mut dyn Read,
    tips: &[CommitId],
    limit: u64,
) -> Result<(), Error> {
    let quarantine = Quarantine::new(repo)?;
    let name = quarantine.index(|indexer| feed(indexer, input, limit))?;
    let widened = git2::Repository::open(repo.path()).doing("open the repository")?;
    let all = widened.odb().doing("open the repository")?;
    quarantine.join(&all)?;
    let before = repo.odb().doing("open the repository")?;
    before.refresh().doing("open the repository")?;
    let news = objects::fresh(&widened, &before, tips)?;
    if news.len() > objects::LOOSE_LIMIT {
        return quarantine.publish(&name);
    }
    objects::copy(&all, &before, &news)
}

/// Feeds the indexer, which recomputes the hash of every object.
fn feed(indexer: &mut dyn Write, input: &mut dyn Read, limit: u64) -> Result<(), Error> {
    let bad = |error: io::Error| Error::BadPack { why: error.to_string() };
    let mut buffer = vec![0; CHUNK];
    let mut taken = 0_u64;
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(bad(error)),
        };
        taken += count as u64;
        if taken > limit {
            return Err(Error::TooLarge { what: "the pack", limit });
        }
        indexer.write_all(&buffer[..count]).map_err(bad)?;
    }
}

#[cfg(test)]
mod tests;
