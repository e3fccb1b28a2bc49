//! What deciding costs: a whole plan carried out in memory, each fact made, admitted, applied and
//! followed by what the run decides itself, without a journal. Beside it, in the same run, the least
//! that anybody must do with such a plan: an adjacency list made from its ids and walked in order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that goes wrong stops")]
#![allow(clippy::disallowed_types, reason = "the plain way to look ids up; nothing depends on its order")]
#![allow(missing_docs, reason = "criterion makes its entry point")]

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hint::black_box,
    time::Duration,
};

use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use ensemble_core::{
    ids::{CommitId, EmployeeId, Epoch, Incarnation, NodeId, ProjectId, RepositoryId, RunId, TaskId},
    outcome::{Changes as Files, Delivery, Ending, Outcome},
    plan::TaskSpec,
    run::{
        Changes, Duty, Entry, Fact, State, admit, decide,
        fact::{AttemptRef, Dispatch, Member, Place, Report, Submitted},
        state::{RunState, TaskIx},
    },
    team::{Budget, Gate, Strategy},
};

/// Plans: number of tasks.
const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

/// Tasks of a layer of the plan; each depends on three of the layer above.
const WIDTH: u32 = 100;

/// Attempts under way at a time.
const SLOTS: usize = 8;

fn commit(number: u64) -> CommitId {
    CommitId::new(format!("{number:040x}")).unwrap()
}

fn task_id(number: u32) -> TaskId {
    TaskId::new(format!("task-{number}")).unwrap()
}

/// A plan in layers, in plan order.
fn plan(tasks: u32) -> Vec<TaskSpec> {
    let spec = |number: u32| {
        let mut spec = TaskSpec::new(task_id(number), "Write a module");
        let (layer, place) = (number / WIDTH, number % WIDTH);
        if layer > 0 {
            let above = |step: u32| (layer - 1) * WIDTH + (place + step) % WIDTH;
            spec.dependencies = [0, 7, 31].map(above).map(task_id).into();
        }
        spec
    };
    (0..tasks).map(spec).collect()
}

fn submitted() -> Submitted {
    let project = ProjectId::new("bench").unwrap();
    let base = commit(0);
    let employee = EmployeeId::new("writer").unwrap();
    Submitted {
        repository: RepositoryId::of(&base, &project),
        project,
        goal: "Measure".into(),
        strategy: Strategy::Plan,
        base,
        into: None,
        roster: vec![Member {
            employee,
            agent_type: "writer".into(),
            timeout_ms: 60_000,
            max_attempts: None,
        }],
        checks: Vec::new(),
        gate: Gate::End,
        budget: Budget::default(),
        files: Vec::new(),
        plan_file: None,
    }
}

/// Processor time of this thread: nothing here waits, and other work of the machine does not count.
struct ProcessorTime;

impl ProcessorTime {
    fn now() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap())
    }
}

impl Measurement for ProcessorTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, began: Duration) -> Duration {
        Self::now().saturating_sub(began)
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A run with the duties that are open, as its owner keeps them.
struct Desk {
    state: State,
    grants: BTreeSet<TaskIx>,
    working: VecDeque<TaskIx>,
    merges: Vec<TaskIx>,
    place: Place,
    commits: u64,
}

impl Desk {
    fn new(plan: Vec<TaskSpec>) -> Self {
        let place = Place { node: NodeId::new("node").unwrap(), incarnation: Incarnation(1) };
        let mut desk = Self {
            state: State::new(RunId::from_parts(1, 1)),
            grants: BTreeSet::new(),
            working: VecDeque::new(),
            merges: Vec::new(),
            place,
            commits: 0,
        };
        desk.put(Fact::Submitted(Box::new(submitted())));
        let scope = "Measure".into();
        desk.put(Fact::Planned { scope, conventions: Vec::new(), tasks: plan, complete: true });
        desk
    }

    fn put(&mut self, fact: Fact) {
        admit(&self.state, &fact).unwrap();
        let seq = self.state.seq.next();
        let changes = self.state.apply(&Entry { seq, epoch: Epoch(1), time_ms: seq.0, fact });
        self.settle(changes);
    }

    fn settle(&mut self, changes: Changes) {
        for duty in changes.vanished {
            if let Duty::Grant { task, .. } = duty {
                self.grants.remove(&task);
            }
        }
        for duty in changes.appeared {
            match duty {
                Duty::Grant { task, .. } => {
                    self.grants.insert(task);
                }
                Duty::Attempt { task, .. } => self.working.push_back(task),
                Duty::Merge { task, .. } => self.merges.push(task),
                other => panic!("{other:?}"),
            }
        }
    }

