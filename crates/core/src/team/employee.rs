//! Employees of a team file: inline, from a Markdown file, or both with the team file on top;
//! and the rules of S1 for their ids.

use std::collections::BTreeMap;

use super::{Backend, DEFAULT_TIMEOUT_MS, Employee, markdown, read::Include};
use crate::{
    ids::EmployeeId,
    plan,
    source::{Findings, Spot, Value, shown},
};

/// What a Markdown file carries under `ensemble:`.
pub(super) const OWN_KEYS: [&str; 8] =
    ["id", "type", "backend", "instances", "slots", "timeout", "max_attempts", "keep_ignored"];

const KEYS: [&str; 12] = [
    "id",
    "name",
    "description",
    "type",
    "prompt",
    "backend",
    "instances",
    "slots",
    "timeout",
    "max_attempts",
    "keep_ignored",
    "use",
];

const DEFAULT_KEYS: [&str; 6] = ["backend", "instances", "slots", "timeout", "max_attempts", "keep_ignored"];

/// Most instances, and most attempts at once of each: more than one machine carries.
const POOL_LIMIT: u64 = 1000;

/// Longest prompt in bytes: what a brief holds.
pub(super) const PROMPT_LIMIT: usize = 256 * 1024;

/// The one id that means the coordinator.
const RESERVED: &str = "parent";

/// What one source says about an employee.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub id: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub agent_type: Option<String>,
    pub prompt: Option<String>,
    pub backend: Option<Backend>,
    pub instances: Option<u32>,
    pub slots: Option<u32>,
    pub timeout_ms: Option<u64>,
    pub max_attempts: Option<u32>,
    pub keep_ignored: Option<bool>,
}

impl Layer {
    /// What the mapping at `spot` says; of its keys only `known` ones may stand there.
    pub fn read(spot: &Spot<'_>, known: &[&str], dir: &str, findings: &mut Findings) -> Self {
        if !spot.mapping(known, findings) {
            return Self::default();
        }
        let mut count = |key| {
            let number = spot.get(key).and_then(|number| number.integer(1, POOL_LIMIT, findings));
            number.and_then(|number| u32::try_from(number).ok())
        };
        let (instances, slots) = (count("instances"), count("slots"));
        Self {
            id: spot.get("id").and_then(|id| id.word(findings)),
            name: spot.get("name").and_then(|text| text.some_text(findings)),
            description: spot.get("description").and_then(|text| text.text(findings)),
            agent_type: spot.get("type").and_then(|text| text.some_text(findings)),
            prompt: spot.get("prompt").and_then(|text| prompt(&text, findings)),
            backend: spot.get("backend").and_then(|one| super::backend::read(&one, dir, findings)),
            instances,
            slots,
            timeout_ms: spot.get("timeout").and_then(|time| time.duration(findings)),
            max_attempts: spot.get("max_attempts").and_then(|number| plan::attempts(&number, findings)),
            keep_ignored: spot.get("keep_ignored").and_then(|word| word.boolean(findings)),
        }
    }

    /// The defaults of a team file.
    pub fn defaults(spot: &Spot<'_>, dir: &str, findings: &mut Findings) -> Self {
        Self::read(spot, &DEFAULT_KEYS, dir, findings)
    }

    /// This, and where it says nothing, `base`.
    pub fn over(self, base: Self) -> Self {
        Self {
            id: self.id.or(base.id),
            name: self.name.or(base.name),
            description: self.description.or(base.description),
            agent_type: self.agent_type.or(base.agent_type),
            prompt: self.prompt.or(base.prompt),
            backend: self.backend.or(base.backend),
            instances: self.instances.or(base.instances),
            slots: self.slots.or(base.slots),
            timeout_ms: self.timeout_ms.or(base.timeout_ms),
            max_attempts: self.max_attempts.or(base.max_attempts),
            keep_ignored: self.keep_ignored.or(base.keep_ignored),
        }
    }
}

/// A prompt or other text that goes into a brief.
pub(super) fn prompt(spot: &Spot<'_>, findings: &mut Findings) -> Option<String> {
    let text = spot.text(findings)?;
    if text.len() > PROMPT_LIMIT {
        findings.error(
            spot,
            "too_long",
            format!("is longer than {PROMPT_LIMIT} bytes, more than a brief holds"),
        );
        return None;
    }
    Some(text)
}

