//! `ensemble doctor`: looks whether anything is in the way of a run here. It changes nothing; what it looks
//! at is in `doctor/`, one file for the data directory, one for the project.

mod data;
mod project;

use std::env;

use crate::{
    args::{Doctor, Format},
    error::{Error, Exit},
    faults, output,
};

/// What was found at one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thing.
    pub name: &'static str,
    /// How it is.
    pub health: Health,
    /// What was seen.
    pub detail: String,
    /// What to do about it; empty where there is nothing to do.
    pub remedy: String,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// As it should be.
    Good,
    /// A run works all the same.
    Warning,
    /// No run works.
    Bad,
}

impl Health {
    /// One word for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

impl Finding {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, health: Health::Good, detail: detail.into(), remedy: String::new() }
    }

    fn warning(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, health: Health::Warning, detail: detail.into(), remedy: remedy.into() }
    }

    fn bad(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, health: Health::Bad, detail: detail.into(), remedy: remedy.into() }
    }
}

/// Looks at everything that a run needs.
///
/// # Errors
/// When nobody reads it. What is wrong is printed, with exit 1.
pub async fn doctor(args: &Doctor) -> Result<Exit, Error> {
    if args.fault_points {
        output::result(&faults::points().join("\n"))?;
        return Ok(Exit::Good);
    }
    let path = env::var_os("PATH");
    let mut findings = project::look(&args.place, args.team.as_deref(), path.as_deref());
    findings.extend(data::look(&args.place).await);
    match args.output.format {
        Format::Json => output::result(&output::doctor_object(&findings).to_string())?,
        Format::Table => output::result(&lines(&findings).join("\n"))?,
    }
    Ok(exit(&findings))
}

fn exit(findings: &[Finding]) -> Exit {
    if findings.iter().any(|one| one.health == Health::Bad) { Exit::Failed } else { Exit::Good }
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let row = |one: &Finding| {
        let remedy = if one.remedy.is_empty() { String::new() } else { format!("; {}", one.remedy) };
        let said = output::one_line(&format!("{}{remedy}", one.detail));
        [one.health.word().to_owned(), one.name.to_owned(), said]
    };
    output::table(&findings.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stops_every_run_ends_with_1() {
        let mut findings =
            vec![Finding::good("git", "git 2.47"), Finding::warning("agents", "none", "name one")];
        assert_eq!(exit(&findings), Exit::Good);
        assert_eq!(lines(&findings), ["ok       git     git 2.47", "warning  agents  none; name one"]);
        findings.push(Finding::bad("data", "read-only", "use another"));
        assert_eq!(exit(&findings), Exit::Failed);
    }
}
