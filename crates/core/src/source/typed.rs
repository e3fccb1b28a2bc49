//! Typed values out of a tree: each takes the value or says in the findings why it can't.
//! The words for people are made here, so that the same mistake reads the same in every file.

use std::collections::BTreeMap;

use super::{Findings, Kind, Spot, Value, shown};

/// A closed list of words and what each means.
pub type Choice<T> = [(&'static str, T)];

const MINUTE_MS: u64 = 60_000;

/// Longest duration that a file may ask for, 366 days: more is a slip, and sums of times can't overflow.
const LONGEST_MS: u64 = 366 * 24 * 60 * MINUTE_MS;

impl<'a> Spot<'a> {
    /// Whether this is a mapping. Keys that are not `known` are errors.
    pub fn mapping(&'a self, known: &[&str], findings: &mut Findings) -> bool {
        if !matches!(self.node.value, Value::Map(_)) {
            findings.error(self, "schema", format!("must be a mapping of keys, not {}", self.node.noun()));
            return false;
        }
        for (key, spot) in self.keys().filter(|(key, _)| !known.contains(key)) {
            let nearest = findings.nearest(key, known.iter().copied());
            let message = match &nearest {
                Some(_) => format!("unknown key `{}`", shown(key)),
                None => format!("unknown key `{}`; known are {}", shown(key), known.join(", ")),
            };
            findings.suggest(&spot, "unknown_field", message, nearest);
        }
        true
    }

    /// Text. Numbers and words that YAML takes for something else must be quoted.
    pub fn text(&self, findings: &mut Findings) -> Option<String> {
        match &self.node.value {
            Value::Scalar(Kind::Text, text) => self.storable(text, findings),
            Value::Scalar(Kind::Number | Kind::Bool, text) => {
                let noun = self.node.noun();
                findings.error(
                    self,
                    "schema",
                    format!("must be text, not {noun}; write \"{}\"", shown(text)),
                );
                None
            }
            _ => self.not_text(findings),
        }
    }

    /// A single value as it is spelt, for commands and variables, where `true` and `8080` are words.
    pub fn word(&self, findings: &mut Findings) -> Option<String> {
        match &self.node.value {
            Value::Scalar(Kind::Null, _) | Value::List(_) | Value::Map(_) => self.not_text(findings),
            Value::Scalar(_, text) => self.storable(text, findings),
        }
    }

    fn not_text(&self, findings: &mut Findings) -> Option<String> {
        let hint = if matches!(self.node.value, Value::Map(_)) {
            "; put text that holds `: ` or braces in quotes"
        } else {
            ""
        };
        findings.error(self, "schema", format!("must be text, not {}{hint}", self.node.noun()));
        None
    }

    fn storable(&self, text: &str, findings: &mut Findings) -> Option<String> {
        if text.contains('\0') {
            findings.error(self, "schema", "holds a NUL character, which no command and no file carries");
            return None;
        }
        Some(text.to_owned())
    }

    /// Text that is not blank.
    pub fn some_text(&self, findings: &mut Findings) -> Option<String> {
        let text = self.text(findings)?;
        if text.trim().is_empty() {
            findings.error(self, "schema", "is empty");
            return None;
        }
        Some(text)
    }

    /// A list whose items `each` reads; a single value is a list of one, nothing an empty list.
    pub fn list<T>(
        &'a self,
        findings: &mut Findings,
        each: impl Fn(&Spot<'a>, &mut Findings) -> Option<T>,
    ) -> Vec<T>
    where
        T: 'a,
    {
        if matches!(self.node.value, Value::Map(_)) {
            findings.error(self, "schema", "must be a list, not a mapping");
            return Vec::new();
        }
        let mut all = Vec::new();
        for item in self.items() {
            all.extend(each(&item, findings));
        }
        all
    }

    /// A mapping of free keys to words.
    pub fn words(&'a self, findings: &mut Findings) -> BTreeMap<String, String> {
        if !matches!(self.node.value, Value::Map(_)) {
            findings.error(
                self,
                "schema",
                format!("must be a mapping of names to text, not {}", self.node.noun()),
            );
            return BTreeMap::new();
        }
        let mut all = BTreeMap::new();
        for (key, spot) in self.keys() {
            if let Some(text) = spot.word(findings) {
                all.insert(key.to_owned(), text);
            }
        }
        all
    }

    /// A whole number within `least` and `most`.
    pub fn integer(&self, least: u64, most: u64, findings: &mut Findings) -> Option<u64> {
        let number = match &self.node.value {
            Value::Scalar(Kind::Number, text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            findings.error(self, "schema", format!("must be a whole number from {least} to {most}"));
        }
        number
    }

    /// A duration in milliseconds, written with its unit.
    pub fn duration(&self, findings: &mut Findings) -> Option<u64> {
        let problem = match &self.node.value {
            Value::Scalar(Kind::Number, text) => format!("needs a unit: `{text}s` or `{text}m`"),
            Value::Scalar(Kind::Text, text) => match duration_ms(text) {
                Some(length @ 1..=LONGEST_MS) => return Some(length),
                Some(0) => "must be longer than nothing".to_owned(),
                Some(_) => "must be at most 366 days".to_owned(),
                None => format!(
                    "`{}` is not a duration; write it like `30m`, `10s`, `1h30m` or `500ms`",
                    shown(text)
                ),
            },
            _ => format!("must be a duration like `30m`, not {}", self.node.noun()),
        };
        findings.error(self, "bad_duration", problem);
        None
    }

    /// True or false.
    pub fn boolean(&self, findings: &mut Findings) -> Option<bool> {
        match &self.node.value {
            Value::Scalar(Kind::Bool, text) => Some(text.eq_ignore_ascii_case("true")),
            _ => {
                findings.error(self, "schema", format!("must be true or false, not {}", self.node.noun()));
                None
            }
        }
    }

    /// One word of a closed list.
    pub fn choice<T: Copy>(&self, choices: &Choice<T>, findings: &mut Findings) -> Option<T> {
        let text = self.text(findings)?;
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*meaning);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let nearest = findings.nearest(&text, words.iter().copied());
        let message = format!("`{}` is not one of {}", shown(&text), words.join(", "));
        findings.suggest(self, "schema", message, nearest);
        None
    }
}

/// The milliseconds of `1h30m`, `500ms` and the like: whole numbers, each with its unit, the longest first.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 5] =
        [("d", 24 * 60 * MINUTE_MS), ("h", 60 * MINUTE_MS), ("m", MINUTE_MS), ("s", 1000), ("ms", 1)];
    let mut rest = text.trim();
    let mut total = 0_u64;
    let mut largest = u64::MAX;
    while !rest.is_empty() || largest == u64::MAX {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        let letters =
            rest[digits..].len() - rest[digits..].trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let word = &rest[digits..digits + letters];
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == word)?;
        if *unit >= largest {
            return None;
        }
        largest = *unit;
        total = total.checked_add(number.checked_mul(*unit)?)?;
        rest = &rest[digits + letters..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_their_unit() {
        for (text, milliseconds) in [
            ("30m", Some(1_800_000)),
            ("10s", Some(10_000)),
            ("1h30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("1m500ms", Some(60_500)),
            ("2d", Some(172_800_000)),
            ("", None),
            ("10", None),
            ("m", None),
            ("1.5h", None),
            ("30m1h", None),
            ("1m1m", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("10 s", None),
            ("１s", None),
        ] {
            assert_eq!(duration_ms(text), milliseconds, "{text:?}");
        }
    }
}
