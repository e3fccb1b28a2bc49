//! The lines of a run while it goes on. On a terminal: what happened scrolls by above one line for
//! each employee and one for the run, which move with the time. Elsewhere: what happened, line by line.

use std::{
    collections::BTreeMap,
    env, fmt,
    io::{self, IsTerminal},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::EmployeeId,
    run::{
        State,
        state::{Stage, TaskState},
    },
};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::{say, text::duration};

/// How often the lines move.
const TICK: Duration = Duration::from_millis(125);

/// Tasks named in a line; with more of them it would wrap on a common terminal.
const NAMED: usize = 3;

/// Whether moving lines are wanted: on a terminal, unless the user asked for plain output.
#[must_use]
pub fn wants_progress() -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Where a run is told.
#[derive(Debug)]
pub enum Screen {
    /// Line by line.
    Plain,
    /// On a terminal.
    Terminal(Terminal),
}

impl Screen {
    /// The screen that fits standard error.
    #[must_use]
    pub fn fitting() -> Self {
        if wants_progress() {
            Self::Terminal(Terminal::new(ProgressDrawTarget::stderr()))
        } else {
            Self::Plain
        }
    }

    /// Something happened.
    pub fn line(&self, line: &str) {
        match self {
            Self::Plain => say(line),
            Self::Terminal(terminal) => terminal.line(line),
        }
    }

    /// The run is as `state` says now.
    pub fn update(&mut self, state: &State) {
        if let Self::Terminal(terminal) = self {
            terminal.update(state);
        }
    }

    /// Takes the moving lines away.
    pub fn clear(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.clear();
        }
    }
}

/// Moving lines on a terminal.
#[derive(Debug)]
pub struct Terminal {
    lines: MultiProgress,
    employees: BTreeMap<EmployeeId, Moving>,
    run: Option<Moving>,
}

/// A line that moves.
#[derive(Debug)]
struct Moving {
    bar: ProgressBar,
    shown: Arc<Mutex<Shown>>,
}

/// What a moving line says, with the moment that each part began.
#[derive(Debug, Default)]
struct Shown {
    parts: Vec<(String, Instant)>,
    more: usize,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("-");
        }
        let parts = self.parts.iter().map(|(text, since)| {
            format!("{text} {}", duration(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)))
        });
        f.write_str(&parts.collect::<Vec<_>>().join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

impl Moving {
    fn new(lines: &MultiProgress, name: String) -> Self {
        let shown = Arc::new(Mutex::new(Shown::default()));
        let text = Arc::clone(&shown);
        let write = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{}", text.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let style = ProgressStyle::with_template("{spinner} {prefix} {what}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .with_key("what", write);
        let bar = lines.add(ProgressBar::new_spinner());
        bar.set_style(style);
        bar.set_prefix(name);
        bar.enable_steady_tick(TICK);
        Self { bar, shown }
    }

    fn show(&self, shown: Shown) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

impl Terminal {
    fn new(target: ProgressDrawTarget) -> Self {
        let lines = MultiProgress::with_draw_target(target);
        Self { lines, employees: BTreeMap::new(), run: None }
    }

    fn line(&self, line: &str) {
        // Without a terminal behind it there is nobody to tell.
        let _ = self.lines.println(line);
    }

    fn update(&mut self, state: &State) {
        let Some(submitted) = &state.submitted else { return };
        let began = |milliseconds: u64| ago(state.changed_ms.saturating_sub(milliseconds));
        if self.run.is_none() {
            let widest = submitted.roster.iter().map(|one| one.employee.as_str().len()).max().unwrap_or(0);
            let width = widest.max("run".len());
            for member in &submitted.roster {
                let line = Moving::new(&self.lines, format!("{:width$}", member.employee.as_str()));
                self.employees.insert(member.employee.clone(), line);
            }
            self.run = Some(Moving::new(&self.lines, format!("{:width$}", "run")));
        }
        let mut busy: BTreeMap<&EmployeeId, Shown> = BTreeMap::new();
        for task in state.tasks.iter().filter(|task| task.attempt.is_some()) {
            let Some(attempt) = &task.attempt else { continue };
            let shown = busy.entry(&attempt.dispatch.employee).or_default();
            if shown.parts.len() == NAMED {
                shown.more += 1;
                continue;
            }
            let what = match attempt.stage {
                Stage::Assigned | Stage::Working => "",
                Stage::Checking(..) | Stage::Gating(..) => " (checks)",
                Stage::Queued(_) | Stage::Ordered(..) | Stage::Advancing(..) => " (merge)",
            };
            shown.parts.push((format!("{}{what}", task.spec.id), began(attempt.since_ms)));
        }
        for (employee, line) in &self.employees {
            line.show(busy.remove(employee).unwrap_or_default());
        }
        if let Some(run) = &self.run {
            run.show(Shown { parts: vec![(tally(state), began(state.began_ms))], more: 0 });
        }
    }

    fn clear(&mut self) {
        for line in self.employees.values().chain(&self.run) {
            line.bar.finish_and_clear();
        }
        let _ = self.lines.clear();
        self.employees.clear();
        self.run = None;
    }
}

/// The moment that lies `milliseconds` back.
fn ago(milliseconds: u64) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_millis(milliseconds)).unwrap_or(now)
}

/// The run in a few words: `running, 3 of 9 tasks, 1 failed`.
fn tally(state: &State) -> String {
    let counts = &state.counts;
    let mut words = format!("{}, {} of {} tasks", state.state().word(), counts.success, state.tasks.len());
    let bad = [
        (counts.failed, TaskState::Failed),
        (counts.blocked, TaskState::Blocked),
        (counts.stopped, TaskState::Stopped),
    ];
    for (number, word) in bad.into_iter().filter(|(number, _)| *number > 0) {
        words.push_str(&format!(", {number} {}", word.word()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{begun, dispatched, entry, run, spec};

    fn state() -> State {
        let mut state = State::new(run());
        for entry in begun(vec![spec("api", "API", &[], &[]), spec("page", "Page", &["api"], &[])]) {
            state.apply(&entry);
        }
        state.apply(&entry(4, dispatched("api", 1, "back")));
        state
    }

    #[test]
    fn each_employee_has_a_line_with_what_it_does_and_for_how_long() {
        let mut terminal = Terminal::new(ProgressDrawTarget::hidden());
        terminal.update(&state());
        let lines: Vec<(String, String)> = terminal
            .employees
            .iter()
            .map(|(id, line)| (id.to_string(), line.shown.lock().unwrap().to_string()))
            .collect();
        assert_eq!(lines[0].0, "back");
        assert!(lines[0].1.starts_with("api 0."), "{}", lines[0].1);
        assert_eq!(lines[1], ("front".to_owned(), "-".to_owned()));
        terminal.clear();
        assert!(terminal.employees.is_empty());
    }

    #[test]
    fn the_run_is_told_in_a_few_words() {
        assert_eq!(tally(&state()), "running, 0 of 2 tasks");
        let shown = Shown { parts: vec![("a".to_owned(), Instant::now())], more: 2 };
        assert_eq!(shown.to_string(), "a 0.0 s and 2 more");
    }
}
