//! Heartbeats and their answers: who sends, when, and from which moment a lease counts.
//! Not here: what the end of a lease means (`state`).

use std::collections::BTreeMap;

use super::{Beat, Config, Millis};

/// The holder's half: heartbeats that were sent on this connection and not answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Beating {
    /// Moment of sending. Bounded: those older than a TTL can't extend the lease and are dropped.
    sent: BTreeMap<Beat, Millis>,
    last: Beat,
    due: Millis,
}

impl Beating {
    /// A new connection: a heartbeat at once, answers to older ones can't come any more.
    pub(super) fn restart(&mut self, now: Millis) {
        self.sent.clear();
        self.due = now;
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Millis {
        self.due
    }

    /// The heartbeat to send now, if one is due.
    pub(super) fn beat(&mut self, config: &Config, now: Millis) -> Option<Beat> {
        if now < self.due {
            return None;
        }
        self.sent.retain(|_, sent| sent.after(config.ttl) > now);
        self.last = Beat(self.last.0 + 1);
        self.sent.insert(self.last, now);
        self.due = now.after(config.heartbeat);
        Some(self.last)
    }

    /// The end of the lease that an answer gives: counted from when its heartbeat was *sent*,
    /// since the granter may have answered at once and the answer been long on its way.
    pub(super) fn answered(&mut self, beat: Beat, config: &Config) -> Option<Millis> {
        let sent = *self.sent.get(&beat)?;
        self.sent.retain(|one, _| *one > beat);
        Some(sent.after(config.ttl))
    }
}

/// The granter's half: which heartbeat has to be answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Answering {
    highest: Beat,
    owed: Option<Beat>,
}

impl Answering {
    /// A heartbeat came. Copies and late ones are not answered: a newer one was, and an answer to
    /// them would only delay the moment at which this end sees the link down.
    pub(super) fn heard(&mut self, beat: Beat) {
        if beat > self.highest {
            self.highest = beat;
            self.owed = Some(beat);
        }
    }

    /// Whether an answer is owed.
    pub(super) fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// The answer to send now; the lease counts from this moment.
    pub(super) fn answer(&mut self) -> Option<Beat> {
        self.owed.take()
    }

    /// The connection is gone: nothing can be answered on it.
    pub(super) fn forget(&mut self) {
        self.owed = None;
    }
}
