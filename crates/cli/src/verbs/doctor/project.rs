//! What the doctor looks at in a project: git, the repository, the team file with its back ends, the
//! person's own configuration.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ensemble_core::team::{Backend, Team};
use ensemble_workspace::UserRepository;

use super::{super::init, Finding};
use crate::{args::Place, config::Config, error::Error, files, output, paths};

/// All findings.
pub fn look(place: &Place, team: Option<&Path>, path: Option<&OsStr>) -> Vec<Finding> {
    let mut findings = vec![git(path), configuration(Config::ours())];
    let folder = match UserRepository::discover(&place.repo) {
        Ok(repository) => {
            findings.push(repository_of(&repository));
            paths::folder_of(&repository).ok()
        }
        Err(error) => {
            let remedy = "`ensemble run --init` makes one, --repo names another";
            findings.push(Finding::bad("repository", error.to_string(), remedy));
            None
        }
    };
    let file = match (team, &folder) {
        (None, None) => return findings,
        (None, Some(folder)) => files::find_team(None, folder),
        (Some(team), _) => Ok(team.to_owned()),
    };
    findings.extend(match file {
        Ok(file) => team_of(&file, folder.as_deref(), path),
        Err(_) => vec![Finding::warning("team file", "there is none", "`ensemble init` writes one")],
    });
    findings
}

/// Runs need no `git`, but people take results over with it.
fn git(path: Option<&OsStr>) -> Finding {
    let said = init::on_path("git", path).and_then(|program| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
        command.output().ok().filter(|done| done.status.success())
    });
    match said {
        Some(done) => Finding::good("git", String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        None => Finding::warning("git", "no git on the PATH", "runs work, but merge their branch elsewhere"),
    }
}

fn configuration(config: Result<Config, Error>) -> Finding {
    match config {
        Ok(config) if config.notify.is_some() => Finding::good("configuration", "somebody is notified"),
        Ok(_) => Finding::good("configuration", "nobody is notified"),
        Err(Error::Files(findings)) => {
            let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
            Finding::bad("configuration", said.join("; "), "put it right")
        }
        Err(error) => Finding::bad("configuration", error.to_string(), ""),
    }
}

fn repository_of(repository: &UserRepository) -> Finding {
    const NAME: &str = "repository";
    let shown = repository.path().display();
    match (repository.is_shallow(), repository.uncommitted(&[])) {
        (Err(error), _) | (_, Err(error)) => Finding::bad(NAME, format!("{shown}: {error}"), ""),
        (Ok(true), _) => {
            Finding::bad(NAME, format!("{shown} lacks older history"), "`git fetch --unshallow`")
        }
        (Ok(false), Ok(0)) => Finding::good(NAME, shown.to_string()),
        (Ok(false), Ok(many)) => {
            let detail = format!("{shown}: changes of {} are not committed", output::count(many, "file"));
            Finding::warning(NAME, detail, "runs do not see them: commit first")
        }
    }
}

fn team_of(file: &Path, folder: Option<&Path>, path: Option<&OsStr>) -> Vec<Finding> {
    const NAME: &str = "team file";
    let shown = file.display();
    match files::read_team(file, folder) {
        Ok(crew) => {
            let employees = crew.team.employees.len();
            let mut findings = vec![match crew.warnings.as_slice() {
                [] => Finding::good(NAME, format!("{shown}, {}", output::count(employees, "employee"))),
                [first, ..] => Finding::warning(NAME, first.to_string(), format!("`ensemble check {shown}`")),
            }];
            findings.extend(back_ends(&crew.team, path));
            findings
        }
        Err(Error::Files(all)) => {
            let first = all.first().map(ToString::to_string).unwrap_or_default();
            vec![Finding::bad(NAME, first, format!("`ensemble check {shown}` names all"))]
        }
        Err(error) => vec![Finding::bad(NAME, error.to_string(), "")],
    }
}

/// Whether the programs of all employees are there. A relative path starts in a working copy, so it can't
/// be told here.
fn back_ends(team: &Team, path: Option<&OsStr>) -> Vec<Finding> {
    const NAME: &str = "back end";
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for one in &team.employees {
        let Some(Backend::Exec(exec)) = &one.backend else {
            findings.push(Finding::bad(
                NAME,
                format!("employee {} has none that this version runs", one.id),
                "give it `backend: { kind: exec, command: [...] }`",
            ));
            continue;
        };
        // Left out without a word at run time, which an agent tells much later.
        let unset = exec.pass_env.iter().filter(|name| env::var_os(name).is_none());
        findings.extend(unset.map(|name| {
            let detail = format!("{name} of employee {} is not set", one.id);
            Finding::warning(NAME, detail, "set it, or take it out of `pass_env`")
        }));
        let Some(program) = exec.command.first().filter(|program| seen.insert((*program).clone())) else {
            continue;
        };
        let own = exec.env.get("PATH").map(OsStr::new);
        findings.push(match locate(program, own.or(path)) {
            Spot::There(at) => Finding::good(NAME, format!("{program} is {}", at.display())),
            Spot::InWorkingCopy => {
                Finding::good(NAME, format!("{program} is looked for in the working copy"))
            }
            Spot::Nowhere => Finding::bad(
                NAME,
                format!("{program} of employee {} is not there", one.id),
                "install it, or name another command",
            ),
        });
    }
    findings
}

/// Where a program is.
enum Spot {
    There(PathBuf),
    InWorkingCopy,
    Nowhere,
}

fn locate(program: &str, path: Option<&OsStr>) -> Spot {
    let file = Path::new(program);
    let found = match program.contains('/') {
        true if file.is_relative() => return Spot::InWorkingCopy,
        true => file.is_file().then(|| file.to_owned()),
        false => init::on_path(program, path),
    };
    found.map_or(Spot::Nowhere, Spot::There)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::Health, *};

    fn healths(program: &str) -> Vec<Health> {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("team.yaml");
        let team = format!(
            "name: shop\nemployees:\n  - {{id: a, description: A, backend: {{kind: exec, command: [{program}]}}}}\n"
        );
        fs::write(&file, team).unwrap();
        team_of(&file, None, Some(OsStr::new("/usr/bin:/bin"))).iter().map(|one| one.health).collect()
    }

    #[test]
    fn a_program_that_is_nowhere_is_bad() {
        assert_eq!(healths("sh"), [Health::Good, Health::Good]);
        assert_eq!(healths("no-such-agent"), [Health::Good, Health::Bad]);
        assert_eq!(healths("/no/such/agent"), [Health::Good, Health::Bad]);
        assert_eq!(healths("tools/agent.sh"), [Health::Good, Health::Good]);
    }

    #[test]
    fn without_a_repository_the_remedy_is_named() {
        let root = tempfile::tempdir().unwrap();
        let place = Place { repo: root.path().to_owned(), data: None };
        let findings = look(&place, None, None);
        let found = findings.iter().find(|one| one.name == "repository").unwrap();
        assert_eq!(found.health, Health::Bad);
        assert!(found.remedy.contains("--init"));
    }
}
