//! What attempts end with and what becomes of it: results in all shapes, failures and their repair,
//! conflicts, checks, worktree modes, exclusive names.

use std::{collections::BTreeSet, fs};

use ensemble_tests::{Finished, Plan, Team, World, task_of};
use serde_json::{Value, json};

/// Fails until `repaired` lies beside the team file.
const BROKEN: &str =
    "test -e \"$TEAM/repaired\" || { echo the database is missing; echo no database >&2; exit 7; }\nwork\n";

/// A failed task blocks what needs it, and nothing else; repaired and retried, the run is delivered.
#[test]
fn a_failing_task_blocks_its_dependants_and_is_retried_to_delivery() {
    let world = World::new();
    let team = Team::of(2);
    let plan = Plan::new()
        .task_with("bad", &[], json!({ "max_attempts": 2 }))
        .doing(BROKEN)
        .task("next", &["bad"])
        .task("after", &["next"])
        .task("apart", &[])
        .task("apart2", &["apart"]);
    world.set_up(&team, &plan);
    let failed = world.run(&[]).expect(1);
    let run = failed.run();
    let result = failed.json();
    assert_eq!(states(&result), ["failed", "blocked", "blocked", "success", "success"], "{failed}");
    let bad = task_of(&result, "bad");
    assert_eq!((&bad["attempt"], &bad["attempts_failed"]), (&json!(2), &json!(2)));
    assert!(bad["why"].as_str().unwrap().contains("exit"), "{bad:#}");
    assert!(task_of(&result, "next")["why"].as_str().unwrap().contains("bad"), "the reason names it");
    assert!(task_of(&result, "after")["why"].is_string());
    assert!(failed.says(&format!("ensemble retry {run} bad")), "what to do: {failed}");
    // What did succeed is at home.
    assert!(world.git.text(&format!("ensemble/{run}"), "work/apart2.txt").is_some());
    world.evidence(&run).sound(&team, &plan);

    world.beside_team("repaired", "");
    let done = world.ensemble(&["retry", &run, "bad", "-o", "json"]).expect(0);
    assert_eq!(done.run(), run);
    let evidence = world.evidence(&run);
    evidence.delivered(&team, &plan);
    assert_eq!(
        evidence.agents.iter().filter(|one| one.task == "apart").count(),
        1,
        "done work is not done again"
    );
}

/// `retry --prompt` tells the employee something first; the next brief holds what went wrong before.
#[test]
fn a_retry_with_a_prompt_repairs_the_task() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task_with("a", &[], json!({ "max_attempts": 1 })).doing(
        "cp \"$ENSEMBLE_PROMPT_FILE\" \"$TEAM/brief-$ENSEMBLE_ATTEMPT.md\"\n\
         grep -q 'Use the sqlite3 module.' \"$ENSEMBLE_PROMPT_FILE\" || { echo I lack a database >&2; exit 1; }\nwork\n",
    );
    world.set_up(&team, &plan);
    let run = world.run(&[]).expect(1).run();
    let _ = world.ensemble(&["retry", &run, "--prompt", "Use the sqlite3 module."]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
    let brief = fs::read_to_string(world.path("team/brief-2.md")).unwrap();
    let prompt = brief.find("Use the sqlite3 module.").unwrap();
    assert!(prompt < brief.find("Do a").unwrap(), "the prompt comes first:\n{brief}");
    assert!(brief.contains("I lack a database"), "what went wrong is told:\n{brief}");
}

/// An attempt that fails once is repeated by itself, with a brief that says why.
#[test]
fn a_failure_is_repeated_with_its_reason_in_the_brief() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("a", &[]).doing(
        "if test \"$ENSEMBLE_ATTEMPT\" = 1; then echo half >half.txt; echo the disk is upside down >&2; exit 3; fi\n\
         cp \"$ENSEMBLE_PROMPT_FILE\" brief.md\n",
    );
    world.set_up(&team, &plan);
    let run = world.run(&[]).expect(0).run();
    world.evidence(&run).sound(&team, &plan);
    let files = world.git.files(&format!("ensemble/{run}"));
    let brief = String::from_utf8_lossy(&files["brief.md"]);
    assert!(brief.contains("the disk is upside down"), "{brief}");
    assert!(!files.contains_key("half.txt"), "the next attempt starts from the head");
    assert!(
        world.kept().resolve(&format!("refs/ensemble/{run}/a/1")).is_some(),
        "the failed attempt's work is kept"
    );
}

