//! One link between a node and a coordinator, as a pure machine: numbered frames and their
//! acknowledgements, credits, heartbeats, and the lease that follows from them ([`Link`]);
//! who stops what when a link is down ([`lease`]); what becomes of attempts when a node attaches ([`mod@adopt`]).
//! Not here: sockets, clocks, wire types. Shells feed the machine and carry out what it says.

pub mod adopt;
pub mod lease;

mod inbound;
mod machine;
mod outbound;
mod pulse;
mod state;
#[cfg(test)]
mod tests;

pub use adopt::{Adoption, Arrival, AttemptKey, adopt};
pub use lease::{CoordinatorVerdict, CoordinatorView, Limits, NodeVerdict, NodeView};
pub use machine::Link;
pub use state::State;

use crate::ids::Incarnation;

/// Milliseconds of a clock that never goes back and counts while the machine is suspended
/// (boot time); a moment or a length. Only differences mean something, and only on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// The moment `length` after this one.
    #[must_use]
    pub fn after(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

/// Which end of the lease this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The node: sends heartbeats, counts from the moment it sent the one that was answered.
    Holder,
    /// The coordinator: answers heartbeats, counts from its answer. So it is never the first to
    /// think that the lease has run out.
    Granter,
}

/// The lengths and bounds of a link; the same at both ends but for the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which end this is.
    pub side: Side,
    /// Time between heartbeats; also how long an unacknowledged frame waits to be sent again.
    pub heartbeat: Millis,
    /// The link is down this long after the last answered heartbeat.
    pub ttl: Millis,
    /// Most frames in flight, and most frames kept that arrived before an earlier one.
    pub window: usize,
    /// Most bodies that wait for the window; beyond it [`Refused`].
    pub queue: usize,
}

impl Config {
    /// Frames in flight: with frames of at most 1 MiB a link holds no more than 64 MiB.
    pub const WINDOW: usize = 64;
    /// Bodies that wait: what four windows carry, enough for a reconnection under load.
    pub const QUEUE: usize = 256;

    /// The usual bounds for a lease of `ttl`: a heartbeat every third of it.
    #[must_use]
    pub fn of(side: Side, ttl: Millis) -> Self {
        let heartbeat = Millis((ttl.0 / 3).max(1));
        Self { side, heartbeat, ttl, window: Self::WINDOW, queue: Self::QUEUE }
    }
}

/// Number of a heartbeat, from 1. Never used twice in the life of a process, so that an answer
/// always names the one moment at which its heartbeat was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beat(pub u64);

/// What travels on a link, either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<B> {
    /// Number of the body, from 1 for each pair of incarnations; 0 without a body.
    pub seq: u64,
    /// Highest number received in order: every body up to it needs no resending.
    pub ack: u64,
    /// What must arrive once and in order; `None`: a heartbeat, an answer, an acknowledgement.
    pub body: Option<B>,
    /// This is a heartbeat (from the holder).
    pub heartbeat: Option<Beat>,
    /// This answers a heartbeat, and with it those before (from the granter).
    pub answer: Option<Beat>,
}

/// What each end says first on a new connection, so that numbering goes on or starts afresh at both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Who speaks: this start of its process.
    pub from: Incarnation,
    /// Whose frames `last` counts: the peer it knows, `None` if it knows none yet. Without this a
    /// restarted peer would take the count of its predecessor's frames for its own, and drop frames.
    pub of: Option<Incarnation>,
    /// Highest number received in order from that one.
    pub last: u64,
}

/// What the shell learns from [`Link::tick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lease is valid again: nothing is stopped or reassigned from now on.
    Up,
    /// The lease has run out, one TTL after the last answered heartbeat.
    Down,
    /// One TTL without an answer on this connection: close it; a holder dials again.
    HangUp,
}

/// What came of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Received<B> {
    /// Bodies to deliver now, in order, each once.
    pub bodies: Vec<B>,
    /// Why something of the frame was not taken.
    pub rejected: Option<Rejected>,
}

/// Why a frame was not taken. Nothing is lost: what must arrive is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It belongs to a connection that is gone or given up.
    #[error("the connection it came on has ended; the peer sends it again on the next one")]
    NoConnection,
    /// It lies further ahead than the window; taken when it comes again after those before it.
    #[error("more than a window ahead of what has arrived; the peer sends it again")]
    BeyondWindow,
    /// No machine of this kind sends that: close the connection.
    #[error("number, body or heartbeat don't fit together; close the connection and attach again")]
    Malformed,
    /// It acknowledges what was never sent: close the connection.
    #[error("it acknowledges frames that were never sent; close the connection and attach again")]
    NeverSent,
}

/// Why a connection can't be used. Nothing has changed; repeating with the same greeting gives the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// A later start of the same process has already attached.
    #[error("incarnation {from} was superseded by {known}; it must end its work and its process")]
    Superseded {
        /// Who tried to attach.
        from: Incarnation,
        /// The latest start that has attached.
        known: Incarnation,
    },
    /// The peer counts more frames of this process than it has sent: two processes under one incarnation.
    #[error(
        "the peer has seen frame {last} of {sent} that were sent; restart this process under a new incarnation"
    )]
    NeverSent {
        /// What the peer says.
        last: u64,
        /// Highest number sent.
        sent: u64,
    },
}

/// The queue is full; the body comes back. Trying again is safe, once frames were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link's queue is full; try again when the peer has acknowledged more")]
pub struct Refused<B>(pub B);
