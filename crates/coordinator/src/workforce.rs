//! The `Workforce` actor: demand × free slots → grants. The decision itself is `core::placement`; here
//! wishes, offers and what is live come together, and grants go to the runs that asked.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{NodeId, RunId},
    placement::{Board, Grant, Offer, Slot, SlotKey, Want},
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::{link::LinkHandle, run::RunHandle};

/// What the actor is told.
pub enum Msg {
    /// A node has attached, or offers other slots than before.
    Offered(Offer, LinkHandle),
    /// A node offers nothing any more.
    NodeGone(NodeId),
    /// A run wants slots.
    Wanted(Vec<(SlotKey, Want)>, RunHandle),
    /// It does not want it any more.
    Withdrawn(SlotKey),
    /// Something is live that was not granted here.
    Occupied(SlotKey, NodeId, Slot),
    /// It is not live any more.
    Freed(SlotKey),
    /// No more grants: the process is ending.
    Closed,
    /// A run is not owned here any more, or starts afresh.
    Forgotten(RunId),
}

/// Talks to the actor.
#[derive(Clone)]
pub struct WorkforceHandle(ActorRef<Msg>);

impl WorkforceHandle {
    /// Starts the actor.
    pub async fn start(supervisor: &ractor::ActorCell) -> Result<Self, crate::Error> {
        let spawned = Actor::spawn_linked(None, Workforce, (), supervisor.clone()).await;
        spawned.map(|(actor, _)| Self(actor)).map_err(|error| crate::Error::Unfit(error.to_string()))
    }

    /// Tells the actor. When it is gone the whole coordinator is going down.
    pub fn tell(&self, msg: Msg) {
        drop(self.0.cast(msg));
    }
}

struct Workforce;

#[derive(Default)]
struct State {
    board: Board,
    runs: BTreeMap<RunId, RunHandle>,
    links: BTreeMap<NodeId, LinkHandle>,
    closed: bool,
}

impl Actor for Workforce {
    type Msg = Msg;
    type State = State;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Msg>, (): ()) -> Result<State, ActorProcessingErr> {
        Ok(State::default())
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Offered(offer, link) => {
                state.links.insert(offer.place.node.clone(), link);
                state.board.offer(offer);
            }
            Msg::NodeGone(node) => {
                state.links.remove(&node);
                state.board.withdraw_node(&node);
            }
            Msg::Wanted(wants, run) => {
                for (key, want) in wants {
                    state.runs.insert(key.run, run.clone());
                    state.board.want(key, want);
                }
            }
            Msg::Withdrawn(key) => state.board.withdraw(&key),
            Msg::Occupied(key, node, slot) => state.board.occupy(key, node, slot),
            Msg::Freed(key) => state.board.free(&key),
            Msg::Closed => state.closed = true,
            Msg::Forgotten(run) => {
                state.runs.remove(&run);
                state.board.forget(run);
            }
        }
        if state.closed {
            return Ok(());
        }
        for grant in state.board.grant() {
            state.hand_out(grant);
        }
        Ok(())
    }
}

impl State {
    fn hand_out(&mut self, grant: Grant) {
        let (run, link) = (self.runs.get(&grant.key.run), self.links.get(&grant.place.node));
        match (run, link) {
            (Some(run), Some(link)) => run.granted(grant, link.clone()),
            _ => self.board.free(&grant.key),
        }
    }
}
