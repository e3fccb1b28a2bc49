//! `ensemble wait`: waits for the end of a run that another process works on, and ends as it does.

use std::time::Duration;

use ensemble_core::run::State;
use ensemble_directory::Local;
use ensemble_workspace::UserRepository;
use tokio::time::{Instant, sleep};

use crate::{
    args::{Format, Wait},
    error::{Error, Exit},
    output, paths, runs,
    tail::{Rest, Tail},
};

/// How long the owner of an ended run may take to bring its branch home.
const HOMEWARD: Duration = Duration::from_secs(30);

/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Waits for a run.
///
/// # Errors
/// Those of the journal, and when no run or several are meant.
pub async fn wait(args: &Wait) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let directory = Local::new(&data);
    let until = args.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let mut tail = Tail::new(journal, directory.clone(), run, until);
    let rest = tail.rest().await?;
    let state = tail.state;
    if rest == Rest::Over {
        brought(&directory, &state, UserRepository::discover(&args.place.repo).ok(), until).await?;
    }
    let exit = exit(rest, &state);
    match args.output.format {
        Format::Json => output::result(&output::wait_object(&state, rest, exit).to_string())?,
        Format::Table => output::result(&line(&state, rest))?,
    }
    Ok(exit)
}

/// A run that goes on, or that nobody goes on with, waits for a person to look again.
fn exit(rest: Rest, state: &State) -> Exit {
    match rest {
        Rest::Over => Exit::of(state.state()),
        Rest::Left | Rest::Late => Exit::Waiting,
    }
}

fn line(state: &State, rest: Rest) -> String {
    let (run, word) = (state.run, state.state().word());
    match rest {
        Rest::Over => format!("run {run} {word}"),
        Rest::Left => {
            format!("run {run} is {word}, but no process works on it; go on with: ensemble resume {run}")
        }
        Rest::Late => format!("run {run} still goes on ({word}); the time is up"),
    }
}

/// Waits until the owner of a run that is over has brought its result home, or is gone.
async fn brought(
    directory: &Local,
    state: &State,
    repository: Option<UserRepository>,
    until: Option<Instant>,
) -> Result<(), Error> {
    let Some(repository) = repository else { return Ok(()) };
    let name = format!("refs/heads/{}", state.branch());
    let end = until.unwrap_or_else(|| Instant::now() + HOMEWARD).min(Instant::now() + HOMEWARD);
    while Instant::now() < end && directory.owner(state.run)?.is_some() {
        let into = state.submitted.as_ref().is_some_and(|submitted| submitted.into.is_some());
        if !into && repository.resolve(&name).ok() == state.head {
            break;
        }
        sleep(LOOK).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ensemble_core::ids::RunId;

    use super::*;

    #[test]
    fn a_run_that_goes_on_is_told_from_one_that_nobody_works_on() {
        let state = State::new(RunId::from_parts(1, 1));
        assert_eq!(exit(Rest::Late, &state), Exit::Waiting);
        assert!(line(&state, Rest::Late).contains("still goes on"));
        assert!(line(&state, Rest::Left).contains("ensemble resume"));
    }
}
