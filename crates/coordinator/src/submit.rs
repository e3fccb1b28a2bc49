//! Taking a run in: its files are read and checked here, whoever checked them before, and become the
//! first facts of its stream. Handing the same run in again changes nothing.

use ensemble_core::{
    ids::{CommitId, RepositoryId, RunId, Seq},
    plan::{self, Plan, TaskSpec},
    run::{
        Fact,
        fact::{Member, SourceFile, Submitted},
        state::result_branch,
    },
    team::{Strategy, Team},
    text::Text,
};
use ensemble_journal::{Journal, Stream};
use ensemble_proto::v1;

use crate::{
    Error, clock,
    repository::RepositoryHandle,
    run::load::{claim, last, read_team, stored_form},
    run::spill,
};

/// Bytes of tasks in one fact; a large plan comes in several.
const PLAN_FACT: usize = 256 * 1024;

/// A run as it is handed in.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Its id, made by the client.
    pub run: RunId,
    /// What the user wants.
    pub goal: String,
    /// The repository.
    pub repository: RepositoryId,
    /// The commit to start from.
    pub base: CommitId,
    /// The user's branch to move at the end.
    pub into: Option<String>,
    /// The team file and the definition files that it uses.
    pub files: Vec<SourceFile>,
    /// The plan.
    pub plan: Option<SourceFile>,
}

impl Submission {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Unfit`] when an id in it is none.
    pub fn of(request: v1::SubmitRequest) -> Result<Self, Error> {
        let unfit = |error: ensemble_core::ids::Malformed| Error::Unfit(error.to_string());
        Ok(Self {
            run: request.run.parse().map_err(unfit)?,
            goal: request.goal,
            repository: request.repository.parse().map_err(unfit)?,
            base: request.base.parse().map_err(unfit)?,
            into: (!request.into.is_empty()).then_some(request.into),
            files: request.files.into_iter().map(ensemble_proto::source_file).collect(),
            plan: request.plan.map(ensemble_proto::source_file),
        })
    }
}

/// A submission whose files were read and found valid.
#[derive(Debug)]
pub struct Accepted {
    submission: Submission,
    team: Team,
    plan: Plan,
}

impl Accepted {
    /// The repository that the run works on.
    #[must_use]
    pub fn repository(&self) -> &RepositoryId {
        &self.submission.repository
    }
}

/// Reads and checks the files.
///
/// # Errors
/// [`Error::Invalid`] with every finding; [`Error::Unfit`] for what this version can't do.
pub fn check(submission: Submission) -> Result<Accepted, Error> {
    let (team, _) = read_team(&submission.files)?;
    match team.coordinator.strategy {
        None | Some(Strategy::Plan) => {}
        Some(other) => {
            let word = format!("{other:?}").to_lowercase();
            return Err(Error::Unfit(format!(
                "strategy {word} is not available in this version; use `plan`"
            )));
        }
    }
    let Some(file) = &submission.plan else {
        return Err(Error::Unfit(
            "a run without a plan is not available in this version; give --plan FILE".into(),
        ));
    };
    let (plan, _) = plan::read(&file.name, file.text.head(), Some(&team)).map_err(Error::Invalid)?;
    Ok(Accepted { submission, team, plan })
}

/// Stores the first facts. The caller owns the run.
///
/// # Errors
/// [`Error::Unfit`] when the base commit was not sent before; [`Error::Journal`].
pub async fn store(
    journal: &Journal,
    repository: &RepositoryHandle,
    accepted: Accepted,
) -> Result<(), Error> {
    let (run, base) = (accepted.submission.run, accepted.submission.base.clone());
    if repository.known(vec![base.clone()]).await?.is_empty() {
        return Err(Error::Unfit(format!("commit {base} was not sent to the coordinator before the run")));
    }
    if last(journal, run).await? > Seq(0) {
        return Ok(());
    }
    repository.begin(format!("refs/heads/{}", result_branch(run)), base).await?;
    let stream = Stream::Run(run);
    let epoch = claim(journal, &stream).await?;
    let facts = facts_of(journal, accepted).await?;
    let facts = facts.iter().map(|fact| stored_form(fact, clock::now_ms())).collect();
    journal.append(&stream, epoch, Seq(0), facts).await?;
    Ok(())
}

async fn facts_of(journal: &Journal, accepted: Accepted) -> Result<Vec<Fact>, Error> {
    let Accepted { submission, team, plan } = accepted;
    let mut submitted = Submitted {
        project: team.name.clone(),
        repository: submission.repository,
        goal: submission.goal.into(),
        strategy: Strategy::Plan,
        base: submission.base,
        into: submission.into,
        roster: Member::of(&team),
        checks: team.checks,
        gate: team.gate,
        budget: team.budget,
        files: submission.files,
        plan_file: submission.plan,
    };
    spill(journal, &mut submitted.goal).await?;
    for file in submitted.files.iter_mut().chain(&mut submitted.plan_file) {
        spill(journal, &mut file.text).await?;
    }
    let mut scope: Text = plan.project_scope.into();
    spill(journal, &mut scope).await?;
    let mut conventions = Vec::new();
    for text in plan.conventions {
        let mut text = Text::from(text);
        spill(journal, &mut text).await?;
        conventions.push(text);
    }
    let mut facts = vec![Fact::Submitted(Box::new(submitted))];
    let mut pages = pages(journal, plan.sub_tasks).await?;
    let rest = pages.pop().unwrap_or_default();
    for tasks in pages {
        let (scope, conventions) = (std::mem::take(&mut scope), std::mem::take(&mut conventions));
        facts.push(Fact::Planned { scope, conventions, tasks, complete: false });
    }
    facts.push(Fact::Planned { scope, conventions, tasks: rest, complete: true });
    Ok(facts)
}

async fn pages(journal: &Journal, tasks: Vec<TaskSpec>) -> Result<Vec<Vec<TaskSpec>>, Error> {
    let (mut pages, mut page, mut bytes) = (Vec::new(), Vec::new(), 0);
    for mut task in tasks {
        spill(journal, &mut task.description).await?;
        let size = serde_json::to_string(&task).map_or(0, |text| text.len());
        if bytes + size > PLAN_FACT && !page.is_empty() {
            pages.push(std::mem::take(&mut page));
            bytes = 0;
        }
        bytes += size;
        page.push(task);
    }
    pages.push(page);
    Ok(pages)
}
