//! Adoption: what becomes of attempts when a node attaches and says what it has. Both sides' words
//! are compared; nothing is decided from silence alone. Not here: how they are told, and what the
//! loss of an attempt means to its run.

use std::collections::{BTreeMap, BTreeSet};

use super::AttachError;
use crate::ids::{AttemptNumber, CheckNumber, Incarnation, RunId, Seq, TaskId};

/// One attempt of any run, named so that a stale word about it is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    /// Its run.
    pub run: RunId,
    /// Its task; `None`: a check of the run's merged tree.
    pub task: Option<TaskId>,
    /// The number of the try; for a check that of the attempt it tests.
    pub attempt: AttemptNumber,
    /// The check's number, if it is one.
    pub check: Option<CheckNumber>,
    /// Sequence of the fact that dispatched it.
    pub token: Seq,
}

/// What a coordinator believes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The runs it owns. Of others it knows nothing, so it leaves their attempts alone.
    pub runs: BTreeSet<RunId>,
    /// Attempts it believes live on the node, each with the start of the node that it was
    /// dispatched to (its dispatch fact names it).
    pub live: BTreeMap<AttemptKey, Incarnation>,
    /// The latest start of the node that has attached, if any has.
    pub seen: Option<Incarnation>,
}

/// What a node says when it attaches, or of one run when that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// This start of it.
    pub incarnation: Incarnation,
    /// Attempts whose agents run.
    pub running: BTreeSet<AttemptKey>,
    /// Attempts that ended and whose report is in the outbox.
    pub ended: BTreeSet<AttemptKey>,
}

/// What follows, attempt by attempt. No attempt is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Live on both sides: they go on.
    pub adopted: BTreeSet<AttemptKey>,
    /// Ended, and the report is on its way: wait for it, don't dispatch again.
    pub awaiting_report: BTreeSet<AttemptKey>,
    /// Dispatched to an earlier start and not named by this one: lost at once.
    pub lost: BTreeSet<AttemptKey>,
    /// Dispatched to this very start, which doesn't name them: the assignment, or the word that it
    /// was refused, has not arrived yet. Assign again; the node takes the same token once.
    pub in_transit: BTreeSet<AttemptKey>,
    /// Running, but no longer wanted by the run's owner: tell the node to stop them. (A report of an
    /// attempt that is no longer wanted needs nothing: it comes, is recorded, and acknowledged.)
    pub unknown_to_us: BTreeSet<AttemptKey>,
}

