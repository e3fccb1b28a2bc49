//! The link itself: joins the sequence of bodies, the pulse and the state, and is the only place
//! where frames are made and read. Not here: the rules of each part, which lie beside this file.

use super::{
    AttachError, Config, Event, Frame, Greeting, Millis, Received, Refused, Rejected, Side, State,
    inbound::Inbound,
    outbound::Outbound,
    pulse::{Answering, Beating},
    state::Input,
};
use crate::ids::Incarnation;

/// One end of a link to one peer, over any number of connections and restarts of that peer.
/// `O` is what goes out, `I` what comes in.
///
/// A shell does after every input (a frame, a connection, a body to send, the clock): write
/// [`Self::outgoing`] to the stream, then act on [`Self::tick`] (an answer that leaves may bring
/// the link up), then sleep until [`Self::next_wake`].
///
/// Frames must be fed from the connection that was attached last, and from no older one.
///
/// Only the holder sends heartbeats. Where just the way back to it is broken, it hangs up after a
/// TTL and so falls silent; the granter, having nothing to answer, sees the link down a TTL later.
#[derive(Clone, Debug)]
pub struct Link<O, I = O> {
    config: Config,
    me: Incarnation,
    peer: Option<Incarnation>,
    state: State,
    beating: Beating,
    answering: Answering,
    outbound: Outbound<O>,
    inbound: Inbound<I>,
    pending: Vec<Event>,
}

impl<O: Clone, I> Link<O, I> {
    /// A link of this start (`me`) of a process; down since `now`, with no connection.
    #[must_use]
    pub fn new(config: Config, me: Incarnation, now: Millis) -> Self {
        Self {
            config,
            me,
            peer: None,
            state: State::Down { since: now },
            beating: Beating::default(),
            answering: Answering::default(),
            outbound: Outbound::new(),
            inbound: Inbound::new(),
            pending: Vec::new(),
        }
    }

    /// What to say first on a new connection; the end that answers attaches before it speaks.
    #[must_use]
    pub fn greeting(&self) -> Greeting {
        Greeting { from: self.me, of: self.peer, last: self.inbound.last() }
    }

    /// A new connection, on which the peer has said `greeting`; it replaces an older one.
    ///
    /// The same peer: what it has not seen is sent again, numbers go on. A later start of it:
    /// numbers start afresh, and every body that was in flight or waiting comes back, since it was
    /// meant for a process that is gone; callers derive anew from their state what is still owed.
    ///
    /// # Errors
    /// [`AttachError`]; nothing has changed then, an older connection stays.
    pub fn attach(&mut self, greeting: Greeting, now: Millis) -> Result<Vec<O>, AttachError> {
        self.pass(now);
        let from = greeting.from;
        if let Some(known) = self.peer.filter(|known| from < *known) {
            return Err(AttachError::Superseded { from, known });
        }
        let same = self.peer == Some(from);
        let sent = if same { self.outbound.highest() } else { 0 };
        let last = if greeting.of == Some(self.me) { greeting.last } else { 0 };
        if last > sent {
            return Err(AttachError::NeverSent { last, sent });
        }
        let mut returned = Vec::new();
        if !same {
            // What waits for a first peer was meant for whoever that is, and stays.
            if self.peer.replace(from).is_some() {
                returned = self.outbound.reset();
            }
            self.inbound = Inbound::new();
            self.answering = Answering::default();
        }
        self.hang_up();
        self.outbound.acknowledge(last);
        self.outbound.rewind();
        self.beating.restart(now);
        self.pending.retain(|event| *event != Event::HangUp);
        self.step(Input::Attached { patience: now.after(self.config.ttl) });
        Ok(returned)
    }

    /// The connection is gone. The lease runs on to its end, bodies wait for the next connection.
    pub fn detach(&mut self, now: Millis) {
        self.pass(now);
        self.step(Input::Detached);
        self.hang_up();
    }

    /// Queues a body; it leaves through [`Self::outgoing`].
    ///
    /// # Errors
    /// [`Refused`] when [`Config::queue`] bodies wait already.
    pub fn send(&mut self, body: O) -> Result<(), Refused<O>> {
        self.outbound.push(body, self.config.queue)
    }

    /// The frames to write now, in this order. They count as sent at `now`, so write them at once,
    /// or detach if that fails.
    pub fn outgoing(&mut self, now: Millis) -> Vec<Frame<O>> {
        self.pass(now);
        if !self.state.connected() {
            return Vec::new();
        }
        let ack = self.inbound.last();
        let bare = Frame { seq: 0, ack, body: None, heartbeat: None, answer: None };
        let mut frames = Vec::new();
        // The pulse goes first, so that it never stands behind a window of bodies.
        match self.config.side {
            Side::Holder => {
                let beat = self.beating.beat(&self.config, now);
                frames.extend(beat.map(|beat| Frame { heartbeat: Some(beat), ..bare.clone() }));
            }
            Side::Granter => {
                if let Some(beat) = self.answering.answer() {
                    frames.push(Frame { answer: Some(beat), ..bare.clone() });
                    self.step(Input::Answered { until: now.after(self.config.ttl) });
                }
            }
        }
        let bodies = self.outbound.take(now, self.config.window, self.config.heartbeat);
        frames.extend(bodies.into_iter().map(|(seq, body)| Frame { seq, body: Some(body), ..bare.clone() }));
        if frames.is_empty() && self.inbound.owes() {
            frames.push(bare);
        }
        self.inbound.settle();
        frames
    }