/// The employee at `spot`, with `defaults` where it says nothing.
pub(super) fn read(
    spot: &Spot<'_>,
    defaults: &Layer,
    dir: &str,
    include: &Include<'_>,
    findings: &mut Findings,
) -> Option<Employee> {
    if !matches!(spot.node.value, Value::Map(_)) {
        let message = format!("must be a mapping with `id`, or `use: file.md`, not {}", spot.node.noun());
        findings.error(spot, "schema", message);
        return None;
    }
    let mut layer = Layer::read(spot, &KEYS, dir, findings);
    if let Some(file) = spot.get("use") {
        layer = layer.over(included(&file, dir, include, findings)?);
    }
    let id = id(spot, &layer, findings)?;
    if layer.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        findings.warn(
            spot,
            "no_description",
            format!("`{id}` has no description, by which coordinators choose"),
        );
    }
    Some(Employee {
        name: layer.name.unwrap_or_else(|| id.to_string()),
        description: layer.description.unwrap_or_default(),
        agent_type: layer.agent_type.unwrap_or_else(|| id.to_string()),
        prompt: layer.prompt.unwrap_or_default(),
        backend: layer.backend.or_else(|| defaults.backend.clone()),
        instances: layer.instances.or(defaults.instances).unwrap_or(1),
        slots: layer.slots.or(defaults.slots).unwrap_or(1),
        timeout_ms: layer.timeout_ms.or(defaults.timeout_ms).unwrap_or(DEFAULT_TIMEOUT_MS),
        max_attempts: layer.max_attempts.or(defaults.max_attempts),
        keep_ignored: layer.keep_ignored.or(defaults.keep_ignored).unwrap_or(false),
        id,
    })
}

fn included(spot: &Spot<'_>, dir: &str, include: &Include<'_>, findings: &mut Findings) -> Option<Layer> {
    let path = spot.some_text(findings)?;
    match include(&path) {
        Ok(text) => {
            let mut inner = Findings::new(&path);
            let layer = markdown::read(&text, dir, &mut inner);
            findings.absorb(inner);
            layer
        }
        Err(why) => {
            findings.error(spot, "unreadable", format!("`{}` can't be read: {why}", shown(&path)));
            None
        }
    }
}

fn id(spot: &Spot<'_>, layer: &Layer, findings: &mut Findings) -> Option<EmployeeId> {
    if let Some(text) = &layer.id {
        let id = EmployeeId::new(text.as_str()).map_err(|malformed| {
            let at = spot.get("id").unwrap_or(*spot);
            let nearest = EmployeeId::slug_of(text).map(|id| id.to_string());
            let message = format!("`{}` is not an employee id: {}", shown(text), malformed.rule);
            findings.suggest(&at, "malformed_id", message, nearest);
        });
        return id.ok();
    }
    let Some(name) = &layer.name else {
        // A name that was there and no text has been reported already.
        if spot.get("name").is_none() && spot.get("id").is_none() {
            findings.error(
                &spot.missing("id"),
                "schema",
                "is missing, and there is no `name` to make it from",
            );
        }
        return None;
    };
    let at = spot.get("name").unwrap_or(*spot);
    let Some(id) = EmployeeId::slug_of(name) else {
        let message = format!("no id can be made from `{}`; add `id:`, such as `id: writer`", shown(name));
        findings.error(&at, "id_needed", message);
        return None;
    };
    if name.trim().chars().any(char::is_whitespace) {
        findings.warn(
            &at,
            "id_from_name",
            format!("the id is `{id}`, made from the name; references must say `{id}`"),
        );
    }
    Some(id)
}

/// No two ids equal or confusable, and none reserved.
pub(super) fn distinct<'e>(employees: impl Iterator<Item = (&'e str, Spot<'e>)>, findings: &mut Findings) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (id, spot) in employees {
        let own = spot.get("id");
        let spot = own.unwrap_or(spot);
        if id == RESERVED {
            findings.error(&spot, "reserved_id", "`parent` means the coordinator; choose another id");
        }
        match *seen.entry(skeleton(id)).or_insert(id) {
            first if std::ptr::eq(first, id) => {}
            first if first == id => {
                findings.error(&spot, "duplicate_id", format!("`{id}` is already an employee's id"));
            }
            first => {
                let message = format!("`{id}` is easily taken for `{first}`; choose another id");
                findings.error(&spot, "confusable_id", message);
            }
        }
    }
}

/// The same for ids that people take for each other.
fn skeleton(id: &str) -> String {
    id.chars()
        .map(|c| match c {
            '_' => '-',
            '0' => 'o',
            '1' => 'l',
            _ => c,
        })
        .collect()
}
