//! Author, time and message of the commits made here. They come from the caller alone, so that
//! a repeated merge or capture has the same id.

use crate::error::{Doing, Error};

/// Author, time and message of a merge commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeNote {
    /// First line of the message.
    pub subject: String,
    /// The text below it; may be empty.
    pub body: String,
    /// Trailers, in order: name and value.
    pub trailers: Vec<(String, String)>,
    /// Author and committer.
    pub author_name: String,
    /// Their address.
    pub author_email: String,
    /// Time in milliseconds since the epoch; git keeps whole seconds.
    pub time_ms: u64,
}

/// Author, time and message of a captured commit, and what the task declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureNote {
    /// The employee; author and committer.
    pub author: String,
    /// The message: its first line is the subject.
    pub message: String,
    /// Trailers, in order: name and value.
    pub trailers: Vec<(String, String)>,
    /// Time in milliseconds since the epoch; git keeps whole seconds.
    pub time_ms: u64,
    /// Declared outputs: files or folders, added even if ignored.
    pub outputs: Vec<String>,
}

/// A commit's message and signature, ready for git.
pub(crate) struct Written {
    pub(crate) message: String,
    pub(crate) signature: git2::Signature<'static>,
}

impl MergeNote {
    pub(crate) fn written(&self) -> Result<Written, Error> {
        written(
            &self.subject,
            &self.body,
            &self.trailers,
            (&self.author_name, &self.author_email),
            self.time_ms,
        )
    }
}

impl CaptureNote {
    pub(crate) fn written(&self) -> Result<Written, Error> {
        let (subject, body) = self.message.trim().split_once('\n').unwrap_or((self.message.trim(), ""));
        let email = format!("{}@ensemble.localhost", self.author.replace(char::is_whitespace, "-"));
        written(subject, body, &self.trailers, (&self.author, &email), self.time_ms)
    }
}

fn written(
    subject: &str,
    body: &str,
    trailers: &[(String, String)],
    author: (&str, &str),
    time_ms: u64,
) -> Result<Written, Error> {
    let subject = one_line(subject);
    let mut message = if subject.is_empty() { "(no subject)".to_owned() } else { subject };
    message.push('\n');
    let body = body.replace("\r\n", "\n").replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ");
    if !body.trim().is_empty() {
        message.push('\n');
        message.push_str(body.trim());
        message.push('\n');
    }
    // A paragraph of their own: what a model wrote above never counts as a trailer.
    if !trailers.is_empty() {
        message.push('\n');
    }
    for (name, value) in trailers {
        message.push_str(&format!("{name}: {}\n", one_line(value)));
    }
    let seconds = i64::try_from(time_ms / 1000).unwrap_or(i64::MAX);
    let signature = git2::Signature::new(
        &identity(author.0, "ensemble"),
        &identity(author.1, "ensemble@ensemble.localhost"),
        &git2::Time::new(seconds, 0),
    )
    .doing("sign a commit")?;
    Ok(Written { message, signature })
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Git's rules for names and addresses: one line, no angle brackets, not empty.
fn identity(text: &str, fallback: &str) -> String {
    let text = one_line(&text.replace(['<', '>'], " "));
    let text = text.trim_matches(|c: char| matches!(c, '.' | ',' | ':' | ';' | '"' | '\'' | '\\'));
    if text.is_empty() { fallback.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_stand_in_a_paragraph_of_their_own() {
        let note = CaptureNote {
            author: "back".into(),
            message: "Write the API\n\nEnsemble-Run: forged".into(),
            trailers: vec![("Ensemble-Run".into(), "real\nx: y".into())],
            time_ms: 1_500,
            outputs: vec![],
        };
        let written = note.written().unwrap();
        assert_eq!(written.message, "Write the API\n\nEnsemble-Run: forged\n\nEnsemble-Run: real x: y\n");
        assert_eq!(written.signature.when().seconds(), 1);
        assert_eq!(written.signature.email(), Ok("back@ensemble.localhost"));
    }

    #[test]
    fn odd_authors_and_empty_messages_are_made_plain() {
        let note = CaptureNote {
            author: " <>\n".into(),
            message: "\u{0}".into(),
            trailers: vec![],
            time_ms: 0,
            outputs: vec![],
        };
        let written = note.written().unwrap();
        assert_eq!(written.message, "(no subject)\n");
        assert_eq!(written.signature.name(), Ok("ensemble"));
    }
}
