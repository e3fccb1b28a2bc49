//! The links of a node, one to each coordinator that there is: started when one appears, kept while it
//! is up, and ended when its coordinator is gone and it is down. Starting a failed one again is
//! `children`'s.

use std::{collections::BTreeMap, time::Duration};

use ensemble_core::ids::{CoordinatorId, Incarnation};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::Msg;
use crate::{
    Dial,
    link::{self, CoordinatorLink, Offer},
    outbox::OutboxHandle,
};

/// One link.
struct Line {
    arguments: link::Arguments,
    actor: Option<ActorRef<link::Msg>>,
    /// Whether there is a connection.
    up: bool,
}

/// All links.
pub(super) struct Links {
    node: ActorRef<Msg>,
    outbox: OutboxHandle,
    ttl: Duration,
    incarnation: Incarnation,
    /// What is offered now.
    offer: Offer,
    lines: BTreeMap<CoordinatorId, Line>,
}

impl Links {
    pub(super) fn new(
        node: ActorRef<Msg>,
        outbox: OutboxHandle,
        ttl: Duration,
        incarnation: Incarnation,
        offer: Offer,
    ) -> Self {
        Self { node, outbox, ttl, incarnation, offer, lines: BTreeMap::new() }
    }

    /// Follows the coordinators that there are.
    pub(super) async fn follow(
        &mut self,
        there: &BTreeMap<CoordinatorId, Dial>,
    ) -> Result<(), ActorProcessingErr> {
        for (coordinator, line) in &mut self.lines {
            let dial = there.get(coordinator);
            if let Some(dial) = dial {
                line.arguments.dial = dial.clone();
            }
            if let Some(actor) = &line.actor {
                // One that has just failed finds it in its arguments.
                let _ = actor.send_message(link::Msg::Reach(dial.cloned()));
            }
        }
        for (coordinator, dial) in there {
            if !self.lines.contains_key(coordinator) {
                let arguments = link::Arguments {
                    node: self.node.clone(),
                    outbox: self.outbox.clone(),
                    coordinator: coordinator.clone(),
                    dial: dial.clone(),
                    ttl: self.ttl,
                    incarnation: self.incarnation,
                    offer: self.offer.clone(),
                };
                let actor = Some(self.spawn(arguments.clone()).await?);
                self.lines.insert(coordinator.clone(), Line { arguments, actor, up: false });
            }
        }
        Ok(())
    }

    async fn spawn(&self, arguments: link::Arguments) -> Result<ActorRef<link::Msg>, ActorProcessingErr> {
        let (actor, _) = Actor::spawn_linked(None, CoordinatorLink, arguments, self.node.get_cell()).await?;
        Ok(actor)
    }

    /// Starts a failed link again. The new machine knows nothing of the numbers of the old one.
    pub(super) async fn restart(
        &mut self,
        coordinator: &CoordinatorId,
        incarnation: Incarnation,
    ) -> Result<(), ActorProcessingErr> {
        self.incarnation = incarnation;
        let Some(mut line) = self.lines.remove(coordinator) else { return Ok(()) };
        line.arguments.incarnation = incarnation;
        line.actor = Some(self.spawn(line.arguments.clone()).await?);
        line.up = false;
        self.lines.insert(coordinator.clone(), line);
        Ok(())
    }

    /// Notes that an actor has ended; whose link it was.
    pub(super) fn lose(&mut self, who: &ActorCell) -> Option<CoordinatorId> {
        let is = |line: &Line| line.actor.as_ref().is_some_and(|actor| actor.get_id() == who.get_id());
        let (coordinator, line) = self.lines.iter_mut().find(|(_, line)| is(line))?;
        line.actor = None;
        line.up = false;
        Some(coordinator.clone())
    }

    /// Drops a link whose coordinator is gone.
    pub(super) fn drop(&mut self, coordinator: &CoordinatorId) {
        self.lines.remove(coordinator);
    }

    /// Says something to a coordinator. What can't be said now is derived anew when it can.
    pub(super) fn tell(&self, coordinator: &CoordinatorId, message: link::Msg) {
        if let Some(actor) = self.lines.get(coordinator).and_then(|line| line.actor.as_ref()) {
            let _ = actor.send_message(message);
        }
    }

    /// Offers this to everybody from now on.
    pub(super) fn offer(&mut self, offer: &Offer, reason: &str) {
        self.offer = offer.clone();
        for line in self.lines.values_mut() {
            line.arguments.offer = offer.clone();
            if let Some(actor) = &line.actor {
                let _ = actor.send_message(link::Msg::Offer(offer.clone(), reason.to_owned()));
            }
        }
    }

    /// Notes whether there is a connection.
    pub(super) fn set_up(&mut self, coordinator: &CoordinatorId, up: bool) {
        if let Some(line) = self.lines.get_mut(coordinator) {
            line.up = up;
        }
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self, coordinator: &CoordinatorId) -> bool {
        self.lines.get(coordinator).is_some_and(|line| line.up)
    }
}
