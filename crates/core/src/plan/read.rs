//! A plan out of a file or a model's answer: the shape of spec 3 and its optional keys.
//! What is wrong with a value is found here; what is wrong between tasks in `check`.

use std::collections::BTreeMap;

use super::{
    Plan, Priority, Staff, TASK_LIMIT, TaskSpec, WorktreeMode,
    check::{Field, examine},
};
use crate::{
    ids::{EmployeeId, Malformed, TaskId},
    source::{self, Choice, Finding, Findings, Kind, Node, Reading, Severity, Spot, Value, shown},
    team::Team,
    text::INLINE_TEXT_LIMIT,
};

const PLAN_KEYS: [&str; 3] = ["project_scope", "conventions", "sub_tasks"];

const TASK_KEYS: [&str; 16] = [
    "id",
    "title",
    "description",
    "agent_type",
    "employee",
    "dependencies",
    "outputs",
    "acceptance_criteria",
    "checks",
    "timeout",
    "max_attempts",
    "priority",
    "worktree",
    "exclusive",
    "provides",
    "consumes",
];

const WORKTREES: &Choice<WorktreeMode> =
    &[("write", WorktreeMode::Write), ("read", WorktreeMode::Read), ("none", WorktreeMode::None)];

const PRIORITIES: &Choice<Priority> =
    &[("P1", Priority::P1), ("P2", Priority::P2), ("P3", Priority::P3), ("P4", Priority::P4)];

/// Most attempts that a file may ask for.
pub(crate) const ATTEMPTS_LIMIT: u64 = 100;

/// Reads and checks a plan. Without a team, nothing is said about who could do its tasks.
///
/// # Errors
/// All findings, when any of them is an error.
pub fn read(file_name: &str, text: &str, team: Option<&Team>) -> Reading<Plan> {
    let mut findings = Findings::new(file_name);
    match source::parse(text, &mut findings) {
        Some(tree) => from_tree(&tree, team.map(Staff::of).as_ref(), findings),
        None => findings.finish(None),
    }
}

/// Reads and checks the plan in a tree.
pub(crate) fn from_tree(tree: &Node, staff: Option<&Staff>, mut findings: Findings) -> Reading<Plan> {
    let root = Spot::root(tree);
    let Some(draft) = Draft::read(&root, &mut findings) else { return findings.finish(None) };
    if !draft.plan.sub_tasks.is_empty() {
        examine(&draft.plan, staff, &mut |issue| {
            let field = draft.in_file(issue.field);
            let place = draft.place(&root, field);
            let make = if issue.severity == Severity::Error { Finding::error } else { Finding::warning };
            let finding = make(findings.file(), place, issue.code, issue.message);
            findings.push(finding.about(field.to_string()).suggesting(issue.suggestion));
        });
    }
    findings.finish(Some(draft.plan))
}

/// What could be read, and where each task stands in the file: tasks without a usable id are left out.
struct Draft {
    plan: Plan,
    places: Vec<usize>,
    gaps: Gaps,
}

