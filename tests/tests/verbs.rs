//! The verbs beside `run`, as a user types them: a first team file, a run left going and followed, its
//! report and its diff, an earlier result as base, notifications, and forgetting what is over.

use std::{fs, time::Duration};

use ensemble_tests::{Finished, Plan, Started, Team, World, within};
use serde_json::Value;

/// Works until `go` lies beside the team file.
const HOLD: &str = "until test -e \"$TEAM/go\"; do sleep 0.05; done\nwork\n";

const SOON: Duration = Duration::from_secs(30);

/// A world with a run of `quick` and `held` that goes on in a process of its own, with its id.
fn detached() -> (World, Team, Plan, String) {
    let world = World::new();
    let (team, plan) = (Team::of(2), Plan::new().task("quick", &[]).task("held", &["quick"]).doing(HOLD));
    world.set_up(&team, &plan);
    let answer = world.run(&["--detach"]).expect(0).json();
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    let run = text("id");
    assert!(fs::metadata(text("log")).is_ok(), "{answer}");
    (world, team, plan, run)
}

fn health<'v>(doctor: &'v Value, name: &str) -> &'v str {
    let found = doctor["findings"].as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
    found.and_then(|one| one["health"].as_str()).unwrap_or_else(|| panic!("no {name} in {doctor:#}"))
}

/// `init` in a folder that is no repository, then the run that it names, with `--init`; a second `init`
/// writes nothing.
#[test]
fn a_new_project_runs_at_once() {
    let world = World::with_repository("shop");
    let new = world.path("new shop");
    fs::create_dir(&new).unwrap();
    fs::write(new.join("Makefile"), "test:\n\ttest -f docs/ensemble/ideas.md\n").unwrap();
    let dir = new.to_str().unwrap();
    let said = world.ensemble(&["init", dir, "-o", "json"]).expect(0).json();
    assert_eq!(said["found"][0]["check"], "make test", "{said:#}");
    let (team, plan) = (new.join(".ensemble/team.yaml"), new.join(".ensemble/plan.yaml"));
    let (team, plan) = (team.to_str().unwrap(), plan.to_str().unwrap());
    let _ = world.ensemble(&["check", team, plan]).expect(0);
    let again = world.ensemble(&["init", dir]).expect(2);
    assert!(again.says("team.yaml"), "{again}");

    let _ = world.ensemble(&["run", "--plan", plan, "--repo", dir]).expect(2).saying("--init");
    let doctor = world.ensemble(&["doctor", "--repo", dir, "-o", "json"]).expect(1).json();
    assert_eq!(health(&doctor, "repository"), "bad");
    let words = ["run", "--plan", plan, "--repo", dir, "--init", "-o", "json"];
    let run = world.ensemble(&words);
    // The Makefile is not committed, so its check fails on the merged tree, which is said.
    let run = run.expect(1).saying("not committed");
    assert_eq!(run.json()["tasks"]["success"], 2, "{run}");
    let doctor = world.ensemble(&["doctor", "--repo", dir, "-o", "json"]).expect(0).json();
    assert_eq!(health(&doctor, "journal"), "ok");
    assert_eq!(health(&doctor, "back end"), "ok");
}

/// A detached run outlives the command that started it; `watch`, `wait`, `logs` and `report` reach it.
#[test]
fn a_detached_run_is_followed_to_its_end() {
    let (world, team, plan, run) = detached();
    let _ = world.ensemble(&["wait", &run, "--timeout", "200ms"]).expect(3).saying("still goes on");
    let listed = world.ps();
    assert_eq!(listed[0]["state"], "running", "{listed:#?}");
    let watching = world.start(&["watch", &run]);
    let waiting = world.start(&["wait", &run, "-o", "json"]);
    within(SOON, "the watcher to see the agent", || watching.stdout().contains("held").then_some(()));
    world.beside_team("go", "");
    let waited: Finished = waiting.wait(SOON).expect(0);
    assert_eq!(waited.json()["state"], "delivered", "{waited}");
    // When `wait` has ended the branch is at home.
    assert!(world.git.text(&format!("ensemble/{run}"), "work/held.txt").is_some(), "{waited}");
    let watched: Finished = Started::wait(watching, SOON).expect(0).saying("merged held");
    assert!(watched.says("delivered"), "{watched}");
    world.nobody_left(&[]);
    world.evidence(&run).delivered(&team, &plan);

    // Afterwards the same verbs tell it again.
    let later = world.ensemble(&["watch", &run, "-o", "json", "--after", "3"]).expect(0);
    let first: Value = serde_json::from_str(later.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["seq"], 4);
    let report = world.ensemble(&["report", &run]).expect(0);
    assert!(report.says("2 of 2 tasks") && report.says(&format!("git merge ensemble/{run}")), "{report}");
    let _ = world.ensemble(&["wait", "last"]).expect(0);
}

/// A detached run is stopped from elsewhere, and `wait` ends as it does.
#[test]
fn a_detached_run_is_stopped() {
    let (world, _, _, run) = detached();
    within(SOON, "the agent", || {
        world.agents().iter().any(|line| line.starts_with("start held")).then_some(())
    });
    let _ = world.ensemble(&["stop", &run]).expect(0);
    let _ = world.ensemble(&["wait", &run]).expect(1).saying("stopped");
    world.nobody_left(&[]);
}

/// A detached run that can't be handed in says why, with the exit code of a run.
#[test]
fn a_detached_run_that_can_not_start_says_why() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("a", &["nowhere"]));
    let refused = world.run(&["--detach"]).expect(2);
    assert!(refused.says("nowhere"), "{refused}");
    assert!(world.ps().is_empty());
}

