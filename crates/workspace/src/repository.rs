//! A bare repository of ours: a coordinator's repository or a node's mirror. Opened anew for each
//! operation, so that the value can be cloned into any thread. Packs, merges and diffs have files
//! of their own; the user's repository is another type, since almost nothing may be done to it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ensemble_core::ids::CommitId;
use git2::RepositoryInitOptions;

use crate::{
    error::{Doing, DoingTo, Error},
    fault,
    refs::{self, Expect},
    tree::{self, commit, commit_id, oid, spell},
};

/// A configuration file that only we read: `git` warns about this key in its own, and libgit2 knows no
/// other by which a commit is on disk before anyone is told of it.
const DURABLE: &str = "ensemble.config";
const DURABLY: &str = "[core]\n\tfsyncObjectFiles = true\n";

/// A bare repository that belongs to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    path: PathBuf,
}

impl Repository {
    /// Opens the bare repository at `path`, made if it is not there. Several processes may do this
    /// at once.
    ///
    /// # Errors
    /// When the folder can't be made, or holds something else.
    pub fn open_or_create(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let repository = Self { path: path.into() };
        if !repository.path.join("HEAD").exists() {
            repository.create()?;
        }
        repository.git()?;
        Ok(repository)
    }

    /// Made beside its place and moved there, so that nobody ever sees half of it.
    fn create(&self) -> Result<(), Error> {
        let parent = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).doing_to("make the folder", parent)?;
        let new = tempfile::Builder::new()
            .prefix(".new-repository-")
            .tempdir_in(parent)
            .doing_to("make a folder in", parent)?;
        let mut options = RepositoryInitOptions::new();
        options.bare(true).external_template(false);
        let repo = git2::Repository::init_opts(new.path(), &options).doing("make a repository")?;
        // Nothing is thrown away unasked.
        let config = repo.config().and_then(|c| c.open_level(git2::ConfigLevel::Local));
        config.and_then(|mut config| config.set_i32("gc.auto", 0)).doing("set up a repository")?;
        let durable = new.path().join(DURABLE);
        fs::write(&durable, DURABLY).doing_to("write", &durable)?;
        match fs::rename(new.path(), &self.path) {
            // Another process was faster.
            Err(_) if self.path.join("HEAD").exists() => Ok(()),
            moved => moved.doing_to("make the repository", &self.path),
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn git(&self) -> Result<git2::Repository, Error> {
        let repo = git2::Repository::open_bare(&self.path).doing("open the repository")?;
        let config = repo.config();
        // Seen by all that the repository does from here on: the two share the configuration.
        config
            .and_then(|mut config| config.add_file(&self.path.join(DURABLE), git2::ConfigLevel::App, false))
            .doing("set up the repository")?;
        Ok(repo)
    }

    /// Whether `commit` is here. What is here is complete: nothing else is ever let in.
    ///
    /// # Errors
    /// When the repository can't be read.
    pub fn has(&self, commit: &CommitId) -> Result<bool, Error> {
        Ok(!self.known(std::slice::from_ref(commit))?.is_empty())
    }

    /// Which of these commits are here, in the order given.
    ///
    /// # Errors
    /// When the repository can't be read.
    pub fn known(&self, candidates: &[CommitId]) -> Result<Vec<CommitId>, Error> {
        let repo = self.git()?;
        Ok(candidates.iter().filter(|id| commit(&repo, id).is_ok()).cloned().collect())
    }

    /// Where the ref `name` points, if it exists.
    ///
    /// # Errors
    /// When the name is malformed or the repository can't be read.
    pub fn ref_target(&self, name: &str) -> Result<Option<CommitId>, Error> {
        refs::target(&self.git()?, name)
    }

    /// All refs whose names start with `prefix`, in order.
    ///
    /// # Errors
    /// When the repository can't be read.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(String, CommitId)>, Error> {
        refs::list(&self.git()?, prefix)
    }

