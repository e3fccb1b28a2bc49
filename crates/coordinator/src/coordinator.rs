//! The `Coordinator` actor: the root of the process's part. It supervises runs, links, repositories and
//! the workforce, brings them together, and loads a run afresh when its actor has died.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{Incarnation, NodeId, RunId},
    message::ToCoordinator,
    run::fact::Place,
};
use ensemble_directory::{Local, Ownership};
use ensemble_journal::Journal;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{Mutex, OwnedSemaphorePermit, oneshot, watch};

use crate::{
    Config, Error, clock,
    handle::{CoordinatorHandle, Shared},
    link::{Arguments as LinkArguments, LinkHandle},
    repository::RepositoryHandle,
    run::{self, RunHandle, load},
    workforce::WorkforceHandle,
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
    /// The kernel's lock; `None` when the run is loaded afresh and still ours.
    pub ownership: Option<Ownership>,
    /// What was loaded.
    pub loaded: load::Loaded,
    /// Its repository.
    pub repository: RepositoryHandle,
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

/// The actor.
pub struct Coordinator;

/// Its state.
pub struct State {
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
                let owned = about(&body).and_then(|run| state.runs.get(&run));
                if let Some(Standing::Live(run)) = owned.map(|owned| &owned.standing) {
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

/// The run that a node speaks of, if it is one.
fn about(body: &ToCoordinator) -> Option<RunId> {
    match body {
        ToCoordinator::Inventory(inventory) => Some(inventory.run),
        ToCoordinator::Started(key) | ToCoordinator::Refused { key, .. } => Some(key.run),
        ToCoordinator::Ended(ended) => Some(ended.key.run),
        ToCoordinator::Slots { .. } => None,
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
