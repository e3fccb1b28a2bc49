//! A run's report: figures gathered from its facts, what is open, how git stands; as Markdown for
//! people and as one object for programs. Where texts and branches come from is the verb's business.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{CommitId, EmployeeId, TaskId},
    outcome::Ending,
    run::{
        Fact, State,
        state::{CheckState, Task, TaskState, attempt_ref},
    },
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    json::run_object,
    summary::advice,
    text::{changes, count, duration, one_line, printable},
};

/// What was tried and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Attempts dispatched.
    pub attempts: u32,
    /// Attempts whose agent did not end with "done".
    pub not_done: u32,
    /// Attempts lost without a word of their agent.
    pub lost: u32,
    /// Checks that passed.
    pub checks_passed: u32,
    /// Checks that failed.
    pub checks_failed: u32,
    /// Tokens, as far as agents said.
    pub tokens: u64,
    /// Time that agents worked, summed up, in milliseconds.
    pub working_ms: u64,
}

/// Figures of the run, and of each of its tasks and employees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    whole: Figures,
    tasks: BTreeMap<TaskId, Figures>,
    employees: BTreeMap<EmployeeId, Figures>,
    holders: BTreeMap<TaskId, EmployeeId>,
}

/// How git stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Whether the result branch in the user's repository stands at the result; nothing where there is
    /// no repository.
    pub at_home: Option<bool>,
    /// The user's branches that hold the result.
    pub taken_by: Vec<String>,
}

impl Tally {
    /// Takes a fact into the figures.
    pub fn count(&mut self, fact: &Fact) {
        match fact {
            Fact::Dispatched(dispatch) => {
                self.holders.insert(dispatch.task.clone(), dispatch.employee.clone());
                self.add(Some(&dispatch.task), |one| one.attempts += 1);
            }
            Fact::Refused { at, .. } => {
                self.add(Some(&at.task), |one| one.attempts = one.attempts.saturating_sub(1));
            }
            Fact::Reported { at, report } => {
                let usage = report.outcome.usage;
                let failed = u32::from(report.outcome.ending != Ending::Done);
                self.add(Some(&at.task), |one| {
                    one.not_done += failed;
                    one.tokens += usage.total_tokens;
                    one.working_ms += usage.duration_ms;
                });
            }
            Fact::Lost { at, .. } => self.add(Some(&at.task), |one| one.lost += 1),
            Fact::CheckReported { at, passed, .. } => {
                let (good, bad) = (u32::from(*passed), u32::from(!passed));
                self.add(at.of.task.as_ref(), |one| {
                    one.checks_passed += good;
                    one.checks_failed += bad;
                });
            }
            _ => {}
        }
    }

    fn add(&mut self, task: Option<&TaskId>, change: impl Fn(&mut Figures)) {
        change(&mut self.whole);
        let Some(task) = task else { return };
        change(self.tasks.entry(task.clone()).or_default());
        if let Some(employee) = self.holders.get(task) {
            change(self.employees.entry(employee.clone()).or_default());
        }
    }

    fn of_task(&self, task: &Task) -> Figures {
        self.tasks.get(&task.spec.id).copied().unwrap_or_default()
    }
}

/// The report for programs: `show`, and beside it figures, employees, what is open, how git stands.
#[must_use]
pub fn report_object(state: &State, tally: &Tally, standing: &Standing) -> Value {
    let mut object = run_object(state, None);
    let Some(map) = object.as_object_mut() else { return object };
    let employee = |(id, figures): (&EmployeeId, &Figures)| {
        let delivered: Vec<&TaskId> = delivered_by(state, id).map(|task| &task.spec.id).collect();
        json!({ "employee": id, "delivered": delivered, "figures": figures })
    };
    let employees: Vec<Value> = tally.employees.iter().map(employee).collect();
    let tasks: serde_json::Map<String, Value> =
        tally.tasks.iter().map(|(id, figures)| (id.to_string(), json!(figures))).collect();
    map.insert("figures".to_owned(), json!({ "run": tally.whole, "tasks": tasks }));
    map.insert("employees".to_owned(), json!(employees));
    map.insert("open".to_owned(), json!(open(state)));
    map.insert("git".to_owned(), json!(standing));
    object
}