/// Compares what the coordinator believes with what the node says.
///
/// After a run was taken over, use the node's answer to the claim, not its first frame: with that
/// answer it has taken note of the new epoch, and refuses what its former owner may still send.
///
/// # Errors
/// [`AttachError::Superseded`] when a later start of the node is known: this one is a remnant whose
/// attempts were already judged.
pub fn adopt(expectation: &Expectation, arrival: &Arrival) -> Result<Adoption, AttachError> {
    let from = arrival.incarnation;
    let latest = expectation.live.values().copied().chain(expectation.seen).max();
    if let Some(known) = latest.filter(|known| from < *known) {
        return Err(AttachError::Superseded { from, known });
    }
    let mut adoption = Adoption::default();
    for (key, dispatched_to) in &expectation.live {
        // Ended beats running: the node writes the report before it forgets the agent.
        let set = if arrival.ended.contains(key) {
            &mut adoption.awaiting_report
        } else if arrival.running.contains(key) {
            &mut adoption.adopted
        } else if *dispatched_to < from {
            &mut adoption.lost
        } else {
            &mut adoption.in_transit
        };
        set.insert(key.clone());
    }
    adoption.unknown_to_us = arrival
        .running
        .difference(&arrival.ended)
        .filter(|key| expectation.runs.contains(&key.run) && !expectation.live.contains_key(key))
        .cloned()
        .collect();
    Ok(adoption)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u64 = 1;
    const OTHERS: u64 = 2;

    fn key(run: u64, task: &str, token: u64) -> AttemptKey {
        AttemptKey {
            run: RunId::from_parts(run, 0),
            task: Some(TaskId::new(task).unwrap()),
            attempt: AttemptNumber(1),
            check: None,
            token: Seq(token),
        }
    }

    fn believed(live: &[(AttemptKey, u64)], seen: Option<u64>) -> Expectation {
        Expectation {
            runs: BTreeSet::from([RunId::from_parts(OURS, 0)]),
            live: live.iter().map(|(key, start)| (key.clone(), Incarnation(*start))).collect(),
            seen: seen.map(Incarnation),
        }
    }

    fn said(start: u64, running: &[AttemptKey], ended: &[AttemptKey]) -> Arrival {
        Arrival {
            incarnation: Incarnation(start),
            running: running.iter().cloned().collect(),
            ended: ended.iter().cloned().collect(),
        }
    }

    fn set(keys: &[AttemptKey]) -> BTreeSet<AttemptKey> {
        keys.iter().cloned().collect()
    }

    #[test]
    fn what_both_sides_name_goes_on() {
        let (a, b) = (key(OURS, "a", 1), key(OURS, "b", 2));
        let adoption = adopt(
            &believed(&[(a.clone(), 5), (b.clone(), 5)], Some(5)),
            &said(5, std::slice::from_ref(&a), std::slice::from_ref(&b)),
        )
        .unwrap();
        let expected = Adoption { adopted: set(&[a]), awaiting_report: set(&[b]), ..Adoption::default() };
        assert_eq!(adoption, expected);
    }

    #[test]
    fn a_later_start_that_does_not_name_an_attempt_has_lost_it() {
        let (named, silent, reported) = (key(OURS, "a", 1), key(OURS, "b", 2), key(OURS, "c", 3));
        let live = [(named.clone(), 5), (silent.clone(), 5), (reported.clone(), 5)];
        // Also when this coordinator has never seen the node: the dispatch facts name the start.
        for seen in [Some(5), None] {
            let arrival = said(6, std::slice::from_ref(&named), std::slice::from_ref(&reported));
            let adoption = adopt(&believed(&live, seen), &arrival).unwrap();
            let expected = Adoption {
                adopted: set(std::slice::from_ref(&named)),
                awaiting_report: set(std::slice::from_ref(&reported)),
                lost: set(std::slice::from_ref(&silent)),
                ..Adoption::default()
            };
            assert_eq!(adoption, expected);
        }
    }

    #[test]
    fn the_same_start_that_does_not_name_an_attempt_has_not_heard_of_it_yet() {
        let (old, new) = (key(OURS, "a", 1), key(OURS, "b", 9));
        let adoption =
            adopt(&believed(&[(old.clone(), 5), (new.clone(), 6)], Some(6)), &said(6, &[], &[])).unwrap();
        assert_eq!(adoption, Adoption { lost: set(&[old]), in_transit: set(&[new]), ..Adoption::default() });
    }

    #[test]
    fn agents_that_nobody_wants_are_stopped_but_only_of_runs_we_own() {
        let (stale, current) = (key(OURS, "a", 1), key(OURS, "a", 7));
        let (foreign, late) = (key(OTHERS, "a", 1), key(OURS, "b", 3));
        let adoption = adopt(
            &believed(&[(current.clone(), 5)], Some(5)),
            &said(5, &[stale.clone(), foreign], std::slice::from_ref(&late)),
        )
        .unwrap();
        // The same task and number under an older token is another attempt.
        assert_eq!(adoption.unknown_to_us, set(&[stale]));
        assert_eq!(adoption.in_transit, set(&[current]));
        assert!(adoption.awaiting_report.is_empty(), "a report nobody waits for is only received");
    }

    #[test]
    fn an_attempt_named_as_running_and_as_ended_has_ended() {
        let (live, gone) = (key(OURS, "a", 1), key(OURS, "b", 2));
        let both = [live.clone(), gone];
        let adoption = adopt(&believed(&[(live.clone(), 5)], Some(5)), &said(5, &both, &both)).unwrap();
        assert_eq!(adoption, Adoption { awaiting_report: set(&[live]), ..Adoption::default() });
    }

    #[test]
    fn a_remnant_of_an_earlier_start_is_refused() {
        let a = key(OURS, "a", 1);
        let superseded = AttachError::Superseded { from: Incarnation(4), known: Incarnation(5) };
        for expectation in [believed(&[], Some(5)), believed(&[(a.clone(), 5)], None)] {
            assert_eq!(adopt(&expectation, &said(4, std::slice::from_ref(&a), &[])), Err(superseded));
        }
    }

    #[test]
    fn a_check_is_not_the_attempt_that_it_tests() {
        let attempt = key(OURS, "a", 1);
        let check = AttemptKey { check: Some(CheckNumber(1)), token: Seq(2), ..attempt.clone() };
        let adoption =
            adopt(&believed(&[(check.clone(), 5)], None), &said(6, std::slice::from_ref(&attempt), &[]))
                .unwrap();
        assert_eq!(
            adoption,
            Adoption { lost: set(&[check]), unknown_to_us: set(&[attempt]), ..Adoption::default() }
        );
    }
}
