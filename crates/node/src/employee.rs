//! The actor of an employee instance, and of the slots for checks: it has so many attempts at once,
//! each a task of its own, and refuses more. A slot is free when no attempt lives in it; nothing
//! else is counted. What an attempt does is `attempt`'s.

use std::{collections::BTreeMap, sync::Arc};

use ensemble_core::link::AttemptKey;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    attempt::{self, Brake, Halt, Job, Performer, Verdict, World},
    folder::{Folder, Stored},
    node,
};

/// The actor.
pub(crate) struct Employee;

/// All that it needs.
#[derive(Clone)]
pub(crate) struct Arguments {
    pub(crate) node: ActorRef<node::Msg>,
    pub(crate) world: Arc<World>,
    pub(crate) performer: Performer,
    pub(crate) slots: u32,
}

/// What it hears. Its mailbox is fed by the node alone, and by its own attempts once each.
pub(crate) enum Msg {
    /// Carry this out.
    Take(Box<Stored>, Folder),
    /// End this attempt.
    Halt(AttemptKey, Halt),
    /// End all of them, for the process ends.
    Drain,
    /// Leave their agents no more time.
    Hurry,
    /// An attempt's task has ended; the reason in words if it broke.
    Over(AttemptKey, Result<Verdict, String>),
}

pub(crate) struct State {
    arguments: Arguments,
    live: BTreeMap<AttemptKey, Live>,
}

/// An attempt that is under way; its agent is killed when this is dropped.
struct Live {
    brake: Brake,
    _task: AbortOnDropHandle<()>,
}

impl Actor for Employee {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<Msg>, arguments: Arguments) -> Result<State, ActorProcessingErr> {
        Ok(State { arguments, live: BTreeMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Take(stored, folder) => state.take(&myself, *stored, folder)?,
            Msg::Halt(key, halt) => {
                if let Some(live) = state.live.get(&key) {
                    live.brake.halt(halt);
                }
            }
            Msg::Drain => state.live.values().for_each(|live| live.brake.halt(Halt::Drained)),
            Msg::Hurry => state.live.values().for_each(|live| live.brake.kill()),
            Msg::Over(key, verdict) => {
                state.live.remove(&key);
                state.arguments.node.send_message(match verdict {
                    Ok(Verdict::Refused(reason)) => node::Msg::Refused { key, reason },
                    Ok(Verdict::Kept { pushed }) => node::Msg::Kept { key, pushed },
                    Err(why) => node::Msg::Broke { key, why },
                })?;
            }
        }
        Ok(())
    }
}

impl State {
    fn take(
        &mut self,
        myself: &ActorRef<Msg>,
        stored: Stored,
        folder: Folder,
    ) -> Result<(), ActorProcessingErr> {
        let key = stored.assign.key.clone();
        if self.live.len() >= self.arguments.slots as usize {
            let reason = format!("all {} slots are taken", self.arguments.slots);
            return Ok(self.arguments.node.send_message(node::Msg::Refused { key, reason })?);
        }
        let (brake, halting) = Brake::new();
        let (node, started) = (self.arguments.node.clone(), key.clone());
        let job = Job {
            world: self.arguments.world.clone(),
            folder,
            stored,
            performer: self.arguments.performer.clone(),
            halting,
            started: Some(Box::new(move || {
                // A node that has ended tells nobody.
                let _ = node.send_message(node::Msg::Started(started));
            })),
        };
        let (myself, over) = (myself.clone(), key.clone());
        let work = AbortOnDropHandle::new(tokio::spawn(attempt::carry_out(job)));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let verdict = work.await.map_err(|error| error.to_string());
            let _ = myself.send_message(Msg::Over(over, verdict));
        }));
        self.live.insert(key, Live { brake, _task: task });
        Ok(())
    }
}
