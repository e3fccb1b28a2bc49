//! The actors below a node: starting them, finding out which one ended, starting it again later, and
//! what an end of one means to the attempts that it had.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{CoordinatorId, EmployeeId, Incarnation},
    link::AttemptKey,
    message::What,
};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::{Msg, State, links::Links};
use crate::{
    Home,
    attempt::{Performer, World},
    employee::{self, Employee},
    link::Offer,
    outbox::{Outbox, OutboxHandle},
    peers::Peers,
    restart::Restarts,
    room::Room,
};

/// Who may have an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Desk {
    /// An instance of an employee, counted from 1.
    Employee(EmployeeId, u32),
    /// The slots for checks.
    Checks,
}

impl Desk {
    /// Whether an attempt of this kind may be done here.
    fn does(&self, what: &What) -> bool {
        match (self, what) {
            (Self::Employee(id, _), What::Work(work)) => *id == work.employee,
            (Self::Checks, What::Check { .. }) => true,
            _ => false,
        }
    }
}

/// An actor below the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Child {
    Desk(Desk),
    Link(CoordinatorId),
    Outbox,
}

/// The actors below the node, with what is needed to start them again.
pub(crate) struct Children {
    /// All that there is to offer.
    offer: Offer,
    desks: BTreeMap<Desk, (employee::Arguments, Option<ActorRef<employee::Msg>>)>,
    pub(super) links: Links,
    outbox: Option<ActorCell>,
    restarts: BTreeMap<Child, Restarts>,
}

impl Children {
    pub(super) async fn start(
        node: &ActorRef<Msg>,
        home: &Home,
        incarnation: Incarnation,
        (parts, room): (super::Parts, Room),
        closed: bool,
    ) -> Result<(Self, Arc<World>), ActorProcessingErr> {
        let cell = node.get_cell();
        let (outbox, _) = Actor::spawn_linked(None, Outbox, home.own().outbox(), cell.clone()).await?;
        let handle = OutboxHandle::new(outbox.clone());
        let world = Arc::new(World {
            peers: Peers::default(),
            mirrors: home.own().mirrors().clone(),
            outbox: handle.clone(),
            keeper: parts.keeper,
            pool: parts.pool,
            room,
        });
        let offer = Offer {
            node: home.id().clone(),
            employees: parts.employees.iter().map(|(id, one)| (id.clone(), one.all_slots())).collect(),
            check_slots: parts.check_slots,
        };
        let mut desks = BTreeMap::new();
        for (desk, performer, slots) in staff(parts.employees, parts.check_slots) {
            let arguments =
                employee::Arguments { node: node.clone(), world: world.clone(), performer, slots };
            let (actor, _) = Actor::spawn_linked(None, Employee, arguments.clone(), cell.clone()).await?;
            desks.insert(desk, (arguments, Some(actor)));
        }
        let now = if closed { offer.none() } else { offer.clone() };
        let links = Links::new(node.clone(), handle, parts.ttl, incarnation, now);
        let outbox = Some(outbox.get_cell());
        Ok((Self { offer, desks, links, outbox, restarts: BTreeMap::new() }, world))
    }

    /// Offers all that there is, or nothing for this reason.
    pub(super) fn offer(&mut self, closed: Option<String>) {
        let offer = if closed.is_some() { self.offer.none() } else { self.offer.clone() };
        self.links.offer(&offer, &closed.unwrap_or_default());
    }

