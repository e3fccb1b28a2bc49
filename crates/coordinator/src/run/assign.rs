//! Telling nodes what to do: the brief of a task, the command of a check.

use std::collections::BTreeSet;

use ensemble_core::{
    brief,
    ids::{BlobId, CommitId},
    link::AttemptKey,
    message::{Assign, ToNode, What, Work},
    run::{
        Duty,
        fact::CheckOf,
        state::{CheckState, TaskIx},
    },
    team::DEFAULT_TIMEOUT_MS,
    text::Text,
};

use super::{Msg, Shell, desk::named, load};
use crate::link::LinkHandle;

impl Shell {
    /// Sends an attempt or a check to its node. Sending it twice is harmless.
    pub fn assign(&self, duty: &Duty) {
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

    /// Reads the blobs that a brief shows, then writes and sends it.
    fn brief_with(&self, link: LinkHandle, key: AttemptKey, task: TaskIx, blobs: BTreeSet<BlobId>) {
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
fn placeholder(blob: &BlobId) -> String {
    format!("\u{1}{blob}\u{1}")
}

fn fill(assign: &mut Assign, blob: &BlobId, text: &str) {
    let What::Work(work) = &mut assign.what else { return };
    work.brief = work.brief.replace(&placeholder(blob), text);
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inner = quoted.trim_matches('"');
    let escaped = serde_json::to_string(&placeholder(blob)).unwrap_or_default();
    work.context = work.context.replace(escaped.trim_matches('"'), inner);
}
