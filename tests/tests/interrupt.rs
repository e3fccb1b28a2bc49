//! Ctrl-C, a second terminal, and two runs side by side: whoever asks reaches the run that is going on.

use std::{fs, time::Duration};

use ensemble_tests::{Plan, Started, Team, World, task_of, within};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Works until `go` lies beside the team file.
const HOLD: &str = "until test -e \"$TEAM/go\"; do sleep 0.05; done\nwork\n";

const SOON: Duration = Duration::from_secs(30);

/// A world in which `quick` is done and `held` is being worked on.
fn held() -> (World, Team, Plan, Started) {
    let world = World::new();
    let (team, plan) = (
        Team::of(2),
        Plan::new().task("quick", &[]).task("held", &["quick"]).doing(HOLD).task("last", &["held"]),
    );
    world.set_up(&team, &plan);
    let mut started = world.start_run(&[]);
    world.await_agent("start held", &mut started);
    (world, team, plan, started)
}

/// The first Ctrl-C stops agents, keeps what they wrote, says how to go on, and ends with 130.
#[test]
fn ctrl_c_keeps_the_work_and_resume_goes_on() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("quick", &[]).task("held", &["quick"]).doing(
        "if test \"$ENSEMBLE_ATTEMPT\" = 1; then echo half >half.txt; touch \"$TEAM/ready\"; sleep 600; fi\nwork\n",
    );
    world.set_up(&team, &plan);
    let started = world.start_run(&[]);
    within(SOON, "half of the work", || world.path("team/ready").exists().then_some(()));
    started.signal(Signal::SIGINT);
    let ended = started.wait(SOON).expect(130);
    let run = world.newest();
    assert!(ended.says(&format!("ensemble resume {run}")), "how to go on: {ended}");
    world.nobody_left(&[]);
    let kept = format!("refs/ensemble/{run}/held/1");
    assert_eq!(world.kept().text(&kept, "half.txt").as_deref(), Some("half\n"));
    // What was merged so far is at home already.
    assert!(world.git.text(&format!("ensemble/{run}"), "work/quick.txt").is_some(), "{ended}");

    let resumed = world.ensemble(&["resume", "-o", "json"]).expect(0);
    assert_eq!(resumed.run(), run);
    let evidence = world.evidence(&run);
    evidence.delivered(&team, &plan);
    assert_eq!(evidence.accepted()["held"], 2);
    let shown = world.show(&run);
    let task = task_of(&shown, "held");
    assert_eq!(task["attempts_failed"], 0, "an interruption is no failure of the agent: {task:#}");
}

