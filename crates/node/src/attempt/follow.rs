//! The follower of a log: brings it to the coordinator while it grows. It never holds up or fails
//! its attempt; a coordinator that can't be reached gets what it misses on the next try, and after
//! the last one does without.

use std::{path::PathBuf, time::Duration};

use ensemble_core::link::AttemptKey;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    restart::backoff,
    transfer::{self, Dial, Trouble},
};

/// Tries for one log; each begins at its first byte.
const TRIES: u32 = 5;
/// How long the end of an attempt waits for the end of its log, usually and when the process ends.
const PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];

/// The task that follows a log.
pub(super) struct Follower(AbortOnDropHandle<()>);

impl Follower {
    pub(super) fn start(dial: Dial, key: AttemptKey, log: PathBuf, mut growing: watch::Receiver<()>) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            for failures in 0..TRIES {
                match transfer::push_log(&dial, &key, log.clone(), &mut growing).await {
                    Ok(length) => {
                        tracing::debug!(token = %key.token, length, "the coordinator has the log");
                        return;
                    }
                    Err(trouble) => {
                        tracing::debug!(token = %key.token, %trouble, "a log did not arrive");
                        if matches!(trouble, Trouble::Final(_)) {
                            break;
                        }
                    }
                }
                tokio::time::sleep(backoff(failures, Duration::from_millis(200), Duration::from_secs(5)))
                    .await;
            }
            tracing::warn!(token = %key.token, "the coordinator does without the log of an attempt");
        })))
    }

    /// Waits until the whole log has arrived, for a while.
    pub(super) async fn finish(self, hurried: bool) {
        let _ = tokio::time::timeout(PATIENCE[usize::from(hurried)], self.0).await;
    }
}
