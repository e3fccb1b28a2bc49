//! Acting on duties: those that appear are begun, those that vanish are abandoned. Doing one twice is
//! harmless, so nothing here needs to know what was done before a crash.

use ensemble_core::{
    brief,
    ids::Seq,
    link::AttemptKey,
    message::{Assign, Inventory, ToNode, What, Work},
    placement::Want,
    run::{
        Changes, Duty, Fact, State,
        fact::{CheckOf, LossCause},
        state::{CheckState, Stage},
    },
    text::Text,
};
use ensemble_workspace::MergeNote;
use ractor::ActorProcessingErr;

use super::{
    Msg, REPOSITORY_TRIES, Shell,
    desk::{Live, Named, named},
    inputs::lost,
    load,
};
use crate::{
    Error,
    link::LinkHandle,
    repository::{MergeOrder, Merged},
    workforce::{self, SlotKey, SlotUse},
};

/// What `key` is wanted for, while it is.
pub fn wanted(state: &State, key: &SlotKey) -> Option<(SlotKey, Want)> {
    let duty = state.duties().find(|duty| slot_key(state, duty).as_ref() == Some(key))?;
    want(state, duty)
}

fn want(state: &State, duty: &Duty) -> Option<(SlotKey, Want)> {
    let (what, want) = match duty {
        Duty::Grant { task, attempt } => {
            let employees = state.eligible(state.task(*task)).map(|member| member.employee.clone()).collect();
            (SlotUse::Attempt(*task, *attempt), Want::Employee(employees))
        }
        Duty::GrantCheck { of, command, attempt } => {
            (SlotUse::Check(of.clone(), *command, *attempt), Want::Check)
        }
        _ => return None,
    };
    Some((SlotKey { run: state.run, what }, want))
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
            Duty::Grant { .. } | Duty::GrantCheck { .. } => {
                if let Some((key, want)) = want(&self.core, duty) {
                    self.workforce.tell(workforce::Msg::Wanted(key, want, self.me.clone()));
                }
            }
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
                self.push(lost(&named.key, cause));
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

    /// Sends an attempt or a check to its node. Sending it twice is harmless.
    fn assign(&mut self, duty: &Duty) {
        let Some(named) = named(&self.core, duty) else { return };
        let Some(link) = self.desk.links.get(&named.place.node).cloned() else { return };
        match duty {
            Duty::Attempt { task, .. } => {
                let blobs = brief::blobs(&self.core, self.core.task(*task));
                if blobs.is_empty() {
                    if let Some(assign) = self.work(&named.key, *task, &|text: &Text| text.head().to_owned())
                    {
                        link.send(ToNode::Assign(Box::new(assign)));
                    }
                    return;
                }
                self.brief_with(link, named.key, *task, blobs);
            }
            Duty::Check { of, .. } => {
                if let Some(assign) = self.check(&named.key, of) {
                    link.send(ToNode::Assign(Box::new(assign)));
                }
            }
            _ => {}
        }
    }

    /// What a node is told of a task.
    pub fn work(
        &self,
        key: &AttemptKey,
        task: ensemble_core::run::state::TaskIx,
        resolve: &dyn Fn(&Text) -> String,
    ) -> Option<Assign> {
        let task = self.core.task(task);
        let dispatch = &task.attempt.as_ref()?.dispatch;
        let voice = self.voices.get(&dispatch.employee).cloned().unwrap_or_default();
        let brief = brief::write(&self.core, task, &voice, resolve);
        let what = What::Work(Work {
            employee: dispatch.employee.clone(),
            title: task.spec.label().to_owned(),
            brief: brief.text,
            context: brief.context,
            worktree: task.spec.worktree,
            outputs: task.spec.outputs.clone(),
        });
        self.assignment(key, dispatch.timeout_ms, dispatch.base.clone(), what)
    }

    fn check(&self, key: &AttemptKey, of: &CheckOf) -> Option<Assign> {
        let checks = self.core.checks(of)?;
        let one = checks
            .each
            .iter()
            .find(|one| matches!(&one.state, CheckState::Live { token, .. } if *token == key.token))?;
        let what = What::Check { command: one.command.clone() };
        let timeout_ms = ensemble_core::team::DEFAULT_TIMEOUT_MS;
        self.assignment(key, timeout_ms, checks.commit.clone(), what)
    }

    fn assignment(
        &self,
        key: &AttemptKey,
        timeout_ms: u64,
        base: ensemble_core::ids::CommitId,
        what: What,
    ) -> Option<Assign> {
        Some(Assign {
            key: key.clone(),
            epoch: self.epoch,
            timeout_ms,
            repository: self.core.submitted.as_ref()?.repository.clone(),
            base,
            traceparent: ensemble_telemetry::traceparent(key.run, key.token),
            what,
        })
    }

    /// Performs a duty of the repository, for the `tries`-th time again.
    pub fn repeat(&mut self, duty: &Duty, tries: u32) {
        if !self.core.duties().any(|open| open == duty) {
            return;
        }
        let (me, repository, again) = (self.me.clone(), self.repository.clone(), duty.clone());
        let branch = format!("refs/heads/{}", self.core.branch());
        match duty {
            Duty::Merge { .. } => {
                let Some(order) = self.merge_order(duty, branch) else { return };
                tokio::spawn(async move {
                    let result = repository.merge(order).await;
                    me.tell(Msg::Merged(again, tries, result));
                });
            }
            Duty::Advance { ours, commit, .. } => {
                let (ours, commit) = (ours.clone(), commit.clone());
                tokio::spawn(async move {
                    let result = repository.advance(branch, ours, commit).await;
                    me.tell(Msg::Advanced(again, tries, result));
                });
            }
            _ => {}
        }
    }

    fn merge_order(&self, duty: &Duty, branch: String) -> Option<MergeOrder> {
        let Duty::Merge { task, attempt, ours, theirs } = duty else { return None };
        let one = self.core.task(*task);
        let dispatch = &one.attempt.as_ref()?.dispatch;
        let submitted = self.core.submitted.as_ref()?;
        let gated = submitted.gate == ensemble_core::team::Gate::Each && !submitted.checks.is_empty();
        Some(MergeOrder {
            branch,
            ours: ours.clone(),
            theirs: theirs.clone(),
            base: dispatch.base.clone(),
            note: MergeNote {
                subject: format!("Merge {}: {}", one.spec.id, one.spec.label()),
                body: String::new(),
                trailers: vec![
                    ("Ensemble-Run".to_owned(), self.run().to_string()),
                    ("Ensemble-Task".to_owned(), one.spec.id.to_string()),
                    ("Ensemble-Attempt".to_owned(), attempt.to_string()),
                ],
                author_name: "Ensemble".to_owned(),
                author_email: "coordinator@ensemble.localhost".to_owned(),
                // When the task began to wait for its merge: the same after every replay.
                time_ms: one.changed_ms,
            },
            advance: !gated,
        })
    }

    /// What came of a merge becomes a fact.
    pub fn merged(
        &mut self,
        duty: Duty,
        tries: u32,
        result: Result<Merged, Error>,
    ) -> Result<(), ActorProcessingErr> {
        let Duty::Merge { task, attempt, .. } = &duty else { return Ok(()) };
        let (task, attempt) = (self.core.task(*task).spec.id.clone(), *attempt);
        let gated = self.core.submitted.as_ref().is_some_and(|submitted| {
            submitted.gate == ensemble_core::team::Gate::Each && !submitted.checks.is_empty()
        });
        match result {
            Ok(Merged::Clean { commit, changes }) if gated => {
                self.push(Fact::Prepared { task, attempt, commit, changes });
            }
            Ok(Merged::Clean { commit, changes }) => {
                self.push(Fact::Merged { task, attempt, commit, changes })
            }
            Ok(Merged::Conflict(files)) => self.push(Fact::Conflicted { task, attempt, files }),
            Err(error) => self.try_again(duty, tries, error)?,
        }
        Ok(())
    }

    /// The branch stands at the checked merge commit.
    pub fn advanced(
        &mut self,
        duty: Duty,
        tries: u32,
        result: Result<(), Error>,
    ) -> Result<(), ActorProcessingErr> {
        let Duty::Advance { task, attempt, commit, .. } = &duty else { return Ok(()) };
        let one = self.core.task(*task);
        let prepared = one.attempt.as_ref().and_then(|attempt| match &attempt.stage {
            Stage::Advancing(_, prepared) => Some(prepared.changes.clone()),
            _ => None,
        });
        let (task, attempt, commit) = (one.spec.id.clone(), *attempt, commit.clone());
        match (result, prepared) {
            (Ok(()), Some(changes)) => self.push(Fact::Merged { task, attempt, commit, changes }),
            (Ok(()), None) => {}
            (Err(error), _) => self.try_again(duty, tries, error)?,
        }
        Ok(())
    }

    fn try_again(&mut self, duty: Duty, tries: u32, error: Error) -> Result<(), ActorProcessingErr> {
        tracing::warn!(%error, tries, "the repository failed");
        if tries + 1 >= REPOSITORY_TRIES {
            return Err(error.into());
        }
        self.later(Msg::Repeat(duty, tries + 1));
        Ok(())
    }
}