    /// Moves the ref `name` to `new` if it is as expected. Already at `new` is success.
    ///
    /// # Errors
    /// [`Error::Moved`] when it is elsewhere, [`Error::NoSuchCommit`], [`Error::Locked`] after
    /// three seconds, [`Error::BadName`].
    pub fn update_ref(&self, name: &str, new: &CommitId, expect: &Expect) -> Result<(), Error> {
        fault!("workspace.ref");
        let repo = self.git()?;
        commit(&repo, new)?;
        refs::update(&repo, name, new, expect)?;
        fault!("workspace.ref.done");
        Ok(())
    }

    /// Deletes the ref `name` if it is as expected. Not there is success.
    ///
    /// # Errors
    /// As [`Repository::update_ref`].
    pub fn delete_ref(&self, name: &str, expect: &Expect) -> Result<(), Error> {
        refs::delete(&self.git()?, name, expect)
    }

    /// Removes the locks of the ref `name` and of all refs below it that a killed process left behind.
    /// Only for whoever alone may write these refs, and writes none of them meanwhile.
    ///
    /// # Errors
    /// When the folder can't be read or a lock not be removed.
    pub fn clear_locks(&self, name: &str) -> Result<(), Error> {
        refs::clear_locks(&self.path, name)
    }

    /// Whether `commit` is reachable from a ref whose name starts with `prefix`: the proof that is
    /// due before a worktree is removed (S38).
    ///
    /// # Errors
    /// When the repository can't be read.
    pub fn reachable(&self, commit: &CommitId, prefix: &str) -> Result<bool, Error> {
        let repo = self.git()?;
        let id = oid(commit)?;
        if repo.find_commit(id).is_err() {
            return Ok(false);
        }
        for (_, tip) in refs::list(&repo, prefix)? {
            let tip = oid(&tip)?;
            if tip == id || repo.graph_descendant_of(tip, id).doing("walk the history")? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A root commit with no files, the base for a project that has no commit yet. Its id is the
    /// same everywhere.
    ///
    /// # Errors
    /// When the repository can't be written.
    pub fn empty_root(&self) -> Result<CommitId, Error> {
        let repo = self.git()?;
        let tree = tree::edit(&repo, None, &tree::Edits::new())?;
        let tree = repo.find_tree(tree).doing("read a tree")?;
        let nobody = git2::Signature::new("ensemble", "ensemble@ensemble.localhost", &git2::Time::new(0, 0))
            .doing("sign a commit")?;
        let id = repo.commit(None, &nobody, &nobody, "Empty root\n", &tree, &[]).doing("write a commit")?;
        commit_id(id)
    }

    /// The bytes of the file at `path` in `commit`; a symbolic link gives its target.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], or when the repository can't be read.
    pub fn file_at(&self, commit: &CommitId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let repo = self.git()?;
        let tree = tree::commit(&repo, commit)?.tree().doing("read a tree")?;
        let entry = match tree.get_path(Path::new(path)) {
            Ok(entry) => entry,
            Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("read a tree"),
        };
        if entry.kind() != Some(git2::ObjectType::Blob) {
            return Ok(None);
        }
        repo.find_blob(entry.id()).map(|blob| Some(blob.content().to_vec())).doing("read a file")
    }

    /// The paths of all files in `commit`, in order.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], or when the repository can't be read.
    pub fn list_files(&self, commit: &CommitId) -> Result<Vec<String>, Error> {
        let repo = self.git()?;
        let tree = tree::commit(&repo, commit)?.tree_id();
        Ok(tree::files(&repo, tree)?.into_keys().map(|path| spell(&path)).collect())
    }

    /// The parents of `commit`, first parent first.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`].
    pub fn parents(&self, commit: &CommitId) -> Result<Vec<CommitId>, Error> {
        tree::commit(&self.git()?, commit)?.parent_ids().map(commit_id).collect()
    }
}
