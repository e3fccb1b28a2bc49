//! Telling nodes what to do: the brief of a task, the command of a check.

use std::collections::{BTreeMap, BTreeSet};

use ensemble_core::{
    brief,
    ids::{BlobId, CommitId},
    link::AttemptKey,
    message::{Assign, ToNode, What, Work},
    run::{
        Duty,
        fact::{CheckOf, LossCause},
        state::{CheckState, TaskIx, attempt_ref},
    },
    team::DEFAULT_TIMEOUT_MS,
    text::Text,
};

use super::{Msg, Shell, desk::named, inputs::lost, load};
use crate::link::LinkHandle;

impl Shell {
    /// Sends an attempt or a check to its node. Sending it twice is harmless.
    pub fn assign(&mut self, duty: &Duty) {
        let Some(named) = named(&self.core, duty) else { return };
        let Some(link) = self.desk.links.get(&named.place.node).cloned() else { return };
        match duty {
            Duty::Attempt { task, .. } => {
                let blobs = brief::blobs(&self.core, self.core.task(*task));
                if blobs.is_empty() {
                    if let Some(assign) = self.work(&named.key, *task, &|text: &Text| text.head().to_owned())
                    {
                        self.hand_over(&link, assign);
                    }
                    return;
                }
                self.brief_with(link, named.key, *task, blobs);
            }
            Duty::Check { of, .. } => {
                if let Some(assign) = self.check(&named.key, of) {
                    self.hand_over(&link, assign);
                }
            }
            _ => {}
        }
    }

    /// What a node is told of a task.
    fn work(&self, key: &AttemptKey, task: TaskIx, resolve: &dyn Fn(&Text) -> String) -> Option<Assign> {
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
            previous: task.previous.as_ref().and_then(|previous| {
                let name = attempt_ref(self.run(), &task.spec.id, previous.attempt);
                Some((name, previous.capture.as_ref()?.commit.clone()))
            }),
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
        let timeout_ms = DEFAULT_TIMEOUT_MS;
        self.assignment(key, timeout_ms, checks.commit.clone(), what)
    }

    fn assignment(&self, key: &AttemptKey, timeout_ms: u64, base: CommitId, what: What) -> Option<Assign> {
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

    /// Reads the blobs that a brief shows; it is written once they are there, so that its bounds hold for the whole.
    fn brief_with(&self, link: LinkHandle, key: AttemptKey, task: TaskIx, blobs: BTreeSet<BlobId>) {
        let (journal, me) = (self.journal.clone(), self.me.clone());
        tokio::spawn(async move {
            let mut texts = BTreeMap::new();
            for blob in blobs {
                match load::blob_text(&journal, &blob).await {
                    Ok(text) => drop(texts.insert(blob, text.unwrap_or_default())),
                    Err(error) => tracing::warn!(%error, "a text of a brief can't be read"),
                }
            }
            me.tell(Msg::Briefed(link, key, task, texts));
        });
    }

    /// Sends a task whose blobs were read, unless the attempt is over by now.
    pub fn briefed(
        &mut self,
        link: &LinkHandle,
        key: &AttemptKey,
        task: TaskIx,
        texts: &BTreeMap<BlobId, String>,
    ) {
        if self.core.token(task) != Some(key.token) {
            return;
        }
        let resolve = |text: &Text| match text {
            Text::Inline(text) => text.clone(),
            Text::Blob { blob, head, .. } => texts.get(blob).unwrap_or(head).clone(),
        };
        if let Some(assign) = self.work(key, task, &resolve) {
            self.hand_over(link, assign);
        }
    }

    /// Sends an assignment. One that no frame holds would never arrive: it is lost at once, with the reason.
    fn hand_over(&mut self, link: &LinkHandle, assign: Assign) {
        let bytes = ensemble_proto::encode_assign(&assign).len();
        if bytes <= ensemble_proto::FRAME_LIMIT {
            link.send(ToNode::Assign(Box::new(assign)));
            return;
        }
        let reason = format!("what it is told has {bytes} bytes, more than a frame holds");
        self.push(lost(&assign.key, LossCause::Environment, reason));
    }
}
