//! `ensemble stop`: a run, or one of its tasks. A living owner does it; without one nothing of the run
//! is alive, so it is written down here, and what there is of the result is brought home.

use ensemble_core::run::State;
use ensemble_directory::Local;

use crate::{
    args::{Format, Stop},
    client::Client,
    config::Config,
    embedded::{self, Embedded},
    error::{Error, Exit},
    home, notify,
    output::{self, Home},
    owner::{self, Existing},
    runs,
};

/// Stops a run or a task.
///
/// # Errors
/// When it can't be stopped, because it is over or being merged.
pub async fn stop(args: &Stop) -> Result<Exit, Error> {
    let notify = Config::ours()?.notify;
    let existing = Existing::find(&args.place, &args.run).await?;
    let (run, data) = (existing.run(), &existing.data);
    let task = args.task.as_deref().map(owner::task_id).transpose()?;
    if let Some(task) = &task {
        owner::must_have(&existing.state, task)?;
    }
    let owner = existing.owner()?;
    let pid = owner.as_ref().map(|owner| owner.pid);
    let (state, home) = match owner {
        Some(owner) => {
            Client::of_socket(&owner.socket).await?.stop(run, task.as_ref()).await?;
            (runs::load(&existing.journal, run).await?, None)
        }
        None => {
            let (directory, me) = (Local::new(data), embedded::me(data)?);
            let stopped =
                ensemble_coordinator::stop_unowned(&existing.journal, &directory, &me, run, task.clone());
            let state = stopped.await?;
            let home = if state.ended.is_some() { Some(bring(&existing, &state).await?) } else { None };
            if let Some(home) = &home {
                notify::tell(notify.as_ref(), &output::notice_object(&state, home)).await;
            }
            (state, home)
        }
    };
    match args.output.format {
        Format::Json => {
            output::result(&output::run_object_beside(&state, home.as_ref(), pid).to_string())?;
        }
        Format::Table => {
            let what = task.map_or_else(|| "the run".to_owned(), |task| task.to_string());
            let then = match (state.ended.is_some(), &home) {
                (true, _) => format!("the run is {}", state.state().word()),
                (false, None) if pid.is_some() => format!("`ensemble show {run}` says when that is done"),
                (false, _) => format!("`ensemble resume {run}` goes on with the rest"),
            };
            output::result(&format!("run {run}: {what} was told to stop; {then}"))?;
            if let Some(home) = &home {
                output::result(&output::fetched(&state, home, pid).join("\n"))?;
            }
        }
    }
    Ok(Exit::Good)
}

/// The result of a run that ended just now.
async fn bring(existing: &Existing, state: &State) -> Result<Home, Error> {
    let embedded = Embedded::start(&existing.data, &existing.journal, None).await?;
    let repository = existing.repository.as_ref();
    let home = home::bring(embedded.client(), repository, state, None, &existing.data).await;
    embedded.shutdown().await;
    Ok(home)
}
