//! The binary `ensemble`: parse, run the verb, turn its end into an exit code. What a verb does stands
//! in its file under `verbs/`; nothing is decided here.

mod args;
mod client;
mod config;
mod earlier;
mod embedded;
mod equipment;
mod error;
mod faults;
mod files;
mod follow;
mod ground;
mod home;
mod kept;
mod notify;
mod order;
mod output;
mod owner;
mod paths;
mod runs;
mod session;
mod signals;
mod tail;
#[cfg(test)]
mod testing;
mod verbs;

use std::process::ExitCode;

use args::{Cli, Format};
use clap::{Parser, error::ErrorKind};
use error::{Error, Exit};

fn main() -> ExitCode {
    // The keeper stands between a node and an agent; it must be single-threaded from its first line.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "keeper") {
        return ensemble_agent::keeper::main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let format = cli.verb.format();
    ensemble_telemetry::init(std::env::var("ENSEMBLE_LOG").ok().as_deref());
    let fault = std::env::var(faults::VARIABLE).ok();
    let done = faults::install(fault.as_deref()).and_then(|()| verbs::perform(cli.verb));
    let exit = done.unwrap_or_else(|error| {
        output::fail(&error, format);
        error.exit()
    });
    ExitCode::from(exit as u8)
}

/// A command line that can't be parsed, or one that asks for help.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !is_help && wants_json() {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        output::fail(&Error::usage(what, "`ensemble --help` lists what there is"), Format::Json);
    } else {
        // Nobody left to read it is no reason for another exit code.
        let _ = error.print();
    }
    ExitCode::from(if is_help { Exit::Good } else { Exit::Usage } as u8)
}

/// Whether a command line that can't be parsed asks for JSON.
fn wants_json() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let split = words.windows(2).any(|pair| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json");
    split || words.iter().any(|word| word == "-ojson" || word == "-o=json" || word == "--output=json")
}