    /// Takes a frame from the connection.
    pub fn receive(&mut self, frame: Frame<I>, now: Millis) -> Received<I> {
        self.pass(now);
        let rejected = |why| Received { bodies: Vec::new(), rejected: Some(why) };
        if !self.state.connected() {
            return rejected(Rejected::NoConnection);
        }
        let wrong_pulse = match self.config.side {
            Side::Holder => frame.heartbeat.is_some(),
            Side::Granter => frame.answer.is_some(),
        };
        if wrong_pulse || (frame.seq == 0) != frame.body.is_none() {
            return rejected(Rejected::Malformed);
        }
        if frame.ack > self.outbound.highest() {
            return rejected(Rejected::NeverSent);
        }
        self.outbound.acknowledge(frame.ack);
        if let Some(beat) = frame.heartbeat {
            self.answering.heard(beat);
        }
        if let Some(until) = frame.answer.and_then(|beat| self.beating.answered(beat, &self.config)) {
            self.step(Input::Answered { until });
        }
        let Some(body) = frame.body else { return Received { bodies: Vec::new(), rejected: None } };
        match self.inbound.accept(frame.seq, body, self.config.window) {
            Some(bodies) => Received { bodies, rejected: None },
            None => rejected(Rejected::BeyondWindow),
        }
    }

    /// What has happened to the link since the last call, in order. At most one `Down` and one `Up`
    /// wait here: of a link that went down, up and down again the shell hears `Down` once.
    pub fn tick(&mut self, now: Millis) -> Vec<Event> {
        self.pass(now);
        std::mem::take(&mut self.pending)
    }

    /// When [`Self::tick`] or [`Self::outgoing`] has something to give; `None`: only an input changes that.
    #[must_use]
    pub fn next_wake(&self, now: Millis) -> Option<Millis> {
        let mut wakes = vec![self.state.deadline(), (!self.pending.is_empty()).then_some(now)];
        if self.state.connected() {
            wakes.push(self.outbound.due(now, self.config.window, self.config.heartbeat));
            wakes.push((self.inbound.owes() || self.answering.owes()).then_some(now));
            wakes.push((self.config.side == Side::Holder).then_some(self.beating.due()));
        }
        wakes.into_iter().flatten().min().map(|wake| wake.max(now))
    }

    /// Where the link stood at the last call that moved it.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the lease is valid.
    #[must_use]
    pub fn is_up(&self, now: Millis) -> bool {
        self.down_since(now).is_none()
    }

    /// Since when the lease is not valid; `None` while it is.
    #[must_use]
    pub fn down_since(&self, now: Millis) -> Option<Millis> {
        match self.state {
            State::Down { since } | State::Proving { since, .. } => Some(since),
            State::Up { until, .. } | State::Severed { until } => (now >= until).then_some(until),
        }
    }

    /// The end of the lease as this side counts it, unless it had run out at the last call.
    #[must_use]
    pub fn valid_until(&self) -> Option<Millis> {
        match self.state {
            State::Down { .. } | State::Proving { .. } => None,
            State::Up { until, .. } | State::Severed { until } => Some(until),
        }
    }

    /// The start of the peer that attached last.
    #[must_use]
    pub fn peer(&self) -> Option<Incarnation> {
        self.peer
    }

    /// Highest number received in order from that peer.
    #[must_use]
    pub fn last_received(&self) -> u64 {
        self.inbound.last()
    }

    /// Bodies sent and not acknowledged, at most [`Config::window`].
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.outbound.in_flight()
    }

    /// Bodies that wait for the window, at most [`Config::queue`].
    #[must_use]
    pub fn queued(&self) -> usize {
        self.outbound.queued()
    }

    /// Bodies that arrived before an earlier one and are kept, fewer than [`Config::window`].
    #[must_use]
    pub fn early(&self) -> usize {
        self.inbound.early()
    }

    /// Lets time pass before an input is looked at, so that an answer that comes after the end of
    /// the lease never hides that end.
    fn pass(&mut self, now: Millis) {
        let was = self.state.connected();
        self.step(Input::Time(now));
        if was && !self.state.connected() {
            self.hang_up();
        }
    }

    /// What is owed on a connection ends with it.
    fn hang_up(&mut self) {
        self.answering.forget();
        self.inbound.settle();
    }

    fn step(&mut self, input: Input) {
        let (state, events) = self.state.step(input);
        self.state = state;
        for event in events {
            self.note(*event);
        }
    }

    /// Edges alternate, so with two of them waiting a third cancels the second.
    fn note(&mut self, event: Event) {
        let edges = self.pending.iter().filter(|one| **one != Event::HangUp).count();
        match self.pending.iter().rposition(|one| *one != Event::HangUp) {
            Some(last) if event != Event::HangUp && edges == 2 => {
                self.pending.remove(last);
            }
            _ => self.pending.push(event),
        }
    }
}
