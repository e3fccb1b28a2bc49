//! How whoever started a turn says that it shall end early: politely first, then at once.
//! A wish only ever grows; dropping the `Canceller` wishes nothing.

use tokio::sync::watch;

/// What is wished of a running turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Go on.
    #[default]
    Go,
    /// End: TERM, and KILL after the turn's grace.
    Stop,
    /// End at once: KILL.
    Kill,
}

/// The side that may wish.
#[derive(Clone, Debug)]
pub struct Canceller(watch::Sender<Wish>);

/// The side that the turn listens to.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<Wish>);

/// A pair of the two.
#[must_use]
pub fn cancellation() -> (Canceller, Cancellation) {
    let (sender, receiver) = watch::channel(Wish::Go);
    (Canceller(sender), Cancellation(receiver))
}

impl Canceller {
    /// Asks for the turn's end. A lesser wish after a greater one changes nothing.
    pub fn wish(&self, wish: Wish) {
        self.0.send_if_modified(|now| {
            let grows = wish > *now;
            *now = wish.max(*now);
            grows
        });
    }
}

impl Cancellation {
    /// Waits until more than `known` is wished; for ever when nobody is left who could.
    pub(crate) async fn beyond(&mut self, known: Wish) -> Wish {
        let wished = self.0.wait_for(|wish| *wish > known).await.map(|wish| *wish);
        match wished {
            Ok(wish) => wish,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wishes_only_grow() {
        let (canceller, mut cancellation) = cancellation();
        canceller.wish(Wish::Kill);
        canceller.wish(Wish::Stop);
        assert_eq!(cancellation.beyond(Wish::Go).await, Wish::Kill);
    }

    #[tokio::test]
    async fn a_dropped_canceller_wishes_nothing() {
        let (canceller, mut cancellation) = cancellation();
        drop(canceller);
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(20), cancellation.beyond(Wish::Go)).await;
        assert!(waited.is_err());
    }
}
