//! `ensemble demo`: the shipped project in a new directory of its own, carried out like any other run.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};

use super::run;
use crate::{
    args::{Demo, Place, Run},
    error::{DoingTo, Error, Exit},
    ground,
    order::Order,
    output,
};

/// The project.
static PROJECT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../deploy/demo/project");

/// The directory's name when none is given.
const NAME: &str = "ensemble-demo";

/// How many demos may lie side by side.
const MOST: u32 = 1000;

/// Unpacks the demo and carries it out.
///
/// # Errors
/// When the directory can't be made, and those of a run.
pub async fn demo(args: &Demo) -> Result<Exit, Error> {
    let dir = match &args.dir {
        Some(dir) => given(dir)?,
        None => fresh(Path::new("."))?,
    };
    unpack(&PROJECT, &dir)?;
    ground::make(&dir, "The demo project\n", true)
        .map_err(|error| Error::broken(format!("can't make a repository in {}: {error}", dir.display())))?;
    let shown = dir.display();
    output::say(&format!("demo: a new project in {shown}"));
    output::say("its employees are scripts that stand in for agents; all else is the real thing");
    let mut order = Order::read(&Run {
        goal: None,
        plan: Some(dir.join("plan.yaml")),
        team: None,
        strategy: None,
        base: "HEAD".to_owned(),
        init: false,
        detach: false,
        detached_as: None,
        into: None,
        place: Place { repo: dir.clone(), data: args.data.clone() },
        output: args.output,
    })?;
    order.made = Some(std::path::absolute(&dir).doing_to("find", &dir)?);
    let exit = run::carry_out(order, args.output.format, run::new_run()).await?;
    output::say(&format!("the project is in {shown}; look at it with: cd {shown}"));
    Ok(exit)
}

/// The directory that the user named: new, or empty.
fn given(dir: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir).doing_to("make the folder", dir)?;
    if fs::read_dir(dir).doing_to("list", dir)?.next().is_some() {
        let what = format!("{} is not empty", dir.display());
        return Err(Error::usage(what, "name a directory that does not exist yet"));
    }
    Ok(dir.to_owned())
}

/// The first of `ensemble-demo`, `ensemble-demo-2`, … that is free.
fn fresh(parent: &Path) -> Result<PathBuf, Error> {
    for number in 1..=MOST {
        let name = if number == 1 { NAME.to_owned() } else { format!("{NAME}-{number}") };
        let dir = parent.join(&name);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(if parent == Path::new(".") { PathBuf::from(name) } else { dir }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).doing_to("make the folder", dir),
        }
    }
    Err(Error::usage(format!("{MOST} demos are here already"), "remove some, or name a directory"))
}

fn unpack(project: &Dir<'_>, dir: &Path) -> Result<(), Error> {
    for file in project.files() {
        let path = dir.join(file.path());
        fs::write(&path, file.contents()).doing_to("write", &path)?;
    }
    for folder in project.dirs() {
        let path = dir.join(folder.path());
        fs::create_dir_all(&path).doing_to("make the folder", &path)?;
        unpack(folder, dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demos_lie_side_by_side_and_never_over_something() {
        let root = tempfile::tempdir().unwrap();
        assert!(fresh(root.path()).unwrap().ends_with("ensemble-demo"));
        assert!(fresh(root.path()).unwrap().ends_with("ensemble-demo-2"));
        let mine = root.path().join("mine");
        assert!(given(&mine).is_ok());
        fs::write(mine.join("file"), "").unwrap();
        assert_eq!(given(&mine).unwrap_err().exit() as u8, 2);
    }

    #[test]
    fn the_embedded_project_is_whole_and_valid() {
        let root = tempfile::tempdir().unwrap();
        unpack(&PROJECT, root.path()).unwrap();
        let team = crate::files::find_team(None, root.path()).unwrap();
        let crew = crate::files::read_team(&team, None).unwrap();
        let work = crate::files::read_plan(&root.path().join("plan.yaml"), Some(&crew.team)).unwrap();
        assert!(work.plan.sub_tasks.len() >= 7);
        assert!(root.path().join(".gitignore").is_file(), "dotfiles are embedded");
        ground::make(root.path(), "The demo project\n", true).unwrap();
        let repository = ensemble_workspace::UserRepository::discover(root.path()).unwrap();
        assert_eq!(repository.uncommitted(&[]).unwrap(), 0);
        assert_eq!(repository.head().unwrap().branch.as_deref(), Some("main"));
    }
}
