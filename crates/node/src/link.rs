//! The actor of the link to a coordinator: it feeds the machine of `core::link` with connections,
//! frames and time, and carries out what it says. It dials again for ever. What the words mean is
//! the node's business; how a connection is made is `link/connection.rs`.

mod connection;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{CoordinatorId, Incarnation, NodeId},
    link::{AttemptKey, Config, Event, Frame, Link, Millis, Rejected, Side},
    message::{Ended, Hello, PROTOCOL, ToCoordinator, ToNode, Welcome},
};
use ensemble_proto::wire_node_frame;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::{Dial, Error, clock, fault, node, outbox::OutboxHandle, restart::backoff};
pub(crate) use connection::Attached;

/// Pauses between two dials.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// Ends that may wait in the machine; more stay on disk, so that there is always room for the rest.
const REPORTS: usize = 32;
/// Frames from the network that may wait in mailboxes: one window.
const PERMITS: usize = Config::WINDOW;

/// The actor.
pub(crate) struct CoordinatorLink;

/// All that the link needs.
#[derive(Clone)]
pub(crate) struct Arguments {
    pub(crate) node: ActorRef<node::Msg>,
    pub(crate) outbox: OutboxHandle,
    pub(crate) coordinator: CoordinatorId,
    pub(crate) dial: Dial,
    pub(crate) ttl: Duration,
    pub(crate) incarnation: Incarnation,
    pub(crate) offer: Offer,
}

/// What the node has to offer, as it says when it attaches.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) node: NodeId,
    pub(crate) employees: Vec<(ensemble_core::ids::EmployeeId, u32)>,
    pub(crate) check_slots: u32,
}

impl Offer {
    /// The same with no slots.
    pub(crate) fn none(&self) -> Self {
        let employees = self.employees.iter().map(|(id, _)| (id.clone(), 0)).collect();
        Self { node: self.node.clone(), employees, check_slots: 0 }
    }
}

/// A right to wait in a mailbox; given back when what holds it was dealt with.
pub(crate) type Permit = Arc<OwnedSemaphorePermit>;

/// What the link hears.
pub(crate) enum Msg {
    /// Time to dial.
    Dial,
    /// How the coordinator is reached from now on; nothing: it is gone, so a link that is down ends.
    Reach(Option<Dial>),
    /// A connection on which both sides have introduced themselves.
    Attached(Box<Attached>),
    /// There was none to be had.
    DialFailed(String),
    /// A frame, of the connection of this number.
    Frame(u64, Box<Frame<ToNode>>, Permit),
    /// That connection is gone.
    Closed(u64, String),
    /// The machine wanted to be asked now.
    Wake,
    /// The node has something to say.
    Say(Box<ToCoordinator>),
    /// Offer this from now on; why, if it is less than all.
    Offer(Offer, String),
    /// The end of this attempt shall be told; it lies in the outbox.
    Report(AttemptKey),
    /// The end that was looked up.
    Loaded(Option<Box<Ended>>),
}

pub(crate) struct State {
    arguments: Arguments,
    machine: Link<ToCoordinator, ToNode>,
    connection: Option<connection::Connection>,
    /// Connections made so far, the current one's number.
    number: u64,
    failures: u32,
    /// Whether the node was told last that there is a connection.
    told: bool,
    /// Ends to tell, oldest first; bounded by what the outbox holds.
    reports: VecDeque<AttemptKey>,
    loading: usize,
    permits: Arc<Semaphore>,
    dialling: Option<AbortOnDropHandle<()>>,
    /// Whether the coordinator is gone, as far as is known.
    forsaken: bool,
    wake: Option<AbortOnDropHandle<()>>,
}

