//! `ensemble show`: one run with its tasks, what they delivered, what failed and what to do about it.

use ensemble_directory::Local;

use crate::{
    args::{Format, Show},
    error::{Error, Exit},
    output, paths, runs,
};

/// Shows a run.
///
/// # Errors
/// Those of the journal, and when no run or several are meant.
pub async fn show(args: &Show) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let state = runs::load(&journal, run).await?;
    let pid = Local::new(&data).owner(run)?.map(|owner| owner.pid);
    let text = match args.output.format {
        Format::Json => output::run_object_beside(&state, None, pid).to_string(),
        Format::Table => output::show(&state, pid).join("\n"),
    };
    output::result(&text)?;
    Ok(Exit::Good)
}
