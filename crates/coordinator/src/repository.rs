//! The `Repository` actor: the process's only writer of one repository. Writes go one after the other
//! on a blocking thread; packs are read beside them, since objects are only ever added.

use std::{
    collections::VecDeque,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Duration,
};

use ensemble_core::{
    ids::{CommitId, RepositoryId, RunId},
    outcome::Changes,
    run::state::result_branch,
};
use ensemble_workspace::{Expect, Merge, MergeNote};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::Error;

/// Largest pack that is taken in one piece.
pub const PACK_LIMIT: u64 = 1 << 30;

/// A write in flight may take this long before its caller is told that the outcome is unknown.
const PATIENCE: Duration = Duration::from_secs(600);

/// The repositories of a data directory.
pub fn path(data: &Path, id: &RepositoryId) -> PathBuf {
    data.join("repositories").join(format!("{id}.git"))
}

/// A pack in a file, and the refs that shall hold what came with it.
#[derive(Debug)]
pub struct Pushed {
    /// The pack; `None` when there was nothing to send.
    pub pack: Option<tempfile::TempPath>,
    /// Refs by name.
    pub refs: Vec<(String, CommitId)>,
}

/// A merge as its fact orders it.
#[derive(Clone, Debug)]
pub struct MergeOrder {
    /// The run branch: `refs/heads/ensemble/<run>`.
    pub branch: String,
    /// First parent: where the branch stands.
    pub ours: CommitId,
    /// Second parent.
    pub theirs: CommitId,
    /// What the attempt started from.
    pub base: CommitId,
    /// Message, author, time.
    pub note: MergeNote,
    /// Whether the branch moves to the merge commit at once.
    pub advance: bool,
}

/// What came of a merge.
#[derive(Clone, Debug)]
pub enum Merged {
    /// The merge commit.
    Clean {
        /// Its id.
        commit: CommitId,
        /// What it changed on the branch.
        changes: Changes,
    },
    /// The files that both sides changed, each with what happened.
    Conflict(Vec<String>),
}

type Job = Box<dyn FnOnce(&ensemble_workspace::Repository) + Send>;

/// What the actor is told.
pub enum Msg {
    /// A write, to be done in its turn.
    Write(Job),
    /// The write in flight has ended.
    Idle,
}

/// Talks to the actor of one repository.
#[derive(Clone)]
pub struct RepositoryHandle {
    path: PathBuf,
    actor: ActorRef<Msg>,
}

impl RepositoryHandle {
    /// Starts the actor of the repository at `path`, which is made if need be.
    pub async fn start(path: PathBuf, supervisor: &ractor::ActorCell) -> Result<Self, Error> {
        let opened = path.clone();
        blocking(move || Ok(ensemble_workspace::Repository::open_or_create(opened)?)).await?;
        let spawned = Actor::spawn_linked(None, Repository, path.clone(), supervisor.clone()).await;
        let (actor, _) = spawned.map_err(|error| Error::Unfit(error.to_string()))?;
        Ok(Self { path, actor })
    }

    /// Which of these commits it has.
    pub async fn known(&self, commits: Vec<CommitId>) -> Result<Vec<CommitId>, Error> {
        let path = self.path.clone();
        blocking(move || Ok(ensemble_workspace::Repository::open_or_create(path)?.known(&commits)?)).await
    }

    /// Writes a pack of `want` without `have`.
    pub async fn pack(
        &self,
        want: Vec<CommitId>,
        have: Vec<CommitId>,
        mut out: impl std::io::Write + Send + 'static,
    ) -> Result<u64, Error> {
        let path = self.path.clone();
        blocking(move || {
            let repository = ensemble_workspace::Repository::open_or_create(path)?;
            let written = repository.write_pack(&want, &have, &mut out, PACK_LIMIT);
            // A reader that left needs nothing more.
            drop(out.flush());
            Ok(written?)
        })
        .await
    }

