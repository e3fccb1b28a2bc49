//! Facts as lines for people: one for each thing that happened. A narrator holds the run's state, so
//! that a line can say what the fact alone does not: titles, commands, who is blocked now.

use ensemble_core::{
    ids::{AttemptNumber, CheckNumber, TaskId},
    outcome::Ending,
    run::{
        Entry, Fact, State,
        fact::{AttemptRef, CheckOf, CheckRef, Dispatch, EndState, Handed, LossCause, Report, WaitReason},
        state::{Check, CheckState, TaskState, Why, attempt_ref},
    },
};

use super::text::{changes, count, one_line, tail};

/// Lines shown of a failed check's output; `ensemble logs` has more.
const CHECK_LINES: usize = 20;

/// Tells a run as it happens.
#[derive(Clone, Debug)]
pub struct Narrator {
    state: State,
    /// Which tasks were said to be blocked, by their place in the plan.
    blocked: Vec<bool>,
}

impl Narrator {
    /// A narrator that knows the run up to `state` and tells what comes after.
    #[must_use]
    pub fn new(state: State) -> Self {
        let mut narrator = Self { state, blocked: Vec::new() };
        narrator.newly_blocked();
        narrator
    }

    /// The run as far as it was told.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes a fact in and says it in lines; some facts say nothing to people.
    pub fn tell(&mut self, entry: &Entry) -> Vec<String> {
        let check = self.command_of(&entry.fact);
        let blocked = self.state.counts.blocked;
        let live = self.others_live(&entry.fact);
        self.state.apply(entry);
        let mut lines = self.lines(&entry.fact, check.as_deref());
        lines.extend(self.dropped(&live, &entry.fact));
        if self.state.counts.blocked != blocked {
            lines.extend(self.newly_blocked());
        }
        lines
    }

    /// Says which tasks are blocked by another one since this was last asked.
    fn newly_blocked(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.blocked.resize(self.state.tasks.len(), false);
        for (task, told) in self.state.tasks.iter().zip(&mut self.blocked) {
            let before = std::mem::replace(told, task.state == TaskState::Blocked);
            if let (false, TaskState::Blocked, Some(why @ Why::Dependency(_))) =
                (before, task.state, &task.why)
            {
                lines.push(format!("blocked {}: {why}", task.spec.id));
            }
        }
        lines
    }

    /// The command of the check that a fact speaks of; it is forgotten once the fact is applied.
    fn command_of(&self, fact: &Fact) -> Option<String> {
        let (of, number) = match fact {
            Fact::CheckDispatched { of, command, .. } => {
                let checks = self.state.checks(of)?;
                return checks.each.get(*command as usize).map(|check| check.command.clone());
            }
            Fact::CheckReported { at, .. } | Fact::CheckLost { at, .. } => (&at.of, at.check),
            _ => return None,
        };
        let is_it = |state: &CheckState| matches!(state, CheckState::Live { number: n, .. } if *n == number);
        let checks = self.state.checks(of)?;
        checks.each.iter().find(|check| is_it(&check.state)).map(|check| check.command.clone())
    }

    /// The checks that run beside the one a fact speaks of, or that a stop may end.
    fn others_live(&self, fact: &Fact) -> Vec<(CheckOf, CheckNumber, String)> {
        let (of, own) = match fact {
            Fact::CheckReported { at, passed: false, .. } | Fact::CheckLost { at, .. } => {
                (vec![at.of.clone()], Some(at.check))
            }
            Fact::StopRequested { task } => (self.checked(task.as_ref()), None),
            _ => return Vec::new(),
        };
        let mut live = Vec::new();
        for of in of {
            for check in self.state.checks(&of).into_iter().flat_map(|checks| &checks.each) {
                if let CheckState::Live { number, .. } = check.state
                    && Some(number) != own
                {
                    live.push((of.clone(), number, check.command.clone()));
                }
            }
        }
        live
    }

    /// What of a task, or of the whole run, is being checked.
    fn checked(&self, task: Option<&TaskId>) -> Vec<CheckOf> {
        let tasks = self.state.tasks.iter().filter(|one| task.is_none_or(|id| one.spec.id == *id));
        let attempts = tasks.filter_map(|one| {
            let attempt = one.attempt.as_ref().filter(|attempt| attempt.stage.checks().is_some())?;
            Some(CheckOf { task: Some(one.spec.id.clone()), attempt: attempt.dispatch.attempt })
        });
        let merged = self.state.final_checks.as_ref().filter(|_| task.is_none());
        let merged = merged.map(|_| CheckOf { task: None, attempt: AttemptNumber(self.state.check_rounds) });
        attempts.chain(merged).collect()
    }

    /// Says which of the checks that ran before a fact nobody waits for any more.
    fn dropped(&self, live: &[(CheckOf, CheckNumber, String)], fact: &Fact) -> Vec<String> {
        let why = if matches!(fact, Fact::StopRequested { .. }) { "stopped" } else { "another check failed" };
        let runs = |of: &CheckOf, number: CheckNumber| {
            let is_it =
                |check: &Check| matches!(check.state, CheckState::Live { number: n, .. } if n == number);
            self.state.checks(of).is_some_and(|checks| checks.each.iter().any(is_it))
        };
        let gone = live.iter().filter(|(of, number, _)| !runs(of, *number));
        gone.map(|(of, _, command)| format!("dropped check {} ({}): {why}", subject(of), one_line(command)))
            .collect()
    }