    /// Who takes this: of the instances that are there, the one that has least to do.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn desk_for(
        &self,
        what: &What,
        live: &BTreeMap<AttemptKey, Option<Desk>>,
    ) -> Result<Desk, String> {
        let able = || self.desks.iter().filter(|(desk, _)| desk.does(what));
        let present = able().filter(|(_, (_, actor))| actor.is_some()).map(|(desk, _)| desk);
        let busy = |desk: &Desk| live.values().filter(|at| at.as_ref() == Some(desk)).count();
        match (present.min_by_key(|desk| busy(desk)), what) {
            (Some(desk), _) => Ok(desk.clone()),
            (None, _) if able().next().is_some() => Err("it is being started again".to_owned()),
            (None, What::Work(work)) => Err(format!("{} can't run on this node", work.employee)),
            (None, What::Check { .. }) => Err("this node runs no checks".to_owned()),
        }
    }

    // What is sent to a child that has just failed is made good when its failure is dealt with.

    pub(super) fn tell(&self, desk: &Desk, message: employee::Msg) {
        if let Some((_, Some(actor))) = self.desks.get(desk) {
            let _ = actor.send_message(message);
        }
    }

    pub(super) fn tell_all(&self, message: impl Fn() -> employee::Msg) {
        for actor in self.desks.values().filter_map(|(_, actor)| actor.as_ref()) {
            let _ = actor.send_message(message());
        }
    }

    /// Notes that an actor has ended; which one it was.
    fn lose(&mut self, who: &ActorCell) -> Option<Child> {
        let id = who.get_id();
        if self.outbox.as_ref().is_some_and(|actor| actor.get_id() == id) {
            self.outbox = None;
            return Some(Child::Outbox);
        }
        if let Some(coordinator) = self.links.lose(who) {
            return Some(Child::Link(coordinator));
        }
        let mut desks = self.desks.iter_mut();
        let (desk, (_, actor)) =
            desks.find(|(_, (_, actor))| actor.as_ref().is_some_and(|actor| actor.get_id() == id))?;
        *actor = None;
        Some(Child::Desk(desk.clone()))
    }
}

/// The desks of a node: the instances of each employee, and the slots for checks.
fn staff(
    employees: BTreeMap<EmployeeId, super::Hosted>,
    check_slots: u32,
) -> impl Iterator<Item = (Desk, Performer, u32)> {
    let employees = employees.into_iter().flat_map(|(id, hosted)| {
        let super::Hosted { exec, instances, slots, keep_ignored } = hosted;
        let performer = Performer::Employee { exec, keep_ignored };
        (1..=instances).map(move |number| (Desk::Employee(id.clone(), number), performer.clone(), slots))
    });
    employees.chain((check_slots > 0).then_some((Desk::Checks, Performer::Check, check_slots)))
}

impl State {
    /// An actor below has ended: what it had is made good, and it is started again after a pause. The
    /// node ends with it if that has happened too often.
    pub(super) fn child_ended(&mut self, who: &ActorCell, why: &str) -> Result<(), ActorProcessingErr> {
        let Some(child) = self.children.lose(who) else { return Ok(()) };
        if let Child::Link(coordinator) = &child
            && !self.world.peers.knows(coordinator)
        {
            tracing::info!(%coordinator, "a coordinator is gone");
            self.children.links.drop(coordinator);
            self.world.peers.disown(coordinator);
            return Ok(());
        }
        tracing::error!(?child, why, "a part of the node has failed");
        let restarts = self.children.restarts.entry(child.clone()).or_default();
        let pause = restarts.grant(Instant::now()).ok_or("a part of the node fails again and again")?;
        if let Child::Desk(desk) = &child {
            let theirs = self.live.iter().filter(|(_, at)| at.as_ref() == Some(desk));
            for key in theirs.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.salvage(key, why);
            }
        }
        self.restart_after(child, pause);
        Ok(())
    }

    fn restart_after(&self, child: Child, pause: Duration) {
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = myself.send_message(Msg::Restart(child));
        });
    }

    pub(super) async fn restart(&mut self, child: Child) -> Result<(), ActorProcessingErr> {
        let cell = self.myself.get_cell();
        match child {
            Child::Outbox => {
                let path = self.home.own().outbox();
                let (actor, _) = Actor::spawn_linked(None, Outbox, path, cell).await?;
                self.children.outbox = Some(actor.get_cell());
                self.world.outbox.replace(actor);
            }
            Child::Link(coordinator) => {
                let incarnation = self.home.next_incarnation()?;
                self.children.links.restart(&coordinator, incarnation).await?;
            }
            Child::Desk(desk) => {
                if let Some((arguments, place)) = self.children.desks.get_mut(&desk) {
                    let (actor, _) = Actor::spawn_linked(None, Employee, arguments.clone(), cell).await?;
                    *place = Some(actor);
                }
            }
        }
        Ok(())
    }
}
