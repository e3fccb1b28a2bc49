//! Objects between repositories, as packs that stand on their own. An incoming pack is indexed in a
//! quarantine folder and moved in only once each tip is proven to be complete; so whatever commit a
//! repository of ours has, it has whole. Chunks and transports are the caller's.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use ensemble_core::ids::CommitId;
use git2::{Indexer, ObjectType, Odb, OdbLookupFlags, Oid};

use crate::{
    error::{Doing, DoingTo, Error, is_read_only},
    fault,
    repository::Repository,
    tree::{commit, escapes, oid, spell},
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

/// As [`Repository::receive_pack`], for any repository; it writes nothing but a checked pack.
pub(crate) fn receive(
    repo: &git2::Repository,
    input: &mut dyn Read,
    tips: &[CommitId],
    limit: u64,
) -> Result<(), Error> {
    let objects = repo.commondir().join("objects");
    // Git's own clean-up knows this prefix, should we die here.
    let quarantine = tempfile::Builder::new()
        .prefix("tmp_objdir-incoming-")
        .tempdir_in(&objects)
        .map_err(|error| refused(repo, &objects, error))?;
    let packs = quarantine.path().join("pack");
    fs::create_dir(&packs).doing_to("make the folder", &packs)?;
    let name = index(input, &packs, limit)?;
    let widened = git2::Repository::open(repo.path()).doing("open the repository")?;
    let all = widened.odb().doing("open the repository")?;
    let path = quarantine.path().to_str().ok_or_else(|| Error::Unsupported {
        path: repo.path().to_owned(),
        what: "its path is not UTF-8".to_owned(),
    })?;
    all.add_disk_alternate(path).doing("open a pack")?;
    let before = repo.odb().doing("open the repository")?;
    before.refresh().doing("open the repository")?;
    let mut news = false;
    for tip in tips {
        news |= prove(&widened, &before, tip)?;
    }
    if news { publish(&packs, &objects.join("pack"), &name) } else { Ok(()) }
}

fn refused(repo: &git2::Repository, objects: &Path, source: io::Error) -> Error {
    if is_read_only(&source) {
        return Error::ReadOnly { path: repo.path().to_owned() };
    }
    Error::Io { doing: "write into", path: objects.to_owned(), source }
}

/// Indexes the pack, which recomputes the hash of every object in it.
fn index(input: &mut dyn Read, packs: &Path, limit: u64) -> Result<String, Error> {
    let bad = |why: String| Error::BadPack { why };
    let mut indexer = Indexer::new(None, packs, 0o444, false).doing("take in a pack")?;
    let mut buffer = vec![0; CHUNK];
    let mut taken = 0_u64;
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(bad(error.to_string())),
        };
        taken += count as u64;
        if taken > limit {
            return Err(Error::TooLarge { what: "the pack", limit });
        }
        indexer.write_all(&buffer[..count]).map_err(|error| bad(error.to_string()))?;
    }
    indexer.commit().map_err(|error| bad(error.message().to_owned()))
}

/// Proves that `tip` is complete, given that what was there before is; says whether any of it is new.
fn prove(all: &git2::Repository, before: &Odb<'_>, tip: &CommitId) -> Result<bool, Error> {
    let incomplete = |what: String| Error::Incomplete { tip: tip.clone(), what };
    let odb = all.odb().doing("open the repository")?;
    let kind_of = |id: Oid, kind: ObjectType| match odb.read_header(id) {
        Ok((_, found)) if found == kind => Ok(()),
        Ok((_, found)) => Err(incomplete(format!("{id} is a {found}, not a {kind}"))),
        Err(_) => Err(incomplete(format!("{kind} {id} is missing"))),
    };
    let mut open = vec![(oid(tip)?, ObjectType::Commit)];
    let mut seen = HashSet::new();
    let mut news = false;
    while let Some((id, kind)) = open.pop() {
        if !seen.insert((id, kind.str())) {
            continue;
        }
        kind_of(id, kind)?;
        if before.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            continue;
        }
        news = true;
        let malformed = |error: git2::Error| incomplete(format!("{kind} {id}: {}", error.message()));
        match kind {
            ObjectType::Commit => {
                let commit = all.find_commit(id).map_err(malformed)?;
                open.push((commit.tree_id(), ObjectType::Tree));
                open.extend(commit.parent_ids().map(|parent| (parent, ObjectType::Commit)));
            }
            ObjectType::Tree => {
                for entry in &all.find_tree(id).map_err(malformed)? {
                    if escapes(entry.name_bytes()) {
                        return Err(Error::Escapes { path: spell(entry.name_bytes()) });
                    }
                    match entry.kind() {
                        // A submodule's commit lives elsewhere.
                        Some(ObjectType::Commit) => {}
                        Some(kind) => open.push((entry.id(), kind)),
                        None => return Err(incomplete(format!("tree {id} has an odd entry"))),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(news)
}

/// Moves a checked pack in: safely on disk first, its index last, since that makes it visible.
fn publish(from: &Path, to: &Path, name: &str) -> Result<(), Error> {
    fs::create_dir_all(to).doing_to("make the folder", to)?;
    for ending in ["pack", "idx"] {
        let file = format!("pack-{name}.{ending}");
        let (source, target) = (from.join(&file), to.join(&file));
        File::open(&source).and_then(|f| f.sync_all()).doing_to("write out", &source)?;
        fs::rename(&source, &target).doing_to("move a pack to", target)?;
    }
    File::open(to).and_then(|folder| folder.sync_all()).doing_to("write out", to)
}
