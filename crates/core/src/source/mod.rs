//! Files that people and models write, as a tree that knows the line and column of everything in it.
//! YAML and JSON give the same tree. Size, depth and aliases are bounded before anything is built.
//! What the tree means is decided by `team` and `plan`.

mod finding;
mod json;
mod node;
mod typed;
mod yaml;

pub use finding::{Finding, Findings, Reading, Severity, nearest, shown};
pub use node::{Entry, Kind, Node, Place, Spot, Value};
pub use typed::{Choice, duration_ms};

/// Longest file in bytes.
pub const SIZE_LIMIT: usize = 10 * 1024 * 1024;

/// How deeply lists and mappings may be nested.
pub const DEPTH_LIMIT: usize = 64;

/// The text of a file's bytes.
///
/// # Errors
/// A finding when there are more than [`SIZE_LIMIT`] bytes, or when they are not UTF-8.
pub fn decode<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Vec<Finding>> {
    if bytes.len() > SIZE_LIMIT {
        return Err(vec![too_large(file, bytes.len())]);
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let place = Place {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: 1 + String::from_utf8_lossy(&before[line_start..]).chars().count(),
        };
        let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        let what = if utf16 { "the file is UTF-16" } else { "these bytes are not UTF-8" };
        vec![Finding::error(file, place, "not_utf8", format!("{what}; save it as UTF-8"))]
    })
}

/// The tree of `text`: JSON when the file's name ends in `.json` or the text is valid JSON, else YAML.
/// What is wrong is in `findings`; `None` when there is no tree at all.
pub fn parse(text: &str, findings: &mut Findings) -> Option<Node> {
    if text.len() > SIZE_LIMIT {
        let finding = too_large(findings.file(), text.len());
        findings.push(finding);
        return None;
    }
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => {
            let message = "the file starts with a byte-order mark, which is ignored";
            findings.push(Finding::warning(findings.file(), Place::START, "bom", message));
            rest
        }
        None => text,
    };
    if let Some(line) = text.split('\n').position(|line| line.ends_with('\r')) {
        let place =
            Place { line: line + 1, column: text.lines().nth(line).unwrap_or_default().chars().count() + 1 };
        let message = "lines end in CR LF; they are read as plain line ends";
        findings.push(Finding::warning(findings.file(), place, "crlf", message));
    }
    if text.trim().is_empty() {
        findings.push(Finding::error(findings.file(), Place::START, "empty", "the file is empty"));
        return None;
    }
    let named_json = findings.file().to_ascii_lowercase().ends_with(".json");
    let mut problems = Vec::new();
    let parsed = if named_json || looks_like_json(text) {
        json::parse(text, &mut problems)
    } else {
        yaml::parse(text, &mut problems)
    };
    let tree = parsed.map_err(|problem| problems.push(problem)).ok();
    for Problem { place, code, message } in problems {
        let finding = Finding::error(findings.file(), place, code, message);
        findings.push(finding);
    }
    tree
}

/// Reads `text` as JSON and nothing else; for texts that have no file.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse_json(text: &str) -> Result<Node, Problem> {
    let mut problems = Vec::new();
    let tree = json::parse(text, &mut problems)?;
    problems.into_iter().next().map_or(Ok(tree), Err)
}

/// Why a text has no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was noticed.
    pub place: Place,
    /// A short, stable word for programs.
    pub code: &'static str,
    /// The remedy, as a sentence.
    pub message: String,
}

impl Problem {
    fn new(place: Place, code: &'static str, message: impl Into<String>) -> Self {
        Self { place, code, message: message.into() }
    }

    fn too_deep(place: Place) -> Self {
        Self::new(place, "depth", format!("nested more than {DEPTH_LIMIT} deep; write it flatter"))
    }

    fn duplicate(place: Place, key: &str, first: Place) -> Self {
        let message = format!("`{}` stands here a second time; first on line {}", shown(key), first.line);
        Self::new(place, "duplicate_key", message)
    }
}

/// A flow mapping in YAML starts like JSON does, so only a text that JSON's grammar accepts counts, or
/// one that is nested too deeply for either, which is cheaper to see here.
fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && (json::too_deep(text).is_some() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// The finding that a file has more than [`SIZE_LIMIT`] bytes; its length tells before it is read.
#[must_use]
pub fn too_large(file: &str, bytes: usize) -> Finding {
    let message = format!("the file has {bytes} bytes, more than the {SIZE_LIMIT} that are read; split it");
    Finding::error(file, Place::START, "too_large", message)
}

#[cfg(test)]
mod tests;
