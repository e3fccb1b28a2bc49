//! How an attempt is told to end: why, and how soon. The word reaches its agent's turn, and the
//! steps before and after it.

use ensemble_agent::{Cancellation, Canceller, Wish, cancellation};
use tokio::sync::watch;

/// Why an attempt ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The coordinator wants it to stop.
    Stopped,
    /// The node's process ends.
    Drained,
}

/// The side that tells.
#[derive(Debug)]
pub(crate) struct Brake {
    why: watch::Sender<Option<Halt>>,
    canceller: Canceller,
}

/// The side that is told.
#[derive(Clone, Debug)]
pub(crate) struct Halting {
    why: watch::Receiver<Option<Halt>>,
    cancellation: Cancellation,
}

impl Brake {
    /// A pair of the two.
    pub(crate) fn new() -> (Self, Halting) {
        let (why, told) = watch::channel(None);
        let (canceller, cancellation) = cancellation();
        (Self { why, canceller }, Halting { why: told, cancellation })
    }

    /// Tells it to end. The first reason stands.
    pub(crate) fn halt(&self, halt: Halt) {
        self.why.send_if_modified(|why| why.replace(why.unwrap_or(halt)).is_none());
        self.canceller.wish(Wish::Stop);
    }

    /// Leaves its agent no more time.
    pub(crate) fn kill(&self) {
        self.canceller.wish(Wish::Kill);
    }
}

impl Halting {
    /// Why it shall end, if it shall.
    pub(crate) fn why(&self) -> Option<Halt> {
        *self.why.borrow()
    }

    /// Waits until it shall end; for ever if nobody is left who could say so.
    pub(crate) async fn told(&mut self) -> Halt {
        match self.why.wait_for(Option::is_some).await.map(|why| *why) {
            Ok(Some(halt)) => halt,
            _ => std::future::pending().await,
        }
    }

    /// For the agent's turn.
    pub(crate) fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }
}
