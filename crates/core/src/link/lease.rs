//! Who stops what while a link is down: the node its agents, the coordinator its hope for them.
//! Pure rules over what a shell has seen. Not here: how it is seen, and attempts (see `adopt`).
//!
//! The rules fit together so that the node stops before the coordinator reassigns: its lease counts
//! from an earlier moment, its directory lease runs out before the directory drops its key, and
//! its patience with an owner it can't reach is [`Limits::MARGIN`] shorter.

use std::fmt;

use super::Millis;

/// The two lengths that people set, the same in every process of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of every lease (`--lease-ttl`).
    pub lease_ttl: Millis,
    /// How long a node goes on under a living owner that it cannot reach (`--link-timeout`).
    pub link_timeout: Millis,
}

impl Limits {
    /// What a coordinator waits longer than a node: covers a node that reads the owner's key only
    /// every third of a lease, and the killing of a process tree.
    pub const MARGIN: Millis = Millis(5_000);
}

impl Default for Limits {
    fn default() -> Self {
        Self { lease_ttl: Millis(10_000), link_timeout: Millis(30_000) }
    }
}

/// What a node sees of one run of which it has live attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Since when the link to the run's owner has been down; `None`: up.
    pub link_down_since: Option<Millis>,
    /// Whether the node's own directory lease is valid, as a holder counts it.
    pub own_lease_valid: bool,
    /// Since when every look has shown a living owner of the run; `None`: the last look showed none,
    /// or failed.
    pub owner_seen_alive_since: Option<Millis>,
}

/// What a node does with the run's agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// They go on; reports wait in the outbox.
    Continue,
    /// They are stopped.
    Stop(StopReason),
}

/// Why a node stops agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The directory may already show the node as gone, so the coordinator may reassign.
    OwnLeaseLost,
    /// The owner lives and has heard nothing for so long that it is about to reassign.
    OwnerUnreachable,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnLeaseLost => "the link is down and the node's own lease has run out",
            Self::OwnerUnreachable => "the run's owner lives but could not be reached for the link timeout",
        })
    }
}

impl NodeView {
    /// From when on the agents are to be stopped if nothing else changes; `None`: never.
    #[must_use]
    pub fn due(&self, limits: &Limits) -> Option<(Millis, StopReason)> {
        let down = self.link_down_since?;
        if !self.own_lease_valid {
            return Some((down, StopReason::OwnLeaseLost));
        }
        // Only the time counts in which it was both alive and out of reach.
        let unreachable = self.owner_seen_alive_since?.max(down);
        Some((unreachable.after(limits.link_timeout), StopReason::OwnerUnreachable))
    }

    /// What is to be done now.
    #[must_use]
    pub fn verdict(&self, limits: &Limits, now: Millis) -> NodeVerdict {
        match self.due(limits) {
            Some((due, reason)) if due <= now => NodeVerdict::Stop(reason),
            _ => NodeVerdict::Continue,
        }
    }
}

/// What a coordinator sees of one node that has live attempts of a run it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorView {
    /// Since when the link to the node has been down; `None`: up.
    pub link_down_since: Option<Millis>,
    /// Whether the directory shows no key of the node. A failed look is not a missing key.
    pub node_key_gone: bool,
    /// Since when the coordinator has held its own directory lease without a gap; `None`: it doesn't.
    pub own_lease_valid_since: Option<Millis>,
    /// Since when nodes could reach it as the run's owner.
    pub listening_since: Millis,
}

/// What a coordinator does with the node's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorVerdict {
    /// They stay where they are.
    Wait,
    /// They are lost; their tasks may be dispatched anew.
    Reassign(ReassignReason),
}

/// Why a coordinator reassigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReassignReason {
    /// The node's directory lease has run out, so it has stopped its agents by its own count.
    NodeGone,
    /// The node lives but could not be reached for longer than it goes on without us.
    NodeUnreachable,
}

impl fmt::Display for ReassignReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeGone => "the link is down and the node's key is gone",
            Self::NodeUnreachable => "the node could not be reached for the link timeout and its margin",
        })
    }
}

impl CoordinatorView {
    /// From when on the node's attempts are lost if nothing else changes; `None`: never.
    #[must_use]
    pub fn due(&self, limits: &Limits) -> Option<(Millis, ReassignReason)> {
        let down = self.link_down_since?;
        // Without its lease it appends nothing, and its view of the directory is worth nothing.
        let held = self.own_lease_valid_since?;
        let listened = self.listening_since.after(limits.lease_ttl);
        if self.node_key_gone {
            return Some((down.max(listened), ReassignReason::NodeGone));
        }
        let patience = down.max(held).after(limits.link_timeout).after(Limits::MARGIN);
        Some((patience.max(listened), ReassignReason::NodeUnreachable))
    }

    /// What is to be done now.
    #[must_use]
    pub fn verdict(&self, limits: &Limits, now: Millis) -> CoordinatorVerdict {
        match self.due(limits) {
            Some((due, reason)) if due <= now => CoordinatorVerdict::Reassign(reason),
            _ => CoordinatorVerdict::Wait,
        }
    }

