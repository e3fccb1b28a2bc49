//! The user's own repository. It is read; the only things ever written into it are the objects and
//! the branch of a result, and, asked for with `--into`, the move of one branch by compare-and-swap
//! (S39). The checkout and the index are never touched, and nothing it configures is run.

mod branches;

use std::{
    ffi::OsStr,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use ensemble_core::ids::CommitId;
use git2::{ErrorCode, Repository as Git, StatusOptions};

use crate::{
    error::{Doing, Error, is_read_only},
    pack,
    refs::{self, Expect},
    tree::{commit, commit_id, oid},
};
pub use branches::{BranchMove, Standing};

/// Whether a branch of the user's may be called `name`. Names that git reads as something else are
/// none, nor is what the branches of runs need.
#[must_use]
pub fn is_branch_name(name: &str) -> bool {
    let ours = name == "ensemble" || name.starts_with("ensemble/");
    let misread = name == "@" || name.starts_with("refs/");
    !ours && !misread && git2::Branch::name_is_valid(name).unwrap_or(false)
}

/// The user's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRepository {
    path: PathBuf,
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The commit; nothing in a repository without one.
    pub commit: Option<CommitId>,
    /// The branch by its short name; nothing when HEAD is detached.
    pub branch: Option<String>,
}

impl UserRepository {
    /// Finds the repository that `path` lies in. A bare one will do.
    ///
    /// # Errors
    /// [`Error::NotARepository`], [`Error::ForeignOwner`], [`Error::Unsupported`].
    pub fn discover(path: &Path) -> Result<Self, Error> {
        let repo = Git::discover(path).map_err(|error| named(path, error))?;
        let found = Self { path: repo.path().to_owned() };
        // An empty repository in the other hash format opens, but every id in it is foreign.
        let format = repo.config().and_then(|c| c.get_string("extensions.objectformat"));
        match format {
            Ok(format) if format != "sha1" => {
                Err(Error::Unsupported { path: found.path, what: format!("object format {format}") })
            }
            _ => Ok(found),
        }
    }

    /// Its git directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with its files, unless it is bare.
    ///
    /// # Errors
    /// When it can't be opened any more.
    pub fn folder(&self) -> Result<Option<PathBuf>, Error> {
        Ok(self.git()?.workdir().map(Path::to_owned))
    }

    fn git(&self) -> Result<Git, Error> {
        Git::open(&self.path).map_err(|error| named(&self.path, error))
    }

    /// What is checked out.
    ///
    /// # Errors
    /// When HEAD can't be read.
    pub fn head(&self) -> Result<Head, Error> {
        let repo = self.git()?;
        let symbolic = repo.find_reference("HEAD").doing("read HEAD")?;
        let branch = symbolic
            .symbolic_target()
            .ok()
            .flatten()
            .map(|name| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned());
        let commit = match repo.head() {
            Ok(head) => Some(commit_id(head.peel_to_commit().doing("read HEAD")?.id())?),
            Err(error) if error.code() == ErrorCode::UnbornBranch => None,
            Err(error) => return Err(error).doing("read HEAD"),
        };
        Ok(Head { commit, branch })
    }

    /// The commit that `rev` names.
    ///
    /// # Errors
    /// [`Error::NoSuchRevision`].
    pub fn resolve(&self, rev: &str) -> Result<CommitId, Error> {
        let repo = self.git()?;
        let found = repo.revparse_single(rev).and_then(|object| object.peel_to_commit());
        commit_id(found.map_err(|_| Error::NoSuchRevision { rev: rev.to_owned() })?.id())
    }

