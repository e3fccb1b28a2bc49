//! `ensemble ps`: the runs of a repository, newest first, whoever works on them.

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
    let mut rows = vec![["RUN", "STATE", "TASKS", "GOAL"].map(str::to_owned)];
    for state in &states {
        let goal = state.submitted.as_ref().map_or("", |submitted| submitted.goal.head());
        rows.push([
            state.run.to_string(),
            state.state().word().to_owned(),
            format!("{}/{}", state.counts.success, state.tasks.len()),
            output::short(goal, GOAL),
        ]);
    }
    output::result(&output::table(&rows).join("\n"))?;
    Ok(Exit::Good)
}
