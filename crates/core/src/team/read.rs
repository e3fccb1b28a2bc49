//! A team file (or `role.yaml`) out of its text. Pure: what other files hold is asked of a function.
//! The file is taken whole or refused whole (S2); what later versions follow is read with a warning.

use std::collections::BTreeSet;

use super::{
    Budget, CoordinatorSpec, Employee, Gate, Group, PlanChecks, Policy, Strategy, Team, backend,
    employee::{self, Layer, prompt},
};
use crate::{
    ids::{EmployeeId, ProjectId, TeamId},
    source::{self, Choice, Findings, Node, Reading, Spot, Value, shown},
    text::INLINE_TEXT_LIMIT,
};

/// Gives the text of a file that a team file names by `use:`, or why it can't be read.
pub type Include<'i> = dyn Fn(&str) -> Result<String, String> + 'i;

const KEYS: [&str; 15] = [
    "name",
    "description",
    "prompt",
    "conventions",
    "coordinator",
    "defaults",
    "employees",
    "subagents",
    "teams",
    "checks",
    "gate",
    "plan_checks",
    "budget",
    "remote",
    "collaboration",
];

const STRATEGIES: &Choice<Strategy> = &[
    ("plan", Strategy::Plan),
    ("loop", Strategy::Loop),
    ("graph", Strategy::Graph),
    ("delegate", Strategy::Delegate),
];
const GATES: &Choice<Gate> = &[("end", Gate::End), ("each", Gate::Each)];
const PLAN_CHECKS: &Choice<PlanChecks> = &[("refuse", PlanChecks::Refuse), ("allow", PlanChecks::Allow)];
const POLICIES: &Choice<Policy> = &[("broadcast", Policy::Broadcast), ("lead", Policy::Lead)];

/// Reads and checks a team file. `dir` stands for `${TEAM_DIR}`; `include` reads files named by `use:`, and
/// `definitions`: files that define an employee each by lying where definitions lie. Those that `use:` names
/// too are read once.
///
/// # Errors
/// All findings, when any of them is an error.
pub fn read(
    file_name: &str,
    text: &str,
    dir: &str,
    include: &Include<'_>,
    definitions: &[&str],
) -> Reading<Team> {
    let mut findings = Findings::new(file_name);
    let Some(tree) = source::parse(text, &mut findings) else { return findings.finish(None) };
    let root = Spot::root(&tree);
    if !root.mapping(&KEYS, &mut findings) {
        return findings.finish(None);
    }
    let name = name(&root, &mut findings);
    let lying = lying(definitions);
    let employees = employees(&root, &lying, dir, include, &mut findings);
    // Where an employee could not be read, nobody can say that a member is unknown.
    let complete = !findings.refused();
    let team = Team {
        description: text_of(&root, "description", &mut findings),
        conventions: text_of(&root, "conventions", &mut findings),
        coordinator: coordinator(&root, dir, &mut findings),
        teams: groups(&root, &employees, complete, &mut findings),
        employees,
        checks: checks(&root, &mut findings),
        gate: choice(&root, "gate", GATES, &mut findings),
        plan_checks: choice(&root, "plan_checks", PLAN_CHECKS, &mut findings),
        budget: root.get("budget").map(|spot| budget(&spot, &mut findings)).unwrap_or_default(),
        remote: root.get("remote").and_then(|spot| spot.some_text(&mut findings)),
        has_collaboration: collaboration(&root, &mut findings),
        name: match name {
            Some(name) => name,
            None => return findings.finish(None),
        },
    };
    findings.finish(Some(team))
}

fn name(root: &Spot<'_>, findings: &mut Findings) -> Option<ProjectId> {
    let Some(spot) = root.get("name") else {
        findings.error(&root.missing("name"), "schema", "is missing: the project's name");
        return None;
    };
    let text = spot.text(findings)?;
    let Some(id) = ProjectId::slug_of(&text) else {
        let message =
            format!("no project id can be made from `{}`; use letters, digits, `-` and `_`", shown(&text));
        findings.error(&spot, "malformed_id", message);
        return None;
    };
    if text.trim().chars().any(char::is_whitespace) {
        findings.warn(&spot, "id_from_name", format!("the project is called `{id}`"));
    }
    Some(id)
}