fn delivered_by<'s>(state: &'s State, employee: &'s EmployeeId) -> impl Iterator<Item = &'s Task> {
    let of = move |task: &&Task| task.delivered.is_some() && task.employee.as_ref() == Some(employee);
    state.tasks.iter().filter(of)
}

/// What a person should look at before the result is taken over.
fn open(state: &State) -> Vec<String> {
    let mut open = Vec::new();
    for task in &state.tasks {
        let id = &task.spec.id;
        match (task.state, &task.why) {
            (TaskState::Success, _) | (_, None) => {}
            (word, Some(why)) => {
                open.push(format!("{id} {}: {}", word.word(), one_line(&why.to_string())));
            }
        }
        if task.state != TaskState::Success
            && let Some(previous) = task.previous.as_ref().filter(|previous| previous.capture.is_some())
        {
            let kept = attempt_ref(state.run, id, previous.attempt);
            open.push(format!("{id}: the work of attempt {} is kept as {kept}", previous.attempt));
        }
        let report = task.delivered.as_ref().map(|delivered| &delivered.report);
        for blocker in report.iter().flat_map(|report| &report.outcome.blockers) {
            open.push(format!("{id}: {}", one_line(blocker.head())));
        }
        for left in report.iter().flat_map(|report| &report.left_out) {
            open.push(format!("{id}: left out: {}", one_line(left)));
        }
    }
    open.extend(state.check_failure.as_ref().map(|failure| format!("the run: {}", one_line(failure))));
    open
}

/// The report for people, in Markdown. `summaries` are what the agents said, in the order of the tasks.
#[must_use]
pub fn report(state: &State, tally: &Tally, standing: &Standing, summaries: &[String]) -> String {
    let goal = state.submitted.as_ref().map_or("", |submitted| submitted.goal.head());
    let goal = goal.trim().lines().next().unwrap_or_default();
    let mut lines = vec![format!("# Run {}: {}", state.run, state.state().word()), String::new()];
    lines.extend([one_line(goal), String::new()]);
    lines.extend(figures(state, tally));
    lines.extend(employees(state, tally));
    lines.push("## Tasks".to_owned());
    for (task, summary) in state.tasks.iter().zip(summaries) {
        lines.extend(task_lines(state, task, tally.of_task(task), summary));
    }
    lines.extend(["".to_owned(), "## Checks of the merged tree".to_owned(), String::new()]);
    lines.extend(run_checks(state));
    lines.extend(section("Open", &open(state), "Nothing."));
    lines.extend(section("Git", &git(state, standing), "Nothing was begun."));
    let next: Vec<String> = advice(state, None).into_iter().map(|command| format!("`{command}`")).collect();
    lines.extend(section("What to do now", &next, "Nothing."));
    lines.join("\n") + "\n"
}

fn section(title: &str, items: &[String], none: &str) -> Vec<String> {
    let mut lines = vec![String::new(), format!("## {title}"), String::new()];
    match items {
        [] => lines.push(none.to_owned()),
        items => lines.extend(items.iter().map(|item| format!("- {item}"))),
    }
    lines
}

fn figures(state: &State, tally: &Tally) -> Vec<String> {
    let whole = &tally.whole;
    let (tasks, length) = (state.tasks.len(), state.changed_ms.saturating_sub(state.began_ms));
    let mut lines = vec![
        format!("- {} of {tasks} tasks delivered in {}", state.counts.success, duration(length)),
        format!(
            "- {}, {} not done, {} lost",
            count(whole.attempts as usize, "attempt"),
            whole.not_done,
            whole.lost
        ),
        format!("- checks: {} passed, {} failed", whole.checks_passed, whole.checks_failed),
    ];
    if whole.tokens > 0 {
        lines.push(format!("- {} tokens, as far as agents said", whole.tokens));
    }
    lines.push(String::new());
    lines
}

