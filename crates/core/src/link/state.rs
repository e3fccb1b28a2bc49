//! Where a link stands: its lease crossed with its connection, and every arrow between. Not here:
//! where the lease's end comes from (`pulse`), what is sent (`outbound`).
//! ```text
//! Down     ── Attached ──▶ Proving                     Proving  ── Answered ──▶ Up         Up
//! Proving  ── Detached ──▶ Down                        Proving  ── patience ──▶ Down       HangUp
//! Up       ── Answered ──▶ Up (a later end)            Up       ── end ───────▶ Proving    Down
//! Up       ── Detached ──▶ Severed                     Up       ── end, patience ▶ Down    Down, HangUp
//! Severed  ── Attached ──▶ Up                          Severed  ── end ───────▶ Down       Down
//! Proving, Up ── Attached ──▶ the same, with the patience of the newer connection
//! ```

use super::{Event, Millis};

/// Where the link stands.
///
/// A connection that was silent for a TTL is given up by both ends, and frames that still come on it
/// are not taken: no lease grows again after its end but through a new attachment, hence adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No lease, no connection.
    Down {
        /// When the lease ran out, or the link was made.
        since: Millis,
    },
    /// A connection on which nothing was answered yet, and no lease.
    Proving {
        /// When the lease ran out, or the link was made.
        since: Millis,
        /// When the connection is given up.
        patience: Millis,
    },
    /// A connection and a lease.
    Up {
        /// When the lease runs out unless another heartbeat is answered.
        until: Millis,
        /// The connection is not given up before this, even if the lease runs out.
        patience: Millis,
    },
    /// The connection is gone, the lease has not run out yet.
    Severed {
        /// When it does.
        until: Millis,
    },
}

/// What can move it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    /// A new connection, to be given up at `patience` if nothing is answered on it.
    Attached { patience: Millis },
    /// The connection is gone.
    Detached,
    /// A heartbeat was answered; the lease reaches to `until`.
    Answered { until: Millis },
    /// It is now this late.
    Time(Millis),
}

impl State {
    /// The next state, and what the shell must hear of.
    pub(super) fn step(self, input: Input) -> (Self, &'static [Event]) {
        use Input::{Answered, Attached, Detached, Time};
        match (self, input) {
            (Self::Down { since } | Self::Proving { since, .. }, Attached { patience }) => {
                (Self::Proving { since, patience }, &[])
            }
            (Self::Up { until, .. } | Self::Severed { until }, Attached { patience }) => {
                (Self::Up { until, patience }, &[])
            }
            (Self::Proving { since, .. }, Detached) => (Self::Down { since }, &[]),
            (Self::Up { until, .. }, Detached) => (Self::Severed { until }, &[]),
            (Self::Proving { patience, .. }, Answered { until }) => {
                (Self::Up { until, patience }, &[Event::Up])
            }
            (Self::Up { until, patience }, Answered { until: later }) => {
                // An answer that was overtaken by a later one takes nothing back.
                (Self::Up { until: until.max(later), patience }, &[])
            }
            (Self::Proving { since, patience }, Time(now)) if now >= patience => {
                (Self::Down { since }, &[Event::HangUp])
            }
            (Self::Up { until, patience }, Time(now)) if now >= until.max(patience) => {
                (Self::Down { since: until }, &[Event::Down, Event::HangUp])
            }
            (Self::Up { until, patience }, Time(now)) if now >= until => {
                (Self::Proving { since: until, patience }, &[Event::Down])
            }
            (Self::Severed { until }, Time(now)) if now >= until => {
                (Self::Down { since: until }, &[Event::Down])
            }
            (Self::Down { .. } | Self::Severed { .. }, Detached | Answered { .. }) | (_, Time(_)) => {
                (self, &[])
            }
        }
    }

    /// When time alone moves it.
    pub(super) fn deadline(self) -> Option<Millis> {
        match self {
            Self::Down { .. } => None,
            Self::Proving { patience, .. } => Some(patience),
            Self::Up { until, .. } | Self::Severed { until } => Some(until),
        }
    }

    /// Whether there is a connection that has not been given up.
    #[must_use]
    pub fn connected(self) -> bool {
        matches!(self, Self::Proving { .. } | Self::Up { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Millis = Millis(100);
    const PATIENCE: Millis = Millis(1_000);
    const UNTIL: Millis = Millis(2_000);
    const DOWN: State = State::Down { since: SINCE };
    const PROVING: State = State::Proving { since: SINCE, patience: PATIENCE };
    const UP: State = State::Up { until: UNTIL, patience: PATIENCE };
    const SEVERED: State = State::Severed { until: UNTIL };

    #[test]
    fn every_arrow() {
        let attached = Input::Attached { patience: Millis(5_000) };
        let answered = Input::Answered { until: Millis(3_000) };
        let table: &[(State, Input, State, &[Event])] = &[
            (DOWN, attached, State::Proving { since: SINCE, patience: Millis(5_000) }, &[]),
            (DOWN, Input::Detached, DOWN, &[]),
            (DOWN, answered, DOWN, &[]),
            (DOWN, Input::Time(Millis(9_999)), DOWN, &[]),
            (PROVING, attached, State::Proving { since: SINCE, patience: Millis(5_000) }, &[]),
            (PROVING, Input::Detached, DOWN, &[]),
            (PROVING, answered, State::Up { until: Millis(3_000), patience: PATIENCE }, &[Event::Up]),
            (PROVING, Input::Time(Millis(999)), PROVING, &[]),
            (PROVING, Input::Time(PATIENCE), DOWN, &[Event::HangUp]),
            (UP, attached, State::Up { until: UNTIL, patience: Millis(5_000) }, &[]),
            (UP, Input::Detached, SEVERED, &[]),
            (UP, answered, State::Up { until: Millis(3_000), patience: PATIENCE }, &[]),
            (UP, Input::Answered { until: SINCE }, UP, &[]),
            (UP, Input::Time(Millis(1_999)), UP, &[]),
            (UP, Input::Time(UNTIL), State::Down { since: UNTIL }, &[Event::Down, Event::HangUp]),
            (SEVERED, attached, State::Up { until: UNTIL, patience: Millis(5_000) }, &[]),
            (SEVERED, Input::Detached, SEVERED, &[]),
            (SEVERED, answered, SEVERED, &[]),
            (SEVERED, Input::Time(Millis(1_999)), SEVERED, &[]),
            (SEVERED, Input::Time(UNTIL), State::Down { since: UNTIL }, &[Event::Down]),
        ];
        for (from, input, to, events) in table {
            assert_eq!(from.step(*input), (*to, *events), "{from:?} {input:?}");
        }
    }

    #[test]
    fn a_younger_connection_outlives_the_lease() {
        let young = State::Up { until: PATIENCE, patience: UNTIL };
        let proving = State::Proving { since: PATIENCE, patience: UNTIL };
        assert_eq!(young.step(Input::Time(PATIENCE)), (proving, &[Event::Down][..]));
        let down = State::Down { since: PATIENCE };
        assert_eq!(young.step(Input::Time(UNTIL)), (down, &[Event::Down, Event::HangUp][..]));
    }
}