    /// Whether the node may be offered new work: both hold their leases, and the link is up.
    #[must_use]
    pub fn may_offer(&self) -> bool {
        self.link_down_since.is_none() && self.own_lease_valid_since.is_some() && !self.node_key_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { lease_ttl: Millis(10_000), link_timeout: Millis(30_000) };

    fn at(ms: u64) -> Option<Millis> {
        Some(Millis(ms))
    }

    #[test]
    fn a_node_stops_as_the_table_says() {
        use NodeVerdict::{Continue, Stop};
        use StopReason::{OwnLeaseLost, OwnerUnreachable};
        // (link down since, own lease valid, owner seen alive since, now, verdict)
        let table = [
            // While the link is up nothing is stopped, whatever the directory says.
            (None, true, None, 900_000, Continue),
            (None, false, None, 900_000, Continue),
            (None, false, at(0), 900_000, Continue),
            // Down and the own lease gone: at once, owner or not.
            (at(1_000), false, None, 1_000, Stop(OwnLeaseLost)),
            (at(1_000), false, at(0), 1_000, Stop(OwnLeaseLost)),
            // Down, own lease valid, no owner: it goes on, however long.
            (at(1_000), true, None, 900_000, Continue),
            // A living owner counts from when it was seen …
            (at(1_000), true, at(5_000), 34_999, Continue),
            (at(1_000), true, at(5_000), 35_000, Stop(OwnerUnreachable)),
            // … but not while it could be reached.
            (at(40_000), true, at(0), 69_999, Continue),
            (at(40_000), true, at(0), 70_000, Stop(OwnerUnreachable)),
        ];
        for (link_down_since, own_lease_valid, owner_seen_alive_since, now, verdict) in table {
            let view = NodeView { link_down_since, own_lease_valid, owner_seen_alive_since };
            assert_eq!(view.verdict(&LIMITS, Millis(now)), verdict, "{view:?} at {now}");
        }
    }

    #[test]
    fn a_coordinator_reassigns_as_the_table_says() {
        use CoordinatorVerdict::{Reassign, Wait};
        use ReassignReason::{NodeGone, NodeUnreachable};
        // (link down since, node's key gone, own lease since, listening since, now, verdict)
        let table = [
            // While the link is up nothing is reassigned, whatever the directory says.
            (None, false, at(0), 0, 900_000, Wait),
            (None, true, at(0), 0, 900_000, Wait),
            (None, true, None, 0, 900_000, Wait),
            // Without its own lease it waits.
            (at(1_000), true, None, 0, 900_000, Wait),
            (at(1_000), false, None, 0, 900_000, Wait),
            // Down and the key gone: at once …
            (at(20_000), true, at(0), 0, 20_000, Reassign(NodeGone)),
            // … but never before it has listened for a full lease.
            (at(1_000), true, at(1_000), 1_000, 10_999, Wait),
            (at(1_000), true, at(1_000), 1_000, 11_000, Reassign(NodeGone)),
            // The key there: link timeout and margin.
            (at(20_000), false, at(0), 0, 54_999, Wait),
            (at(20_000), false, at(0), 0, 55_000, Reassign(NodeUnreachable)),
            // Only the time counts in which it held its own lease.
            (at(20_000), false, at(30_000), 0, 64_999, Wait),
            (at(20_000), false, at(30_000), 0, 65_000, Reassign(NodeUnreachable)),
            // And here too it listens for a full lease first.
            (at(0), false, at(0), 50_000, 59_999, Wait),
            (at(0), false, at(0), 50_000, 60_000, Reassign(NodeUnreachable)),
        ];
        for (link_down_since, node_key_gone, own_lease_valid_since, listening, now, verdict) in table {
            let listening_since = Millis(listening);
            let view =
                CoordinatorView { link_down_since, node_key_gone, own_lease_valid_since, listening_since };
            assert_eq!(view.verdict(&LIMITS, Millis(now)), verdict, "{view:?} at {now}");
        }
    }

    #[test]
    fn the_node_stops_before_the_coordinator_reassigns() {
        // The same broken link, seen a third of a lease late by the node's look at the owner's key;
        // the granter's lease never ends before the holder's.
        let node =
            NodeView { link_down_since: at(100), own_lease_valid: true, owner_seen_alive_since: at(3_434) };
        let coordinator = CoordinatorView {
            link_down_since: at(100),
            node_key_gone: false,
            own_lease_valid_since: at(0),
            listening_since: Millis(0),
        };
        let stops = node.due(&LIMITS).unwrap().0;
        let reassigns = coordinator.due(&LIMITS).unwrap().0;
        assert!(stops < reassigns, "{stops:?} {reassigns:?}");
    }

    #[test]
    fn work_is_offered_only_where_both_hold_their_leases_and_the_link_is_up() {
        let good = CoordinatorView {
            link_down_since: None,
            node_key_gone: false,
            own_lease_valid_since: at(0),
            listening_since: Millis(0),
        };
        assert!(good.may_offer());
        assert!(!CoordinatorView { link_down_since: at(1), ..good }.may_offer());
        assert!(!CoordinatorView { node_key_gone: true, ..good }.may_offer());
        assert!(!CoordinatorView { own_lease_valid_since: None, ..good }.may_offer());
    }
}
