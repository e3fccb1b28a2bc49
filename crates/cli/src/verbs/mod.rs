//! The verbs, one a file. Each takes its arguments and answers with an exit code or an error.

mod check;
mod events;
mod plan;
mod ps;
mod show;

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
        other => Err(Error::Later { what: format!("{other:?}"), instead: String::new() }),
    }
}

fn block_on(verb: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().build().doing_to("start threads for", "the runtime")?.block_on(verb)
}
