//! What is known of a run from parties that are not under test (the agents' log, git, `/proc`) and
//! from its journal, and the promises that must hold between them, whatever happened to the run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{Plan, Team, World};

/// An attempt as its agent noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its task.
    pub task: String,
    /// Its number.
    pub attempt: u64,
    /// Its employee.
    pub who: String,
    /// When it began, since the epoch.
    pub from: Duration,
    /// When it ended: as it noted, or, if it was killed, when the journal says that it was over.
    pub to: Duration,
}

/// A run, seen from outside.
#[derive(Debug)]
pub struct Evidence<'w> {
    world: &'w World,
    /// The run.
    pub run: String,
    /// Its facts, as `events` prints them.
    pub facts: Vec<Value>,
    /// What its agents noted, in order of their beginnings.
    pub agents: Vec<Interval>,
}

/// An attempt: its task and number.
type Attempt = (String, u64);

impl<'w> Evidence<'w> {
    pub(crate) fn gather(world: &'w World, run: &str) -> Self {
        let printed = world.ensemble(&["events", run, "-o", "json"]).expect(0).stdout;
        let facts: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        let mut evidence = Self { world, run: run.to_owned(), facts, agents: Vec::new() };
        evidence.agents = evidence.intervals();
        evidence
    }

    fn intervals(&self) -> Vec<Interval> {
        let log = fs::read_to_string(self.world.log_file()).unwrap_or_default();
        let mut over: BTreeMap<Attempt, Duration> = BTreeMap::new();
        for fact in self.of(&["reported", "lost"]) {
            over.entry(attempt(fact)).or_insert_with(|| time(fact));
        }
        let mut intervals: Vec<Interval> = Vec::new();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [word, run, task, number, who, _pid, time] = words[..] else { panic!("agents' log: {line}") };
            if run != self.run {
                continue;
            }
            let (number, time) = (number.parse().unwrap(), Duration::from_nanos(time.parse().unwrap()));
            let key = (task.to_owned(), number);
            if word == "start" {
                let known = intervals.iter().any(|one| one.task == task && one.attempt == number);
                assert!(!known, "{task} attempt {number} was started twice");
                // Facts are timed in milliseconds: what was over within this one was over after it.
                let to = over.get(&key).map_or(Duration::MAX, |time| *time + Duration::from_millis(1));
                let (task, who) = (task.to_owned(), who.to_owned());
                intervals.push(Interval { task, attempt: number, who, from: time, to });
            } else {
                let one = intervals.iter_mut().find(|one| one.task == task && one.attempt == number);
                one.unwrap_or_else(|| panic!("an end without a start: {line}")).to = time;
            }
        }
        intervals
    }

    /// The facts of these kinds, in order.
    pub fn of(&self, kinds: &[&str]) -> impl Iterator<Item = &Value> {
        self.facts.iter().filter(move |fact| kinds.iter().any(|kind| fact["kind"] == *kind))
    }

    /// How many facts there are of a kind about a task.
    #[must_use]
    pub fn count(&self, kind: &str, task: &str) -> usize {
        self.of(&[kind]).filter(|fact| fact["task"] == task).count()
    }

    /// The tasks whose result was accepted, with the attempt that counts.
    #[must_use]
    pub fn accepted(&self) -> BTreeMap<String, u64> {
        self.of(&["merged", "accepted"]).map(attempt).collect()
    }

    /// Holds everything against everything: the promises that hold for every run at every time.
    ///
    /// # Panics
    /// With the first promise that is broken.
    pub fn sound(&self, team: &Team, plan: &Plan) {
        self.facts_follow_each_other();
        self.dependencies_come_first(plan);
        self.one_result_a_task();
        self.agents_were_sent_for();
        self.slots_are_kept(team);
        self.exclusive_names_are_kept(plan);
        self.branch_has_one_merge_a_task();
    }

    /// Besides [`Evidence::sound`]: delivered, with the tree that undisturbed agents leave, at home, and
    /// nothing left behind.
    ///
    /// # Panics
    /// With the first thing that is not so.
    pub fn delivered(&self, team: &Team, plan: &Plan) {
        self.sound(team, plan);
        let shown = self.world.show(&self.run);
        assert_eq!(shown["state"], "delivered", "{shown:#}");
        let all: BTreeSet<String> = plan.needs().into_keys().collect();
        assert_eq!(self.accepted().into_keys().collect::<BTreeSet<_>>(), all);
        let submitted = &self.facts[0];
        let base = self.world.git.files(submitted["base"].as_str().expect("a base"));
        let files = self.world.git.files(&self.branch());
        let names: BTreeSet<_> = files.keys().collect();
        let expected = plan.expected(&base);
        assert_eq!(names, expected.keys().collect::<BTreeSet<_>>(), "the result's files");
        assert!(files == expected, "the result's files differ in content");
        self.nothing_left_behind();
    }

    /// The result branch, as it is called in the user's repository.
    #[must_use]
    pub fn branch(&self) -> String {
        format!("ensemble/{}", self.run)
    }

    fn facts_follow_each_other(&self) {
        let mut epoch = 0;
        for (place, fact) in self.facts.iter().enumerate() {
            assert_eq!(fact["seq"], place as u64 + 1, "a gap in the journal");
            assert_eq!(fact["run"], self.run.as_str());
            let now = fact["epoch"].as_u64().expect("an epoch");
            assert!(now >= epoch, "an old epoch after a newer one: {fact}");
            epoch = now;
        }
        assert_eq!(self.facts.first().map(|fact| fact["kind"].clone()), Some("submitted".into()));
    }

    fn dependencies_come_first(&self, plan: &Plan) {
        let needs = plan.needs();
        let mut done: BTreeMap<String, Duration> = BTreeMap::new();
        for fact in self.of(&["dispatched", "merged", "accepted"]) {
            let (task, _) = attempt(fact);
            if fact["kind"] == "dispatched" {
                let missing = needs[&task].iter().find(|need| !done.contains_key(*need));
                assert_eq!(missing, None, "{task} was dispatched before it");
            } else {
                done.insert(task, time(fact));
            }
        }
        for one in &self.agents {
            for need in &needs[&one.task] {
                let ready = done.get(need).unwrap_or_else(|| panic!("{} began without {need}", one.task));
                assert!(one.from >= *ready, "{} began before {need} was accepted", one.task);
            }
        }
    }

    fn one_result_a_task(&self) {
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for fact in self.of(&["dispatched", "merged", "accepted"]) {
            let (task, number) = attempt(fact);
            if fact["kind"] == "dispatched" {
                assert!(!seen.contains(&task), "{task} was dispatched after it was accepted");
                last.insert(task, number);
            } else {
                assert_eq!(last.get(&task), Some(&number), "an old attempt of {task} was accepted");
                assert!(seen.insert(task.clone()), "{task} was accepted twice");
            }
        }
    }

    fn agents_were_sent_for(&self) {
        let dispatched: BTreeMap<Attempt, Duration> =
            self.of(&["dispatched"]).map(|fact| (attempt(fact), time(fact))).collect();
        for one in &self.agents {
            let sent = dispatched.get(&(one.task.clone(), one.attempt));
            let sent = sent.unwrap_or_else(|| panic!("nobody dispatched {} {}", one.task, one.attempt));
            assert!(one.from >= *sent, "{} began before it was dispatched", one.task);
        }
        for (task, number) in self.accepted() {
            let began = self.agents.iter().any(|one| one.task == task && one.attempt == number);
            assert!(began, "{task} was accepted and no agent knows of it");
        }
    }

    fn slots_are_kept(&self, team: &Team) {
        for (who, slots) in team.slots() {
            let own = self.agents.iter().filter(|one| one.who == who);
            let most = most_at_once(own);
            assert!(most <= slots, "{who} did {most} at once with {slots} slots");
        }
    }

    fn exclusive_names_are_kept(&self, plan: &Plan) {
        let names = plan.exclusive();
        let all: BTreeSet<&String> = names.values().flatten().collect();
        for name in all {
            let own = self.agents.iter().filter(|one| names[&one.task].contains(name));
            let most = most_at_once(own);
            assert!(most <= 1, "{most} used `{name}` at once");
        }
    }

    fn branch_has_one_merge_a_task(&self) {
        let Some(head) = self.world.git.resolve(&self.branch()) else { return };
        let base = self.facts[0]["base"].as_str().expect("a base");
        let line = self.world.git.line(&head, base);
        let mut merged = BTreeMap::new();
        for merge in &line {
            assert_eq!(merge.parents, 2, "no merge commit: {merge:?}");
            let trailer = |name: &str| merge.trailers.get(name).cloned().unwrap_or_default();
            assert_eq!(trailer("Ensemble-Run"), self.run, "{merge:?}");
            let number: u64 = trailer("Ensemble-Attempt").parse().unwrap_or_else(|_| panic!("{merge:?}"));
            let twice = merged.insert(trailer("Ensemble-Task"), number);
            assert_eq!(twice, None, "two merge commits for one task: {merge:?}");
        }
        let journalled: BTreeMap<String, u64> = self.of(&["merged"]).map(attempt).collect();
        assert_eq!(merged, journalled, "merge commits and merged tasks");
        self.world.git.run(&["fsck", "--strict", "--no-dangling", "--connectivity-only"]);
    }

    /// No process of the world, and no attempt's directory.
    ///
    /// # Panics
    /// When there is one.
    pub fn nothing_left_behind(&self) {
        self.world.nobody_left(&[]);
        let left = self.attempts_on_disk();
        assert!(left.is_empty(), "attempts left on disk: {left:?}");
    }

    /// The directories of this run's attempts.
    #[must_use]
    pub fn attempts_on_disk(&self) -> Vec<String> {
        let nodes = fs::read_dir(self.world.data().join("nodes")).into_iter().flatten();
        let runs = nodes.filter_map(Result::ok).map(|node| node.path().join("attempts").join(&self.run));
        runs.flat_map(|run| fs::read_dir(run).into_iter().flatten().filter_map(Result::ok))
            .map(|entry| entry.path().display().to_string())
            .collect()
    }
}