    /// Takes a pack and sets its refs. A ref that is there already is success.
    pub async fn receive(&self, pushed: Pushed) -> Result<(), Error> {
        self.write(move |repository| {
            let tips: Vec<CommitId> = pushed.refs.iter().map(|(_, commit)| commit.clone()).collect();
            if let Some(pack) = &pushed.pack {
                let file =
                    File::open(pack).map_err(|source| Error::Io { what: "open a pack".into(), source })?;
                repository.receive_pack(&mut BufReader::new(file), &tips, PACK_LIMIT)?;
            }
            for (name, commit) in &pushed.refs {
                repository.update_ref(name, commit, &Expect::Absent)?;
            }
            Ok(())
        })
        .await
    }

    /// Makes the run's branch at its base, unless it is there.
    pub async fn begin(&self, branch: String, base: CommitId) -> Result<(), Error> {
        self.write(move |repository| {
            if repository.ref_target(&branch)?.is_none() {
                repository.update_ref(&branch, &base, &Expect::Absent)?;
            }
            Ok(())
        })
        .await
    }

    /// Makes a run's refs writable again: their only writer, the owner before us, may have been killed
    /// while it held the lock of one.
    pub async fn take_over(&self, run: RunId) -> Result<(), Error> {
        let names = [format!("refs/heads/{}", result_branch(run)), format!("refs/ensemble/{run}")];
        self.write(move |repository| {
            names.iter().try_for_each(|name| repository.clear_locks(name)).map_err(Error::from)
        })
        .await
    }

    /// Makes a merge commit, and moves the branch to it if that is ordered.
    pub async fn merge(&self, order: MergeOrder) -> Result<Merged, Error> {
        self.write(move |repository| {
            let merge = repository.merge(&order.ours, &order.theirs, &order.base, &order.note)?;
            match merge {
                Merge::Clean { commit, changes } => {
                    if order.advance {
                        repository.update_ref(&order.branch, &commit, &Expect::At(order.ours))?;
                    }
                    Ok(Merged::Clean { commit, changes })
                }
                Merge::Conflict { files } => {
                    let names = files.iter().map(|file| format!("{} ({})", file.path, file.what.as_str()));
                    Ok(Merged::Conflict(names.collect()))
                }
            }
        })
        .await
    }

    /// Moves the branch.
    pub async fn advance(&self, branch: String, ours: CommitId, commit: CommitId) -> Result<(), Error> {
        self.write(move |repository| Ok(repository.update_ref(&branch, &commit, &Expect::At(ours))?)).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ensemble_workspace::Repository) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |repository| drop(reply.send(work(repository))));
        self.actor.cast(Msg::Write(job)).map_err(|_| Error::Gone)?;
        tokio::time::timeout(PATIENCE, answer).await.map_err(|_| Error::Gone)?.map_err(|_| Error::Gone)?
    }
}

/// Runs `work` on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Gone)?
}

struct Repository;

struct State {
    path: PathBuf,
    queue: VecDeque<Job>,
    busy: bool,
}

impl Actor for Repository {
    type Msg = Msg;
    type State = State;
    type Arguments = PathBuf;

    async fn pre_start(&self, _: ActorRef<Msg>, path: PathBuf) -> Result<State, ActorProcessingErr> {
        Ok(State { path, queue: VecDeque::new(), busy: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        msg: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Write(job) => state.queue.push_back(job),
            Msg::Idle => state.busy = false,
        }
        if state.busy {
            return Ok(());
        }
        if let Some(job) = state.queue.pop_front() {
            state.busy = true;
            let path = state.path.clone();
            tokio::task::spawn_blocking(move || {
                match ensemble_workspace::Repository::open_or_create(path) {
                    Ok(repository) => job(&repository),
                    // The caller hears that its job was dropped.
                    Err(error) => tracing::error!(%error, "repository can't be opened"),
                }
                drop(myself.cast(Msg::Idle));
            });
        }
        Ok(())
    }
}
