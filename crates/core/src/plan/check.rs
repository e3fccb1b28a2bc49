//! Whether a plan can be carried out: ids, dependencies, cycles, who serves which type, outputs.
//! The same rules for a plan that was just read, where each finding gets its line, and for one that
//! exists already. All of it is about linear in the plan's size.

use std::collections::BTreeMap;

use super::{Plan, Staff, TASK_LIMIT, TaskSpec, WorktreeMode, graph::Graph, path};
use crate::{
    source::{Finding, Findings, Place, Severity, nearest, shown},
    team::Team,
    text::INLINE_TEXT_LIMIT,
};

/// Steps through the graph that all questions "does this one need that one" may take together.
const STEPS: usize = 1_000_000;

/// Names compared for suggestions in one check.
const COMPARISONS: usize = 20_000;

/// Tasks of a cycle that are printed; the rest is counted.
const CYCLE_SHOWN: usize = 20;

/// Every finding about `plan`; who serves which type is left out of account without a team.
#[must_use]
pub fn check(plan: &Plan, team: Option<&Team>) -> Vec<Finding> {
    let staff = team.map(Staff::of);
    let mut findings = Findings::new("plan");
    examine(plan, staff.as_ref(), &mut |issue| {
        let make = if issue.severity == Severity::Error { Finding::error } else { Finding::warning };
        let finding = make("plan", Place::NOWHERE, issue.code, issue.message).about(issue.field.to_string());
        findings.push(finding.suggesting(issue.suggestion));
    });
    match findings.finish(Some(())) {
        Ok(((), all)) | Err(all) => all,
    }
}

/// Where in a plan an issue lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The task's place; the whole plan when `None`.
    pub task: Option<usize>,
    /// The key in it.
    pub key: &'static str,
    /// The place in the key's list.
    pub item: Option<usize>,
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(task) = self.task {
            write!(f, "sub_tasks[{task}].")?;
        }
        f.write_str(self.key)?;
        self.item.map_or(Ok(()), |item| write!(f, "[{item}]"))
    }
}

/// Something wrong or doubtful about a plan, before it has a line.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub severity: Severity,
    pub field: Field,
    pub code: &'static str,
    pub message: String,
    pub suggestion: Option<String>,
}

/// Tells `report` every issue of `plan`.
pub(super) fn examine(plan: &Plan, staff: Option<&Staff>, report: &mut dyn FnMut(Issue)) {
    let mut examiner =
        Examiner { plan, graph: Graph::of(plan), comparisons: COMPARISONS, steps: STEPS, report };
    if plan.sub_tasks.is_empty() {
        let field = Field { task: None, key: "sub_tasks", item: None };
        examiner.error(field, "schema", "a plan has at least one task");
        return;
    }
    if plan.sub_tasks.len() > TASK_LIMIT {
        let field = Field { task: None, key: "sub_tasks", item: None };
        examiner.error(field, "too_many_tasks", format!("more than {TASK_LIMIT} tasks; split the plan"));
        return;
    }
    examiner.ids();
    for (place, task) in plan.sub_tasks.iter().enumerate() {
        examiner.dependencies(place, task);
        examiner.texts(place, task);
        examiner.outputs(place, task);
        if let Some(staff) = staff {
            examiner.staffing(place, task, staff);
        }
    }
    if examiner.cycles() {
        return;
    }
    examiner.overlaps();
    examiner.artifacts();
}

/// Longest list of a task's outputs in bytes: it goes to the node in one frame with brief and context.
const OUTPUTS_LIMIT: usize = 256 * 1024;

/// Bytes that an entry of a list costs in a frame besides its own, at most.
const FRAMING: usize = 8;

struct Examiner<'p> {
    plan: &'p Plan,
    graph: Graph,
    comparisons: usize,
    steps: usize,
    report: &'p mut dyn FnMut(Issue),
}

fn at(task: usize, key: &'static str) -> Field {
    Field { task: Some(task), key, item: None }
}

fn item(task: usize, key: &'static str, item: usize) -> Field {
    Field { task: Some(task), key, item: Some(item) }
}