impl Shell {
    /// Reads the blobs that a brief shows, then writes and sends it.
    fn brief_with(
        &self,
        link: LinkHandle,
        key: AttemptKey,
        task: ensemble_core::run::state::TaskIx,
        blobs: std::collections::BTreeSet<ensemble_core::ids::BlobId>,
    ) {
        // The brief is written from the state as it is now; only the blobs are awaited.
        let unresolved = |text: &Text| match text {
            Text::Inline(text) => text.clone(),
            Text::Blob { blob, .. } => placeholder(blob),
        };
        let Some(assign) = self.work(&key, task, &unresolved) else { return };
        let (journal, me) = (self.journal.clone(), self.me.clone());
        tokio::spawn(async move {
            let mut assign = assign;
            for blob in blobs {
                match load::blob_text(&journal, &blob).await {
                    Ok(text) => fill(&mut assign, &blob, &text.unwrap_or_default()),
                    Err(error) => tracing::warn!(%error, "a text of a brief can't be read"),
                }
            }
            me.tell(Msg::Briefed(link, Box::new(assign)));
        });
    }
}

/// Stands for a text that is being read. Nothing that people write holds a control character there.
fn placeholder(blob: &ensemble_core::ids::BlobId) -> String {
    format!("\u{1}{blob}\u{1}")
}

fn fill(assign: &mut Assign, blob: &ensemble_core::ids::BlobId, text: &str) {
    let What::Work(work) = &mut assign.what else { return };
    work.brief = work.brief.replace(&placeholder(blob), text);
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inner = quoted.trim_matches('"');
    let escaped = serde_json::to_string(&placeholder(blob)).unwrap_or_default();
    work.context = work.context.replace(escaped.trim_matches('"'), inner);
}