/// Two changes of one line end in blocked, with the file, exit 3, and both sides kept; then repaired.
#[test]
fn a_conflict_blocks_and_keeps_both_sides() {
    let world = World::new();
    world.git.write("shared.txt", "one\ntwo\nthree\n");
    world.git.commit("Shared");
    let team = Team::of(2);
    // Each waits for the other, so that both start from the same head.
    let both = "touch \"$TEAM/here-$ENSEMBLE_TASK\"\n\
        for other in left right; do until test -e \"$TEAM/here-$other\"; do sleep 0.05; done; done\n\
        printf 'one\\n%s\\nthree\\n' \"$ENSEMBLE_TASK\" >shared.txt\n";
    let plan = Plan::new()
        .task("left", &[])
        .doing(both)
        .task("right", &[])
        .doing(both)
        .task("next", &["left", "right"]);
    world.set_up(&team, &plan);
    let ended = world.run(&[]).expect(3);
    let run = ended.run();
    let result = ended.json();
    assert_eq!(result["state"], "waiting");
    world.evidence(&run).sound(&team, &plan);
    let blocked: Vec<&str> =
        ["left", "right"].into_iter().filter(|id| task_of(&result, id)["state"] == "blocked").collect();
    let [loser] = blocked[..] else { panic!("one is merged, one is blocked: {result:#}") };
    let winner = if loser == "left" { "right" } else { "left" };
    let why = task_of(&result, loser)["why"].as_str().unwrap();
    assert!(why.contains("shared.txt"), "the file is named: {why}");
    assert_eq!(task_of(&result, "next")["state"], "blocked");
    let line = |id: &str| format!("one\n{id}\nthree\n");
    let kept = world.kept();
    assert_eq!(kept.text(&format!("refs/ensemble/{run}/{loser}/1"), "shared.txt"), Some(line(loser)));
    assert_eq!(kept.text(&format!("refs/heads/ensemble/{run}"), "shared.txt"), Some(line(winner)));
    assert_eq!(world.git.text(&format!("ensemble/{run}"), "shared.txt"), Some(line(winner)));
    assert!(ended.says(&format!("ensemble retry {run} {loser}")), "what to do: {ended}");

    // The next attempt starts from the head, so it sees the other side.
    let _ = world.ensemble(&["retry", &run, loser]).expect(1);
}

/// Changes of one file in different places are merged; so are those of different files.
#[test]
fn changes_in_different_places_are_merged() {
    let world = World::new();
    let lines: Vec<String> = (1..=40).map(|number| format!("line {number}\n")).collect();
    world.git.write("shared.txt", lines.concat());
    world.git.commit("Shared");
    let team = Team::of(2);
    let edit = |place: usize| {
        format!(
            "touch \"$TEAM/here-$ENSEMBLE_TASK\"\n\
             for other in left right; do until test -e \"$TEAM/here-$other\"; do sleep 0.05; done; done\n\
             sed -i \"{place}s/.*/$ENSEMBLE_TASK/\" shared.txt\n"
        )
    };
    let plan = Plan::new().task("left", &[]).doing(&edit(3)).task("right", &[]).doing(&edit(35));
    world.set_up(&team, &plan);
    let run = world.run(&[]).expect(0).run();
    world.evidence(&run).sound(&team, &plan);
    let text = world.git.text(&format!("ensemble/{run}"), "shared.txt").unwrap();
    assert!(text.contains("left\nline 4") && text.contains("right\nline 36"), "{text}");
}

/// A failed check fails the attempt; its output is shown, kept, and told to the next attempt.
#[test]
fn a_failing_check_is_shown_kept_and_told() {
    let world = World::new();
    let team = Team::of(1);
    let check = "test -f good.txt || { echo the-check-says good.txt is missing; exit 1; }";
    let plan = Plan::new().task_with("a", &[], json!({ "checks": [check, "echo passed-too"] })).doing(
        "if test \"$ENSEMBLE_ATTEMPT\" = 1; then echo bad >bad.txt; exit 0; fi\n\
         echo good >good.txt; cp \"$ENSEMBLE_PROMPT_FILE\" brief.md\n",
    );
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let run = done.run();
    let evidence = world.evidence(&run);
    evidence.sound(&team, &plan);
    assert!(done.stderr.contains("the-check-says"), "the output is shown: {done}");
    let logs = world.ensemble(&["logs", &run, "a", "--attempt", "1"]).expect(0);
    assert!(logs.stdout.contains("the-check-says"), "the output is kept: {logs}");
    let files = world.git.files(&format!("ensemble/{run}"));
    let brief = String::from_utf8_lossy(&files["brief.md"]);
    assert!(brief.contains("the-check-says"), "the output is told: {brief}");
    assert!(!files.contains_key("bad.txt"));
    let last = evidence.of(&["check_reported"]).last().unwrap();
    assert_eq!(last["passed"], true);
    evidence.nothing_left_behind();
}

