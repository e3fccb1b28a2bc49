//! The data directory's own copies of repositories, read without their owner: objects are only ever
//! added, so what a fact names is there.

use std::path::{Path, PathBuf};

use ensemble_core::{
    ids::{CommitId, RepositoryId},
    run::State,
};
use ensemble_workspace::Repository;

use crate::error::Error;

/// Where the copies lie.
#[must_use]
pub fn folder(data: &Path) -> PathBuf {
    data.join("repositories")
}

/// The copy of a repository, if there is one.
///
/// # Errors
/// When it can't be opened.
pub fn find(data: &Path, id: &RepositoryId) -> Result<Option<Repository>, Error> {
    let path = folder(data).join(format!("{id}.git"));
    if path.join("HEAD").is_file() { Ok(Some(Repository::open_or_create(path)?)) } else { Ok(None) }
}

/// The copy that a run works on, with the commit that the run started from and where its branch stands.
///
/// # Errors
/// [`Error::Usage`] when there is none.
pub fn of_run(data: &Path, state: &State) -> Result<(Repository, CommitId, CommitId), Error> {
    let submitted = state.submitted.as_ref().map(|submitted| (&submitted.repository, &submitted.base));
    let gone = || {
        Error::usage(
            format!("run {} has no result in {}", state.run, data.display()),
            "`ensemble show` says how far it came",
        )
    };
    let ((id, base), head) = submitted.zip(state.head.as_ref()).ok_or_else(gone)?;
    let repository = find(data, id)?.ok_or_else(gone)?;
    Ok((repository, base.clone(), head.clone()))
}
