//! The handle of the coordinator: what the services, the links and the process around it may ask. No one
//! outside sees a mailbox.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use ensemble_core::{
    ids::{Incarnation, RepositoryId, RunId, Seq},
    message::{Hello, ToCoordinator},
    run::Fact,
};
use ensemble_directory::{Local, Owner, Ownership};
use ensemble_journal::Journal;
use ractor::{Actor, ActorRef};
use tokio::sync::{Mutex, OwnedSemaphorePermit, oneshot, watch};

use crate::{
    Config, Error,
    coordinator::{Coordinator, Msg, Ready, Standing},
    link::LinkHandle,
    repository::{self, RepositoryHandle},
    room,
    run::load,
    submit::{self, Submission},
    workforce::{Msg as WorkforceMsg, WorkforceHandle},
};

/// Talks to the coordinator. Cheap to clone.
#[derive(Clone)]
pub struct CoordinatorHandle {
    pub(crate) actor: ActorRef<Msg>,
    pub(crate) shared: Arc<Shared>,
}

/// What every part of the process needs.
pub(crate) struct Shared {
    pub config: Config,
    pub incarnation: Incarnation,
    pub journal: Journal,
    pub directory: Local,
    pub workforce: WorkforceHandle,
    /// Made on first use, one at a time, by whoever needs it first.
    pub repositories: Mutex<BTreeMap<RepositoryId, RepositoryHandle>>,
    pub closing: watch::Sender<bool>,
}

impl CoordinatorHandle {
    /// Starts a coordinator.
    ///
    /// # Errors
    /// [`Error::Unfit`] when its actors can't be started.
    pub async fn start(config: Config, journal: Journal, directory: Local) -> Result<Self, Error> {
        let (reply, handle) = oneshot::channel();
        let arguments = (config, journal, directory, reply);
        let spawned = Actor::spawn(None, Coordinator, arguments).await;
        spawned.map_err(|error| Error::Unfit(error.to_string()))?;
        handle.await.map_err(|_| Error::Gone)
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &PathBuf {
        &self.shared.config.data
    }

    /// Becomes true when the process ends.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.shared.closing.subscribe()
    }

    /// Takes a run in, or returns as if it had when it was handed in before.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`], [`Error::Unfit`], [`Error::Owned`]; then nothing was stored.
    pub async fn submit(&self, submission: Submission) -> Result<(), Error> {
        if !matches!(self.standing(submission.run).await?, Standing::Unknown) {
            return Ok(());
        }
        let run = submission.run;
        let data = self.data().clone();
        let accepted = tokio::task::spawn_blocking(move || {
            room::check(&data)?;
            submit::check(submission)
        });
        let accepted = accepted.await.map_err(|_| Error::Gone)??;
        let repository = self.repository(accepted.repository()).await?;
        let ownership = load::own(&self.shared.directory, run, &self.me()).await?;
        submit::store(self.journal(), &repository, accepted).await?;
        self.bring_up(run, Some(ownership)).await
    }

    /// Takes over a run that nobody owns, and goes on with it.
    ///
    /// # Errors
    /// [`Error::Owned`], [`Error::UnknownRun`], [`Error::Damaged`].
    pub async fn own(&self, run: RunId) -> Result<(), Error> {
        if !matches!(self.standing(run).await?, Standing::Unknown) {
            return Ok(());
        }
        if load::last(self.journal(), run).await? == Seq(0) {
            return Err(Error::UnknownRun(run));
        }
        let ownership = load::own(&self.shared.directory, run, &self.me()).await?;
        self.bring_up(run, Some(ownership)).await
    }

    /// Proposes a fact to a run that is ours.
    ///
    /// # Errors
    /// [`Error::Refused`] when the run's state does not allow it; [`Error::UnknownRun`].
    pub async fn propose(&self, run: RunId, fact: Fact) -> Result<Seq, Error> {
        match self.standing(run).await? {
            Standing::Live(handle) => handle.propose(fact).await,
            Standing::Loading => Err(Error::Gone),
            Standing::GivenUp(why) => Err(Error::Unfit(why)),
            Standing::Unknown => Err(Error::UnknownRun(run)),
        }
    }

