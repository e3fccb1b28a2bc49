//! The root actor of a node: it starts and restarts the others, knows which attempts are alive, over
//! or settled, and answers the coordinator. Whatever waits is done by tasks that send a message
//! back. Starting and ending a node is `node/handle.rs`, the words of the coordinator `node/words.rs`.

mod children;
mod handle;
mod links;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use ensemble_core::{
    ids::{CoordinatorId, EmployeeId, Epoch, Incarnation, RunId},
    link::AttemptKey,
    message::{ToCoordinator, ToNode},
    run::fact::LossCause,
    team,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Dial, Home, KeeperCommand,
    attempt::World,
    folder::{Folder, Stored},
    link::{self, Permit},
    mirrors::Mirrors,
    peers::Coordinators,
    pool::Pool,
    recover,
    room::{self, Room},
};
use children::{Children, Desk};
pub use handle::{Config, NodeHandle, start};

/// Packs that are on their way at once.
const PUSHES: usize = 4;
/// Keys of attempts that were acknowledged, so that an assignment which comes late again is known.
const SETTLED: usize = 1024;
/// Longest wait for the children to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The actor.
pub(crate) struct Node;

/// What the node hears. What the network sends holds a permit until it is dealt with; the rest
/// comes from its own attempts, once each.
pub(crate) enum Msg {
    /// The coordinator said something.
    Heard(CoordinatorId, Box<ToNode>, Permit),
    /// Another start of a coordinator is at the other end: it owns nothing until it claims it.
    NewPeer(CoordinatorId),
    /// There is a connection to a coordinator, or none.
    Link(CoordinatorId, bool),
    /// These coordinators are there now.
    Peers(BTreeMap<CoordinatorId, Dial>),
    /// An agent is about to run.
    Started(AttemptKey),
    /// An assignment was not taken.
    Refused { key: AttemptKey, reason: String },
    /// An end lies in the outbox; whether it can be told as it is.
    Kept { key: AttemptKey, pushed: bool },
    /// An attempt's task broke.
    Broke { key: AttemptKey, why: String },
    /// An end can be told now.
    Delivered(AttemptKey),
    /// An acknowledged end is cleared away, or could not be.
    Forgotten(AttemptKey, bool),
    /// A child is due to be started again.
    Restart(children::Child),
    /// Why there is no room for another attempt, or that there is again.
    Room(Option<String>),
    /// A claim whose epoch could not be noted is due again.
    Reclaim(CoordinatorId, RunId, Epoch),
    /// End all attempts; answered when they are over and told, or there is nobody to tell.
    Drain(RpcReplyPort<()>),
    /// Leave agents no more time.
    Hurry,
}

/// All that the node needs.
pub(crate) struct Arguments {
    home: Arc<Home>,
    incarnation: Incarnation,
    parts: Parts,
    /// What the outbox held at the start.
    ended: BTreeMap<AttemptKey, bool>,
    epochs: BTreeMap<RunId, Epoch>,
    /// Attempts that an earlier process left.
    left: Vec<(Stored, Folder, Mirrors)>,
    room: Room,
    /// Why there is no room, if so.
    short: Option<String>,
}

/// An employee whose agents can run here.
struct Hosted {
    exec: team::Exec,
    instances: u32,
    /// Of each instance.
    slots: u32,
    keep_ignored: bool,
}

impl Hosted {
    /// Attempts at once of all instances.
    fn all_slots(&self) -> u32 {
        self.instances.saturating_mul(self.slots)
    }
}

/// What the actors below the node are made of.
struct Parts {
    coordinators: Coordinators,
    keeper: KeeperCommand,
    ttl: Duration,
    /// How employees' agents run, and how many at once.
    employees: BTreeMap<EmployeeId, Hosted>,
    check_slots: u32,
    pool: Pool,
}

