//! Model text to typed value, in the order of S28: stop reason, strict parse, reasoning blocks and
//! fences left aside, candidates, repair, schema. A cut-off answer is never repaired, valid text never
//! edited, and of two different answers none is chosen. What to do about a refusal is the caller's.

mod candidates;
mod lenient;
mod step;

use serde_json::Value as Json;

use crate::{
    plan::{self, Plan, Staff},
    source::{self, Finding, Findings, Kind, Node, SIZE_LIMIT, Severity, Value},
};
use candidates::Scan;
pub use step::{LoopStep, loop_step};

/// What was taken out of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted<T> {
    /// The value.
    pub value: T,
    /// The same as JSON with the keys that the model wrote, in its order.
    pub json: Json,
    /// The JSON text that was taken, when that is not the whole answer as it came.
    pub repaired: Option<String>,
    /// What a person should look at.
    pub warnings: Vec<Finding>,
}

/// Why nothing was taken, in words that can go back to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Rejected {
    /// A short, stable word: `no_json`, `truncated`, `ambiguous`, `schema`, `unknown_field`, `depth`,
    /// `reasoning_unclosed`, `too_large`, or the code of the first finding.
    pub code: String,
    /// What is wrong and what is expected: all of it.
    pub message: String,
    /// The findings behind a refused value.
    pub findings: Vec<Finding>,
}

impl Rejected {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), findings: Vec::new() }
    }

    /// A value that was understood and may not be taken. A broken shape comes first: what else is
    /// wrong is often its consequence.
    fn value(findings: Vec<Finding>) -> Self {
        let errors = || findings.iter().filter(|one| one.severity == Severity::Error);
        let codes = || errors().map(|one| public_code(&one.code));
        let code = ["schema", "unknown_field"].into_iter().find(|wanted| codes().any(|code| code == *wanted));
        let code = code.or_else(|| codes().next()).unwrap_or("schema").to_owned();
        let said: Vec<String> = errors().map(said).collect();
        Self { code, message: said.join("; "), findings }
    }
}

/// A finding without file and line, which a model's answer does not have.
fn said(finding: &Finding) -> String {
    let hint =
        finding.suggestion.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    match finding.field.as_str() {
        "" => format!("{}{hint}", finding.message),
        field => format!("{field}: {}{hint}", finding.message),
    }
}

/// The code that programs see: what only says how a value is misshapen is `schema`.
fn public_code(code: &str) -> &str {
    match code {
        "malformed_id" | "bad_duration" | "too_long" | "duplicate_key" | "json" | "too_many_tasks" => {
            "schema"
        }
        _ => code,
    }
}

/// Stop reasons, in lower case, by which models and their servers say that an answer was cut off.
const CUT_OFF: [&str; 8] = [
    "length",
    "max_tokens",
    "max_output_tokens",
    "model_length",
    "incomplete",
    "content_filter",
    "safety",
    "model_context_window_exceeded",
];

/// How the wanted value is told from other JSON in an answer.
struct Shape {
    /// The keys of which it has at least one.
    keys: &'static [&'static str],
    /// Keys that the mappings of a bare list have, where a list is taken too.
    item_keys: &'static [&'static str],
    /// What is expected, for messages.
    expected: &'static str,
}

const PLAN: Shape = Shape {
    keys: &["sub_tasks"],
    item_keys: &["id", "description"],
    expected: "one JSON object with `sub_tasks`, each with `id` and `description`",
};

/// The plan in a model's answer. `finish_reason` is the model's stop reason; agent types and employees
/// are left out of account without `staff`.
///
/// # Errors
/// Why nothing was taken.
pub fn plan(
    text: &str,
    finish_reason: Option<&str>,
    staff: Option<&Staff>,
) -> Result<Accepted<Plan>, Rejected> {
    let Extract { node, repaired } = extract(text, finish_reason, &PLAN)?;
    let node = plan_shape(node);
    let (value, warnings) =
        plan::from_tree(&node, staff, Findings::new("answer")).map_err(Rejected::value)?;
    let foreign = value.sub_tasks.iter().flat_map(|task| task.checks.iter().map(move |check| (task, check)));
    for (task, check) in foreign {
        if staff.is_some_and(|staff| !staff.allows_check(check)) {
            let shown = source::shown(check);
            let message = format!(
                "`{}`: the team file has no check `{shown}`, and a plan may not bring its own",
                task.id
            );
            return Err(Rejected::new("unknown_check", message));
        }
    }
    Ok(Accepted { json: node.to_json(), value, repaired, warnings })
}

/// JSON out of an answer, of the wanted shape as far as its keys tell.
struct Extract {
    node: Node,
    repaired: Option<String>,
}

