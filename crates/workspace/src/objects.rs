//! How new objects enter a repository: proven complete, safely on disk, and so that neither many
//! small files nor many small packs pile up. A commit becomes visible after all that it needs.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use ensemble_core::ids::CommitId;
use git2::{Indexer, ObjectType, Odb, OdbLookupFlags, Oid, Repository as Git};
use tempfile::TempDir;

use crate::{
    error::{Doing, DoingTo, Error, is_read_only},
    tree::{commit_id, escapes, oid, spell},
};

/// Up to so many new objects are stored one by one, more as a pack: git's own rule. A pack for each
/// attempt would cost every later reader an open file.
pub(crate) const LOOSE_LIMIT: usize = 100;

/// An object and its kind.
pub(crate) type Known = (Oid, ObjectType);

/// Walks from `tips` through all that `before` has not, and proves that nothing is missing, given
/// that what was there before is complete. Gives the new objects, each after all that it needs.
pub(crate) fn fresh(all: &Git, before: &Odb<'_>, tips: &[CommitId]) -> Result<Vec<Known>, Error> {
    let odb = all.odb().doing("open the repository")?;
    let mut news = Vec::new();
    let mut seen = HashSet::new();
    for tip in tips {
        let incomplete = |what: String| Error::Incomplete { tip: tip.clone(), what };
        // The flag marks an object whose needs have been seen to.
        let mut open = vec![(oid(tip)?, ObjectType::Commit, false)];
        while let Some((id, kind, done)) = open.pop() {
            if done {
                news.push((id, kind));
                continue;
            }
            if !seen.insert((id, kind.str())) {
                continue;
            }
            match odb.read_header(id) {
                Ok((_, found)) if found == kind => {}
                Ok((_, found)) => return Err(incomplete(format!("{id} is a {found}, not a {kind}"))),
                Err(_) => return Err(incomplete(format!("{kind} {id} is missing"))),
            }
            if before.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
                continue;
            }
            open.push((id, kind, true));
            let needs = needs(all, id, kind)?;
            let needs = needs.map_err(|why| incomplete(format!("{kind} {id}: {why}")))?;
            open.extend(needs.into_iter().map(|(id, kind)| (id, kind, false)));
        }
    }
    Ok(news)
}

/// What an object points at; the inner error says that it is malformed.
fn needs(all: &Git, id: Oid, kind: ObjectType) -> Result<Result<Vec<Known>, String>, Error> {
    let mut needs = Vec::new();
    if kind == ObjectType::Commit {
        let Ok(commit) = all.find_commit(id) else { return Ok(Err("malformed".to_owned())) };
        needs.push((commit.tree_id(), ObjectType::Tree));
        needs.extend(commit.parent_ids().map(|parent| (parent, ObjectType::Commit)));
    } else if kind == ObjectType::Tree {
        let Ok(tree) = all.find_tree(id) else { return Ok(Err("malformed".to_owned())) };
        for entry in &tree {
            if escapes(entry.name_bytes()) {
                return Err(Error::Escapes { path: spell(entry.name_bytes()) });
            }
            match entry.kind() {
                // A submodule's commit lives elsewhere.
                Some(ObjectType::Commit) => {}
                Some(kind) => needs.push((entry.id(), kind)),
                None => return Ok(Err(format!("odd entry {}", spell(entry.name_bytes())))),
            }
        }
    }
    Ok(Ok(needs))
}

/// Stores `news` one by one, in their order.
pub(crate) fn copy(all: &Odb<'_>, to: &Odb<'_>, news: &[Known]) -> Result<(), Error> {
    for (id, kind) in news {
        let object = all.read(*id).doing("read an object")?;
        to.write(*kind, object.data()).doing("store an object")?;
    }
    Ok(())
}

/// Stores the commit `tip`, which `all` has (partly in memory), with all that it needs.
pub(crate) fn settle(all: &Git, repo: &Git, tip: Oid) -> Result<(), Error> {
    let before = repo.odb().doing("open the repository")?;
    let news = fresh(all, &before, &[commit_id(tip)?])?;
    if news.len() <= LOOSE_LIMIT {
        return copy(&all.odb().doing("open the repository")?, &before, &news);
    }
    let quarantine = Quarantine::new(repo)?;
    let mut builder = all.packbuilder().doing("build a pack")?;
    for (id, _) in &news {
        builder.insert_object(*id, None).doing("build a pack")?;
    }
    let name = quarantine.index(|indexer| {
        let mut failed = None;
        let built = builder.foreach(|bytes| {
            failed = indexer.write_all(bytes).err();
            failed.is_none()
        });
        match failed {
            Some(source) => {
                Err(Error::Io { doing: "write a pack into", path: repo.path().to_owned(), source })
            }
            None => built.doing("build a pack"),
        }
    })?;
    quarantine.publish(&name)
}

/// A folder beside a repository's objects where a pack waits until it is proven.
pub(crate) struct Quarantine {
    folder: TempDir,
    objects: PathBuf,
}

impl Quarantine {
    pub(crate) fn new(repo: &Git) -> Result<Self, Error> {
        let objects = repo.commondir().join("objects");
        // Git's own clean-up knows this prefix, should we die here.
        let folder = tempfile::Builder::new()
            .prefix("tmp_objdir-incoming-")
            .tempdir_in(&objects)
            .map_err(|error| refused(repo, &objects, error))?;
        let packs = folder.path().join("pack");
        fs::create_dir(&packs).doing_to("make the folder", packs)?;
        Ok(Self { folder, objects })
    }

    fn packs(&self) -> PathBuf {
        self.folder.path().join("pack")
    }

    /// Indexes the pack that `feed` writes, and gives its name.
    pub(crate) fn index(
        &self,
        feed: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let mut indexer = Indexer::new(None, &self.packs(), 0o444, false).doing("take in a pack")?;
        feed(&mut indexer)?;
        indexer.commit().map_err(|error| Error::BadPack { why: error.message().to_owned() })
    }

    /// Lets `odb` see the pack.
    pub(crate) fn join(&self, odb: &Odb<'_>) -> Result<(), Error> {
        let path = self.folder.path();
        let text = path.to_str().ok_or_else(|| Error::Unsupported {
            path: self.objects.clone(),
            what: "its path is not UTF-8".to_owned(),
        })?;
        odb.add_disk_alternate(text).doing("open a pack")
    }

    /// Moves the pack in: safely on disk first, its index last, since that makes it visible.
    pub(crate) fn publish(self, name: &str) -> Result<(), Error> {
        let (from, to) = (self.packs(), self.objects.join("pack"));
        fs::create_dir_all(&to).doing_to("make the folder", &to)?;
        for ending in ["pack", "idx"] {
            let file = format!("pack-{name}.{ending}");
            let (source, target) = (from.join(&file), to.join(&file));
            sync(&source)?;
            fs::rename(&source, &target).doing_to("move a pack to", target)?;
        }
        sync(&to)
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).doing_to("write out", path)
}

fn refused(repo: &Git, objects: &Path, source: io::Error) -> Error {
    if is_read_only(&source) {
        return Error::ReadOnly { path: repo.path().to_owned() };
    }
    Error::Io { doing: "write into", path: objects.to_owned(), source }
}
