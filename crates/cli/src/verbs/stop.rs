//! `ensemble stop`: a run, or one of its tasks. The owner does it if there is one; else this process
//! owns the run for a moment, writes down that it shall stop, and leaves.

use std::time::{SystemTime, UNIX_EPOCH};

use ensemble_core::{
    ids::{RunId, TaskId},
    run::{
        Entry, Fact, admit, decide,
        fact::{AttemptRef, CheckOf, CheckRef, FACT_VERSION, LossCause},
        state::{CheckState, Checks, Stage, State},
    },
};
use ensemble_directory::{Election, Local, Owner};
use ensemble_journal::{Journal, NewFact, Stream};

use crate::{
    args::{Format, Stop},
    client::Client,
    embedded,
    error::{Error, Exit},
    output, owner, paths, runs,
};

/// Stops a run or a task.
///
/// # Errors
/// When it can't be stopped, because it is over or being merged.
pub async fn stop(args: &Stop) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let task = args.task.as_deref().map(owner::task_id).transpose()?;
    let directory = Local::new(&data);
    if let Some(owner) = directory.owner(run)? {
        Client::of_socket(&owner.socket).await?.stop(run, task.as_ref()).await?;
    } else {
        match directory.own(run, &embedded::me(&data)?)? {
            // Somebody took it over this very moment, so somebody is there to be asked.
            Election::Held(Some(owner)) => {
                Client::of_socket(&owner.socket).await?.stop(run, task.as_ref()).await?;
            }
            Election::Held(None) => {
                return Err(Error::usage(format!("run {run} is just being taken over"), "repeat it"));
            }
            Election::Won(_ownership) => write_down(&journal, run, task.clone(), &embedded::me(&data)?).await?,
        }
    }
    let state = runs::load(&journal, run).await?.state;
    match args.output.format {
        Format::Json => output::result(&output::ps_object(&state).to_string())?,
        Format::Table => {
            let what = task.map_or_else(|| "the run".to_owned(), |task| task.to_string());
            output::result(&format!("run {run}: {what} is to stop; the run is {}", state.state().word()))?;
        }
    }
    Ok(Exit::Good)
}

/// Writes down what is known without an owner: nothing runs any more, and it shall stop.
async fn write_down(journal: &Journal, run: RunId, task: Option<TaskId>, me: &Owner) -> Result<(), Error> {
    let stream = Stream::Run(run);
    let read = journal.epoch(&stream).await?;
    let mut state = runs::load(journal, run).await?.state;
    let wish = Fact::StopRequested { task };
    admit(&state, &wish).map_err(|refusal| Error::usage(format!("can't stop it: {refusal}"), "see `ensemble show`"))?;
    let epoch = journal.claim(&stream, read).await?;
    let after = state.seq;
    let mut facts = Vec::new();
    let mut add = |state: &mut State, fact: Fact| -> Result<(), Error> {
        let time_ms = now();
        let body = serde_json::to_string(&fact).map_err(Error::broken)?;
        facts.push(NewFact { kind: fact.kind().to_owned(), version: FACT_VERSION, body, time_ms });
        state.apply(&Entry { seq: state.seq.next(), epoch, time_ms, fact });
        Ok(())
    };
    add(&mut state, Fact::Claimed { coordinator: me.coordinator.clone() })?;
    add(&mut state, wish)?;
    for fact in ended_with_their_process(&state) {
        if admit(&state, &fact).is_ok() {
            add(&mut state, fact)?;
        }
    }
    while let Some(fact) = decide(&state) {
        // A merge is the owner's to carry out; it is ordered again by whoever goes on.
        if matches!(fact, Fact::MergeOrdered { .. }) {
            break;
        }
        add(&mut state, fact)?;
    }
    journal.append(&stream, epoch, after, facts).await?;
    Ok(())
}

/// The attempts and checks that were under way: without an owner, their process is gone.
fn ended_with_their_process(state: &State) -> Vec<Fact> {
    let cause = LossCause::Process;
    let mut facts = Vec::new();
    for task in &state.tasks {
        let Some(attempt) = &task.attempt else { continue };
        let (number, token) = (attempt.dispatch.attempt, attempt.token);
        if matches!(attempt.stage, Stage::Assigned | Stage::Working) {
            let at = AttemptRef { task: task.spec.id.clone(), attempt: number, token };
            facts.push(Fact::Lost { at, cause, capture: None });
        }
        let of = CheckOf { task: Some(task.spec.id.clone()), attempt: number };
        facts.extend(attempt.stage.checks().into_iter().flat_map(|checks| lost_checks(&of, checks)));
    }
    let of = CheckOf { task: None, attempt: ensemble_core::ids::AttemptNumber(state.check_rounds) };
    facts.extend(state.final_checks.iter().flat_map(|checks| lost_checks(&of, checks)));
    facts
}

fn lost_checks(of: &CheckOf, checks: &Checks) -> Vec<Fact> {
    let live = checks.each.iter().filter_map(|check| match &check.state {
        CheckState::Live { number, token, .. } => Some((*number, *token)),
        CheckState::Open | CheckState::Passed => None,
    });
    live.map(|(check, token)| Fact::CheckLost {
        at: CheckRef { of: of.clone(), check, token },
        cause: LossCause::Process,
    })
    .collect()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
