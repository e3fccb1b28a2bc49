//! The dependency graph of a plan: order, what can run at once, the critical path, cycles.
//! Tasks are named by their place in the plan. Nothing recurses, so a chain of 100 000 is as safe as
//! one of three. Plain vectors instead of a graph library: the ties are broken by the file's order.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use super::Plan;
use crate::ids::TaskId;

/// Cycles that are looked for: each may cost a walk through the whole graph.
const CYCLES: usize = 20;

/// Who needs whom. Dependencies that name no task of the plan are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    places: BTreeMap<TaskId, usize>,
    dependencies: Vec<Vec<usize>>,
    dependants: Vec<Vec<usize>>,
    order: Vec<usize>,
    levels: Vec<usize>,
}

impl Graph {
    /// The graph of `plan`.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut places = BTreeMap::new();
        for (place, task) in plan.sub_tasks.iter().enumerate() {
            places.entry(task.id.clone()).or_insert(place);
        }
        let mut dependants = vec![Vec::new(); plan.sub_tasks.len()];
        let mut dependencies = Vec::with_capacity(plan.sub_tasks.len());
        for (place, task) in plan.sub_tasks.iter().enumerate() {
            let mut needed: Vec<usize> =
                task.dependencies.iter().filter_map(|id| places.get(id).copied()).collect();
            needed.sort_unstable();
            needed.dedup();
            needed.iter().for_each(|one| dependants[*one].push(place));
            dependencies.push(needed);
        }
        let mut graph = Self { places, dependencies, dependants, ..Self::default() };
        graph.order = graph.sort();
        graph.levels = graph.measure();
        graph
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dependencies.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dependencies.is_empty()
    }

    /// The place of a task in the plan.
    #[must_use]
    pub fn place(&self, id: &TaskId) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// What `task` needs directly, in the order of the plan.
    #[must_use]
    pub fn dependencies(&self, task: usize) -> &[usize] {
        self.dependencies.get(task).map_or(&[], Vec::as_slice)
    }

    /// Who needs `task` directly, in the order of the plan.
    #[must_use]
    pub fn dependants(&self, task: usize) -> &[usize] {
        self.dependants.get(task).map_or(&[], Vec::as_slice)
    }

    /// Every task after all that it needs; among equals in the order of the plan. Tasks on a cycle,
    /// and those behind one, are left out.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// What can run at once: the tasks that need nothing, then those that need only these, and so on.
    #[must_use]
    pub fn levels(&self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        for (task, level) in self.levels.iter().enumerate().filter(|(_, level)| **level > 0) {
            if all.len() < *level {
                all.resize(*level, Vec::new());
            }
            all[*level - 1].push(task);
        }
        all
    }

    /// The chain of tasks whose weights add up to most: no run can be shorter than it. Among equals
    /// the one that comes first in the plan.
    #[must_use]
    pub fn critical_path(&self, weight: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut heaviest: Vec<(u64, Option<usize>)> = vec![(0, None); self.len()];
        for task in &self.order {
            let before =
                self.dependencies[*task].iter().copied().max_by_key(|one| (heaviest[*one].0, Reverse(*one)));
            let sum = before.map_or(0, |one| heaviest[one].0).saturating_add(weight(*task));
            heaviest[*task] = (sum, before);
        }
        let last = self.order.iter().copied().max_by_key(|task| (heaviest[*task].0, Reverse(*task)));
        let mut path: Vec<usize> = std::iter::successors(last, |task| heaviest[*task].1).collect();
        path.reverse();
        path
    }

    /// Cycles that share no task, each from its first task in the plan: every task needs the next,
    /// and the last one needs the first. Empty exactly when the plan can be carried out; at most 20.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut left = Left::behind(self);
        let mut cycles = Vec::new();
        for start in 0..self.len() {
            while left.holds(start) && cycles.len() < CYCLES {
                let cycle = left.walk(start);
                cycle.iter().for_each(|task| left.remove(*task));
                cycles.push(from_first(cycle));
            }
        }
        cycles
    }

    /// Whether `later` needs `earlier`, directly or through others. `None` when `steps` ran out
    /// before that was clear; it is counted down.
    #[must_use]
    pub fn needs(&self, later: usize, earlier: usize, steps: &mut usize) -> Option<bool> {
        *steps = steps.checked_sub(1)?;
        let mut seen = BTreeSet::new();
        let mut next = vec![later];
        while let Some(task) = next.pop() {
            for needed in self.dependencies[task].iter().copied() {
                if needed == earlier {
                    return Some(true);
                }
                *steps = steps.checked_sub(1)?;
                // What stands no higher than `earlier` can't need it.
                if self.levels[needed] > self.levels[earlier] && seen.insert(needed) {
                    next.push(needed);
                }
            }
        }
        Some(false)
    }

    fn sort(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..self.len()).filter(|task| waiting[*task] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(Reverse(task)) = ready.pop() {
            order.push(task);
            for dependant in self.dependants[task].iter().copied() {
                waiting[dependant] -= 1;
                if waiting[dependant] == 0 {
                    ready.push(Reverse(dependant));
                }
            }
        }
        order
    }

    /// The level of each task from 1; 0 for those that the order leaves out.
    fn measure(&self) -> Vec<usize> {
        let mut levels = vec![0; self.len()];
        for task in &self.order {
            levels[*task] = 1 + self.dependencies[*task].iter().map(|one| levels[*one]).max().unwrap_or(0);
        }
        levels
    }
}

/// What is left of a graph after everything outside of cycles was taken away: each task left needs
/// one that is left.
struct Left<'g> {
    graph: &'g Graph,
    /// How many of a task's dependencies are left.
    needs: Vec<usize>,
    present: Vec<bool>,
    /// A place in each task's dependencies before which none is left.
    cursor: Vec<usize>,
    gone: Vec<usize>,
}

impl<'g> Left<'g> {
    fn behind(graph: &'g Graph) -> Self {
        let mut left = Self {
            graph,
            needs: graph.dependencies.iter().map(Vec::len).collect(),
            present: vec![true; graph.len()],
            cursor: vec![0; graph.len()],
            gone: Vec::new(),
        };
        graph.order.iter().for_each(|task| left.remove(*task));
        left
    }

    fn holds(&self, task: usize) -> bool {
        self.present[task]
    }

    /// Takes a task away, and with it those that then need nothing that is left.
    fn remove(&mut self, task: usize) {
        self.gone.push(task);
        while let Some(task) = self.gone.pop() {
            if !std::mem::take(&mut self.present[task]) {
                continue;
            }
            for dependant in self.graph.dependants[task].iter().copied() {
                self.needs[dependant] -= 1;
                if self.needs[dependant] == 0 {
                    self.gone.push(dependant);
                }
            }
        }
    }

    /// Follows dependencies from `start` until a task comes again; the way from there is a cycle.
    fn walk(&mut self, start: usize) -> Vec<usize> {
        let (mut way, mut visited, mut task) = (Vec::new(), BTreeMap::new(), start);
        loop {
            if let Some(first) = visited.insert(task, way.len()) {
                return way.split_off(first);
            }
            way.push(task);
            while let Some(next) = self.graph.dependencies[task].get(self.cursor[task]) {
                if self.present[*next] {
                    task = *next;
                    break;
                }
                self.cursor[task] += 1;
            }
        }
    }
}

/// The same cycle, starting at its first task in the plan.
fn from_first(mut cycle: Vec<usize>) -> Vec<usize> {
    let first = cycle.iter().enumerate().min_by_key(|(_, task)| **task).map_or(0, |(place, _)| place);
    cycle.rotate_left(first);
    cycle
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
