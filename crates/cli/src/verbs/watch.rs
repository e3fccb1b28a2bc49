//! `ensemble watch`: a run told as it happens, whoever works on it; or what happened, if nobody does.

use ensemble_core::{
    ids::Seq,
    run::{Entry, Fact, State},
    text::Text,
};
use ensemble_directory::Local;

use crate::{
    args::{Format, Watch},
    error::{Error, Exit},
    output::{self, Narrator},
    paths, runs,
    tail::{Rest, Step, Tail},
};

/// Tells a run.
///
/// # Errors
/// Those of the journal, and when no run or several are meant.
pub async fn watch(args: &Watch) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let mut narrator = Narrator::new(State::new(run));
    let mut tail = Tail::new(journal.clone(), Local::new(&data), run, None);
    let rest = loop {
        match tail.next().await? {
            Step::Rest(rest) => break rest,
            Step::Facts(entries) => {
                for mut entry in entries {
                    if args.output.format == Format::Table
                        && let Fact::CheckReported { passed: false, output, .. } = &mut entry.fact
                    {
                        // The end of a failed check's output is shown, and that lies in the blob.
                        *output = Text::Inline(runs::whole(&journal, output).await?);
                    }
                    tell(&mut narrator, &entry, args)?;
                }
            }
        }
    };
    if args.output.format == Format::Table {
        let lines = match rest {
            Rest::Left => vec![format!("no process works on run {run}; go on with: ensemble resume {run}")],
            Rest::Over | Rest::Late => output::show(&tail.state, None),
        };
        lines.iter().for_each(|line| output::say(line));
    }
    Ok(Exit::Good)
}

fn tell(narrator: &mut Narrator, entry: &Entry, args: &Watch) -> Result<(), Error> {
    // Told to the narrator all the same: later lines refer to earlier facts.
    let lines = narrator.tell(entry);
    if entry.seq <= Seq(args.after) {
        return Ok(());
    }
    match args.output.format {
        Format::Json => output::result(&output::event_object(narrator.state().run, entry).to_string()),
        Format::Table => lines.iter().try_for_each(|line| output::result(line)),
    }
}