    /// How a run stands with this process.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process is ending.
    pub async fn standing(&self, run: RunId) -> Result<Standing, Error> {
        self.ask(|reply| Msg::Find(run, reply)).await
    }

    /// Hands out no more work: the process is about to end.
    pub fn close(&self) {
        self.shared.workforce.tell(WorkforceMsg::Closed);
    }

    /// Ends: what was said is stored, watchers are let go, runs are given back. At most `limit` long.
    pub async fn shutdown(self, limit: Duration) {
        self.close();
        let flush = async {
            for run in self.ask(Msg::Runs).await.unwrap_or_default() {
                run.flush().await;
            }
        };
        if tokio::time::timeout(limit, flush).await.is_err() {
            tracing::warn!(
                "some of what was said could not be stored in time; it is told again after a resume"
            );
        }
        self.shared.closing.send_replace(true);
        drop(self.actor.stop_and_wait(None, Some(limit)).await);
        self.shared.journal.clone().close().await;
    }

    pub(crate) fn link_up(&self, link: LinkHandle) {
        drop(self.actor.cast(Msg::LinkUp(link)));
    }

    pub(crate) fn hear(&self, link: LinkHandle, body: ToCoordinator, permit: Option<OwnedSemaphorePermit>) {
        drop(self.actor.cast(Msg::FromNode(link, Box::new(body), permit)));
    }

    /// The link for a node that says hello.
    pub(crate) async fn link(&self, hello: &Hello) -> Result<LinkHandle, Error> {
        let (node, incarnation) = (hello.node.clone(), hello.greeting.from);
        self.ask(|reply| Msg::Link(node, incarnation, reply)).await?
    }

    pub(crate) async fn repository(&self, id: &RepositoryId) -> Result<RepositoryHandle, Error> {
        let mut repositories = self.shared.repositories.lock().await;
        if let Some(handle) = repositories.get(id) {
            return Ok(handle.clone());
        }
        let path = repository::path(self.data(), id);
        let handle = RepositoryHandle::start(path, &self.actor.get_cell()).await?;
        repositories.insert(id.clone(), handle.clone());
        Ok(handle)
    }

    async fn ask<T>(&self, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.actor.cast(msg(reply)).map_err(|_| Error::Gone)?;
        answer.await.map_err(|_| Error::Gone)
    }

    fn me(&self) -> Owner {
        let config = &self.shared.config;
        Owner { coordinator: config.id.clone(), pid: std::process::id(), socket: config.socket.clone() }
    }

    async fn bring_up(&self, run: RunId, ownership: Option<Ownership>) -> Result<(), Error> {
        let ready = self.ready(run, ownership).await?;
        let (reply, done) = oneshot::channel();
        let msg = Msg::Loaded(run, Box::new(Ok(ready)), Some(reply));
        self.actor.cast(msg).map_err(|_| Error::Gone)?;
        done.await.map_err(|_| Error::Gone)?
    }

    async fn ready(&self, run: RunId, ownership: Option<Ownership>) -> Result<Ready, Error> {
        let loaded = load::load(self.journal(), run).await?;
        let submitted = loaded.state.submitted.as_ref().ok_or(Error::UnknownRun(run))?;
        let repository = self.repository(&submitted.repository).await?;
        repository.take_over(run).await?;
        Ok(Ready { ownership, loaded, repository })
    }

    /// Loads a run whose actor died, after a pause that grows.
    pub(crate) fn reload(&self, run: RunId, loads: u32) {
        let me = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100 << loads.min(6))).await;
            let ready = me.ready(run, None).await;
            drop(me.actor.cast(Msg::Loaded(run, Box::new(ready), None)));
        });
    }
}
