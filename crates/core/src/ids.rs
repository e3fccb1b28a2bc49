//! Identifiers: a newtype for each, so that one is never taken for another.
//! Every id that comes from outside is checked on the way in; the rules are spec S1 and S50.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {rule}")]
pub struct Malformed {
    /// What it should have been.
    pub what: &'static str,
    /// The text as it was given.
    pub text: String,
    /// The rule it breaks, as a sentence that names the remedy.
    pub rule: &'static str,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and wraps it.
            ///
            /// # Errors
            /// [`Malformed`] when it breaks the rule for this kind of id.
            pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
                let text = text.into();
                if $valid(&text) {
                    Ok(Self(text))
                } else {
                    Err(Malformed { what: $what, text, rule: $rule })
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Malformed;
            fn from_str(text: &str) -> Result<Self, Malformed> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;
            fn try_from(text: String) -> Result<Self, Malformed> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// A task of a plan (S50).
    TaskId, "task id", is_task_id,
    "letters, digits, `.`, `_` and `-`, at most 63, starting with a letter or digit, without `..`, not ending in `.` or `.lock`"
);
text_id!(
    /// An employee of a team file (S1).
    EmployeeId, "employee id", is_slug,
    "small letters, digits, `_` and `-`, at most 63, starting with a letter or digit"
);
text_id!(
    /// A named group of employees or workers (S1).
    TeamId, "team id", is_slug,
    "small letters, digits, `_` and `-`, at most 63, starting with a letter or digit"
);
text_id!(
    /// A project: the name of its team file as a slug.
    ProjectId, "project name", is_slug,
    "small letters, digits, `_` and `-`, at most 63, starting with a letter or digit"
);
text_id!(
    /// A node: a worker process that hosts employees. It survives restarts of the process.
    NodeId, "node id", is_slug,
    "small letters, digits, `_` and `-`, at most 63, starting with a letter or digit"
);
text_id!(
    /// A coordinator process.
    CoordinatorId, "coordinator id", is_slug,
    "small letters, digits, `_` and `-`, at most 63, starting with a letter or digit"
);
text_id!(
    /// A git commit, as 40 hexadecimal digits.
    CommitId, "commit id", is_sha1, "40 hexadecimal digits in small letters"
);
text_id!(
    /// A blob in the content-addressed store, as the SHA-256 of its bytes.
    BlobId, "blob id", is_sha256, "64 hexadecimal digits in small letters"
);
text_id!(
    /// A repository: its oldest first-parent commit and the project's name.
    RepositoryId, "repository id", is_repository_id,
    "a commit id, a dash and a project name"
);

/// Longest id of any kind, in characters (S1, S50).
const ID_LIMIT: usize = 63;

fn is_slug(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && bytes.len() <= ID_LIMIT
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}

fn is_task_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= ID_LIMIT
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !text.contains("..")
        && !text.ends_with('.')
        && !text.to_ascii_lowercase().ends_with(".lock")
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_sha1(text: &str) -> bool {
    is_hex(text, 40)
}

fn is_sha256(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_repository_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(root, project)| is_sha1(root) && is_slug(project))
}

impl EmployeeId {
    /// The slug of a display name (S1), if it has one: `Coder` gives `coder`.
    #[must_use]
    pub fn slug_of(name: &str) -> Option<Self> {
        slug(name).and_then(|text| Self::new(text).ok())
    }
}

impl ProjectId {
    /// The slug of a project's display name, if it has one.
    #[must_use]
    pub fn slug_of(name: &str) -> Option<Self> {
        slug(name).and_then(|text| Self::new(text).ok())
    }
}

/// Lower case, runs of white space as one dash; `None` when other characters remain.
fn slug(name: &str) -> Option<String> {
    let text = name.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
    is_slug(&text).then_some(text)
}

impl RepositoryId {
    /// The id of the repository whose oldest first-parent commit is `root`.
    #[must_use]
    pub fn of(root: &CommitId, project: &ProjectId) -> Self {
        Self(format!("{root}-{project}"))
    }
}

/// A run: a ULID. The same 16 bytes are its trace id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(ulid::Ulid);

impl RunId {
    /// A run id from a wall-clock time in milliseconds and 80 random bits.
    #[must_use]
    pub fn from_parts(milliseconds: u64, random: u128) -> Self {
        Self(ulid::Ulid::from_parts(milliseconds, random))
    }

    /// The 16 bytes, which are also the trace id.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// When the id was made, in milliseconds since the epoch.
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        self.0.timestamp_ms()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RunId {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        ulid::Ulid::from_string(text).map(Self).map_err(|_| Malformed {
            what: "run id",
            text: text.to_owned(),
            rule: "26 letters and digits, as `ensemble ps` prints them",
        })
    }
}

impl TryFrom<String> for RunId {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id!(
    /// Place of a fact in its stream, from 1.
    Seq, u64
);
number_id!(
    /// Fencing number of a stream's owner; each claim makes it one higher.
    Epoch, u64
);
number_id!(
    /// Number of a try at a task, from 1.
    AttemptNumber, u32
);
number_id!(
    /// Number of a check under the attempt that it tests, from 1 (`3.c1`).
    CheckNumber, u32
);
number_id!(
    /// Names one start of a node process: a later start has a higher one.
    Incarnation, u64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_follow_s50() {
        for good in ["ST-1", "a", "7", "schema.sql", "A_b-c.d"] {
            assert!(TaskId::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(64);
        for bad in ["", "-a", ".a", "a..b", "a.", "a.lock", "a/b", "a b", "ä", "a.LOCK", long.as_str()] {
            assert!(TaskId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn slugs_follow_s1() {
        assert_eq!(EmployeeId::slug_of("Coder").unwrap().as_str(), "coder");
        assert_eq!(EmployeeId::slug_of("Back end").unwrap().as_str(), "back-end");
        assert!(EmployeeId::slug_of("后端").is_none());
        assert!(EmployeeId::new("Coder").is_err());
    }

    #[test]
    fn a_run_id_survives_text_and_bytes() {
        let run = RunId::from_parts(1_796_000_000_000, 42);
        assert_eq!(run.to_string().parse::<RunId>().unwrap(), run);
        assert_eq!(run.milliseconds(), 1_796_000_000_000);
        assert!("nonsense".parse::<RunId>().is_err());
    }
}
