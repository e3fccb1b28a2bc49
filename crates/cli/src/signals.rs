//! Signals that ask the process to end. The first is a wish, the second an order; what each means is
//! said where they are awaited.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{DoingTo, Error};

/// The signals that ask the process to end.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> Result<Self, Error> {
        let of = |kind| signal(kind).doing_to("listen for", "signals");
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hangup: of(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