/// `diff` shows what the whole run changed, or one task, or only figures.
#[test]
fn a_diff_is_the_work_of_the_run_or_of_a_task() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("one", &[]).task("two", &["one"]));
    let run = world.run(&[]).expect(0).run();
    let all = world.ensemble(&["diff", &run, "-o", "json"]).expect(0).json();
    assert_eq!(all["files"].as_array().unwrap().len(), 2, "{all:#}");
    let two = world.ensemble(&["diff", &run, "two"]).expect(0);
    assert!(two.says("+++ b/work/two.txt") && !two.says("work/one.txt\n+++"), "{two}");
    let stat = world.ensemble(&["diff", &run, "two", "--stat"]).expect(0);
    assert!(stat.says("A  work/two.txt  +2 −0") && !stat.says("+++"), "{stat}");
    let _ = world.ensemble(&["diff", &run, "twa"]).expect(2).saying("two");
}

/// `--base RUN` starts from a result that was never taken over, even when its branch is gone here.
#[test]
fn an_earlier_result_is_a_base() {
    let world = World::new();
    let team = Team::of(1);
    world.set_up(&team, &Plan::new().task("one", &[]));
    let first = world.run(&[]).expect(0).run();
    let branch = format!("ensemble/{first}");
    world.git.run(&["branch", "-D", &branch]);
    world.git.run(&["gc", "--prune=now", "-q"]);
    world.write_plan(&Plan::new().task("two", &[]));
    let second = world.run(&["--base", "last"]).expect(0).run();
    for file in ["work/one.txt", "work/two.txt"] {
        assert!(world.git.text(&format!("ensemble/{second}"), file).is_some(), "{file}");
    }
    let _ = world.run(&["--base", "nothing"]).expect(2).saying("nothing");
}

/// The command of `notify` gets each end as JSON; one that fails or hangs changes nothing.
#[test]
fn somebody_is_told_of_the_end() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("one", &[]));
    let told = world.path("told.json");
    let config = world.path("home/.config/ensemble");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.yaml"), format!("notify: cat > {}\n", told.display())).unwrap();
    let run = world.run(&[]).expect(0).run();
    let notice: Value = serde_json::from_str(&fs::read_to_string(&told).unwrap()).unwrap();
    assert_eq!((&notice["event"], &notice["run"]["id"]), (&"delivered".into(), &run.as_str().into()));

    fs::write(config.join("config.yaml"), "notify: exit 7\n").unwrap();
    let _ = world.run(&[]).expect(0).saying("warning: notify");
    fs::write(config.join("config.yaml"), "notifi: exit 7\n").unwrap();
    let _ = world.run(&[]).expect(2).saying("notify");
}

/// `prune` says what it would do, keeps what is nowhere else and what can go on, and forgets the rest.
#[test]
fn what_is_over_and_taken_is_forgotten() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("one", &[]));
    let taken = world.run(&[]).expect(0).run();
    world.git.run(&["merge", "-q", &format!("ensemble/{taken}")]);
    world.set_up(&Team::of(1), &Plan::new().task("other", &[]));
    let untaken = world.run(&[]).expect(0).run();
    world.set_up(&Team::of(1), &Plan::new().task("bad", &[]).doing("exit 1").task("two", &["bad"]));
    let failed = world.run(&[]).expect(1).run();

    let verdict = |answer: &Value, run: &str| {
        let runs = answer["runs"].as_array().unwrap();
        runs.iter().find(|one| one["id"] == run).unwrap()["verdict"].as_str().unwrap().to_owned()
    };
    let young = world.ensemble(&["prune", "-o", "json"]).expect(0).json();
    assert_eq!(verdict(&young, &taken), "young", "{young:#}");
    let words = ["prune", "--older-than", "0s", "-o", "json"];
    let dry = world.ensemble(&[&words[..], &["--dry-run"]].concat()).expect(0).json();
    assert_eq!(verdict(&dry, &taken), "goes", "{dry:#}");
    assert_eq!(verdict(&dry, &untaken), "untaken");
    assert_eq!(verdict(&dry, &failed), "goes");
    assert_eq!(world.ps().len(), 3, "nothing was done");
    let done = world.ensemble(&words).expect(0).json();
    assert_eq!(done["reclaimed"], dry["reclaimed"]);
    let left: Vec<Value> = world.ps();
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(left[0]["id"], untaken.as_str());
    assert!(world.ensemble(&["diff", &untaken]).expect(0).says("work/other.txt"));
    let _ = world.ensemble(&["show", &taken]).expect(2).saying("no run");

    let gone = world.ensemble(&["prune", "--older-than", "0s", "--untaken"]).expect(0);
    assert!(gone.says("lost with it"), "{gone}");
    assert!(world.ps().is_empty());
    // The user's own branches are as they were, and the next run works.
    assert!(world.git.text(&format!("ensemble/{untaken}"), "work/other.txt").is_some());
    world.set_up(&Team::of(1), &Plan::new().task("three", &[]));
    let _ = world.run(&[]).expect(0);
}

/// Nothing of a run that goes on is touched.
#[test]
fn what_goes_on_is_not_forgotten() {
    let (world, team, plan, run) = detached();
    within(SOON, "the agent", || {
        world.agents().iter().any(|line| line.starts_with("start held")).then_some(())
    });
    let answer = world.ensemble(&["prune", "--older-than", "0s", "--untaken", "-o", "json"]).expect(0).json();
    assert_eq!(answer["runs"][0]["verdict"], "owned", "{answer:#}");
    world.beside_team("go", "");
    let _ = world.ensemble(&["wait", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// Every shell's completions are printed.
#[test]
fn completions_are_printed() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = world.ensemble(&["completions", shell]).expect(0);
        assert!(said.says("prune"), "{said}");
    }
}
