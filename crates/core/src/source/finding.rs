//! What is wrong or doubtful in a file, as people and programs are told it.
//! All findings of a file are gathered, bounded, and handed over at once (S2).

use std::fmt;

use serde::Serialize;

use super::{Place, Spot};

/// Findings of one severity that are kept; the rest is counted.
const KEPT: usize = 100;

/// Names compared for suggestions in one reading: enough for people's mistakes, and it keeps a file
/// of 100 000 wrong references from taking minutes.
const COMPARISONS: usize = 20_000;

/// Whether a finding refuses the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken; a person should look.
    Warning,
}

/// One thing that is wrong or doubtful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it refuses the file.
    pub severity: Severity,
    /// The file's name as it was given.
    pub file: String,
    /// Line from 1; 0 when it has no place in a file.
    pub line: usize,
    /// Column from 1, in characters; 0 when it has no place in a file.
    pub column: usize,
    /// The field, as `sub_tasks[3].dependencies[0]`; empty for the whole file.
    pub field: String,
    /// A short, stable word for programs.
    pub code: String,
    /// What is wrong and how to put it right.
    pub message: String,
    /// The known name that comes nearest, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Finding {
    /// An error about a place that is no field.
    #[must_use]
    pub fn error(file: &str, place: Place, code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, file, place, code, message)
    }

    /// A warning about a place that is no field.
    #[must_use]
    pub fn warning(file: &str, place: Place, code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, file, place, code, message)
    }

    fn new(severity: Severity, file: &str, place: Place, code: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            file: file.to_owned(),
            line: place.line,
            column: place.column,
            field: String::new(),
            code: code.to_owned(),
            message: message.into(),
            suggestion: None,
        }
    }

    /// The same finding, about `field`.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// The same finding with a nearest name.
    #[must_use]
    pub fn suggesting(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        f.write_str(match self.severity {
            Severity::Error => ": error: ",
            Severity::Warning => ": warning: ",
        })?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(name) => write!(f, " (did you mean `{name}`?)"),
            None => Ok(()),
        }
    }
}

/// A value with its warnings, or everything that refuses it (warnings included).
pub type Reading<T> = Result<(T, Vec<Finding>), Vec<Finding>>;

/// The findings of one file while it is read.
#[derive(Debug)]
pub struct Findings {
    file: String,
    errors: Kept,
    warnings: Kept,
    comparisons: usize,
}

#[derive(Debug, Default)]
struct Kept {
    list: Vec<Finding>,
    more: usize,
}

impl Kept {
    fn push(&mut self, finding: Finding) {
        if self.list.len() < KEPT { self.list.push(finding) } else { self.more += 1 }
    }
}

impl Findings {
    /// No findings yet about `file`.
    #[must_use]
    pub fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            errors: Kept::default(),
            warnings: Kept::default(),
            comparisons: COMPARISONS,
        }
    }

    /// The file's name.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Whether anything refuses the file.
    #[must_use]
    pub fn refused(&self) -> bool {
        !self.errors.list.is_empty()
    }

    /// Takes a finding in.
    pub fn push(&mut self, finding: Finding) {
        match finding.severity {
            Severity::Error => self.errors.push(finding),
            Severity::Warning => self.warnings.push(finding),
        }
    }

    /// An error at `spot`.
    pub fn error(&mut self, spot: &Spot<'_>, code: &str, message: impl Into<String>) {
        self.at(Severity::Error, spot, code, message, None);
    }

    /// A warning at `spot`.
    pub fn warn(&mut self, spot: &Spot<'_>, code: &str, message: impl Into<String>) {
        self.at(Severity::Warning, spot, code, message, None);
    }

    /// An error at `spot` with a nearest name.
    pub fn suggest(&mut self, spot: &Spot<'_>, code: &str, message: impl Into<String>, name: Option<String>) {
        self.at(Severity::Error, spot, code, message, name);
    }

    fn at(
        &mut self,
        severity: Severity,
        spot: &Spot<'_>,
        code: &str,
        message: impl Into<String>,
        suggestion: Option<String>,
    ) {
        let kept = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        let finding = Finding::new(severity, &self.file, spot.place(), code, message);
        kept.push(finding.about(spot.to_string()).suggesting(suggestion));
    }

    /// The name among `names` that comes nearest to `text`, as long as this file's share of
    /// comparisons lasts.
    pub fn nearest<'n>(&mut self, text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
        if self.errors.list.len() >= KEPT {
            return None;
        }
        nearest(text, names, &mut self.comparisons)
    }

    /// Takes over the findings of another file that this one includes.
    pub fn absorb(&mut self, other: Self) {
        self.errors.more += other.errors.more;
        self.warnings.more += other.warnings.more;
        for finding in other.errors.list.into_iter().chain(other.warnings.list) {
            self.push(finding);
        }
    }

    /// The value, or why there is none. Findings come in the order of the file.
    ///
    /// # Errors
    /// All findings, if any of them is an error or there is no value.
    pub fn finish<T>(self, value: Option<T>) -> Reading<T> {
        let refused = self.refused();
        let mut all = self.errors.list;
        all.extend(self.warnings.list);
        let rank = |one: &Finding| (one.file != self.file, one.line, one.column);
        all.sort_by(|a, b| (rank(a).0, &a.file, rank(a)).cmp(&(rank(b).0, &b.file, rank(b))));
        for (severity, more) in [(Severity::Error, self.errors.more), (Severity::Warning, self.warnings.more)]
        {
            if more > 0 {
                let message = format!("and {more} more like these");
                all.push(Finding::new(severity, &self.file, Place::NOWHERE, "more", message));
            }
        }
        match value {
            Some(value) if !refused => Ok((value, all)),
            _ => Err(all),
        }
    }
}

/// The name nearest to `text`: equal but for case and spaces, else at most a third of it different.
/// `comparisons` is what may still be compared at a cost; it is counted down.
pub fn nearest<'n>(
    text: &str,
    names: impl IntoIterator<Item = &'n str>,
    comparisons: &mut usize,
) -> Option<String> {
    let wanted = folded(text);
    let length = wanted.chars().count();
    if length > 64 {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        // A third of the longer one: `on` is near `one`.
        let allowed = (length.max(name.chars().count()) / 3).min(4);
        if name.len().abs_diff(text.len()) > allowed * 4 || name.len() > 256 {
            continue;
        }
        if *comparisons == 0 {
            break;
        }
        *comparisons -= 1;
        let distance = strsim::osa_distance(&wanted, &folded(name));
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name.to_owned())
}

fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// `text` as it can stand in a message: short, and without what a terminal would obey.
#[must_use]
pub fn shown(text: &str) -> String {
    let clipped = crate::text::clip(text, 80);
    let plain: String = clipped.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if clipped.len() < text.len() { plain + "…" } else { plain }
}
