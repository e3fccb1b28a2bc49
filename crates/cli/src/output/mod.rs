//! What people and programs see: results on standard output, everything else on standard error.
//! The functions below that write; how things read is said in the modules.

mod json;
mod lines;
mod progress;
mod report;
mod summary;
mod table;
mod text;

use std::io::{self, IsTerminal, Write};

pub use json::{
    Home, check_object, detached_object, diff_object, doctor_object, event_object, init_object,
    notice_object, plan_object, prune_object, ps_object, run_object, run_object_beside, wait_object,
};
pub use lines::Narrator;
pub use progress::Screen;
pub use report::{Standing, Tally, report, report_object};
pub use summary::{Into, fetched, show, summary};
pub use table::table;
pub use text::{ago, bytes, count, now_ms, one_line, printable, short};

use crate::{
    args::Format,
    error::{DoingTo, Error},
};

/// Writes a result to standard output, with a line end.
///
/// # Errors
/// [`Error::Closed`] when nobody reads it any more.
pub fn result(text: &str) -> Result<(), Error> {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    raw(text.as_bytes())
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// [`Error::Closed`] when nobody reads it any more.
pub fn raw(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Error::Closed),
        done => done.doing_to("write to", "standard output"),
    }
}

/// Writes what an agent wrote to standard output: as it is for a file or a program, made harmless for
/// a terminal.
///
/// # Errors
/// [`Error::Closed`] when nobody reads it any more.
pub fn transcript(bytes: &[u8]) -> Result<(), Error> {
    if !io::stdout().is_terminal() {
        return raw(bytes);
    }
    raw(printable(&String::from_utf8_lossy(bytes)).as_bytes())
}

/// Says something beside the result, on standard error; that nobody listens is no reason to stop.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Says why a verb ends without success.
pub fn fail(error: &Error, format: Format) {
    match (error, format) {
        (Error::Closed, _) => {}
        (_, Format::Json) => say(&error.to_json().to_string()),
        (_, Format::Table) => {
            if let Error::Files(findings) = error {
                findings.iter().for_each(|finding| say(&finding.to_string()));
            }
            say(&format!("error: {}", one_line(&error.to_string())));
        }
    }
}
