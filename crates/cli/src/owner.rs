//! Going on with a run that exists: who owns it, what team it was handed in with, and the session that
//! takes it over in the foreground.

use std::path::{Path, PathBuf};

use ensemble_core::{
    ids::{RunId, Seq, TaskId},
    run::State,
    team::Team,
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::Journal;
use ensemble_workspace::UserRepository;

use crate::{
    args::{Format, Place},
    config::Config,
    embedded::Embedded,
    error::Error,
    files,
    follow::Follower,
    output::{Narrator, Screen},
    paths, runs,
    session::Session,
};

/// A run that exists, with what is needed to go on with it.
#[derive(Debug)]
pub struct Existing {
    /// The data directory.
    pub data: PathBuf,
    /// The journal.
    pub journal: Journal,
    /// The run as far as it is journalled.
    pub state: State,
    /// Where its result goes, if that can be told.
    pub repository: Option<UserRepository>,
}

impl Existing {
    /// A run of `place`.
    ///
    /// # Errors
    /// When its facts can't be read.
    pub async fn load(place: &Place, data: PathBuf, journal: Journal, run: RunId) -> Result<Self, Error> {
        let state = runs::load(&journal, run).await?;
        Ok(Self { data, journal, state, repository: UserRepository::discover(&place.repo).ok() })
    }

    /// The run that `word` means in `place`.
    ///
    /// # Errors
    /// When it means none or several.
    pub async fn find(place: &Place, word: &str) -> Result<Self, Error> {
        let data = paths::data_of(place)?;
        let journal = runs::existing_journal(&data)?;
        let run = runs::find(&journal, &data, word).await?;
        Self::load(place, data, journal, run).await
    }

    /// The living process that works on it, if there is one.
    ///
    /// # Errors
    /// When that can't be told.
    pub fn owner(&self) -> Result<Option<Owner>, Error> {
        Ok(Local::new(&self.data).owner(self.run())?)
    }

    /// Its id.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.state.run
    }

    /// The team that it was handed in with.
    async fn team(&self) -> Result<Team, Error> {
        let mut copies = Vec::new();
        for file in self.state.submitted.iter().flat_map(|submitted| &submitted.files) {
            copies.push((file.clone(), runs::whole(&self.journal, &file.text).await?));
        }
        files::team_again(&copies)
    }

    /// How its employees run now: as in `file`, else as in the copy that was kept.
    async fn crew(&self, file: Option<&Path>) -> Result<Team, Error> {
        let Some(file) = file else { return self.team().await };
        let folder = self.repository.as_ref().and_then(|repository| repository.folder().ok().flatten());
        let team = files::read_team(file, folder.as_deref())?.team;
        let roster = self.state.submitted.iter().flat_map(|submitted| &submitted.roster);
        let missing: Vec<&str> = roster
            .filter(|member| !team.employees.iter().any(|one| one.id == member.employee))
            .map(|member| member.employee.as_str())
            .collect();
        if missing.is_empty() {
            return Ok(team);
        }
        Err(Error::usage(
            format!("{} has no employee {}", file.display(), missing.join(", ")),
            "the run was handed in with them: keep their ids, or start a new run",
        ))
    }

    /// Takes it over in this process, with everything that is needed to go on. `file` says how the employees
    /// run from now on; what they are told stays as it was handed in.
    ///
    /// # Errors
    /// When somebody owns it, or the data directory can't be used.
    pub async fn take_over(self, file: Option<&Path>, format: Format) -> Result<Session, Error> {
        let notify = Config::ours()?.notify;
        let team = self.crew(file).await?;
        let embedded = Embedded::start(&self.data, &self.journal, Some(&team)).await?;
        let into = self.state.submitted.as_ref().and_then(|submitted| submitted.into.clone());
        let settled = Seq(self.state.seq.0 + 1);
        embedded.own(self.run()).await?;
        let follower = Follower {
            narrator: Narrator::new(self.state),
            screen: Screen::fitting(),
            journal: self.journal,
            settled,
        };
        Ok(Session { embedded, follower, repository: self.repository, into, data: self.data, format, notify })
    }
}

/// A task id as the user typed it.
///
/// # Errors
/// [`Error::Usage`] when it is none.
pub fn task_id(word: &str) -> Result<TaskId, Error> {
    TaskId::new(word).map_err(|error| Error::usage(error.to_string(), "`ensemble show` lists the tasks"))
}

/// Says that a task is not in the run, if that is so.
///
/// # Errors
/// [`Error::Usage`] with the nearest name.
pub fn must_have(state: &State, task: &TaskId) -> Result<(), Error> {
    if state.find(task).is_some() {
        return Ok(());
    }
    let likeness = |name: &str| strsim::jaro_winkler(name, task.as_str());
    let names = state.tasks.iter().map(|task| task.spec.id.as_str());
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    Err(Error::usage(
        format!("run {} has no task `{task}`", state.run),
        format!("{hint}`ensemble show {}` lists them", state.run),
    ))
}
