//! The mirrors of a node: a bare repository for each repository that its attempts work on. What is
//! written to one mirror is written one after the other. Attempts call from their own tasks; no actor waits here.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ensemble_core::ids::{CommitId, RepositoryId, RunId};
use ensemble_workspace::{Error, Expect, Repository};

use crate::{
    restart::backoff,
    transfer::{self, Dial, Trouble},
};

/// Tries to fetch a base before the attempt is given back.
const TRIES: u32 = 4;
/// Commits of the mirror that are named to whoever sends a pack: those of the latest runs.
const HAVES: usize = 1000;
/// Prefix of the refs that keep bases from being thrown away, and say what the mirror has.
pub(crate) const BASES: &str = "refs/ensemble-bases/";

/// The mirrors below one directory.
#[derive(Clone, Debug)]
pub(crate) struct Mirrors {
    folder: PathBuf,
    turns: Arc<Mutex<BTreeMap<RepositoryId, Arc<Turns>>>>,
}

/// Whose turn it is in one mirror: one fetches at a time, so that two attempts with the same base
/// fetch it once; one writes at a time, and never waits for the network.
#[derive(Debug, Default)]
struct Turns {
    fetch: tokio::sync::Mutex<()>,
    write: Arc<tokio::sync::Mutex<()>>,
}

impl Mirrors {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, turns: Arc::default() }
    }

    fn turns(&self, repository: &RepositoryId) -> Arc<Turns> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(repository.clone()).or_default().clone()
    }

    /// Does something in a mirror, on a thread that may wait, with nobody else writing there. It is
    /// done to its end even if the caller leaves.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        repository: &RepositoryId,
        work: impl FnOnce(&Repository) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Trouble> {
        let turn = self.turns(repository).write.clone().lock_owned().await;
        let path = self.path(repository);
        blocking(move || {
            let _turn = turn;
            work(&Repository::open_or_create(path)?)
        })
        .await
    }

    /// A mirror to read from, which needs no turn: what is there never changes.
    pub(crate) async fn reader(&self, repository: &RepositoryId) -> Result<Repository, Trouble> {
        let path = self.path(repository);
        blocking(move || Repository::open_or_create(path)).await
    }

    fn path(&self, repository: &RepositoryId) -> PathBuf {
        self.folder.join(format!("{repository}.git"))
    }

    /// Makes sure that the mirror has `base`.
    pub(crate) async fn ensure(
        &self,
        dial: &Dial,
        repository: &RepositoryId,
        run: RunId,
        base: &CommitId,
    ) -> Result<(), Trouble> {
        for failures in 1.. {
            match self.fetch(dial, repository, run, base).await {
                Err(Trouble::Passing(why) | Trouble::Failing(why)) if failures < TRIES => {
                    tracing::debug!(%repository, %base, why, "a base is fetched again");
                    tokio::time::sleep(backoff(failures, Duration::from_millis(200), Duration::from_secs(2)))
                        .await;
                }
                done => return done,
            }
        }
        Ok(())
    }

    async fn fetch(
        &self,
        dial: &Dial,
        repository: &RepositoryId,
        run: RunId,
        base: &CommitId,
    ) -> Result<(), Trouble> {
        let mirror = self.reader(repository).await?;
        if has(&mirror, base).await? {
            return Ok(());
        }
        let turns = self.turns(repository);
        let _turn = turns.fetch.lock().await;
        if has(&mirror, base).await? {
            return Ok(());
        }
        let reader = mirror.clone();
        let have = blocking(move || haves(&reader)).await?;
        transfer::fetch(dial, mirror, repository, base, have).await?;
        let (name, base) = (format!("{BASES}{run}/{base}"), base.clone());
        self.with(repository, move |mirror| mirror.update_ref(&name, &base, &Expect::Any)).await
    }
}

async fn has(mirror: &Repository, commit: &CommitId) -> Result<bool, Trouble> {
    let (mirror, commit) = (mirror.clone(), commit.clone());
    blocking(move || mirror.has(&commit)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Trouble> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Trouble::Failing(error.to_string()))??)
}

/// What the mirror has, as far as its refs tell: the bases that were fetched.
fn haves(mirror: &Repository) -> Result<Vec<CommitId>, Error> {
    // Names of runs grow with time.
    let latest = mirror.refs(BASES)?.into_iter().rev();
    Ok(latest.map(|(_, tip)| tip).take(HAVES).collect())
}
