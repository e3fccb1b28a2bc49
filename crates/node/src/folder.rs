//! The directory of one attempt: the assignment that demanded it, and everything that belongs to
//! it. The assignment is on disk before anything else of the attempt exists, so a directory without
//! one holds nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ensemble_core::{ids::RunId, link::AttemptKey, message::Assign};

use crate::{
    Error,
    error::DoingTo,
    fault,
    home::{sync_folder, write_durably},
};

/// An attempt's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// An assignment as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// When it came, in milliseconds since the epoch: the time of the commits made for it.
    pub(crate) began_ms: u64,
    /// The assignment.
    pub(crate) assign: Assign,
}

/// The part of a path that names an attempt: the token alone would do, the rest is for people.
pub(crate) fn name(key: &AttemptKey) -> String {
    let task = key.task.as_ref().map_or("run", |task| task.as_str());
    let check = key.check.map_or_else(String::new, |check| format!(".c{check}"));
    format!("{}-{task}-{}{check}", key.token, key.attempt)
}

impl Folder {
    pub(crate) fn of(home: &Path, key: &AttemptKey) -> Self {
        Self { path: home.join("attempts").join(key.run.to_string()).join(name(key)) }
    }

    /// The run that it belongs to, by its place.
    pub(crate) fn run(&self) -> Option<RunId> {
        self.path.parent()?.file_name()?.to_str()?.parse().ok()
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The working copy.
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// What the agent and the check write.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Held by the keeper until no process of the attempt is left.
    pub(crate) fn lock(&self) -> PathBuf {
        ensemble_agent::Exec::lock(&self.path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn assignment(&self) -> PathBuf {
        self.path.join("assignment")
    }

    /// Stores an assignment; from now on a restart knows of it.
    pub(crate) fn store(&self, stored: &Stored) -> Result<(), Error> {
        fault!("node.assign");
        fs::create_dir_all(&self.path).doing_to("make the folder", &self.path)?;
        let mut bytes = stored.began_ms.to_be_bytes().to_vec();
        bytes.extend(ensemble_proto::encode_assign(&stored.assign));
        write_durably(&self.assignment(), &bytes)?;
        if let Some(run) = self.path.parent() {
            sync_folder(run)?;
            run.parent().map_or(Ok(()), sync_folder)?;
        }
        fault!("node.assign.done");
        Ok(())
    }

    /// The assignment; nothing where none was stored, so that nothing was begun either.
    pub(crate) fn read(&self) -> Result<Option<Stored>, Error> {
        let path = self.assignment();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing_to("read", path),
        };
        let damaged = |what: String| Error::Damaged { path: path.clone(), what };
        let (time, assign) =
            bytes.split_first_chunk::<8>().ok_or_else(|| damaged("it is too short".to_owned()))?;
        let assign = ensemble_proto::decode_assign(assign).map_err(|why| damaged(why.to_string()))?;
        Ok(Some(Stored { began_ms: u64::from_be_bytes(*time), assign }))
    }

    /// Deletes everything but the working copy, which must be gone already. Not there is success;
    /// the assignment goes last.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        // A home or temporary folder of an agent may hold read-only folders, which this can undo.
        for name in ["home", "tmp", "inbox", "work"] {
            match ensemble_workspace::Worktree::open(self.path.join(name)) {
                Ok(folder) => folder.remove()?,
                Err(_) => continue,
            }
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing_to("delete", &self.path);
            }
            _ => {}
        }
        // The run's own folder goes with its last attempt.
        if let Some(run) = self.path.parent() {
            let _ = fs::remove_dir(run);
        }
        Ok(())
    }
}

/// The attempts below `home`.
pub(crate) fn list(home: &Path) -> Result<Vec<Folder>, Error> {
    let mut folders = Vec::new();
    for run in entries(&home.join("attempts"))? {
        folders.extend(entries(&run)?.into_iter().map(|path| Folder { path }));
    }
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(folders)
}

fn entries(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = fs::read_dir(path).doing_to("list", path)?;
    let entries: Result<Vec<_>, _> = listing.collect();
    let entries = entries.doing_to("list", path)?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use ensemble_core::{
        ids::{AttemptNumber, CommitId, EmployeeId, Epoch, RepositoryId, RunId, Seq, TaskId},
        message::{What, Work},
    };

    use super::*;

    pub(crate) fn key(token: u64) -> AttemptKey {
        AttemptKey {
            run: RunId::from_parts(1_000, 7),
            task: Some(TaskId::new("api").unwrap()),
            attempt: AttemptNumber(1),
            check: None,
            token: Seq(token),
        }
    }

    pub(crate) fn assign(token: u64) -> Assign {
        let base = CommitId::new("1".repeat(40)).unwrap();
        Assign {
            key: key(token),
            epoch: Epoch(1),
            timeout_ms: 1_000,
            repository: format!("{base}-shop").parse::<RepositoryId>().unwrap(),
            base,
            traceparent: String::new(),
            what: What::Work(Work {
                employee: EmployeeId::new("back").unwrap(),
                title: "API".to_owned(),
                brief: "Write it".to_owned(),
                context: "{}".to_owned(),
                worktree: None,
                outputs: vec!["api.py".to_owned()],
                previous: None,
            }),
        }
    }

    #[test]
    fn an_assignment_is_found_again_and_gone_after_removal() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::of(home.path(), &key(5));
        let stored = Stored { began_ms: 42, assign: assign(5) };
        folder.store(&stored).unwrap();
        assert_eq!(list(home.path()).unwrap(), std::slice::from_ref(&folder));
        assert_eq!(folder.read().unwrap(), Some(stored));
        folder.remove().unwrap();
        folder.remove().unwrap();
        assert!(list(home.path()).unwrap().is_empty());
    }

    #[test]
    fn a_directory_without_an_assignment_holds_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::of(home.path(), &key(5));
        fs::create_dir_all(folder.path()).unwrap();
        assert_eq!(folder.read().unwrap(), None);
    }
}
