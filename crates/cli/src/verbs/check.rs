//! `ensemble check`: everything that is wrong with team and plan files, each finding with its place.

mod model;

use std::path::{Path, PathBuf};

use ensemble_core::{
    source::{Finding, Place, Severity},
    team::Team,
};
use ensemble_workspace::UserRepository;
use serde_json::json;

use crate::{
    args::{Check, Format, Kind},
    equipment,
    error::{Error, Exit},
    files, output, paths,
};

/// The kind of a file that is neither a team file nor a plan.
const UNKNOWN: &str = "unknown";

/// What came of one file.
struct Verdict {
    file: String,
    kind: &'static str,
    findings: Vec<Finding>,
    value: Option<serde_json::Value>,
}

/// Checks files; plans against the team among them, if there is one.
///
/// # Errors
/// When a file can't be read. What is wrong *in* a file is printed, with exit 2.
pub fn check(args: &Check) -> Result<Exit, Error> {
    if args.from_model {
        let verdicts: Result<Vec<_>, _> = args.files.iter().map(|file| model::answer(file, args)).collect();
        return print(&verdicts?, args.output.format);
    }
    let mut inputs = Vec::new();
    for file in &args.files {
        inputs.push((file.as_path(), read(file, args.kind)?));
    }
    let mut team: Option<Team> = None;
    let mut verdicts = Vec::new();
    // Teams first, so that the plans can be held against them; then printed in the order given.
    for (place, (file, input)) in inputs.iter().enumerate() {
        if let Ok((Kind::Team, text)) = input {
            let (verdict, found) = team_file(file, text.clone())?;
            team = team.or(found);
            verdicts.push((place, verdict));
        }
    }
    for (place, (file, input)) in inputs.into_iter().enumerate() {
        let verdict = match input {
            Ok((Kind::Team, _)) => continue,
            Ok((Kind::Plan, text)) => plan_file(file, text, team.as_ref())?,
            Ok((Kind::Loop, _)) => {
                return Err(Error::usage(
                    "the loop has no files of its own",
                    "add --from-model for a model's answer",
                ));
            }
            Err(findings) => {
                let kind = args.kind.map_or(UNKNOWN, word);
                Verdict { file: file.display().to_string(), kind, findings, value: None }
            }
        };
        verdicts.push((place, verdict));
    }
    verdicts.sort_by_key(|(place, _)| *place);
    let verdicts: Vec<Verdict> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
    print(&verdicts, args.output.format)
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Team => "team",
        Kind::Plan => "plan",
        Kind::Loop => "loop",
    }
}

/// A file's text, read once, and what it is; or why nobody can tell.
fn read(file: &Path, kind: Option<Kind>) -> Result<Result<(Kind, String), Vec<Finding>>, Error> {
    let text = match files::text(file) {
        Ok(text) => text,
        Err(Error::Files(findings)) => return Ok(Err(findings)),
        Err(error) => return Err(error),
    };
    let kind = kind.map_or_else(|| files::kind_of(&file.display().to_string(), &text), Ok);
    Ok(kind.map(|kind| (kind, text)))
}

fn team_file(file: &Path, text: String) -> Result<(Verdict, Option<Team>), Error> {
    let folder = repository_of(file);
    let (team, mut findings) = match files::team_of(file, text, folder.as_deref()) {
        Ok(crew) => (Some(crew.team), crew.warnings),
        Err(Error::Files(findings)) => (None, findings),
        Err(error) => return Err(error),
    };
    let name = file.display().to_string();
    for lack in team.iter().flat_map(|team| equipment::programs(team.employees.iter(), equipment::ours)) {
        findings.push(Finding::warning(&name, Place::NOWHERE, "program_missing", lack));
    }
    let value = team.as_ref().map(|team| json!(team));
    Ok((Verdict { file: name, kind: "team", findings, value }, team))
}

/// The repository that a team file lies in, by its folder: there `run` looks for what it uses, too.
fn repository_of(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    let repository = UserRepository::discover(absolute.parent()?).ok()?;
    paths::folder_of(&repository).ok()
}

fn plan_file(file: &Path, text: String, team: Option<&Team>) -> Result<Verdict, Error> {
    let (value, findings) = match files::plan_of(file, text, team) {
        Ok(work) => (Some(json!(work.plan)), work.warnings),
        Err(Error::Files(findings)) => (None, findings),
        Err(error) => return Err(error),
    };
    Ok(Verdict { file: file.display().to_string(), kind: "plan", findings, value })
}

fn print(verdicts: &[Verdict], format: Format) -> Result<Exit, Error> {
    let refused = |verdict: &Verdict| verdict.findings.iter().any(|one| one.severity == Severity::Error);
    match format {
        Format::Json => {
            let objects: Vec<_> = verdicts
                .iter()
                .map(|one| output::check_object(&one.file, one.kind, &one.findings, one.value.clone()))
                .collect();
            output::result(&serde_json::Value::from(objects).to_string())?;
        }
        Format::Table => {
            for verdict in verdicts {
                for finding in &verdict.findings {
                    output::result(&finding.to_string())?;
                }
                let word = if refused(verdict) { "refused" } else { "accepted" };
                let kind = if verdict.kind == UNKNOWN { "file" } else { verdict.kind };
                output::result(&format!("{}: {kind} {word}", verdict.file))?;
            }
        }
    }
    Ok(if verdicts.iter().any(refused) { Exit::Usage } else { Exit::Good })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_team_uses_is_looked_for_where_a_run_looks() {
        let root = tempfile::tempdir().unwrap();
        git2::Repository::init(root.path()).unwrap();
        fs::create_dir(root.path().join(".ensemble")).unwrap();
        let team = "name: shop\nemployees:\n  - use: front.md\n";
        let path = root.path().join(".ensemble/team.yaml");
        fs::write(root.path().join("front.md"), "---\nname: front\ndescription: Draws\n---\nYou draw.\n")
            .unwrap();
        let (verdict, found) = team_file(&path, team.to_owned()).unwrap();
        assert!(found.is_some(), "{:?}", verdict.findings);
    }

    #[test]
    fn a_program_that_is_not_there_is_warned_about_and_refuses_nothing() {
        let team = "name: shop\nemployees:\n  - id: back\n    description: Builds\n    backend: { kind: exec, command: [no-such-program-at-all] }\n";
        let (verdict, found) = team_file(Path::new("team.yaml"), team.to_owned()).unwrap();
        assert!(found.is_some());
        assert_eq!(verdict.findings[0].code, "program_missing");
        assert_eq!(verdict.findings[0].severity, Severity::Warning);
    }
}