/// The run's checks decide at the end; when they fail the run has failed, and `retry` checks again.
#[test]
fn failing_checks_of_the_run_fail_it_and_are_retried() {
    let world = World::new();
    let check =
        format!("test -e {}/repaired || {{ echo the-gate-is-shut; exit 1; }}", world.path("team").display());
    let team = Team::of(1).with(json!({ "checks": ["test -f work/a.txt", check] }));
    let plan = Plan::new().task("a", &[]);
    world.set_up(&team, &plan);
    let failed = world.run(&[]).expect(1).saying("the-gate-is-shut");
    let run = failed.run();
    assert_eq!(failed.json()["state"], "failed");
    assert_eq!(states(&failed.json()), ["success"]);
    let logs = world.ensemble(&["logs", &run]).expect(0);
    assert!(logs.stdout.contains("the-gate-is-shut"), "{logs}");
    world.beside_team("repaired", "");
    let _ = world.ensemble(&["retry", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}

/// With `gate: each` the run's checks pass on every merge before the branch moves to it.
#[test]
fn a_gate_before_each_merge_keeps_the_branch_clean() {
    let world = World::new();
    let team = Team::of(1)
        .with(json!({ "gate": "each", "checks": ["test ! -e bad.txt || { echo bad-is-in; exit 1; }"] }));
    let plan = Plan::new()
        .task("good", &[])
        .task_with("bad", &["good"], json!({ "max_attempts": 1 }))
        .doing("touch bad.txt\nwork\n")
        .task("next", &["good"]);
    world.set_up(&team, &plan);
    let failed = world.run(&[]).expect(1).saying("bad-is-in");
    let run = failed.run();
    assert_eq!(states(&failed.json()), ["success", "failed", "success"], "{failed}");
    world.evidence(&run).sound(&team, &plan);
    let files = world.git.files(&format!("ensemble/{run}"));
    assert!(files.contains_key("work/next.txt") && !files.contains_key("bad.txt"));
}

/// An agent's word is no evidence: outputs must be there, and a change must be there.
#[test]
fn outputs_are_demanded_whatever_the_agent_says() {
    let world = World::new();
    let team = Team::of(4);
    let once = |outputs: Value| json!({ "outputs": outputs, "max_attempts": 1 });
    let boast =
        "printf '{\"status\": \"SUCCESS\", \"summary\": \"All is done.\"}' >\"$ENSEMBLE_RESULT_FILE\"\n";
    let plan = Plan::new()
        .task_with("there", &[], once(json!(["work/there.txt"])))
        .task_with("missing", &[], once(json!(["work/missing.txt", "other.txt"])))
        .task_with("lazy", &[], once(json!(["README"])))
        .doing(boast)
        .task_with("ignored", &[], once(json!(["build/out.bin"])))
        .doing("mkdir build; echo build >.gitignore; echo bytes >build/out.bin; echo junk >build/junk\n")
        .task_with("text", &[], json!({}))
        .doing(boast);
    world.set_up(&team, &plan);
    let ended = world.run(&[]).expect(1);
    let (run, result) = (ended.run(), ended.json());
    world.evidence(&run).sound(&team, &plan);
    assert_eq!(states(&result), ["success", "failed", "failed", "success", "success"], "{ended}");
    let why = task_of(&result, "missing")["why"].as_str().unwrap();
    assert!(why.contains("other.txt") && !why.contains("work/missing.txt"), "{why}");
    assert!(task_of(&result, "lazy")["why"].is_string());
    let files = world.git.files(&format!("ensemble/{run}"));
    assert!(files.contains_key("build/out.bin"), "a declared output is added even if it is ignored");
    assert!(!files.contains_key("build/junk"));
    assert_eq!(task_of(&result, "text")["summary"], "All is done.");
    assert_eq!(task_of(&result, "text")["merged"], Value::Null, "a text result needs no commit");
}

/// The outcome comes from the result file, else from the last `result` block, else from output and exit.
#[test]
fn results_are_taken_from_file_block_and_exit_status() {
    let world = World::new();
    let team = Team::of(4);
    let plan = Plan::new()
        .task("file", &[])
        .doing(
            "printf '```result\\n{\"status\": \"FAILED\"}\\n```\\n'\n\
             printf '{\"status\": \"SUCCESS\", \"task_id\": \"file\", \"summary\": \"by file\", \
             \"outputs\": {\"made/by/hand.txt\": \"written by the runtime\\\\n\", \"there.txt\": \"a remark\"}}' \
             >\"$ENSEMBLE_RESULT_FILE\"\necho here >there.txt\n",
        )
        .task("block", &[])
        .doing(
            "printf 'Some words.\\n```result\\n{\"status\": \"FAILED\"}\\n```\\nNo, wait.\\n'\n\
             printf '```result\\n{\"status\": \"SUCCESS\", \"summary\": \"by block\"}\\n```\\n'\n",
        )
        .task("words", &[])
        .doing("echo Just these words.\n")
        .task_with("says-failed", &[], json!({ "max_attempts": 1 }))
        .doing("printf '{\"status\": \"FAILED\", \"blockers\": [\"no compiler\"]}' >\"$ENSEMBLE_RESULT_FILE\"\n")
        .task("says-blocked", &[])
        .doing("printf '{\"status\": \"BLOCKED\", \"blockers\": [\"which colour?\"]}' >\"$ENSEMBLE_RESULT_FILE\"\n");
    world.set_up(&team, &plan);
    let ended = world.run(&[]).expect(1);
    let (run, result) = (ended.run(), ended.json());
    world.evidence(&run).sound(&team, &plan);
    assert_eq!(states(&result), ["success", "success", "success", "failed", "blocked"], "{ended}");
    assert_eq!(task_of(&result, "file")["summary"], "by file");
    assert_eq!(task_of(&result, "block")["summary"], "by block");
    assert_eq!(task_of(&result, "words")["summary"], "Just these words.");
    assert!(task_of(&result, "says-failed")["why"].as_str().unwrap().contains("no compiler"));
    assert!(task_of(&result, "says-blocked")["why"].as_str().unwrap().contains("which colour?"));
    assert_eq!(task_of(&result, "says-blocked")["attempt"], 1, "blocked is not tried again by itself");
    let files = world.git.files(&format!("ensemble/{run}"));
    assert_eq!(files["made/by/hand.txt"], b"written by the runtime\n");
    assert_eq!(files["there.txt"], b"here\n", "what is there is not overwritten");
}

/// Paths of a result's outputs follow the same rules as all paths: nothing is written elsewhere.
#[test]
fn a_result_can_not_write_outside() {
    let world = World::new();
    let team = Team::of(1);
    let target = world.path("outside.txt");
    let mut plan = Plan::new();
    let paths = ["../outside.txt", target.to_str().unwrap(), ".git/hooks/pre-commit", "link/inside.txt"];
    for (number, path) in paths.iter().enumerate() {
        let script = format!(
            "ln -s \"{}\" link\nprintf '{{\"status\": \"SUCCESS\", \"outputs\": {{\"%s\": \"x\"}}}}' '{path}' >\"$ENSEMBLE_RESULT_FILE\"\n",
            world.path("tmp").display(),
        );
        plan = plan.task_with(&format!("t{number}"), &[], json!({ "max_attempts": 1 })).doing(&script);
    }
    world.set_up(&team, &plan);
    let ended = world.run(&[]).expect(1);
    let result = ended.json();
    // Behind a link that leads out: left out and named, like the link itself.
    assert_eq!(states(&result), ["failed", "failed", "failed", "success"], "{ended}");
    assert!(task_of(&result, "t3")["left_out"].to_string().contains("link/inside.txt"), "{result:#}");
    assert!(world.git.files(&format!("ensemble/{}", ended.run())).keys().all(|name| name == "README"));
    assert!(!target.exists() && fs::read_dir(world.path("tmp")).unwrap().count() == 0);
    world.evidence(&ended.run()).sound(&team, &plan);
}

/// `write` demands a change, `read` drops changes and names them, `none` has no files at all.
#[test]
fn worktree_modes_say_what_becomes_of_changes() {
    let world = World::new();
    let team = Team::of(4);
    let mode = |mode: &str| json!({ "worktree": mode, "max_attempts": 1 });
    let plan = Plan::new()
        .task_with("write", &[], mode("write"))
        .task_with("write-nothing", &[], mode("write"))
        .doing("echo I only looked.\n")
        .task_with("read", &[], mode("read"))
        .doing("test -f README; echo note >note.txt; echo I have read it.\n")
        .task_with("none", &[], mode("none"))
        .doing("test ! -e README; test ! -e .git; echo loose >loose.txt; echo I have thought.\n")
        .task("plain", &[])
        .doing("echo Nothing to change.\n");
    world.set_up(&team, &plan);
    let ended = world.run(&[]).expect(1);
    let (run, result) = (ended.run(), ended.json());
    world.evidence(&run).sound(&team, &plan);
    assert_eq!(states(&result), ["success", "failed", "success", "success", "success"], "{ended}");
    let read = task_of(&result, "read");
    assert!(read["left_out"].to_string().contains("note.txt"), "what is dropped is named: {read:#}");
    let files = world.git.files(&format!("ensemble/{run}"));
    let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["README", "work/write.txt"]));
    assert_eq!(task_of(&result, "none")["summary"], "I have thought.");
}

