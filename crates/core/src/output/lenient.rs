//! JSON with the defects that models make, rewritten as JSON: single and typographic quotes, raw line
//! ends and unescaped quotes in text, trailing commas, comments, bare keys, Python's literals.
//! Nothing is guessed: what could mean two things is refused, and an end in the middle is an end.
//! (The crates for this close cut-off text and split text at its commas; so it is done here.)

use crate::source::{DEPTH_LIMIT, shown};

/// How far a key is looked for behind a comma.
const KEY_REACH: usize = 200;

/// Why a text could not be rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It ends inside.
    Truncated,
    /// It is nested too deeply.
    Depth,
    /// It is no JSON, or could be read in two ways.
    Malformed(String),
}

/// A text that could not be rewritten.
#[derive(Debug)]
pub(super) struct Broken {
    pub why: Why,
    /// How far it was read, in bytes.
    pub at: usize,
    /// The outermost keys that were read.
    pub keys: Vec<String>,
}

/// Whether a text that starts with a bracket may be JSON rather than prose in brackets.
pub(super) fn looks_like_json(text: &str) -> bool {
    let mut chars = text.chars();
    let map = chars.next() == Some('{');
    let rest = chars.as_str().trim_start();
    let Some(next) = rest.chars().next() else { return true };
    if is_quote(next) || rest.starts_with("//") || rest.starts_with("/*") {
        return true;
    }
    if map {
        return next == '}' || bare_key(rest);
    }
    matches!(next, '{' | '[' | ']' | '-' | '0'..='9') || literal(rest).is_some()
}

/// The value at the start of `text` as JSON, and its length in bytes.
pub(super) fn repair(text: &str) -> Result<(String, usize), Broken> {
    let mut reader = Reader { text, at: 0, out: String::new(), depth: 0, keys: Vec::new() };
    match reader.value(End::Map) {
        Ok(()) => Ok((reader.out, reader.at)),
        Err(why) => Err(Broken { why, at: reader.at, keys: reader.keys }),
    }
}

/// What a text stands in, which decides what may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Key,
    Map,
    List,
}

type Step = Result<(), Why>;