pub(crate) struct State {
    myself: ActorRef<Msg>,
    home: Arc<Home>,
    world: Arc<World>,
    children: Children,
    /// Attempts under way, each with who has it; nobody: it is being taken in.
    live: BTreeMap<AttemptKey, Option<Desk>>,
    /// Ends that are not acknowledged; whether they can be told as they are.
    ended: BTreeMap<AttemptKey, bool>,
    settled: VecDeque<AttemptKey>,
    /// The highest epoch seen of each run.
    epochs: BTreeMap<RunId, Epoch>,
    /// Commits on their way, each with the epoch that it goes under.
    deliveries: BTreeMap<AttemptKey, (Epoch, AbortOnDropHandle<()>)>,
    forgetting: BTreeSet<AttemptKey>,
    takings: BTreeMap<AttemptKey, AbortOnDropHandle<()>>,
    pushes: Arc<Semaphore>,
    draining: Option<Vec<RpcReplyPort<()>>>,
    /// Why there is no room for another attempt, if so.
    short: Option<String>,
    _watches: [AbortOnDropHandle<()>; 2],
}

impl Actor for Node {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments { home, incarnation, parts, ended, epochs, left, room, short } = arguments;
        let coordinators = parts.coordinators.clone();
        let watch = room::watch(room.clone(), parts.pool.clone(), short.clone(), myself.clone());
        let (children, world) =
            Children::start(&myself, &home, incarnation, (parts, room), short.is_some()).await?;
        let mut state = State {
            myself: myself.clone(),
            home,
            world,
            children,
            live: BTreeMap::new(),
            ended,
            settled: VecDeque::new(),
            epochs,
            deliveries: BTreeMap::new(),
            forgetting: BTreeSet::new(),
            takings: BTreeMap::new(),
            pushes: Arc::new(Semaphore::new(PUSHES)),
            draining: None,
            short,
            _watches: [watch, follow(coordinators, myself)],
        };
        for (stored, folder, mirrors) in left {
            state.take_in(stored, folder, mirrors, LossCause::Process, "its node's process ended".to_owned());
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Heard(from, word, _permit) => state.heard(from, *word).await,
            Msg::NewPeer(coordinator) => state.world.peers.disown(&coordinator),
            Msg::Link(coordinator, up) => state.children.links.set_up(&coordinator, up),
            Msg::Peers(there) => {
                state.world.peers.set(there.clone());
                state.children.links.follow(&there).await?;
            }
            Msg::Started(key) => state.say_of(key.run, ToCoordinator::Started(key)),
            Msg::Refused { key, reason } => {
                state.live.remove(&key);
                state.say_of(key.run, ToCoordinator::Refused { key, reason });
            }
            Msg::Kept { key, pushed } => {
                state.live.remove(&key);
                state.takings.remove(&key);
                state.ended.insert(key.clone(), pushed);
                state.tell(&key);
            }
            Msg::Broke { key, why } => state.salvage(key, &why),
            Msg::Delivered(key) => {
                state.deliveries.remove(&key);
                if let Some(pushed) = state.ended.get_mut(&key) {
                    *pushed = true;
                    state.tell(&key);
                }
            }
            Msg::Forgotten(key, done) => state.forgotten(key, done),
            Msg::Restart(child) => {
                if let Err(error) = state.restart(child).await {
                    tracing::error!(%error, "a part of the node can't be started again");
                    return Err(error);
                }
            }
            Msg::Room(short) => {
                state.short = short;
                state.offer();
            }
            Msg::Reclaim(from, run, epoch) => state.claimed(from, run, epoch).await,
            Msg::Drain(reply) => {
                state.draining.get_or_insert_default().push(reply);
                state.children.tell_all(|| crate::employee::Msg::Drain);
                state.offer();
            }
            Msg::Hurry => state.children.tell_all(|| crate::employee::Msg::Hurry),
        }
        state.settle_drain();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => state.child_ended(&who, &error.to_string()),
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                state.child_ended(&who, reason.as_deref().unwrap_or("it stopped"))
            }
            _ => Ok(()),
        }
    }

    async fn post_stop(&self, myself: ActorRef<Msg>, _: &mut State) -> Result<(), ActorProcessingErr> {
        myself.stop_children_and_wait(None, Some(PATIENCE)).await;
        Ok(())
    }
}

/// Tells the node which coordinators there are, now and whenever that changes.
fn follow(mut coordinators: Coordinators, node: ActorRef<Msg>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let there = coordinators.borrow_and_update().clone();
            if node.send_message(Msg::Peers(there)).is_err() || coordinators.changed().await.is_err() {
                return;
            }
        }
    }))
}

impl State {
    fn say(&self, to: &CoordinatorId, word: ToCoordinator) {
        self.children.links.tell(to, link::Msg::Say(Box::new(word)));
    }

