//! A plan on one machine: order, parallelism, the tree that comes out, and what employees are told.

use std::{panic::resume_unwind, thread, time::Duration};

use ensemble_tests::{Files, Plan, Team, World, most_at_once, tell};
use serde_json::{Value, json};

/// Two hundred small tasks on eight slots: dependencies first, and the tree that one after the other gives.
#[test]
fn two_hundred_tasks_on_eight_slots_give_the_tree_of_a_serial_run() {
    let [(wide, most), (serial, one)] = thread::scope(|scope| {
        let runs = [8, 1].map(|slots| scope.spawn(move || two_hundred(slots)));
        runs.map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    assert!(most > 1, "nothing ran at the same time");
    assert_eq!(one, 1);
    assert_eq!(wide, serial);
}

/// The files that two hundred tasks leave, and how many were worked on at once.
fn two_hundred(slots: usize) -> (Files, usize) {
    let (team, plan) = (Team::of(slots), Plan::random(200, 7));
    let world = World::new();
    world.set_up(&team, &plan);
    let done = world.start_run(&[]).wait(Duration::from_secs(300)).expect(0);
    tell(&format!("200 tasks, slots {slots}: {:?}", done.took));
    let evidence = world.evidence(&done.run());
    evidence.delivered(&team, &plan);
    (world.git.files(&evidence.branch()), most_at_once(evidence.agents.iter()))
}

/// Tasks that wait for each other can only end if they really run at the same time.
#[test]
fn independent_tasks_run_at_the_same_time() {
    let world = World::new();
    let team = Team::of(3);
    let meet = "touch \"$TEAM/here-$ENSEMBLE_TASK\"\n\
        for other in a b c; do until test -e \"$TEAM/here-$other\"; do sleep 0.05; done; done\nwork\n";
    let plan = Plan::new().task("a", &[]).doing(meet).task("b", &[]).doing(meet).task("c", &[]).doing(meet);
    let plan = plan.task("last", &["a", "b", "c"]);
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let evidence = world.evidence(&done.run());
    evidence.delivered(&team, &plan);
    assert_eq!(most_at_once(evidence.agents.iter()), 3);
}

/// The instances of an employee are a pool: each has its slots, and none gets more than those.
#[test]
fn instances_of_an_employee_work_side_by_side() {
    let world = World::new();
    let team = Team::default().employee_with("ant", 2, json!({ "instances": 2 }));
    let meet = "touch \"$TEAM/here-$ENSEMBLE_TASK\"\n\
        until test $(ls \"$TEAM\" | grep -c '^here-') -ge 4; do sleep 0.05; done\nwork\n";
    let plan = (0..9).fold(Plan::new(), |plan, number| plan.task(&format!("t{number}"), &[]).doing(meet));
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let evidence = world.evidence(&done.run());
    evidence.delivered(&team, &plan);
    assert_eq!(most_at_once(evidence.agents.iter()), 4);
}

/// What waits for the same slot gets it by priority; what has the same, in the plan's order.
#[test]
fn tasks_that_wait_for_one_slot_go_by_priority() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new()
        .task_with("low", &[], json!({ "priority": "P4" }))
        .task("one", &[])
        .task_with("soon", &[], json!({ "priority": "P2" }))
        .task("two", &[])
        .task_with("now", &[], json!({ "priority": "P1" }));
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let evidence = world.evidence(&done.run());
    evidence.delivered(&team, &plan);
    let mut agents: Vec<_> = evidence.agents.iter().collect();
    agents.sort_by_key(|one| one.from);
    let order: Vec<&str> = agents.iter().map(|one| one.task.as_str()).collect();
    assert_eq!(order, ["now", "soon", "one", "two", "low"]);
}

/// Each employee has slots of its own; a task goes to whoever has its type, or to the one it names.
#[test]
fn tasks_go_to_the_employees_they_ask_for() {
    let world = World::new();
    let team = Team::default().employee_with("ant", 2, json!({ "type": "digger" })).employee_with(
        "bee",
        1,
        json!({ "type": "flier" }),
    );
    let mut plan = Plan::new();
    for number in 0..4 {
        plan = plan.task_with(&format!("dig{number}"), &[], json!({ "agent_type": "digger" }));
        plan = plan.task_with(&format!("fly{number}"), &[], json!({ "employee": "bee" }));
    }
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let evidence = world.evidence(&done.run());
    evidence.delivered(&team, &plan);
    for one in &evidence.agents {
        assert_eq!(one.who, if one.task.starts_with("dig") { "ant" } else { "bee" }, "{}", one.task);
    }
}

/// What a dependency delivered, the conventions and the criteria stand in the brief, for agents and programs.
#[test]
fn a_dependant_is_told_what_its_dependencies_delivered() {
    let world = World::new();
    let team = Team::default()
        .employee_with("ant", 1, json!({ "prompt": "You dig with care." }))
        .with(json!({ "conventions": "Dig downwards.", "description": "Builds a colony" }));
    let plan = Plan::new()
        .with(json!({ "project_scope": "A colony of ants", "conventions": ["No water."] }))
        .task("base", &[])
        .doing(
            "mkdir -p dig; echo one >dig/one; echo two >dig/two\n\
             cat >\"$ENSEMBLE_RESULT_FILE\" <<END\n\
             {\"status\": \"SUCCESS\", \"task_id\": \"base\", \"summary\": \"Two shafts are dug.\",\n\
              \"messages\": [\"The second one is damp.\"], \"artifacts\": {\"depth\": {\"one\": 12, \"two\": 30}}}\nEND\n",
        )
        .task_with("top", &["base"], json!({ "acceptance_criteria": ["A roof keeps the rain out"], "title": "The roof" }))
        .doing("cp \"$ENSEMBLE_PROMPT_FILE\" brief.md; cp \"$ENSEMBLE_CONTEXT_FILE\" context.json; cat >stdin.md\n");
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let run = done.run();
    world.evidence(&run).sound(&team, &plan);

    let files = world.git.files(&format!("ensemble/{run}"));
    let brief = String::from_utf8(files["brief.md"].clone()).unwrap();
    for told in [
        "You dig with care.",
        "A colony of ants",
        "Builds a colony",
        "Dig downwards.",
        "No water.",
        "A roof keeps the rain out",
        "The roof",
        "Do top",
        "Two shafts are dug.",
        "The second one is damp.",
        "dig/one",
        "dig/two",
    ] {
        assert!(brief.contains(told), "`{told}` is missing in the brief:\n{brief}");
    }
    assert_eq!(files["stdin.md"], files["brief.md"], "standard input is the brief");
    assert_eq!(files["dig/one"], b"one\n", "the work of the dependency is in the worktree");

    let context: Value = serde_json::from_slice(&files["context.json"]).unwrap();
    let from = &context["dependencies"][0];
    assert_eq!(from["task"], "base");
    assert_eq!(from["summary"], "Two shafts are dug.");
    assert_eq!(from["messages"], json!(["The second one is damp."]));
    assert_eq!(from["artifacts"]["depth"], json!({ "one": 12, "two": 30 }));
    assert_eq!(from["files"], json!(["dig/one", "dig/two"]));
    assert_eq!(context["task"]["acceptance_criteria"], json!(["A roof keeps the rain out"]));
    assert_eq!(context["previous"], Value::Null);
}

/// What happens is said in lines, elsewhere than on the result's own channel.
#[test]
fn what_happens_is_told_line_by_line() {
    let world = World::new();
    let team = Team::of(1);
    let plan =
        Plan::new().task_with("schema", &[], json!({ "title": "The schema" })).task("api", &["schema"]);
    world.set_up(&team, &plan);
    let (plan_file, team_file) = (world.plan_file(), world.team_file());
    let args = ["run", "--plan", plan_file.to_str().unwrap(), "--team", team_file.to_str().unwrap()];
    let done = world.ensemble(&args).expect(0);
    let run = world.newest();
    let mut rest = done.stderr.as_str();
    for line in [
        "dispatched schema (The schema) to ant",
        "done schema: 1 file, +1 −0",
        "merged schema",
        "dispatched api (Do api) to ant: schema done",
        "brief api: ",
        "1 file",
        "done api: 1 file, +2 −0",
        "merged api",
    ] {
        let at = rest.find(line).unwrap_or_else(|| panic!("`{line}` is missing, or too early: {done}"));
        rest = &rest[at + line.len()..];
    }
    assert!(done.stdout.contains(&format!("ensemble/{run}")), "the branch is named: {done}");
    assert!(done.stdout.contains(&format!("git merge ensemble/{run}")), "how to take it over: {done}");
}

/// `run GOAL` without a plan and other strategies come later; they say so and do nothing.
#[test]
fn what_comes_later_says_so() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("a", &[]));
    let team_file = world.team_file();
    let team = team_file.to_str().unwrap();
    let _ = world
        .ensemble(&["run", "Build a shop", "--team", team])
        .expect(2)
        .saying("not available in this version");
    for strategy in ["loop", "graph", "delegate"] {
        let _ = world.run(&["--strategy", strategy]).expect(2).saying("not available in this version");
    }
    assert!(world.agents().is_empty(), "an agent ran");
}
