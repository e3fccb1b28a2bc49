//! Following a run by its journal, whoever owns it: until it is over, or until no process works on it
//! any more. Nothing is told here; that is the caller's.

use std::time::Duration;

use ensemble_core::{
    ids::RunId,
    run::{Entry, State},
};
use ensemble_directory::Local;
use ensemble_journal::{Journal, Stream};
use tokio::time::Instant;

use crate::{error::Error, runs};

/// How long to wait for the next fact before looking whether anybody still works on the run.
const LOOK: Duration = Duration::from_millis(500);

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The run is over, or waits for a person.
    Over,
    /// It is not over, but no process works on it.
    Left,
    /// The time is up.
    Late,
}

/// What following brings next.
#[derive(Debug)]
pub enum Step {
    /// More facts.
    Facts(Vec<Entry>),
    /// There is nothing more to wait for.
    Rest(Rest),
}

/// A run that is followed.
#[derive(Debug)]
pub struct Tail {
    journal: Journal,
    directory: Local,
    until: Option<Instant>,
    /// The run as far as its facts were handed out.
    pub state: State,
}

impl Tail {
    /// Follows `run` from its first fact, until `until` at the latest.
    #[must_use]
    pub fn new(journal: Journal, directory: Local, run: RunId, until: Option<Instant>) -> Self {
        Self { journal, directory, until, state: State::new(run) }
    }

    /// The next facts, or why there will be none.
    ///
    /// # Errors
    /// Those of the journal, and [`Error::Fact`].
    pub async fn next(&mut self) -> Result<Step, Error> {
        let run = self.state.run;
        loop {
            // Asked before the facts are read: what an owner wrote last before it went is read then.
            let owned = self.directory.owner(run)?.is_some();
            let entries = runs::page(&self.journal, run, self.state.seq).await?;
            if !entries.is_empty() {
                for entry in &entries {
                    self.state.apply(entry);
                }
                return Ok(Step::Facts(entries));
            }
            if self.state.ended.is_some() || self.state.waiting.is_some() {
                return Ok(Step::Rest(Rest::Over));
            }
            if !owned {
                return Ok(Step::Rest(Rest::Left));
            }
            let now = Instant::now();
            let left = self.until.map_or(LOOK, |until| until.saturating_duration_since(now).min(LOOK));
            if left.is_zero() {
                return Ok(Step::Rest(Rest::Late));
            }
            self.journal.wait_beyond(&Stream::Run(run), self.state.seq, left).await?;
        }
    }

    /// Goes on until there is nothing more to wait for.
    ///
    /// # Errors
    /// As [`Tail::next`].
    pub async fn rest(&mut self) -> Result<Rest, Error> {
        loop {
            if let Step::Rest(rest) = self.next().await? {
                return Ok(rest);
            }
        }
    }
}
