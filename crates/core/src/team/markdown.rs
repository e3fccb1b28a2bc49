//! An employee as a Markdown file: front matter between two lines of `---`, and the prompt below.
//! Other programs' fields are left to them; ours stand under `ensemble:`.

use super::employee::{Layer, OWN_KEYS, PROMPT_LIMIT};
use crate::source::{self, Finding, Findings, Node, Place, SIZE_LIMIT, Spot};

/// The definition in `text`. Findings name the file and the lines of the whole file.
pub(super) fn read(text: &str, dir: &str, findings: &mut Findings) -> Option<Layer> {
    let problem = |findings: &mut Findings, code: &str, message: String| {
        findings.push(Finding::error(findings.file(), Place::START, code, message));
    };
    if text.len() > SIZE_LIMIT {
        problem(findings, "too_large", format!("the file has more than {SIZE_LIMIT} bytes"));
        return None;
    }
    let Some((front, body)) = split(text) else {
        let message = "has no front matter: a first line `---`, `name:` and `description:`, and a line `---`";
        problem(findings, "front_matter", message.to_owned());
        return None;
    };
    let prompt = body.trim();
    if prompt.len() > PROMPT_LIMIT {
        let message = format!("the prompt is longer than {PROMPT_LIMIT} bytes, more than a brief holds");
        problem(findings, "too_long", message);
    }
    let tree = front_matter(front, findings)?;
    let root = Spot::root(&tree);
    let ours = match root.get("ensemble") {
        Some(ours) => Layer::read(&ours, &OWN_KEYS, dir, findings),
        None => Layer::default(),
    };
    for (key, spot) in root.keys() {
        if OWN_KEYS.contains(&key) {
            findings.error(&spot, "unknown_field", format!("`{key}` stands under `ensemble:` here"));
        } else if key != "ensemble"
            && let Some(name) = findings.nearest(key, ["ensemble"])
        {
            let message = format!("unknown key `{}`", source::shown(key));
            findings.suggest(&spot, "unknown_field", message, Some(name));
        }
    }
    Some(ours.over(Layer {
        name: root.get("name").and_then(|text| text.some_text(findings)),
        description: root.get("description").and_then(|text| text.text(findings)),
        prompt: Some(prompt.to_owned()).filter(|prompt| !prompt.is_empty()),
        ..Layer::default()
    }))
}

/// The tree of the front matter. The programs that these files are written for take a line's rest as
/// text even where YAML would not, as in `description: Use it when: …`; so that is tried second.
fn front_matter(front: &str, findings: &mut Findings) -> Option<Node> {
    let mut strict = Findings::new(findings.file());
    let tree = source::parse(front, &mut strict);
    if tree.is_some() {
        findings.absorb(strict);
        return tree;
    }
    let quoted: String = front.split_inclusive('\n').map(quoted).collect();
    let mut second = Findings::new(findings.file());
    let tree = source::parse(&quoted, &mut second);
    let taken = if tree.is_some() { second } else { strict };
    findings.absorb(taken);
    if tree.is_some() {
        let message = "the front matter is not YAML; each line's value is read as text, as it stands";
        findings.push(Finding::warning(findings.file(), Place::START, "front_matter", message));
    }
    tree
}

/// A line `key: value` with its value in quotes, if it holds what YAML would take for structure.
fn quoted(line: &str) -> String {
    let content = line.trim_end();
    match content.split_once(": ") {
        Some((key, value))
            if key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                && !value.starts_with(['"', '\'', '|', '>']) =>
        {
            format!("{key}: '{}'{}", value.replace('\'', "''"), &line[content.len()..])
        }
        _ => line.to_owned(),
    }
}

/// The front matter with its first line (which starts a YAML document, so that lines keep their
/// numbers), and what follows its last.
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
