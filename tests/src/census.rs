//! Who is alive: processes that belong to a world, found in `/proc` by what they cannot all lose at
//! once: a mark in the environment, the world's path there, in the command line or as directory.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

/// A look at `/proc`.
#[derive(Clone, Debug)]
pub struct Census {
    /// The processes found: their id and command line.
    pub alive: Vec<(u32, String)>,
}

impl Census {
    /// All processes that carry `mark` or have to do with the folder `root`, but those in `except`.
    #[must_use]
    pub fn take(root: &Path, mark: &str, except: &[u32]) -> Self {
        let me = std::process::id();
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of_ours = |pid: &u32| *pid != me && !except.contains(pid) && belongs(*pid, root, mark);
        let alive = pids.filter(of_ours).map(|pid| (pid, command_line(pid))).collect();
        Self { alive }
    }
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

fn belongs(pid: u32, root: &Path, mark: &str) -> bool {
    let of = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (environ, line) = (of("environ"), of("cmdline"));
    // A zombie has neither environment nor command line: it is dead, whoever has yet to collect it.
    let path = root.as_os_str().as_bytes();
    let held = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    held(&environ, mark.as_bytes())
        || held(&environ, path)
        || held(&line, mark.as_bytes())
        || held(&line, path)
        || cwd.starts_with(root)
}
