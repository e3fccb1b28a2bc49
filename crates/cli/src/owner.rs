//! Going on with a run that exists: who owns it, what team it was handed in with, and the session that
//! takes it over in the foreground.

use std::path::{Path, PathBuf};

use ensemble_core::{
    ids::{RunId, Seq, TaskId},
    run::{
        State,
        state::{TaskState, Why},
    },
    source,
    team::Team,
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::Journal;
use ensemble_workspace::UserRepository;

use crate::{
    args::{Format, Place},
    config::Config,
    embedded::Embedded,
    equipment,
    error::Error,
    files,
    follow::Follower,
    output::{self, Narrator, Screen},
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
        let lacks = equipment::programs(team.employees.iter(), equipment::ours).into_iter();
        lacks
            .chain(equipment::variables(team.employees.iter(), equipment::ours))
            .for_each(|lack| output::say(&format!("warning: {lack}")));
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
        Ok(Session {
            embedded,
            follower,
            repository: self.repository,
            into,
            data: self.data,
            format,
            notify,
            made: None,
        })
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
    let names = state.tasks.iter().map(|task| task.spec.id.as_str());
    let nearest = source::nearest(task.as_str(), names, &mut state.tasks.len());
    let hint = nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    Err(Error::usage(
        format!("run {} has no task `{task}`", state.run),
        format!("{hint}`ensemble show {}` lists them", state.run),
    ))
}

/// Says which task to try again instead, if `task` only waits for one that did not succeed.
///
/// # Errors
/// [`Error::Usage`] with that task.
pub fn must_stand_alone(state: &State, task: &TaskId) -> Result<(), Error> {
    let Some((root, why)) = in_the_way(state, task) else { return Ok(()) };
    Err(Error::usage(
        format!("{task} depends on {root}, which {why}"),
        format!("try that one again: `ensemble retry {} {root}`", state.run),
    ))
}

/// The first task on the way back from `task` that came to its end by itself.
fn in_the_way<'s>(state: &'s State, task: &TaskId) -> Option<(&'s TaskId, &'static str)> {
    let mut found = None;
    let mut at = state.find(task)?.1;
    // A plan has no cycles; the bound only keeps a broken journal from hanging us.
    for _ in 0..state.tasks.len() {
        let named = match &at.why {
            Some(Why::Dependency(id)) => Some(id),
            _ => None,
        };
        let mut needs = named.into_iter().chain(&at.spec.dependencies).filter_map(|id| state.find(id));
        let open = needs.find_map(|(_, one)| Some((one, standing(one.state)?)));
        let Some((next, why)) = open else { break };
        found = Some((&next.spec.id, why));
        at = next;
    }
    found
}

/// How a task that does not go on by itself is spoken of.
fn standing(state: TaskState) -> Option<&'static str> {
    match state {
        TaskState::Failed => Some("failed"),
        TaskState::Blocked => Some("is blocked"),
        TaskState::Stopped => Some("was stopped"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::{outcome::Ending, run::Fact};

    use super::*;
    use crate::testing::{at, begun, dispatched, entry, reported, run, spec, task};

    /// `schema` has failed; `api` needs it and `page` needs `api`.
    fn state() -> State {
        let tasks = [spec("schema", "", &[], &[]), spec("api", "", &["schema"], &[])];
        let mut facts = begun([tasks.to_vec(), vec![spec("page", "", &["api"], &[])]].concat());
        let later: Vec<Fact> = vec![
            dispatched("schema", 1, "back"),
            reported(at("schema", 1, 4), Ending::Failed, "no space", None),
            dispatched("schema", 2, "back"),
            reported(at("schema", 2, 6), Ending::Failed, "no space", None),
        ];
        facts.extend((4..).zip(later).map(|(seq, fact)| entry(seq, fact)));
        let mut state = State::new(run());
        for entry in &facts {
            state.apply(entry);
        }
        state
    }

    #[test]
    fn only_a_name_that_is_like_one_of_the_tasks_is_suggested() {
        let missing = |id: &str| must_have(&state(), &task(id)).unwrap_err().to_string();
        assert!(missing("shema").contains("did you mean `schema`?"), "{}", missing("shema"));
        assert!(!missing("nix").contains("did you mean"), "{}", missing("nix"));
        assert!(must_have(&state(), &task("api")).is_ok());
    }

    #[test]
    fn who_tries_a_blocked_task_again_is_told_which_one_is_in_its_way() {
        let told = must_stand_alone(&state(), &task("page")).unwrap_err().to_string();
        assert!(told.starts_with("page depends on schema, which failed; "), "{told}");
        assert!(told.contains(&format!("`ensemble retry {} schema`", run())), "{told}");
        assert!(must_stand_alone(&state(), &task("schema")).is_ok());
    }
}