/// A task in what `show` and `run` print.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn task_of<'v>(shown: &'v Value, task: &str) -> &'v Value {
    let found = shown["details"].as_array().and_then(|all| all.iter().find(|one| one["id"] == task));
    found.unwrap_or_else(|| panic!("no task {task}: {shown:#}"))
}

fn attempt(fact: &Value) -> Attempt {
    let task = fact["task"].as_str().unwrap_or_else(|| panic!("no task: {fact}"));
    let number = fact["attempt"].as_u64().unwrap_or_else(|| panic!("no attempt: {fact}"));
    (task.to_owned(), number)
}

/// When a fact was written down, since the epoch.
fn time(fact: &Value) -> Duration {
    let text = fact["time"].as_str().unwrap_or_else(|| panic!("no time: {fact}"));
    let time: SystemTime = humantime::parse_rfc3339(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    time.duration_since(UNIX_EPOCH).unwrap()
}

/// How many of these ran at one moment, at most.
#[must_use]
pub fn most_at_once<'a>(intervals: impl Iterator<Item = &'a Interval>) -> usize {
    let edges = intervals.flat_map(|one| [(one.from, true), (one.to, false)]);
    // At the same moment ends come first.
    let mut edges: Vec<_> = edges.collect();
    edges.sort_unstable();
    let (mut now, mut most) = (0usize, 0usize);
    for (_, begins) in edges {
        now = if begins { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(from: u64, to: u64) -> Interval {
        let [from, to] = [from, to].map(Duration::from_secs);
        Interval { task: "t".to_owned(), attempt: 1, who: "ant".to_owned(), from, to }
    }

    #[test]
    fn intervals_that_touch_do_not_overlap() {
        assert_eq!(most_at_once([interval(1, 2), interval(2, 3)].iter()), 1);
        assert_eq!(most_at_once([interval(1, 3), interval(2, 4), interval(3, 5)].iter()), 2);
        assert_eq!(most_at_once([].iter()), 0);
    }
}
