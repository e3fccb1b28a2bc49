//! What node and keeper say to each other: JSON lines on one socket, which is the keeper's
//! standard input. First the spec and the bytes of the brief, then controls one way, reports the
//! other. Both ends are the same binary, so there are no versions.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Longest line either side takes.
pub(crate) const LINE_LIMIT: usize = 4 * 1024 * 1024;

/// What is to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// The agent's working directory.
    #[serde(with = "raw_path")]
    pub(crate) dir: PathBuf,
    /// The lock file to hold.
    #[serde(with = "raw_path")]
    pub(crate) lock: PathBuf,
    /// Length of the brief that follows the line.
    pub(crate) brief: usize,
    /// Whether to try for a cgroup.
    pub(crate) cgroup: bool,
}

impl Spec {
    /// The program, for messages.
    pub(crate) fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }
}

/// What the node asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    /// TERM to the agent's process group.
    Term,
    /// KILL to everything.
    Kill,
}

/// What the keeper says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// Nothing was started and nothing will be.
    Refused {
        /// Whether because another keeper holds the lock.
        held: bool,
        why: String,
    },
    /// The agent's process exists.
    Started { pid: i32, cgroup: Option<PathBuf> },
    /// The command could not be executed.
    NotStarted { why: String },
    /// The agent's own process has ended.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// No descendant is left; so many besides the agent had to be killed.
    Ended { left_behind: usize },
}

/// One value as a line.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Paths as bytes: those of a user need not be UTF-8.
mod raw_path {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
    };

    use serde::{Deserializer, Serializer};

    use super::{Deserialize, Path, PathBuf, Serialize};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Vec::<u8>::deserialize(deserializer).map(|bytes| OsString::from_vec(bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_spec_keeps_paths_that_are_not_utf_8() {
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a \xff\n/b".to_vec()));
        let spec = Spec { command: vec![], dir: path.clone(), lock: path.clone(), brief: 0, cgroup: false };
        let text = line(&spec);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: Spec = serde_json::from_slice(&text).unwrap();
        assert_eq!(read.dir, path);
    }
}
