//! What a node does at each word of the coordinator: the whole of it in one place, so that it can be
//! read against the protocol.

use std::time::Duration;

use ensemble_core::{
    ids::{CoordinatorId, Epoch, RunId},
    link::AttemptKey,
    message::{Assign, Inventory, ToCoordinator, ToNode},
};

use super::{Msg, State};
use crate::{Error, clock, employee, folder::Stored, recover};

/// Between two tries to note an epoch on a disk that refuses.
const AGAIN: Duration = Duration::from_secs(1);

/// Why an owner is not followed.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    /// There is a later one.
    #[error("epoch {0} was superseded by {1}")]
    Superseded(Epoch, Epoch),
    /// A later start of this node would not know of it.
    #[error("the epoch can't be noted: {0}")]
    Unnoted(Error),
}

impl State {
    pub(super) async fn heard(&mut self, from: CoordinatorId, word: ToNode) {
        match word {
            ToNode::Claimed { run, epoch } => self.claimed(from, run, epoch).await,
            ToNode::Assign(assign) => self.assigned(from, *assign).await,
            ToNode::Stop(key) => self.stop(key),
            ToNode::Receipt(key) => self.receipt(key),
        }
    }

    /// A coordinator owns a run: it hears what there is of it, and then every end.
    pub(super) async fn claimed(&mut self, from: CoordinatorId, run: RunId, epoch: Epoch) {
        match self.admit(&from, run, epoch).await {
            Ok(()) => {}
            Err(why @ Unfit::Superseded(..)) => {
                return tracing::warn!(%run, %why, "a claim is not believed");
            }
            // The coordinator says it once: it is kept until the disk takes it.
            Err(why @ Unfit::Unnoted(_)) => {
                tracing::warn!(%run, %why, "a claim waits for the disk");
                let myself = self.myself.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(AGAIN).await;
                    let _ = myself.send_message(Msg::Reclaim(from, run, epoch));
                }));
                return;
            }
        }
        let of_run = |key: &&AttemptKey| key.run == run;
        let running = self.live.keys().filter(of_run).cloned().collect();
        let ended: Vec<_> = self.ended.keys().filter(of_run).cloned().collect();
        let speaks_for = self.home.all().map(|held| held.id().clone()).collect();
        let inventory = Inventory { run, epoch, running, ended: ended.clone(), speaks_for };
        self.say(&from, ToCoordinator::Inventory(inventory));
        for key in ended {
            self.tell(&key);
        }
    }

    /// Takes an owner's epoch for the run's; a lower one than before is refused. Waits for the local
    /// disk alone, and only when an epoch is new.
    async fn admit(&mut self, from: &CoordinatorId, run: RunId, epoch: Epoch) -> Result<(), Unfit> {
        let known = self.epochs.get(&run).copied().unwrap_or_default();
        if epoch < known {
            return Err(Unfit::Superseded(epoch, known));
        }
        if epoch > known {
            let noted = self.world.outbox.note_epoch(run, epoch).await;
            noted.map_err(Unfit::Unnoted)?;
            self.epochs.insert(run, epoch);
        }
        self.world.peers.own(run, from.clone());
        Ok(())
    }

    async fn assigned(&mut self, from: CoordinatorId, assign: Assign) {
        let key = assign.key.clone();
        if self.live.contains_key(&key) || self.ended.contains_key(&key) || self.settled.contains(&key) {
            return;
        }
        let desk = match self.closed() {
            Some(why) => Err(why),
            None => match self.admit(&from, key.run, assign.epoch).await {
                Ok(()) => self.children.desk_for(&assign.what, &self.live),
                Err(unfit) => Err(unfit.to_string()),
            },
        };
        let desk = match desk {
            Ok(desk) => desk,
            Err(reason) => return self.say(&from, ToCoordinator::Refused { key, reason }),
        };
        let folder = self.home.own().folder(&key);
        let stored = Stored { began_ms: clock::wall_ms(), assign };
        self.live.insert(key, Some(desk.clone()));
        self.children.tell(&desk, employee::Msg::Take(Box::new(stored), folder));
    }

    fn stop(&mut self, key: AttemptKey) {
        if let Some(Some(desk)) = self.live.get(&key) {
            let halt = employee::Msg::Halt(key, crate::attempt::Halt::Stopped);
            self.children.tell(desk, halt);
        }
    }

    fn receipt(&mut self, key: AttemptKey) {
        if !self.ended.contains_key(&key) || !self.forgetting.insert(key.clone()) {
            return;
        }
        let (home, world, myself) = (self.home.clone(), self.world.clone(), self.myself.clone());
        tokio::spawn(async move {
            let done = recover::settle(&home, &world.pool, &world.outbox, &key).await;
            let _ = myself.send_message(Msg::Forgotten(key, done));
        });
    }
}
