//! Which node gets what: wants in the order in which they came, each to the place with the most free
//! slots. A slot is never counted up and down: what is free follows from what is live.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{EmployeeId, NodeId},
    run::fact::Place,
};

/// A wish for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// Of one of these employees.
    Employee(Vec<EmployeeId>),
    /// For a check.
    Check,
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
pub struct Grant<K> {
    /// Whose want.
    pub key: K,
    /// Where.
    pub place: Place,
    /// Which slot there.
    pub slot: Slot,
}

/// The nodes, what is live on them, and what is wanted.
#[derive(Clone, Debug)]
pub struct Board<K> {
    nodes: BTreeMap<NodeId, Offer>,
    live: BTreeMap<K, (NodeId, Slot)>,
    wants: BTreeMap<u64, (K, Want)>,
    wanted: BTreeMap<K, u64>,
    next: u64,
}

impl<K: Ord + Clone> Default for Board<K> {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            live: BTreeMap::new(),
            wants: BTreeMap::new(),
            wanted: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<K: Ord + Clone> Board<K> {
    /// A node offers its slots, or offers others than before.
    pub fn offer(&mut self, offer: Offer) {
        self.nodes.insert(offer.place.node.clone(), offer);
    }

    /// A node offers nothing any more. What is live there stays so until it is freed.
    pub fn withdraw_node(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Something is wanted, behind what was wanted before.
    pub fn want(&mut self, key: K, want: Want) {
        if self.wanted.contains_key(&key) || self.live.contains_key(&key) {
            return;
        }
        self.next += 1;
        self.wanted.insert(key.clone(), self.next);
        self.wants.insert(self.next, (key, want));
    }

    /// It is not wanted any more.
    pub fn withdraw(&mut self, key: &K) {
        if let Some(turn) = self.wanted.remove(key) {
            self.wants.remove(&turn);
        }
    }

    /// Something is live that was not granted here: it was adopted.
    pub fn occupy(&mut self, key: K, node: NodeId, slot: Slot) {
        self.live.insert(key, (node, slot));
    }

    /// It is not live any more.
    pub fn free(&mut self, key: &K) {
        self.live.remove(key);
    }

    /// Forgets all that `mine` says belongs to somebody who is gone.
    pub fn forget(&mut self, mine: impl Fn(&K) -> bool) {
        self.live.retain(|key, _| !mine(key));
        let gone: BTreeSet<K> = self.wanted.keys().filter(|key| mine(key)).cloned().collect();
        for key in gone {
            self.withdraw(&key);
        }
    }

    /// Grants what can be granted now.
    pub fn grant(&mut self) -> Vec<Grant<K>> {
        let mut free = self.free_slots();
        let mut grants = Vec::new();
        for (turn, (key, want)) in &self.wants {
            if free.is_empty() {
                break;
            }
            let slots: Vec<Slot> = match want {
                Want::Check => vec![Slot::Check],
                Want::Employee(employees) => employees.iter().cloned().map(Slot::Employee).collect(),
            };
            let candidates = slots.iter().filter_map(|slot| free.get(slot).map(|nodes| (slot, nodes)));
            let best = candidates
                .flat_map(|(slot, nodes)| nodes.iter().map(move |(node, count)| (*count, slot, node)))
                // Most free slots first; among equals the first employee and node, so that it is repeatable.
                .reduce(|best, next| if next.0 > best.0 { next } else { best });
            let Some((_, slot, node)) = best else { continue };
            let (slot, node) = (slot.clone(), node.clone());
            let Some(offer) = self.nodes.get(&node) else { continue };
            grants.push((*turn, Grant { key: key.clone(), place: offer.place.clone(), slot: slot.clone() }));
            take(&mut free, &slot, &node);
        }
        grants.into_iter().map(|(turn, grant)| self.settle(turn, grant)).collect()
    }

    fn settle(&mut self, turn: u64, grant: Grant<K>) -> Grant<K> {
        self.wants.remove(&turn);
        self.wanted.remove(&grant.key);
        self.live.insert(grant.key.clone(), (grant.place.node.clone(), grant.slot.clone()));
        grant
    }

    fn free_slots(&self) -> BTreeMap<Slot, BTreeMap<NodeId, u32>> {
        let mut taken: BTreeMap<(&NodeId, &Slot), u32> = BTreeMap::new();
        for (node, slot) in self.live.values() {
            *taken.entry((node, slot)).or_default() += 1;
        }
        let mut free: BTreeMap<Slot, BTreeMap<NodeId, u32>> = BTreeMap::new();
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
mod tests {
    use super::*;
    use crate::ids::Incarnation;

    fn offer(node: &str, employees: &[(&str, u32)], checks: u32) -> Offer {
        Offer {
            place: Place { node: node.parse().unwrap(), incarnation: Incarnation(1) },
            employees: employees.iter().map(|(id, n)| (id.parse().unwrap(), *n)).collect(),
            checks,
        }
    }

    fn employee(id: &str) -> Want {
        Want::Employee(vec![id.parse().unwrap()])
    }

    fn granted(board: &mut Board<u32>) -> Vec<(u32, String)> {
        board.grant().into_iter().map(|grant| (grant.key, grant.place.node.to_string())).collect()
    }

    #[test]
    fn first_come_first_served_least_loaded_first() {
        let mut board = Board::default();
        board.offer(offer("a", &[("back", 1)], 0));
        board.offer(offer("b", &[("back", 2)], 0));
        for key in 1..=5 {
            board.want(key, employee("back"));
        }
        assert_eq!(granted(&mut board), [(1, "b".into()), (2, "a".into()), (3, "b".into())]);
        board.free(&2);
        assert_eq!(granted(&mut board), [(4, "a".into())]);
        board.withdraw(&5);
        board.free(&1);
        assert_eq!(granted(&mut board), []);
    }

    #[test]
    fn a_want_that_nobody_serves_holds_up_nobody() {
        let mut board = Board::default();
        board.offer(offer("a", &[("back", 1)], 1));
        board.want(1, employee("front"));
        board.want(2, employee("back"));
        board.want(3, Want::Check);
        assert_eq!(granted(&mut board), [(2, "a".into()), (3, "a".into())]);
    }

    #[test]
    fn what_was_adopted_takes_its_slot() {
        let mut board = Board::default();
        board.offer(offer("a", &[("back", 1)], 0));
        board.occupy(9, "a".parse().unwrap(), Slot::Employee("back".parse().unwrap()));
        board.want(1, employee("back"));
        assert_eq!(granted(&mut board), []);
        board.forget(|key| *key == 9);
        assert_eq!(granted(&mut board), [(1, "a".into())]);
    }
}
