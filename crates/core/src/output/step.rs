//! One step of the loop coordinator (spec 1): whom to ask what, or the end.

use serde::{Deserialize, Serialize};

use super::{Accepted, Extract, Rejected, Shape, extract};
use crate::{
    ids::EmployeeId,
    source::{Findings, Kind, Spot, Value, shown},
};

/// What the coordinator wants next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStep {
    /// The employee that `message` is for; the user when there is none.
    pub name: Option<EmployeeId>,
    /// A task, a question or remark to the user, or the result.
    pub message: String,
    /// Whether the user's task is done; only ever without a name (S30).
    pub finished: bool,
}

const KEYS: [&str; 3] = ["name", "message", "finished"];

const STEP: Shape = Shape {
    keys: &KEYS,
    item_keys: &[],
    expected: "one JSON object {\"name\": employee or null, \"message\": text, \"finished\": true or false}",
};

/// The step in a coordinator's answer. `roster` holds the ids of the employees.
///
/// # Errors
/// Why nothing was taken.
pub fn loop_step(
    text: &str,
    finish_reason: Option<&str>,
    roster: &[&str],
) -> Result<Accepted<LoopStep>, Rejected> {
    let Extract { node, repaired } = extract(text, finish_reason, &STEP)?;
    let mut findings = Findings::new("answer");
    let step = read(&Spot::root(&node), roster, &mut findings);
    let (value, warnings) = findings.finish(step).map_err(Rejected::value)?;
    Ok(Accepted { json: node.to_json(), value, repaired, warnings })
}

fn read(spot: &Spot<'_>, roster: &[&str], findings: &mut Findings) -> Option<LoopStep> {
    if !spot.mapping(&KEYS, findings) {
        return None;
    }
    for key in KEYS.into_iter().filter(|key| spot.node.entry(key).is_none()) {
        findings.error(&spot.missing(key), "schema", "is missing");
    }
    let message = spot.get("message").map(|text| text.some_text(findings));
    if spot.node.entry("message").is_some() && message.is_none() {
        findings.error(&spot.missing("message"), "schema", "must be text, not null");
    }
    let finished = spot.node.entry("finished").and_then(|entry| match &entry.node.value {
        Value::Scalar(Kind::Bool, word) => Some(word == "true"),
        _ => {
            let message = format!("must be true or false, not {}", entry.node.noun());
            findings.error(&spot.missing("finished"), "schema", message);
            None
        }
    });
    let name = match spot.get("name") {
        Some(name) => Some(employee(&name, roster, findings)?),
        None => None,
    };
    if let (Some(name), Some(true)) = (&name, finished) {
        let message = format!("a task for `{name}` together with `finished: true`; send one or the other");
        findings.error(&spot.missing("finished"), "contradiction", message);
    }
    Some(LoopStep { name, message: message??, finished: finished? })
}

fn employee(spot: &Spot<'_>, roster: &[&str], findings: &mut Findings) -> Option<EmployeeId> {
    let text = spot.text(findings)?;
    if !roster.contains(&text.as_str()) {
        let nearest = findings.nearest(&text, roster.iter().copied());
        let message = format!("nobody is called `{}`; there are {}", shown(&text), roster.join(", "));
        findings.suggest(spot, "unknown_employee", message, nearest);
        return None;
    }
    EmployeeId::new(text).map_err(|malformed| findings.error(spot, "schema", malformed.to_string())).ok()
}
