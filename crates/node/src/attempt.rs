//! One attempt, from the stored assignment to the end that lies in the outbox: a task of its own,
//! whose steps live below. Whatever goes wrong on the way becomes an end; none is lost. Who may
//! start how many of these is `employee`'s.

mod brake;
mod conclude;
mod evidence;
mod follow;
mod performance;
mod prepare;

use std::sync::Arc;

use ensemble_core::{message::How, run::fact::LossCause};

use crate::{
    Error, KeeperCommand,
    folder::{Folder, Stored},
    mirrors::Mirrors,
    outbox::OutboxHandle,
    peers::Peers,
    pool::Pool,
    room::Room,
};
pub(crate) use brake::{Brake, Halt, Halting};
pub(crate) use conclude::{capture_leftover, commit_of, ref_of};
pub(crate) use performance::Performer;

/// What all attempts of a node share.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) peers: Peers,
    pub(crate) mirrors: Mirrors,
    pub(crate) outbox: OutboxHandle,
    pub(crate) keeper: KeeperCommand,
    pub(crate) pool: Pool,
    pub(crate) room: Room,
}

/// All that one attempt needs.
pub(crate) struct Job {
    pub(crate) world: Arc<World>,
    pub(crate) folder: Folder,
    pub(crate) stored: Stored,
    pub(crate) performer: Performer,
    pub(crate) halting: Halting,
    /// Called when the agent is about to run.
    pub(crate) started: Option<Box<dyn FnOnce() + Send + Sync>>,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was begun and nothing is left.
    Refused(String),
    /// Its end lies in the outbox; whether the coordinator has its commit, or it has none.
    Kept { pushed: bool },
}

/// Why an attempt has no word of its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was told to end before its agent ran.
    Halted(Halt),
    /// The node could not do it.
    Environment(String),
}

/// Carries out an assignment.
pub(crate) async fn carry_out(job: Job) -> Verdict {
    let (folder, stored) = (job.folder.clone(), job.stored.clone());
    let begun = blocking(move || {
        let done = folder.store(&stored);
        if done.is_err() {
            // Half an assignment is none.
            folder.remove()?;
        }
        done
    });
    if let Err(error) = begun.await {
        return Verdict::Refused(format!("the assignment can't be stored: {error}"));
    }
    let (outbox, key) = (job.world.outbox.clone(), job.stored.assign.key.clone());
    let how = job.perform().await;
    let pushed = commit_of(&how).is_none();
    outbox.keep(ensemble_core::message::Ended { key, how }, pushed).await;
    Verdict::Kept { pushed }
}

impl Job {
    async fn perform(mut self) -> How {
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(failure) => return self.unbegun(failure),
        };
        let (performed, follower) = self.performance(&prepared).await;
        let how = self.conclude(prepared, performed).await;
        if let Some(follower) = follower {
            follower.finish(self.halting.why() == Some(Halt::Drained)).await;
        }
        how
    }

    /// The end of an attempt whose agent never ran.
    fn unbegun(&self, failure: Failure) -> How {
        match failure {
            Failure::Halted(halt) => self.halted(halt, None),
            Failure::Environment(reason) => {
                How::Lost { cause: LossCause::Environment, capture: None, reason }
            }
        }
    }
}

/// Runs something that waits for the disk on a thread where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Gone("a thread of the node")))
}