/// An agent that ignores TERM holds up the first Ctrl-C; the second ends at once.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let world = World::new();
    let (team, plan) = (
        Team::of(1),
        Plan::new().task("deaf", &[]).doing(
            "test \"$ENSEMBLE_ATTEMPT\" = 1 || { work; exit 0; }\n\
         trap '' TERM INT; touch \"$TEAM/ready\"\nwhile :; do sleep 0.1; done\n",
        ),
    );
    world.set_up(&team, &plan);
    let started = world.start_run(&[]);
    within(SOON, "the agent", || world.path("team/ready").exists().then_some(()));
    started.signal(Signal::SIGINT);
    within(SOON, "its word", || started.stderr().contains("interrupted").then_some(()));
    started.signal(Signal::SIGINT);
    let ended = started.wait(Duration::from_secs(3)).expect(130);
    let run = world.newest();
    assert!(ended.says(&format!("ensemble resume {run}")), "{ended}");
    world.nobody_left(&[]);
    let _ = world.ensemble(&["resume", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// TERM, as systems send it when they go down, does the same as Ctrl-C.
#[test]
fn a_terminated_run_can_be_resumed() {
    let (world, team, plan, started) = held();
    started.signal(Signal::SIGTERM);
    let _ = started.wait(SOON).expect(130);
    world.nobody_left(&[]);
    world.beside_team("go", "");
    let run = world.ensemble(&["resume", "-o", "json"]).expect(0).run();
    world.evidence(&run).delivered(&team, &plan);
}

/// `ps`, `show`, `events` and `logs` of a second process see the run of the first while it goes on.
#[test]
fn a_second_terminal_sees_the_run() {
    let (world, team, plan, started) = held();
    let listed = world.ps();
    let run = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed[0]["state"], "running");
    assert_eq!(listed[0]["tasks"]["success"], 1);
    assert_eq!(listed[0]["goal"], "A colony");
    assert_eq!(listed[0]["branch"], format!("ensemble/{run}"));
    let shown = world.show(&run);
    assert_eq!(task_of(&shown, "quick")["state"], "success");
    assert_eq!(task_of(&shown, "held")["state"], "running");
    assert_eq!(task_of(&shown, "last")["state"], "pending");
    let _ = world.ensemble(&["logs", &run, "quick"]).expect(0);
    assert!(world.evidence(&run).count("started", "held") == 1);
    // A run that somebody carries on can't be resumed beside that.
    let second = world.ensemble(&["resume", &run]);
    assert_ne!(second.code(), Some(0), "{second}");
    world.beside_team("go", "");
    let _ = started.wait(SOON).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// `stop RUN TASK` ends that task's agent and blocks what needs it; `retry` of a second process makes
/// the first one go on.
#[test]
fn a_task_is_stopped_and_retried_from_a_second_terminal() {
    let world = World::new();
    let team = Team::of(2);
    let plan = Plan::new().task("side", &[]).doing(HOLD).task("held", &[]).doing(
        "if test \"$ENSEMBLE_ATTEMPT\" = 1; then trap '' TERM; while :; do sleep 0.1; done; fi\nwork\n",
    );
    let plan = plan.task("last", &["held"]);
    world.set_up(&team, &plan);
    let mut started = world.start_run(&[]);
    world.await_agent("start held", &mut started);
    world.await_agent("start side", &mut started);
    let run = world.newest();
    let _ = world.ensemble(&["stop", &run, "held"]).expect(0);
    within(SOON, "the task to be stopped", || {
        (task_of(&world.show(&run), "held")["state"] == "stopped").then_some(())
    });
    assert_eq!(task_of(&world.show(&run), "last")["state"], "blocked");
    let _ = world.ensemble(&["retry", &run, "held", "--prompt", "Once more, please."]).expect(0);
    world.await_agent("start held 2", &mut started);
    world.beside_team("go", "");
    let _ = started.wait(SOON).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// `stop RUN` of a second process ends the first one; its branch is at home.
#[test]
fn a_run_is_stopped_from_a_second_terminal() {
    let (world, team, plan, started) = held();
    let run = world.newest();
    let _ = world.ensemble(&["stop", &run]).expect(0);
    let ended = started.wait(SOON).expect(1);
    assert_eq!(ended.json()["state"], "stopped", "{ended}");
    world.nobody_left(&[]);
    let evidence = world.evidence(&run);
    evidence.sound(&team, &plan);
    assert!(world.git.text(&evidence.branch(), "work/quick.txt").is_some());
    // A stopped run is opened again by `retry`.
    world.beside_team("go", "");
    let _ = world.ensemble(&["retry", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// A run whose process was killed belongs to nobody: `stop` writes that down by itself.
#[test]
fn a_run_without_an_owner_is_stopped() {
    let (world, team, plan, started) = held();
    let _ = started.kill();
    world.nobody_left(&[]);
    let run = world.newest();
    let _ = world.ensemble(&["stop", &run]).expect(0);
    let shown = world.show(&run);
    assert_eq!(shown["state"], "stopped", "{shown:#}");
    world.evidence(&run).sound(&team, &plan);
    let _ = world.ensemble(&["resume"]).expect(2);
}

/// Two runs in one project at the same time: neither disturbs the other, both are delivered.
#[test]
fn two_runs_in_one_project_are_both_delivered() {
    let world = World::new();
    let (team, plan) = (Team::of(2), Plan::random(12, 3));
    world.set_up(&team, &plan);
    let both = [world.start_run(&[]), world.start_run(&[])];
    let runs = both.map(|one| one.wait(Duration::from_secs(60)).expect(0).run());
    assert_ne!(runs[0], runs[1]);
    for run in &runs {
        let evidence = world.evidence(run);
        evidence.delivered(&team, &plan);
    }
    let listed: Vec<Value> = world.ps();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|run| run["state"] == "delivered"));
    let newest = listed[0]["id"].as_str().unwrap();
    assert!(newest >= listed[1]["id"].as_str().unwrap(), "newest first");
    let locks = fs::read_dir(world.data().join("sock")).into_iter().flatten().count();
    assert_eq!(locks, 0, "sockets are removed");
}