impl Examiner<'_> {
    fn error(&mut self, field: Field, code: &'static str, message: impl Into<String>) {
        self.tell(Severity::Error, field, code, message.into(), None);
    }

    fn warn(&mut self, field: Field, code: &'static str, message: impl Into<String>) {
        self.tell(Severity::Warning, field, code, message.into(), None);
    }

    fn tell(
        &mut self,
        severity: Severity,
        field: Field,
        code: &'static str,
        message: String,
        suggestion: Option<String>,
    ) {
        (self.report)(Issue { severity, field, code, message, suggestion });
    }

    fn id(&self, task: usize) -> &str {
        self.plan.sub_tasks[task].id.as_str()
    }

    fn ids(&mut self) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (place, task) in self.plan.sub_tasks.iter().enumerate() {
            let Some(first) = seen.insert(task.id.as_str().to_lowercase(), place) else { continue };
            let (id, other) = (&task.id, self.id(first));
            let message = if id.as_str() == other {
                format!("`{id}` is already another task's id")
            } else {
                format!("`{id}` differs from another task's id, `{other}`, only in case")
            };
            self.error(at(place, "id"), "duplicate_id", message);
        }
    }

    fn dependencies(&mut self, place: usize, task: &TaskSpec) {
        let plan = self.plan;
        for (number, id) in task.dependencies.iter().enumerate() {
            let field = item(place, "dependencies", number);
            if self.graph.place(id).is_none() {
                let names = plan.sub_tasks.iter().map(|one| one.id.as_str());
                let suggestion = nearest(id.as_str(), names, &mut self.comparisons);
                let message = format!("no task has the id `{id}`");
                self.tell(Severity::Error, field, "unknown_dependency", message, suggestion);
            }
        }
        self.repeats(place, "dependencies", task.dependencies.iter().map(|id| id.as_str()));
        self.repeats(place, "outputs", task.outputs.iter().map(String::as_str));
        self.repeats(place, "consumes", task.consumes.iter().map(String::as_str));
        self.repeats(place, "exclusive", task.exclusive.iter().map(String::as_str));
    }

    fn repeats<'t>(&mut self, place: usize, key: &'static str, names: impl Iterator<Item = &'t str>) {
        let mut seen = std::collections::BTreeSet::new();
        for (number, name) in names.enumerate() {
            if !seen.insert(name) {
                self.warn(
                    item(place, key, number),
                    "repeated",
                    format!("`{}` stands here twice", shown(name)),
                );
            }
        }
    }

    fn texts(&mut self, place: usize, task: &TaskSpec) {
        if task.description.head().trim().is_empty() {
            self.error(at(place, "description"), "schema", "is empty; say what is to be done");
        }
        let lists: [(&'static str, &[String]); 2] =
            [("acceptance_criteria", &task.acceptance_criteria), ("checks", &task.checks)];
        for (key, texts) in lists {
            for (number, text) in texts.iter().enumerate() {
                let field = item(place, key, number);
                if text.trim().is_empty() {
                    self.error(field, "schema", "is empty");
                } else if text.len() > INLINE_TEXT_LIMIT {
                    let message =
                        format!("is longer than {INLINE_TEXT_LIMIT} bytes; put it in a file and name that");
                    self.error(field, "too_long", message);
                }
            }
        }
    }

    fn outputs(&mut self, place: usize, task: &TaskSpec) {
        if task.outputs.iter().map(|output| output.len() + FRAMING).sum::<usize>() > OUTPUTS_LIMIT {
            let message =
                format!("have more than {OUTPUTS_LIMIT} bytes together; name the folders' main files");
            self.error(at(place, "outputs"), "too_long", message);
        }
        for (number, output) in task.outputs.iter().enumerate() {
            if let Err(why) = path::check(output) {
                let code = if why == path::BadPath::Control { "control_char_in_path" } else { "bad_path" };
                self.error(item(place, "outputs", number), code, format!("`{}` {why}", shown(output)));
            }
        }
        let mode = match task.worktree {
            Some(WorktreeMode::Read) => "changes are dropped (`worktree: read`)",
            Some(WorktreeMode::None) => "there are no files (`worktree: none`)",
            Some(WorktreeMode::Write) | None => return,
        };
        if !task.outputs.is_empty() {
            self.error(at(place, "outputs"), "schema", format!("can't be delivered where {mode}"));
        }
    }

    fn staffing(&mut self, place: usize, task: &TaskSpec, staff: &Staff) {
        if let Some(id) = &task.employee
            && !staff.employs(id.as_str())
        {
            let suggestion = nearest(id.as_str(), staff.ids(), &mut self.comparisons);
            let message = format!("no employee has the id `{id}`; there are {}", list(staff.ids()));
            self.tell(Severity::Error, at(place, "employee"), "unknown_employee", message, suggestion);
        }
        let Some(kind) = &task.agent_type else { return };
        let field = at(place, "agent_type");
        if !staff.serves(kind) {
            let suggestion = nearest(kind, staff.types(), &mut self.comparisons);
            let message =
                format!("nobody serves the agent type `{}`; there are {}", shown(kind), list(staff.types()));
            self.tell(Severity::Error, field, "unknown_agent_type", message, suggestion);
        } else if let Some(id) = &task.employee
            && staff.type_of(id.as_str()).is_some_and(|has| has != kind && id.as_str() != kind)
        {
            let message = format!("`{id}` has another agent type; `employee` counts and this is ignored");
            self.warn(field, "ignored", message);
        }
    }

    /// Reports cycles; whether there are any.
    fn cycles(&mut self) -> bool {
        let cycles = self.graph.cycles();
        for cycle in &cycles {
            let (first, next) = (cycle[0], cycle[1 % cycle.len()]);
            let number =
                self.plan.sub_tasks[first].dependencies.iter().position(|id| id.as_str() == self.id(next));
            let field = Field { task: Some(first), key: "dependencies", item: number };
            let message = match cycle.len() {
                1 => format!("`{0}` needs itself: {0} -> {0}", self.id(first)),
                _ => format!("these need each other, so none can start: {}", self.way(cycle)),
            };
            self.error(field, "cycle", message);
        }
        !cycles.is_empty()
    }

    fn way(&self, cycle: &[usize]) -> String {
        let mut names: Vec<String> =
            cycle.iter().take(CYCLE_SHOWN).map(|task| self.id(*task).to_owned()).collect();
        if cycle.len() > CYCLE_SHOWN {
            names.push(format!("({} more)", cycle.len() - CYCLE_SHOWN));
        }
        names.push(self.id(cycle[0]).to_owned());
        names.join(" -> ")
    }

    /// The same output by two tasks of which neither needs the other (S54).
    fn overlaps(&mut self) {
        let mut ranks = vec![0; self.graph.len()];
        for (rank, task) in self.graph.order().iter().enumerate() {
            ranks[*task] = rank;
        }
        let mut writers: BTreeMap<&str, Vec<(usize, usize, usize)>> = BTreeMap::new();
        for (place, task) in self.plan.sub_tasks.iter().enumerate() {
            for (number, output) in task.outputs.iter().enumerate() {
                writers.entry(output).or_default().push((ranks[place], place, number));
            }
        }
        for (output, mut tasks) in writers {
            tasks.sort_unstable();
            tasks.dedup_by_key(|(_, place, _)| *place);
            // In an order that respects all needs it is enough to look at neighbours.
            for pair in tasks.windows(2) {
                let ((_, earlier, _), (_, later, number)) = (pair[0], pair[1]);
                if self.ordered(later, earlier, item(later, "outputs", number)) == Some(false) {
                    let message = format!(
                        "`{}` is also an output of `{}`, which may run at the same time; \
                         let one depend on the other",
                        shown(output),
                        self.id(earlier)
                    );
                    self.warn(item(later, "outputs", number), "output_overlap", message);
                }
            }
        }
    }

    /// What is consumed must be provided by something that is needed.
    fn artifacts(&mut self) {
        let plan = self.plan;
        let mut providers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, task) in plan.sub_tasks.iter().enumerate() {
            task.provides.keys().for_each(|name| providers.entry(name).or_default().push(place));
        }
        for (place, task) in plan.sub_tasks.iter().enumerate() {
            for (number, name) in task.consumes.iter().enumerate() {
                let field = item(place, "consumes", number);
                let Some(tasks) = providers.get(name.as_str()) else {
                    let suggestion = nearest(name, providers.keys().copied(), &mut self.comparisons);
                    let message = format!("no task provides `{}`", shown(name));
                    self.tell(Severity::Warning, field, "not_provided", message, suggestion);
                    continue;
                };
                if tasks.iter().all(|one| self.ordered(place, *one, field) == Some(false)) {
                    let message = format!(
                        "`{}` is provided by `{}`, which this task doesn't depend on",
                        shown(name),
                        self.id(tasks[0])
                    );
                    self.warn(field, "not_provided", message);
                }
            }
        }
    }

    /// Whether `later` needs `earlier`; says once when that can't be found out within the bound.
    fn ordered(&mut self, later: usize, earlier: usize, field: Field) -> Option<bool> {
        if self.steps == 0 {
            return None;
        }
        let answer = self.graph.needs(later, earlier, &mut self.steps);
        if answer.is_none() {
            self.steps = 0;
            self.warn(field, "not_compared", "too many to compare; from here on this is left to the merge");
        }
        answer
    }
}