impl Actor for CoordinatorLink {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let ttl = Millis(u64::try_from(arguments.ttl.as_millis()).unwrap_or(u64::MAX));
        let machine = Link::new(Config::of(Side::Holder, ttl), arguments.incarnation, clock::boot_time());
        myself.send_message(Msg::Dial)?;
        Ok(State {
            arguments,
            machine,
            connection: None,
            number: 0,
            failures: 0,
            told: false,
            reports: VecDeque::new(),
            loading: 0,
            permits: Arc::new(Semaphore::new(PERMITS)),
            dialling: None,
            forsaken: false,
            wake: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Dial => state.dial(&myself),
            Msg::Reach(dial) => state.reach(dial),
            Msg::Attached(attached) => state.attached(&myself, *attached),
            Msg::DialFailed(why) => state.dial_later(&myself, &why),
            Msg::Frame(number, frame, permit) => state.frame(&myself, number, *frame, &permit),
            Msg::Closed(number, why) if number == state.number => state.hang_up(&myself, &why),
            Msg::Closed(..) | Msg::Wake => {}
            Msg::Say(word) => state.say(&myself, *word),
            Msg::Offer(offer, reason) => state.offer(&myself, offer, reason),
            Msg::Report(key) => {
                if !state.reports.contains(&key) {
                    state.reports.push_back(key);
                }
            }
            Msg::Loaded(ended) => {
                state.loading -= 1;
                if let Some(ended) = ended {
                    state.say(&myself, ToCoordinator::Ended(ended));
                }
            }
        }
        state.settle(&myself);
        if state.forsaken && state.connection.is_none() {
            myself.stop(Some("its coordinator is gone".to_owned()));
        }
        Ok(())
    }
}

impl State {
    fn dial(&mut self, myself: &ActorRef<Msg>) {
        let Offer { node, employees, check_slots } = self.arguments.offer.clone();
        let greeting = self.machine.greeting();
        let hello = Hello { node, protocol: PROTOCOL, greeting, employees, check_slots };
        let dialling = connection::dial(self.arguments.dial.clone(), hello);
        let myself = myself.clone();
        let dialling = tokio::spawn(async move {
            // An actor that has ended needs no connection.
            let _ = myself.send_message(match dialling.await {
                Ok(attached) => Msg::Attached(Box::new(attached)),
                Err(why) => Msg::DialFailed(why),
            });
        });
        self.dialling = Some(AbortOnDropHandle::new(dialling));
    }

    fn reach(&mut self, dial: Option<Dial>) {
        self.forsaken = dial.is_none();
        if let Some(dial) = dial {
            self.arguments.dial = dial;
        }
    }

    fn dial_later(&mut self, myself: &ActorRef<Msg>, why: &str) {
        let pause = backoff(self.failures, PAUSES[0], PAUSES[1]);
        self.failures = self.failures.saturating_add(1);
        tracing::debug!(why, ?pause, "no link to the coordinator; dialling again");
        self.dialling = Some(later(myself, pause, || Msg::Dial));
    }

    fn attached(&mut self, myself: &ActorRef<Msg>, attached: Attached) {
        let Attached { welcome, sender, stream } = attached;
        let Welcome { coordinator, protocol, greeting } = welcome;
        if protocol != PROTOCOL {
            let why =
                format!("{coordinator} speaks protocol {protocol}, this node {PROTOCOL}; use one version");
            return self.dial_later(myself, &why);
        }
        let fresh = self.machine.peer() != Some(greeting.from);
        // What comes back was meant for a coordinator that is gone; its successor claims its runs,
        // and what is owed to them is derived from the outbox then.
        match self.machine.attach(greeting, clock::boot_time()) {
            Ok(_) => {}
            Err(error) => return self.dial_later(myself, &error.to_string()),
        }
        if fresh {
            self.reports.clear();
            let _ = self.arguments.node.send_message(node::Msg::NewPeer(self.arguments.coordinator.clone()));
        }
        self.number += 1;
        self.failures = 0;
        self.dialling = None;
        let reader = connection::read(stream, self.number, myself.clone(), self.permits.clone());
        self.connection = Some(connection::Connection::new(sender, reader));
        tracing::debug!(%coordinator, "attached");
    }

