//! A task result as an agent writes it (spec 3, Task result): JSON to `Claim`. Every refusal names
//! the source, the line and the field. Unknown fields are warned about, never fatal; what the
//! claim is worth is decided elsewhere.

use std::collections::BTreeMap;

use ensemble_core::{
    outcome::{Ending, Outcome, Usage},
    plan::path,
    text::Text,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use super::{OutputValue, RESULT_LIMIT, shown, some_text};

/// What an agent claims.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) outcome: Outcome,
    pub(super) outputs: BTreeMap<String, OutputValue>,
    pub(super) warnings: Vec<String>,
}

/// Reads a claim; `source` names it in messages.
///
/// # Errors
/// Why it can't be taken, in one line.
pub(super) fn parse(source: &str, bytes: &[u8]) -> Result<Claim, String> {
    if bytes.len() > RESULT_LIMIT {
        return Err(format!(
            "{source} has more than {RESULT_LIMIT} bytes; put large texts into files of the worktree"
        ));
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(format!("{source} is empty; write a JSON object with a `status`, or nothing at all"));
    }
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|error| format!("{source} is not a JSON object: {error}"))?;
    let mut reader = Reader { source, text, warnings: Vec::new(), unsaid: 0 };
    let outcome = reader.outcome(&fields)?;
    let outputs = reader.outputs(&fields)?;
    reader.warn_of_unknown(&fields);
    if reader.unsaid > 0 {
        reader.warnings.push(format!("{source}: {} more warnings", reader.unsaid));
    }
    Ok(Claim { outcome, outputs, warnings: reader.warnings })
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

const KNOWN: &[&str] =
    &["status", "task_id", "summary", "outputs", "artifacts", "messages", "blockers", "usage"];
/// Most warnings on one result: looking up a line takes time, and nobody reads more.
const WARNINGS_LIMIT: usize = 20;
const STATUS: &str = "one of SUCCESS, FAILED, BLOCKED, done, revise, blocked, failed";

struct Reader<'a> {
    source: &'a str,
    text: &'a str,
    warnings: Vec<String>,
    /// Warnings beyond the limit.
    unsaid: usize,
}

