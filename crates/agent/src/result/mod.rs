//! What an agent's turn comes to: its own words (result file, last `result` block or plain
//! output) weighed against how its process ended. Pure but for `read_file`. An agent's word is
//! not evidence: whether the files are there and the checks pass is seen elsewhere.

mod block;
mod claim;
mod file;

use std::collections::BTreeMap;

use ensemble_core::{
    outcome::{Ending, Outcome},
    text::{Text, clip},
};

use crate::turn::Exit;
use claim::Claim;
pub use file::read_file;

/// Longest result, in bytes; a longer one is refused, not cut.
pub const RESULT_LIMIT: usize = 1024 * 1024;
/// Longest summary that is taken from plain output, in bytes.
const WORDS_LIMIT: usize = 2048;
/// Lines of plain output that a summary is taken from, at most.
const WORDS_LINES: usize = 20;

/// What an agent's turn comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How it ended, with everything the agent said.
    pub outcome: Outcome,
    /// The files that it says it delivered. All paths are checked: those of contents refuse the
    /// result otherwise, references outside the repository are left out with a warning.
    pub outputs: BTreeMap<String, OutputValue>,
    /// What was odd but harmless, for people.
    pub warnings: Vec<String>,
}

/// What a result says of one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputValue {
    /// What the file shall hold, if the worktree does not have it: a text, or `{"contents": text}`.
    Contents(String),
    /// The file is there already, or elsewhere: `true`, `null`, an empty text, `{"ref": text}`, a
    /// URL, `@…`, an absolute path, or the path itself again. The text says where; it is
    /// never followed.
    Reference(String),
}

/// Weighs what the agent said. The result file counts first, then the last `result` block of
/// `stdout`, then the plain output. A failing exit beats a claim of success; a claim of success
/// that lists blockers asks for another round (S11); a result that can't be read is a failure.
#[must_use]
pub fn outcome(exit: &Exit, result_file: Option<&[u8]>, stdout: &[u8], stderr: &[u8]) -> Reading {
    let stdout = String::from_utf8_lossy(stdout);
    let block = block::last(&stdout);
    let claim = match (result_file, &block) {
        (Some(bytes), _) => Some(claim::parse("the result file", bytes)),
        (None, Some(block)) => Some(match &block.text {
            Ok(text) => claim::parse("the `result` block", text.as_bytes()),
            Err(why) => Err(why.clone()),
        }),
        (None, None) => None,
    };
    let plain = block.as_ref().map_or(&*stdout, |block| block.before);
    match claim {
        None => Reading::of(unclaimed(exit, plain, stderr)),
        Some(Err(why)) => Reading::of(broken(exit, &why, plain, stderr)),
        Some(Ok(claim)) => claimed(exit, claim, plain, stderr),
    }
}

impl Reading {
    fn of(outcome: Outcome) -> Self {
        Self { outcome, outputs: BTreeMap::new(), warnings: Vec::new() }
    }
}

/// Without a word of its own the exit status is what there is.
fn unclaimed(exit: &Exit, plain: &str, stderr: &[u8]) -> Outcome {
    match against(exit) {
        None => Outcome::new(Ending::Done, last_words(plain)),
        Some((ending, why)) => ended(ending, with_words(&why, plain, stderr), last_words(plain)),
    }
}

fn broken(exit: &Exit, why: &str, plain: &str, stderr: &[u8]) -> Outcome {
    match against(exit) {
        None => Outcome::failed(why),
        Some((ending, exit)) => {
            let mut outcome = ended(ending, with_words(&exit, plain, stderr), String::new());
            outcome.blockers.push(why.into());
            outcome
        }
    }
}

fn claimed(exit: &Exit, claim: Claim, plain: &str, stderr: &[u8]) -> Reading {
    let Claim { mut outcome, outputs, warnings } = claim;
    if outcome.summary.is_empty() {
        outcome.summary = last_words(plain).into();
    }
    match (against(exit), outcome.ending) {
        (None, Ending::Done) if !outcome.blockers.is_empty() => outcome.ending = Ending::Revise,
        // An agent may well end with a status that tells of the failure it reports.
        (None, _) | (Some((Ending::Failed, _)), Ending::Failed | Ending::Blocked)
            if !matches!(exit, Exit::TimedOut) => {}
        (Some((ending, why)), said) => {
            let said = format!("it said {}, but {}", word(said), with_words(&why, plain, stderr));
            outcome.ending = ending;
            outcome.blockers.insert(0, said.into());
        }
        (None, _) => {}
    }
    Reading { outcome, outputs, warnings }
}

/// What the exit says against success, if it does.
fn against(exit: &Exit) -> Option<(Ending, String)> {
    Some(match exit {
        Exit::Code(0) => return None,
        Exit::Code(code) => (Ending::Failed, format!("the agent ended with exit status {code}")),
        Exit::Signal(signal) => (Ending::Failed, format!("the agent was ended by signal {signal}")),
        Exit::TimedOut => (Ending::Failed, "the agent was stopped at its time limit".to_owned()),
        Exit::Cancelled => (Ending::Stopped, "the agent was stopped from outside".to_owned()),
        // Trying again would change nothing: a person must.
        Exit::NotStarted(why) => {
            let remedy =
                "install the program where the node finds it, or mend the employee's `command`; then retry";
            (Ending::Blocked, format!("the agent could not be started: {why}; {remedy}"))
        }
    })
}

fn ended(ending: Ending, why: String, words: String) -> Outcome {
    let mut outcome = Outcome::failed(why);
    outcome.ending = ending;
    if !words.is_empty() && ending == Ending::Stopped {
        outcome.summary = words.into();
    }
    outcome
}

/// `why`, and the last thing that the agent wrote on standard error, else on standard output.
fn with_words(why: &str, plain: &str, stderr: &[u8]) -> String {
    let stderr = last_words(&String::from_utf8_lossy(stderr));
    let words = if stderr.is_empty() { last_words(plain) } else { stderr };
    if words.is_empty() { why.to_owned() } else { format!("{why}; its last words:\n{words}") }
}

/// The last lines that say something, within the limit.
fn last_words(text: &str) -> String {
    let text = text.trim_end();
    let lines = text.rmatch_indices('\n').nth(WORDS_LINES - 1).map_or(0, |(at, _)| at + 1);
    let mut from = lines.max(text.len().saturating_sub(WORDS_LIMIT));
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].trim_start_matches('\n').to_owned()
}

fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Revise => "revise",
        Ending::Blocked => "blocked",
        Ending::Failed => "failed",
        Ending::Stopped => "stopped",
    }
}

/// Texts of an agent, clipped for a message.
fn shown(text: &str) -> &str {
    clip(text, 80)
}

/// `text`, unless there is nothing in it.
fn some_text(text: String) -> Option<Text> {
    (!text.trim().is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests;