fn text_of(spot: &Spot<'_>, key: &'static str, findings: &mut Findings) -> String {
    spot.get(key).and_then(|text| prompt(&text, findings)).unwrap_or_default()
}

fn choice<T: Copy + Default>(
    root: &Spot<'_>,
    key: &'static str,
    choices: &Choice<T>,
    findings: &mut Findings,
) -> T {
    root.get(key).and_then(|spot| spot.choice(choices, findings)).unwrap_or_default()
}

fn coordinator(root: &Spot<'_>, dir: &str, findings: &mut Findings) -> CoordinatorSpec {
    let mut own = CoordinatorSpec::default();
    if let Some(spot) = root.get("coordinator")
        && spot.mapping(&["strategy", "prompt", "backend"], findings)
    {
        own.prompt = text_of(&spot, "prompt", findings);
        own.backend = spot.get("backend").and_then(|one| backend::read(&one, dir, findings));
        if let Some(strategy) = spot.get("strategy") {
            own.strategy = strategy.choice(STRATEGIES, findings);
            if own.strategy.is_some_and(|one| one != Strategy::Plan) {
                findings.warn(&strategy, "later", "only the strategy `plan` is available in this version");
            }
        }
    }
    if let Some(spot) = root.get("prompt") {
        if !own.prompt.is_empty() {
            findings.error(&spot, "duplicate_key", "stands under `coordinator:` too; keep one");
        }
        own.prompt = prompt(&spot, findings).unwrap_or_default();
    }
    own
}

/// Each definition as if the team file listed `use: name`, with the name as the file of its findings.
fn lying<'n>(definitions: &[&'n str]) -> Vec<(&'n str, Node)> {
    let entry = |name: &&'n str| {
        let quoted = serde_json::to_string(name).unwrap_or_default();
        let tree = source::parse(&format!("use: {quoted}"), &mut Findings::new(name))?;
        Some((*name, tree))
    };
    definitions.iter().filter_map(entry).collect()
}

