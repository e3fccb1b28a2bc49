//! How files look: a header, a length, and what must not stand in them.

use crate::{Source, none, root, rust, sources};

/// Most lines of a file without its tests. Beyond it a second subject has moved in.
const LIMIT: usize = 500;

/// Most lines of a file of tests.
const TEST_LIMIT: usize = 600;

/// Where tests may sleep, how often, and why. Everybody else waits with one of these helpers for a
/// condition: a sleep that is long enough on one machine is a flaky test on another.
const SLEEPS: [(&str, usize, &str); 7] = [
    ("crates/agent/tests/processes/bench.rs", 2, "its helpers that wait for a condition"),
    ("crates/node/src/node/handle.rs", 2, "its helper, and a loop that kills until the node ends"),
    ("crates/node/tests/node/bench.rs", 1, "its helper"),
    ("crates/node/tests/node/coordinator.rs", 2, "its helper, and the clock of the coordinator played"),
    ("tests/src/process.rs", 2, "the harness's helper, and the wait for a process's end"),
    ("tests/src/world.rs", 1, "the wait for the end of all processes"),
    ("tests/tests/crash.rs", 2, "the random part of the moment of a kill"),
];

/// Whether a file holds nothing but tests.
fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.contains("/benches/")
        || ["/tests.rs", "_tests.rs", "/testing.rs"].iter().any(|end| path.ends_with(end))
}

/// The lines of a file up to the tests at its end, and those tests.
fn halves(source: &Source) -> (Vec<&str>, Vec<&str>) {
    let lines: Vec<&str> = source.text.lines().collect();
    if is_test(&source.path) {
        return (Vec::new(), lines);
    }
    let inline = |at: &usize| lines[*at] == "#[cfg(test)]" && lines.get(at + 1) == Some(&"mod tests {");
    let split = (0..lines.len()).find(inline).unwrap_or(lines.len());
    let (code, tests) = lines.split_at(split);
    (code.to_vec(), tests.to_vec())
}

#[test]
fn every_file_opens_with_a_header_of_one_to_ten_lines() {
    let header = |source: &Source| source.text.lines().take_while(|line| line.starts_with("//!")).count();
    let broken: Vec<String> = rust()
        .iter()
        .filter(|source| !(1..=10).contains(&header(source)))
        .map(|source| format!("{}: {} lines", source.path, header(source)))
        .collect();
    none("what lives in a file, and what does not, stands at its top as `//!`", &broken);
}

#[test]
fn no_file_outgrows_its_subject() {
    let mut broken = Vec::new();
    for source in rust() {
        let (code, tests) = halves(&source);
        for (lines, limit) in [(code.len(), LIMIT), (tests.len(), TEST_LIMIT)] {
            if lines > limit {
                broken.push(format!("{}: {lines} lines, {limit} at most", source.path));
            }
        }
    }
    none("a file that grows beyond the limit is split by subject", &broken);
}

/// All lines that hold one of `words`, which are given in two halves so that they don't find
/// themselves.
fn holding(sources: &[Source], words: &[[&str; 2]]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in (1..).zip(source.text.lines()) {
            if words.iter().any(|halves| line.contains(&halves.concat())) {
                found.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

#[test]
fn nothing_is_left_for_later() {
    let words = [["to", "do!("], ["unimpl", "emented!("], ["TO", "DO"], ["FIX", "ME"], ["#[ign", "ore"]];
    none("do it now or leave it out", &holding(&rust(), &words));
}

#[test]
fn no_file_knows_the_machine_that_it_was_written_on() {
    let here = root().to_str().unwrap().to_owned();
    none("name files from the project's folder", &holding(&sources(), &[[&here, ""], ["/ro", "ot/"]]));
}

#[test]
fn tests_wait_for_conditions() {
    let mut broken = Vec::new();
    for source in rust() {
        let (_, tests) = halves(&source);
        let is_sleep = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("//")
                && ["::sleep(", " sleep("].iter().any(|call| format!(" {line}").contains(call))
        };
        // This file speaks of sleeps.
        let found = tests.iter().filter(|line| is_sleep(line) && !line.contains("call")).count();
        let allowed = SLEEPS.iter().find(|(path, ..)| *path == source.path).map_or(0, |(_, times, _)| *times);
        if found != allowed {
            broken.push(format!("{}: {found} sleeps, {allowed} have a reason", source.path));
        }
    }
    none("a test waits for a condition, with a deadline", &broken);
}

#[test]
fn there_is_one_command_for_everything() {
    let sources = sources();
    let text = |path: &str| {
        let found = sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.clone()).unwrap_or_else(|| panic!("{path} is gone"))
    };
    let (ci, run) = (text(".ci/run"), text("tests/run"));
    let aliases = text(".cargo/config.toml");
    for (script, alias) in [(ci, "lint"), (run, "prove")] {
        assert!(script.contains(&format!("cargo {alias}")), "`cargo {alias}` is what CI runs, too");
        assert!(aliases.lines().any(|line| line.starts_with(&format!("{alias} ="))), "{alias}");
    }
}
