//! The mirrors of a node: a bare repository for each repository that its attempts work on. Work in
//! one mirror happens one after the other. Attempts call from their own tasks; no actor waits here.

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
const BASES: &str = "refs/ensemble-bases/";

/// The mirrors below one directory.
#[derive(Clone, Debug)]
pub(crate) struct Mirrors {
    folder: PathBuf,
    turns: Arc<Mutex<BTreeMap<RepositoryId, Turn>>>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

impl Mirrors {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, turns: Arc::default() }
    }

    fn turn(&self, repository: &RepositoryId) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(repository.clone()).or_default().clone()
    }

    /// Does something in a mirror, on a thread that may wait, with nobody else at it. It is done to
    /// its end even if the caller leaves.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        repository: &RepositoryId,
        work: impl FnOnce(&Repository) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Trouble> {
        let turn = self.turn(repository).lock_owned().await;
        let path = self.folder.join(format!("{repository}.git"));
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&Repository::open_or_create(path)?)
        });
        Ok(done.await.map_err(|error| Trouble::Passing(error.to_string()))??)
    }

    /// A mirror to read from, without a turn: what is there never changes.
    pub(crate) async fn reader(&self, repository: &RepositoryId) -> Result<Repository, Trouble> {
        self.with(repository, |mirror| Ok(mirror.clone())).await
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
        let wanted = base.clone();
        let missing = self
            .with(repository, move |mirror| {
                let here = mirror.has(&wanted)?;
                Ok((!here).then(|| mirror.clone()).map(|mirror| (haves(&mirror), mirror)))
            })
            .await?;
        let Some((have, mirror)) = missing else { return Ok(()) };
        // Two attempts with the same base fetch it once.
        let turn = self.turn(repository);
        let _turn = turn.lock().await;
        let (reader, wanted) = (mirror.clone(), base.clone());
        let here = tokio::task::spawn_blocking(move || reader.has(&wanted)).await;
        if matches!(here, Ok(Ok(true))) {
            return Ok(());
        }
        transfer::fetch(dial, mirror.clone(), repository, base, have?).await?;
        let base = base.clone();
        let noted = tokio::task::spawn_blocking(move || {
            mirror.update_ref(&format!("{BASES}{run}/{base}"), &base, &Expect::Any)
        });
        Ok(noted.await.map_err(|error| Trouble::Passing(error.to_string()))??)
    }
}

/// What the mirror has, as far as its refs tell: the bases that were fetched.
fn haves(mirror: &Repository) -> Result<Vec<CommitId>, Error> {
    // Names of runs grow with time.
    let latest = mirror.refs(BASES)?.into_iter().rev();
    Ok(latest.map(|(_, tip)| tip).take(HAVES).collect())
}
