//! Random plans in random worlds. The invariants stand in `invariants` and hold after every fact;
//! here stands what must come of it in the end.

use ensemble_core::{
    ids::TaskId,
    plan::{TaskSpec, WorktreeMode},
    run::{
        Changes, Duty, Fact, State,
        fact::{EndState, Submitted},
        state::TaskIx,
    },
    team::{Budget, Gate},
};
use proptest::{
    collection::{btree_set, vec},
    prelude::*,
    sample::subsequence,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use crate::{
    desk::{Desk, id, planned, run_id, submitted},
    world::{Step, World},
};

/// Most tasks of a random plan.
const TASKS: usize = 25;

fn task_id(number: usize) -> TaskId {
    id(&format!("ST-{number}"))
}

/// A task that depends on some of those before it.
fn a_task(number: usize) -> impl Strategy<Value = TaskSpec> {
    let before: Vec<usize> = (0..number).collect();
    let most = number.min(3);
    let names = vec!["port".to_owned(), "database".to_owned()];
    let mode = prop_oneof![
        3 => Just(None),
        1 => Just(Some(WorktreeMode::Write)),
        1 => Just(Some(WorktreeMode::Read)),
        1 => Just(Some(WorktreeMode::None)),
    ];
    let employee = prop_oneof![2 => Just(None), 1 => Just(Some("back")), 1 => Just(Some("front"))];
    (
        subsequence(before, 0..=most),
        0..3_usize,
        subsequence(names, 0..=2),
        prop_oneof![2 => Just(None), 1 => (1..4_u32).prop_map(Some)],
        mode,
        employee,
    )
        .prop_map(move |(dependencies, checks, exclusive, max_attempts, worktree, employee)| TaskSpec {
            dependencies: dependencies.into_iter().map(task_id).collect(),
            checks: (0..checks).map(|check| format!("make check-{check}")).collect(),
            exclusive,
            max_attempts,
            worktree,
            agent_type: employee.map(|name| format!("{name}_developer")),
            ..TaskSpec::new(task_id(number), "Do it")
        })
}

fn a_plan() -> impl Strategy<Value = Vec<TaskSpec>> {
    (1..=TASKS).prop_flat_map(|count| (0..count).map(a_task).collect::<Vec<_>>())
}

fn a_submission() -> impl Strategy<Value = Submitted> {
    let gate = prop_oneof![Just(Gate::End), Just(Gate::Each)];
    let budget = (
        prop_oneof![2 => Just(None), 1 => (1..30_u64).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => (1..40_u64).prop_map(Some)],
    )
        .prop_map(|(turns, tokens)| Budget { tokens, turns });
    (0..3_usize, gate, budget).prop_map(|(checks, gate, budget)| Submitted {
        checks: (0..checks).map(|check| format!("sh tests/run-{check}.sh")).collect(),
        gate,
        budget,
        ..submitted()
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (any::<u16>(), any::<u8>()).prop_map(|(duty, how)| Step::Perform { duty, how }),
        30 => any::<u16>().prop_map(|duty| Step::Help { duty }),
        12 => Just(Step::Decide),
        4 => any::<u16>().prop_map(|fact| Step::Repeat { fact }),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(fact, how)| Step::Invent { fact, how }),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(task, how)| Step::Rush { task, how }),
        1 => any::<u8>().prop_map(|node| Step::LoseNode { node }),
        2 => any::<u16>().prop_map(|task| Step::StopTask { task }),
        1 => Just(Step::StopRun),
        3 => any::<u16>().prop_map(|task| Step::RetryTask { task }),
        3 => Just(Step::RetryRun),
        2 => Just(Step::Pause),
        3 => Just(Step::Resume),
        1 => any::<bool>().prop_map(|embedded| Step::Crash { embedded }),
    ]
}

/// A plan, how it is handed in, and what happens to it.
fn a_history() -> impl Strategy<Value = (Submitted, Vec<TaskSpec>, Parts, Vec<Step>)> {
    (a_submission(), a_plan(), in_parts(proptest::option::weighted(0.2, any::<u16>())), vec(a_step(), 0..250))
}

/// Hands the run in. The plan comes in two parts, between which somebody may stop a task.
fn begin(submitted: Submitted, mut plan: Vec<TaskSpec>, parts: Parts) -> World {
    let mut desk = Desk::empty();
    desk.put(Fact::Submitted(Box::new(submitted)));
    let rest = plan.split_off(parts.first.min(plan.len()));
    desk.put(Fact::Planned { scope: "".into(), conventions: Vec::new(), tasks: plan, complete: false });
    let mut world = World::new(desk);
    if let Some(task) = parts.stopped {
        world.step(&Step::StopTask { task });
    }
    world.desk.put(planned(rest));
    world
}

