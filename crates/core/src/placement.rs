//! Which node gets what: wants by priority, between runs that share slots the one that has fewest, then
//! first come first served; each to the place with the most free slots. A slot is never counted up
//! and down: what is free follows from what is live.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{AttemptNumber, EmployeeId, NodeId, RunId},
    plan::Priority,
    run::{
        fact::{CheckOf, Place},
        state::TaskIx,
    },
};

/// Whose slot it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKey {
    /// The run.
    pub run: RunId,
    /// What runs in it.
    pub what: SlotUse,
}

/// What runs in a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotUse {
    /// This attempt at this task.
    Attempt(TaskIx, AttemptNumber),
    /// This command of these checks, at this try.
    Check(CheckOf, u32, u32),
}

/// A wish for a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// Which wants it goes before and after.
    pub priority: Priority,
    /// Any of these slots.
    pub slots: BTreeSet<Slot>,
}

/// Which slot of a node something takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// One of this employee.
    Employee(EmployeeId),
    /// One for a check.
    Check,
}

/// A node and what it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The node.
    pub place: Place,
    /// Slots by employee.
    pub employees: BTreeMap<EmployeeId, u32>,
    /// Slots for checks.
    pub checks: u32,
}

/// A granted slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose want.
    pub key: SlotKey,
    /// Where.
    pub place: Place,
    /// Which slot there.
    pub slot: Slot,
}

/// Wants of one run that differ in nothing but their turn.
type Class = (Want, RunId);

/// Free slots by kind and node.
type Free = BTreeMap<Slot, BTreeMap<NodeId, u32>>;

/// How many slots of each kind each run has.
type Held = BTreeMap<(RunId, Slot), u32>;

/// The nodes, what is live on them, and what is wanted.
#[derive(Clone, Debug, Default)]
pub struct Board {
    nodes: BTreeMap<NodeId, Offer>,
    live: BTreeMap<SlotKey, (NodeId, Slot)>,
    /// What is wanted, alike wants together, each list in the order in which they came.
    wants: BTreeMap<Class, BTreeMap<u64, SlotKey>>,
    /// Where each want stands.
    wanted: BTreeMap<SlotKey, (Class, u64)>,
    next: u64,
}

impl Board {
    /// A node offers its slots, or offers others than before.
    pub fn offer(&mut self, offer: Offer) {
        self.nodes.insert(offer.place.node.clone(), offer);
    }

    /// A node offers nothing any more. What is live there stays so until it is freed.
    pub fn withdraw_node(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Something is wanted, behind what its run wanted before at the same priority.
    pub fn want(&mut self, key: SlotKey, want: Want) {
        if self.wanted.contains_key(&key) || self.live.contains_key(&key) {
            return;
        }
        self.next += 1;
        let class = (want, key.run);
        self.wanted.insert(key.clone(), (class.clone(), self.next));
        self.wants.entry(class).or_default().insert(self.next, key);
    }

    /// It is not wanted any more.
    pub fn withdraw(&mut self, key: &SlotKey) {
        let Some((class, turn)) = self.wanted.remove(key) else { return };
        if let Some(queue) = self.wants.get_mut(&class) {
            queue.remove(&turn);
            if queue.is_empty() {
                self.wants.remove(&class);
            }
        }
    }

    /// Something is live that was not granted here: it was adopted.
    pub fn occupy(&mut self, key: SlotKey, node: NodeId, slot: Slot) {
        self.withdraw(&key);
        self.live.insert(key, (node, slot));
    }

    /// It is not live any more.
    pub fn free(&mut self, key: &SlotKey) {
        self.live.remove(key);
    }

    /// Forgets all of a run that is gone.
    pub fn forget(&mut self, run: RunId) {
        self.live.retain(|key, _| key.run != run);
        let gone: Vec<SlotKey> = self.wanted.keys().filter(|key| key.run == run).cloned().collect();
        for key in gone {
            self.withdraw(&key);
        }
    }

    /// Grants what can be granted now.
    pub fn grant(&mut self) -> Vec<Grant> {
        let (mut free, mut held) = (self.free_slots(), self.held());
        let mut grants = Vec::new();
        while let Some((key, slot, node)) = self.best(&free, &held) {
            // A node that has free slots is one that offers.
            let Some(offer) = self.nodes.get(&node) else { break };
            let place = offer.place.clone();
            self.withdraw(&key);
            self.live.insert(key.clone(), (node.clone(), slot.clone()));
            take(&mut free, &slot, &node);
            *held.entry((key.run, slot.clone())).or_default() += 1;
            grants.push(Grant { key, place, slot });
        }
        grants
    }

    /// Whose turn it is, and where: the highest priority first, then the run that has the fewest of the
    /// slots that it would take, then who came first.
    fn best(&self, free: &Free, held: &Held) -> Option<(SlotKey, Slot, NodeId)> {
        let servable = self.wants.iter().filter_map(|((want, run), queue)| {
            let (slot, node) = roomiest(want, free)?;
            let has: u32 = want.slots.iter().filter_map(|slot| held.get(&(*run, slot.clone()))).sum();
            let (turn, key) = queue.first_key_value()?;
            Some(((want.priority, has, *turn), (key, slot, node)))
        });
        let (_, (key, slot, node)) = servable.min_by_key(|(rank, _)| *rank)?;
        Some((key.clone(), slot.clone(), node.clone()))
    }

    fn held(&self) -> Held {
        let mut held = Held::new();
        for (key, (_, slot)) in &self.live {
            *held.entry((key.run, slot.clone())).or_default() += 1;
        }
        held
    }

    fn free_slots(&self) -> Free {
        let mut taken: BTreeMap<(&NodeId, &Slot), u32> = BTreeMap::new();
        for (node, slot) in self.live.values() {
            *taken.entry((node, slot)).or_default() += 1;
        }
        let mut free = Free::new();
        for (node, offer) in &self.nodes {
            let employees = offer.employees.iter().map(|(id, count)| (Slot::Employee(id.clone()), *count));
            for (slot, count) in employees.chain([(Slot::Check, offer.checks)]) {
                let left = count.saturating_sub(taken.get(&(node, &slot)).copied().unwrap_or(0));
                if left > 0 {
                    free.entry(slot).or_default().insert(node.clone(), left);
                }
            }
        }
        free
    }
}

/// The place with the most free slots for this want; among equals the first slot and node, so that it is
/// repeatable.
fn roomiest<'f>(want: &Want, free: &'f Free) -> Option<(&'f Slot, &'f NodeId)> {
    let places = want.slots.iter().filter_map(|slot| free.get_key_value(slot));
    places
        .flat_map(|(slot, nodes)| nodes.iter().map(move |(node, count)| (*count, slot, node)))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, slot, node)| (slot, node))
}

fn take(free: &mut BTreeMap<Slot, BTreeMap<NodeId, u32>>, slot: &Slot, node: &NodeId) {
    let Some(nodes) = free.get_mut(slot) else { return };
    if let Some(count) = nodes.get_mut(node) {
        *count -= 1;
        if *count == 0 {
            nodes.remove(node);
        }
    }
    if nodes.is_empty() {
        free.remove(slot);
    }
}

#[cfg(test)]
mod tests;
