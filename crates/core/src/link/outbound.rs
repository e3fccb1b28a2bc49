//! Bodies on their way to the peer: in flight until acknowledged, waiting until there is a credit.
//! Not here: frames, connections, the other direction.

use std::collections::VecDeque;

use super::{Millis, Refused};

#[derive(Clone, Debug)]
struct InFlight<B> {
    body: B,
    /// When it was last sent on this connection; `None`: not yet.
    sent: Option<Millis>,
}

/// The sending half. The body at place `i` of `flight` has number `acked + 1 + i`.
#[derive(Clone, Debug)]
pub(super) struct Outbound<B> {
    acked: u64,
    flight: VecDeque<InFlight<B>>,
    waiting: VecDeque<B>,
}

impl<B: Clone> Outbound<B> {
    pub(super) fn new() -> Self {
        Self { acked: 0, flight: VecDeque::new(), waiting: VecDeque::new() }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// Highest number that was given to a body.
    pub(super) fn highest(&self) -> u64 {
        self.acked + self.flight.len() as u64
    }

    pub(super) fn push(&mut self, body: B, queue: usize) -> Result<(), Refused<B>> {
        if self.waiting.len() >= queue {
            return Err(Refused(body));
        }
        self.waiting.push_back(body);
        Ok(())
    }

    /// Everything up to `ack` has arrived. An older word than the last changes nothing.
    pub(super) fn acknowledge(&mut self, ack: u64) {
        while self.acked < ack && self.flight.pop_front().is_some() {
            self.acked += 1;
        }
    }

    /// A new connection: what is in flight has to be sent on it.
    pub(super) fn rewind(&mut self) {
        for one in &mut self.flight {
            one.sent = None;
        }
    }

    /// Another peer: numbers start afresh, and what was meant for the old one comes back in order.
    pub(super) fn reset(&mut self) -> Vec<B> {
        self.acked = 0;
        self.flight.drain(..).map(|one| one.body).chain(self.waiting.drain(..)).collect()
    }

    /// What goes on the wire now, numbered. Besides new ones that is the *oldest* in flight when it
    /// was not acknowledged for `patience`: the peer keeps what came after it, so one missing frame
    /// costs one frame, and a slow peer is not flooded with a whole window.
    pub(super) fn take(&mut self, now: Millis, window: usize, patience: Millis) -> Vec<(u64, B)> {
        while self.flight.len() < window {
            let Some(body) = self.waiting.pop_front() else { break };
            self.flight.push_back(InFlight { body, sent: None });
        }
        let mut out = Vec::new();
        for (seq, one) in (self.acked + 1..).zip(&mut self.flight) {
            let oldest = seq == self.acked + 1;
            if one.sent.is_none_or(|sent| oldest && sent.after(patience) <= now) {
                one.sent = Some(now);
                out.push((seq, one.body.clone()));
            }
        }
        out
    }

    /// When [`Self::take`] has something to give.
    pub(super) fn due(&self, now: Millis, window: usize, patience: Millis) -> Option<Millis> {
        let credit = self.flight.len() < window && !self.waiting.is_empty();
        // New ones stand behind those already sent, so the last tells whether any is unsent.
        let unsent = self.flight.back().is_some_and(|last| last.sent.is_none());
        if credit || unsent {
            return Some(now);
        }
        self.flight.front().and_then(|oldest| oldest.sent).map(|sent| sent.after(patience))
    }
}
