//! `ensemble init`: a first team file, a plan and a stand-in for an agent, after a look at the project.
//! Nothing that is there is ever written over. What the look finds is `init/look.rs`.

mod look;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use ensemble_core::ids::ProjectId;
use look::Found;
pub use look::{Build, on_path};

use crate::{
    args::{Format, Init},
    error::{DoingTo, Error, Exit},
    files, output,
};

const TEAM: &str = include_str!("../../assets/init/team.yaml");
const PLAN: &str = include_str!("../../assets/init/plan.yaml");
const STAND_IN: &str = include_str!("../../assets/init/dev.sh");

/// The project's name where its folder's can't be one.
const NAME: &str = "project";

/// Writes a project's first files.
///
/// # Errors
/// [`Error::Usage`] naming a file that is there already; nothing is written then.
pub fn init(args: &Init) -> Result<Exit, Error> {
    let dir = &args.dir;
    if !dir.is_dir() {
        let what = format!("{} is not a folder", dir.display());
        return Err(Error::usage(what, "name the project's folder"));
    }
    let found = look::at(dir, std::env::var_os("PATH").as_deref())?;
    let name = fs::canonicalize(dir).doing_to("find", dir)?;
    let name = name.file_name().and_then(|name| ProjectId::slug_of(&name.to_string_lossy()));
    let name = name.map_or_else(|| NAME.to_owned(), |name| name.to_string());
    let written = write(dir, &name, &found)?;
    match args.output.format {
        Format::Json => {
            output::result(&output::init_object(dir, &written, &found.what, &found.agents).to_string())?
        }
        Format::Table => output::result(&lines(dir, &written, &found).join("\n"))?,
    }
    Ok(Exit::Good)
}

/// Writes all files or, when one is in the way, none.
fn write(dir: &Path, name: &str, found: &Found) -> Result<Vec<PathBuf>, Error> {
    let home = if dir == Path::new(".") { PathBuf::from(".ensemble") } else { dir.join(".ensemble") };
    let files = [
        (home.join("team.yaml"), team(name, found)),
        (home.join("plan.yaml"), PLAN.to_owned()),
        (home.join("employees/dev.sh"), STAND_IN.to_owned()),
    ];
    let taken = files::TEAM_FILES.iter().map(|name| dir.join(name));
    let taken = taken.chain(files.iter().map(|(path, _)| path.clone()));
    if let Some(path) = taken.into_iter().find(|path| path.symlink_metadata().is_ok()) {
        let what = format!("{} is there already and is not written over", path.display());
        return Err(Error::usage(what, "change it by hand, or move it away first"));
    }
    let folder = home.join("employees");
    fs::create_dir_all(&folder).doing_to("make the folder", &folder)?;
    for (path, text) in &files {
        // Another process may have written it since we looked.
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).doing_to("write", path)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

fn team(name: &str, found: &Found) -> String {
    TEAM.replace("@NAME@", name)
        .replace("@AGENTS@\n", &(look::agents().join("\n") + "\n"))
        .replace("@CHECKS@\n", &(found.checks().join("\n") + "\n\n"))
}

fn lines(dir: &Path, written: &[PathBuf], found: &Found) -> Vec<String> {
    let mut lines: Vec<String> =
        found.what.iter().map(|one| format!("found {}: {}", one.file, one.word())).collect();
    lines.extend(written.iter().map(|path| format!("wrote {}", path.display())));
    for agent in &found.agents {
        lines.push(format!("{agent} is on your PATH: team.yaml has an employee for it, commented out"));
    }
    let (plan, at) = (
        dir.join(".ensemble/plan.yaml"),
        match dir {
            dir if dir == Path::new(".") => String::new(),
            dir => format!(" --repo {}", dir.display()),
        },
    );
    lines.push("next:".to_owned());
    lines.push(format!("  ensemble run --plan {}{at}", plan.strip_prefix(".").unwrap_or(&plan).display()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, Found) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(root.path().join(name), text).unwrap();
        }
        let bin = root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for tool in ["cargo", "npm", "python3", "go", "make", "claude"] {
            fs::write(bin.join(tool), "").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(bin.join(tool), mode).unwrap();
        }
        let found = look::at(root.path(), Some(bin.as_os_str())).unwrap();
        write(root.path(), "shop", &found).unwrap();
        (root, found)
    }

    /// What `ensemble check` says of the files.
    fn accepted(root: &Path) -> ensemble_core::team::Team {
        let team = files::find_team(None, root).unwrap();
        let crew = files::read_team(&team, None).unwrap();
        assert!(crew.warnings.is_empty(), "{:?}", crew.warnings);
        let work = files::read_plan(&root.join(".ensemble/plan.yaml"), Some(&crew.team)).unwrap();
        assert!(work.warnings.is_empty(), "{:?}", work.warnings);
        crew.team
    }

    #[test]
    fn what_is_written_is_accepted_whatever_was_found() {
        let (root, found) = written(&[]);
        assert!(accepted(root.path()).checks.is_empty());
        assert_eq!(found.agents, ["claude"]);
        let (root, _) = written(&[
            ("Cargo.toml", "[package]"),
            ("package.json", r#"{"scripts": {"test": "node --test"}}"#),
            ("pyproject.toml", ""),
            ("go.mod", "module shop"),
            ("Makefile", "all:\n\ttrue\ncheck: all\n\ttrue\n"),
        ]);
        let checks = accepted(root.path()).checks;
        assert!(checks.iter().any(|check| check.contains("make check")), "{checks:?}");
        assert_eq!(checks.len(), 5, "{checks:?}");
    }

    #[test]
    fn the_commented_agents_are_accepted_too_once_they_are_not_comments() {
        let (root, _) = written(&[]);
        let path = root.path().join(".ensemble/team.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let open: Vec<String> = text
            .lines()
            .map(|line| match line.strip_prefix("  #") {
                Some(rest) if rest.starts_with("- ") || rest.starts_with("  ") => format!("  {rest}"),
                _ => line.to_owned(),
            })
            .collect();
        fs::write(&path, open.join("\n")).unwrap();
        let names: Vec<String> =
            accepted(root.path()).employees.iter().map(|one| one.id.to_string()).collect();
        assert_eq!(names, ["dev", "claude", "codex", "gemini"]);
    }

    #[test]
    fn a_file_that_is_there_is_named_and_nothing_is_written() {
        for name in ["role.yaml", "team.yaml"] {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join(name), "name: mine").unwrap();
            let error = write(root.path(), "shop", &Found::default()).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().contains(name), "{error}");
            assert!(!root.path().join(".ensemble").exists());
        }
    }
}