    fn lines(&self, fact: &Fact, check: Option<&str>) -> Vec<String> {
        let one = |line: String| vec![line];
        match fact {
            Fact::Submitted(submitted) => {
                let goal = submitted.goal.head().lines().next().unwrap_or_default();
                one(format!("run {}: {}", self.state.run, one_line(goal)))
            }
            Fact::Planned { complete: true, .. } => {
                one(format!("planned {}", count(self.state.tasks.len(), "task")))
            }
            Fact::Dispatched(dispatch) => self.dispatched(dispatch),
            Fact::Refused { at, reason } => one(format!("refused {}: {}", at.task, one_line(reason))),
            Fact::Reported { at, report } => self.reported(at, report),
            Fact::Lost { at, cause, capture, reason } => {
                one(self.lost(at, &loss(*cause, reason), capture.is_some()))
            }
            Fact::CheckDispatched { of, .. } => one(format!("check {}: {}", subject(of), command(check))),
            Fact::CheckReported { at, passed, ended, output } => {
                self.judged(at, *passed, ended, output.head(), check)
            }
            Fact::CheckLost { at, cause, reason } => {
                let (what, why) = (subject(&at.of), loss(*cause, reason));
                one(format!("lost check {what} ({}): {why}; it is run again", command(check)))
            }
            Fact::Accepted { task, .. } => one(format!("accepted {task}: nothing to merge")),
            Fact::Merged { task, .. } => one(format!("merged {task}")),
            Fact::Conflicted { task, attempt, files } => {
                let files = files.iter().map(|file| one_line(file)).collect::<Vec<_>>().join(", ");
                let side = attempt_ref(self.state.run, task, *attempt);
                let branch = self.state.branch();
                one(format!("conflict {task}: {files}; the sides are kept as {branch} and {side}"))
            }
            Fact::StopRequested { task: Some(task) } => one(format!("stop {task} requested")),
            Fact::StopRequested { task: None } => one("stop requested".to_owned()),
            Fact::Retried { task: Some(task), .. } => one(format!("retry {task}")),
            Fact::Retried { task: None, .. } => {
                one("retry all that failed, is blocked by itself or was stopped".to_owned())
            }
            Fact::Paused => one("pause requested: what runs finishes, nothing new starts".to_owned()),
            Fact::Resumed => one("resumed".to_owned()),
            Fact::Waiting { reason } => one(format!("waiting: {}", wait(*reason))),
            Fact::Ended { state, reason, .. } => one(ended(*state, reason)),
            // The first claim follows the submission; a later one means that an owner was lost.
            Fact::Claimed { coordinator } if self.state.turns > 0 => one(taken_over(coordinator.as_str())),
            Fact::Claimed { .. }
            | Fact::Planned { .. }
            | Fact::Started { .. }
            | Fact::MergeOrdered { .. }
            | Fact::Prepared { .. } => Vec::new(),
        }
    }

    fn dispatched(&self, dispatch: &Dispatch) -> Vec<String> {
        let Dispatch { task, attempt, employee, context, .. } = dispatch;
        let found = self.state.find(task).map(|(_, task)| task);
        let label = found.map(|task| one_line(task.spec.label())).unwrap_or_default();
        let again = if attempt.0 > 1 { format!(", attempt {attempt}") } else { String::new() };
        let needs = found.map_or(&[][..], |task| &task.spec.dependencies);
        let done = match needs {
            [] => String::new(),
            needs => format!(": {} done", names(needs)),
        };
        let mut lines = vec![format!("dispatched {task} ({label}) to {employee}{again}{done}")];
        lines.extend(brief(task, context));
        lines
    }

    fn reported(&self, at: &AttemptRef, report: &Report) -> Vec<String> {
        let task = &at.task;
        let mut lines = Vec::new();
        match (self.after(at), report.outcome.ending) {
            (Some((TaskState::Stopped, _)), _) => lines.push(format!("stopped {task}")),
            (_, Ending::Done) => {
                let what = report
                    .delivery
                    .as_ref()
                    .map_or_else(|| "no changes".to_owned(), |delivery| changes(&delivery.changes));
                lines.push(format!("done {task}: {what}"));
                let missing = self.undelivered(at, report);
                if !missing.is_empty() {
                    lines.push(format!("missing from {task}: the artifact {}", missing.join(", ")));
                }
            }
            (_, Ending::Blocked) => lines.push(format!("blocked {task}: {}", self.why(at))),
            _ => lines.push(self.failed(at)),
        }
        lines.extend(report.left_out.iter().map(|what| format!("left out of {task}: {}", one_line(what))));
        lines
    }