    /// Says something of a run to its owner. Where there is none, the next one asks for all of it.
    fn say_of(&self, run: RunId, word: ToCoordinator) {
        if let Some(owner) = self.world.peers.owner(run) {
            self.say(&owner, word);
        }
    }

    /// Why nothing new is taken, if so.
    fn closed(&self) -> Option<String> {
        let ending = self.draining.as_ref().map(|_| "the node is ending".to_owned());
        ending.or_else(|| self.short.clone())
    }

    /// Offers the slots that there are, or none while nothing is taken: whoever can't be served waits
    /// then, instead of being refused again and again.
    fn offer(&mut self) {
        let closed = self.closed();
        if let Some(why) = &closed {
            tracing::warn!(why, "nothing new is begun here");
        }
        self.children.offer(closed);
    }

    /// Tells the end of an attempt to the owner of its run, if there is one, or brings over its commit
    /// first.
    fn tell(&mut self, key: &AttemptKey) {
        let Some(owner) = self.world.peers.owner(key.run) else { return };
        match self.ended.get(key) {
            Some(true) => self.children.links.tell(&owner, link::Msg::Report(key.clone())),
            Some(false) => self.deliver(key.clone()),
            None => {}
        }
    }

    /// Begins to bring over a commit, under the epoch that holds now.
    fn deliver(&mut self, key: AttemptKey) {
        let epoch = self.epochs.get(&key.run).copied().unwrap_or_default();
        if self.deliveries.get(&key).is_some_and(|(under, _)| *under == epoch) {
            return;
        }
        let delivering = recover::deliver(
            self.home.clone(),
            self.world.peers.dial(key.run),
            self.world.outbox.clone(),
            self.pushes.clone(),
            (key.clone(), epoch),
        );
        let (myself, delivered) = (self.myself.clone(), key.clone());
        let task = tokio::spawn(async move {
            delivering.await;
            let _ = myself.send_message(Msg::Delivered(delivered));
        });
        self.deliveries.insert(key, (epoch, AbortOnDropHandle::new(task)));
    }

    /// Takes in an attempt whose agent has no process to report to any more.
    fn take_in(
        &mut self,
        stored: Stored,
        folder: Folder,
        mirrors: Mirrors,
        cause: LossCause,
        reason: String,
    ) {
        let key = stored.assign.key.clone();
        let (myself, outbox, taken) = (self.myself.clone(), self.world.outbox.clone(), key.clone());
        let task = tokio::spawn(async move {
            let pushed = recover::take_in(&outbox, &mirrors, &folder, &stored, cause, &reason).await;
            let _ = myself.send_message(Msg::Kept { key: taken, pushed });
        });
        self.live.insert(key.clone(), None);
        self.takings.insert(key, AbortOnDropHandle::new(task));
    }

    /// Takes in an attempt whose task or employee broke in this process.
    fn salvage(&mut self, key: AttemptKey, why: &str) {
        tracing::error!(token = %key.token, why, "an attempt broke");
        let found = self.home.find(&key);
        let stored = found.and_then(|(folder, mirrors)| {
            let stored = folder.read().ok().flatten()?;
            Some((stored, folder, mirrors))
        });
        match stored {
            Some((stored, folder, mirrors)) => {
                self.take_in(stored, folder, mirrors, LossCause::Environment, why.to_owned());
            }
            None => {
                self.live.remove(&key);
                self.say_of(key.run, ToCoordinator::Refused { key, reason: why.to_owned() });
            }
        }
    }

    fn forgotten(&mut self, key: AttemptKey, done: bool) {
        self.forgetting.remove(&key);
        if done {
            self.ended.remove(&key);
            self.deliveries.remove(&key);
            self.settled.push_back(key);
            if self.settled.len() > SETTLED {
                self.settled.pop_front();
            }
        }
    }

    /// Answers who waits for the node to be drained, once it is.
    fn settle_drain(&mut self) {
        // Ends of runs that nobody owns stay in the outbox until somebody claims them.
        let reachable =
            |run| self.world.peers.owner(run).is_some_and(|owner| self.children.links.is_up(&owner));
        let over = self.live.is_empty() && !self.ended.keys().any(|key| reachable(key.run));
        if over && let Some(waiting) = &mut self.draining {
            for reply in waiting.drain(..) {
                // Who has left needs no answer.
                let _ = reply.send(());
            }
        }
    }
}
