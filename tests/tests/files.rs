//! Team and plan files: every finding at once with its place, hostile files refused quickly, and what
//! a plan looks like before it is carried out.

use std::time::Duration;

use ensemble_tests::{Finished, Plan, Team, World, tell};
use serde_json::{Value, json};

/// A file is refused within 100 ms; starting a process that was built for debugging takes its time too,
/// on a machine that does other things.
const QUICKLY: Duration = Duration::from_secs(2);

const TEAM: &str = "\
name: shop
employees:
  - id: back
    description: Back-end developer
    type: backend_developer
    backend: { kind: exec, command: [sh, back.sh] }
  - id: front
    description: Front-end developer
    backend: { kind: exec, command: [sh, front.sh] }
";

/// All that is wrong with a plan is said at once: file, line, field, the nearest name.
#[test]
fn every_finding_of_a_plan_is_printed_with_its_place() {
    let world = World::new();
    let team = world.beside_team("team.yaml", TEAM);
    let plan = world.beside_team(
        "plan.yaml",
        "\
project_scope: A shop
sub_tasks:
  - id: schema
    description: Write the schema
    agent_type: backend_develper
    outputs: [../schema.sql]
  - id: api
    description: Write the API
    dependencies: [shema]
    acceptance_criterias: [fast]
  - id: Schema
    description: Again
    employee: bak
    max_attempts: 0
  - id: a
    description: A
    dependencies: [b]
  - id: b
    description: B
    dependencies: [a]
",
    );
    let args = ["check", team.to_str().unwrap(), plan.to_str().unwrap()];
    let refused = world.ensemble(&args).expect(2);
    let found = world.ensemble(&[&args[..], &["-o", "json"]].concat()).expect(2).json();
    assert_eq!(found[0]["accepted"], true, "{found:#}");
    assert_eq!(found[1]["accepted"], false);
    let findings = found[1]["findings"].as_array().unwrap();
    for (line, field, named) in [
        (5, "sub_tasks[0].agent_type", "backend_developer"),
        (6, "sub_tasks[0].outputs[0]", ".."),
        (9, "sub_tasks[1].dependencies[0]", "schema"),
        (10, "sub_tasks[1].acceptance_criterias", "acceptance_criteria"),
        (11, "sub_tasks[2].id", "schema"),
        (13, "sub_tasks[2].employee", "back"),
        (14, "sub_tasks[2].max_attempts", "1"),
    ] {
        let finding = findings.iter().find(|one| one["field"] == field);
        let finding = finding.unwrap_or_else(|| panic!("nothing about {field}: {findings:#?}"));
        assert_eq!(finding["line"], line, "{finding:#}");
        assert_eq!(finding["file"], plan.to_str().unwrap());
        let words = format!("{} {}", finding["message"], finding["suggestion"]);
        assert!(words.contains(named), "`{named}` is not named: {finding:#}");
        let place = format!("{}:{line}:", plan.display());
        assert!(refused.says(&place), "{place} is not printed: {refused}");
    }
    assert!(
        refused.says("a → b → a") || refused.says("a -> b -> a"),
        "the cycle is printed as a path: {refused}"
    );
    // A plan that is refused starts nothing.
    let args = ["run", "--plan", plan.to_str().unwrap(), "--team", team.to_str().unwrap()];
    let _ = world.ensemble(&args).expect(2);
    assert!(!world.data().join("journal.db").exists() || world.ps().is_empty(), "a run was stored");
}

/// So is all that is wrong with a team file.
#[test]
fn every_finding_of_a_team_file_is_printed_with_its_place() {
    let world = World::new();
    let team = world.beside_team(
        "team.yaml",
        "\
name: shop
employes: []
employees:
  - id: back
    description: Back
    backend: { kind: exec, comand: [sh] }
  - id: Front
    description: Front
    slots: many
  - id: back
    description: Twice
",
    );
    let refused = world.ensemble(&["check", team.to_str().unwrap()]).expect(2);
    for (line, named) in [(2, "employees"), (6, "command"), (7, "front"), (9, "slots"), (10, "back")] {
        let place = format!("team.yaml:{line}:");
        let said = refused.stdout.lines().chain(refused.stderr.lines());
        let said: Vec<&str> = said.filter(|text| text.contains(&place)).collect();
        assert!(said.iter().any(|text| text.contains(named)), "line {line} and `{named}`: {refused}");
    }
    // Who is a member can be told once all employees can be read.
    let team = world.beside_team("teams.yaml", format!("{TEAM}teams:\n  - {{ id: all, members: [bakc] }}\n"));
    let refused = world.ensemble(&["check", team.to_str().unwrap()]).expect(2);
    assert!(
        refused.says("teams.yaml:11:") && refused.says("teams[0].members[0]") && refused.says("`back`"),
        "{refused}"
    );
}

/// Valid files are accepted in YAML and JSON; what is odd but works is warned about.
#[test]
fn valid_files_are_accepted() {
    let world = World::new();
    world.set_up(&Team::of(2), &Plan::random(20, 1));
    let (team, plan) = (world.team_file(), world.plan_file());
    let args = ["check", team.to_str().unwrap(), plan.to_str().unwrap(), "-o", "json"];
    let found = world.ensemble(&args).expect(0).json();
    assert_eq!(found[0]["kind"], "team");
    assert_eq!(found[1]["kind"], "plan");
    assert_eq!(found[1]["value"]["sub_tasks"].as_array().map(Vec::len), Some(20));

    let team = world.beside_team(
        "shop.yaml",
        format!("{TEAM}collaboration: {{ topology: pipeline, agents: [back, front] }}\n"),
    );
    let plan = world.beside_team(
        "shop-plan.yaml",
        "sub_tasks:\n  - {id: 1, description: One, outputs: [same.txt]}\n  - {id: 2, description: Two, outputs: [same.txt]}\n",
    );
    let warned = world.ensemble(&["check", team.to_str().unwrap(), plan.to_str().unwrap()]).expect(0);
    assert!(warned.says("collaboration"), "{warned}");
    assert!(warned.says("same.txt"), "two tasks that may run at once declare one output: {warned}");
}

