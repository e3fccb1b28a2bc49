//! The verbs, one a file. Each takes its arguments and answers with an exit code or an error.

mod check;
mod demo;
mod doctor;
mod events;
mod fetch;
mod logs;
mod plan;
mod ps;
mod resume;
mod retry;
mod run;
mod show;
mod stop;

use std::future::Future;

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
        Verb::Doctor(args) => doctor::doctor(&args),
    }
}

fn block_on(verb: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().build().doing_to("start threads for", "the runtime")?.block_on(verb)
}
