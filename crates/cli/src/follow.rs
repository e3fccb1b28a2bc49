//! Following a run: its facts come over the watch of whoever owns it and are told as they come. A
//! stream that breaks is opened again from the last fact, so nothing is told twice or left out.

use std::time::Duration;

use ensemble_core::{
    ids::Seq,
    run::{Entry, Fact, State},
    text::Text,
};
use ensemble_journal::Journal;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    client::{self, Client},
    error::Error,
    output::{Narrator, Screen},
    runs,
};

/// Pause before a broken stream is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long streams may break without a single fact before that is an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run and where it is told.
#[derive(Debug)]
pub struct Follower {
    /// The run as far as it was told.
    pub narrator: Narrator,
    /// Where.
    pub screen: Screen,
    /// Texts that are too long for a fact.
    pub journal: Journal,
    /// The run is not over before this fact was told, whatever its state says until then.
    pub settled: Seq,
}

impl Follower {
    /// Whether nothing more will happen unless a person does something.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let state = self.narrator.state();
        state.seq >= self.settled && (state.ended.is_some() || state.waiting.is_some())
    }

    /// Tells the run until it is over. May be dropped at any await and called again.
    ///
    /// # Errors
    /// When nobody answers for [`PATIENCE`], and [`Error::Fact`].
    pub async fn follow(&mut self, client: &Client) -> Result<(), Error> {
        self.follow_until(client, |_| false).await
    }

    /// Tells the run until it is over or as `enough` says. May be dropped at any await and called again.
    ///
    /// # Errors
    /// As [`Follower::follow`].
    pub async fn follow_until(
        &mut self,
        client: &Client,
        enough: impl Fn(&State) -> bool,
    ) -> Result<(), Error> {
        let mut heard = Instant::now();
        while !self.is_over() && !enough(self.narrator.state()) {
            let before = self.narrator.state().seq;
            let broken = self.listen(client, &enough).await.err();
            if self.narrator.state().seq > before {
                heard = Instant::now();
            }
            match broken {
                Some(error) if is_final(&error) => return Err(error),
                Some(error) if heard.elapsed() > PATIENCE => return Err(error),
                None if heard.elapsed() > PATIENCE => {
                    return Err(Error::broken("the run's owner ended"));
                }
                _ if self.is_over() || enough(self.narrator.state()) => {}
                _ => sleep(PAUSE).await,
            }
        }
        Ok(())
    }

    /// One stream, until it ends or there is enough of it.
    async fn listen(&mut self, client: &Client, enough: &impl Fn(&State) -> bool) -> Result<(), Error> {
        let state = self.narrator.state();
        let (run, after) = (state.run, state.seq);
        let mut stream = client.watch(run, after).await?;
        while !self.is_over() && !enough(self.narrator.state()) {
            let event = stream.message().await;
            let event =
                event.map_err(|status| Error::Call { doing: "watch the run", status: Box::new(status) })?;
            let Some(event) = event else { break };
            let entry = client::entry(run, event)?;
            if entry.seq <= self.narrator.state().seq {
                continue;
            }
            self.tell(entry).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, mut entry: Entry) -> Result<(), Error> {
        // The end of a failed check's output is shown, and that lies in the blob.
        if let Fact::CheckReported { passed: false, output, .. } = &mut entry.fact {
            *output = Text::Inline(runs::whole(&self.journal, output).await?);
        }
        for line in self.narrator.tell(&entry) {
            self.screen.line(&line);
        }
        self.screen.update(self.narrator.state());
        Ok(())
    }
}

/// Whether opening the stream again is useless: a fact that can't be read, or an owner that gave up.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Fact { .. } => true,
        Error::Call { status, .. } => matches!(status.code(), Code::Aborted | Code::DataLoss),
        _ => false,
    }
}
