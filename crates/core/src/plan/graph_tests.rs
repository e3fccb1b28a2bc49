//! The graph on random plans: what it promises holds for each.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Graph, Plan};
use crate::{ids::TaskId, plan::TaskSpec};

fn plan(dependencies: &[Vec<usize>]) -> Plan {
    let id = |task: usize| TaskId::new(format!("t{task}")).unwrap();
    let task = |(task, needed): (usize, &Vec<usize>)| {
        let mut spec = TaskSpec::new(id(task), "d");
        spec.dependencies = needed.iter().map(|one| id(*one)).collect();
        spec
    };
    Plan { sub_tasks: dependencies.iter().enumerate().map(task).collect(), ..Plan::default() }
}

/// Any dependencies among up to twelve tasks, cycles included.
fn any_dependencies() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1_usize..12).prop_flat_map(|count| prop::collection::vec(prop::collection::vec(0..count, 0..3), count))
}

/// Dependencies without a cycle, among tasks in a random order.
fn acyclic() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let ranks = (1_usize..16).prop_flat_map(|count| Just((0..count).collect::<Vec<_>>()).prop_shuffle());
    (ranks, prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 16)).prop_map(
        |(ranks, wishes)| {
            let needed = |task: usize| {
                let earlier: Vec<usize> = (0..ranks.len()).filter(|one| ranks[*one] < ranks[task]).collect();
                let wishes = wishes[task].iter().filter(|_| !earlier.is_empty());
                wishes.map(|wish| earlier[wish.index(earlier.len())]).collect()
            };
            (0..ranks.len()).map(needed).collect()
        },
    )
}

/// Whether `later` needs `earlier`, found out the slow way.
fn needs(dependencies: &[Vec<usize>], later: usize, earlier: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![later];
    while let Some(task) = open.pop() {
        for one in &dependencies[task] {
            if seen.insert(*one) {
                open.push(*one);
            }
        }
    }
    seen.contains(&earlier)
}

proptest! {
    #[test]
    fn the_order_respects_dependencies_and_is_the_files_where_it_can(dependencies in acyclic()) {
        let graph = Graph::of(&plan(&dependencies));
        let mut done = BTreeSet::new();
        for task in graph.order() {
            let ready = (0..graph.len()).find(|one| {
                !done.contains(one) && dependencies[*one].iter().all(|needed| done.contains(needed))
            });
            prop_assert_eq!(ready, Some(*task));
            done.insert(*task);
        }
        prop_assert_eq!(done.len(), graph.len());
        prop_assert!(graph.cycles().is_empty());
    }

    #[test]
    fn levels_hold_what_can_run_at_once_and_no_later_than_it_could(dependencies in acyclic()) {
        let levels = Graph::of(&plan(&dependencies)).levels();
        let level = |task: usize| levels.iter().position(|level| level.contains(&task)).unwrap();
        for (task, needed) in dependencies.iter().enumerate() {
            let last = needed.iter().map(|one| level(*one) + 1).max().unwrap_or(0);
            prop_assert_eq!(level(task), last);
        }
    }

    #[test]
    fn the_critical_path_is_a_chain_and_none_is_heavier(dependencies in acyclic(), weights in prop::collection::vec(0_u64..9, 16)) {
        let graph = Graph::of(&plan(&dependencies));
        let path = graph.critical_path(|task| weights[task]);
        for pair in path.windows(2) {
            prop_assert!(dependencies[pair[1]].contains(&pair[0]));
        }
        let mut heaviest = vec![0; graph.len()];
        for task in graph.order() {
            heaviest[*task] = weights[*task] + dependencies[*task].iter().map(|one| heaviest[*one]).max().unwrap_or(0);
        }
        let sum: u64 = path.iter().map(|task| weights[*task]).sum();
        prop_assert_eq!(Some(sum), heaviest.into_iter().max());
        let longest = graph.critical_path(|_| 1);
        prop_assert_eq!(longest.len(), graph.levels().len());
    }

    #[test]
    fn cycles_are_found_exactly_when_there_are_any_and_are_real(dependencies in any_dependencies()) {
        let graph = Graph::of(&plan(&dependencies));
        let cycles = graph.cycles();
        let cyclic = (0..graph.len()).any(|task| needs(&dependencies, task, task));
        prop_assert_eq!(cycles.is_empty(), !cyclic);
        prop_assert_eq!(graph.order().len() == graph.len(), !cyclic);
        let mut seen = BTreeSet::new();
        for cycle in &cycles {
            for (place, task) in cycle.iter().enumerate() {
                prop_assert!(dependencies[*task].contains(&cycle[(place + 1) % cycle.len()]));
                prop_assert!(seen.insert(*task), "cycles share no task");
            }
            prop_assert_eq!(cycle.iter().min(), cycle.first());
        }
        let broken: Vec<Vec<usize>> = dependencies.iter().enumerate()
            .map(|(task, needed)| if seen.contains(&task) { Vec::new() } else { needed.clone() }).collect();
        prop_assert!(Graph::of(&plan(&broken)).cycles().is_empty(), "every cycle shares a task with one that is named");
    }

    #[test]
    fn who_needs_whom(dependencies in acyclic()) {
        let graph = Graph::of(&plan(&dependencies));
        for later in 0..graph.len() {
            for earlier in 0..graph.len() {
                let mut steps = 10_000;
                prop_assert_eq!(graph.needs(later, earlier, &mut steps), Some(needs(&dependencies, later, earlier)));
            }
            for one in graph.dependants(later) {
                prop_assert!(graph.dependencies(*one).contains(&later));
            }
        }
    }
}

#[test]
fn a_question_that_takes_too_long_is_left_open() {
    let chain: Vec<Vec<usize>> =
        (0..100).map(|task: usize| task.checked_sub(1).into_iter().collect()).collect();
    let graph = Graph::of(&plan(&chain));
    assert_eq!(graph.needs(99, 0, &mut 1000), Some(true));
    assert_eq!(graph.needs(99, 0, &mut 10), None);
}
