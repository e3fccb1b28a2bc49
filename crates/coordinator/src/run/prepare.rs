//! Getting an end ready for the journal: texts that are too long for a fact, and the attempt's log, go to
//! the blob store before the fact that names them.

use ensemble_core::{
    message::{Ended, How},
    outcome::Outcome,
    text::Text,
};
use ensemble_journal::Journal;
use tokio::sync::OwnedSemaphorePermit;

use super::{Msg, Shell};
use crate::{Error, link::LinkHandle, logs};

impl Shell {
    /// Spills and stores beside the actor, and comes back with [`Msg::Prepared`].
    pub fn prepare(&self, link: LinkHandle, ended: Ended, permit: Option<OwnedSemaphorePermit>) {
        let (journal, me, log) = (self.journal.clone(), self.me.clone(), logs::path(&self.data, &ended.key));
        tokio::spawn(async move {
            let key = ended.key.clone();
            match prepared(&journal, ended, &log).await {
                Ok((ended, log)) => me.tell(Msg::Prepared(link, Box::new(ended), log, permit)),
                Err(error) => {
                    tracing::warn!(%error, "the end of {} can't be stored now", logs::name(&key));
                    tokio::time::sleep(super::PAUSE).await;
                    me.tell(Msg::Unprepared(link));
                }
            }
        });
    }
}

async fn prepared(
    journal: &Journal,
    mut ended: Ended,
    log: &std::path::Path,
) -> Result<(Ended, Option<ensemble_core::ids::BlobId>), Error> {
    match &mut ended.how {
        How::Report(report) => spill_outcome(journal, &mut report.outcome).await?,
        How::Check { output, .. } => spill(journal, output).await?,
        How::Lost { .. } => {}
    }
    let has_log = tokio::fs::metadata(log).await.is_ok_and(|meta| meta.len() > 0);
    let keeps_log = matches!(ended.how, How::Report(_)) && has_log;
    let log = if keeps_log { Some(journal.put_blob_file(log).await?) } else { None };
    Ok((ended, log))
}

async fn spill_outcome(journal: &Journal, outcome: &mut Outcome) -> Result<(), Error> {
    spill(journal, &mut outcome.summary).await?;
    for text in outcome.messages.iter_mut().chain(&mut outcome.blockers) {
        spill(journal, text).await?;
    }
    for value in outcome.artifacts.values_mut() {
        let text = value.to_string();
        if text.len() > ensemble_core::text::INLINE_TEXT_LIMIT {
            let blob = journal.put_blob(text.clone().into_bytes()).await?;
            *value = serde_json::to_value(Text::spilled(&text, blob)).unwrap_or_default();
        }
    }
    Ok(())
}

/// Moves a text that is too long for a fact to the blob store.
pub async fn spill(journal: &Journal, text: &mut Text) -> Result<(), Error> {
    if let Text::Inline(whole) = text
        && whole.len() > ensemble_core::text::INLINE_TEXT_LIMIT
    {
        let blob = journal.put_blob(whole.clone().into_bytes()).await?;
        *text = Text::spilled(whole, blob);
    }
    Ok(())
}
