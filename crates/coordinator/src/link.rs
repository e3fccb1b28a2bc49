//! The `NodeLink` actor: the coordinator's end of the link to one node. All rules are in `core::link`;
//! here frames come in and go out, the clock is read, and bodies are handed to the coordinator.

use std::{sync::Arc, time::Duration};

use ensemble_core::{
    ids::{CoordinatorId, EmployeeId, Incarnation},
    link::{AttachError, Config, Event, Frame, Link, Refused, Side},
    message::{Hello, PROTOCOL, ToCoordinator, ToNode, Welcome},
    placement::Offer,
    run::fact::Place,
};
use ensemble_proto::{v1, wire_coordinator_frame, wire_welcome};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tonic::Status;

use crate::{clock, handle::CoordinatorHandle, workforce};

/// What goes to the node: frames, until the channel closes.
pub type Outgoing = mpsc::Sender<Result<v1::CoordinatorFrame, Status>>;

/// Frames that wait for the socket: a window of bodies and the heartbeats between them.
pub const OUTGOING: usize = 2 * Config::WINDOW;

/// Bodies that were received and not yet dealt with; beyond it the stream is not read.
const UNHANDLED: usize = Config::WINDOW;

/// Tells which connection of a node a message belongs to; older ones are ignored.
pub type Connection = u64;

/// What the actor is told.
pub enum Msg {
    /// A node has said hello on a new connection.
    Attach(Box<Hello>, Outgoing, oneshot::Sender<Result<Connection, AttachError>>),
    /// A frame came.
    Frame(Connection, Box<Frame<ToCoordinator>>, Option<OwnedSemaphorePermit>),
    /// The connection is gone.
    Detach(Connection),
    /// Say this to the node.
    Send(ToNode),
    /// Look at the clock.
    Tick,
}

/// Talks to the actor.
#[derive(Clone)]
pub struct LinkHandle {
    place: Place,
    actor: ActorRef<Msg>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "link to {} ({})", self.place.node, self.place.incarnation)
    }
}

/// What a link needs to know of its surroundings.
pub struct Arguments {
    /// Who we are.
    pub me: (CoordinatorId, Incarnation),
    /// The node.
    pub place: Place,
    /// The length of a lease.
    pub ttl: Duration,
    /// Where bodies go.
    pub coordinator: CoordinatorHandle,
    /// Where offers go.
    pub workforce: workforce::WorkforceHandle,
}

impl LinkHandle {
    /// Starts the actor for a node.
    pub async fn start(arguments: Arguments, supervisor: &ractor::ActorCell) -> Result<Self, crate::Error> {
        let place = arguments.place.clone();
        let permits = Arc::new(Semaphore::new(UNHANDLED));
        let spawned =
            Actor::spawn_linked(None, NodeLink, (arguments, permits.clone()), supervisor.clone()).await;
        let (actor, _) = spawned.map_err(|error| crate::Error::Unfit(error.to_string()))?;
        Ok(Self { place, actor, permits })
    }

    /// The actor's id, by which its supervisor knows it.
    pub fn id(&self) -> ractor::ActorId {
        self.actor.get_id()
    }

    /// Which start of which node is at the other end.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// A new connection of the node.
    ///
    /// # Errors
    /// [`AttachError`] when it can't be used.
    pub async fn attach(&self, hello: Hello, out: Outgoing) -> Result<Connection, crate::Error> {
        let (reply, answer) = oneshot::channel();
        self.actor.cast(Msg::Attach(Box::new(hello), out, reply)).map_err(|_| crate::Error::Gone)?;
        let attached = answer.await.map_err(|_| crate::Error::Gone)?;
        attached.map_err(|error| crate::Error::Unfit(error.to_string()))
    }

    /// Hands in a frame; waits while too many bodies are unhandled.
    pub async fn frame(&self, connection: Connection, frame: Frame<ToCoordinator>) {
        let permit = match frame.body {
            Some(_) => self.permits.clone().acquire_owned().await.ok(),
            None => None,
        };
        drop(self.actor.cast(Msg::Frame(connection, Box::new(frame), permit)));
    }

    /// The connection is gone.
    pub fn detach(&self, connection: Connection) {
        drop(self.actor.cast(Msg::Detach(connection)));
    }

    /// Says something to the node. It arrives once and in order, or the node attaches anew and the run
    /// derives afresh what it owes.
    pub fn send(&self, body: ToNode) {
        drop(self.actor.cast(Msg::Send(body)));
    }

    /// Ends the actor: a later start of the node has taken its place.
    pub fn stop(&self) {
        self.actor.stop(None);
    }
}

struct NodeLink;