    /// Artifacts that the plan asked the task for and that it did not report.
    fn undelivered(&self, at: &AttemptRef, report: &Report) -> Vec<String> {
        let asked = self.state.find(&at.task).map(|(_, task)| &task.spec.provides);
        let missing = asked.into_iter().flat_map(|provides| provides.keys());
        missing
            .filter(|name| !report.outcome.artifacts.contains_key(*name))
            .map(|name| one_line(name))
            .collect()
    }

    /// The state of the attempt's task now, and why.
    fn after(&self, at: &AttemptRef) -> Option<(TaskState, Option<&Why>)> {
        self.state.find(&at.task).map(|(_, task)| (task.state, task.why.as_ref()))
    }

    fn failed(&self, at: &AttemptRef) -> String {
        let why = self.why(at);
        match self.after(at) {
            Some((TaskState::Failed, _)) => format!("failed {}: {why}", at.task),
            _ => format!("failed {} attempt {}: {why}; it is tried again", at.task, at.attempt),
        }
    }

    fn why(&self, at: &AttemptRef) -> String {
        let Some((_, task)) = self.state.find(&at.task) else { return String::new() };
        let previous = task.previous.as_ref().map(|previous| one_line(previous.why.head()));
        let why = previous.or_else(|| task.why.as_ref().map(|why| one_line(&why.to_string())));
        why.filter(|why| !why.is_empty()).unwrap_or_else(|| "it gave no reason".to_owned())
    }

    fn lost(&self, at: &AttemptRef, why: &str, kept: bool) -> String {
        let kept = if kept { ", what it had is kept" } else { "" };
        let what = match self.after(at) {
            Some((TaskState::Pending, _)) => "it is tried again".to_owned(),
            Some((_, Some(why))) => one_line(&why.to_string()),
            _ => "it is not tried again".to_owned(),
        };
        format!("lost {} attempt {}: {why}{kept}; {what}", at.task, at.attempt)
    }

    fn judged(
        &self,
        at: &CheckRef,
        passed: bool,
        ended: &str,
        output: &str,
        check: Option<&str>,
    ) -> Vec<String> {
        let (what, command) = (subject(&at.of), command(check));
        if passed {
            return vec![format!("passed {what}: {command}")];
        }
        let mut lines = vec![format!("check failed {what} ({}): {command}", one_line(ended))];
        lines.extend(tail(output, CHECK_LINES));
        if let Some(task) = &at.of.task {
            let attempt = AttemptRef { task: task.clone(), attempt: at.of.attempt, token: at.token };
            let gone = self
                .after(&attempt)
                .is_some_and(|(state, _)| matches!(state, TaskState::Failed | TaskState::Pending));
            if gone {
                lines.push(self.failed(&attempt));
            }
        }
        lines
    }
}

/// What an attempt is told of its dependencies: `brief ST-4: schema from ST-2, 3 files`.
fn brief(task: &TaskId, context: &[Handed]) -> Option<String> {
    let files: usize = context.iter().map(|handed| handed.files as usize).sum();
    let mut parts: Vec<String> = context
        .iter()
        .filter(|handed| !handed.artifacts.is_empty())
        .map(|handed| {
            let artifacts = handed.artifacts.iter().map(|name| one_line(name)).collect::<Vec<_>>().join(", ");
            format!("{artifacts} from {}", handed.from)
        })
        .collect();
    if files > 0 {
        parts.push(count(files, "file"));
    }
    (!parts.is_empty()).then(|| format!("brief {task}: {}", parts.join(", ")))
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

fn subject(of: &CheckOf) -> String {
    of.task.as_ref().map_or_else(|| "the merged tree".to_owned(), ToString::to_string)
}

fn command(check: Option<&str>) -> String {
    one_line(check.unwrap_or("a command"))
}

fn loss(cause: LossCause, reason: &str) -> String {
    let word = match cause {
        LossCause::Node => "its node is gone",
        LossCause::Process => "it ended together with the process",
        LossCause::Interrupted => "it was interrupted",
        LossCause::Environment => "the node could not run it",
        LossCause::Refused => "the node could not take it",
    };
    match cause {
        LossCause::Environment | LossCause::Refused if !reason.is_empty() => {
            format!("{word}: {}", one_line(reason))
        }
        _ => word.to_owned(),
    }
}

/// A coordinator in a command's own process is known by that process.
fn taken_over(by: &str) -> String {
    match by.strip_prefix("local-") {
        Some(process) => format!("process {process} took the run over"),
        None => format!("{by} took the run over"),
    }
}

fn wait(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Blocked => "only blocked tasks are left",
        WaitReason::Budget => "the budget is spent",
        WaitReason::Paused => "the run is paused",
    }
}

fn ended(state: EndState, reason: &str) -> String {
    let word = match state {
        EndState::Delivered => "delivered",
        EndState::Failed => "failed",
        EndState::Stopped => "stopped",
    };
    match one_line(reason) {
        reason if reason.is_empty() => word.to_owned(),
        reason if reason.starts_with(word) => reason,
        reason => format!("{word}: {reason}"),
    }
}

#[cfg(test)]
mod tests;
