//! Starting a node and ending it. What its directories hold from before is read here, once, before
//! anything runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{EmployeeId, Incarnation, NodeId},
    team::{Backend, Team},
};
use ractor::{Actor, ActorRef};

use super::{Arguments, Hosted, Msg, Node, Parts};
use crate::{
    Coordinators, Error, Home, KeeperCommand, attempt::blocking, pool::Pool, recover, room::Room,
    store::Store,
};

/// How long after its time a drained node may still take to put away what its agents left.
const AFTER: Duration = Duration::from_secs(10);

/// What a node needs.
#[derive(Debug)]
pub struct Config {
    /// Its directories, whose locks are held.
    pub home: Home,
    /// How employees' agents run.
    pub team: Team,
    /// Checks that it runs at once.
    pub check_slots: u32,
    /// How to execute our own binary as a keeper.
    pub keeper: KeeperCommand,
    /// The length of a link's lease.
    pub link_ttl: Duration,
    /// The coordinators that there are; the node offers itself to each.
    pub coordinators: Coordinators,
}

/// The way to a running node. The node runs on when this is dropped.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    id: NodeId,
    incarnation: Incarnation,
    node: ActorRef<Msg>,
    home: Weak<Home>,
}

/// Starts a node: it takes over what its directories hold, dials the coordinators and offers itself.
/// Must be called within a tokio runtime; returns before there is a link.
///
/// # Errors
/// When a directory or an outbox can't be read or written.
pub async fn start(config: Config) -> Result<NodeHandle, Error> {
    let Config { home, team, check_slots, keeper, link_ttl, coordinators } = config;
    let home = Arc::new(home);
    let (id, held) = (home.id().clone(), Arc::downgrade(&home));
    let employees = able(&team);
    let slots = employees.values().map(Hosted::all_slots).fold(check_slots, u32::saturating_add);
    let arguments = blocking(move || {
        let pool = Pool::open(home.own().idle(), slots as usize, home.own().lock())?;
        take_over(home, Parts { coordinators, keeper, ttl: link_ttl, employees, check_slots, pool })
    });
    let arguments = arguments.await?;
    let incarnation = arguments.incarnation;
    let (node, _) = Actor::spawn(None, Node, arguments).await.map_err(|error| {
        tracing::error!(%error, "the node can't start");
        Error::Gone("it could not start")
    })?;
    Ok(NodeHandle { id, incarnation, node, home: held })
}

/// The employees whose agents can run here.
fn able(team: &Team) -> BTreeMap<EmployeeId, Hosted> {
    let able = team.employees.iter().filter_map(|one| match &one.backend {
        Some(Backend::Exec(exec)) if !exec.command.is_empty() => {
            let (instances, slots, keep_ignored) = (one.instances, one.slots, one.keep_ignored);
            Some((one.id.clone(), Hosted { exec: exec.clone(), instances, slots, keep_ignored }))
        }
        _ => None,
    });
    able.collect()
}

/// What an earlier process left: first the outboxes, then the attempts without an end in one.
fn take_over(home: Arc<Home>, parts: Parts) -> Result<Arguments, Error> {
    let incarnation = home.next_incarnation()?;
    let store = Store::open(&home.own().outbox())?;
    for held in home.adopted() {
        store.adopt(&Store::open(&held.outbox())?)?;
        Pool::clear(&held.idle())?;
    }
    let ended: BTreeMap<_, _> = store.all()?.into_iter().map(|kept| (kept.ended.key, kept.pushed)).collect();
    let epochs = store.epochs()?.into_iter().collect();
    let mut left = Vec::new();
    for (folder, mirrors) in home.attempts()? {
        match folder.read()? {
            Some(stored) if ended.contains_key(&stored.assign.key) => {}
            Some(stored) => left.push((stored, folder, mirrors)),
            None => drop(tokio::runtime::Handle::current().spawn(recover::clear(folder))),
        }
    }
    let room = Room::new(home.path());
    let short = room.make(&parts.pool);
    if let Some(why) = &short {
        tracing::warn!(why, "nothing new is begun here");
    }
    Ok(Arguments { home, incarnation, parts, ended, epochs, left, room, short })
}

