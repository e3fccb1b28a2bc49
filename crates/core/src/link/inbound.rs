//! Bodies as they come from the peer, brought into order. Frames that arrive before an earlier one
//! are kept, at most a window of them: then one lost frame costs one resent frame, not all after it.
//! Not here: the sending half, connections.

use std::collections::BTreeMap;

/// The receiving half.
#[derive(Clone, Debug)]
pub(super) struct Inbound<B> {
    last: u64,
    early: BTreeMap<u64, B>,
    owes: bool,
}

impl<B> Inbound<B> {
    pub(super) fn new() -> Self {
        Self { last: 0, early: BTreeMap::new(), owes: false }
    }

    /// Highest number received in order.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Bodies kept that came before an earlier one.
    pub(super) fn early(&self) -> usize {
        self.early.len()
    }

    /// Whether an acknowledgement is owed.
    pub(super) fn owes(&self) -> bool {
        self.owes
    }

    /// An acknowledgement left, or the connection it was owed on is gone.
    pub(super) fn settle(&mut self) {
        self.owes = false;
    }

    /// Takes a body; gives those that may be delivered now, or `None` when it lies beyond the window.
    /// Whatever comes is acknowledged, copies too: their first acknowledgement may be what got lost.
    pub(super) fn accept(&mut self, seq: u64, body: B, window: usize) -> Option<Vec<B>> {
        self.owes = true;
        if seq > self.last.saturating_add(window as u64) {
            return None;
        }
        if seq > self.last {
            self.early.entry(seq).or_insert(body);
        }
        let mut ready = Vec::new();
        while let Some(body) = self.early.remove(&(self.last + 1)) {
            self.last += 1;
            ready.push(body);
        }
        Some(ready)
    }
}
