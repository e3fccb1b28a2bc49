//! `ensemble report`: what a run delivered, in figures and words, and how to take it over. Gathers the
//! facts, the agents' own words and how the user's branches stand; how it reads is said in `output`.

use std::path::Path;

use ensemble_core::run::{State, state::Task};
use ensemble_journal::Journal;
use ensemble_workspace::UserRepository;

use crate::{
    args::{Format, Report},
    error::{Error, Exit},
    output::{self, Standing, Tally},
    paths, runs,
};

/// Writes a run's report.
///
/// # Errors
/// Those of the journal, and when no run or several are meant.
pub async fn report(args: &Report) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let (mut state, mut tally) = (State::new(run), Tally::default());
    runs::each(&journal, run, state.seq, |entry| {
        tally.count(&entry.fact);
        state.apply(&entry);
        Ok(())
    })
    .await?;
    let standing = standing(&args.place.repo, &state)?;
    match args.output.format {
        Format::Json => output::result(&output::report_object(&state, &tally, &standing).to_string())?,
        Format::Table => {
            let mut summaries = Vec::new();
            for task in &state.tasks {
                summaries.push(said(&journal, task).await?);
            }
            output::result(&output::report(&state, &tally, &standing, &summaries))?;
        }
    }
    Ok(Exit::Good)
}

/// What the agent last said of a task, whole.
async fn said(journal: &Journal, task: &Task) -> Result<String, Error> {
    let delivered = task.delivered.as_ref().map(|delivered| &delivered.report.outcome);
    let last = || task.previous.as_ref().and_then(|previous| previous.outcome.as_ref());
    match delivered.or_else(last) {
        Some(outcome) => runs::whole(journal, &outcome.summary).await,
        None => Ok(String::new()),
    }
}

fn standing(repo: &Path, state: &State) -> Result<Standing, Error> {
    let (Ok(repository), Some(head)) = (UserRepository::discover(repo), &state.head) else {
        return Ok(Standing::default());
    };
    let branch = state.branch();
    let mut taken_by = repository.branches_with(head)?;
    let begun = state.submitted.as_ref().is_some_and(|submitted| submitted.base != *head);
    taken_by.retain(|name| begun && *name != branch);
    let at_home = repository.resolve(&format!("refs/heads/{branch}")).ok().as_ref() == Some(head);
    Ok(Standing { at_home: Some(at_home), taken_by })
}
