//! Agents as processes: whatever they fork, trap, write or want of the environment, it stays bounded
//! and ends with them.

use std::{fs, time::Duration};

use ensemble_tests::{Plan, Started, Team, World, task_of, tell, within};
use serde_json::json;

/// An agent that ends leaves nothing behind, whatever its children do to get away.
#[test]
fn children_that_fork_trap_and_change_session_are_gone_with_the_task() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("a", &[]).doing(
        "trap '' TERM HUP\n\
         setsid sh -c 'trap \"\" TERM HUP INT; (setsid sleep 600 & sleep 600) & wait' &\n\
         (setsid sh -c 'cd /; exec env -i PATH=\"$PATH\" sleep 600' &)\n\
         sh -c '(sleep 600 &) & sleep 600' &\n\
         work\n",
    );
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    tell(&format!("with children that do not end: {:?}", done.took));
    world.evidence(&done.run()).delivered(&team, &plan);
}

/// The time limit ends an agent that ignores TERM, with all its children, and costs an attempt.
#[test]
fn the_time_limit_ends_everything() {
    let world = World::new();
    let team = Team::of(1);
    let endless =
        "trap '' TERM HUP\necho begun >begun.txt\n(setsid sleep 600 &)\nwhile :; do sleep 0.1; done\n";
    let plan = Plan::new()
        .task_with("slow", &[], json!({ "timeout": "1s", "max_attempts": 1 }))
        .doing(endless)
        .task("other", &[]);
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(1);
    let run = done.run();
    world.nobody_left(&[]);
    let evidence = world.evidence(&run);
    evidence.sound(&team, &plan);
    let result = done.json();
    let slow = task_of(&result, "slow");
    assert_eq!(slow["state"], "failed");
    assert!(slow["why"].as_str().unwrap().contains("time limit"), "{slow:#}");
    let kept = world.kept().text(&format!("refs/ensemble/{run}/slow/1"), "begun.txt");
    assert_eq!(kept.as_deref(), Some("begun\n"), "what it had is kept");
    assert!(evidence.accepted().contains_key("other"));
}

/// 64 MB of lines and an endless line cost no memory; `logs` shows the beginning and the end.
#[test]
fn output_is_bounded_and_shown() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("loud", &[]).doing(
        "echo the-beginning\nyes 'a line of output that says nothing' | head -c 67108864\n\
         echo the-middle-of-it >&2\nhead -c 67108864 /dev/zero | tr '\\0' x\necho\necho the-end\nwork\n",
    );
    world.set_up(&team, &plan);
    let started = world.start_run(&[]);
    let (done, most) = watched(started);
    tell(&format!("128 MB of output: {:?}, most memory {} MB", done.took, most >> 20));
    let done = done.expect(0);
    // The process without any output has some tens of megabytes in a build for debugging.
    assert!(most < 200 << 20, "{} MB of memory", most >> 20);
    let run = done.run();
    world.evidence(&run).delivered(&team, &plan);
    let logs = world.ensemble(&["logs", &run, "loud"]).expect(0);
    assert!(logs.stdout.contains("the-beginning") && logs.stdout.contains("the-end"));
    let size = logs.stdout.len();
    assert!((8 << 20..18 << 20).contains(&size), "the first 1 MiB and the last 15 MiB, not {size} bytes");
    let disk = size_of(&world.data());
    assert!(disk < 64 << 20, "{} MB on disk", disk >> 20);
}

/// Bytes that are no text do no harm, to the run, the result or whoever reads the log.
#[test]
fn bytes_that_are_no_text_do_no_harm() {
    let world = World::new();
    let team = Team::of(1);
    let plan = Plan::new().task("odd", &[]).doing(
        "printf 'good \\377\\376 \\000 \\303 \\033[31mred\\033]0;title\\007 end\\r\\n'\nprintf '\\355\\240\\200' >&2\n\
         printf 'a\\000b\\377' >bytes.bin\nwork\n",
    );
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let run = done.run();
    world.evidence(&run).sound(&team, &plan);
    assert_eq!(
        world.git.files(&format!("ensemble/{run}"))["bytes.bin"],
        b"a\0b\xff",
        "bytes are kept as they are"
    );
    assert!(!done.stderr.contains('\u{1b}'), "no escape sequence of an agent reaches the terminal: {done}");
    let logs = world.ensemble(&["logs", &run, "odd"]).expect(0);
    assert!(logs.stdout.contains("good") && logs.stdout.contains("end"), "{logs}");
}

