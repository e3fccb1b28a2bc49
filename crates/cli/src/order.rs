//! What a new run is made of: repository, base, team and plan, read and checked before anything
//! starts, and the request that hands it in.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use ensemble_core::{
    ids::{CommitId, RepositoryId, RunId},
    plan::Plan,
    run::fact::SourceFile,
    source::Finding,
    team::{Backend, Strategy, Team},
};
use ensemble_proto::{v1::SubmitRequest, wire_source_file};
use ensemble_workspace::{Error as Git, Repository, Standing, UserRepository};

use crate::{
    args::{Kind, Place, Run},
    client::Client,
    equipment,
    error::{DoingTo, Error, patiently},
    files::{self, Crew},
    output,
    paths::{self, Environment},
};

/// Commits that the coordinator is asked for, to find what it lacks.
const RECENT: usize = 64;

/// Longest way in: the coordinator refuses what it has no room for.
const UNLIMITED: u64 = u64::MAX;

/// Name of the ref that holds a run's base; no task can be called so.
const BASE: &str = "_base";

/// A run to be.
#[derive(Debug)]
pub struct Order {
    /// Where the work comes from and the result goes.
    pub repository: UserRepository,
    /// Where the run is kept.
    pub data: PathBuf,
    /// Who works on it.
    pub team: Team,
    /// A folder that was made for it, which programs are told.
    pub made: Option<PathBuf>,
    goal: String,
    base: Base,
    into: Option<String>,
    files: Vec<SourceFile>,
    plan: SourceFile,
}

/// The commit that a run starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Base {
    Commit(CommitId),
    /// The repository has no commit yet.
    Nothing,
}

impl Order {
    /// Reads and checks all that the command line names. Warnings are said.
    ///
    /// # Errors
    /// [`Error::Files`], [`Error::Later`], and those of the repository.
    pub fn read(args: &Run) -> Result<Self, Error> {
        let strategy = args.strategy.as_deref();
        let Some(plan) = &args.plan else {
            let what = match strategy {
                Some(name) if name != "plan" => format!("the strategy {name}"),
                _ => "a run without a plan".to_owned(),
            };
            return Err(later(what));
        };
        if let Some(name) = strategy.filter(|name| *name != "plan") {
            return Err(match name {
                "loop" | "graph" | "delegate" => later(format!("the strategy {name}")),
                _ => Error::usage(format!("there is no strategy `{name}`"), "use plan, or leave it out"),
            });
        }
        let Place { repo, data } = &args.place;
        let repository = UserRepository::discover(repo)?;
        let folder = paths::folder_of(&repository)?;
        let data = paths::data_dir(data.as_deref(), &Environment::ours(), &folder)?;
        let team = files::find_team(args.team.as_deref(), &folder)?;
        let text = files::text(&team)?;
        let crew = files::team_of(&team, text.clone(), Some(&folder));
        let crew = crew.map_err(|error| files::refused(Kind::Team, &team, &text, error))?;
        let text = files::text(plan)?;
        let work = files::plan_of(plan, text.clone(), Some(&crew.team));
        let work = work.map_err(|error| files::refused(Kind::Plan, plan, &text, error))?;
        crew.warnings.iter().chain(&work.warnings).for_each(|one: &Finding| output::say(&one.to_string()));
        can_run(&crew.team, &work.plan)?;
        let base = base(&repository, &args.base)?;
        if let Some(into) = &args.into {
            warn_into(&repository, into, &base)?;
        }
        warn_uncommitted(&repository, &read_anyway(&team, plan, &crew, &folder))?;
        warn_lacks(&crew.team, &work.plan);
        let goal = goal(args.goal.as_deref(), &work.plan, &crew.team);
        Ok(Self {
            goal,
            base,
            into: args.into.clone(),
            files: crew.files,
            plan: work.file,
            team: crew.team,
            repository,
            data,
            made: None,
        })
    }

    /// Brings the base to the coordinator and hands the run in. The run's id makes it safe to repeat.
    ///
    /// # Errors
    /// [`Error::Call`], and those of the repository.
    pub async fn hand_in(&self, client: &Client, run: RunId) -> Result<(), Error> {
        patiently(async || self.try_hand_in(client, run).await).await
    }

    async fn try_hand_in(&self, client: &Client, run: RunId) -> Result<(), Error> {
        let (base, repository) = self.way_in(client, run).await?;
        let request = SubmitRequest {
            run: run.to_string(),
            goal: self.goal.clone(),
            repository: repository.to_string(),
            base: base.to_string(),
            into: self.into.clone().unwrap_or_default(),
            files: self.files.iter().map(wire_source_file).collect(),
            plan: Some(wire_source_file(&self.plan)),
        };
        client.submit(request).await
    }