/// How a plan comes in.
#[derive(Clone, Debug)]
struct Parts {
    first: usize,
    stopped: Option<u16>,
}

fn in_parts(stops: impl Strategy<Value = Option<u16>>) -> impl Strategy<Value = Parts> {
    (0..=TASKS, stops).prop_map(|(first, stopped)| Parts { first, stopped })
}

/// Resumes and retries until the run is delivered. Every budget lets at least one attempt through, so
/// each round gets at least one task further.
fn repair(world: &mut World) {
    for _ in 0..(2 * TASKS + 4) {
        if world.desk.state.ended == Some(EndState::Delivered) {
            return;
        }
        world.step(&Step::Resume);
        world.step(&Step::RetryRun);
        world.settle();
    }
    panic!("it can't be repaired\n{}", world.desk.show());
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() })]

    /// After whatever happened, a world in which all goes well brings every run to an end or to a
    /// person, and from there, retried, to delivery.
    #[test]
    fn every_run_ends_and_can_be_repaired((submitted, plan, parts, steps) in a_history()) {
        let mut world = begin(submitted, plan, parts);
        for step in &steps {
            world.step(step);
        }
        world.settle();
        prop_assert!(world.resting());
        repair(&mut world);
        let state = &world.desk.state;
        prop_assert_eq!(state.counts.success as usize, state.tasks.len());
        prop_assert_eq!(&State::replay(run_id(), &world.desk.log), state);
    }

    /// A run in which nothing goes wrong is delivered at once, in the order of its dependencies.
    #[test]
    fn a_run_in_a_good_world_is_delivered((submitted, plan, parts, order) in (a_submission(), a_plan(), in_parts(Just(None)), vec(any::<u16>(), 0..200))) {
        let unlimited = Submitted { budget: Budget::default(), ..submitted };
        let mut world = begin(unlimited, plan, parts);
        for duty in order {
            world.step(&Step::Help { duty });
            world.step(&Step::Decide);
        }
        world.settle();
        prop_assert!(world.desk.state.is_delivered(), "{}", world.desk.show());
        prop_assert!(world.desk.state.tasks.iter().all(|task| task.last_attempt.0 == 1));
    }

    /// What happens in a batch and leaves no trace in the duties leaves none in the changes.
    #[test]
    fn changes_add_up(before in sets(), between in sets(), after in sets()) {
        let mut both = difference(&before, &between);
        both.then(difference(&between, &after));
        prop_assert_eq!(both, difference(&before, &after));
    }
}

fn sets() -> impl Strategy<Value = std::collections::BTreeSet<u32>> {
    btree_set(0..8_u32, 0..8)
}

fn difference(old: &std::collections::BTreeSet<u32>, new: &std::collections::BTreeSet<u32>) -> Changes {
    let duty =
        |number: &u32| Duty::Grant { task: TaskIx(*number), attempt: ensemble_core::ids::AttemptNumber(1) };
    Changes {
        appeared: new.difference(old).map(duty).collect(),
        vanished: old.difference(new).map(duty).collect(),
    }
}

/// The properties say nothing of what the worlds never reach: each kind of fact must be stored, and
/// each kind of refusal given, in a number of worlds that are the same every time.
#[test]
fn the_worlds_reach_every_fact_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..100 {
        let (submitted, plan, parts, steps) = a_history().new_tree(&mut runner).unwrap().current();
        let mut world = begin(submitted, plan, parts);
        for step in &steps {
            world.step(step);
        }
        for entry in &world.desk.log {
            *seen.entry(entry.fact.kind().to_owned()).or_default() += 1;
        }
        for (word, count) in &world.seen {
            *seen.entry(word.clone()).or_default() += count;
        }
    }
    let facts = [
        "submitted",
        "planned",
        "claimed",
        "dispatched",
        "refused",
        "started",
        "reported",
        "lost",
        "check_dispatched",
        "check_reported",
        "check_lost",
        "accepted",
        "merge_ordered",
        "prepared",
        "merged",
        "conflicted",
        "stop_requested",
        "retried",
        "paused",
        "resumed",
        "waiting",
        "ended",
    ];
    for fact in facts {
        assert!(seen.get(fact).is_some_and(|count| *count > 10), "{fact} is too rare in {seen:#?}");
    }
    let refusals = [
        "over",
        "no such task",
        "the run has ended",
        "only what failed",
        "it depends on",
        "already ended",
        "being stopped",
        "paused already",
        "not paused",
        "can't start",
        "can't do the task",
        "checks come before",
        "begins with one submission",
    ];
    for refusal in refusals {
        assert!(seen.keys().any(|word| word.contains(refusal)), "`{refusal}` is never refused in {seen:#?}");
    }
}
