//! The `Coordinator` actor: the root of the process's part. It supervises runs, links, repositories and
//! the workforce, brings them together, and loads a run afresh when its actor has died.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{Incarnation, NodeId, RepositoryId, RunId, Seq},
    message::{Hello, ToCoordinator},
    run::{Fact, fact::Place},
};
use ensemble_directory::{Local, Owner, Ownership};
use ensemble_journal::Journal;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{Mutex, OwnedSemaphorePermit, oneshot, watch};

use crate::{
    Config, Error, clock,
    link::{Arguments as LinkArguments, LinkHandle},
    repository::{self, RepositoryHandle},
    run::{self, RunHandle, load},
    submit::{self, Submission},
    workforce::{Msg as WorkforceMsg, WorkforceHandle},
};

/// Loads of one run in a row before it is given up.
const LOADS: u32 = 5;

/// A run that lived this long has its count of loads forgiven.
const HEALTHY: Duration = Duration::from_secs(60);

/// What the actor is told.
pub enum Msg {
    /// A run was loaded, or could not be.
    Loaded(RunId, Box<Result<Ready, Error>>, Option<oneshot::Sender<Result<(), Error>>>),
    /// A node's link is up: every run greets it.
    LinkUp(LinkHandle),
    /// A node says something about a run.
    FromNode(LinkHandle, Box<ToCoordinator>, Option<OwnedSemaphorePermit>),
    /// Whose actor is that run's?
    Find(RunId, oneshot::Sender<Standing>),
    /// The link to a node, made anew for a new start of it.
    Link(NodeId, Incarnation, oneshot::Sender<Result<LinkHandle, Error>>),
    /// All runs, to be flushed before the end.
    Runs(oneshot::Sender<Vec<RunHandle>>),
}

/// A run that is ours and loaded.
pub struct Ready {
    ownership: Option<Ownership>,
    loaded: load::Loaded,
    repository: RepositoryHandle,
}

/// How a run stands with this process.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It is not ours.
    Unknown,
    /// Its actor works.
    Live(RunHandle),
    /// Its actor died and is being brought back.
    Loading,
    /// It died too often.
    GivenUp(String),
}

/// Talks to the coordinator. Cheap to clone.
#[derive(Clone)]
pub struct CoordinatorHandle {
    actor: ActorRef<Msg>,
    shared: Arc<Shared>,
}

/// What every part of the process needs.
pub struct Shared {
    config: Config,
    incarnation: Incarnation,
    journal: Journal,
    directory: Local,
    workforce: WorkforceHandle,
    /// Made on first use, one at a time, by whoever needs it first.
    repositories: Mutex<BTreeMap<RepositoryId, RepositoryHandle>>,
    closing: watch::Sender<bool>,
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
    /// [`Error::Invalid`], [`Error::Unfit`], [`Error::Owned`]; then nothing was stored.
    pub async fn submit(&self, submission: Submission) -> Result<(), Error> {
        if !matches!(self.standing(submission.run).await?, Standing::Unknown) {
            return Ok(());
        }
        let run = submission.run;
        let accepted = tokio::task::spawn_blocking(move || submit::check(submission));
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

    pub(crate) fn hear(
        &self,
        link: LinkHandle,
        body: ToCoordinator,
        permit: Option<OwnedSemaphorePermit>,
    ) {
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
        Ok(Ready { ownership, loaded, repository })
    }

    /// Loads a run whose actor died, after a pause that grows.
    fn reload(&self, run: RunId, loads: u32) {
        let me = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100 << loads.min(6))).await;
            let ready = me.ready(run, None).await;
            drop(me.actor.cast(Msg::Loaded(run, Box::new(ready), None)));
        });
    }
}

struct Coordinator;

struct State {
    handle: CoordinatorHandle,
    runs: BTreeMap<RunId, Owned>,
    links: BTreeMap<NodeId, LinkHandle>,
}

/// A run that is ours.
struct Owned {
    /// The kernel's lock: ours until the process lets go of the run.
    _ownership: Option<Ownership>,
    standing: Standing,
    loads: u32,
    since: Instant,
}

