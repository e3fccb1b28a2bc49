//! The desk of a run: which duties are being performed, and with whom. It is rebuilt from nothing
//! after a crash; nothing that matters lives only here.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{NodeId, RunId, Seq},
    link::AttemptKey,
    placement::{Slot, SlotKey, SlotUse},
    run::{
        Duty, State,
        fact::{CheckOf, Place},
        state::CheckState,
    },
};

use crate::link::LinkHandle;

/// An attempt or a check that a node of this session has, or will have.
#[derive(Clone, Debug)]
pub struct Live {
    /// As nodes call it.
    pub key: AttemptKey,
    /// Its slot.
    pub slot: SlotKey,
    /// Whether its node has said that it is over.
    pub reported: bool,
}

/// Which duties are being performed.
#[derive(Debug, Default)]
pub struct Desk {
    /// By token.
    pub live: BTreeMap<Seq, Live>,
    /// The links to the nodes.
    pub links: BTreeMap<NodeId, LinkHandle>,
}

/// An attempt or a check as a duty names it, with what a node needs to be told.
#[derive(Clone, Debug)]
pub struct Named {
    /// As nodes call it.
    pub key: AttemptKey,
    /// Its slot.
    pub use_: SlotUse,
    /// Which kind of slot.
    pub slot: Slot,
    /// Where it was dispatched to.
    pub place: Place,
}

/// What `duty` is about, if it is an attempt or a check that a node has.
pub fn named(state: &State, duty: &Duty) -> Option<Named> {
    match duty {
        Duty::Attempt { task, attempt, token } | Duty::Stop { task, attempt, token } => {
            let one = state.task(*task);
            let dispatch = &one.attempt.as_ref()?.dispatch;
            Some(Named {
                key: AttemptKey {
                    run: state.run,
                    task: Some(one.spec.id.clone()),
                    attempt: *attempt,
                    check: None,
                    token: *token,
                },
                use_: SlotUse::Attempt(*task, *attempt),
                slot: Slot::Employee(dispatch.employee.clone()),
                place: dispatch.place.clone(),
            })
        }
        Duty::Check { of, check, token } => {
            let checks = state.checks(of)?;
            let (command, one) = (0_u32..)
                .zip(&checks.each)
                .find(|(_, one)| matches!(&one.state, CheckState::Live { number, .. } if number == check))?;
            let CheckState::Live { place, .. } = &one.state else { return None };
            Some(Named {
                key: check_key(state.run, of, *check, *token),
                use_: SlotUse::Check(of.clone(), command, one.tries),
                slot: Slot::Check,
                place: place.clone(),
            })
        }
        _ => None,
    }
}

/// The key of a check.
pub fn check_key(run: RunId, of: &CheckOf, check: ensemble_core::ids::CheckNumber, token: Seq) -> AttemptKey {
    AttemptKey { run, task: of.task.clone(), attempt: of.attempt, check: Some(check), token }
}