    fn frame(&mut self, myself: &ActorRef<Msg>, number: u64, frame: Frame<ToNode>, permit: &Permit) {
        if number != self.number || self.connection.is_none() {
            return;
        }
        let received = self.machine.receive(frame, clock::boot_time());
        for word in received.bodies {
            let _ = self.arguments.node.send_message(node::Msg::Heard(
                self.arguments.coordinator.clone(),
                Box::new(word),
                permit.clone(),
            ));
        }
        if let Some(why @ (Rejected::Malformed | Rejected::NeverSent)) = received.rejected {
            self.hang_up(myself, &why.to_string());
        }
    }

    /// A queue that is full although ends leave room in it: the coordinator acknowledges nothing.
    /// After the next attachment both sides derive anew what is owed.
    fn say(&mut self, myself: &ActorRef<Msg>, word: ToCoordinator) {
        if self.machine.send(word).is_err() {
            self.hang_up(myself, "the coordinator acknowledges nothing");
        }
    }

    /// What waits in the queue from before arrives before this, so the last word is always the latest.
    fn offer(&mut self, myself: &ActorRef<Msg>, offer: Offer, reason: String) {
        self.arguments.offer = offer.clone();
        let Offer { employees, check_slots, .. } = offer;
        self.say(myself, ToCoordinator::Slots { employees, check_slots, reason });
    }

    fn hang_up(&mut self, myself: &ActorRef<Msg>, why: &str) {
        if self.connection.take().is_some() {
            self.machine.detach(clock::boot_time());
            self.dial_later(myself, why);
        }
    }

    /// Carries out what the machine says after an input.
    fn settle(&mut self, myself: &ActorRef<Msg>) {
        self.load_reports(myself);
        let now = clock::boot_time();
        for event in self.machine.tick(now) {
            match event {
                Event::Up => tracing::debug!("link is up"),
                // Nothing is stopped in this version: the coordinator lives in this process, or
                // takes the attempts back when it comes again.
                Event::Down => tracing::debug!("link is down"),
                Event::HangUp => self.hang_up(myself, "the coordinator is silent"),
            }
        }
        for frame in self.machine.outgoing(now) {
            if let Err(error) = self.send(&frame) {
                self.hang_up(myself, &error.to_string());
                break;
            }
        }
        let up = self.connection.is_some();
        if std::mem::replace(&mut self.told, up) != up {
            let _ = self.arguments.node.send_message(node::Msg::Link(self.arguments.coordinator.clone(), up));
        }
        self.wake = self.machine.next_wake(now).map(|wake| {
            let pause = Duration::from_millis(wake.0.saturating_sub(now.0).max(1));
            later(myself, pause, || Msg::Wake)
        });
    }

    fn send(&self, frame: &Frame<ToCoordinator>) -> Result<(), Error> {
        let Some(connection) = &self.connection else { return Ok(()) };
        fault!("node.send");
        connection.send(wire_node_frame(frame))?;
        fault!("node.send.done");
        Ok(())
    }

    /// Looks up ends that wait, as far as there is room.
    fn load_reports(&mut self, myself: &ActorRef<Msg>) {
        while self.connection.is_some() && self.machine.queued() + self.loading < REPORTS {
            let Some(key) = self.reports.pop_front() else { return };
            self.loading += 1;
            let (outbox, myself) = (self.arguments.outbox.clone(), myself.clone());
            tokio::spawn(async move {
                let kept = outbox.find(&key).await;
                if let Err(error) = &kept {
                    // It is told after the next claim.
                    tracing::warn!(%error, "the outbox can't be read");
                }
                let ended = kept.ok().flatten().map(|kept| Box::new(kept.ended));
                let _ = myself.send_message(Msg::Loaded(ended));
            });
        }
    }
}

/// Sends a message to the actor after a pause, unless the handle is dropped first.
fn later(
    myself: &ActorRef<Msg>,
    pause: Duration,
    message: impl FnOnce() -> Msg + Send + 'static,
) -> AbortOnDropHandle<()> {
    let myself = myself.clone();
    let until = Instant::now() + pause;
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep_until(until.into()).await;
        let _ = myself.send_message(message());
    }))
}
