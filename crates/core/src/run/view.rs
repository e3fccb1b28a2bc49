//! What people and programs are shown of a run: the shapes of `-o json`, in a fixed order of fields.
//! Everything here is taken from the state; how it is laid out for a terminal is not decided here.

use serde::{Deserialize, Serialize};

use super::{
    fact::{EndState, WaitReason},
    state::{CheckState, Checks, Counts, RunState, Stage, State, Task, TaskState, Why},
};
use crate::{
    ids::{CommitId, EmployeeId, NodeId, RunId, TaskId},
    outcome::Changes,
    text::{Text, clip},
};

/// Longest line of words about a run or a task, in bytes.
const LINE_LIMIT: usize = 200;

/// How many tasks a reason names.
const NAMED: usize = 3;

/// A run in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The run.
    pub id: RunId,
    /// What it is doing.
    pub state: RunState,
    /// What the user wants, in one line.
    pub goal: String,
    /// How many tasks are in each state.
    pub tasks: Counts,
    /// The result branch, without `refs/heads/`.
    pub branch: String,
    /// The project.
    pub project: String,
    /// The commit that the run started from.
    pub base: Option<CommitId>,
    /// Where the result branch stands.
    pub head: Option<CommitId>,
    /// The user's branch to move at the end, if any.
    pub into: Option<String>,
    /// When it was submitted, in milliseconds since the epoch.
    pub began_ms: u64,
    /// When something last happened.
    pub changed_ms: u64,
    /// When it ended, if it has.
    pub ended_ms: Option<u64>,
    /// Attempts dispatched so far.
    pub turns: u64,
    /// Tokens that agents said they used.
    pub tokens: u64,
    /// For what it waits, if it does.
    pub waiting: Option<WaitReason>,
    /// Why it waits, failed or was stopped, and what to do about it.
    pub reason: Option<String>,
    /// The run's checks on the merged tree.
    pub checks: Vec<CheckView>,
    /// The end of the output of the one that failed.
    pub check_output: Option<Text>,
    /// The tasks in plan order, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<TaskView>>,
}

/// A task in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// What people call it.
    pub title: String,
    /// How far it is.
    pub state: TaskState,
    /// Who has, or last had, it.
    pub employee: Option<EmployeeId>,
    /// Where.
    pub node: Option<NodeId>,
    /// Number of the last attempt, 0 before the first.
    pub attempt: u32,
    /// Attempts that failed by what the agent did.
    pub attempts_failed: u32,
    /// What it depends on.
    pub dependencies: Vec<TaskId>,
    /// When its state last changed, in milliseconds since the epoch.
    pub since_ms: u64,
    /// What its agent last said about it.
    pub summary: String,
    /// Files changed.
    pub files: u32,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The commit of its work.
    pub commit: Option<CommitId>,
    /// The merge commit on the result branch.
    pub merged: Option<CommitId>,
    /// Its checks; while its merge is checked, those of the run too.
    pub checks: Vec<CheckView>,
    /// Why it is blocked, failed or stopped, in one line.
    pub why: Option<String>,
    /// What the agent says is in its way.
    pub blockers: Vec<Text>,
    /// Files that it must deliver.
    pub outputs: Vec<String>,
    /// Names of the artifacts that it delivered.
    pub artifacts: Vec<String>,
    /// What was left out of its commit, each with the reason.
    pub left_out: Vec<String>,
    /// What went wrong with the last attempt that did not succeed.
    pub previous: Option<PreviousView>,
}

/// An attempt that did not succeed, in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousView {
    /// Its number.
    pub attempt: u32,
    /// What went wrong, with a check's output where there is one.
    pub why: Text,
    /// The commit of what it had.
    pub commit: Option<CommitId>,
}

/// A check in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckView {
    /// The command.
    pub command: String,
    /// What is known of it.
    pub state: CheckWord,
}

/// What is known of a check, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckWord {
    /// It has not run on this commit.
    Open,
    /// It runs.
    Running,
    /// It passed.
    Passed,
}

impl View {
    /// The run without its tasks.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let submitted = state.submitted.as_ref();
        Self {
            id: state.run,
            state: state.state(),
            goal: submitted.map(|it| line(it.goal.head())).unwrap_or_default(),
            tasks: state.counts,
            branch: state.branch(),
            project: submitted.map(|it| it.project.to_string()).unwrap_or_default(),
            base: submitted.map(|it| it.base.clone()),
            head: state.head.clone(),
            into: submitted.and_then(|it| it.into.clone()),
            began_ms: state.began_ms,
            changed_ms: state.changed_ms,
            ended_ms: state.ended_ms,
            turns: state.turns,
            tokens: state.tokens,
            waiting: state.waiting,
            reason: reason(state),
            checks: run_checks(state),
            check_output: state.check_failure.as_ref().map(|_| state.check_output.clone()),
            details: None,
        }
    }

    /// The run with its tasks.
    #[must_use]
    pub fn with_tasks(state: &State) -> Self {
        let details = state.tasks.iter().map(TaskView::of).collect();
        Self { details: Some(details), ..Self::of(state) }
    }
}

