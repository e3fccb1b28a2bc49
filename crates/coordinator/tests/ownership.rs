//! A coordinator without any node: runs are taken in once, owned by one process at a time, stopped,
//! and taken over with all that is stored. What needs an agent is tested across processes.

#![allow(clippy::unwrap_used, reason = "a test: what fails here shall fail it")]

use std::{path::Path, time::Duration};

use ensemble_coordinator::{Config, CoordinatorHandle, Error, Standing, Submission};
use ensemble_core::{
    ids::{CommitId, Epoch, ProjectId, RepositoryId, RunId, Seq},
    run::{Fact, Refusal, State, fact::SourceFile, state::RunState},
};
use ensemble_directory::Local;
use ensemble_journal::{Journal, Stream};
use ensemble_workspace::Repository;

const TEAM: &str =
    "name: shop\nemployees:\n  - {id: back, description: Builds, backend: {kind: exec, command: [sh]}}\n";
const PLAN: &str = "project_scope: A shop\nsub_tasks:\n  - {id: api, description: The API, agent_type: back}\n  - {id: page, description: The page, agent_type: back, dependencies: [api]}\n";
const PATIENCE: Duration = Duration::from_secs(10);

fn run(number: u128) -> RunId {
    RunId::from_parts(1, number)
}

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), dir: String::new(), text: text.into() }
}

/// The repository that runs work on, with a commit to start from.
fn repository(data: &Path) -> (RepositoryId, CommitId) {
    let made = Repository::open_or_create(data.join("made.git")).unwrap();
    let root = made.empty_root().unwrap();
    let id = RepositoryId::of(&root, &ProjectId::new("shop").unwrap());
    let ours = Repository::open_or_create(data.join("repositories").join(format!("{id}.git"))).unwrap();
    assert_eq!(ours.empty_root().unwrap(), root);
    (id, root)
}

fn submission(data: &Path, number: u128) -> Submission {
    let (repository, base) = repository(data);
    Submission {
        run: run(number),
        goal: "A shop".to_owned(),
        repository,
        base,
        into: None,
        files: vec![file("team.yaml", TEAM)],
        plan: Some(file("plan.yaml", PLAN)),
    }
}

async fn coordinator(data: &Path, name: &str) -> CoordinatorHandle {
    let config = Config {
        data: data.to_owned(),
        id: name.parse().unwrap(),
        socket: data.join("socket"),
        link_ttl: Duration::from_secs(10),
        embedded: true,
    };
    let journal = Journal::open(data).unwrap();
    ensemble_coordinator::start(config, journal, Local::new(data)).await.unwrap()
}

async fn facts(data: &Path, number: u128) -> Vec<ensemble_core::run::Entry> {
    let journal = Journal::open(data).unwrap();
    let rows = journal.read(&Stream::Run(run(number)), Seq(0), 1000).await.unwrap();
    rows.into_iter().map(|row| ensemble_coordinator::entry(run(number), row).unwrap()).collect()
}

#[tokio::test]
async fn a_run_that_is_handed_in_twice_is_one_run() {
    let data = tempfile::tempdir().unwrap();
    let one = coordinator(data.path(), "c-1").await;
    for _ in 0..2 {
        one.submit(submission(data.path(), 7)).await.unwrap();
    }
    assert!(matches!(one.standing(run(7)).await.unwrap(), Standing::Live(_)));
    one.shutdown(PATIENCE).await;
    let kinds: Vec<_> = facts(data.path(), 7).await.iter().map(|entry| entry.fact.kind()).collect();
    assert_eq!(kinds, ["submitted", "planned", "claimed"]);
}

#[tokio::test]
async fn what_can_not_be_carried_out_is_refused_before_anything_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let one = coordinator(data.path(), "c-1").await;
    let good = submission(data.path(), 1);
    let refused = |change: &dyn Fn(&mut Submission)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad
    };
    let broken = refused(&|bad| bad.plan = Some(file("p.yaml", "sub_tasks:\n  - {id: a, descripton: x}\n")));
    let Err(Error::Invalid(findings)) = one.submit(broken).await else { panic!("a broken plan was taken") };
    assert!(findings.iter().any(|finding| finding.to_string().contains("description")), "{findings:?}");
    for bad in [
        refused(&|bad| bad.plan = None),
        refused(&|bad| bad.base = CommitId::new("1".repeat(40)).unwrap()),
        refused(&|bad| bad.files[0].text = format!("{TEAM}coordinator: {{strategy: loop}}\n").into()),
    ] {
        assert!(matches!(one.submit(bad).await, Err(Error::Unfit(_))));
    }
    assert!(matches!(one.own(run(1)).await, Err(Error::UnknownRun(_))));
    one.shutdown(PATIENCE).await;
    assert_eq!(facts(data.path(), 1).await, []);
}

#[tokio::test]
async fn one_process_owns_a_run_and_the_next_goes_on_where_it_was() {
    let data = tempfile::tempdir().unwrap();
    let first = coordinator(data.path(), "c-1").await;
    first.submit(submission(data.path(), 7)).await.unwrap();
    let second = coordinator(data.path(), "c-2").await;
    assert!(matches!(second.own(run(7)).await, Err(Error::Owned { .. })));
    first.propose(run(7), Fact::StopRequested { task: None }).await.unwrap();
    let twice = first.propose(run(7), Fact::StopRequested { task: None }).await;
    assert!(matches!(twice, Err(Error::Refused(Refusal::Over | Refusal::TooLate))), "{twice:?}");
    first.shutdown(PATIENCE).await;

    second.own(run(7)).await.unwrap();
    second.propose(run(7), Fact::Retried { task: None, prompt: None }).await.unwrap();
    second.shutdown(PATIENCE).await;
    let entries = facts(data.path(), 7).await;
    let state = State::replay(run(7), &entries);
    assert_eq!((state.state(), state.epoch), (RunState::Running, Epoch(3)), "handed in, owned, taken over");
    let epochs: Vec<_> = entries.iter().map(|entry| entry.epoch.0).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
}