/// Never two at once of the same exclusive name; ports that no other attempt has.
#[test]
fn exclusive_names_and_ports_are_not_shared() {
    let world = World::new();
    let team = Team::of(6);
    let tell = "mkdir -p ports; echo \"$ENSEMBLE_PORTS\" >\"ports/$ENSEMBLE_TASK\"; sleep 0.2\nwork\n";
    let meet = "touch \"$TEAM/here-$ENSEMBLE_TASK\"\n\
        for other in free1 free2; do until test -e \"$TEAM/here-$other\"; do sleep 0.05; done; done\n";
    let meet = format!("{meet}{tell}");
    let mut plan = Plan::new();
    for number in 0..3 {
        plan = plan.task_with(&format!("db{number}"), &[], json!({ "exclusive": ["database"] })).doing(tell);
    }
    plan = plan.task_with("both", &[], json!({ "exclusive": ["database", "port"] })).doing(tell);
    plan = plan.task("free1", &[]).doing(&meet).task("free2", &[]).doing(&meet);
    world.set_up(&team, &plan);
    let run = world.run(&[]).expect(0).run();
    world.evidence(&run).sound(&team, &plan);
    let ports = |task: &str| {
        let text = world.git.text(&format!("ensemble/{run}"), &format!("ports/{task}")).unwrap();
        let (first, last) = text.trim().split_once('-').unwrap_or_else(|| panic!("no range: {text}"));
        first.parse::<u16>().unwrap()..=last.parse::<u16>().unwrap()
    };
    let (one, two) = (ports("free1"), ports("free2"));
    assert!(one.clone().count() >= 2 && *one.start() > 1023);
    assert!(one.end() < two.start() || two.end() < one.start(), "{one:?} and {two:?} at the same time");
}

