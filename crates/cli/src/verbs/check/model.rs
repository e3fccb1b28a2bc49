//! Answers of a model: the JSON in them found, repaired where that is safe, and held against the shape.

use std::path::Path;

use ensemble_core::{
    output::{self, Accepted, Rejected},
    plan::Staff,
    source::{Finding, Place},
};

use super::Verdict;
use crate::{
    args::{Check, Kind},
    error::Error,
    files,
};

/// What comes of one answer.
pub(super) fn answer(file: &Path, args: &Check) -> Result<Verdict, Error> {
    let name = file.display().to_string();
    let text = match files::text(file) {
        Ok(text) => text,
        Err(Error::Files(findings)) => {
            return Ok(Verdict { file: name, kind: "answer", findings, value: None });
        }
        Err(error) => return Err(error),
    };
    let reason = args.finish_reason.as_deref();
    let roster: Vec<&str> = args.roster.iter().map(String::as_str).collect();
    match args.kind {
        Some(Kind::Loop) => Ok(verdict(name, "loop", output::loop_step(&text, reason, &roster))),
        Some(Kind::Team) => {
            Err(Error::usage("a model does not write team files", "use --kind plan or --kind loop"))
        }
        Some(Kind::Plan) | None => {
            let staff = (!roster.is_empty()).then(|| Staff::named(roster));
            Ok(verdict(name, "plan", output::plan(&text, reason, staff.as_ref())))
        }
    }
}

fn verdict<T>(file: String, kind: &'static str, answer: Result<Accepted<T>, Rejected>) -> Verdict {
    match answer {
        Ok(accepted) => {
            let findings = accepted.warnings.into_iter().map(|one| Finding { file: file.clone(), ..one });
            Verdict { kind, findings: findings.collect(), value: Some(accepted.json), file }
        }
        Err(rejected) => {
            // One error with the word that programs look for; it says all that the single ones say.
            let mut findings = vec![Finding::error(&file, Place::NOWHERE, &rejected.code, rejected.message)];
            findings.extend(rejected.findings.into_iter().map(|one| Finding { file: file.clone(), ..one }));
            Verdict { file, kind, findings, value: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::args::{Format, Output};

    fn check(text: &str, kind: Kind, reason: &str) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer.txt");
        fs::write(&file, text).unwrap();
        let args = Check {
            files: vec![file.clone()],
            kind: Some(kind),
            from_model: true,
            finish_reason: Some(reason.to_owned()),
            roster: vec!["back".to_owned()],
            output: Output { format: Format::Json },
        };
        answer(&file, &args).unwrap()
    }

    #[test]
    fn the_value_is_found_in_prose_and_held_against_the_roster() {
        let good =
            check("Sure:\n{\"name\":\"back\",\"message\":\"Build.\",\"finished\":false}", Kind::Loop, "stop");
        assert_eq!(good.value.unwrap()["name"], "back");
        let bad =
            check("{\"name\":\"nobody\",\"message\":\"Build.\",\"finished\":false}", Kind::Loop, "stop");
        assert!(bad.value.is_none() && !bad.findings.is_empty());
    }

    #[test]
    fn a_cut_off_answer_is_refused_with_its_word() {
        let cut = check("{\"sub_tasks\":[{\"id\":\"a\",\"description\":\"A", Kind::Plan, "length");
        assert_eq!(cut.findings[0].code, "truncated");
    }
}
