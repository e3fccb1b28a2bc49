//! `ensemble events`: a run's facts as they are journalled, one a line; with `--follow` until it is over.

use std::time::Duration;

use ensemble_core::{ids::Seq, run::State};
use ensemble_journal::Stream;

use crate::{
    args::{Events, Format},
    error::{Error, Exit},
    output::{self, Narrator},
    paths, runs,
};

/// How long to wait for the next fact before looking whether anybody still reads.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints a run's facts.
///
/// # Errors
/// Those of the journal, and when no run or several are meant.
pub async fn events(args: &Events) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let mut narrator = Narrator::new(State::new(run));
    let mut after = Seq(0);
    loop {
        after = runs::each(&journal, run, after, |entry| {
            let lines = narrator.tell(&entry);
            match args.output.format {
                Format::Json => output::result(&output::event_object(run, &entry).to_string()),
                Format::Table => lines.iter().try_for_each(|line| output::result(line)),
            }
        })
        .await?;
        let state = narrator.state();
        if !args.follow || state.ended.is_some() || state.waiting.is_some() {
            return Ok(Exit::Good);
        }
        journal.wait_beyond(&Stream::Run(run), after, PATIENCE).await?;
    }
}
