//! `ensemble ps`: the runs of a repository, newest first, whoever works on them.

use ensemble_core::run::State;
use ensemble_directory::Local;

use crate::{
    args::{Format, Ps},
    error::{Error, Exit},
    output, paths, runs,
};

/// Characters of a goal in the list.
const GOAL: usize = 60;

/// Lists the runs.
///
/// # Errors
/// Those of the journal.
pub async fn ps(args: &Ps) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let mut states = Vec::new();
    if let Some(journal) = runs::journal(&data)? {
        for run in runs::list(&journal).await? {
            states.push(runs::load(&journal, run).await?);
        }
    }
    if args.output.format == Format::Json {
        let objects: Vec<_> = states.iter().map(output::ps_object).collect();
        output::result(&serde_json::Value::from(objects).to_string())?;
        return Ok(Exit::Good);
    }
    if states.is_empty() {
        output::say(&format!("no runs yet in {}", data.display()));
        return Ok(Exit::Good);
    }
    let directory = Local::new(&data);
    let mut rows = vec![["RUN", "STATE", "TASKS", "BEGAN", "BY", "GOAL"].map(str::to_owned)];
    let now = output::now_ms();
    for state in &states {
        rows.push(row(state, directory.owner(state.run)?.map(|owner| owner.pid), now));
    }
    output::result(&output::table(&rows).join("\n"))?;
    Ok(Exit::Good)
}

fn row(state: &State, pid: Option<u32>, now: u64) -> [String; 6] {
    let goal = state.submitted.as_ref().map_or("", |submitted| submitted.goal.head());
    let by = match pid {
        Some(pid) => format!("process {pid}"),
        // It looks alive by its state alone, but nobody works on it.
        None if state.ended.is_none() && state.waiting.is_none() => "nobody".to_owned(),
        None => "-".to_owned(),
    };
    let tasks = format!("{}/{}", state.counts.success, state.tasks.len());
    let began = output::ago(now.saturating_sub(state.began_ms));
    [state.run.to_string(), state.state().word().to_owned(), tasks, began, by, output::short(goal, GOAL)]
}

#[cfg(test)]
mod tests {
    use ensemble_core::ids::RunId;

    use super::*;

    #[test]
    fn a_run_that_was_left_behind_is_told_from_one_that_goes_on() {
        let state = State::new(RunId::from_parts(1, 1));
        assert_eq!(row(&state, None, 0)[4], "nobody");
        assert_eq!(row(&state, Some(7), 0)[4], "process 7");
    }

    #[test]
    fn a_run_is_listed_with_how_long_ago_it_began() {
        let mut state = State::new(RunId::from_parts(1, 1));
        state.began_ms = 60_000;
        assert_eq!(row(&state, None, 240_000)[3], "3 min ago");
        assert_eq!(row(&state, None, 0)[3], "0 s ago", "a clock that was set back is borne");
    }
}