impl Reader<'_> {
    fn warn(&mut self, warning: impl FnOnce(&Self) -> String) {
        if self.warnings.len() < WARNINGS_LIMIT {
            self.warnings.push(warning(self));
        } else {
            self.unsaid += 1;
        }
    }

    fn outcome(&mut self, fields: &Fields<'_>) -> Result<Outcome, String> {
        let Some(raw) = fields.get("status") else {
            return Err(format!("{}: field `status` is missing; it must be {STATUS}", self.source));
        };
        let status: Option<String> = self.field(fields, "status", STATUS)?;
        let ending = match status.unwrap_or_default().to_ascii_lowercase().as_str() {
            "success" | "done" => Ending::Done,
            "revise" => Ending::Revise,
            "blocked" => Ending::Blocked,
            "failed" => Ending::Failed,
            other => {
                let wrong = format!("is `{}`, but must be {STATUS}", shown(other));
                return Err(self.at(raw, "status", &wrong));
            }
        };
        let summary: Option<String> = self.field(fields, "summary", "a text")?;
        let mut outcome = Outcome::new(ending, summary.unwrap_or_default());
        outcome.artifacts = self.field(fields, "artifacts", "an object")?.unwrap_or_default();
        outcome.messages = self.texts(fields, "messages")?;
        outcome.blockers = self.texts(fields, "blockers")?;
        outcome.usage = self.usage(fields);
        Ok(outcome)
    }

    /// A list of texts. A single text stands for a list of one; anything else in it is kept as
    /// JSON: a remark in an odd shape is still a remark.
    fn texts(&mut self, fields: &Fields<'_>, name: &str) -> Result<Vec<Text>, String> {
        let texts = match self.field(fields, name, "a list of texts")? {
            None => Vec::new(),
            Some(Value::Array(items)) => items.into_iter().map(plain).collect(),
            Some(text @ Value::String(_)) => vec![plain(text)],
            Some(_) => {
                let raw = fields.get(name).map_or("", |raw| raw.get());
                return Err(self.at_text(raw, name, "must be a list of texts"));
            }
        };
        Ok(texts.into_iter().filter_map(some_text).collect())
    }

    /// Usage is for statistics only, so an odd one is left out.
    fn usage(&mut self, fields: &Fields<'_>) -> Usage {
        let read =
            self.field(fields, "usage", "an object with total_tokens, tool_uses, duration_ms in numbers");
        read.map(Option::unwrap_or_default).unwrap_or_else(|why| {
            self.warn(|_| format!("{why}; left out"));
            Usage::default()
        })
    }

    fn outputs(&mut self, fields: &Fields<'_>) -> Result<BTreeMap<String, OutputValue>, String> {
        let Some(said): Option<Fields<'_>> = self.object(fields, "outputs")? else {
            return Ok(BTreeMap::new());
        };
        let mut outputs = BTreeMap::new();
        for (name, raw) in &said {
            let field = format!("outputs{}", key(name));
            let value = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
            let Some(value) = self.output(name, value) else {
                return Err(self.at(raw, &field, "must be a text, {\"contents\": text} or {\"ref\": text}"));
            };
            match (path::check(name), &value) {
                (Ok(()), _) => {
                    outputs.insert(name.clone(), value);
                }
                (Err(bad), OutputValue::Contents(_)) => return Err(self.at(raw, &field, &format!("{bad}"))),
                (Err(bad), OutputValue::Reference(_)) => {
                    self.warn(|reader| reader.at(raw, &field, &format!("{bad}; left out")));
                }
            }
        }
        Ok(outputs)
    }

    fn output(&mut self, name: &str, value: Value) -> Option<OutputValue> {
        Some(match value {
            Value::Null | Value::Bool(_) => OutputValue::Reference(name.to_owned()),
            Value::String(text) if is_reference(name, &text) => OutputValue::Reference(text),
            Value::String(text) => {
                if !text.contains('\n') {
                    self.warn(|reader| {
                        format!(
                            "{}: `outputs{}` is one line and is taken for the file's contents; write {{\"ref\": …}} \
                             for a reference",
                            reader.source,
                            key(name)
                        )
                    });
                }
                OutputValue::Contents(text)
            }
            Value::Object(mut object) => {
                let mut text = |key: &str| object.get_mut(key).map(Value::take);
                match (
                    text("contents").or_else(|| text("content")),
                    text("ref").or_else(|| text("reference")),
                ) {
                    (Some(Value::String(text)), None) => OutputValue::Contents(text),
                    (None, Some(Value::String(text))) => OutputValue::Reference(text),
                    _ => return None,
                }
            }
            Value::Array(_) | Value::Number(_) => return None,
        })
    }

    fn warn_of_unknown(&mut self, fields: &Fields<'_>) {
        for (name, raw) in fields.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str())) {
            self.warn(|reader| reader.at(raw, shown(name), "is not a field of a result; ignored"));
        }
    }

    /// A field of a type; `None` when it is missing or null.
    fn field<T: DeserializeOwned>(
        &self,
        fields: &Fields<'_>,
        name: &str,
        shape: &str,
    ) -> Result<Option<T>, String> {
        let Some(raw) = fields.get(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|_| self.at(raw, name, &format!("must be {shape}")))
    }

    fn object<'a>(&self, fields: &Fields<'a>, name: &str) -> Result<Option<Fields<'a>>, String> {
        let Some(raw) = fields.get(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|_| self.at(raw, name, "must be an object of paths"))
    }

    fn at(&self, raw: &RawValue, field: &str, what: &str) -> String {
        self.at_text(raw.get(), field, what)
    }

    /// A message with the line on which `raw`, a part of our text, begins.
    fn at_text(&self, raw: &str, field: &str, what: &str) -> String {
        let offset = (raw.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let line = 1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        format!("{}, line {line}, field `{field}` {what}", self.source)
    }
}

/// Whether a text plainly says where the file is instead of what it holds.
fn is_reference(name: &str, text: &str) -> bool {
    let text = text.trim();
    let one_word = !text.contains(char::is_whitespace);
    let elsewhere = ["@", "/", "file:", "http:", "https:"].iter().any(|start| text.starts_with(start));
    text.is_empty() || text.strip_prefix("./").unwrap_or(text) == name || (one_word && elsewhere)
}

/// A key as it follows the name of its object: `.a`, or `["../a"]` where dots would be misread.
fn key(name: &str) -> String {
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if is_word { format!(".{}", shown(name)) } else { format!("[\"{}\"]", shown(name)) }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
