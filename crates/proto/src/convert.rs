//! Small values: ids, keys, texts, changes. What comes from the wire is checked here, once.

use std::str::FromStr;

use ensemble_core::{
    ids::{AttemptNumber, CheckNumber, Seq},
    link::AttemptKey,
    outcome::{Changes, Delivery, Usage},
    run::fact::SourceFile,
    text::Text,
};

use crate::v1;

/// A message that breaks the protocol; repeating it is useless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {field} {what}")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl Malformed {
    pub(crate) fn missing(field: &'static str) -> Self {
        Self { field, what: "is missing".to_owned() }
    }

    pub(crate) fn wrong(field: &'static str, what: impl ToString) -> Self {
        Self { field, what: what.to_string() }
    }
}

pub(crate) fn parse<T: FromStr>(field: &'static str, text: &str) -> Result<T, Malformed>
where
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| Malformed::wrong(field, error))
}

pub(crate) fn need<T>(field: &'static str, value: Option<T>) -> Result<T, Malformed> {
    value.ok_or_else(|| Malformed::missing(field))
}

/// The key of an attempt or a check.
///
/// # Errors
/// [`Malformed`] when an id in it is none.
pub fn attempt_key(wire: &v1::AttemptKey) -> Result<AttemptKey, Malformed> {
    Ok(AttemptKey {
        run: parse("key.run", &wire.run)?,
        task: wire.task.as_deref().map(|task| parse("key.task", task)).transpose()?,
        attempt: AttemptNumber(wire.attempt),
        check: wire.check.map(CheckNumber),
        token: Seq(wire.token),
    })
}

/// The key of an attempt or a check, for the wire.
#[must_use]
pub fn wire_key(key: &AttemptKey) -> v1::AttemptKey {
    v1::AttemptKey {
        run: key.run.to_string(),
        task: key.task.as_ref().map(ToString::to_string),
        attempt: key.attempt.0,
        check: key.check.map(|check| check.0),
        token: key.token.0,
    }
}

/// A user's file.
#[must_use]
pub fn source_file(wire: v1::SourceFile) -> SourceFile {
    SourceFile { name: wire.name, dir: wire.dir, text: Text::Inline(wire.text) }
}

/// A user's file, for the wire; its text must be inline.
#[must_use]
pub fn wire_source_file(file: &SourceFile) -> v1::SourceFile {
    v1::SourceFile { name: file.name.clone(), dir: file.dir.clone(), text: file.text.head().to_owned() }
}

pub(crate) fn text(wire: v1::Text) -> Result<Text, Malformed> {
    Ok(match wire.r#where {
        None => Text::default(),
        Some(v1::text::Where::Inline(text)) => Text::Inline(text),
        Some(v1::text::Where::Blob(blob)) => {
            Text::Blob { blob: parse("text.blob", &blob.blob)?, bytes: blob.bytes, head: blob.head }
        }
    })
}

pub(crate) fn texts(wire: Vec<v1::Text>) -> Result<Vec<Text>, Malformed> {
    wire.into_iter().map(text).collect()
}

pub(crate) fn wire_text(text: &Text) -> v1::Text {
    let place = match text {
        Text::Inline(text) => v1::text::Where::Inline(text.clone()),
        Text::Blob { blob, bytes, head } => {
            v1::text::Where::Blob(v1::BlobText { blob: blob.to_string(), bytes: *bytes, head: head.clone() })
        }
    };
    v1::Text { r#where: Some(place) }
}

pub(crate) fn delivery(wire: v1::Delivery) -> Result<Delivery, Malformed> {
    let changes = wire.changes.unwrap_or_default();
    Ok(Delivery {
        commit: parse("delivery.commit", &wire.commit)?,
        changes: Changes {
            files: changes.files,
            added: changes.added,
            removed: changes.removed,
            paths: changes.paths,
        },
    })
}

pub(crate) fn wire_delivery(delivery: &Delivery) -> v1::Delivery {
    let Changes { files, added, removed, paths } = delivery.changes.clone();
    v1::Delivery {
        commit: delivery.commit.to_string(),
        changes: Some(v1::Changes { files, added, removed, paths }),
    }
}

pub(crate) fn usage(wire: v1::Usage) -> Usage {
    Usage { total_tokens: wire.total_tokens, tool_uses: wire.tool_uses, duration_ms: wire.duration_ms }
}

pub(crate) fn wire_usage(usage: Usage) -> v1::Usage {
    v1::Usage { total_tokens: usage.total_tokens, tool_uses: usage.tool_uses, duration_ms: usage.duration_ms }
}
