//! Who may use whom: four rows of crates, each uses lower rows only. What the heart may use from
//! outside is argued in its own `tests/layers.rs`.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use crate::{none, root, sources};

/// The rows, lowest first. Crates of one row don't know each other.
const ROWS: [&[&str]; 4] = [
    &["ensemble-core"],
    &[
        "ensemble-proto",
        "ensemble-journal",
        "ensemble-directory",
        "ensemble-workspace",
        "ensemble-agent",
        "ensemble-telemetry",
    ],
    &["ensemble-coordinator", "ensemble-node"],
    &["ensemble"],
];

/// The tests across processes see what a user sees: they use no crate of ours.
const OUTSIDE: &str = "ensemble-tests";

/// One outside thing each: who else may touch it, and why.
const OWNED: [(&str, &[&str], &str); 4] = [
    ("prost", &["ensemble-proto"], "nobody else knows how a value looks on the wire"),
    (
        "rusqlite",
        &["ensemble-journal", "ensemble-node"],
        "the journal; the node's outbox is a file of its own",
    ),
    ("git2", &["ensemble-workspace", "ensemble", OUTSIDE], "working copies; the demo's repository; evidence"),
    ("ractor", &["ensemble-coordinator", "ensemble-node"], "actors are the roles' own business"),
];

/// Every package of the workspace with the names that it depends on in any way.
fn packages() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    list(&metadata["packages"])
        .iter()
        .map(|package| (text(package), list(&package["dependencies"]).iter().map(text).collect()))
        .collect()
}

fn row(package: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&package))
}

#[test]
fn a_crate_uses_lower_rows_only() {
    let packages = packages();
    let mut broken = Vec::new();
    for (package, dependencies) in &packages {
        let ours = dependencies.iter().filter(|name| packages.contains_key(*name));
        match row(package) {
            None if package != OUTSIDE => broken.push(format!("{package} stands in no row")),
            own => broken.extend(
                ours.filter(|name| own.is_none() || row(name) >= own)
                    .map(|name| format!("{package} must not know {name}")),
            ),
        }
    }
    let named = ROWS.iter().flat_map(|row| row.iter());
    broken.extend(
        named.filter(|name| !packages.contains_key(**name)).map(|name| format!("{name} is no package")),
    );
    none("a crate uses lower rows only", &broken);
}

#[test]
fn each_outside_thing_has_its_owner() {
    let packages = packages();
    let mut broken = Vec::new();
    for (thing, owners, why) in OWNED {
        for (package, dependencies) in &packages {
            if dependencies.iter().any(|name| name == thing) && !owners.contains(&package.as_str()) {
                broken.push(format!("{package} must not know {thing}: {why}"));
            }
        }
    }
    none("one crate for each outside thing", &broken);
}

#[test]
fn versions_stand_in_one_place() {
    let mut broken = Vec::new();
    for source in sources() {
        let member = source.path.ends_with("/Cargo.toml");
        let mut section = "";
        for line in source.text.lines().filter(|_| member) {
            let line = line.trim();
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies")
                && line.contains('=')
                && !line.contains("workspace = true")
            {
                broken.push(format!("{}: {line}", source.path));
            }
        }
    }
    none("a dependency's version stands in the root manifest", &broken);
}
