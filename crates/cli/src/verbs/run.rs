//! `ensemble run`: a plan carried out in the foreground, from the way in to the branch at home.

use ensemble_core::{
    ids::{RunId, Seq},
    run::{State, state::RunState},
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::Journal;
use rand::Rng;

use crate::{
    args::{Format, Run},
    embedded::Embedded,
    error::{DoingTo, Error, Exit},
    follow::Follower,
    order::Order,
    output::{self, Narrator, Screen},
    runs,
    session::Session,
    signals::Signals,
};

/// Carries out a plan.
///
/// # Errors
/// When it can't be started, or not be followed any more.
pub async fn run(args: &Run) -> Result<Exit, Error> {
    let order = Order::read(args)?;
    carry_out(order, args.output.format).await
}

/// Carries out an order.
///
/// # Errors
/// As [`run`].
pub async fn carry_out(order: Order, format: Format) -> Result<Exit, Error> {
    let mut signals = Signals::new()?;
    std::fs::create_dir_all(&order.data).doing_to("make the folder", &order.data)?;
    let journal = Journal::open(&order.data)?;
    name_unfinished(&journal, &Local::new(&order.data)).await?;
    let embedded = Embedded::start(&order.data, &journal, Some(&order.team)).await?;
    let run = new_run();
    tokio::select! {
        handed_in = order.hand_in(embedded.client(), run) => handed_in?,
        () = signals.next() => {
            embedded.kill().await;
            output::say("interrupted before the run was handed in; run the same command again");
            return Ok(Exit::Interrupted);
        }
    }
    let follower = Follower {
        narrator: Narrator::new(State::new(run)),
        screen: Screen::fitting(),
        journal,
        settled: Seq(1),
    };
    let into = order.branch().map(str::to_owned);
    let Order { repository, data, made, .. } = order;
    let session = Session { embedded, follower, repository: Some(repository), into, data, format, made };
    session.carry_on(signals).await
}

/// A new run's id.
fn new_run() -> RunId {
    RunId::from_parts(output::now_ms(), rand::rng().random())
}

/// Says which other runs could go on: they are easily forgotten.
async fn name_unfinished(journal: &Journal, directory: &Local) -> Result<(), Error> {
    for run in runs::list(journal).await? {
        let state = runs::load(journal, run).await?;
        if runs::is_unfinished(&state) {
            output::say(&format!("note: {}", unfinished(&state, directory.owner(run)?.as_ref())));
        }
    }
    Ok(())
}

/// How an unfinished run stands, and what brings it on.
fn unfinished(state: &State, owner: Option<&Owner>) -> String {
    let run = state.run;
    match (owner, state.state()) {
        (Some(owner), _) => format!("process {} works on run {run}", owner.pid),
        (None, RunState::Waiting) => {
            format!("run {run} waits for you; `ensemble show {run}` says for what")
        }
        (None, word) => {
            format!("run {run} is unfinished ({}); go on with it by `ensemble resume {run}`", word.word())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_with_what_brings_it_on() {
        let state = State::new(RunId::from_parts(1, 1));
        assert!(unfinished(&state, None).contains("ensemble resume"));
        let owner = Owner { coordinator: "local-7".parse().unwrap(), pid: 7, socket: "/s".into() };
        assert!(unfinished(&state, Some(&owner)).starts_with("process 7 works on"));
    }
}
