//! A desk at which a run is carried out by hand: it admits, applies and logs facts, holds every
//! invariant after each, and has short words for the facts that stories need.

use ensemble_core::{
    ids::{
        AttemptNumber, CommitId, EmployeeId, Epoch, Incarnation, NodeId, ProjectId, RepositoryId, RunId, Seq,
        TaskId,
    },
    outcome::{Changes as Files, Delivery, Ending, Outcome},
    plan::TaskSpec,
    run::{
        Changes, Duty, Entry, Fact, Refusal, State, admit, decide,
        fact::{
            AttemptRef, CheckOf, CheckRef, Dispatch, LossCause, Member, Place, Report, SourceFile, Submitted,
        },
        state::{CheckState, Stage, TaskIx},
    },
    team::{Budget, Gate, Strategy},
};

use crate::invariants::Watch;

/// A run with its log.
pub struct Desk {
    pub state: State,
    pub log: Vec<Entry>,
    pub epoch: Epoch,
    watch: Watch,
    commits: u64,
}

/// The run that every test uses.
pub fn run_id() -> RunId {
    RunId::from_parts(1_796_000_000_000, 7)
}

pub fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

pub fn commit(number: u64) -> CommitId {
    CommitId::new(format!("{number:040x}")).unwrap()
}

pub fn node(number: u32) -> Place {
    Place { node: NodeId::new(format!("node-{number}")).unwrap(), incarnation: Incarnation(1) }
}

fn member(name: &str, max_attempts: Option<u32>) -> Member {
    let employee = EmployeeId::new(name).unwrap();
    Member { employee, agent_type: format!("{name}_developer"), timeout_ms: 60_000, max_attempts }
}

/// A submission with two employees, no checks and no limits.
pub fn submitted() -> Submitted {
    let project = ProjectId::new("bookshop").unwrap();
    let base = commit(0xba5e);
    Submitted {
        repository: RepositoryId::of(&base, &project),
        project,
        goal: "Build the bookshop".into(),
        strategy: Strategy::Plan,
        base,
        into: None,
        roster: vec![member("back", None), member("front", None)],
        checks: Vec::new(),
        gate: Gate::End,
        budget: Budget::default(),
        files: vec![SourceFile {
            name: "team.yaml".into(),
            dir: String::new(),
            text: "name: bookshop\n".into(),
        }],
        plan_file: None,
    }
}

/// The run has one check, before every merge.
pub fn gated(submitted: &mut Submitted) {
    submitted.gate = Gate::Each;
    submitted.checks = vec!["sh tests/run.sh".into()];
}

/// Tasks in a word: `a; b: a [check=make test] [max=1] [exclusive=port]`.
pub fn tasks(plan: &str) -> Vec<TaskSpec> {
    plan.split(';').map(|one| task(one.trim())).collect()
}

fn task(text: &str) -> TaskSpec {
    let (head, options) = text.split_once('[').unwrap_or((text, ""));
    let (name, dependencies) = head.split_once(':').unwrap_or((head, ""));
    let mut spec = TaskSpec::new(id(name.trim()), format!("Do {}", name.trim()));
    spec.dependencies = dependencies.split_whitespace().map(id).collect();
    for option in options.split('[') {
        match option.trim().trim_end_matches(']').split_once('=') {
            Some(("check", command)) => spec.checks.push(command.to_owned()),
            Some(("max", bound)) => spec.max_attempts = Some(bound.parse().unwrap()),
            Some(("exclusive", name)) => spec.exclusive.push(name.to_owned()),
            Some(("employee", name)) => spec.employee = Some(EmployeeId::new(name).unwrap()),
            _ => assert!(option.is_empty(), "what is `{option}`?"),
        }
    }
    spec
}

pub fn report(ending: Ending, summary: &str, commit: Option<CommitId>) -> Box<Report> {
    let changes = Files { files: 1, added: 10, removed: 2, paths: vec!["a.txt".into()] };
    let delivery = commit.map(|commit| Delivery { commit, changes });
    Box::new(Report { outcome: Outcome::new(ending, summary), delivery, left_out: Vec::new(), log: None })
}

impl Desk {
    /// A desk with nothing on it.
    pub fn empty() -> Self {
        Self {
            state: State::new(run_id()),
            log: Vec::new(),
            epoch: Epoch(1),
            watch: Watch::default(),
            commits: 0xc0,
        }
    }

    /// A desk with a planned run.
    pub fn new(plan: &str) -> Self {
        Self::with(plan, |_| {})
    }

    /// A desk with a planned run whose submission is changed first.
    pub fn with(plan: &str, change: impl FnOnce(&mut Submitted)) -> Self {
        let mut submitted = submitted();
        change(&mut submitted);
        let mut desk = Self::empty();
        desk.put(Fact::Submitted(Box::new(submitted)));
        desk.put(planned(tasks(plan)));
        desk
    }

