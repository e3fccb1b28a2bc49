//! The brief: all that an employee is told about a task, as text for agents and as JSON for programs.
//! An employee sees nothing else of the run, so everything it needs stands here (spec 3, context assembly).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    ids::{BlobId, TaskId},
    message::BRIEF_LIMIT,
    outcome::Outcome,
    run::{
        fact::Handed,
        state::{Delivered, Previous, State, Task, attempt_ref},
    },
    text::{Text, clip},
};

/// Longest text of one part that another employee wrote, in bytes; the rest is named, not shown.
const PART_LIMIT: usize = 24 * 1024;

/// Longest summary of a dependency in a brief that would be too long with whole ones.
const SUMMARY_LIMIT: usize = 2 * 1024;

/// Longest of the few texts that a brief consists of after the last cut. JSON makes six bytes of one at worst.
const LAST_LIMIT: usize = 4 * 1024;

/// Files named of one dependency; the worktree has them all.
const FILES_SHOWN: usize = 50;

/// A brief, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// For the agent: Markdown, at most [`BRIEF_LIMIT`] bytes.
    pub text: String,
    /// The same as JSON, at most [`BRIEF_LIMIT`] bytes.
    pub context: String,
}

/// What the team file says to an employee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voice {
    /// The employee's own prompt.
    pub prompt: String,
    /// The project, in the team file's words.
    pub project: String,
    /// The team's conventions.
    pub conventions: String,
}

/// Writes the brief of `task`. `resolve` gives the whole of a text that lies in the blob store.
#[must_use]
pub fn write(state: &State, task: &Task, voice: &Voice, resolve: &dyn Fn(&Text) -> String) -> Brief {
    let context = Context::of(state, task, voice, resolve);
    let text = bounded(&context, Context::markdown);
    let context = bounded(&context, |context| serde_json::to_string(context).unwrap_or_default());
    Brief { text, context }
}

/// What each dependency of `task` hands on, in figures, for the fact that dispatches it.
#[must_use]
pub fn handed(state: &State, task: &Task) -> Vec<Handed> {
    let dependencies = task.spec.dependencies.iter().filter_map(|id| state.find(id));
    dependencies
        .filter_map(|(_, dependency)| {
            let report = &dependency.delivered.as_ref()?.report;
            Some(Handed {
                from: dependency.spec.id.clone(),
                artifacts: report.outcome.artifacts.keys().cloned().collect(),
                files: report.delivery.as_ref().map_or(0, |delivery| delivery.changes.files),
            })
        })
        .collect()
}

/// The blobs that the brief of `task` shows; read them before it is written.
#[must_use]
pub fn blobs(state: &State, task: &Task) -> BTreeSet<BlobId> {
    let mut texts: Vec<&Text> = vec![&state.scope, &task.spec.description];
    texts.extend(&state.conventions);
    texts.extend(&task.prompt);
    if let Some(previous) = &task.previous {
        texts.push(&previous.why);
        texts.extend(previous.outcome.iter().map(|outcome| &outcome.summary));
    }
    let mut blobs: BTreeSet<BlobId> = BTreeSet::new();
    let dependencies = task.spec.dependencies.iter().filter_map(|id| state.find(id));
    for delivered in dependencies.filter_map(|(_, task)| task.delivered.as_ref()) {
        let outcome = &delivered.report.outcome;
        texts.push(&outcome.summary);
        texts.extend(&outcome.messages);
        blobs.extend(outcome.artifacts.values().filter_map(spilled).filter_map(|text| blob(&text).cloned()));
    }
    blobs.extend(texts.into_iter().filter_map(blob).cloned());
    blobs
}

fn blob(text: &Text) -> Option<&BlobId> {
    match text {
        Text::Blob { blob, .. } => Some(blob),
        Text::Inline(_) => None,
    }
}

/// What is given up, step by step, until a brief is short enough: first what the worktree may hold anyway,
/// last what the task itself says. After the last step it always is.
const CUTS: [fn(&mut Context); 5] = [
    |context| context.dependencies.iter_mut().for_each(|part| part.leave_out_artifacts(PART_LIMIT)),
    |context| context.dependencies.iter_mut().for_each(|part| part.leave_out_artifacts(0)),
    |context| context.dependencies.iter_mut().for_each(DependencyPart::leave_out_words),
    Context::leave_out_dependencies,
    Context::leave_out_lists,
];

/// The context in one of its two forms, at most [`BRIEF_LIMIT`] bytes; what is left out is named in it.
fn bounded(context: &Context, form: impl Fn(&Context) -> String) -> String {
    let mut text = form(context);
    let mut shorter = context.clone();
    for cut in CUTS {
        if text.len() <= BRIEF_LIMIT {
            break;
        }
        cut(&mut shorter);
        text = form(&shorter);
    }
    text
}

