//! An earlier run's result as the base of a new one. What git knows by that name comes first; a result
//! that was never brought home is brought home before.

use std::{io::Seek, path::Path};

use ensemble_core::{ids::CommitId, run::State};
use ensemble_workspace::UserRepository;

use crate::{
    error::{DoingTo, Error},
    kept, output, runs,
};

/// Longest pack: what it is made of has been limited on its way in.
const UNLIMITED: u64 = u64::MAX;

/// The revision that `word` means as a base: itself where git knows it, else the result of the run that
/// it means.
///
/// # Errors
/// [`Error::Usage`] when the run has no result or several runs are meant, and those of the repository.
pub async fn base(word: &str, repository: &UserRepository, data: &Path) -> Result<String, Error> {
    if word == "HEAD" || repository.resolve(word).is_ok() {
        return Ok(word.to_owned());
    }
    let Some(journal) = runs::journal(data)? else { return Err(unknown(word)) };
    let all = runs::list(&journal).await?;
    let run = match runs::pick(&all, word) {
        Err(Error::Usage { what, .. }) if what.starts_with("there is no run") => return Err(unknown(word)),
        found => found?,
    };
    let state = runs::load(&journal, run).await?;
    let head = bring(repository, &state, data)?;
    output::say(&format!("starts from the result of run {run} ({})", state.state().word()));
    Ok(head.to_string())
}

fn unknown(word: &str) -> Error {
    Error::usage(
        format!("`{word}` is neither a revision of the repository nor a run"),
        "name a branch, a tag or a commit, or a run out of `ensemble ps`",
    )
}

/// The result of a run, which is in the repository afterwards.
fn bring(repository: &UserRepository, state: &State, data: &Path) -> Result<CommitId, Error> {
    let (kept, base, head) = kept::of_run(data, state)?;
    if repository.has(&head)? {
        return Ok(head);
    }
    let have: Vec<CommitId> = if repository.has(&base)? { vec![base] } else { Vec::new() };
    let mut pack = tempfile::tempfile_in(data).doing_to("keep a pack in", data)?;
    kept.write_pack(std::slice::from_ref(&head), &have, &mut pack, UNLIMITED)?;
    pack.rewind().doing_to("read a pack in", data)?;
    repository.bring_home(&mut pack, &head, &state.branch(), UNLIMITED)?;
    Ok(head)
}
