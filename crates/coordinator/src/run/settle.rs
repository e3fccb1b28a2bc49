//! Acting on duties: those that appear are begun, those that vanish are abandoned. Doing one twice is
//! harmless, so nothing here needs to know what was done before a crash.

use std::collections::BTreeSet;

use ensemble_core::{
    ids::Seq,
    message::{Inventory, ToNode},
    placement::{Slot, SlotKey, SlotUse, Want},
    run::{Changes, Duty, State, fact::LossCause},
};

use super::{
    Shell,
    desk::{Live, Named, named},
    inputs::lost,
};
use crate::{link::LinkHandle, workforce};

/// What `key` is wanted for, while it is.
pub fn wanted(state: &State, key: &SlotKey) -> Option<(SlotKey, Want)> {
    let duty = state.duties().find(|duty| slot_key(state, duty).as_ref() == Some(key))?;
    want(state, duty)
}

fn want(state: &State, duty: &Duty) -> Option<(SlotKey, Want)> {
    let want = match duty {
        Duty::Grant { task, .. } => {
            let task = state.task(*task);
            let slots = state.eligible(task).map(|member| Slot::Employee(member.employee.clone())).collect();
            Want { priority: task.spec.priority, slots }
        }
        Duty::GrantCheck { of, .. } => {
            let task = of.task.as_ref().and_then(|id| state.find(id));
            let priority = task.map(|(_, task)| task.spec.priority).unwrap_or_default();
            Want { priority, slots: BTreeSet::from([Slot::Check]) }
        }
        _ => return None,
    };
    Some((slot_key(state, duty)?, want))
}

fn slot_key(state: &State, duty: &Duty) -> Option<SlotKey> {
    let what = match duty {
        Duty::Grant { task, attempt } => SlotUse::Attempt(*task, *attempt),
        Duty::GrantCheck { of, command, attempt } => SlotUse::Check(of.clone(), *command, *attempt),
        _ => return None,
    };
    Some(SlotKey { run: state.run, what })
}

fn token(duty: &Duty) -> Option<Seq> {
    match duty {
        Duty::Attempt { token, .. } | Duty::Stop { token, .. } | Duty::Check { token, .. } => Some(*token),
        _ => None,
    }
}

impl Shell {
    /// Begins the duties that appeared and abandons those that vanished.
    pub fn settle(&mut self, changes: Changes) {
        for duty in &changes.vanished {
            if let Some(key) = slot_key(&self.core, duty) {
                self.workforce.tell(workforce::Msg::Withdrawn(key));
            }
            // An attempt that is now to be stopped is still there.
            let goes_on = token(duty)
                .is_some_and(|token| changes.appeared.iter().any(|next| self::token(next) == Some(token)));
            if let (Some(token), false) = (token(duty), goes_on) {
                self.abandon(token);
            }
        }
        // All at once: which goes first is chosen among them.
        let wants: Vec<_> = changes.appeared.iter().filter_map(|duty| want(&self.core, duty)).collect();
        if !wants.is_empty() {
            self.workforce.tell(workforce::Msg::Wanted(wants, self.me.clone()));
        }
        for duty in changes.appeared {
            self.begin(&duty);
        }
    }

    fn abandon(&mut self, token: Seq) {
        let Some(live) = self.desk.live.remove(&token) else { return };
        self.workforce.tell(workforce::Msg::Freed(live.slot));
        if !live.reported {
            self.desk.links.values().for_each(|link| link.send(ToNode::Stop(live.key.clone())));
        }
    }

    fn begin(&mut self, duty: &Duty) {
        match duty {
            // Wanted with the others that appeared.
            Duty::Grant { .. } | Duty::GrantCheck { .. } => {}
            Duty::Attempt { token, .. } | Duty::Check { token, .. } => {
                // What this session did not dispatch is known to its node, or lost: the inventory tells.
                if self.desk.live.contains_key(token) {
                    self.assign(duty);
                }
            }
            Duty::Stop { token, .. } => {
                if let Some(live) = self.desk.live.get(token) {
                    let key = live.key.clone();
                    self.desk.links.values().for_each(|link| link.send(ToNode::Stop(key.clone())));
                }
            }
            Duty::Merge { .. } | Duty::Advance { .. } => self.repeat(duty, 0),
        }
    }

    /// Introduces the run to a node, which answers with all that it holds of it.
    pub fn greet(&mut self, link: LinkHandle) {
        link.send(ToNode::Claimed { run: self.run(), epoch: self.epoch });
        self.desk.links.insert(link.place().node.clone(), link);
    }

    /// Compares what a node holds with what it should: what it never got is sent again, what an earlier
    /// start of it had is lost, what nobody waits for is stopped.
    pub fn adopt(&mut self, link: &LinkHandle, inventory: &Inventory) {
        if inventory.epoch != self.epoch {
            return;
        }
        let duties: Vec<Duty> = self.core.duties().filter(|duty| token(duty).is_some()).cloned().collect();
        let mut expected = Vec::new();
        for duty in duties {
            let Some(named) = named(&self.core, &duty) else { continue };
            expected.push(named.key.clone());
            let here = link.place() == &named.place;
            let covered = here || self.embedded || inventory.speaks_for.contains(&named.place.node);
            if !covered || inventory.ended.contains(&named.key) {
                continue;
            }
            if inventory.running.contains(&named.key) {
                self.occupy(link, named, &duty);
            } else if here && !matches!(duty, Duty::Stop { .. }) {
                self.assign(&duty);
            } else {
                let cause = if self.embedded { LossCause::Process } else { LossCause::Node };
                self.push(lost(&named.key, cause, ""));
            }
        }
        for key in inventory.running.iter().filter(|key| !expected.contains(key)) {
            link.send(ToNode::Stop(key.clone()));
        }
    }

    fn occupy(&mut self, link: &LinkHandle, named: Named, duty: &Duty) {
        let slot = SlotKey { run: self.run(), what: named.use_ };
        let node = link.place().node.clone();
        self.workforce.tell(workforce::Msg::Occupied(slot.clone(), node, named.slot));
        self.desk.live.insert(named.key.token, Live { key: named.key, slot, reported: false });
        if matches!(duty, Duty::Stop { .. }) {
            self.begin(duty);
        }
    }
}
