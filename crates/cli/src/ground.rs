//! The repository that a new run starts in: found, or made where a person asked for it. One that is
//! made has a first commit, since a run needs something to start from.

use std::{
    fs,
    io::{self, BufRead, IsTerminal},
    path::Path,
};

use ensemble_workspace::{Error as Git, UserRepository};

use crate::{
    error::{DoingTo, Error},
    output,
};

/// The repository that `dir` lies in; made there with an empty first commit if there is none and `init`
/// says so, or a person at the terminal does.
///
/// # Errors
/// [`Error::Usage`] when there is none and none is wanted, and those of the repository.
pub fn find_or_make(dir: &Path, init: bool) -> Result<UserRepository, Error> {
    match UserRepository::discover(dir) {
        Err(Git::NotARepository { .. }) if init || asked(dir) => {
            fs::create_dir_all(dir).doing_to("make the folder", dir)?;
            make(dir, "Begin\n", false).map_err(|error| {
                Error::broken(format!("can't make a repository in {}: {error}", dir.display()))
            })?;
            output::say(&format!("made a repository with an empty first commit in {}", dir.display()));
            Ok(UserRepository::discover(dir)?)
        }
        Err(Git::NotARepository { .. }) => Err(Error::usage(
            format!("{} is not a git repository", dir.display()),
            "add --init to make one with an empty first commit, or name one with --repo DIR",
        )),
        found => Ok(found?),
    }
}

/// Asks the person at the terminal, if there is one.
fn asked(dir: &Path) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    let shown = dir.display();
    output::say(&format!("{shown} is not a git repository; make one with an empty first commit? [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && is_yes(&answer)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Makes a git repository with one commit, signed by the user where git knows one; of all files if
/// `filled`.
///
/// # Errors
/// Those of git; the folder must not be a repository yet.
pub fn make(dir: &Path, message: &str, filled: bool) -> Result<(), git2::Error> {
    let mut options = git2::RepositoryInitOptions::new();
    options.initial_head("main").no_reinit(true).external_template(false);
    let repository = git2::Repository::init_opts(dir, &options)?;
    let mut index = repository.index()?;
    if filled {
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None)?;
        index.write()?;
    }
    let tree = repository.find_tree(index.write_tree()?)?;
    let user = repository
        .signature()
        .or_else(|_| git2::Signature::now("ensemble", "ensemble@ensemble.localhost"))?;
    repository.commit(Some("HEAD"), &user, &user, message, &tree, &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_made_only_when_asked_for_and_has_a_commit() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("new");
        let refused = find_or_make(&dir, false).unwrap_err();
        assert!(refused.to_string().contains("--init"), "{refused}");
        assert!(!dir.exists());
        let made = find_or_make(&dir, true).unwrap();
        let head = made.head().unwrap();
        assert_eq!((head.branch.as_deref(), head.commit.is_some()), (Some("main"), true));
        let again = find_or_make(&dir, true).unwrap();
        assert_eq!(again.head().unwrap(), head, "one that is there is left as it is");
    }

    #[test]
    fn files_that_were_there_are_not_committed_unasked() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("notes.txt"), "mine").unwrap();
        let made = find_or_make(root.path(), true).unwrap();
        assert_eq!(made.uncommitted(&[]).unwrap(), 1);
    }

    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("Y\n") && is_yes(" yes "));
        assert!(!is_yes("\n") && !is_yes("no") && !is_yes("yep"));
    }
}
