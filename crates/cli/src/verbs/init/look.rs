//! The look at a project: which build files it has, how its tests are run, and whether the tools for
//! that, and agents, are on the PATH. A check that could not run here is written as a comment.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::error::{DoingTo, Error};

/// Bytes of a build file that are looked at.
const LOOKED_AT: u64 = 256 * 1024;

/// Agents with a headless mode that are known here.
const AGENTS: [&str; 3] = ["claude", "codex", "gemini"];

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Build files, each with its check.
    pub what: Vec<Build>,
    /// Agents on the PATH.
    pub agents: Vec<String>,
}

/// A build file and the check that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its name.
    pub file: String,
    /// The command, if one can be told.
    pub check: Option<String>,
    /// Why the check can't run here, if so.
    pub problem: Option<String>,
}

impl Build {
    /// What came of it, for people.
    #[must_use]
    pub fn word(&self) -> String {
        match (&self.check, &self.problem) {
            (Some(check), None) => format!("the check `{check}`"),
            (Some(check), Some(problem)) => format!("the check `{check}`, commented out: {problem}"),
            (None, _) => "no check can be told from it".to_owned(),
        }
    }
}

impl Found {
    /// The part `checks:` of a team file.
    #[must_use]
    pub fn checks(&self) -> Vec<String> {
        let active = |build: &&Build| build.check.is_some() && build.problem.is_none();
        let mut lines = vec![match self.what.iter().any(|build| active(&build)) {
            true => "checks:".to_owned(),
            false => "# checks: [\"sh tests/run.sh\"]".to_owned(),
        }];
        for build in &self.what {
            let Some(check) = &build.check else { continue };
            let quoted = check.replace('\\', "\\\\").replace('"', "\\\"");
            lines.push(match &build.problem {
                None => format!("  - \"{quoted}\""),
                Some(problem) => format!("  # - \"{quoted}\"    # {problem}"),
            });
        }
        lines
    }
}

/// Looks at the project in `dir`; tools are looked for in `path`.
///
/// # Errors
/// When a build file can't be read.
pub fn at(dir: &Path, path: Option<&OsStr>) -> Result<Found, Error> {
    let mut what = Vec::new();
    for (file, check) in [
        ("Cargo.toml", cargo as fn(&Path, &str) -> Option<(&'static str, String)>),
        ("package.json", npm),
        ("pyproject.toml", python),
        ("go.mod", go),
        ("Makefile", make),
    ] {
        let Some(text) = head(&dir.join(file))? else { continue };
        let check = check(dir, &text);
        let problem = check.as_ref().and_then(|(tool, _)| problem(tool, path));
        what.push(Build { file: file.to_owned(), check: check.map(|(_, command)| command), problem });
    }
    let agents = AGENTS.iter().filter(|agent| on_path(agent, path).is_some());
    Ok(Found { what, agents: agents.map(ToString::to_string).collect() })
}

/// The beginning of a file, if it is there.
fn head(path: &Path) -> Result<Option<String>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).doing_to("read", path),
    };
    let mut bytes = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut bytes).doing_to("read", path)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn cargo(_: &Path, _: &str) -> Option<(&'static str, String)> {
    Some(("cargo", "cargo test --quiet".to_owned()))
}

fn npm(dir: &Path, text: &str) -> Option<(&'static str, String)> {
    let package: serde_json::Value = serde_json::from_str(text).ok()?;
    package.get("scripts")?.get("test")?;
    // Modules are not committed, so a fresh copy has none.
    let fetch = if dir.join("package-lock.json").is_file() { "npm ci" } else { "npm install" };
    Some(("npm", format!("{fetch} --no-audit --no-fund && npm test")))
}

fn python(dir: &Path, text: &str) -> Option<(&'static str, String)> {
    let tested = text.contains("pytest") && ["tests", "test"].iter().any(|name| dir.join(name).is_dir());
    let command = if tested { "python3 -m pytest -q" } else { "python3 -m compileall -q ." };
    Some(("python3", command.to_owned()))
}

fn go(_: &Path, _: &str) -> Option<(&'static str, String)> {
    Some(("go", "go test ./...".to_owned()))
}

fn make(_: &Path, text: &str) -> Option<(&'static str, String)> {
    let target = ["test", "check"].into_iter().find(|target| {
        text.lines().any(|line| {
            let rest = line.strip_prefix(target).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
        })
    })?;
    Some(("make", format!("make {target}")))
}

/// Why a tool would not run as a check here.
fn problem(tool: &str, path: Option<&OsStr>) -> Option<String> {
    let Some(found) = on_path(tool, path) else { return Some(format!("{tool} is not on your PATH")) };
    let is_proxy = fs::canonicalize(found).is_ok_and(|file| file.file_stem() == Some(OsStr::new("rustup")));
    is_proxy
        .then(|| "rustup's cargo finds no toolchain in an empty HOME: set RUSTUP_HOME before it".to_owned())
}

/// Where a program lies, if `path` has it.
#[must_use]
pub fn on_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = std::env::split_paths(path?).collect::<Vec<_>>();
    folders.into_iter().map(|folder| folder.join(program)).find(|file| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// The commented employees of a team file, one for each known agent.
#[must_use]
pub fn agents() -> Vec<&'static str> {
    include_str!("../../../assets/init/agents.yaml").lines().collect()
}