/// Of agents' own commits, branches and nested repositories only the files count.
#[test]
fn what_an_agent_does_with_git_has_no_effect_outside() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("a", &[]).doing(
        "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x\n\
         git checkout -q -b mine; echo mine >mine.txt; git add mine.txt; git commit -q -m Mine\n\
         git branch -f main >/dev/null 2>&1 || true; git update-ref refs/heads/evil HEAD\n\
         git init -q nested; echo in >nested/file.txt; mkfifo pipe\n\
         work\n",
    );
    world.set_up(&team, &plan);
    let before = world.git.refs("refs/");
    let done = world.run(&[]).expect(0);
    let run = done.run();
    world.evidence(&run).sound(&team, &plan);
    let mut after = world.git.refs("refs/");
    assert!(after.remove(&format!("refs/heads/ensemble/{run}")).is_some());
    assert_eq!(after, before, "the user's refs");
    assert!(world.kept().refs("refs/heads/evil").is_empty());
    let files = world.git.files(&format!("ensemble/{run}"));
    assert!(files.contains_key("mine.txt") && files.contains_key("work/a.txt"));
    assert!(files.keys().all(|name| !name.contains(".git") && name != "pipe"));
    let left_out = task_of(&done.json(), "a")["left_out"].to_string();
    assert!(left_out.contains("nested") && left_out.contains("pipe"), "{left_out}");
}

fn states(result: &Value) -> Vec<String> {
    let all = result["details"].as_array().unwrap_or_else(|| panic!("no tasks: {result:#}"));
    all.iter().map(|task| task["state"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A run that only a person can bring on says which command does.
#[test]
fn budgets_are_kept() {
    let world = World::new();
    let team = Team::of(1).with(json!({ "budget": { "turns": 2 } }));
    let plan = Plan::new().task("a", &[]).task("b", &["a"]).task("c", &["b"]);
    world.set_up(&team, &plan);
    let ended: Finished = world.run(&[]).expect(3).saying("budget");
    let run = ended.run();
    assert_eq!(states(&ended.json()), ["success", "success", "pending"], "{ended}");
    let _ = world.ensemble(&["retry", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}