fn employees(
    root: &Spot<'_>,
    lying: &[(&str, Node)],
    dir: &str,
    include: &Include<'_>,
    findings: &mut Findings,
) -> Vec<Employee> {
    let defaults = root.get("defaults").map(|spot| Layer::defaults(&spot, dir, findings)).unwrap_or_default();
    let spot = match (root.get("employees"), root.get("subagents")) {
        (Some(_), Some(second)) => {
            findings.error(
                &second,
                "duplicate_key",
                "means the same as `employees`, which is here too; keep one",
            );
            return Vec::new();
        }
        (None, None) if lying.is_empty() => {
            findings.error(&root.missing("employees"), "schema", "is missing: the list of employees");
            return Vec::new();
        }
        (None, None) => *root,
        (Some(one), None) | (None, Some(one)) => one,
    };
    let listed = root.get("employees").or_else(|| root.get("subagents"));
    if listed.is_some() && !matches!(spot.node.value, Value::List(_)) {
        findings.error(&spot, "schema", format!("must be a list of employees, not {}", spot.node.noun()));
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for item in listed.iter().flat_map(Spot::items) {
        used.extend(item.get("use").and_then(|path| path.some_text(&mut Findings::new(""))));
        if let Some(one) = employee::read(&item, &defaults, dir, include, findings) {
            found.push((one, item));
        }
    }
    for (name, tree) in lying.iter().filter(|(name, _)| !used.contains(*name)) {
        let mut inner = Findings::new(name);
        let item = Spot::root(tree);
        if let Some(one) = employee::read(&item, &defaults, dir, include, &mut inner) {
            found.push((one, item));
        }
        findings.absorb(inner);
    }
    if found.is_empty() && !findings.refused() {
        findings.error(&spot, "schema", "a team has at least one employee");
    }
    employee::distinct(found.iter().map(|(one, item)| (one.id.as_str(), *item)), findings);
    let idle: Vec<&str> =
        found.iter().filter(|(one, _)| one.backend.is_none()).map(|(one, _)| one.id.as_str()).collect();
    if !idle.is_empty() && !findings.refused() {
        let message = format!(
            "no back end for {}: only a node that defines one can run them; name one here or under `defaults:`",
            idle.join(", ")
        );
        findings.warn(&spot, "no_backend", message);
    }
    found.into_iter().map(|(one, _)| one).collect()
}

fn groups(root: &Spot<'_>, employees: &[Employee], complete: bool, findings: &mut Findings) -> Vec<Group> {
    let Some(spot) = root.get("teams") else { return Vec::new() };
    let mut kept: Vec<Group> = Vec::new();
    for item in spot.items() {
        let Some(group) = group(&item, employees, complete, findings) else { continue };
        if kept.iter().any(|other| other.id == group.id) {
            findings.error(&item, "duplicate_id", format!("`{}` is already a team's id", group.id));
        }
        kept.push(group);
    }
    kept
}

fn group(spot: &Spot<'_>, employees: &[Employee], complete: bool, findings: &mut Findings) -> Option<Group> {
    if !spot.mapping(&["id", "members", "policy", "lead"], findings) {
        return None;
    }
    let Some(id) = spot.get("id") else {
        findings.error(&spot.missing("id"), "schema", "is missing: the team's id");
        return None;
    };
    let word = id.word(findings)?;
    let members =
        spot.get("members").map(|all| all.list(findings, |one, f| member(one, employees, complete, f)));
    if spot.get("members").is_none_or(|all| all.items().next().is_none()) {
        findings.error(&spot.missing("members"), "schema", "a team has at least one member");
    }
    let policy = choice(spot, "policy", POLICIES, findings);
    let lead = spot.get("lead").and_then(|one| member(&one, employees, complete, findings));
    let members = members.unwrap_or_default();
    if policy == Policy::Lead && spot.get("lead").is_none() {
        findings.error(&spot.missing("lead"), "schema", "is missing: the policy `lead` needs one");
    }
    if let Some(lead) = &lead
        && !members.is_empty()
        && !members.contains(lead)
    {
        findings.error(
            &spot.missing("lead"),
            "schema",
            format!("`{lead}` leads the team and is no member of it"),
        );
    }
    let id = TeamId::new(word).map_err(|malformed| {
        findings.error(
            &id,
            "malformed_id",
            format!("`{}` is not a team id: {}", shown(&malformed.text), malformed.rule),
        );
    });
    Some(Group { id: id.ok()?, members, policy, lead })
}

fn member(
    spot: &Spot<'_>,
    employees: &[Employee],
    complete: bool,
    findings: &mut Findings,
) -> Option<EmployeeId> {
    let text = spot.word(findings)?;
    if !complete {
        return EmployeeId::new(text).ok();
    }
    if let Some(one) = employees.iter().find(|one| one.id.as_str() == text) {
        return Some(one.id.clone());
    }
    let names = employees.iter().map(|one| one.id.as_str());
    let nearest = findings.nearest(&text, names);
    findings.suggest(spot, "unknown_employee", format!("no employee has the id `{}`", shown(&text)), nearest);
    None
}

fn checks(root: &Spot<'_>, findings: &mut Findings) -> Vec<String> {
    let check = |one: &Spot<'_>, f: &mut Findings| {
        let command = one.word(f)?;
        if command.trim().is_empty() {
            f.error(one, "schema", "is empty");
        } else if command.len() > INLINE_TEXT_LIMIT {
            f.error(one, "too_long", format!("is longer than {INLINE_TEXT_LIMIT} bytes; put it in a script"));
        }
        Some(command)
    };
    root.get("checks").map(|all| all.list(findings, check)).unwrap_or_default()
}

fn budget(spot: &Spot<'_>, findings: &mut Findings) -> Budget {
    if !spot.mapping(&["tokens", "turns"], findings) {
        return Budget::default();
    }
    let mut limit =
        |key| spot.get(key).and_then(|number| number.integer(1, i64::MAX.unsigned_abs(), findings));
    Budget { tokens: limit("tokens"), turns: limit("turns") }
}

fn collaboration(root: &Spot<'_>, findings: &mut Findings) -> bool {
    let Some(spot) = root.get("collaboration") else { return false };
    if matches!(spot.node.value, Value::Scalar(..)) {
        findings.error(
            &spot,
            "schema",
            format!("must be a mapping or a list of them, not {}", spot.node.noun()),
        );
    }
    findings.warn(&spot, "later", "is read, but not followed in this version");
    true
}