impl NodeHandle {
    /// The node's id.
    #[must_use]
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// This start of it.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Ends the node in order: it takes nothing new, its agents are told to end and killed after
    /// `grace`, what they left is captured, kept, and told while there is a link. Ends at the latest
    /// ten seconds after `grace`; what could not be told by then stays on disk for the next start.
    pub async fn drain(&self, grace: Duration) {
        let drained = self.node.call(Msg::Drain, None);
        tokio::pin!(drained);
        if tokio::time::timeout(grace, &mut drained).await.is_err() {
            let _ = self.node.send_message(Msg::Hurry);
            let _ = tokio::time::timeout(AFTER, drained).await;
        }
        // One that has ended already is what is wanted.
        let _ = self.node.stop_and_wait(None, Some(AFTER)).await;
        self.released().await;
    }

    /// Ends the node at once; its agents are killed. What they left is captured by the next start.
    pub async fn kill(&self) {
        let _ = self.node.kill_and_wait(Some(AFTER)).await;
        self.released().await;
    }

    /// Waits until nothing of the node holds its directories any more, so that another may take them.
    async fn released(&self) {
        let deadline = Instant::now() + AFTER;
        while self.home.strong_count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the node has ended, by itself too: when a part of it fails again and again.
    pub async fn ended(&self) {
        // Fails only when it has ended.
        let _ = self.node.wait(None).await;
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::{
        ids::ProjectId,
        team::{Budget, CoordinatorSpec, Gate, PlanChecks},
    };

    use super::*;
    use crate::{Dial, one_coordinator};

    fn team() -> Team {
        Team {
            name: ProjectId::new("shop").unwrap(),
            description: String::new(),
            conventions: String::new(),
            coordinator: CoordinatorSpec::default(),
            employees: Vec::new(),
            teams: Vec::new(),
            checks: Vec::new(),
            gate: Gate::End,
            plan_checks: PlanChecks::Refuse,
            budget: Budget::default(),
            remote: None,
            has_collaboration: false,
        }
    }

    /// A node that reaches nobody.
    async fn lonely(data: &std::path::Path) -> NodeHandle {
        let config = Config {
            home: Home::open_free(data).unwrap(),
            team: team(),
            check_slots: 1,
            keeper: KeeperCommand { program: "false".into(), args: Vec::new() },
            link_ttl: Duration::from_secs(3),
            coordinators: one_coordinator(
                "nobody".parse().unwrap(),
                Dial::new(|| Box::pin(async { Err("nobody is there".into()) })),
            ),
        };
        start(config).await.unwrap()
    }

    async fn until(mut seen: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !seen() {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_part_that_fails_is_started_again() {
        let data = tempfile::tempdir().unwrap();
        let node = lonely(data.path()).await;
        // Outbox, checks, link.
        until(|| node.node.get_children().len() == 3).await;
        let before = node.node.get_children();
        for child in &before {
            child.kill();
        }
        let old: Vec<_> = before.iter().map(|child| child.get_id()).collect();
        until(|| {
            let now = node.node.get_children();
            now.len() == 3 && now.iter().all(|child| !old.contains(&child.get_id()))
        })
        .await;
        node.drain(Duration::from_secs(1)).await;
    }

    #[tokio::test]
    async fn a_part_that_fails_again_and_again_ends_the_node() {
        let data = tempfile::tempdir().unwrap();
        let node = lonely(data.path()).await;
        let killing = async {
            loop {
                node.node.get_children().first().inspect(|child| child.kill());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), node.ended());
        tokio::select! {
            () = killing => {}
            ended = ended => ended.unwrap(),
        }
    }

    #[tokio::test]
    async fn a_drained_node_leaves_its_directory_free() {
        let data = tempfile::tempdir().unwrap();
        let node = lonely(data.path()).await;
        assert_ne!(Home::open_free(data.path()).unwrap().id(), node.id());
        node.drain(Duration::from_secs(1)).await;
        assert_eq!(Home::open_free(data.path()).unwrap().id(), node.id());
    }
}
