//! Refs by compare-and-swap. Libgit2 answers "locked" at once, so waiting is done here, bounded.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ensemble_core::ids::CommitId;
use git2::{ErrorCode, Oid, ReferenceType, Repository};

use crate::{
    error::{Doing, DoingTo, Error},
    tree::{commit_id, oid},
};

/// How long another process may hold a ref's lock before this one gives up: an update takes
/// milliseconds, so a lock this old was left behind.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// A lock on a ref of ours that is this old belongs to a process that was killed.
const LOCK_AGE: Duration = Duration::from_secs(30);

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What a ref must be for an update to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It does not exist.
    Absent,
    /// It points at this commit.
    At(CommitId),
    /// Anything, or nothing.
    Any,
}

/// Where `name` points, if it exists and is no symbolic ref.
pub(crate) fn target(repo: &Repository, name: &str) -> Result<Option<CommitId>, Error> {
    match repo.find_reference(name) {
        Ok(reference) => reference.target().map(commit_id).transpose(),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(named(name, error)),
    }
}

/// Moves `name` to `new` if it is as expected; already at `new` is success.
pub(crate) fn update(repo: &Repository, name: &str, new: &CommitId, expect: &Expect) -> Result<(), Error> {
    check_name(repo, name)?;
    let to = oid(new)?;
    let log = "ensemble: update";
    swap(repo, name, expect, Some(new), || {
        match expect {
            Expect::Any => repo.reference(name, to, true, log),
            Expect::Absent => repo.reference_matching(name, to, true, Oid::ZERO_SHA1, log),
            Expect::At(old) => repo.reference_matching(name, to, true, parsed(old)?, log),
        }
        .map(drop)
    })
}

/// Deletes `name` if it is as expected; not there is success.
pub(crate) fn delete(repo: &Repository, name: &str, expect: &Expect) -> Result<(), Error> {
    swap(repo, name, expect, None, || {
        let mut reference = match repo.find_reference(name) {
            Ok(reference) => reference,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        match expect {
            Expect::At(old) if reference.target() != Some(parsed(old)?) => Err(modified()),
            Expect::Absent => Err(modified()),
            // Libgit2 deletes only what it has just read.
            _ => reference.delete(),
        }
    })
}

fn parsed(commit: &CommitId) -> Result<Oid, git2::Error> {
    Oid::from_str(commit.as_str())
}

fn modified() -> git2::Error {
    git2::Error::new(ErrorCode::Modified, git2::ErrorClass::Reference, "changed meanwhile")
}

/// Tries until it is done, refused or out of patience.
fn swap(
    repo: &Repository,
    name: &str,
    expect: &Expect,
    goal: Option<&CommitId>,
    mut attempt: impl FnMut() -> Result<(), git2::Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        let Err(error) = attempt() else { return Ok(()) };
        let again = match error.code() {
            ErrorCode::Locked => true,
            ErrorCode::Modified | ErrorCode::NotFound | ErrorCode::Exists => {
                let now = target(repo, name)?;
                if now.as_ref() == goal {
                    return Ok(());
                }
                let as_expected = match expect {
                    Expect::Absent => now.is_none(),
                    Expect::At(old) => now.as_ref() == Some(old),
                    Expect::Any => true,
                };
                if !as_expected {
                    return Err(Error::Moved { name: name.to_owned(), now });
                }
                // It moved there and back, or another name is in the way.
                error.code() == ErrorCode::Modified
            }
            _ => false,
        };
        if !again {
            return Err(named(name, error));
        }
        if Instant::now() >= deadline && !break_old_lock(repo, name) {
            return Err(Error::Locked { name: name.to_owned() });
        }
        thread::sleep(pause + jitter(pause));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Namespaces in which nobody but Ensemble writes; an old lock there was left by one of its processes.
const OURS: [&str; 2] = ["refs/ensemble/", "refs/heads/ensemble/"];

/// Removes the lock of a ref of ours that is much older than any update takes; whether it did.
fn break_old_lock(repo: &Repository, name: &str) -> bool {
    if !OURS.iter().any(|ours| name.starts_with(ours)) {
        return false;
    }
    let lock = repo.commondir().join(format!("{name}.lock"));
    let age = fs::metadata(&lock).and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age >= LOCK_AGE) && fs::remove_file(&lock).is_ok()
}

/// Removes the locks of the ref `name` and of all refs below it. No ref's name ends in `.lock`.
pub(crate) fn clear_locks(repository: &Path, name: &str) -> Result<(), Error> {
    let refs = repository.join(name);
    let mut lock = refs.clone().into_os_string();
    lock.push(".lock");
    remove(Path::new(&lock))?;
    clear_below(&refs)
}

fn clear_below(folder: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // One ref is a file; none is nothing.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error).doing_to("list", folder),
    };
    for entry in entries {
        let entry = entry.doing_to("list", folder)?;
        let path = entry.path();
        if entry.file_type().doing_to("look at", &path)?.is_dir() {
            clear_below(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(lock: &Path) -> Result<(), Error> {
    match fs::remove_file(lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.doing_to("remove the left lock", lock),
    }
}

/// Two processes that met once must not meet again: up to one pause, from the clock's low digits.
fn jitter(pause: Duration) -> Duration {
    let noise = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.subsec_nanos());
    pause * (noise / 64 % 16) / 16
}

pub(crate) fn check_name(repo: &Repository, name: &str) -> Result<(), Error> {
    let bad = |why: &str| Err(Error::BadName { name: name.to_owned(), why: why.to_owned() });
    if !name.starts_with("refs/") || !git2::Reference::is_valid_name(name) {
        return bad("git does not allow it");
    }
    // `a` and `a/b` can't both be refs.
    for (at, _) in name.match_indices('/').skip(1) {
        if repo.find_reference(&name[..at]).is_ok() {
            return bad(&format!("{} is in the way; rename or delete it", &name[..at]));
        }
    }
    match repo.find_reference(name).map(|r| r.kind()) {
        Ok(Some(ReferenceType::Symbolic)) => bad("it is a symbolic ref; name the branch it points at"),
        _ => Ok(()),
    }
}

fn named(name: &str, error: git2::Error) -> Error {
    match error.code() {
        ErrorCode::Locked => Error::Locked { name: name.to_owned() },
        ErrorCode::InvalidSpec | ErrorCode::Exists | ErrorCode::Directory => {
            Error::BadName { name: name.to_owned(), why: error.message().to_owned() }
        }
        _ => Error::Git { doing: "update a ref", source: error },
    }
}

/// All refs whose names start with `prefix`, with what they point at, in order.
pub(crate) fn list(repo: &Repository, prefix: &str) -> Result<Vec<(String, CommitId)>, Error> {
    let mut found = Vec::new();
    for reference in repo.references().doing("list refs")? {
        let reference = reference.doing("list refs")?;
        if let (Ok(name), Some(at)) = (reference.name(), reference.target())
            && name.starts_with(prefix)
        {
            found.push((name.to_owned(), commit_id(at)?));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
