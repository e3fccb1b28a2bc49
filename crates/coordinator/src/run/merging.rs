//! The duties of the repository: merge commits, and moves of the run branch.

use ensemble_core::{
    run::{Duty, Fact, state::Stage},
    team::Gate,
};
use ensemble_workspace::MergeNote;
use ractor::ActorProcessingErr;

use super::{Msg, REPOSITORY_TRIES, Shell};
use crate::{
    Error,
    repository::{MergeOrder, Merged},
};

impl Shell {
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
        let gated = submitted.gate == Gate::Each && !submitted.checks.is_empty();
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
        let gated = self
            .core
            .submitted
            .as_ref()
            .is_some_and(|submitted| submitted.gate == Gate::Each && !submitted.checks.is_empty());
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
