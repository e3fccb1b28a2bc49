//! `ensemble check`: everything that is wrong with team and plan files, each finding with its place.

mod model;

use std::path::Path;

use ensemble_core::{
    source::{self, Finding, Findings, Place, Severity, Value},
    team::Team,
};
use serde_json::json;

use crate::{
    args::{Check, Format, Kind},
    error::{Error, Exit},
    files, output,
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
    let mut kinds = Vec::new();
    for file in &args.files {
        let kind = match args.kind {
            Some(kind) => Ok(kind),
            None => guess(file)?,
        };
        kinds.push((file, kind));
    }
    let mut team: Option<Team> = None;
    let mut verdicts = Vec::new();
    // Teams first, so that the plans can be held against them; then printed in the order given.
    for (place, (file, kind)) in kinds.iter().enumerate() {
        if let Ok(Kind::Team) = kind {
            let (verdict, found) = team_file(file)?;
            team = team.or(found);
            verdicts.push((place, verdict));
        }
    }
    for (place, (file, kind)) in kinds.into_iter().enumerate() {
        let verdict = match kind {
            Ok(Kind::Team) => continue,
            Ok(Kind::Plan) => plan_file(file, team.as_ref())?,
            Ok(Kind::Loop) => {
                return Err(Error::usage(
                    "the loop has no files of its own",
                    "add --from-model for a model's answer",
                ));
            }
            Err(findings) => {
                Verdict { file: file.display().to_string(), kind: UNKNOWN, findings, value: None }
            }
        };
        verdicts.push((place, verdict));
    }
    verdicts.sort_by_key(|(place, _)| *place);
    let verdicts: Vec<Verdict> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
    print(&verdicts, args.output.format)
}

/// What a file is, by the keys at its top; or why nobody can tell.
fn guess(file: &Path) -> Result<Result<Kind, Vec<Finding>>, Error> {
    let name = file.display().to_string();
    let text = match files::text(file) {
        Ok(text) => text,
        Err(Error::Files(findings)) => return Ok(Err(findings)),
        Err(error) => return Err(error),
    };
    let mut findings = Findings::new(&name);
    let Some(tree) = source::parse(&text, &mut findings) else {
        return Ok(Err(findings.finish::<()>(None).err().unwrap_or_default()));
    };
    let has = |key: &str| match &tree.value {
        Value::Map(entries) => entries.iter().any(|entry| entry.key == key),
        _ => false,
    };
    if has("sub_tasks") || has("project_scope") {
        return Ok(Ok(Kind::Plan));
    }
    if ["employees", "subagents", "coordinator", "collaboration", "name"].into_iter().any(has) {
        return Ok(Ok(Kind::Team));
    }
    let message =
        "is neither a team file (`name`, `employees`) nor a plan (`sub_tasks`); say which with --kind";
    Ok(Err(vec![Finding::error(&name, Place::START, "unknown_kind", message)]))
}

fn team_file(file: &Path) -> Result<(Verdict, Option<Team>), Error> {
    let (team, findings) = match files::read_team(file, Some(Path::new("."))) {
        Ok(crew) => (Some(crew.team), crew.warnings),
        Err(Error::Files(findings)) => (None, findings),
        Err(error) => return Err(error),
    };
    let value = team.as_ref().map(|team| json!(team));
    Ok((Verdict { file: file.display().to_string(), kind: "team", findings, value }, team))
}

fn plan_file(file: &Path, team: Option<&Team>) -> Result<Verdict, Error> {
    let (value, findings) = match files::read_plan(file, team) {
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
