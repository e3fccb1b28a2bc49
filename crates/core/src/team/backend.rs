//! Back ends as a team file names them. `${TEAM_DIR}` is replaced here, in command and environment,
//! and nothing else is: what looks like a variable otherwise belongs to the command.

use super::{Backend, Exec};
use crate::source::{Findings, Kind, Spot, Value, shown};

const EXEC_KEYS: [&str; 4] = ["kind", "command", "env", "pass_env"];

/// Kinds that this version reads and can't run.
const LATER_KINDS: [&str; 3] = ["acp", "model", "script"];

/// Variables that the runtime sets for every attempt.
const OWN_PREFIX: &str = "ENSEMBLE_";

/// The back end at `spot`: a name, or a mapping with a `kind`. `dir` stands for `${TEAM_DIR}`.
pub(super) fn read(spot: &Spot<'_>, dir: &str, findings: &mut Findings) -> Option<Backend> {
    match &spot.node.value {
        Value::Scalar(Kind::Text, name) => named(spot, name, findings),
        Value::Map(_) => kind(spot, dir, findings),
        _ => {
            let message =
                format!("must be a back end's name or a mapping with `kind`, not {}", spot.node.noun());
            findings.error(spot, "schema", message);
            None
        }
    }
}

fn named(spot: &Spot<'_>, name: &str, findings: &mut Findings) -> Option<Backend> {
    if name == "exec" || LATER_KINDS.contains(&name) {
        let message = format!("`{name}` is a kind, not a name; write `{{kind: {name}, …}}`");
        findings.error(spot, "schema", message);
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
        let message = format!(
            "`{}` is not a back end's name; a command is written `{{kind: exec, command: [program, argument]}}`",
            shown(name)
        );
        findings.error(spot, "schema", message);
        return None;
    }
    Some(Backend::Named(name.to_owned()))
}

fn kind(spot: &Spot<'_>, dir: &str, findings: &mut Findings) -> Option<Backend> {
    let Some(kind) = spot.get("kind") else {
        let message = "is missing: `exec` for a command, or a name instead of the mapping";
        findings.error(&spot.missing("kind"), "schema", message);
        return None;
    };
    let word = kind.text(findings)?;
    if word == "exec" {
        return exec(spot, dir, findings).map(Backend::Exec);
    }
    if LATER_KINDS.contains(&word.as_str()) {
        findings.warn(
            &kind,
            "later",
            format!("back ends of the kind `{word}` are not available in this version"),
        );
        return Some(Backend::Later(word));
    }
    let kinds = ["exec"].into_iter().chain(LATER_KINDS);
    let nearest = findings.nearest(&word, kinds);
    let message = format!("`{}` is not one of exec, {}", shown(&word), LATER_KINDS.join(", "));
    findings.suggest(&kind, "schema", message, nearest);
    None
}

fn exec(spot: &Spot<'_>, dir: &str, findings: &mut Findings) -> Option<Exec> {
    spot.mapping(&EXEC_KEYS, findings);
    let Some(command) = spot.get("command") else {
        let message = "is missing: program and arguments, as `[program, argument]`";
        findings.error(&spot.missing("command"), "schema", message);
        return None;
    };
    if let Value::Scalar(_, line) = &command.node.value {
        let words: Vec<String> = line.split_whitespace().map(|word| format!("\"{}\"", shown(word))).collect();
        let message = format!("must be a list, as no shell takes it apart: `[{}]`", words.join(", "));
        findings.error(&command, "schema", message);
        return None;
    }
    let in_dir = |text: String| text.replace("${TEAM_DIR}", dir);
    let words = command.list(findings, |word, f| word.word(f).map(in_dir));
    if words.first().is_none_or(String::is_empty) {
        findings.error(&command, "schema", "names no program");
    }
    let mut env = std::collections::BTreeMap::new();
    if let Some(variables) = spot.get("env") {
        for (name, spot) in variables.keys() {
            variable(&spot, name, findings);
        }
        env = variables.words(findings).into_iter().map(|(name, text)| (name, in_dir(text))).collect();
    }
    let pass_env = spot.get("pass_env").map(|names| {
        names.list(findings, |one, f| {
            let name = one.text(f)?;
            variable(one, &name, f);
            Some(name)
        })
    });
    Some(Exec { command: words, env, pass_env: pass_env.unwrap_or_default() })
}

fn variable(spot: &Spot<'_>, name: &str, findings: &mut Findings) {
    if name.is_empty() || name.contains(['=', '\0']) || name.chars().any(char::is_whitespace) {
        findings.error(spot, "schema", format!("`{}` can't be a variable's name", shown(name)));
    } else if name.starts_with(OWN_PREFIX) {
        findings.error(
            spot,
            "reserved",
            format!("`{}` is set by the runtime; names in {OWN_PREFIX} are its own", shown(name)),
        );
    }
}
