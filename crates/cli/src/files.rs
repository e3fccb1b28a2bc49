//! A user's files: bounded reading, the search for the team file, team and plan as checked values,
//! and the copies that go into the journal so that resume and retry see the same.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use ensemble_core::{
    plan::{self, Plan},
    run::fact::SourceFile,
    source::{self, Finding, Findings, Place, Value},
    team::{self, Team},
    text::Text,
};

use crate::{
    args::Kind,
    error::{DoingTo, Error},
};

/// Bytes of a file that are read at most: more than is accepted, so that its size can be named, but
/// never a whole disk.
const READ_LIMIT: u64 = 64 * 1024 * 1024;

/// Names of the team file in a repository, the first one found counts.
pub const TEAM_FILES: [&str; 3] = [".ensemble/team.yaml", "team.yaml", "role.yaml"];

/// The text of a file as the user named it; `-` is standard input.
///
/// # Errors
/// [`Error::Io`], and [`Error::Files`] when it is too long or not UTF-8.
pub fn text(path: &Path) -> Result<String, Error> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let input: Box<dyn Read> = if name == "-" {
        Box::new(io::stdin())
    } else {
        let unreadable =
            |error| Error::usage(format!("can't read {name}: {error}"), "name a file that is there");
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().doing_to("read", path)?;
        if metadata.is_dir() {
            return Err(Error::usage(format!("{name} is a directory"), "name a file"));
        }
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if length > source::SIZE_LIMIT {
            return Err(Error::Files(vec![source::too_large(&name, length)]));
        }
        Box::new(file)
    };
    input.take(READ_LIMIT).read_to_end(&mut bytes).doing_to("read", path)?;
    match source::decode(&name, &bytes) {
        Ok(_) => {
            String::from_utf8(bytes).map_err(|_| Error::usage(format!("{name} is not UTF-8"), "save it so"))
        }
        Err(findings) => Err(Error::Files(findings)),
    }
}

/// The team file: the given one, else the first of the usual names in `folder`.
///
/// # Errors
/// [`Error::Usage`] when there is none.
pub fn find_team(given: Option<&Path>, folder: &Path) -> Result<PathBuf, Error> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    TEAM_FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        let what = format!("there is no team file in {}", folder.display());
        Error::usage(what, format!("write {}, or name one with --team FILE", TEAM_FILES[0]))
    })
}

/// A team that was accepted.
#[derive(Clone, Debug)]
pub struct Crew {
    /// The team.
    pub team: Team,
    /// The team file and the definition files that it uses.
    pub files: Vec<SourceFile>,
    /// What a person should look at.
    pub warnings: Vec<Finding>,
}

/// A team file, read and checked.
///
/// # Errors
/// As [`team_of`] and [`text`].
pub fn read_team(path: &Path, folder: Option<&Path>) -> Result<Crew, Error> {
    team_of(path, text(path)?, folder)
}

/// Checks a team file whose text was read. Files named by `use:` are looked for beside it, then in
/// `folder`.
///
/// # Errors
/// [`Error::Files`] with all findings, and those of [`text`].
pub fn team_of(path: &Path, text: String, folder: Option<&Path>) -> Result<Crew, Error> {
    let absolute = std::path::absolute(path).doing_to("find", path)?;
    let dir = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    let used = RefCell::new(Vec::new());
    let include = |name: &str| -> Result<String, String> {
        let places = [Some(dir.as_path()), folder].into_iter().flatten().map(|place| place.join(name));
        let found = places.clone().find(|path| path.is_file());
        let found = found.ok_or_else(|| format!("there is no such file in {}", dir.display()))?;
        let text = self::text(&found).map_err(|error| error.to_string())?;
        used.borrow_mut().push(source_file(name, &dir, text.clone()));
        Ok(text)
    };
    let name = path.display().to_string();
    let lying = definitions(&dir);
    let names: Vec<&str> = lying.iter().map(String::as_str).collect();
    let (team, warnings) =
        team::read(&name, &text, &dir.to_string_lossy(), &include, &names).map_err(Error::Files)?;
    let mut files = vec![source_file(&name, &dir, text)];
    files.extend(used.into_inner());
    Ok(Crew { team, files, warnings })
}

