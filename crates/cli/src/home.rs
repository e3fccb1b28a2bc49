//! The way out: a run's result becomes a branch in the user's repository, by compare-and-swap, however
//! the run ended. The checkout is never written; a branch of the user's moves only with `--into`.

use std::path::Path;

use ensemble_core::{
    ids::CommitId,
    run::{
        fact::Submitted,
        state::{RunState, State},
    },
};
use ensemble_workspace::{BranchMove as Moved, Error as Git, UserRepository};

use crate::{
    client::Client,
    error::{Error, patiently},
    output::{Home, Into},
};

/// A result has no limit of its own; what it is made of has been limited on its way in.
const UNLIMITED: u64 = u64::MAX;

/// Brings the result home, as far as that is possible; what is not is said in the answer.
pub async fn bring(
    client: &Client,
    repository: Option<&UserRepository>,
    state: &State,
    into: Option<&str>,
    data: &Path,
) -> Home {
    let (Some(submitted), Some(head)) = (&state.submitted, &state.head) else { return Home::default() };
    let brought = match repository {
        Some(repository) => {
            patiently(async || branch(client, repository, state, submitted, head, data).await).await
        }
        None => Err(Error::usage("no repository is known here", "name it with --repo DIR")),
    };
    let problem = brought.err().map(|error| error.to_string());
    let into = match (into, repository) {
        (Some(name), Some(repository)) if problem.is_none() => {
            Some((name.to_owned(), move_branch(repository, name, state, head, &submitted.base)))
        }
        (Some(name), _) => Some((name.to_owned(), Into::Refused("the result is not here".to_owned()))),
        (None, _) => None,
    };
    Home { branch: problem.is_none(), problem, into }
}

async fn branch(
    client: &Client,
    repository: &UserRepository,
    state: &State,
    submitted: &Submitted,
    head: &CommitId,
    data: &Path,
) -> Result<(), Error> {
    let branch = state.branch();
    let own = belongs(repository, submitted)?;
    if !own {
        let what = format!("{} is not the repository of this run", repository.path().display());
        return Err(Error::usage(what, "name it with --repo DIR"));
    }
    let mut have = Vec::new();
    // An earlier end of the same run may have brought a part of it home.
    for commit in [Some(submitted.base.clone()), repository.resolve(&format!("refs/heads/{branch}")).ok()] {
        match commit {
            Some(commit) if repository.has(&commit)? => have.push(commit),
            _ => {}
        }
    }
    let mut pack = client.fetch(&submitted.repository, head, &have, data.to_owned()).await?;
    let (repository, head) = (repository.clone(), head.clone());
    let taking = move || match repository.bring_home(&mut pack, &head, &branch, UNLIMITED) {
        Err(Git::Moved { now: Some(now), .. }) => advance(&repository, &branch, &head, &now),
        done => done.map_err(Error::from),
    };
    tokio::task::spawn_blocking(taking).await.map_err(Error::broken)?
}

/// Moves the run's own branch from where an earlier end of the run left it.
fn advance(repository: &UserRepository, branch: &str, head: &CommitId, now: &CommitId) -> Result<(), Error> {
    match repository.move_branch(branch, head, now) {
        Ok(Moved::Moved | Moved::Created) => Ok(()),
        Ok(Moved::CheckedOut { .. }) => Err(Error::usage(
            format!("the branch {branch} is checked out, so it was not moved to {head}"),
            "check out another one, then fetch",
        )),
        Ok(Moved::MovedSince { now }) => Err(moved(branch, &now)),
        // Somebody committed onto it: their commits are not thrown away.
        Err(Git::NotABase { .. }) => Err(moved(branch, now)),
        Err(error) => Err(error.into()),
    }
}

fn moved(branch: &str, now: &CommitId) -> Error {
    Error::usage(
        format!("the branch {branch} stands at {now}, which this run did not make"),
        "rename that branch, then fetch",
    )
}

/// Whether the run started from this repository, as far as that can be told: its base is here, or
/// nothing is here yet that could contradict.
fn belongs(repository: &UserRepository, submitted: &Submitted) -> Result<bool, Error> {
    let from_nothing = submitted.repository.as_str().starts_with(submitted.base.as_str());
    Ok(from_nothing || repository.has(&submitted.base)?)
}

fn move_branch(
    repository: &UserRepository,
    name: &str,
    state: &State,
    head: &CommitId,
    base: &CommitId,
) -> Into {
    if state.state() != RunState::Delivered {
        return Into::NotDelivered;
    }
    match repository.move_branch(name, head, base) {
        Ok(Moved::Moved | Moved::Created) => Into::Moved,
        Ok(Moved::CheckedOut { .. }) => Into::CheckedOut,
        Ok(Moved::MovedSince { now }) => Into::MovedSince(now),
        Err(error) => Into::Refused(error.to_string()),
    }
}