    async fn way_in(&self, client: &Client, run: RunId) -> Result<(CommitId, RepositoryId), Error> {
        let project = &self.team.name;
        let name = format!("refs/ensemble/{run}/{BASE}");
        match &self.base {
            Base::Commit(base) => {
                let id = RepositoryId::of(&self.repository.root(base)?, project);
                let recent = self.repository.recent(base, RECENT)?;
                let (source, want) = (self.repository.clone(), vec![base.clone()]);
                let refs = vec![(name, base.clone())];
                let pack = move |have: &[CommitId], out: &mut dyn std::io::Write| {
                    source.write_pack(&want, have, out, UNLIMITED).map(drop)
                };
                client.push(&id, refs, &recent, pack).await?;
                Ok((base.clone(), id))
            }
            Base::Nothing => {
                // Nothing is written into the user's repository: the root is made in a folder of ours.
                let folder = tempfile::tempdir_in(&self.data).doing_to("make a folder in", &self.data)?;
                let source = Repository::open_or_create(folder.path().join("root.git"))?;
                let base = source.empty_root()?;
                let id = RepositoryId::of(&base, project);
                let (want, refs) = (vec![base.clone()], vec![(name, base.clone())]);
                let pack = move |have: &[CommitId], out: &mut dyn std::io::Write| {
                    source.write_pack(&want, have, out, UNLIMITED).map(drop)
                };
                client.push(&id, refs, std::slice::from_ref(&base), pack).await?;
                Ok((base, id))
            }
        }
    }

    /// The user's branch to move at the end.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.into.as_deref()
    }
}

fn later(what: impl Into<String>) -> Error {
    Error::Later {
        what: what.into(),
        instead: "write the tasks down and use `ensemble run --plan FILE`".to_owned(),
    }
}

/// Whether this version can carry the plan out with this team.
fn can_run(team: &Team, plan: &Plan) -> Result<(), Error> {
    match team.coordinator.strategy {
        None | Some(Strategy::Plan) => {}
        Some(Strategy::Loop) => return Err(later("the strategy loop")),
        Some(Strategy::Graph) => return Err(later("the strategy graph")),
        Some(Strategy::Delegate) => return Err(later("the strategy delegate")),
    }
    for task in &plan.sub_tasks {
        for one in team.eligible(task.employee.as_ref(), task.agent_type.as_deref()) {
            let kind = match &one.backend {
                Some(Backend::Exec(_)) => continue,
                Some(Backend::Later(name) | Backend::Named(name)) => name,
                None => {
                    let what = format!("employee {} has no back end", one.id);
                    return Err(Error::usage(what, "give it `backend: { kind: exec, command: [...] }`"));
                }
            };
            return Err(Error::Later {
                what: format!("the back end {kind} of employee {}", one.id),
                instead: "use `backend: { kind: exec, command: [...] }`".to_owned(),
            });
        }
    }
    Ok(())
}

fn base(repository: &UserRepository, rev: &str) -> Result<Base, Error> {
    let head = repository.head()?;
    match (rev, head.commit) {
        ("HEAD", None) => Ok(Base::Nothing),
        ("HEAD", Some(commit)) => Ok(Base::Commit(commit)),
        (rev, _) => Ok(Base::Commit(repository.resolve(rev)?)),
    }
}

/// Refuses a branch that can't be moved at the end, and says if one will not be as things stand.
fn warn_into(repository: &UserRepository, into: &str, base: &Base) -> Result<(), Error> {
    let merge = "it is not moved then, and the command to merge is printed";
    let standing = repository.standing(into).map_err(|error| match error {
        Git::BadName { .. } => Error::usage(error.to_string(), "name another branch with --into"),
        error => error.into(),
    })?;
    match standing {
        Standing::CheckedOut => output::say(&format!("warning: {into} is checked out; {merge}")),
        Standing::At(now) if *base != Base::Commit(now.clone()) => {
            output::say(&format!("warning: {into} does not stand at the run's base; {merge}"));
        }
        Standing::At(_) | Standing::Absent => {}
    }
    Ok(())
}

/// The files and folders that a run reads as they are, committed or not.
fn read_anyway(team: &Path, plan: &Path, crew: &Crew, folder: &Path) -> Vec<PathBuf> {
    let beside = |file: &SourceFile| [Path::new(&file.dir).join(&file.name), folder.join(&file.name)];
    let mut known: Vec<PathBuf> = crew.files.iter().flat_map(beside).collect();
    known.extend([team.to_owned(), plan.to_owned()]);
    // What a team has in a folder of its own, its employees' scripts among it, is run from there.
    let own = team.parent().filter(|dir| dir.file_name().is_some_and(|name| name == ".ensemble"));
    known.extend(own.map(Path::to_owned));
    known
}

/// Says what those who may get a task lack on this machine.
fn warn_lacks(team: &Team, plan: &Plan) {
    let mut needed = BTreeSet::new();
    for task in &plan.sub_tasks {
        let eligible = team.eligible(task.employee.as_ref(), task.agent_type.as_deref());
        needed.extend(eligible.map(|one| &one.id));
    }
    equipment::warn(team.employees.iter().filter(|one| needed.contains(&one.id)));
}

fn warn_uncommitted(repository: &UserRepository, read_anyway: &[PathBuf]) -> Result<(), Error> {
    match repository.uncommitted(read_anyway)? {
        0 => {}
        1 => output::say("warning: 1 file has changes that are not committed; the run does not see them"),
        many => output::say(&format!(
            "warning: {many} files have changes that are not committed; the run does not see them"
        )),
    }
    Ok(())
}

/// What the run is for, in a sentence.
fn goal(given: Option<&str>, plan: &Plan, team: &Team) -> String {
    let of = |text: &str| text.trim().to_owned();
    let candidates = [given.map(of), Some(of(&plan.project_scope)), Some(of(&team.description))];
    candidates.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_else(|| team.name.to_string())
}
