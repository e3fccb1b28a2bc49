//! The actor that keeps ends until they are acknowledged. All writes go through it, one after the
//! other, each on a thread where it may wait for the disk. Its callers hold an [`OutboxHandle`],
//! which outlives a restart of the actor.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use ensemble_core::{
    ids::{Epoch, RunId},
    link::AttemptKey,
    message::Ended,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, rpc::CallResult};

use crate::{
    Error,
    restart::backoff,
    store::{Kept, Store},
};

/// Longest wait for the disk; a slower one is asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pauses between two tries to keep an end on a disk that refuses: full ones are emptied some time.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// What has ended when the actor is not there.
const ENDED: &str = "the outbox";

/// The actor.
pub(crate) struct Outbox;

/// What it is asked, each with where the answer goes.
pub(crate) enum Msg {
    Keep(Box<Kept>, RpcReplyPort<Result<(), Error>>),
    Amend(Box<Kept>, RpcReplyPort<Result<(), Error>>),
    Find(AttemptKey, RpcReplyPort<Result<Option<Kept>, Error>>),
    Forget(AttemptKey, RpcReplyPort<Result<(), Error>>),
    NoteEpoch(RunId, Epoch, RpcReplyPort<Result<(), Error>>),
}

impl Actor for Outbox {
    type Msg = Msg;
    type State = Arc<Mutex<Store>>;
    type Arguments = PathBuf;

    async fn pre_start(&self, _: ActorRef<Msg>, path: PathBuf) -> Result<Self::State, ActorProcessingErr> {
        let store = tokio::task::spawn_blocking(move || Store::open(&path)).await??;
        Ok(Arc::new(Mutex::new(store)))
    }

    // Waits for the local disk alone. The mailbox is bounded by the attempts that there are: each
    // waits for its answer before it asks again.
    async fn handle(
        &self,
        _: ActorRef<Msg>,
        message: Msg,
        store: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let store = store.clone();
        tokio::task::spawn_blocking(move || {
            let store = store.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody who has left needs an answer.
            let _ = match message {
                Msg::Keep(kept, reply) => reply.send(store.keep(&kept)).is_ok(),
                Msg::Amend(kept, reply) => reply.send(store.amend(&kept)).is_ok(),
                Msg::Find(key, reply) => reply.send(store.find(&key)).is_ok(),
                Msg::Forget(key, reply) => reply.send(store.forget(&key)).is_ok(),
                Msg::NoteEpoch(run, epoch, reply) => reply.send(store.note_epoch(run, epoch)).is_ok(),
            };
        })
        .await?;
        Ok(())
    }
}

/// The way to the outbox.
#[derive(Clone)]
pub(crate) struct OutboxHandle(Arc<RwLock<ActorRef<Msg>>>);

impl OutboxHandle {
    pub(crate) fn new(actor: ActorRef<Msg>) -> Self {
        Self(Arc::new(RwLock::new(actor)))
    }

    /// Points to the actor that was started in the place of one that failed.
    pub(crate) fn replace(&self, actor: ActorRef<Msg>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = actor;
    }

    /// Keeps an end. Returns only when it is on disk: an end is never given up.
    pub(crate) async fn keep(&self, ended: Ended, pushed: bool) {
        self.insist(|reply| Msg::Keep(Box::new(Kept { ended: ended.clone(), pushed }), reply)).await;
    }

    /// Puts another end in the place of the one that is kept. Returns only when it is on disk.
    pub(crate) async fn amend(&self, kept: &Kept) {
        self.insist(|reply| Msg::Amend(Box::new(kept.clone()), reply)).await;
    }

    /// The end of this attempt, if it is kept.
    pub(crate) async fn find(&self, key: &AttemptKey) -> Result<Option<Kept>, Error> {
        self.ask(|reply| Msg::Find(key.clone(), reply)).await
    }

    /// Forgets an end that was acknowledged.
    pub(crate) async fn forget(&self, key: &AttemptKey) -> Result<(), Error> {
        self.ask(|reply| Msg::Forget(key.clone(), reply)).await
    }

    /// Remembers the epoch under which a run is owned.
    pub(crate) async fn note_epoch(&self, run: RunId, epoch: Epoch) -> Result<(), Error> {
        self.ask(|reply| Msg::NoteEpoch(run, epoch, reply)).await
    }

    async fn insist(&self, message: impl Fn(RpcReplyPort<Result<(), Error>>) -> Msg) {
        for failures in 0.. {
            let Err(error) = self.ask(&message).await else { return };
            match error {
                // It is being restarted, or the whole node is: that is told elsewhere.
                Error::Gone(ENDED) => tracing::debug!("the outbox is away; trying again until it is there"),
                error if failures == 0 => {
                    tracing::warn!(%error, "an end can't be kept yet; trying again until it is");
                }
                _ => {}
            }
            tokio::time::sleep(backoff(failures, PAUSES[0], PAUSES[1])).await;
        }
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, Error>>) -> Msg,
    ) -> Result<T, Error> {
        let actor = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match actor.call(message, Some(PATIENCE)).await {
            Ok(CallResult::Success(answer)) => answer,
            Ok(CallResult::Timeout) => Err(Error::Gone("the outbox did not answer in time")),
            Ok(CallResult::SenderError) | Err(_) => Err(Error::Gone(ENDED)),
        }
    }
}
