//! An employee as a Markdown file: front matter between two lines of `---`, and the prompt below.
//! Other programs' fields are left to them; ours stand under `ensemble:`.

use super::employee::{Layer, OWN_KEYS};
use crate::source::{self, Findings, Spot};

/// The definition in `text`. Findings name the file and the lines of the whole file.
pub(super) fn read(text: &str, dir: &str, findings: &mut Findings) -> Option<Layer> {
    let Some((front, body)) = split(text) else {
        let place = source::Place::START;
        let message = "has no front matter: a first line `---`, `name:` and `description:`, and a line `---`";
        findings.push(source::Finding::error(findings.file(), place, "front_matter", message));
        return None;
    };
    // The first `---` stays: it starts a YAML document, and lines keep their numbers.
    let tree = source::parse(front, findings)?;
    let root = Spot::root(&tree);
    let mut layer = match root.get("ensemble") {
        Some(ours) => Layer::read(&ours, &OWN_KEYS, dir, findings),
        None => Layer::default(),
    };
    for (key, spot) in root.keys().filter(|(key, _)| OWN_KEYS.contains(key)) {
        findings.error(&spot, "unknown_field", format!("`{key}` stands under `ensemble:` here"));
    }
    let common = Layer {
        name: root.get("name").and_then(|text| text.some_text(findings)),
        description: root.get("description").and_then(|text| text.text(findings)),
        prompt: Some(body.trim().to_owned()).filter(|prompt| !prompt.is_empty()),
        ..Layer::default()
    };
    layer = layer.over(common);
    Some(layer)
}

/// The front matter with its first line, and what follows its last.
fn split(text: &str) -> Option<(&str, &str)> {
    let start = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = 0;
    for (number, line) in start.split_inclusive('\n').enumerate() {
        let fence = line.trim_end() == "---";
        if number == 0 && !fence {
            return None;
        }
        if number > 0 && fence {
            return Some((&start[..at], &start[at + line.len()..]));
        }
        at += line.len();
    }
    None
}
