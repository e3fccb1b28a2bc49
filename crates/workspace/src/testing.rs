//! A bench for the tests: temporary folders with real repositories, and the `git` command to look
//! at them with other eyes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ensemble_core::ids::CommitId;

use crate::{CaptureNote, MergeNote, Repository};

pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) repository: Repository,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(folder.path().join("bare")).unwrap();
        Self { folder, repository }
    }

    pub(crate) fn git(&self) -> git2::Repository {
        self.repository.git().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A commit with exactly these files; a mode may follow the path after a `:`.
    pub(crate) fn commit(&self, parents: &[&CommitId], files: &[(&str, &[u8])]) -> CommitId {
        let repo = self.git();
        let edits = files
            .iter()
            .map(|(path, bytes)| {
                let (path, mode) = path.split_once(':').unwrap_or((path, "100644"));
                let mode = i32::from_str_radix(mode, 8).unwrap();
                let id = if mode == crate::tree::MODULE {
                    git2::Oid::from_str(std::str::from_utf8(bytes).unwrap()).unwrap()
                } else {
                    repo.blob(bytes).unwrap()
                };
                (path.as_bytes().to_vec(), Some(crate::tree::Entry { mode, id }))
            })
            .collect();
        let tree = repo.find_tree(crate::tree::edit(&repo, None, &edits).unwrap()).unwrap();
        let who = git2::Signature::new("test", "test@localhost", &git2::Time::new(1, 0)).unwrap();
        let parents: Vec<_> = parents.iter().map(|p| crate::tree::commit(&repo, p).unwrap()).collect();
        let id = repo.commit(None, &who, &who, "test\n", &tree, &parents.iter().collect::<Vec<_>>());
        crate::tree::commit_id(id.unwrap()).unwrap()
    }

    /// All files of a commit, with modes after a `:` where they are not plain.
    pub(crate) fn files(&self, commit: &CommitId) -> Vec<(String, String)> {
        let repo = self.git();
        let tree = crate::tree::commit(&repo, commit).unwrap().tree_id();
        let show = |path: Vec<u8>, entry: crate::tree::Entry| {
            let path = String::from_utf8(path).unwrap();
            let path = if entry.mode == 0o100_644 { path } else { format!("{path}:{:o}", entry.mode) };
            let bytes = crate::diff::content(&repo, Some(entry)).unwrap();
            (path, String::from_utf8_lossy(&bytes).into_owned())
        };
        crate::tree::files(&repo, tree).unwrap().into_iter().map(|(p, e)| show(p, e)).collect()
    }
}

/// Runs `git` away from any configuration of the machine, and returns what it printed.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=user", "-c", "user.email=user@localhost", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn write(folder: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, bytes).unwrap();
}

pub(crate) fn merge_note() -> MergeNote {
    MergeNote {
        subject: "Merge api".into(),
        body: String::new(),
        trailers: vec![("Ensemble-Task".into(), "api".into())],
        author_name: "ensemble".into(),
        author_email: "ensemble@localhost".into(),
        time_ms: 1_796_000_000_000,
    }
}

pub(crate) fn capture_note(outputs: &[&str]) -> CaptureNote {
    CaptureNote {
        author: "back".into(),
        message: "Write the API".into(),
        trailers: vec![("Ensemble-Task".into(), "api".into())],
        time_ms: 1_796_000_000_000,
        outputs: outputs.iter().map(|&o| o.to_owned()).collect(),
    }
}
