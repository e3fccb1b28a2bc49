//! Documents that name only what exists: links, paths of the project, and the table of crates.

use std::{fs, path::Path};

use crate::{Source, none, root, sources};

/// How a path of the project begins; other paths are those of a user's project.
const OURS: [&str; 4] = ["crates/", "proto/", "deploy/", ".ci/"];

fn documents() -> Vec<Source> {
    let wanted = |path: &str| path.ends_with(".md") && (path == "README.md" || path.starts_with("docs/"));
    sources().into_iter().filter(|source| wanted(&source.path)).collect()
}

/// The targets of links, without what leads elsewhere.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#'))
}

/// Words that begin like a path of the project; a `…` or `*` stands for many.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| c.is_whitespace() || "`()[],;:\"'|".contains(c);
    let words = text.split(apart).map(|word| word.trim_end_matches(['.', '…']));
    words.filter(|word| OURS.iter().any(|start| word.starts_with(start)) && !word.contains(['*', '<', '…']))
}

#[test]
fn documents_name_what_exists() {
    let mut broken = Vec::new();
    let documents = documents();
    assert!(documents.len() > 3, "the documents are gone");
    for document in &documents {
        let folder = root().join(Path::new(&document.path).parent().unwrap());
        let linked =
            links(&document.text).map(|target| (target, folder.join(target.split('#').next().unwrap())));
        let named = paths(&document.text).map(|path| (path, root().join(path)));
        let gone = linked.chain(named).filter(|(_, place)| !place.exists());
        broken.extend(gone.map(|(target, _)| format!("{}: {target}", document.path)));
    }
    none("a document names what is not there", &broken);
}

#[test]
fn the_map_names_every_crate() {
    let readme = documents().into_iter().find(|document| document.path == "README.md").unwrap();
    let row = |name: &str| {
        readme.text.lines().any(|line| line.starts_with("| ") && line.contains(&format!("| `{name}` |")))
    };
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let missing: Vec<String> =
        crates.map(|name| name.into_string().unwrap()).filter(|name| !row(name)).collect();
    none("the map in README.md lacks a crate", &missing);
}

#[test]
fn every_page_can_be_reached_from_the_readme() {
    let documents = documents();
    let readme = documents.iter().find(|document| document.path == "README.md").unwrap();
    let missing: Vec<String> = documents
        .iter()
        .filter(|document| document.path.starts_with("docs/") && !readme.text.contains(&document.path))
        .map(|document| document.path.clone())
        .collect();
    none("README.md links to each page", &missing);
}