/// Where employees may be defined by a file each, relative to a team file.
const DEFINITIONS: [&str; 2] = ["employees", ".ensemble/employees"];

/// The definitions that lie beside a team file in `dir`: `.ensemble/employees/*.md`, by name.
fn definitions(dir: &Path) -> Vec<String> {
    let inside = dir.file_name().is_some_and(|name| name == ".ensemble");
    let folder = if inside { DEFINITIONS[0] } else { DEFINITIONS[1] };
    let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")).collect();
    names.sort();
    names
}

/// The team out of the copies that were journalled when the run was handed in.
///
/// # Errors
/// [`Error::Files`] when this version refuses what an earlier one accepted.
pub fn team_again(files: &[(SourceFile, String)]) -> Result<Team, Error> {
    let Some(((file, text), used)) = files.split_first() else {
        return Err(Error::usage("the run has no team file", "start a new one with `ensemble run`"));
    };
    let include = |name: &str| {
        let found = used.iter().find(|(file, _)| file.name == name);
        found.map(|(_, text)| text.clone()).ok_or_else(|| "it was not kept with the run".to_owned())
    };
    let names: Vec<&str> = used.iter().map(|(file, _)| file.name.as_str()).collect();
    team::read(&file.name, text, &file.dir, &include, &names).map(|(team, _)| team).map_err(Error::Files)
}

/// A plan that was accepted.
#[derive(Clone, Debug)]
pub struct Work {
    /// The plan.
    pub plan: Plan,
    /// Its file.
    pub file: SourceFile,
    /// What a person should look at.
    pub warnings: Vec<Finding>,
}

/// Reads and checks a plan, against a team if there is one.
///
/// # Errors
/// [`Error::Files`] with all findings, and those of [`text`].
pub fn read_plan(path: &Path, team: Option<&Team>) -> Result<Work, Error> {
    plan_of(path, text(path)?, team)
}

/// The same of a plan whose text was read already.
///
/// # Errors
/// [`Error::Files`] with all findings.
pub fn plan_of(path: &Path, text: String, team: Option<&Team>) -> Result<Work, Error> {
    let name = path.display().to_string();
    let (plan, warnings) = plan::read(&name, &text, team).map_err(Error::Files)?;
    Ok(Work { plan, file: source_file(&name, Path::new(""), text), warnings })
}

/// What a file is, by the keys at its top.
///
/// # Errors
/// The findings that say why nobody can tell.
pub fn kind_of(name: &str, text: &str) -> Result<Kind, Vec<Finding>> {
    let mut findings = Findings::new(name);
    let Some(tree) = source::parse(text, &mut findings) else {
        return Err(findings.finish::<()>(None).err().unwrap_or_default());
    };
    let has = |key: &str| match &tree.value {
        Value::Map(entries) => entries.iter().any(|entry| entry.key == key),
        _ => false,
    };
    if has("sub_tasks") || has("project_scope") {
        return Ok(Kind::Plan);
    }
    if ["employees", "subagents", "coordinator", "collaboration", "name"].into_iter().any(has) {
        return Ok(Kind::Team);
    }
    let message =
        "is neither a team file (`name`, `employees`) nor a plan (`sub_tasks`); say which with --kind";
    Err(vec![Finding::error(name, Place::START, "unknown_kind", message)])
}

/// Why a file was refused: one that is plainly of the other kind needs no findings, only a word.
#[must_use]
pub fn refused(wanted: Kind, path: &Path, text: &str, error: Error) -> Error {
    if !matches!(error, Error::Files(_)) {
        return error;
    }
    let name = path.display().to_string();
    match (wanted, kind_of(&name, text)) {
        (Kind::Plan, Ok(Kind::Team)) => {
            Error::usage(format!("{name} is a team file, not a plan"), "name it with --team FILE")
        }
        (Kind::Team, Ok(Kind::Plan)) => {
            Error::usage(format!("{name} is a plan, not a team file"), "name it with --plan FILE")
        }
        _ => error,
    }
}

