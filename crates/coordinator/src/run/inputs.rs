//! What becomes a fact, and what follows once it is one, or is refused.

use ensemble_core::{
    brief::handed,
    ids::Seq,
    link::AttemptKey,
    message::{Ended, How, ToCoordinator, ToNode},
    placement::{Grant, Slot, SlotUse},
    run::{
        Duty, Fact, Refusal, State,
        fact::{AttemptRef, CheckOf, CheckRef, Dispatch, LossCause},
    },
    text::clip,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{Msg, Shell, desk::Live, settle};
use crate::{Error, link::LinkHandle, workforce};

/// Something that may become a fact.
pub enum Input {
    /// A fact as it stands.
    Fact(Box<Fact>, After),
    /// A slot: what is dispatched into it depends on the state at that moment.
    Grant(Box<Grant>, LinkHandle),
}

/// What follows once a fact is durable, or refused.
pub enum After {
    /// Nothing.
    Nothing,
    /// Somebody waits for the answer.
    Reply(oneshot::Sender<Result<Seq, Error>>),
    /// The node may forget the end of an attempt. The permit frees a place on its link.
    Receipt(LinkHandle, AttemptKey, Option<OwnedSemaphorePermit>),
    /// The slot is taken, or free again.
    Slot(Box<Grant>, LinkHandle),
}

impl Input {
    pub fn into_fact(self, state: &State) -> (Result<Fact, Refusal>, After) {
        match self {
            Self::Fact(fact, after) => (Ok(*fact), after),
            Self::Grant(grant, link) => {
                let fact = dispatch(state, &grant).ok_or(Refusal::Stale);
                (fact, After::Slot(grant, link))
            }
        }
    }
}

/// The fact that puts a granted slot to use.
fn dispatch(state: &State, grant: &Grant) -> Option<Fact> {
    let place = grant.place.clone();
    match (&grant.key.what, &grant.slot) {
        (SlotUse::Attempt(task, attempt), Slot::Employee(employee)) => {
            let task = state.task(*task);
            let member = state.eligible(task).find(|member| member.employee == *employee)?;
            Some(Fact::Dispatched(Box::new(Dispatch {
                task: task.spec.id.clone(),
                attempt: *attempt,
                employee: employee.clone(),
                place,
                base: state.head.clone()?,
                timeout_ms: State::timeout_ms(task, member),
                context: handed(state, task),
            })))
        }
        (SlotUse::Check(of, command, _), Slot::Check) => {
            let checks = state.checks(of)?;
            let (check, commit) = (checks.last.next(), checks.commit.clone());
            Some(Fact::CheckDispatched { of: of.clone(), check, command: *command, commit, place })
        }
        _ => None,
    }
}

impl Shell {
    /// Takes in what somebody said.
    pub fn take(&mut self, msg: Msg) {
        match msg {
            Msg::Propose(fact, reply) => self.queue.push_back(Input::Fact(fact, After::Reply(reply))),
            Msg::Granted(grant, link) => self.queue.push_back(Input::Grant(Box::new(grant), link)),
            Msg::LinkUp(link) | Msg::Unprepared(link) => self.greet(link),
            Msg::Briefed(link, key, task, texts) => self.briefed(&link, &key, task, &texts),
            Msg::Node(link, body, permit) => self.hear(link, body, permit),
            Msg::Prepared(link, ended, log, permit) => {
                let key = ended.key.clone();
                let fact = ended_fact(*ended, log);
                self.queue.push_back(Input::Fact(Box::new(fact), After::Receipt(link, key, permit)));
            }
            _ => {}
        }
    }

    fn hear(&mut self, link: LinkHandle, body: ToCoordinator, permit: Option<OwnedSemaphorePermit>) {
        match body {
            ToCoordinator::Started(key) => {
                if let (None, Some(at)) = (key.check, attempt_ref(&key)) {
                    self.push(Fact::Started { at });
                }
            }
            ToCoordinator::Refused { key, reason } => {
                if let Some(live) = self.desk.live.get_mut(&key.token) {
                    live.reported = true;
                }
                match (key.check, attempt_ref(&key)) {
                    (None, Some(at)) => self.push(Fact::Refused { at, reason }),
                    _ => self.push(lost(&key, LossCause::Refused, reason)),
                }
            }
            ToCoordinator::Inventory(inventory) => self.adopt(&link, &inventory),
            ToCoordinator::Ended(ended) => self.prepare(link, *ended, permit),
            ToCoordinator::Slots { .. } => {}
        }
    }

    pub fn push(&mut self, fact: Fact) {
        self.queue.push_back(Input::Fact(Box::new(fact), After::Nothing));
    }

    /// Answers, acknowledges and takes slots, now that the facts are durable or refused.
    pub fn conclude(&mut self, outcomes: Vec<(After, Result<Seq, Refusal>)>) {
        for (after, outcome) in outcomes {
            match after {
                After::Nothing => {}
                After::Reply(reply) => drop(reply.send(outcome.map_err(Error::Refused))),
                After::Receipt(link, key, _permit) => {
                    fail::fail_point!("coordinator.receipt");
                    if let Some(live) = self.desk.live.get_mut(&key.token) {
                        live.reported = true;
                    }
                    // A refused end is settled too: it was stored before, or nobody waits for it.
                    link.send(ToNode::Receipt(key));
                    fail::fail_point!("coordinator.receipt.done");
                }
                After::Slot(grant, link) => self.take_slot(*grant, link, outcome),
            }
        }
    }

    fn take_slot(&mut self, grant: Grant, link: LinkHandle, outcome: Result<Seq, Refusal>) {
        let Ok(token) = outcome else {
            self.workforce.tell(workforce::Msg::Freed(grant.key.clone()));
            if let Some(want) = settle::wanted(&self.core, &grant.key) {
                self.workforce.tell(workforce::Msg::Wanted(vec![want], self.me.clone()));
            }
            return;
        };
        self.desk.links.insert(grant.place.node.clone(), link);
        if let Some(key) = self.key_of(token) {
            self.desk.live.insert(token, Live { key, slot: grant.key, reported: false });
        } else {
            // It came and went within one batch.
            self.workforce.tell(workforce::Msg::Freed(grant.key));
        }
    }

    fn key_of(&self, token: Seq) -> Option<AttemptKey> {
        self.core
            .duties()
            .filter(|duty| match duty {
                Duty::Attempt { token: t, .. }
                | Duty::Stop { token: t, .. }
                | Duty::Check { token: t, .. } => *t == token,
                _ => false,
            })
            .find_map(|duty| super::desk::named(&self.core, duty))
            .map(|named| named.key)
    }
}

/// Longest reason of a loss that is journalled, in bytes: a sentence for people.
const REASON: usize = 1024;

/// The fact that an end becomes.
fn ended_fact(ended: Ended, log: Option<ensemble_core::ids::BlobId>) -> Fact {
    let key = ended.key;
    match (ended.how, attempt_ref(&key)) {
        (How::Report(mut report), Some(at)) if key.check.is_none() => {
            report.log = log;
            Fact::Reported { at, report: Box::new(report) }
        }
        (How::Lost { cause, capture, reason }, Some(at)) if key.check.is_none() => {
            Fact::Lost { at, cause, capture, reason: clip(&reason, REASON).to_owned() }
        }
        (How::Check { passed, ended, output }, _) => {
            Fact::CheckReported { at: check_ref(&key), passed, ended, output }
        }
        (How::Lost { cause, reason, .. }, _) => {
            Fact::CheckLost { at: check_ref(&key), cause, reason: clip(&reason, REASON).to_owned() }
        }
        // A node that reports a check as an attempt speaks of nothing that exists: refused as stale.
        (How::Report(_), _) => lost(&key, LossCause::Environment, ""),
    }
}

pub fn attempt_ref(key: &AttemptKey) -> Option<AttemptRef> {
    Some(AttemptRef { task: key.task.clone()?, attempt: key.attempt, token: key.token })
}

/// The fact that an attempt or a check is lost, with nothing to show for it.
pub fn lost(key: &AttemptKey, cause: LossCause, reason: impl Into<String>) -> Fact {
    let reason = reason.into();
    match (key.check, attempt_ref(key)) {
        (None, Some(at)) => Fact::Lost { at, cause, capture: None, reason },
        _ => Fact::CheckLost { at: check_ref(key), cause, reason },
    }
}

pub fn check_ref(key: &AttemptKey) -> CheckRef {
    let of = CheckOf { task: key.task.clone(), attempt: key.attempt };
    CheckRef { of, check: key.check.unwrap_or_default(), token: key.token }
}