    fn decide(&mut self) {
        while let Some(fact) = decide(&self.state) {
            self.put(fact);
        }
    }

    fn run(mut self) -> State {
        while self.state.ended.is_none() {
            while self.working.len() < SLOTS
                && let Some(ix) = self.grants.first().copied()
            {
                let fact = self.dispatch(ix);
                self.put(fact);
                let at = self.at(ix);
                self.put(Fact::Started { at });
            }
            let ix = self.working.pop_front().unwrap();
            let (at, report) = (self.at(ix), self.report());
            self.put(Fact::Reported { at, report });
            self.decide();
            while let Some(ix) = self.merges.pop() {
                let fact = self.merged(ix);
                self.put(fact);
                self.decide();
            }
        }
        self.state
    }

    fn dispatch(&self, ix: TaskIx) -> Fact {
        let task = self.state.task(ix);
        let member = self.state.eligible(task).next().unwrap();
        Fact::Dispatched(Box::new(Dispatch {
            task: task.spec.id.clone(),
            attempt: task.last_attempt.next(),
            employee: member.employee.clone(),
            place: self.place.clone(),
            base: self.state.head.clone().unwrap(),
            timeout_ms: State::timeout_ms(task, member),
            context: Vec::new(),
        }))
    }

    fn at(&self, ix: TaskIx) -> AttemptRef {
        let task = self.state.task(ix);
        let token = self.state.token(ix).unwrap();
        AttemptRef { task: task.spec.id.clone(), attempt: task.last_attempt, token }
    }

    fn new_commit(&mut self) -> CommitId {
        self.commits += 1;
        commit(self.commits)
    }

    fn report(&mut self) -> Box<Report> {
        let delivery = Some(Delivery { commit: self.new_commit(), changes: Files::default() });
        let outcome = Outcome::new(Ending::Done, "Wrote the module");
        Box::new(Report { outcome, delivery, left_out: Vec::new(), log: None })
    }

    fn merged(&mut self, ix: TaskIx) -> Fact {
        let commit = self.new_commit();
        let task = self.state.task(ix);
        let (task, attempt) = (task.spec.id.clone(), task.last_attempt);
        Fact::Merged { task, attempt, commit, changes: Files::default() }
    }
}

/// The adjacency list of a plan, and how many dependencies each task has.
fn list(plan: &[TaskSpec]) -> (Vec<Vec<u32>>, Vec<u32>) {
    let places: HashMap<&str, u32> = plan.iter().map(|task| task.id.as_str()).zip(0..).collect();
    let mut dependants = vec![Vec::new(); plan.len()];
    let mut open = vec![0_u32; plan.len()];
    for (task, place) in plan.iter().zip(0_u32..) {
        for dependency in &task.dependencies {
            dependants[places[dependency.as_str()] as usize].push(place);
            open[place as usize] += 1;
        }
    }
    (dependants, open)
}

/// Every task once, after all that it depends on.
fn walk(dependants: &[Vec<u32>], mut open: Vec<u32>) -> usize {
    let mut ready: VecDeque<u32> =
        (0_u32..).zip(&open).filter(|(_, open)| **open == 0).map(|(ix, _)| ix).collect();
    let mut done = 0;
    while let Some(ix) = ready.pop_front() {
        done += 1;
        for dependant in &dependants[ix as usize] {
            open[*dependant as usize] -= 1;
            if open[*dependant as usize] == 0 {
                ready.push_back(*dependant);
            }
        }
    }
    done
}

fn decisions(criterion: &mut Criterion<ProcessorTime>) {
    let mut group = criterion.benchmark_group("decisions");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for tasks in SIZES {
        let plan = plan(tasks);
        group.throughput(Throughput::Elements(tasks.into()));
        group.bench_with_input(BenchmarkId::new("list_and_walk", tasks), &plan, |bencher, plan| {
            bencher.iter(|| {
                let (dependants, open) = list(black_box(plan));
                assert_eq!(walk(&dependants, open), plan.len());
            });
        });
        let (dependants, open) = list(&plan);
        group.bench_with_input(BenchmarkId::new("walk_alone", tasks), &plan, |bencher, plan| {
            bencher.iter(|| assert_eq!(walk(black_box(&dependants), open.clone()), plan.len()));
        });
        group.bench_with_input(BenchmarkId::new("run", tasks), &plan, |bencher, plan| {
            let once = |plan| {
                let state = Desk::new(plan).run();
                assert_eq!(state.state(), RunState::Delivered);
                state
            };
            bencher.iter_batched(|| plan.clone(), once, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = decisions
}
criterion_main!(benches);