struct State {
    arguments: Arguments,
    handle: LinkHandle,
    link: Link<ToNode, ToCoordinator>,
    out: Option<Outgoing>,
    connection: Connection,
    /// Bodies were refused because the queue was full; the runs derive afresh what they owe.
    behind: bool,
}

impl Actor for NodeLink {
    type Msg = Msg;
    type State = State;
    type Arguments = (Arguments, Arc<Semaphore>);

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        (arguments, permits): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let ttl = ensemble_core::link::Millis(u64::try_from(arguments.ttl.as_millis()).unwrap_or(u64::MAX));
        let config = Config::of(Side::Granter, ttl);
        let link = Link::new(config, arguments.me.1, clock::boot());
        let handle = LinkHandle { place: arguments.place.clone(), actor: myself.clone(), permits };
        tick(myself, arguments.ttl / 12);
        Ok(State { arguments, handle, link, out: None, connection: 0, behind: false })
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Attach(hello, out, reply) => drop(reply.send(state.attach(*hello, out))),
            Msg::Frame(connection, frame, permit) if connection == state.connection => {
                state.receive(*frame, permit);
            }
            Msg::Detach(connection) if connection == state.connection => state.hang_up(),
            Msg::Frame(..) | Msg::Detach(_) => {}
            Msg::Send(body) => {
                if let Err(Refused(_)) = state.link.send(body) {
                    state.behind = true;
                }
            }
            Msg::Tick => state.tick(),
        }
        state.flush();
        Ok(())
    }
}

/// Sends a tick at the pace of the link, until the actor is gone.
fn tick(actor: ActorRef<Msg>, every: Duration) {
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(every);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if actor.cast(Msg::Tick).is_err() {
                return;
            }
        }
    });
}

impl State {
    fn attach(&mut self, hello: Hello, out: Outgoing) -> Result<Connection, AttachError> {
        // A node that starts afresh gets a link of its own, so nothing comes back here.
        self.link.attach(hello.greeting, clock::boot())?;
        let welcome = Welcome {
            coordinator: self.arguments.me.0.clone(),
            protocol: PROTOCOL,
            greeting: self.link.greeting(),
        };
        if out.try_send(Ok(wire_welcome(&welcome))).is_err() {
            tracing::debug!(link = ?self.handle, "gone before it was welcomed");
        }
        self.connection += 1;
        self.out = Some(out);
        self.offer(hello.employees, hello.check_slots);
        self.arguments.coordinator.link_up(self.handle.clone());
        Ok(self.connection)
    }

    fn offer(&self, employees: Vec<(EmployeeId, u32)>, checks: u32) {
        let (place, employees) = (self.arguments.place.clone(), employees.into_iter().collect());
        let offer = Offer { place, employees, checks };
        self.arguments.workforce.tell(workforce::Msg::Offered(offer, self.handle.clone()));
    }

    fn receive(&mut self, frame: Frame<ToCoordinator>, permit: Option<OwnedSemaphorePermit>) {
        let received = self.link.receive(frame, clock::boot());
        if let Some(why) = received.rejected {
            tracing::debug!(link = ?self.handle, %why, "frame not taken");
        }
        let mut permit = permit;
        for body in received.bodies {
            let body = match body {
                ToCoordinator::Slots { employees, check_slots, reason } => {
                    tracing::info!(link = ?self.handle, reason, "offers other slots");
                    self.offer(employees, check_slots);
                    continue;
                }
                body => body,
            };
            // Usually a frame brings one body; those that had come early bring none of their own.
            self.arguments.coordinator.hear(self.handle.clone(), body, permit.take());
        }
    }

    fn tick(&mut self) {
        for event in self.link.tick(clock::boot()) {
            match event {
                Event::Up => tracing::debug!(link = ?self.handle, "up"),
                Event::Down => tracing::warn!(link = ?self.handle, "down"),
                Event::HangUp => self.hang_up(),
            }
        }
        if self.behind && self.link.queued() == 0 {
            self.behind = false;
            self.arguments.coordinator.link_up(self.handle.clone());
        }
    }

    fn hang_up(&mut self) {
        self.out = None;
        self.link.detach(clock::boot());
    }

    fn flush(&mut self) {
        let Some(out) = self.out.clone() else { return };
        for frame in self.link.outgoing(clock::boot()) {
            fail::fail_point!("coordinator.send", |_| self.hang_up());
            // A full channel means that the socket takes nothing: what counts as sent must have left.
            if out.try_send(Ok(wire_coordinator_frame(&frame))).is_err() {
                self.hang_up();
                return;
            }
            fail::fail_point!("coordinator.send.done", |_| self.hang_up());
        }
    }
}
