//! What stands at the end of a run, and what `show` says of one: what each task delivered, where the
//! result is and how to take it over, what failed and what to do about it.

use ensemble_core::{
    ids::{CommitId, Epoch},
    run::{
        State,
        fact::WaitReason,
        state::{RunState, Task, TaskState, Why, attempt_ref},
    },
};

use super::{
    json::Home,
    table::table,
    text::{ago, changes, count, duration, now_ms, one_line, short},
};

/// Characters of a summary or reason in a table.
const CELL: usize = 100;

/// The epoch of a run's first owner: handing it in was the one before. A later one means a pause.
const FIRST_OWNER: Epoch = Epoch(2);

/// What became of `--into`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Into {
    /// The branch points at the result.
    Moved,
    /// The branch is checked out somewhere and was left alone.
    CheckedOut,
    /// The branch has moved since the start and was left alone.
    MovedSince(CommitId),
    /// The run was not delivered, so the branch was left alone.
    NotDelivered,
    /// It did not work.
    Refused(String),
}

impl Into {
    /// One word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::CheckedOut => "checked_out",
            Self::MovedSince(_) => "moved_since",
            Self::NotDelivered => "not_delivered",
            Self::Refused(_) => "refused",
        }
    }

    fn line(&self, branch: &str) -> String {
        match self {
            Self::Moved => format!("{branch} now stands at the result"),
            Self::CheckedOut => format!("{branch} is checked out, so it was not moved"),
            Self::MovedSince(now) => {
                format!("{branch} has moved since the start (to {}), so it was left there", shorten(now))
            }
            Self::NotDelivered => format!("{branch} was not moved: only a delivered result moves it"),
            Self::Refused(why) => format!("{branch} was not moved: {}", one_line(why)),
        }
    }
}

fn shorten(commit: &CommitId) -> &str {
    &commit.as_str()[..12]
}

/// The end of a run in lines.
#[must_use]
pub fn summary(state: &State, home: &Home) -> Vec<String> {
    let mut lines = head(state, now_ms());
    lines.extend(result_lines(state, home));
    lines.extend(questions(state));
    lines.extend(next(state, Some(home), None));
    lines
}

/// A run in lines, whether it goes on or not; with the process that works on it, if there is one.
#[must_use]
pub fn show(state: &State, pid: Option<u32>) -> Vec<String> {
    show_at(state, pid, now_ms())
}

fn show_at(state: &State, pid: Option<u32>, now: u64) -> Vec<String> {
    let run = state.run;
    let mut lines = head(state, now);
    let goal = state.submitted.as_ref().map_or("", |submitted| submitted.goal.head());
    let goal = short(goal.lines().next().unwrap_or_default(), CELL);
    lines.insert(1, format!("goal: {goal}"));
    lines.push(format!("branch: {}", state.branch()));
    match pid {
        Some(pid) => {
            lines.push(format!("process {pid} works on it; watch it with `ensemble watch {run}`"));
        }
        None => {
            lines.extend(questions(state));
            lines.extend(next(state, None, None));
        }
    }
    lines
}

/// How long a run took; of one that goes on, or did after a pause, when it began: the time between
/// its stretches is not its own.
fn took(state: &State, now: u64) -> String {
    let over = state.ended.is_some() || state.waiting.is_some();
    if over && state.epoch <= FIRST_OWNER {
        return format!(" after {}", duration(state.changed_ms.saturating_sub(state.began_ms)));
    }
    format!(", began {}", ago(now.saturating_sub(state.began_ms)))
}

/// A run's first line and its tasks.
fn head(state: &State, now: u64) -> Vec<String> {
    let counts = &state.counts;
    let took = took(state, now);
    let word = state.state().word();
    let reason = reason(state);
    let mut lines = vec![format!(
        "run {} {word}{took}: {} of {} tasks{reason}",
        state.run,
        counts.success,
        state.tasks.len()
    )];
    let rows: Vec<[String; 4]> = state.tasks.iter().map(|task| row(state, task)).collect();
    lines.extend(table(&rows).into_iter().map(|line| format!("  {line}")));
    lines
}

fn reason(state: &State) -> String {
    match (&state.waiting, state.end_reason.as_str()) {
        (Some(WaitReason::Blocked), _) => " (only blocked ones are left)".to_owned(),
        (Some(WaitReason::Budget), _) => " (the budget is spent)".to_owned(),
        (Some(WaitReason::Paused), _) => " (paused)".to_owned(),
        (None, "") => String::new(),
        (None, reason) => format!(" ({})", one_line(reason)),
    }
}

fn row(state: &State, task: &Task) -> [String; 4] {
    let employee = task.employee.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut what = match (&task.delivered, &task.why) {
        (Some(delivered), _) => {
            let changed = match &delivered.merged {
                Some(_) => changes(&delivered.changes),
                None => "nothing to merge".to_owned(),
            };
            match short(delivered.report.outcome.summary.head(), CELL) {
                said if said.is_empty() => changed,
                said => format!("{changed}: {said}"),
            }
        }
        (None, Some(why)) => short(&reason_of(task, why), CELL),
        (None, None) => String::new(),
    };
    if let (Some(Why::Conflict(_)), Some(previous)) = (&task.why, &task.previous) {
        let side = attempt_ref(state.run, &task.spec.id, previous.attempt);
        what = format!("{what}; its side is kept as {side}");
    }
    if task.last_attempt.0 > 1 {
        what = format!("{what} (attempt {})", task.last_attempt);
    }
    [task.spec.id.to_string(), task.state.word().to_owned(), employee, what]
}

