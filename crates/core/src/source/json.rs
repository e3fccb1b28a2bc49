//! JSON to a tree. The grammar is judged by `serde_json`; what is added here is where each value
//! stands, duplicate keys, and the bound on depth, which is checked before anything is parsed.

use super::{DEPTH_LIMIT, Entry, Kind, Node, Place, Problem, Value};

/// The tree of `text`; `problems` gets what is wrong and leaves a tree all the same.
pub(super) fn parse(text: &str, problems: &mut Vec<Problem>) -> Result<Node, Problem> {
    if let Some(at) = too_deep(text) {
        return Err(Problem::too_deep(Places::of(text).place(at)));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(syntax(text, &error));
    }
    Builder { text, at: 0, places: Places::of(text), problems }.value()
}

/// Where brackets outside of strings are nested too deeply.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_LIMIT {
            return Some(at);
        }
    }
    None
}

fn syntax(text: &str, error: &serde_json::Error) -> Problem {
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or_default();
    let line = error.line().max(1);
    let before = text.split('\n').nth(line - 1).unwrap_or_default();
    let column = crate::text::clip(before, error.column().saturating_sub(1)).chars().count() + 1;
    let several = what == "trailing characters";
    let code = if several { "several_documents" } else { "json" };
    let what = if several { "something follows the value; a file holds one" } else { what };
    Problem::new(Place { line, column }, code, format!("not valid JSON: {what}"))
}

/// Turns byte offsets, asked for in ascending order, into lines and columns.
struct Places<'t> {
    text: &'t str,
    at: usize,
    place: Place,
}

impl<'t> Places<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, at: 0, place: Place::START }
    }

    fn place(&mut self, at: usize) -> Place {
        for byte in self.text.as_bytes()[self.at..at].iter() {
            if *byte == b'\n' {
                self.place = Place { line: self.place.line + 1, column: 1 };
            } else if !is_continuation(*byte) {
                self.place.column += 1;
            }
        }
        self.at = at;
        self.place
    }
}

/// Whether a byte of UTF-8 is not the first of its character.
fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Walks over text that is known to be valid JSON of a bounded depth, so the recursion is bounded and
/// only duplicate keys and broken `\u` pairs are left to find.
struct Builder<'t> {
    text: &'t str,
    at: usize,
    places: Places<'t>,
    problems: &'t mut Vec<Problem>,
}

impl Builder<'_> {
    fn value(&mut self) -> Result<Node, Problem> {
        self.skip_space();
        let place = self.places.place(self.at);
        match self.peek() {
            b'{' => self.map(place),
            b'[' => self.list(place),
            b'"' => Ok(Node { value: Value::Scalar(Kind::Text, self.string(place)?), place }),
            _ => Ok(Node { value: self.bare(), place }),
        }
    }

    fn map(&mut self, place: Place) -> Result<Node, Problem> {
        let mut entries = Vec::new();
        self.at += 1;
        while self.next_item(b'}') {
            let place = self.places.place(self.at);
            let key = self.string(place)?;
            self.skip_space();
            self.at += 1;
            entries.push(Entry { key, place, node: self.value()? });
        }
        Ok(Node::map(entries, place, self.problems))
    }

    fn list(&mut self, place: Place) -> Result<Node, Problem> {
        let mut items = Vec::new();
        self.at += 1;
        while self.next_item(b']') {
            items.push(self.value()?);
        }
        Ok(Node { value: Value::List(items), place })
    }

    /// Moves to the next item, or past the end of the list or mapping.
    fn next_item(&mut self, end: u8) -> bool {
        self.skip_space();
        if self.peek() == b',' {
            self.at += 1;
            self.skip_space();
        }
        let more = self.at < self.text.len() && self.peek() != end;
        self.at += usize::from(!more);
        more
    }

    fn string(&mut self, place: Place) -> Result<String, Problem> {
        let start = self.at;
        self.at += 1;
        while self.at < self.text.len() && self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.text.len());
        let raw = &self.text[start..self.at];
        if !raw.contains('\\') {
            return Ok(raw.trim_matches('"').to_owned());
        }
        serde_json::from_str(raw).map_err(|_| {
            let message = "not valid JSON: this text holds half of a `\\u` pair; write the character itself";
            Problem::new(place, "json", message)
        })
    }

    fn bare(&mut self) -> Value {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        let word = &self.text[start..self.at];
        let kind = match word {
            "null" => Kind::Null,
            "true" | "false" => Kind::Bool,
            _ => Kind::Number,
        };
        Value::Scalar(kind, word.to_owned())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }
}