impl TaskView {
    /// One task.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let delivered = task.delivered.as_ref();
        let under_way = task.attempt.as_ref().and_then(|attempt| attempt.stage.report());
        let report = delivered.map(|it| &it.report).or(under_way);
        let last = task.previous.as_ref();
        let outcome = report.map(|it| &it.outcome).or_else(|| last?.outcome.as_ref());
        let delivery = match report {
            Some(report) => report.delivery.as_ref(),
            None => last.and_then(|it| it.capture.as_ref()),
        };
        let merged = delivered.and_then(|it| it.merged.clone());
        let none = Changes::default();
        let changes = match (delivered, &merged) {
            (Some(delivered), Some(_)) => &delivered.changes,
            _ => delivery.map_or(&none, |it| &it.changes),
        };
        Self {
            id: task.spec.id.clone(),
            title: task.spec.label().to_owned(),
            state: task.state,
            employee: task.employee.clone(),
            node: task.place.as_ref().map(|place| place.node.clone()),
            attempt: task.last_attempt.0,
            attempts_failed: task.failures,
            dependencies: task.spec.dependencies.clone(),
            since_ms: task.changed_ms,
            summary: outcome.map(|it| line(it.summary.head())).unwrap_or_default(),
            files: changes.files,
            added: changes.added,
            removed: changes.removed,
            commit: delivery.map(|it| it.commit.clone()),
            merged,
            checks: task_checks(task),
            why: task.why.as_ref().map(|why| line(&why.to_string())),
            blockers: outcome.map(|it| it.blockers.clone()).unwrap_or_default(),
            outputs: task.spec.outputs.clone(),
            artifacts: report.map(|it| it.outcome.artifacts.keys().cloned().collect()).unwrap_or_default(),
            left_out: report.map(|it| it.left_out.clone()).unwrap_or_default(),
            previous: last.map(|it| PreviousView {
                attempt: it.attempt.0,
                why: it.why.clone(),
                commit: it.capture.as_ref().map(|capture| capture.commit.clone()),
            }),
        }
    }
}

/// The first line, clipped.
fn line(text: &str) -> String {
    clip(text.trim().lines().next().unwrap_or_default().trim_end(), LINE_LIMIT).to_owned()
}

/// Why the run stands still, and what brings it on.
fn reason(state: &State) -> Option<String> {
    let retry = format!("`ensemble retry {}", state.run);
    let why = &state.end_reason;
    let task = |which| first(state, which).map_or_else(String::new, |id| format!(" {id}"));
    match (state.ended, state.waiting) {
        (None, None) if state.paused => Some(format!(
            "it is being paused: what runs finishes, then `ensemble resume {}` goes on",
            state.run
        )),
        (Some(EndState::Delivered), _) | (None, None) => None,
        (Some(EndState::Failed), _) if state.check_failure.is_some() => {
            Some(format!("{why}; {retry}` checks again"))
        }
        (Some(EndState::Failed), _) => {
            Some(format!("{why}; {retry}{}` tries again", task(TaskState::Failed)))
        }
        (Some(EndState::Stopped), _) => Some(format!("{why}; {retry}` goes on")),
        (None, Some(WaitReason::Paused)) => {
            Some(format!("it was paused; `ensemble resume {}` goes on", state.run))
        }
        (None, Some(WaitReason::Budget)) => {
            Some(format!("the budget is spent ({}); {retry}` grants it once more", spent(state)))
        }
        (None, Some(WaitReason::Blocked)) => {
            let remedy = format!("{retry}{}` tries again", task(TaskState::Blocked));
            Some(format!("blocked: {}; {remedy} once that is settled", blocked(state)))
        }
    }
}

/// Tasks that came to this state by themselves, not by a task that they depend on.
fn by_themselves(state: &State, which: TaskState) -> impl Iterator<Item = (&TaskId, &Why)> {
    let tasks = state.tasks.iter().filter(move |task| task.state == which);
    let reasons = tasks.filter_map(|task| Some((&task.spec.id, task.why.as_ref()?)));
    reasons.filter(|(_, why)| !matches!(why, Why::Dependency(_)))
}

fn first(state: &State, which: TaskState) -> Option<&TaskId> {
    by_themselves(state, which).next().map(|(id, _)| id)
}

fn blocked(state: &State) -> String {
    let all = by_themselves(state, TaskState::Blocked);
    let mut words: Vec<String> =
        all.take(NAMED + 1).map(|(id, why)| format!("{id} ({})", line(&why.to_string()))).collect();
    if words.len() > NAMED {
        words[NAMED] = "…".to_owned();
    }
    words.join(", ")
}

fn spent(state: &State) -> String {
    let turns = if state.turns == 1 { "turn" } else { "turns" };
    match state.tokens {
        0 => format!("{} {turns}", state.turns),
        tokens => format!("{} {turns}, {tokens} tokens", state.turns),
    }
}

fn run_checks(state: &State) -> Vec<CheckView> {
    let commands = state.submitted.as_ref().map(|it| it.checks.as_slice()).unwrap_or_default();
    match &state.final_checks {
        Some(checks) => each(checks),
        None if state.is_delivered() => all(commands, CheckWord::Passed),
        None => all(commands, CheckWord::Open),
    }
}

fn task_checks(task: &Task) -> Vec<CheckView> {
    let passed = || all(&task.spec.checks, CheckWord::Passed);
    match task.attempt.as_ref().map(|attempt| &attempt.stage) {
        Some(Stage::Checking(_, checks)) => each(checks),
        Some(Stage::Gating(_, prepared)) => passed().into_iter().chain(each(&prepared.checks)).collect(),
        Some(Stage::Queued(_) | Stage::Ordered(..) | Stage::Advancing(..)) => passed(),
        None if task.state == TaskState::Success => passed(),
        _ => all(&task.spec.checks, CheckWord::Open),
    }
}

fn all(commands: &[String], state: CheckWord) -> Vec<CheckView> {
    commands.iter().map(|command| CheckView { command: command.clone(), state }).collect()
}

fn each(checks: &Checks) -> Vec<CheckView> {
    let word = |state: &CheckState| match state {
        CheckState::Open => CheckWord::Open,
        CheckState::Live { .. } => CheckWord::Running,
        CheckState::Passed => CheckWord::Passed,
    };
    let views = checks
        .each
        .iter()
        .map(|check| CheckView { command: check.command.clone(), state: word(&check.state) });
    views.collect()
}
