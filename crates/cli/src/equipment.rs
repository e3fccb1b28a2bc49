//! What employees need from the machine they work on: their programs and the variables that are
//! handed on to them. What is missing is only said; the node may still find it when it is needed.

use std::{collections::BTreeMap, env, ffi::OsString, fs, os::unix::fs::PermissionsExt, path::Path};

use ensemble_core::{
    ids::EmployeeId,
    team::{Backend, Employee, Exec},
};

use crate::output;

/// Employees that one line names; more are counted.
const NAMED: usize = 5;

/// A variable of this process.
#[must_use]
pub fn ours(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Says what these employees lack on this machine.
pub fn warn<'t>(employees: impl Iterator<Item = &'t Employee> + Clone) {
    let lacks = [programs(employees.clone(), ours), variables(employees, ours)];
    lacks.iter().flatten().for_each(|lack| output::say(&format!("warning: {lack}")));
}

/// The programs that are not there, a sentence for each with those who need it.
pub fn programs<'t>(
    employees: impl Iterator<Item = &'t Employee>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<String> {
    gathered(employees, |exec| missing_program(exec, &variable).into_iter().collect())
}

/// The variables of `pass_env` that are not set, a sentence for each with those who get it. What is in
/// one is never told.
pub fn variables<'t>(
    employees: impl Iterator<Item = &'t Employee>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<String> {
    gathered(employees, |exec| {
        let unset =
            exec.pass_env.iter().filter(|name| !exec.env.contains_key(*name) && variable(name).is_none());
        unset.map(|name| format!("the variable {name} of `pass_env` is not set here")).collect()
    })
}

fn gathered<'t>(
    employees: impl Iterator<Item = &'t Employee>,
    lacks: impl Fn(&Exec) -> Vec<String>,
) -> Vec<String> {
    let mut found: BTreeMap<String, Vec<&EmployeeId>> = BTreeMap::new();
    for one in employees {
        if let Some(Backend::Exec(exec)) = &one.backend {
            lacks(exec).into_iter().for_each(|lack| found.entry(lack).or_default().push(&one.id));
        }
    }
    found.into_iter().map(|(lack, who)| format!("{lack} ({})", names(&who))).collect()
}

fn names(who: &[&EmployeeId]) -> String {
    let noun = if who.len() == 1 { "employee" } else { "employees" };
    let named = who.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match who.len().saturating_sub(NAMED) {
        0 => format!("{noun} {named}"),
        more => format!("{noun} {named} and {more} more"),
    }
}

/// What is wrong with a command's program. One with a path of its own is looked for in the working
/// copy, which is not there yet.
fn missing_program(exec: &Exec, variable: &impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let program = exec.command.first()?;
    if program.contains('/') {
        let path = Path::new(program);
        let wrong = if path.is_file() { "can't be executed" } else { "is not there" };
        return (path.is_absolute() && !is_executable(path))
            .then(|| format!("the program {program} {wrong}"));
    }
    let search = exec.env.get("PATH").map(OsString::from).or_else(|| variable("PATH"))?;
    let found = env::split_paths(&search).any(|folder| is_executable(&folder.join(program)));
    (!found).then(|| format!("there is no program `{program}` on PATH"))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use ensemble_core::team::{self, Team};

    use super::*;

    fn team(employees: &[(&str, &str)]) -> Team {
        let entries = employees.iter().map(|(id, backend)| {
            format!("  - {{id: {id}, description: Works, backend: {{kind: exec, {backend}}}}}\n")
        });
        let text = format!("name: shop\nemployees:\n{}", entries.collect::<String>());
        let include = |_: &str| Err("there is none".to_owned());
        team::read("team.yaml", &text, "/", &include, &[]).unwrap().0
    }

    #[test]
    fn a_program_is_looked_for_as_it_is_going_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let (tool, plain) = (folder.path().join("tool"), folder.path().join("plain"));
        fs::write(&tool, "").unwrap();
        fs::write(&plain, "").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        let path = |name: &str| (name == "PATH").then(|| folder.path().as_os_str().to_owned());
        let said = |command: &str| {
            let team =
                team(&[("a", &format!("command: [{command}]")), ("b", &format!("command: [{command}]"))]);
            programs(team.employees.iter(), path)
        };
        assert!(said("tool").is_empty() && said("./anything").is_empty());
        assert_eq!(said("plain"), ["there is no program `plain` on PATH (employees a, b)"]);
        assert!(said(&tool.display().to_string()).is_empty());
        assert!(said(&plain.display().to_string())[0].contains("can't be executed"));
        assert!(said("/no/such/tool")[0].contains("is not there"));
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_with_who_gets_it() {
        let team = team(&[("back", "command: [sh], pass_env: [API_KEY, TOKEN]")]);
        let set = |name: &str| (name == "TOKEN").then(|| "secret".into());
        let said = variables(team.employees.iter(), set);
        assert_eq!(said, ["the variable API_KEY of `pass_env` is not set here (employee back)"]);
    }
}
