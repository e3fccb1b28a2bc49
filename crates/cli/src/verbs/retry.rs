//! `ensemble retry`: opens what failed, is blocked or was stopped for another try. A living owner is
//! asked and goes on; without one this process takes the run over in the foreground.

use ensemble_core::run::state::RunState;

use crate::{
    args::Retry,
    client::Client,
    error::{Error, Exit},
    output,
    owner::{self, Existing},
    signals::Signals,
};

/// Tries again.
///
/// # Errors
/// When there is nothing to try again, or the run can't be taken over.
pub async fn retry(args: &Retry) -> Result<Exit, Error> {
    let signals = Signals::new()?;
    let existing = Existing::find(&args.place, &args.run).await?;
    let (run, prompt) = (existing.run(), args.prompt.as_deref());
    let task = args.task.as_deref().map(owner::task_id).transpose()?;
    if let Some(task) = &task {
        owner::must_have(&existing.state, task)?;
        owner::must_stand_alone(&existing.state, task)?;
    }
    if existing.state.state() == RunState::Delivered {
        return Err(Error::usage(
            format!("run {run} was delivered, there is nothing to try again"),
            "start a new one with `ensemble run`",
        ));
    }
    if let Some(owner) = existing.owner()? {
        Client::of_socket(&owner.socket).await?.retry(run, task.as_ref(), prompt).await?;
        output::say(&format!("process {} goes on with it; watch it with `ensemble watch {run}`", owner.pid));
        return Ok(Exit::Good);
    }
    let mut session = existing.take_over(args.team.as_deref(), args.output.format).await?;
    match session.embedded.client().retry(run, task.as_ref(), prompt).await {
        Ok(seq) => session.follower.settled = seq,
        Err(error) => {
            session.embedded.shutdown().await;
            return Err(error);
        }
    }
    session.carry_on(signals).await
}