fn extract(text: &str, finish_reason: Option<&str>, shape: &Shape) -> Result<Extract, Rejected> {
    let reason = finish_reason.unwrap_or_default().to_ascii_lowercase();
    if CUT_OFF.contains(&reason.as_str()) {
        return Err(truncated(&format!("the answer was cut off (stop reason `{reason}`)")));
    }
    if text.len() > SIZE_LIMIT {
        return Err(Rejected::new(
            "too_large",
            format!("the answer has {} bytes, more than {SIZE_LIMIT}", text.len()),
        ));
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with(['{', '[']) {
        match source::parse_json(text) {
            Ok(node) if has_shape(&node, shape) => return Ok(Extract { node, repaired: None }),
            Ok(_) => {}
            Err(problem) if problem.code == "json" || problem.code == "several_documents" => {}
            Err(problem) => return Err(Rejected::new(public_code(problem.code), problem.message)),
        }
    }
    choose(candidates::scan(text, shape.keys)?, text, shape)
}

fn truncated(what: &str) -> Rejected {
    Rejected::new("truncated", format!("{what}; answer again, shorter, with the whole JSON"))
}

/// The one candidate that has the wanted shape.
fn choose(scan: Scan, text: &str, shape: &Shape) -> Result<Extract, Rejected> {
    if scan.truncated {
        return Err(truncated("the JSON ends in the middle"));
    }
    if let Some(why) = scan.broken {
        return Err(unreadable(&why));
    }
    let mut fitting: Vec<(Node, Json, String)> = Vec::new();
    let mut other = None;
    for candidate in scan.candidates {
        let node = source::parse_json(&candidate)
            .map_err(|problem| Rejected::new(public_code(problem.code), problem.message))?;
        let json = node.to_json();
        if !has_shape(&node, shape) {
            other = other.or(Some(node).filter(may_be_meant));
        } else if fitting.iter().all(|(_, known, _)| *known != json) {
            fitting.push((node, json, candidate));
        }
        if fitting.len() > 1 {
            let message = format!("the answer holds several different values; send {}", shape.expected);
            return Err(Rejected::new("ambiguous", message));
        }
    }
    match (fitting.pop(), other, scan.doubt) {
        // Inside of something that can't be read, a list is only a part of what was meant.
        (Some((Node { value: Value::List(_), .. }, ..)), _, Some(why)) => Err(unreadable(&why)),
        (Some((node, _, taken)), ..) => Ok(Extract { node, repaired: (taken != text).then_some(taken) }),
        (None, Some(node), _) => Ok(Extract { node, repaired: None }),
        (None, None, _) => {
            Err(Rejected::new("no_json", format!("the answer holds no such JSON; send {}", shape.expected)))
        }
    }
}

fn unreadable(why: &str) -> Rejected {
    Rejected::new("schema", format!("the JSON can't be read: {why}"))
}

/// Whether a value without the wanted keys may be a failed try at it, and no remark in brackets.
fn may_be_meant(node: &Node) -> bool {
    match &node.value {
        Value::Map(entries) => !entries.is_empty(),
        Value::List(items) => items.iter().any(|item| matches!(item.value, Value::Map(_))),
        Value::Scalar(..) => false,
    }
}

fn has_shape(node: &Node, shape: &Shape) -> bool {
    match &node.value {
        Value::Map(_) => shape.keys.iter().any(|key| node.entry(key).is_some()),
        Value::List(items) => {
            let fits = |item: &Node| shape.item_keys.iter().any(|key| item.entry(key).is_some());
            !items.is_empty() && items.iter().all(fits)
        }
        Value::Scalar(..) => false,
    }
}

/// Lists of a task that a model may write as null or as a single text.
const LISTS: [&str; 6] =
    ["dependencies", "outputs", "acceptance_criteria", "checks", "exclusive", "consumes"];

/// The plan as it is meant: a bare list is its tasks; null and a single text stand for a list; ids are
/// text. Only what means the same is changed.
fn plan_shape(node: Node) -> Node {
    let place = node.place;
    let mut node = match node.value {
        Value::List(_) => {
            let entry = source::Entry { key: "sub_tasks".to_owned(), place, node };
            Node { value: Value::Map(vec![entry]), place }
        }
        _ => node,
    };
    let Some(tasks) = node.entry_mut("sub_tasks") else { return node };
    let Value::List(tasks) = &mut tasks.value else { return node };
    for task in tasks {
        if let Some(id) = task.entry_mut("id") {
            number_to_text(id);
        }
        if let Some(ids) = task.entry_mut("dependencies") {
            number_to_text(ids);
            if let Value::List(ids) = &mut ids.value {
                ids.iter_mut().for_each(number_to_text);
            }
        }
        for key in LISTS {
            if let Some(list) = task.entry_mut(key) {
                to_list(list);
            }
        }
    }
    node
}

fn number_to_text(node: &mut Node) {
    if let Value::Scalar(kind @ Kind::Number, _) = &mut node.value {
        *kind = Kind::Text;
    }
}

fn to_list(node: &mut Node) {
    match &node.value {
        Value::Scalar(Kind::Null, _) => node.value = Value::List(Vec::new()),
        Value::Scalar(Kind::Text, _) => {
            let item = node.clone();
            node.value = Value::List(vec![item]);
        }
        Value::Scalar(..) | Value::List(_) | Value::Map(_) => {}
    }
}

#[cfg(test)]
mod tests;