#[derive(Clone, Debug, Serialize)]
struct Context {
    run: String,
    project: String,
    scope: String,
    conventions: String,
    prompt: String,
    task: TaskPart,
    dependencies: Vec<DependencyPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct TaskPart {
    id: TaskId,
    title: String,
    description: String,
    attempt: u32,
    outputs: Vec<String>,
    acceptance_criteria: Vec<String>,
    checks: Vec<String>,
    provides: Map<String, Value>,
    consumes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct DependencyPart {
    task: TaskId,
    title: String,
    summary: String,
    messages: Vec<String>,
    artifacts: Map<String, Value>,
    files: Vec<String>,
    more_files: u32,
    /// Artifacts that its plan asked it for and that it did not deliver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct PreviousPart {
    attempt: u32,
    what_went_wrong: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_under: Option<String>,
}

impl Context {
    fn of(state: &State, task: &Task, voice: &Voice, resolve: &dyn Fn(&Text) -> String) -> Self {
        let plan_conventions = state.conventions.iter().map(resolve);
        let conventions = std::iter::once(voice.conventions.clone()).chain(plan_conventions);
        Self {
            run: state.run.to_string(),
            project: voice.project.clone(),
            scope: resolve(&state.scope),
            conventions: conventions.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n"),
            prompt: voice.prompt.clone(),
            task: TaskPart::of(task, resolve),
            dependencies: task
                .spec
                .dependencies
                .iter()
                .filter_map(|id| state.find(id))
                .filter_map(|(_, dependency)| DependencyPart::of(dependency, resolve))
                .collect(),
            previous: task.previous.as_ref().map(|previous| PreviousPart::of(state, task, previous, resolve)),
            instruction: task.prompt.as_ref().map(resolve),
            left_out: Vec::new(),
        }
    }

    fn leave_out_dependencies(&mut self) {
        if !self.dependencies.is_empty() {
            self.left_out.push(format!("what {} dependencies delivered", self.dependencies.len()));
            self.dependencies.clear();
        }
    }

    /// Leaves texts of bounded length and number.
    fn leave_out_lists(&mut self) {
        let task = &mut self.task;
        let lists = [
            ("outputs", &mut task.outputs),
            ("acceptance criteria", &mut task.acceptance_criteria),
            ("checks", &mut task.checks),
            ("names of artifacts consumed", &mut task.consumes),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            self.left_out.push(format!("{} {name}", list.len()));
            list.clear();
        }
        task.provides.clear();
        let texts = [&mut self.project, &mut self.scope, &mut self.conventions, &mut self.prompt];
        let instruction = self.instruction.iter_mut();
        let previous =
            self.previous.iter_mut().flat_map(|part| [&mut part.what_went_wrong, &mut part.summary]);
        let own = [&mut task.title, &mut task.description];
        for text in texts.into_iter().chain(own).chain(instruction).chain(previous) {
            cut(text, LAST_LIMIT);
        }
    }

    fn markdown(&self) -> String {
        let mut out = Out::default();
        if let Some(instruction) = &self.instruction {
            out.section("First of all", instruction);
        }
        out.section("Who you are", &self.prompt);
        out.section(&format!("Your task: {} ({})", self.task.title, self.task.id), &self.task.description);
        out.list("Files that must exist at the end", &self.task.outputs);
        out.list("Acceptance criteria", &self.task.acceptance_criteria);
        out.list("Commands that will be run on your work", &self.task.checks);
        for (name, what) in &self.task.provides {
            out.section(&format!("You provide the artifact `{name}`"), what.as_str().unwrap_or_default());
        }
        out.section("The project", [self.project.as_str(), self.scope.as_str()].join("\n").trim());
        out.section("Conventions", &self.conventions);
        for dependency in &self.dependencies {
            dependency.markdown(&mut out);
        }
        out.list("Left out here, because it was too long", &self.left_out);
        if let Some(previous) = &self.previous {
            previous.markdown(&mut out);
        }
        out.section("How to report", HOW_TO_REPORT);
        out.text
    }
}

/// What every agent is told about its answer; the same rules as `docs/exec.md`.
const HOW_TO_REPORT: &str = "Work in the current directory; what you leave in it is your delivery, and it is committed for you. \
When you are done, write a JSON object to the file that $ENSEMBLE_RESULT_FILE names, or end your answer with a fenced block \
marked `result` that holds it: {\"status\": \"SUCCESS|FAILED|BLOCKED\", \"summary\": \"…\", \"artifacts\": {\"name\": …}, \
\"messages\": [\"…\"], \"blockers\": [\"…\"]}. Everybody who depends on your task sees summary, artifacts and messages.";

impl TaskPart {
    fn of(task: &Task, resolve: &dyn Fn(&Text) -> String) -> Self {
        let spec = &task.spec;
        Self {
            id: spec.id.clone(),
            title: spec.label().to_owned(),
            description: resolve(&spec.description),
            attempt: task.last_attempt.0,
            outputs: spec.outputs.clone(),
            acceptance_criteria: spec.acceptance_criteria.clone(),
            checks: spec.checks.clone(),
            provides: spec.provides.iter().map(|(name, what)| (name.clone(), json!(what))).collect(),
            consumes: spec.consumes.clone(),
        }
    }
}

/// Artifacts that the plan asked `task` for and that its report does not have.
#[must_use]
pub fn undelivered(task: &Task) -> Vec<String> {
    let Some(Delivered { report, .. }) = &task.delivered else { return Vec::new() };
    let asked = task.spec.provides.keys();
    asked.filter(|name| !report.outcome.artifacts.contains_key(*name)).cloned().collect()
}

impl DependencyPart {
    fn of(dependency: &Task, resolve: &dyn Fn(&Text) -> String) -> Option<Self> {
        let Delivered { report, .. } = dependency.delivered.as_ref()?;
        let Outcome { summary, artifacts, messages, .. } = &report.outcome;
        let changes = report.delivery.as_ref().map(|delivery| &delivery.changes);
        let files: Vec<String> = changes
            .map(|changes| changes.paths.iter().take(FILES_SHOWN).cloned().collect())
            .unwrap_or_default();
        let all = changes.map_or(0, |changes| changes.files);
        Some(Self {
            task: dependency.spec.id.clone(),
            title: dependency.spec.label().to_owned(),
            summary: part(resolve(summary)),
            messages: messages.iter().map(|message| part(resolve(message))).collect(),
            artifacts: artifacts.iter().map(|(name, value)| (name.clone(), whole(value, resolve))).collect(),
            more_files: all.saturating_sub(u32::try_from(files.len()).unwrap_or(all)),
            files,
            missing: undelivered(dependency),
            left_out: Vec::new(),
        })
    }

    /// Leaves out the artifacts with more than `limit` bytes, by name.
    fn leave_out_artifacts(&mut self, limit: usize) {
        let left_out = &mut self.left_out;
        self.artifacts.retain(|name, value| {
            let length = value.to_string().len();
            if length > limit {
                left_out.push(format!("artifact `{name}` ({length} bytes)"));
            }
            length <= limit
        });
    }

    fn leave_out_words(&mut self) {
        if !self.messages.is_empty() {
            self.left_out.push(format!("{} messages", self.messages.len()));
            self.messages.clear();
        }
        cut(&mut self.summary, SUMMARY_LIMIT);
    }

    fn markdown(&self, out: &mut Out) {
        out.section(&format!("What {} ({}) delivered", self.title, self.task), &self.summary);
        out.list("It says", &self.messages);
        for (name, value) in &self.artifacts {
            let text = value.as_str().map_or_else(|| pretty(value), ToOwned::to_owned);
            out.fenced(&format!("Artifact `{name}`"), &part(text));
        }
        out.list("It was to provide these artifacts and did not", &self.missing);
        let mut files = self.files.clone();
        if self.more_files > 0 {
            files.push(format!("and {} more", self.more_files));
        }
        out.list("Files it changed", &files);
        out.list("Left out here, because it was too long", &self.left_out);
    }
}

impl PreviousPart {
    fn of(state: &State, task: &Task, previous: &Previous, resolve: &dyn Fn(&Text) -> String) -> Self {
        let summary = previous.outcome.as_ref().map(|outcome| part(resolve(&outcome.summary)));
        let kept = previous.capture.as_ref().map(|_| attempt_ref(state.run, &task.spec.id, previous.attempt));
        Self {
            attempt: previous.attempt.0,
            what_went_wrong: part(resolve(&previous.why)),
            summary: summary.unwrap_or_default(),
            kept_under: kept,
        }
    }

    fn markdown(&self, out: &mut Out) {
        out.section(&format!("Attempt {} did not succeed", self.attempt), &self.what_went_wrong);
        if let Some(kept) = &self.kept_under {
            let commit = format!(
                "What it had in its worktree is kept as {kept}: `git show {kept}` shows it. You start from the present state."
            );
            out.section("Its work", &commit);
        }
    }
}

/// An artifact that was too long for a fact is a text in the blob store.
fn spilled(value: &Value) -> Option<Text> {
    let object = value.as_object()?;
    let is_blob = object.contains_key("blob") && object.contains_key("head");
    is_blob.then(|| serde_json::from_value(value.clone()).ok()).flatten()
}

fn whole(value: &Value, resolve: &dyn Fn(&Text) -> String) -> Value {
    let Some(text) = spilled(value) else { return value.clone() };
    let text = resolve(&text);
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn part(mut text: String) -> String {
    cut(&mut text, PART_LIMIT);
    text
}

/// Cuts a text that is longer than `limit`, and says so in it.
fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        *text = format!("{}\n(cut here: {} bytes in all)", clip(text, limit), text.len());
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[derive(Default)]
struct Out {
    text: String,
}

impl Out {
    fn section(&mut self, title: &str, body: &str) {
        let body = body.trim();
        if !body.is_empty() {
            self.text.push_str(&format!("# {title}\n\n{body}\n\n"));
        }
    }

    fn list(&mut self, title: &str, items: &[String]) {
        let lines: Vec<String> =
            items.iter().map(|item| format!("- {}", item.trim().replace('\n', "\n  "))).collect();
        self.section(title, &lines.join("\n"));
    }

    /// A fence longer than any in the text, so that the text can't end it.
    fn fenced(&mut self, title: &str, body: &str) {
        let longest = body.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        self.section(title, &format!("{fence}\n{body}\n{fence}"));
    }
}
