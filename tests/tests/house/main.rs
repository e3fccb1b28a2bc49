//! The rules of the house, each held by a test: who may use whom, how files look and how long they
//! get, what must not stand in them, and that the documents name what exists. Nothing is started
//! here; the sources are read as text and the manifests through `cargo metadata`.

#![allow(clippy::unwrap_used, reason = "a test: what can't be read shall fail it")]

mod files;
mod layers;
mod map;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of the project: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

/// What belongs to the project: build output and a demo that somebody unpacked do not.
const PLACES: [&str; 8] = ["crates", "tests", "proto", "docs", "deploy", ".ci", ".cargo", ""];

/// All text files of the project, in order.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for place in PLACES {
        gather(&root().join(place), !place.is_empty(), &mut found);
    }
    let own = root();
    let mut sources: Vec<Source> = found
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            Some(Source { path: path.strip_prefix(&own).unwrap().to_str().unwrap().to_owned(), text })
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 200, "only {} files found: is this the project's folder?", sources.len());
    sources
}

fn gather(folder: &Path, deep: bool, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_file() {
            into.push(path);
        } else if deep && name != "target" && name != "__pycache__" {
            gather(&path, deep, into);
        }
    }
}

/// The Rust files.
fn rust() -> Vec<Source> {
    sources().into_iter().filter(|source| source.path.ends_with(".rs")).collect()
}

/// Fails with all that breaks a rule at once.
#[track_caller]
fn none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}
