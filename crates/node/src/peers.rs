//! The coordinators that a node knows: how it reaches each, and which of them owns which run. Bulk is
//! carried to whoever owns the run at that moment, so a transfer outlives a change of owner. The
//! links to them are actors of their own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ensemble_core::ids::{CoordinatorId, RunId};
use tokio::sync::watch;

use crate::Dial;

/// The coordinators that there are, each with how it is reached; they may come and go.
pub type Coordinators = watch::Receiver<BTreeMap<CoordinatorId, Dial>>;

/// One coordinator, which stays.
#[must_use]
pub fn one_coordinator(coordinator: CoordinatorId, dial: Dial) -> Coordinators {
    watch::channel(BTreeMap::from([(coordinator, dial)])).1
}

/// What is known of them. Only the node changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    dials: BTreeMap<CoordinatorId, Dial>,
    owners: BTreeMap<RunId, CoordinatorId>,
}

impl Peers {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing here is ever half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are there now, and no others.
    pub(crate) fn set(&self, dials: BTreeMap<CoordinatorId, Dial>) {
        self.known().dials = dials;
    }

    /// Whether a coordinator is there.
    pub(crate) fn knows(&self, coordinator: &CoordinatorId) -> bool {
        self.known().dials.contains_key(coordinator)
    }

    /// A coordinator owns a run.
    pub(crate) fn own(&self, run: RunId, coordinator: CoordinatorId) {
        self.known().owners.insert(run, coordinator);
    }

    /// A coordinator owns nothing until it claims it.
    pub(crate) fn disown(&self, coordinator: &CoordinatorId) {
        self.known().owners.retain(|_, owner| owner != coordinator);
    }

    /// Who owns a run.
    pub(crate) fn owner(&self, run: RunId) -> Option<CoordinatorId> {
        self.known().owners.get(&run).cloned()
    }

    /// Connections to whoever owns the run when each is made.
    pub(crate) fn dial(&self, run: RunId) -> Dial {
        let peers = self.clone();
        Dial::new(move || {
            let known = peers.known();
            let owner = known.owners.get(&run).and_then(|owner| known.dials.get(owner)).cloned();
            Box::pin(async move {
                match owner {
                    Some(dial) => dial.make().await,
                    None => Err("no coordinator that can be reached owns the run".into()),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusing(why: &'static str) -> Dial {
        Dial::new(move || Box::pin(async move { Err(why.into()) }))
    }

    #[tokio::test]
    async fn bulk_goes_to_whoever_owns_the_run_now() {
        let peers = Peers::default();
        let (run, [one, two]) = (RunId::from_parts(1, 1), ["one", "two"].map(|id| id.parse().unwrap()));
        let said = async || peers.dial(run).make().await.unwrap_err().to_string();
        assert!(said().await.contains("no coordinator"));
        let dials = [(one, refusing("first")), (two, refusing("second"))];
        let [(one, _), (two, _)] = dials.clone();
        peers.set(BTreeMap::from(dials));
        peers.own(run, one.clone());
        assert_eq!(said().await, "first");
        peers.own(run, two.clone());
        assert_eq!(said().await, "second");
        peers.disown(&one);
        assert_eq!(peers.owner(run), Some(two.clone()));
        peers.disown(&two);
        assert_eq!(peers.owner(run), None);
        assert!(said().await.contains("no coordinator"));
    }
}
