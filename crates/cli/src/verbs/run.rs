//! `ensemble run`: a plan carried out in the foreground, from the way in to the branch at home; with
//! `--detach` in a process of its own (`run/detach.rs`).

mod detach;

pub use detach::log as detached_log;
use ensemble_core::{
    ids::{RunId, Seq},
    run::{State, state::RunState},
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::Journal;
use rand::Rng;

use crate::{
    args::{Format, Run},
    config::Config,
    earlier,
    embedded::Embedded,
    error::{DoingTo, Error, Exit},
    follow::Follower,
    ground,
    order::Order,
    output::{self, Narrator, Screen},
    paths, runs,
    session::Session,
    signals::Signals,
};

/// Carries out a plan.
///
/// # Errors
/// When it can't be started, or not be followed any more.
pub async fn run(args: &Run) -> Result<Exit, Error> {
    if args.detached_as.is_some() {
        detach::leave();
    }
    let repository = ground::find_or_make(&args.place.repo, args.init)?;
    let data = paths::data_of(&args.place)?;
    let base = earlier::base(&args.base, &repository, &data).await?;
    let order = Order::read(&Run { base, ..args.clone() })?;
    let run = args.detached_as.unwrap_or_else(new_run);
    if args.detach {
        detach::start(args, &order, run).await
    } else {
        carry_out(order, args.output.format, run).await
    }
}

/// Carries out an order.
///
/// # Errors
/// As [`run`].
pub async fn carry_out(order: Order, format: Format, run: RunId) -> Result<Exit, Error> {
    let notify = Config::ours()?.notify;
    let mut signals = Signals::new()?;
    std::fs::create_dir_all(&order.data).doing_to("make the folder", &order.data)?;
    let journal = Journal::open(&order.data)?;
    name_unfinished(&journal, &Local::new(&order.data)).await?;
    let embedded = Embedded::start(&order.data, &journal, Some(&order.team)).await?;
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
    let repository = Some(repository);
    let session = Session { embedded, follower, repository, into, data, format, notify, made };
    session.carry_on(signals).await
}

/// A new run's id.
#[must_use]
pub fn new_run() -> RunId {
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