    /// How many files differ from HEAD or are new, for a warning. Filters are not run, so files
    /// that pass through one may be counted although nobody changed them. Those of `except`, and
    /// what lies in folders of it, are not counted.
    ///
    /// # Errors
    /// When the files can't be read.
    pub fn uncommitted(&self, except: &[PathBuf]) -> Result<usize, Error> {
        let repo = self.git()?;
        if repo.is_bare() {
            return Ok(0);
        }
        let mut options = StatusOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true);
        options.exclude_submodules(true).update_index(false);
        let found = repo.statuses(Some(&mut options)).doing("compare the files with HEAD")?;
        let folder = repo.workdir().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
        let except: Vec<PathBuf> = except.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let counts = |entry: &git2::StatusEntry<'_>| {
            let path = folder.join(OsStr::from_bytes(entry.path_bytes()));
            !except.iter().any(|except| path.starts_with(except))
        };
        Ok(found.iter().filter(counts).count())
    }

    /// Whether this clone lacks older history.
    ///
    /// # Errors
    /// When it can't be opened any more.
    pub fn is_shallow(&self) -> Result<bool, Error> {
        Ok(self.git()?.is_shallow())
    }

    fn complete(&self) -> Result<Git, Error> {
        let repo = self.git()?;
        if repo.is_shallow() { Err(Error::Shallow { path: self.path.clone() }) } else { Ok(repo) }
    }

    /// The oldest first-parent commit before `id`, by which a repository is known.
    ///
    /// # Errors
    /// [`Error::Shallow`] with the remedy, [`Error::NoSuchCommit`].
    pub fn root(&self, id: &CommitId) -> Result<CommitId, Error> {
        let repo = self.complete()?;
        let mut at = commit(&repo, id)?;
        while at.parent_count() > 0 {
            at = at.parent(0).doing("walk the history")?;
        }
        commit_id(at.id())
    }

    /// At most `n` first-parent ancestors of `id`, itself first, with growing gaps: what the other
    /// side is asked for, to find what it lacks.
    ///
    /// # Errors
    /// [`Error::Shallow`] with the remedy, [`Error::NoSuchCommit`].
    pub fn recent(&self, id: &CommitId, n: usize) -> Result<Vec<CommitId>, Error> {
        let repo = self.complete()?;
        let mut at = commit(&repo, id)?;
        let mut found = Vec::new();
        let (mut age, mut next) = (0_u64, 0_u64);
        while found.len() < n {
            if age == next {
                found.push(commit_id(at.id())?);
                next = if age == 0 { 1 } else { age.saturating_mul(2) };
            }
            if at.parent_count() == 0 {
                break;
            }
            at = at.parent(0).doing("walk the history")?;
            age += 1;
        }
        Ok(found)
    }

    /// Writes a pack with all that `want` has and `have` has not; nothing is written into the
    /// repository. See [`crate::Repository::write_pack`].
    ///
    /// # Errors
    /// [`Error::Shallow`], and as there.
    pub fn write_pack(
        &self,
        want: &[CommitId],
        have: &[CommitId],
        out: &mut dyn Write,
        limit: u64,
    ) -> Result<u64, Error> {
        pack::write(&self.complete()?, want, have, out, limit)
    }

    /// Whether `commit` is here already.
    ///
    /// # Errors
    /// When it can't be opened any more.
    pub fn has(&self, id: &CommitId) -> Result<bool, Error> {
        Ok(self.git()?.find_commit(oid(id)?).is_ok())
    }

    /// Takes in a pack with the result `commit` and creates `refs/heads/<branch>` at it. Already
    /// there is success; the pack is not read then. `limit` bounds the pack, in bytes.
    ///
    /// # Errors
    /// [`Error::Moved`] when the branch is at another commit, [`Error::ReadOnly`], and those of
    /// [`crate::Repository::receive_pack`].
    pub fn bring_home(
        &self,
        pack: &mut dyn Read,
        commit: &CommitId,
        branch: &str,
        limit: u64,
    ) -> Result<(), Error> {
        let repo = self.git()?;
        let name = format!("refs/heads/{branch}");
        if refs::target(&repo, &name)?.as_ref() == Some(commit) {
            return Ok(());
        }
        pack::receive(&repo, pack, std::slice::from_ref(commit), limit)?;
        // Opened anew, so that it sees the pack.
        refs::update(&self.git()?, &name, commit, &Expect::Absent).map_err(|e| self.read_only(e))
    }

    /// Turns a refusal of the file system to write into a clear word.
    fn read_only(&self, error: Error) -> Error {
        let refused = match &error {
            // Libgit2 passes the system's word on as text alone.
            Error::Git { source, .. } => ["Permission denied", "Read-only file system"]
                .iter()
                .any(|word| source.message().contains(word)),
            Error::Io { source, .. } => is_read_only(source),
            _ => false,
        };
        if refused { Error::ReadOnly { path: self.path.clone() } } else { error }
    }
}

fn named(path: &Path, error: git2::Error) -> Error {
    let path = path.to_owned();
    let unsupported = ["extension", "object format", "repository version"]
        .iter()
        .any(|word| error.message().contains(word));
    match error.code() {
        ErrorCode::NotFound => Error::NotARepository { path },
        ErrorCode::Owner => Error::ForeignOwner { path },
        _ if unsupported => Error::Unsupported { path, what: error.message().to_owned() },
        _ => Error::Git { doing: "open the repository", source: error },
    }
}

#[cfg(test)]
mod tests;