struct Reader<'t> {
    text: &'t str,
    at: usize,
    out: String,
    depth: usize,
    keys: Vec<String>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn value(&mut self, end: End) -> Step {
        self.skip_space()?;
        match self.peek() {
            None => Err(Why::Truncated),
            Some('{') => self.nested('}', Self::entry),
            Some('[') => self.nested(']', |reader| reader.value(End::List)),
            Some(c) if is_quote(c) => self.string(end),
            Some(_) => self.bare(),
        }
    }

    /// A list or mapping: items with commas between them, and perhaps one behind the last.
    fn nested(&mut self, close: char, item: fn(&mut Self) -> Step) -> Step {
        if self.depth >= DEPTH_LIMIT {
            return Err(Why::Depth);
        }
        self.depth += 1;
        self.out.extend(self.peek());
        self.at += 1;
        let mut first = true;
        loop {
            self.skip_space()?;
            match self.peek() {
                None => return Err(Why::Truncated),
                Some(c) if c == close => break,
                Some(_) => {}
            }
            if !first {
                self.out.push(',');
            }
            first = false;
            item(self)?;
            self.skip_space()?;
            match self.peek() {
                None => return Err(Why::Truncated),
                Some(',') => self.at += 1,
                Some(c) if c == close => {}
                Some(_) => return Err(self.unexpected("a comma or a closing bracket")),
            }
        }
        self.at += 1;
        self.out.push(close);
        self.depth -= 1;
        Ok(())
    }

    fn entry(&mut self) -> Step {
        let start = self.out.len();
        match self.peek() {
            Some(c) if is_quote(c) => self.string(End::Key)?,
            _ if bare_key(self.rest()) => {
                let length = word_length(self.rest());
                self.out.extend(['"']);
                self.out.push_str(&self.rest()[..length]);
                self.out.push('"');
                self.at += length;
            }
            _ => return Err(self.unexpected("a key in quotes")),
        }
        if self.depth == 1 {
            self.keys.push(self.out[start..].trim_matches('"').to_owned());
        }
        self.skip_space()?;
        match self.peek() {
            None => return Err(Why::Truncated),
            Some(':') => self.at += 1,
            Some(_) => return Err(self.unexpected("a colon")),
        }
        self.out.push(':');
        self.value(End::Map)
    }

    fn string(&mut self, end: End) -> Step {
        let closers: &[char] = match self.peek() {
            Some('"') => &['"'],
            Some('\'') => &['\''],
            Some('‘' | '’') => &['‘', '’', '\''],
            _ => &['“', '”', '„', '"'],
        };
        self.at += self.peek().map_or(0, char::len_utf8);
        self.out.push('"');
        let mut inner = 0_usize;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                _ if closers.contains(&c) => {
                    if self.closes(end, inner)? {
                        self.out.push('"');
                        return Ok(());
                    }
                    inner += 1;
                    self.plain(c);
                }
                '\\' => self.escape()?,
                _ => self.plain(c),
            }
        }
        Err(Why::Truncated)
    }

    /// A character of a text, escaped where JSON wants that.
    fn plain(&mut self, c: char) {
        match c {
            '"' => self.out.push_str("\\\""),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            _ if u32::from(c) < 0x20 => self.out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => self.out.push(c),
        }
    }

    /// What follows a backslash. An escape that JSON doesn't have makes doubtful what the others in the
    /// text mean (`\frac` beside `\underbrace`), so it is not repaired.
    fn escape(&mut self) -> Step {
        let Some(c) = self.peek() else { return Err(Why::Truncated) };
        let hex = || self.rest().get(1..5).is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match c {
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => self.out.extend(['\\', c]),
            'u' if hex() => self.out.extend(['\\', c]),
            '\'' => self.out.push(c),
            _ => {
                return Err(Why::Malformed(format!(
                    "`\\{}` is no escape; write a backslash as `\\\\`",
                    shown(c.encode_utf8(&mut [0; 4]))
                )));
            }
        }
        self.at += c.len_utf8();
        Ok(())
    }

    /// Whether the quote before this place ends the text; `inner` quotes of its kind stand in it already.
    fn closes(&self, end: End, inner: usize) -> Result<bool, Why> {
        let rest = self.rest().trim_start();
        let Some(next) = rest.chars().next() else { return Ok(true) };
        if end == End::Key {
            return Ok(next == ':');
        }
        match next {
            ':' => Err(Why::Malformed(
                "a key or a quote stands inside a text; write quotes in it as `\\\"`".to_owned(),
            )),
            ',' if end == End::Map => Ok(entry_ahead(&rest[1..])),
            ',' => self.item_ahead(&rest[1..], inner),
            '}' if end == End::Map => Ok(self.closing_ahead(&rest[1..])),
            ']' if end == End::List => Ok(self.closing_ahead(&rest[1..])),
            '/' => Ok(rest.starts_with("//") || rest.starts_with("/*")),
            _ if is_quote(next) => self.missing_comma(rest),
            _ => Ok(false),
        }
    }

    /// Behind a comma in a list. With an odd number of quotes in the text so far a following quote may
    /// just as well open a quotation in it.
    fn item_ahead(&self, rest: &str, inner: usize) -> Result<bool, Why> {
        let rest = rest.trim_start();
        match rest.chars().next() {
            Some(c) if is_quote(c) && inner % 2 == 1 => Err(Why::Malformed(
                "quotes in a text of a list can be read in two ways; write them as `\\\"`".to_owned(),
            )),
            Some(c) => Ok(is_quote(c)
                || matches!(c, '{' | '[' | ']' | '-' | '/' | '0'..='9')
                || literal(rest).is_some()),
            None => Ok(true),
        }
    }

    /// Behind a closing bracket: in the outermost value the line must end, else JSON go on.
    fn closing_ahead(&self, rest: &str) -> bool {
        let same_line = rest.trim_start_matches([' ', '\t', '\r']);
        let next = rest.trim_start().chars().next();
        let ends = same_line.is_empty() || same_line.starts_with(['\n', '`', '<']);
        matches!(next, None | Some(',' | '}' | ']')) || (self.depth == 1 && ends)
    }

    /// Two texts with nothing between them: a forgotten comma if the second is a key.
    fn missing_comma(&self, rest: &str) -> Result<bool, Why> {
        if key_ahead(rest) {
            return Err(Why::Malformed("a comma is missing before a key".to_owned()));
        }
        Ok(false)
    }

    /// A number or a literal, Python's included.
    fn bare(&mut self) -> Step {
        let length =
            self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')));
        let word = &self.rest()[..length.unwrap_or(self.rest().len())];
        if length.is_none() && !word.is_empty() {
            return Err(Why::Truncated);
        }
        let json = match literal(word) {
            Some(json) => json,
            None if serde_json::from_str::<serde_json::Number>(word).is_ok() => word,
            None => return Err(self.unexpected("a value; text stands in quotes")),
        };
        self.out.push_str(json);
        self.at += word.len();
        Ok(())
    }

    /// White space and comments.
    fn skip_space(&mut self) -> Step {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            let length = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").ok_or(Why::Truncated)? + 2
            } else {
                return Ok(());
            };
            self.at += length;
        }
    }

    fn unexpected(&self, wanted: &str) -> Why {
        let line: &str = self.rest().lines().next().unwrap_or_default();
        let near = shown(crate::text::clip(line, 40));
        Why::Malformed(format!("{wanted} is expected where it says `{near}`"))
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '„' | '‘' | '’')
}

