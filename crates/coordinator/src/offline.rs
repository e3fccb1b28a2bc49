//! Stopping a run that nobody owns: its owner's process has died, so nothing of it is alive any more.
//! It is claimed, the facts are stored, and it is given back.

use ensemble_core::{
    ids::{RunId, TaskId},
    run::{Entry, Fact, State, admit, decide, fact::LossCause},
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::{Journal, MAX_FACTS, NewFact, Stream};

use crate::{
    Error, clock,
    run::{
        desk::named,
        inputs::lost,
        load::{load, own, stored_form},
    },
};

/// Stops a task, or the whole run, and returns the state that follows.
///
/// # Errors
/// [`Error::Owned`] when it has an owner: ask that one. [`Error::Refused`] when it can't be stopped.
pub async fn stop(
    journal: &Journal,
    directory: &Local,
    me: &Owner,
    run: RunId,
    task: Option<TaskId>,
) -> Result<State, Error> {
    let _ownership = own(directory, run, me).await?;
    let loaded = load(journal, run).await?;
    let mut pen = Pen { state: loaded.state, epoch: loaded.epoch, facts: Vec::new() };
    let mut behind = pen.state.seq;
    pen.write(Fact::Claimed { coordinator: me.coordinator.clone() })?;
    pen.write(Fact::StopRequested { task })?;
    let live: Vec<Fact> = pen
        .state
        .duties()
        .filter_map(|duty| named(&pen.state, duty))
        .map(|named| lost(&named.key, LossCause::Process, ""))
        .collect();
    for fact in live {
        pen.write(fact)?;
    }
    while let Some(fact) = decide(&pen.state) {
        pen.write(fact)?;
    }
    for facts in pen.facts.chunks(MAX_FACTS) {
        behind = journal.append(&Stream::Run(run), pen.epoch, behind, facts.to_vec()).await?;
    }
    Ok(pen.state)
}

/// Admits, applies and collects facts.
struct Pen {
    state: State,
    epoch: ensemble_core::ids::Epoch,
    facts: Vec<NewFact>,
}

impl Pen {
    fn write(&mut self, fact: Fact) -> Result<(), Error> {
        admit(&self.state, &fact)?;
        let entry = Entry { seq: self.state.seq.next(), epoch: self.epoch, time_ms: clock::now_ms(), fact };
        self.state.apply(&entry);
        self.facts.push(stored_form(&entry.fact, entry.time_ms));
        Ok(())
    }
}