impl Actor for Coordinator {
    type Msg = Msg;
    type State = State;
    type Arguments = (Config, Journal, Local, oneshot::Sender<CoordinatorHandle>);

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        (config, journal, directory, reply): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let workforce = WorkforceHandle::start(&myself.get_cell()).await?;
        let shared = Shared {
            config,
            incarnation: Incarnation(clock::now_ms()),
            journal,
            directory,
            workforce,
            repositories: Mutex::default(),
            closing: watch::Sender::new(false),
        };
        let handle = CoordinatorHandle { actor: myself, shared: Arc::new(shared) };
        drop(reply.send(handle.clone()));
        Ok(State { handle, runs: BTreeMap::new(), links: BTreeMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        msg: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Loaded(run, ready, reply) => {
                let result = state.bring_up(run, *ready, &myself.get_cell()).await;
                if let Some(reply) = reply {
                    drop(reply.send(result));
                }
            }
            Msg::LinkUp(link) => {
                for run in state.live() {
                    run.tell(run::Msg::LinkUp(link.clone()));
                }
            }
            Msg::FromNode(link, body, permit) => {
                // A run that is not ours, or not yet: its node says it again when the run is claimed.
                if let Some(Standing::Live(run)) = state.runs.get(&about(&body)).map(|owned| &owned.standing)
                {
                    run.tell(run::Msg::Node(link, *body, permit));
                }
            }
            Msg::Find(run, reply) => {
                let standing = state.runs.get(&run).map(|owned| owned.standing.clone());
                drop(reply.send(standing.unwrap_or(Standing::Unknown)));
            }
            Msg::Link(node, incarnation, reply) => {
                drop(reply.send(state.link(node, incarnation, &myself.get_cell()).await));
            }
            Msg::Runs(reply) => drop(reply.send(state.live().collect())),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (id, why) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell.get_id(), error.to_string()),
            SupervisionEvent::ActorTerminated(cell, ..) => (cell.get_id(), "it ended".to_owned()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        state.child_ended(id, &why);
        drop(myself);
        Ok(())
    }

    async fn post_stop(&self, myself: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        myself.get_cell().stop_children_and_wait(None, Some(Duration::from_secs(5))).await;
        state.runs.clear();
        Ok(())
    }
}

/// The run that a node speaks of.
fn about(body: &ToCoordinator) -> RunId {
    match body {
        ToCoordinator::Inventory(inventory) => inventory.run,
        ToCoordinator::Started(key) | ToCoordinator::Refused { key, .. } => key.run,
        ToCoordinator::Ended(ended) => ended.key.run,
    }
}

impl State {
    fn live(&self) -> impl Iterator<Item = RunHandle> {
        self.runs.values().filter_map(|owned| match &owned.standing {
            Standing::Live(run) => Some(run.clone()),
            _ => None,
        })
    }

    /// Starts the actor of a loaded run. Its `pre_start` only computes, so this doesn't wait.
    async fn bring_up(
        &mut self,
        run: RunId,
        ready: Result<Ready, Error>,
        me: &ActorCell,
    ) -> Result<(), Error> {
        let Ready { ownership, loaded, repository } = match ready {
            Ok(ready) => ready,
            Err(error) => {
                self.fail(run, &error.to_string());
                return Err(error);
            }
        };
        let shared = &self.handle.shared;
        let arguments = run::Arguments {
            loaded,
            embedded: shared.config.embedded,
            coordinator: shared.config.id.clone(),
            data: shared.config.data.clone(),
            journal: shared.journal.clone(),
            repository,
            workforce: shared.workforce.clone(),
            links: self.links.values().cloned().collect(),
        };
        let actor = RunHandle::start(arguments, me).await?;
        let (standing, since) = (Standing::Live(actor), Instant::now());
        match self.runs.get_mut(&run) {
            Some(owned) => (owned.standing, owned.since) = (standing, since),
            None => {
                self.runs.insert(run, Owned { _ownership: ownership, standing, loads: 0, since });
            }
        }
        Ok(())
    }

    fn child_ended(&mut self, id: ActorId, why: &str) {
        let found = self
            .runs
            .iter()
            .find(|(_, owned)| matches!(&owned.standing, Standing::Live(run) if run.id() == id));
        if let Some(run) = found.map(|(run, _)| *run) {
            return self.fail(run, why);
        }
        // A link that died is made anew when its node dials again.
        self.links.retain(|_, link| link.id() != id);
    }

    /// A run's actor died, or could not be loaded: what is stored is the truth, so load it again.
    fn fail(&mut self, run: RunId, why: &str) {
        let Some(owned) = self.runs.get_mut(&run) else { return };
        if owned.since.elapsed() > HEALTHY {
            owned.loads = 0;
        }
        owned.loads += 1;
        owned.since = Instant::now();
        if owned.loads > LOADS {
            tracing::error!(%run, why, "the run is given up; it can be resumed");
            owned.standing = Standing::GivenUp(format!("the run can't go on here: {why}"));
            return;
        }
        tracing::warn!(%run, why, "the run is loaded afresh");
        owned.standing = Standing::Loading;
        self.handle.reload(run, owned.loads);
    }

    /// A link per start of a node; an earlier start's ends.
    async fn link(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        me: &ActorCell,
    ) -> Result<LinkHandle, Error> {
        if let Some(known) = self.links.get(&node) {
            if known.place().incarnation == incarnation {
                return Ok(known.clone());
            }
            if known.place().incarnation > incarnation {
                let text = format!("a later start of node {node} is attached; this one must end");
                return Err(Error::Unfit(text));
            }
            known.stop();
        }
        let shared = &self.handle.shared;
        let arguments = LinkArguments {
            me: (shared.config.id.clone(), shared.incarnation),
            place: Place { node: node.clone(), incarnation },
            ttl: shared.config.link_ttl,
            coordinator: self.handle.clone(),
            workforce: shared.workforce.clone(),
        };
        let link = LinkHandle::start(arguments, me).await?;
        self.links.insert(node, link.clone());
        Ok(link)
    }
}