/// JSON's and Python's words for nothing, true and false at the start of `text`.
fn literal(text: &str) -> Option<&'static str> {
    match &text[..word_length(text)] {
        "null" | "None" => Some("null"),
        "true" | "True" => Some("true"),
        "false" | "False" => Some("false"),
        _ => None,
    }
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// Whether `text` starts with a key without quotes and its colon.
fn bare_key(text: &str) -> bool {
    let length = word_length(text);
    let named = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && length <= KEY_REACH;
    named && text[length..].trim_start().starts_with(':')
}

/// Whether behind a comma in a mapping another entry, its end or a comment follows.
fn entry_ahead(text: &str) -> bool {
    let text = text.trim_start();
    match text.chars().next() {
        None | Some('}' | '#') => true,
        Some('/') => text.starts_with("//") || text.starts_with("/*"),
        Some(c) if is_quote(c) => key_ahead(text),
        Some(_) => bare_key(text),
    }
}

/// Whether `text` starts with a key in quotes and its colon.
fn key_ahead(text: &str) -> bool {
    let near = crate::text::clip(text, KEY_REACH);
    let mut chars = near.char_indices().skip(1);
    let Some((end, quote)) = chars.find(|(_, c)| is_quote(*c) || *c == '\n') else {
        // A key that is cut off: what follows decides.
        return near.len() == text.len();
    };
    let rest = text[end + quote.len_utf8()..].trim_start();
    is_quote(quote) && (rest.is_empty() || rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn valid_text_keeps_its_meaning(texts in prop::collection::vec("[\"'\\\\/,:{}\\[\\]#“” \\n\\ta]{0,12}", 1..6), pretty: bool) {
            let map: serde_json::Map<String, Value> =
                texts.iter().map(|text| (text.clone(), Value::from(texts.clone()))).collect();
            let value = Value::Object(map);
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let (json, end) = repair(&text).unwrap();
            prop_assert_eq!(end, text.len());
            prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        }

        #[test]
        fn what_comes_out_is_json_and_what_is_cut_off_is_not_completed(
            text in "[{\\[](['\"“”:,{}\\[\\]#/ \\\\a-c1-3\\n]|null|True|\"a\":){0,40}",
        ) {
            match repair(&text) {
                Ok((json, end)) => {
                    prop_assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
                    let closed = text[..end].ends_with(['}', ']']);
                    prop_assert!(closed);
                }
                Err(broken) => prop_assert!(broken.at <= text.len()),
            }
        }

        #[test]
        fn no_prefix_of_a_value_is_taken(texts in prop::collection::vec("[\"a, ]{0,6}", 1..4), cut in any::<prop::sample::Index>()) {
            let text = serde_json::json!({ "k": texts, "l": 12 }).to_string();
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
            let prefix = &text[..ends[cut.index(ends.len())]];
            prop_assert!(repair(prefix).is_err(), "{}", prefix);
        }
    }
}