/// For each list of which an item could not be read: where the others stand in the file.
type Gaps = BTreeMap<(usize, &'static str), Vec<usize>>;

impl Draft {
    fn read(root: &Spot<'_>, findings: &mut Findings) -> Option<Self> {
        if matches!(root.node.value, Value::List(_)) {
            findings.error(root, "schema", "is a list; put `sub_tasks:` above it");
            return None;
        }
        if !root.mapping(&PLAN_KEYS, findings) {
            return None;
        }
        let Some(tasks) = root.get("sub_tasks") else {
            findings.error(&root.missing("sub_tasks"), "schema", "is missing: the list of tasks");
            return None;
        };
        match &tasks.node.value {
            Value::List(list) if list.len() > TASK_LIMIT => {
                let message = format!("{} tasks, more than {TASK_LIMIT}; split the plan", list.len());
                findings.error(&tasks, "too_many_tasks", message);
                return None;
            }
            Value::List(list) if list.is_empty() => {
                findings.error(&tasks, "schema", "a plan has at least one task")
            }
            Value::List(_) => {}
            _ => {
                let message = format!("must be a list of tasks, not {}", tasks.node.noun());
                findings.error(&tasks, "schema", message);
                return None;
            }
        }
        let mut draft = Self { plan: Plan::default(), places: Vec::new(), gaps: Gaps::new() };
        draft.plan.project_scope =
            root.get("project_scope").and_then(|scope| bounded(&scope, findings)).unwrap_or_default();
        let conventions = root.get("conventions").map(|all| all.list(findings, bounded));
        draft.plan.conventions = conventions.unwrap_or_default();
        for (place, spot) in tasks.items().enumerate() {
            let mut reader =
                TaskReader { spot: &spot, task: draft.places.len(), gaps: &mut draft.gaps, findings };
            if let Some(task) = reader.read() {
                draft.plan.sub_tasks.push(task);
                draft.places.push(place);
            }
        }
        Some(draft)
    }

    /// The same field, counting tasks and items as the file does.
    fn in_file(&self, field: Field) -> Field {
        let Some(task) = field.task else { return field };
        let item = match self.gaps.get(&(task, field.key)) {
            Some(places) => field.item.and_then(|item| places.get(item).copied()),
            None => field.item,
        };
        Field { task: self.places.get(task).copied(), item, ..field }
    }

    /// Where a field stands, or the nearest thing around it.
    fn place(&self, root: &Spot<'_>, field: Field) -> source::Place {
        let Some(tasks) = root.get("sub_tasks") else { return root.place() };
        let Some(index) = field.task else { return tasks.place() };
        let Some(task) = tasks.item(index) else { return tasks.place() };
        let Some(value) = task.get(field.key) else { return task.place() };
        match field.item.and_then(|index| value.item(index)) {
            Some(item) => item.place(),
            None => value.place(),
        }
    }
}

/// Reads one task of a plan.
struct TaskReader<'r, 's> {
    spot: &'s Spot<'s>,
    /// The place that the task will have in the plan.
    task: usize,
    gaps: &'r mut Gaps,
    findings: &'r mut Findings,
}

impl<'s> TaskReader<'_, 's> {
    fn read(&mut self) -> Option<TaskSpec> {
        let spot = self.spot;
        if !spot.mapping(&TASK_KEYS, self.findings) {
            return None;
        }
        let description = spot.get("description").and_then(|text| text.text(self.findings));
        self.required("description", "what is to be done");
        self.required("id", "a short name that other tasks can depend on");
        let id = task_id(&spot.get("id")?, self.findings)?;
        // A placeholder keeps an error that was just reported from being reported again.
        let mut task = TaskSpec::new(id, description.unwrap_or_else(|| "?".to_owned()));
        task.title = spot.get("title").and_then(|text| bounded(&text, self.findings));
        let agent_type = spot.get("agent_type").and_then(|text| bounded(&text, self.findings));
        task.agent_type = agent_type.filter(|kind| !kind.is_empty());
        task.employee = spot.get("employee").and_then(|id| employee_id(&id, self.findings));
        task.dependencies = self.list("dependencies", task_id);
        task.outputs = self.list("outputs", path);
        task.acceptance_criteria = self.list("acceptance_criteria", |one, f| one.text(f));
        task.checks = self.list("checks", |one, f| one.word(f));
        task.timeout_ms = spot.get("timeout").and_then(|time| time.duration(self.findings));
        task.max_attempts = spot.get("max_attempts").and_then(|number| attempts(&number, self.findings));
        let priority = spot.get("priority").and_then(|word| word.choice(PRIORITIES, self.findings));
        task.priority = priority.unwrap_or_default();
        task.worktree = spot.get("worktree").and_then(|mode| mode.choice(WORKTREES, self.findings));
        task.exclusive = self.list("exclusive", name);
        task.provides = spot.get("provides").map(|all| provided(&all, self.findings)).unwrap_or_default();
        task.consumes = self.list("consumes", name);
        Some(task)
    }

    fn required(&mut self, key: &'static str, what: &str) {
        if self.spot.get(key).is_none() {
            self.findings.error(&self.spot.missing(key), "schema", format!("is missing: {what}"));
        }
    }

    fn list<T: 's>(
        &mut self,
        key: &'static str,
        each: impl Fn(&Spot<'_>, &mut Findings) -> Option<T>,
    ) -> Vec<T> {
        let Some(spot) = self.spot.get(key) else { return Vec::new() };
        let read = spot.list(self.findings, |item, f| Some(each(item, f)));
        if read.iter().any(Option::is_none) {
            let places = read.iter().enumerate().filter(|(_, item)| item.is_some()).map(|(place, _)| place);
            self.gaps.insert((self.task, key), places.collect());
        }
        read.into_iter().flatten().collect()
    }
}

