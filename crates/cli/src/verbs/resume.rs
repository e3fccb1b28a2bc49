//! `ensemble resume`: goes on with a run whose process has ended, in the foreground.

use std::io::{self, BufRead, IsTerminal};

use ensemble_core::{
    ids::RunId,
    run::state::{RunState, State},
};
use ensemble_directory::Local;
use ensemble_journal::Journal;

use crate::{
    args::Resume,
    error::{Error, Exit},
    output,
    owner::Existing,
    paths, runs,
    signals::Signals,
};

/// Characters of a goal in the list.
const GOAL: usize = 60;

/// Goes on with a run.
///
/// # Errors
/// When no run or several are meant, or somebody works on it.
pub async fn resume(args: &Resume) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = match &args.run {
        Some(word) => runs::find(&journal, &data, word).await?,
        None => choose(&unowned(&journal, &Local::new(&data)).await?)?,
    };
    let existing = Existing::load(&args.place, data, journal, run).await?;
    if let Some(owner) = existing.owner()? {
        return Err(at_work(run, owner.pid));
    }
    if existing.state.ended.is_some() {
        let word = existing.state.state().word();
        let remedy = match existing.state.state() {
            RunState::Delivered => format!("`ensemble fetch {run}` brings its branch"),
            _ => format!("`ensemble retry {run}` opens it again"),
        };
        return Err(Error::usage(format!("run {run} is over: {word}"), remedy));
    }
    let signals = Signals::new()?;
    existing.take_over(args.team.as_deref(), args.output.format).await?.carry_on(signals).await
}

fn at_work(run: RunId, pid: u32) -> Error {
    Error::usage(format!("process {pid} works on run {run}"), format!("watch it with `ensemble watch {run}`"))
}

/// The runs that could go on, see [`candidates`]; if all of them are somebody's, that is said.
async fn unowned(journal: &Journal, directory: &Local) -> Result<Vec<State>, Error> {
    let found = candidates(journal, directory).await?;
    if found.is_empty() {
        for run in runs::list(journal).await? {
            if let Some(owner) = directory.owner(run)? {
                return Err(at_work(run, owner.pid));
            }
        }
    }
    Ok(found)
}

/// The runs that could go on and that nobody works on: those that wait for a person only if there are
/// no others.
async fn candidates(journal: &Journal, directory: &Local) -> Result<Vec<State>, Error> {
    let mut found = Vec::new();
    for run in runs::list(journal).await? {
        if directory.owner(run)?.is_some() {
            continue;
        }
        let state = runs::load(journal, run).await?;
        if runs::is_unfinished(&state) {
            found.push(state);
        }
    }
    let (waiting, going): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|state| state.state() == RunState::Waiting);
    Ok(if going.is_empty() { waiting } else { going })
}

fn choose(candidates: &[State]) -> Result<RunId, Error> {
    match candidates {
        [] => Err(Error::usage("there is no unfinished run", "`ensemble ps` lists all")),
        [one] => Ok(one.run),
        many => {
            let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
            let rows: Vec<[String; 4]> = (1..).zip(many).map(|(number, state)| row(number, state)).collect();
            output::table(&rows).iter().for_each(|line| output::say(line));
            let unclear = || {
                Error::usage(
                    format!("{} runs are unfinished", many.len()),
                    "say which: `ensemble resume RUN`",
                )
            };
            if !terminal {
                return Err(unclear());
            }
            output::say(&format!("which one? [1-{}]", many.len()));
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer).map_err(|_| unclear())?;
            picked(many, &answer).ok_or_else(unclear)
        }
    }
}

/// The run that an answer names, by its number in the list.
fn picked(candidates: &[State], answer: &str) -> Option<RunId> {
    let number: usize = answer.trim().parse().ok()?;
    candidates.get(number.checked_sub(1)?).map(|state| state.run)
}

fn row(number: usize, state: &State) -> [String; 4] {
    let goal = state.submitted.as_ref().map_or("", |submitted| submitted.goal.head());
    [number.to_string(), state.run.to_string(), state.state().word().to_owned(), output::short(goal, GOAL)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> Vec<State> {
        [1, 2].map(|number| State::new(RunId::from_parts(1, number))).to_vec()
    }

    #[test]
    fn the_only_unfinished_run_is_meant() {
        assert_eq!(choose(&states()[..1]).unwrap(), states()[0].run);
        assert_eq!(choose(&[]).unwrap_err().exit() as u8, 2);
    }

    #[test]
    fn an_answer_is_a_number_of_the_list() {
        assert_eq!(picked(&states(), " 2\n"), Some(states()[1].run));
        for bad in ["", "0", "3", "-1", "x"] {
            assert_eq!(picked(&states(), bad), None, "{bad}");
        }
    }
}