    /// Offers a fact; whatever comes of it, every invariant must hold.
    pub fn offer(&mut self, fact: Fact) -> Result<Changes, Refusal> {
        let before = self.state.clone();
        let admitted = admit(&self.state, &fact);
        assert_eq!(before, self.state, "asking changes nothing");
        admitted?;
        let seq = self.state.seq.next();
        let entry = Entry { seq, epoch: self.epoch, time_ms: 1_796_000_000_000 + seq.0 * 1000, fact };
        let changes = self.state.apply(&entry);
        self.watch.check(&before, &self.state, &entry, &changes);
        self.log.push(entry);
        Ok(changes)
    }

    /// Offers a fact that must be admitted.
    pub fn put(&mut self, fact: Fact) -> Changes {
        match self.offer(fact.clone()) {
            Ok(changes) => changes,
            Err(refusal) => panic!("{fact:?} was refused: {refusal}\n{}", self.show()),
        }
    }

    /// Stores what the state itself demands, until there is nothing more.
    pub fn decide(&mut self) {
        for _ in 0..1_000 {
            let Some(fact) = decide(&self.state) else { return };
            self.put(fact);
        }
        panic!("the run never stops deciding\n{}", self.show());
    }

    /// Throws the state away and goes on from the log, as after a crash.
    pub fn crash(&mut self) {
        let stored = self.log.iter().map(|entry| serde_json::to_string(entry).unwrap());
        let read: Vec<Entry> = stored.map(|line| serde_json::from_str(&line).unwrap()).collect();
        let replayed = State::replay(run_id(), &read);
        assert_eq!(replayed, self.state, "replay equals live state");
        assert!(replayed.duties().eq(self.state.duties()), "an empty desk gets the same duties");
        self.state = replayed;
        self.epoch = self.epoch.next();
        self.put(Fact::Claimed { coordinator: "coordinator-2".parse().unwrap() });
    }

    /// A commit that nobody has seen before.
    pub fn new_commit(&mut self) -> CommitId {
        self.commits += 1;
        commit(self.commits)
    }

    pub fn duties(&self) -> Vec<Duty> {
        self.state.duties().cloned().collect()
    }

    /// The dispatch of a task by an eligible employee.
    pub fn dispatch_of(&self, ix: TaskIx, employee: usize, place: Place) -> Option<Fact> {
        let task = self.state.task(ix);
        let eligible: Vec<&Member> = self.state.eligible(task).collect();
        let member = *eligible.get(employee % eligible.len().max(1))?;
        Some(Fact::Dispatched(Box::new(Dispatch {
            task: task.spec.id.clone(),
            attempt: task.last_attempt.next(),
            employee: member.employee.clone(),
            place,
            base: self.state.head.clone()?,
            timeout_ms: State::timeout_ms(task, member),
            context: Vec::new(),
        })))
    }

    /// The attempt under way.
    pub fn at(&self, task: &str) -> AttemptRef {
        let (ix, found) = self.state.find(&id(task)).unwrap();
        let token = self.state.token(ix).unwrap_or_else(|| panic!("{task} has no attempt\n{}", self.show()));
        AttemptRef { task: id(task), attempt: found.last_attempt, token }
    }

    pub fn attempt(&self, task: &str) -> AttemptNumber {
        self.state.find(&id(task)).unwrap().1.last_attempt
    }

    pub fn dispatch(&mut self, task: &str) {
        let (ix, _) = self.state.find(&id(task)).unwrap();
        let fact = self.dispatch_of(ix, 0, node(1)).unwrap();
        self.put(fact);
    }

    pub fn start(&mut self, task: &str) {
        self.dispatch(task);
        let at = self.at(task);
        self.put(Fact::Started { at });
    }

    /// Reports an ending; the work is a new commit.
    pub fn report(&mut self, task: &str, ending: Ending, summary: &str) {
        let work = self.new_commit();
        let fact = Fact::Reported { at: self.at(task), report: report(ending, summary, Some(work)) };
        self.put(fact);
        self.decide();
    }

    /// Starts the task and reports it done with a commit.
    pub fn done(&mut self, task: &str) {
        self.start(task);
        self.report(task, Ending::Done, "did it");
    }

    pub fn fail(&mut self, task: &str, why: &str) {
        self.start(task);
        self.report(task, Ending::Failed, why);
    }

    /// Starts the task and loses it.
    pub fn lose(&mut self, task: &str, cause: LossCause) {
        self.start(task);
        self.lost(task, cause);
    }