/// Names for a message, the first twenty.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(20);
    let shown = names.iter().take(20).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;

    fn task(id: &str, dependencies: &[&str]) -> TaskSpec {
        let mut task = TaskSpec::new(TaskId::new(id).unwrap(), "d");
        task.dependencies = dependencies.iter().map(|id| TaskId::new(*id).unwrap()).collect();
        task
    }

    #[test]
    fn a_plan_without_a_file_is_checked_by_the_same_rules() {
        let mut second = task("b", &["a", "z"]);
        second.outputs = vec!["ok".to_owned(), "../x".to_owned()];
        let plan = Plan { sub_tasks: vec![task("a", &[]), second], ..Plan::default() };
        let said: Vec<String> = check(&plan, None).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "plan: error: sub_tasks[1].dependencies[1]: no task has the id `z`",
                "plan: error: sub_tasks[1].outputs[1]: `../x` holds an empty, `.` or `..` component; \
                 write it straight from the repository's root",
            ]
        );
    }

    #[test]
    fn a_plan_that_nothing_is_wrong_with_has_no_findings() {
        let plan = Plan { sub_tasks: vec![task("b", &["a"]), task("a", &[])], ..Plan::default() };
        assert_eq!(check(&plan, None), []);
        assert_eq!(check(&Plan::default(), None)[0].code, "schema");
    }

    #[test]
    fn outputs_that_would_not_fit_a_frame_are_refused() {
        let mut one = task("a", &[]);
        one.outputs = (0..4_000).map(|file| format!("d{file:06}/{}", "x".repeat(60))).collect();
        let plan = Plan { sub_tasks: vec![one], ..Plan::default() };
        let said: Vec<String> = check(&plan, None).iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("sub_tasks[0].outputs: have more than 262144 bytes together"), "{said:?}");
    }

    #[test]
    fn an_output_of_all_tasks_of_a_wide_plan_is_left_to_the_merge() {
        let layer = |layer: usize, task: usize| format!("t{layer}-{task}");
        let mut plan = Plan::default();
        for number in 0..40 * 40 {
            let (row, column) = (number / 40, number % 40);
            let before: Vec<String> = (0..40).filter(|_| row > 0).map(|one| layer(row - 1, one)).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            let mut one = task(&layer(row, column), &before);
            one.outputs = (0..40).map(|file| format!("f{file}")).collect();
            plan.sub_tasks.push(one);
        }
        let codes: Vec<String> = check(&plan, None).into_iter().map(|finding| finding.code).collect();
        assert!(codes.len() > 1 && codes[..codes.len() - 1].iter().all(|code| code == "output_overlap"));
        assert_eq!(codes.last().map(String::as_str), Some("more"));
    }
}
