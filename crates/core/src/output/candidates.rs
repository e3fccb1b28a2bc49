//! Where JSON lies in a model's answer, between prose, fences and reasoning. One pass: whatever was
//! looked at once is not looked at again, so the work is linear in the answer's length.

use super::{
    Rejected,
    lenient::{self, Broken, Why},
};

/// What was found in an answer.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Complete values as JSON text, as they stand or repaired.
    pub candidates: Vec<String>,
    /// Why a value that has one of the wanted keys can't be read.
    pub broken: Option<String>,
    /// Why something that looked like a value can't be read, whatever its keys.
    pub doubt: Option<String>,
    /// Whether the answer ends inside a value.
    pub truncated: bool,
}

/// Names of blocks in which models think aloud.
const REASONING: [&str; 6] = ["think", "thinking", "thought", "reasoning", "reflection", "scratchpad"];

/// Looks through `text`; `keys` are those of the wanted value.
pub(super) fn scan(text: &str, keys: &[&str]) -> Result<Scan, Rejected> {
    let folded = text.to_ascii_lowercase();
    let mut scan = Scan::default();
    let mut at = after_orphan(&folded);
    while let Some(found) = text[at..].find(['{', '[', '<']) {
        at += found;
        if folded[at..].starts_with('<') {
            at = match opening(&folded[at..]) {
                Some(name) => at + block_end(&folded[at..], name).ok_or_else(unclosed)?,
                None => at + 1,
            };
            continue;
        }
        if !lenient::looks_like_json(&text[at..]) {
            at += 1;
            continue;
        }
        at += scan.value(&text[at..], keys)?;
        if scan.truncated {
            break;
        }
    }
    Ok(scan)
}

impl Scan {
    /// Takes the value at the start of `text`; how many bytes need not be looked at again.
    fn value(&mut self, text: &str, keys: &[&str]) -> Result<usize, Rejected> {
        // Valid text is never edited. Parsing to a value bounds the depth, unlike skipping does.
        let mut strict = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        if let Some(Ok(_)) = strict.next() {
            let end = strict.byte_offset();
            self.candidates.push(text[..end].to_owned());
            return Ok(end);
        }
        match lenient::repair(text) {
            Ok((json, end)) => {
                self.candidates.push(json);
                Ok(end)
            }
            Err(Broken { why: Why::Depth, .. }) => {
                Err(Rejected::new("depth", "the JSON is nested too deeply; write it flatter"))
            }
            Err(Broken { why: Why::Truncated, at, .. }) => {
                self.truncated = true;
                Ok(at)
            }
            Err(Broken { why: Why::Malformed(message), at, keys: seen }) => {
                self.doubt.get_or_insert_with(|| message.clone());
                if seen.iter().any(|key| keys.contains(&key.as_str())) {
                    self.broken.get_or_insert(message);
                }
                Ok(at.max(1))
            }
        }
    }
}

fn unclosed() -> Rejected {
    let message = "a reasoning block is not closed, so nobody can say where the answer begins; \
                   answer with the JSON alone";
    Rejected::new("reasoning_unclosed", message)
}

/// The start of the answer when the reasoning's opening tag was part of the prompt and only its
/// closing one is here.
fn after_orphan(folded: &str) -> usize {
    if folded.starts_with(['{', '[', '`']) {
        return 0;
    }
    let first_open = folded.match_indices('<').find(|(at, _)| opening(&folded[*at..]).is_some());
    let closing = REASONING.iter().filter_map(|name| {
        let tag = format!("</{name}>");
        folded.find(&tag).map(|at| (at, at + tag.len()))
    });
    match closing.min() {
        Some((at, end)) if first_open.is_none_or(|(open, _)| at < open) => end,
        _ => 0,
    }
}

/// The name of the reasoning block that opens at the start of `folded`.
fn opening(folded: &str) -> Option<&'static str> {
    let rest = folded.strip_prefix('<')?;
    REASONING.into_iter().find(|name| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('>')))
}

/// Where the block that opens at the start of `folded` is closed, blocks of the same name in it counted.
fn block_end(folded: &str, name: &str) -> Option<usize> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut depth = 0_usize;
    for (at, _) in folded.match_indices('<') {
        if folded[at..].starts_with(&open) {
            depth += 1;
        } else if folded[at..].starts_with(&close) {
            depth -= 1;
            if depth == 0 {
                return Some(at + close.len());
            }
        }
    }
    None
}
