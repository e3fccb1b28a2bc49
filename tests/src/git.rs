//! Git repositories of the tests: made with a fixed identity, looked into without a checkout. Reads
//! go through libgit2; where a test wants what users type, it runs the `git` command.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use git2::{
    ObjectType, Oid, Repository, RepositoryInitOptions, Signature, Time, TreeWalkMode, TreeWalkResult,
};

/// The files of a commit, by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A repository.
#[derive(Clone, Debug)]
pub struct Git {
    path: PathBuf,
}

/// A commit on the first-parent line of a run's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Its id.
    pub commit: String,
    /// How many parents it has.
    pub parents: usize,
    /// Its trailers.
    pub trailers: BTreeMap<String, String>,
}

impl Git {
    /// A new repository on branch `main` without a commit.
    #[must_use]
    pub fn init(path: &Path) -> Self {
        fs::create_dir_all(path).unwrap();
        let mut options = RepositoryInitOptions::new();
        options.initial_head("main").external_template(false);
        Repository::init_opts(path, &options).unwrap();
        Self::at(path)
    }

    /// The repository at a path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Repository {
        Repository::open(&self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }

    /// Writes a file into the checkout.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits all that is in the checkout; gives the commit's id.
    pub fn commit(&self, message: &str) -> String {
        let repository = self.open();
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let me = Signature::new("Tester", "tester@example.org", &Time::new(1_700_000_000, 0)).unwrap();
        let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        repository.commit(Some("HEAD"), &me, &me, message, &tree, &parents).unwrap().to_string()
    }

    /// The commit that a name stands for, if it stands for one.
    #[must_use]
    pub fn resolve(&self, rev: &str) -> Option<String> {
        let repository = self.open();
        let object = repository.revparse_single(rev).ok()?;
        Some(object.peel_to_commit().ok()?.id().to_string())
    }

    /// All refs below a prefix, with their targets.
    #[must_use]
    pub fn refs(&self, prefix: &str) -> BTreeMap<String, String> {
        let repository = self.open();
        let refs = repository.references_glob(&format!("{prefix}*")).unwrap();
        refs.filter_map(Result::ok)
            .filter_map(|one| Some((one.name().ok()?.to_owned(), one.target()?.to_string())))
            .collect()
    }

    /// The files of a commit.
    ///
    /// # Panics
    /// When there is no such commit.
    #[must_use]
    pub fn files(&self, rev: &str) -> Files {
        let repository = self.open();
        let object = repository.revparse_single(rev).unwrap_or_else(|error| panic!("{rev}: {error}"));
        let mut files = Files::new();
        let tree = object.peel_to_tree().unwrap();
        tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
            if entry.kind() == Some(ObjectType::Blob) {
                let name = format!("{folder}{}", String::from_utf8_lossy(entry.name_bytes()));
                files.insert(name, repository.find_blob(entry.id()).unwrap().content().to_vec());
            }
            TreeWalkResult::Ok
        })
        .unwrap();
        files
    }

    /// A file of a commit as text; none if it is not there.
    #[must_use]
    pub fn text(&self, rev: &str, path: &str) -> Option<String> {
        self.files(rev).remove(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first-parent line from `rev` back to, and without, `base`; the oldest first.
    #[must_use]
    pub fn line(&self, rev: &str, base: &str) -> Vec<Merge> {
        let repository = self.open();
        let base = Oid::from_str(base).unwrap();
        let mut commit = repository.revparse_single(rev).unwrap().peel_to_commit().unwrap();
        let mut line = Vec::new();
        while commit.id() != base {
            let message = String::from_utf8_lossy(commit.message_bytes()).into_owned();
            let trailers = git2::message_trailers_strs(&message).unwrap();
            let trailers = trailers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            line.push(Merge { commit: commit.id().to_string(), parents: commit.parent_count(), trailers });
            let parent = commit.parent(0);
            commit = parent.unwrap_or_else(|_| panic!("{base} is not on the first-parent line of {rev}"));
        }
        line.reverse();
        line
    }

    /// Takes away, or gives back, the permission to write below `.git`.
    pub fn seal(&self, sealed: bool) {
        seal(&self.path.join(".git"), sealed);
    }

    /// Runs the `git` command there.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.path).args(args);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Tester");
            command.env(format!("GIT_{who}_EMAIL"), "tester@example.org");
        }
        let output = command.output().expect("the git command");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}{err}");
        text
    }
}

fn seal(folder: &Path, sealed: bool) {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().filter_map(Result::ok).collect();
    for entry in entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        seal(&entry.path(), sealed);
    }
    let mode = if sealed { 0o555 } else { 0o755 };
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}