/// Why a task can't go on: what its last attempt said, where that is the reason.
fn reason_of(task: &Task, why: &Why) -> String {
    match (why, &task.previous) {
        (Why::Attempts(_) | Why::Agent(_), Some(previous)) => previous.why.head().to_owned(),
        _ => why.to_string(),
    }
}

fn result_lines(state: &State, home: &Home) -> Vec<String> {
    let mut lines = Vec::new();
    let merged: Vec<&Task> = state
        .tasks
        .iter()
        .filter(|task| task.delivered.as_ref().is_some_and(|delivered| delivered.merged.is_some()))
        .collect();
    let branch = state.branch();
    let of = format!("{} merged", count(merged.len(), "task"));
    match (&home.problem, home.branch) {
        (None, true) => lines.push(format!("result: branch {branch}, {of}")),
        (Some(problem), _) => lines.push(format!("result: {of}, not brought home: {}", one_line(problem))),
        (None, false) => {}
    }
    if let Some((branch, into)) = &home.into {
        lines.push(into.line(branch));
    }
    lines
}

/// What `fetch` did, in lines; with the process that works on the run, if there is one.
#[must_use]
pub fn fetched(state: &State, home: &Home, pid: Option<u32>) -> Vec<String> {
    let mut lines = result_lines(state, home);
    lines.extend(next(state, Some(home), pid));
    lines
}

/// The advice, with how many tasks it does not name.
fn next(state: &State, home: Option<&Home>, pid: Option<u32>) -> Vec<String> {
    let mut lines = section("next", advice_beside(state, home, pid));
    let more = open(state).count().saturating_sub(NAMED);
    if more > 0 && !is_under_way(state) {
        lines.push(format!("  … and {} more like these", count(more, "task")));
    }
    lines
}

/// What agents want to know before they go on.
fn questions(state: &State) -> Vec<String> {
    let asking = open(state).filter(|task| asks(task)).take(NAMED);
    let asked = asking.filter_map(|task| {
        let why = task.why.as_ref()?;
        Some(format!("{}: {}", task.spec.id, one_line(&reason_of(task, why))))
    });
    section("asked", asked.collect())
}

/// Whether a task stands still because its agent needs to be told something.
fn asks(task: &Task) -> bool {
    task.state == TaskState::Blocked && matches!(task.why, Some(Why::Agent(_)))
}

fn section(title: &str, items: Vec<String>) -> Vec<String> {
    if items.is_empty() {
        return items;
    }
    let mut lines = vec![format!("{title}:")];
    lines.extend(items.into_iter().map(|item| format!("  {item}")));
    lines
}

/// Tasks that advice names; what `show` lists in full needs no advice for each.
const NAMED: usize = 5;

/// Tasks that stand still, but not because of another one.
fn open(state: &State) -> impl Iterator<Item = &Task> {
    state.tasks.iter().filter(|task| {
        matches!(task.state, TaskState::Failed | TaskState::Blocked | TaskState::Stopped)
            && !matches!(task.why, Some(Why::Dependency(_)))
    })
}

fn is_under_way(state: &State) -> bool {
    matches!(state.state(), RunState::Planning | RunState::Running | RunState::Checking)
}

/// What to do now, as commands, when `pid` may work on the run: then it need not be brought on.
#[must_use]
pub fn advice_beside(state: &State, home: Option<&Home>, pid: Option<u32>) -> Vec<String> {
    if pid.is_some() && is_under_way(state) {
        return vec![format!("ensemble watch {}", state.run)];
    }
    advice(state, home)
}

/// What to do now, as commands, when nobody works on the run.
#[must_use]
pub fn advice(state: &State, home: Option<&Home>) -> Vec<String> {
    let run = state.run;
    let mut next = Vec::new();
    if home.is_some_and(|home| home.problem.is_some()) {
        next.push(format!("ensemble fetch {run}"));
    }
    let moved = home.and_then(|home| home.into.as_ref()).is_some_and(|(_, into)| *into == Into::Moved);
    if state.state() == RunState::Delivered && !moved {
        next.push(format!("git merge {}", state.branch()));
    }
    if is_under_way(state) {
        next.push(format!("ensemble resume {run}"));
        return next;
    }
    if state.state() == RunState::Stopped {
        next.push(format!("ensemble retry {run}"));
        return next;
    }
    for task in open(state).take(NAMED) {
        if asks(task) {
            next.push(format!("ensemble retry {run} {} --prompt \"…\"", task.spec.id));
            continue;
        }
        if task.last_attempt.0 > 0 {
            next.push(format!("ensemble logs {run} {}", task.spec.id));
        }
        next.push(format!("ensemble retry {run} {}", task.spec.id));
    }
    if state.check_failure.is_some() {
        next.push(format!("ensemble logs {run}"));
    }
    if state.check_failure.is_some() || open(state).nth(1).is_some() {
        next.push(format!("ensemble retry {run}"));
    }
    next
}

#[cfg(test)]
mod tests;