/// 50 MB, a YAML bomb, two million brackets: refused at once, with little memory.
#[test]
fn hostile_files_are_refused_quickly() {
    let world = World::new();
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    bomb.push_str("sub_tasks: *a11\n");
    let cases: [(&str, String); 7] = [
        ("large.yaml", format!("project_scope: {}\n", "x".repeat(50 << 20))),
        ("large.json", format!("{{\"project_scope\": \"{}\"}}", "x".repeat(50 << 20))),
        ("bomb.yaml", bomb),
        ("brackets.json", "[".repeat(2_000_000)),
        ("brackets.yaml", format!("sub_tasks: {}", "[".repeat(2_000_000))),
        ("braces.json", "{\"a\":".repeat(400_000)),
        ("deep.yaml", "- ".repeat(1_000_000)),
    ];
    for (name, text) in cases {
        let file = world.beside_team(name, text);
        for kind in ["plan", "team"] {
            let refused = world.ensemble(&["check", "--kind", kind, file.to_str().unwrap()]).expect(2);
            tell(&format!("{name} as {kind}: {:?}", refused.took));
            assert!(refused.took < QUICKLY, "{name} as {kind} took {:?}", refused.took);
            let said = refused.stdout.len() + refused.stderr.len();
            assert!(said < 64 << 10, "{said} bytes are said about {name}");
            assert!(refused.says(name), "{name} is not named");
        }
    }
    // A file without an end is no file.
    let endless = world.ensemble(&["check", "--kind", "plan", "/dev/zero"]);
    assert_ne!(endless.code(), Some(0), "{endless}");
    assert!(endless.took < QUICKLY, "{:?}", endless.took);
}

/// Files that are no text, empty, or of another kind are refused with a clear word, never with a crash.
#[test]
fn files_that_are_no_plan_are_refused() {
    let world = World::new();
    for (name, text) in [
        ("empty.yaml", &b""[..]),
        ("binary.yaml", &b"\x00\xff\xfe\x01"[..]),
        ("list.yaml", &b"- a\n- b\n"[..]),
        ("number.json", &b"42"[..]),
        ("cut.json", &b"{\"sub_tasks\": [{\"id\": \"a\""[..]),
        ("tabs.yaml", &b"sub_tasks:\n\t- id: a\n"[..]),
        ("none.yaml", &b"sub_tasks: []\n"[..]),
        ("twice.yaml", &b"sub_tasks:\n  - {id: a, id: b, description: A}\n"[..]),
    ] {
        let file = world.beside_team(name, text);
        let refused = world.ensemble(&["check", "--kind", "plan", file.to_str().unwrap()]).expect(2);
        assert!(refused.says(name), "{name}: {refused}");
    }
    let missing = world.ensemble(&["check", "no-such-file.yaml"]);
    assert!(
        missing.code().is_some_and(|code| code == 1 || code == 2) && missing.says("no-such-file.yaml"),
        "{missing}"
    );
}

/// Order, what can run at once, the critical path; as a picture for Markdown and for Graphviz.
#[test]
fn a_plan_is_shown_before_it_is_carried_out() {
    let world = World::new();
    let plan = Plan::new()
        .task("schema", &[])
        .task_with("api", &["schema"], json!({ "title": "The \"API\"" }))
        .task("page", &[])
        .task("tests", &["api", "page"]);
    world.set_up(&Team::of(1), &plan);
    let file = world.plan_file();
    let file = file.to_str().unwrap();
    let shown = world.ensemble(&["plan", file, "-o", "json"]).expect(0).json();
    assert_eq!(shown["tasks"], 4);
    assert_eq!(shown["levels"], json!([["schema", "page"], ["api"], ["tests"]]));
    assert_eq!(shown["critical_path"], json!(["schema", "api", "tests"]));
    let order: Vec<&Value> = shown["order"].as_array().unwrap().iter().collect();
    let at = |id: &str| order.iter().position(|one| *one == id).unwrap();
    assert!(at("schema") < at("api") && at("api") < at("tests") && at("page") < at("tests"));

    let told: Finished = world.ensemble(&["plan", file]).expect(0);
    assert!(told.stdout.contains("critical path"), "{told}");
    let mermaid = world.ensemble(&["plan", file, "--draw", "mermaid"]).expect(0).stdout;
    assert!(mermaid.starts_with("graph ") || mermaid.starts_with("flowchart "), "{mermaid}");
    assert_eq!(mermaid.matches("-->").count(), 3, "{mermaid}");
    let dot = world.ensemble(&["plan", file, "--draw", "dot"]).expect(0).stdout;
    assert!(dot.starts_with("digraph") && dot.trim_end().ends_with('}'), "{dot}");
    assert_eq!(dot.matches("->").count(), 3, "{dot}");
    assert!(dot.contains("\\\"API\\\""), "quotes are escaped: {dot}");
}