fn source_file(name: &str, dir: &Path, text: String) -> SourceFile {
    SourceFile { name: name.to_owned(), dir: dir.to_string_lossy().into_owned(), text: Text::Inline(text) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEAM: &str = "name: shop\nemployees:\n  - id: back\n    description: Builds\n    backend: { kind: exec, command: [sh, \"${TEAM_DIR}/back.sh\"] }\n  - use: front.md\n";
    const FRONT: &str = "---\nname: front\ndescription: Draws\n---\nYou draw.\n";

    #[test]
    fn the_usual_names_are_looked_for_in_order() {
        let root = tempfile::tempdir().unwrap();
        assert!(find_team(None, root.path()).unwrap_err().to_string().contains("--team"));
        fs::write(root.path().join("role.yaml"), "").unwrap();
        assert!(find_team(None, root.path()).unwrap().ends_with("role.yaml"));
        fs::create_dir(root.path().join(".ensemble")).unwrap();
        fs::write(root.path().join(".ensemble/team.yaml"), "").unwrap();
        assert!(find_team(None, root.path()).unwrap().ends_with(".ensemble/team.yaml"));
    }

    #[test]
    fn a_team_read_again_from_its_copies_is_the_same() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("team.yaml"), TEAM).unwrap();
        fs::write(root.path().join("front.md"), FRONT).unwrap();
        let crew = read_team(&root.path().join("team.yaml"), None).unwrap();
        assert_eq!(crew.files.len(), 2);
        fs::remove_file(root.path().join("front.md")).unwrap();
        let copies: Vec<_> =
            crew.files.iter().map(|file| (file.clone(), file.text.head().to_owned())).collect();
        assert_eq!(team_again(&copies).unwrap(), crew.team);
    }

    #[test]
    fn definitions_beside_the_team_file_are_employees_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".ensemble/employees");
        fs::create_dir_all(&folder).unwrap();
        for (file, name) in [("test.md", "test"), ("docs.md", "docs")] {
            fs::write(folder.join(file), FRONT.replace("front", name)).unwrap();
        }
        fs::write(folder.join("notes.txt"), "no definition").unwrap();
        let uses = TEAM.replace("front.md", "employees/test.md");
        fs::write(root.path().join(".ensemble/team.yaml"), uses).unwrap();
        let crew = read_team(&root.path().join(".ensemble/team.yaml"), None).unwrap();
        let ids: Vec<_> = crew.team.employees.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["back", "test", "docs"], "what `use:` names keeps its place and comes once");
        let copies: Vec<_> =
            crew.files.iter().map(|file| (file.clone(), file.text.head().to_owned())).collect();
        assert_eq!(team_again(&copies).unwrap(), crew.team);
    }

    #[test]
    fn a_team_file_in_the_place_of_a_plan_is_called_by_its_name() {
        let plan = "sub_tasks:\n  - {id: a, description: A}\n";
        let told = |wanted, name: &str, text: &str| {
            refused(wanted, Path::new(name), text, Error::Files(Vec::new())).to_string()
        };
        let both = told(Kind::Plan, "team.yaml", TEAM) + &told(Kind::Team, "plan.yaml", plan);
        for part in ["team.yaml is a team file", "--team", "plan.yaml is a plan", "--plan"] {
            assert!(both.contains(part), "{both}");
        }
        assert!(told(Kind::Plan, "p", plan).contains("put right what is named above"));
    }

    #[test]
    fn a_file_that_can_not_be_text_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("plan.yaml");
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(read_plan(&path, None), Err(Error::Files(_))));
        assert_eq!(read_plan(root.path(), None).unwrap_err().exit() as u8, 2);
    }
}