fn employees(state: &State, tally: &Tally) -> Vec<String> {
    let mut lines = vec!["## Employees".to_owned(), String::new()];
    lines.push("| employee | delivered | attempts | not done | lost | files | lines | working |".to_owned());
    lines.push("| --- | --- | --- | --- | --- | --- | --- | --- |".to_owned());
    for (id, one) in &tally.employees {
        let delivered: Vec<&Task> = delivered_by(state, id).collect();
        let names: Vec<&str> = delivered.iter().map(|task| task.spec.id.as_str()).collect();
        let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
        let merged = delivered.iter().filter_map(|task| task.delivered.as_ref());
        let (files, added, removed) = merged.fold((0, 0, 0), |sum, one| {
            (sum.0 + one.changes.files, sum.1 + one.changes.added, sum.2 + one.changes.removed)
        });
        lines.push(format!(
            "| {id} | {names} | {} | {} | {} | {files} | +{added} −{removed} | {} |",
            one.attempts,
            one.not_done,
            one.lost,
            duration(one.working_ms)
        ));
    }
    lines.push(String::new());
    lines
}

fn task_lines(state: &State, task: &Task, one: Figures, summary: &str) -> Vec<String> {
    let id = &task.spec.id;
    let mut lines = vec![String::new(), format!("### {id}: {}", one_line(task.spec.label())), String::new()];
    let tried = task
        .employee
        .as_ref()
        .map(|employee| format!(" by {employee}, {}", count(one.attempts as usize, "attempt")));
    lines.push(format!("- {}{}", task.state.word(), tried.unwrap_or_default()));
    if let Some(delivered) = &task.delivered {
        lines.push(match &delivered.merged {
            Some(commit) => format!("- {} in {}", changes(&delivered.changes), short(commit)),
            None => "- nothing to merge".to_owned(),
        });
        if !delivered.report.outcome.artifacts.is_empty() {
            let names: Vec<&str> = delivered.report.outcome.artifacts.keys().map(String::as_str).collect();
            lines.push(format!("- hands on: {}", names.join(", ")));
        }
    }
    if one.checks_passed + one.checks_failed > 0 {
        lines.push(format!("- checks: {} passed, {} failed", one.checks_passed, one.checks_failed));
    }
    if let Some(why) = &task.why {
        let logs = match one.attempts {
            0 => String::new(),
            _ => format!("; see `ensemble logs {} {id}`", state.run),
        };
        lines.push(format!("- {}{logs}", one_line(&why.to_string())));
    }
    if !summary.trim().is_empty() {
        lines.push(String::new());
        lines.extend(printable(summary.trim()).lines().map(|line| format!("> {line}").trim_end().to_owned()));
    }
    lines
}

fn run_checks(state: &State) -> Vec<String> {
    let commands = state.submitted.as_ref().map_or(&[][..], |submitted| &submitted.checks);
    if commands.is_empty() {
        return vec!["The team file has none.".to_owned()];
    }
    let word = |place: usize| match state.final_checks.as_ref().and_then(|checks| checks.each.get(place)) {
        Some(check) if check.state == CheckState::Passed => "passed",
        _ if state.state() == ensemble_core::run::state::RunState::Delivered => "passed",
        _ => "not passed",
    };
    commands
        .iter()
        .enumerate()
        .map(|(place, command)| format!("- `{}`: {}", one_line(command), word(place)))
        .collect()
}

fn git(state: &State, standing: &Standing) -> Vec<String> {
    let Some(submitted) = &state.submitted else { return Vec::new() };
    let mut lines = vec![format!("base: {}", submitted.base)];
    if let Some(head) = &state.head {
        let merged = state
            .tasks
            .iter()
            .filter(|task| task.delivered.as_ref().is_some_and(|delivered| delivered.merged.is_some()));
        lines.push(format!("result: {head} ({} merged)", count(merged.count(), "task")));
    }
    let branch = state.branch();
    lines.push(match standing.at_home {
        Some(true) => format!("branch `{branch}` stands at the result"),
        Some(false) => {
            format!("branch `{branch}` does not stand at the result: `ensemble fetch {}`", state.run)
        }
        None => format!("branch `{branch}`: no repository is known here"),
    });
    if !standing.taken_by.is_empty() {
        lines.push(format!("taken over by: {}", standing.taken_by.join(", ")));
    }
    lines
}

fn short(commit: &CommitId) -> &str {
    &commit.as_str()[..12]
}
