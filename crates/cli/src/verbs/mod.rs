//! The verbs, one a file. Each takes its arguments and answers with an exit code or an error.

mod check;
mod completions;
mod demo;
mod diff;
mod doctor;
mod events;
mod fetch;
mod init;
mod logs;
mod plan;
mod prune;
mod ps;
mod report;
mod resume;
mod retry;
mod run;
mod show;
mod stop;
mod wait;
mod watch;

use std::future::Future;

pub use doctor::{Finding, Health};
pub use init::Build;
pub use prune::{Reclaimed, Verdict};

use crate::{
    args::Verb,
    error::{DoingTo, Error, Exit},
};

/// Does what the command line says.
///
/// # Errors
/// Those of the verb.
pub fn perform(verb: Verb) -> Result<Exit, Error> {
    match verb {
        Verb::Check(args) => check::check(&args),
        Verb::Plan(args) => plan::plan(&args),
        Verb::Ps(args) => block_on(ps::ps(&args)),
        Verb::Show(args) => block_on(show::show(&args)),
        Verb::Events(args) => block_on(events::events(&args)),
        Verb::Run(args) => block_on(run::run(&args)),
        Verb::Demo(args) => block_on(demo::demo(&args)),
        Verb::Logs(args) => block_on(logs::logs(&args)),
        Verb::Stop(args) => block_on(stop::stop(&args)),
        Verb::Retry(args) => block_on(retry::retry(&args)),
        Verb::Resume(args) => block_on(resume::resume(&args)),
        Verb::Fetch(args) => block_on(fetch::fetch(&args)),
        Verb::Init(args) => init::init(&args),
        Verb::Watch(args) => block_on(watch::watch(&args)),
        Verb::Wait(args) => block_on(wait::wait(&args)),
        Verb::Diff(args) => block_on(diff::diff(&args)),
        Verb::Report(args) => block_on(report::report(&args)),
        Verb::Doctor(args) => block_on(doctor::doctor(&args)),
        Verb::Prune(args) => block_on(prune::prune(&args)),
        Verb::Completions(args) => completions::completions(&args),
    }
}

fn block_on(verb: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().build().doing_to("start threads for", "the runtime")?.block_on(verb)
}