    /// The attempt under way is lost.
    pub fn lost(&mut self, task: &str, cause: LossCause) {
        self.put(Fact::Lost { at: self.at(task), cause, capture: None, reason: String::new() });
        self.decide();
    }

    pub fn merge(&mut self, task: &str) {
        let fact = self.merged(task);
        self.put(fact);
        self.decide();
    }

    pub fn merged(&mut self, task: &str) -> Fact {
        let (_, found) = self.state.find(&id(task)).unwrap();
        let commit = match found.attempt.as_ref().map(|attempt| &attempt.stage) {
            Some(Stage::Advancing(_, prepared)) => prepared.commit.clone(),
            _ => self.new_commit(),
        };
        let changes = Files { files: 1, added: 10, removed: 2, paths: vec!["a.txt".into()] };
        Fact::Merged { task: id(task), attempt: self.attempt(task), commit, changes }
    }

    pub fn prepare(&mut self, task: &str) {
        let commit = self.new_commit();
        let (task, attempt) = (id(task), self.attempt(task));
        self.put(Fact::Prepared { task, attempt, commit, changes: Files::default() });
    }

    pub fn conflict(&mut self, task: &str, file: &str) {
        let attempt = self.attempt(task);
        self.put(Fact::Conflicted {
            task: id(task),
            attempt,
            files: vec![format!("{file} (changed on both sides)")],
        });
        self.decide();
    }

    /// What the checks of a task, or of the run, are called.
    pub fn check_of(&self, task: Option<&str>) -> CheckOf {
        match task {
            Some(task) => CheckOf { task: Some(id(task)), attempt: self.attempt(task) },
            None => CheckOf { task: None, attempt: AttemptNumber(self.state.check_rounds) },
        }
    }

    pub fn dispatch_check(&mut self, of: &CheckOf, command: u32, place: Place) -> CheckRef {
        let checks = self.state.checks(of).unwrap_or_else(|| panic!("no checks of {of:?}\n{}", self.show()));
        let (check, commit) = (checks.last.next(), checks.commit.clone());
        self.put(Fact::CheckDispatched { of: of.clone(), check, command, commit, place });
        CheckRef { of: of.clone(), check, token: Seq(self.log.len() as u64) }
    }

    /// Runs one check of a task, or of the run, to its verdict.
    pub fn check(&mut self, task: Option<&str>, command: u32, passed: bool) {
        let of = self.check_of(task);
        let at = self.dispatch_check(&of, command, node(1));
        let ended = if passed { "exit 0" } else { "exit 1" }.to_owned();
        self.put(Fact::CheckReported { at, passed, ended, output: "assertion failed: 1 == 2\n".into() });
        self.decide();
    }

    pub fn stop(&mut self, task: Option<&str>) {
        self.put(Fact::StopRequested { task: task.map(id) });
        self.decide();
    }

    pub fn retry(&mut self, task: Option<&str>) {
        self.put(retried(task));
        self.decide();
    }

    pub fn pause(&mut self) {
        self.put(Fact::Paused);
        self.decide();
    }

    pub fn resume(&mut self) {
        self.put(Fact::Resumed);
        self.decide();
    }

    /// The whole run in a line: each task with its state and why, then the run.
    pub fn show(&self) -> String {
        let mut words: Vec<String> = self.state.tasks.iter().map(show_task).collect();
        let mut run = self.state.state().word().to_owned();
        if let Some(reason) = self.state.waiting {
            run = format!("{run} ({reason:?})").to_lowercase();
        }
        if !self.state.end_reason.is_empty() {
            run = format!("{run} ({})", self.state.end_reason);
        }
        words.push(format!("=> {run}"));
        words.join("; ")
    }
}

fn show_task(task: &ensemble_core::run::state::Task) -> String {
    let mut words = format!("{} {}", task.spec.id, task.state.word());
    if let Some(why) = &task.why {
        words = format!("{words} ({why})");
    }
    if let Some(checks) = task.attempt.as_ref().and_then(|attempt| attempt.stage.checks()) {
        let each = checks.each.iter().map(|check| match &check.state {
            CheckState::Open => "open".to_owned(),
            CheckState::Live { number, .. } => format!("{}.c{number}", task.last_attempt),
            CheckState::Passed => "passed".to_owned(),
        });
        words = format!("{words} [{}]", each.collect::<Vec<_>>().join(" "));
    }
    words
}

pub fn planned(tasks: Vec<TaskSpec>) -> Fact {
    Fact::Planned {
        scope: "A bookshop".into(),
        conventions: vec!["Python 3, standard library only.".into()],
        tasks,
        complete: true,
    }
}

pub fn retried(task: Option<&str>) -> Fact {
    Fact::Retried { task: task.map(id), prompt: None }
}