/// An id as it is spelt: `1` and `01` are two ids.
fn task_id(spot: &Spot<'_>, findings: &mut Findings) -> Option<TaskId> {
    let text = match &spot.node.value {
        Value::Scalar(Kind::Number, text) => text.clone(),
        _ => spot.text(findings)?,
    };
    TaskId::new(text)
        .map_err(|Malformed { text, rule, .. }| {
            findings.error(spot, "malformed_id", format!("`{}` is not a task id: {rule}", shown(&text)));
        })
        .ok()
}

fn employee_id(spot: &Spot<'_>, findings: &mut Findings) -> Option<EmployeeId> {
    let text = spot.text(findings)?;
    EmployeeId::new(text)
        .map_err(|Malformed { text, rule, .. }| {
            let slug = EmployeeId::slug_of(&text).map(|id| id.to_string());
            let message = format!("`{}` is not an employee id: {rule}", shown(&text));
            findings.suggest(spot, "unknown_employee", message, slug);
        })
        .ok()
}

/// Attempts that may fail by what the agent did.
pub(crate) fn attempts(spot: &Spot<'_>, findings: &mut Findings) -> Option<u32> {
    spot.integer(1, ATTEMPTS_LIMIT, findings).and_then(|number| u32::try_from(number).ok())
}

/// Text that fits into a fact.
fn bounded(spot: &Spot<'_>, findings: &mut Findings) -> Option<String> {
    let text = spot.text(findings)?;
    if text.len() > INLINE_TEXT_LIMIT {
        findings.error(spot, "too_long", format!("is longer than {INLINE_TEXT_LIMIT} bytes"));
        return None;
    }
    Some(text)
}

fn name(spot: &Spot<'_>, findings: &mut Findings) -> Option<String> {
    let text = bounded(spot, findings)?;
    if text.trim().is_empty() {
        findings.error(spot, "schema", "is empty");
    }
    Some(text)
}

/// A path as it is written; the rule for paths judges it later.
fn path(spot: &Spot<'_>, findings: &mut Findings) -> Option<String> {
    match &spot.node.value {
        Value::Scalar(Kind::Text, text) => Some(text.clone()),
        _ => spot.text(findings),
    }
}

/// Artifacts by name, each with a description in words or a schema in any shape.
fn provided(spot: &Spot<'_>, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if !matches!(spot.node.value, Value::Map(_)) {
        findings.error(spot, "schema", "must be a mapping of artifact names to a text or schema each");
        return all;
    }
    for (name, value) in spot.keys() {
        let text = match &value.node.value {
            Value::Scalar(_, text) => text.clone(),
            Value::List(_) | Value::Map(_) => value.node.to_json().to_string(),
        };
        if name.trim().is_empty() {
            findings.error(&value, "schema", "an artifact has an empty name");
        } else if text.len() > INLINE_TEXT_LIMIT {
            findings.error(&value, "too_long", format!("is longer than {INLINE_TEXT_LIMIT} bytes"));
        }
        all.insert(name.to_owned(), text);
    }
    all
}