/// A secret of ours reaches an agent only by name; HOME is the agent's own; standard input is closed.
#[test]
fn the_environment_is_clean() {
    let world = World::new();
    let team = Team::default().employee("ant", 1).employee_with(
        "bee",
        1,
        json!({ "backend": { "pass_env": ["SHARED_TOKEN"], "env": { "COLOUR": "red" } } }),
    );
    let tell =
        "mkdir -p env; env | sort >\"env/$ENSEMBLE_TASK\"; cat >/dev/null; pwd >\"env/$ENSEMBLE_TASK.pwd\"\n";
    let plan = Plan::new()
        .task_with("of-ant", &[], json!({ "employee": "ant" }))
        .doing(tell)
        .task_with("of-bee", &[], json!({ "employee": "bee", "checks": ["! env | grep -q SECRET"] }))
        .doing(tell);
    world.set_up(&team, &plan);
    let mut command = world.run_command(&[]);
    command.env("SHARED_TOKEN", "canary-shared").env("AWS_SECRET_ACCESS_KEY", "canary-secret");
    command
        .env("SSH_AUTH_SOCK", "/run/canary")
        .env("HTTPS_PROXY", "http://canary@proxy")
        .env("GIT_DIR", "/canary");
    let done = world.launch(command).wait(Duration::from_secs(60)).expect(0);
    let run = done.run();
    world.evidence(&run).sound(&team, &plan);
    let of = |name: &str| world.git.text(&format!("ensemble/{run}"), &format!("env/{name}")).unwrap();
    let (ant, bee) = (of("of-ant"), of("of-bee"));
    assert!(!ant.contains("canary"), "{ant}");
    assert!(bee.contains("SHARED_TOKEN=canary-shared") && bee.contains("COLOUR=red"), "{bee}");
    assert!(!bee.contains("canary-secret") && !bee.contains("proxy") && !bee.contains("SSH_AUTH"), "{bee}");
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}=")));
        line.map(|line| line[name.len() + 1..].to_owned()).unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    assert_eq!(value(&ant, "ENSEMBLE_RUN"), run);
    assert_eq!(value(&ant, "ENSEMBLE_TASK"), "of-ant");
    assert_eq!(value(&ant, "ENSEMBLE_ATTEMPT"), "1");
    assert_eq!(value(&ant, "ENSEMBLE_WORKTREE"), of("of-ant.pwd").trim());
    let home = value(&ant, "HOME");
    assert!(home.starts_with(world.data().to_str().unwrap()), "a home of its own: {home}");
    // Nothing of the secret anywhere on disk, in the journal or in the logs.
    assert!(!holds(&world.data(), b"canary-secret"), "the secret lies in the data directory");
}

/// A program that can't be started blocks its task at once, for a person to put right, and is named.
#[test]
fn a_command_that_does_not_exist_is_named() {
    let world = World::new();
    let team = Team::default().employee_with(
        "ant",
        1,
        json!({ "backend": { "command": ["no-such-agent-anywhere"] }, "max_attempts": 1 }),
    );
    let plan = Plan::new().task("a", &[]);
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(3);
    let result = done.json();
    let task = task_of(&result, "a");
    assert_eq!((&task["state"], &task["attempt"]), (&json!("blocked"), &json!(1)), "{task:#}");
    let why = task["why"].to_string();
    assert!(why.contains("no-such-agent-anywhere"), "{why}");
}

/// Waits for the end and measures on the way how much memory the process had at most.
fn watched(mut started: Started) -> (ensemble_tests::Finished, u64) {
    let status = format!("/proc/{}/status", started.pid());
    let mut most = 0;
    within(Duration::from_secs(110), "the end", || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(kilobytes.unwrap_or(0) << 10);
        started.has_ended().then_some(())
    });
    (started.wait(Duration::from_secs(1)), most)
}

fn every_file(folder: &std::path::Path, each: &mut impl FnMut(&std::path::Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) { every_file(&path, each) } else { each(&path) }
    }
}

fn size_of(folder: &std::path::Path) -> u64 {
    let mut size = 0;
    every_file(folder, &mut |path| size += fs::metadata(path).map_or(0, |meta| meta.len()));
    size
}

fn holds(folder: &std::path::Path, text: &[u8]) -> bool {
    let mut found = false;
    every_file(folder, &mut |path| {
        let bytes = fs::read(path).unwrap_or_default();
        found |= bytes.windows(text.len()).any(|window| window == text);
    });
    found
}
