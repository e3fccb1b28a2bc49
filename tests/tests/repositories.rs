//! The user's repository in all its states, and what must never happen to it: it is never written but
//! for its result branch, and nothing that an employee or a repository brings is executed.

use std::{fs, os::unix::fs::PermissionsExt};

use ensemble_tests::{Git, Plan, Team, World, task_of, tell};
use serde_json::json;

fn simple() -> (Team, Plan) {
    (Team::of(2), Plan::new().task("a", &[]).task("b", &["a"]))
}

/// Uncommitted changes are warned about, not seen by the run, and left as they are.
#[test]
fn a_dirty_repository_is_warned_about_and_untouched() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    world.git.write("README", "changed\n");
    world.git.write("new.txt", "new\n");
    world.git.write("staged.txt", "staged\n");
    world.git.run(&["add", "staged.txt"]);
    let before = world.git.run(&["status", "--porcelain"]);
    let done = world.run(&[]).expect(0);
    assert!(done.stderr.contains("not committed"), "{done}");
    world.evidence(&done.run()).delivered(&team, &plan);
    assert_eq!(world.git.run(&["status", "--porcelain"]), before);
    assert_eq!(fs::read_to_string(world.git.path().join("README")).unwrap(), "changed\n");
}

/// A repository that nobody may write gets its branch later, by `fetch`.
#[test]
fn a_read_only_repository_is_worked_from_and_fetched_into_later() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    let refs = world.git.path().join(".git");
    world.git.seal(true);
    if fs::write(refs.join("probe"), "").is_ok() {
        // Who may write everything is kept out by something that no permission helps against.
        tell("skipped in part: permissions do not bind this user; a folder takes the branch's place");
        fs::remove_file(refs.join("probe")).unwrap();
        world.git.seal(false);
        fs::create_dir_all(refs.join("refs/heads")).unwrap();
        fs::write(refs.join("refs/heads/ensemble"), "in the way").unwrap();
    }
    let done = world.run(&[]).expect(0);
    let run = done.run();
    let result = done.json();
    assert_eq!(result["state"], "delivered");
    assert_eq!(result["brought_home"], false, "{result:#}");
    assert!(result["problem"].is_string());
    assert!(done.says(&format!("ensemble fetch {run}")), "what to do: {done}");
    assert_eq!(world.git.resolve(&format!("ensemble/{run}")), None);

    world.git.seal(false);
    let _ = fs::remove_file(refs.join("refs/heads/ensemble"));
    let _ = world.ensemble(&["fetch", &run]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
    // Once more changes nothing.
    let head = world.git.resolve(&format!("ensemble/{run}"));
    let _ = world.ensemble(&["fetch", &run]).expect(0);
    assert_eq!(world.git.resolve(&format!("ensemble/{run}")), head);
}

/// A repository without a commit: the run starts from an empty root; HEAD stays unborn.
#[test]
fn an_empty_repository_is_a_base_too() {
    let world = World::with_repository("empty");
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    let done = world.run(&[]).expect(0);
    let evidence = world.evidence(&done.run());
    evidence.sound(&team, &plan);
    let files = world.git.files(&evidence.branch());
    assert_eq!(files, plan.expected(&ensemble_tests::Files::new()));
    assert_eq!(world.git.resolve("HEAD"), None, "HEAD is still unborn");
    let _ = world.run(&[]).expect(0);
}

/// White space and other alphabets in paths and file names, from end to end; the default data directory.
#[test]
fn odd_paths_and_names_are_carried_through() {
    let world = World::with_repository("mein Laden – 商店 'n \"co\"");
    let name = "Öffnungs zeiten/時間 \\ \"quoted\".txt";
    world.git.write(name, "früh\n");
    world.git.commit("Anfang");
    let team = Team::of(2);
    let plan = Plan::new().task("a", &[]).doing(
        "cat \"Öffnungs zeiten\"/*.txt >'neu – ä ü.txt'; printf x >' leading space'; printf y >\"$(printf 'new\\nline')\"\nwork\n",
    );
    world.set_up(&team, &plan);
    let mut command = world.run_command(&[]);
    command.env_remove("ENSEMBLE_DATA");
    let done = world.launch(command).wait(std::time::Duration::from_secs(60)).expect(0);
    let run = done.run();
    let files = world.git.files(&format!("ensemble/{run}"));
    assert_eq!(files[name], "früh\n".as_bytes());
    assert_eq!(files["neu – ä ü.txt"], "früh\n".as_bytes());
    assert_eq!(files[" leading space"], b"x");
    assert!(files.contains_key("work/a.txt"));
    let result = done.json();
    let left_out = task_of(&result, "a")["left_out"].to_string();
    assert!(left_out.contains("control character"), "a line end in a name is too odd: {left_out}");
    let state: Vec<_> = fs::read_dir(world.path("state/ensemble")).unwrap().filter_map(Result::ok).collect();
    assert_eq!(state.len(), 1);
    let folder = state[0].file_name().to_string_lossy().into_owned();
    assert!(folder.starts_with("mein Laden"), "{folder}");
    // A verb in the same repository finds it again.
    let mut ps = world.command(&["ps", "-o", "json"]);
    ps.env_remove("ENSEMBLE_DATA");
    let listed = world.launch(ps).wait(std::time::Duration::from_secs(30)).expect(0).json();
    assert_eq!(listed[0]["id"], run);
}

/// `--base` starts elsewhere than at HEAD.
#[test]
fn a_run_may_start_from_another_commit() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    let old = world.git.resolve("HEAD").unwrap();
    world.git.write("later.txt", "later\n");
    world.git.commit("Later");
    let run = world.run(&["--base", &old]).expect(0).run();
    world.evidence(&run).delivered(&team, &plan);
    assert_eq!(world.git.text(&format!("ensemble/{run}"), "later.txt"), None);
    let _ = world.run(&["--base", "no-such-branch"]).expect(2).saying("no-such-branch");
}

/// `--into` moves a branch that nobody has checked out, and only if the run is delivered.
#[test]
fn into_moves_a_free_branch() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    world.git.run(&["branch", "release"]);
    let done = world.run(&["--into", "release"]).expect(0);
    let run = done.run();
    assert_eq!(done.json()["moved"], json!({ "branch": "release", "result": "moved" }), "{done}");
    assert_eq!(world.git.resolve("release"), world.git.resolve(&format!("ensemble/{run}")));
    world.evidence(&run).delivered(&team, &plan);

    let failing = Plan::new().task_with("a", &[], json!({ "max_attempts": 1 })).doing("exit 1\n");
    world.write_plan(&failing);
    let before = world.git.resolve("release");
    let failed = world.run(&["--into", "release"]).expect(1);
    assert_eq!(failed.json()["moved"]["result"], "not_delivered", "{failed}");
    assert_eq!(world.git.resolve("release"), before);
}

/// A branch that is checked out is left alone; the command to merge is printed.
#[test]
fn into_leaves_a_checked_out_branch_alone() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    let before = world.git.resolve("main");
    let done = world.run(&["--into", "main"]).expect(0);
    let run = done.run();
    assert_eq!(done.json()["moved"]["result"], "checked_out", "{done}");
    assert_eq!(world.git.resolve("main"), before);
    assert!(done.says(&format!("git merge ensemble/{run}")), "{done}");
    assert_eq!(world.git.run(&["status", "--porcelain"]), "");

    // In another worktree of the same repository it is checked out too.
    world.git.run(&["branch", "side"]);
    let side = world.path("side");
    world.git.run(&["worktree", "add", "-q", side.to_str().unwrap(), "side"]);
    let done = world.run(&["--into", "side"]).expect(0);
    assert_eq!(done.json()["moved"]["result"], "checked_out", "{done}");
    assert_eq!(world.git.resolve("side"), before);
}

/// A branch that has moved since the start is left where its owner put it.
#[test]
fn into_leaves_a_branch_that_has_moved_alone() {
    let world = World::new();
    let team = Team::of(1);
    world.git.run(&["branch", "release"]);
    let plan = Plan::new().task("a", &[]).doing("until test -e \"$TEAM/go\"; do sleep 0.05; done\nwork\n");
    world.set_up(&team, &plan);
    let mut started = world.start_run(&["--into", "release"]);
    world.await_agent("start a", &mut started);
    world.git.write("mine.txt", "mine\n");
    let mine = world.git.commit("Mine");
    world.git.run(&["update-ref", "refs/heads/release", &mine]);
    world.beside_team("go", "");
    let done = started.wait(std::time::Duration::from_secs(60)).expect(0);
    assert_eq!(done.json()["moved"]["result"], "moved_since", "{done}");
    assert_eq!(world.git.resolve("release"), Some(mine));
    assert!(done.says(&format!("git merge ensemble/{}", done.run())), "{done}");
}

/// What git would run of a configuration, `TRAP` standing for a program.
const SETTINGS: [(&str, &str); 14] = [
    ("core.fsmonitor", "TRAP"),
    ("core.sshCommand", "TRAP"),
    ("core.editor", "TRAP"),
    ("diff.external", "TRAP"),
    ("filter.evil.clean", "TRAP"),
    ("filter.evil.smudge", "TRAP"),
    ("filter.evil.process", "TRAP"),
    ("filter.evil.required", "true"),
    ("merge.evil.driver", "TRAP"),
    ("diff.evil.textconv", "TRAP"),
    ("gpg.program", "TRAP"),
    ("commit.gpgSign", "true"),
    ("uploadpack.packObjectsHook", "TRAP"),
    ("core.autocrlf", "true"),
];

/// Hooks that one git command or another runs.
const HOOKS: [&str; 8] = [
    "pre-commit",
    "post-commit",
    "post-checkout",
    "reference-transaction",
    "post-merge",
    "update",
    "post-index-change",
    "prepare-commit-msg",
];

/// Hooks, filters, drivers, monitors of the user's repository and of an attempt's own are never run.
#[test]
fn nothing_of_git_configuration_runs() {
    let world = World::new();
    let trap = world.beside_team(
        "trap.sh",
        format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\ncat\n", world.path("sprung").display()),
    );
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    let attributes = "* filter=evil diff=evil merge=evil\n*.txt text eol=crlf ident\n";
    world.git.write("shared.txt", "one\r\ntwo\n$Id$\nfour\n");
    world.git.commit("Bytes");
    world.git.write(".gitattributes", attributes);
    world.git.run(&["add", ".gitattributes"]);
    world.git.run(&["commit", "-q", "-m", "Traps"]);
    let settings = SETTINGS.map(|(key, value)| (key, if value == "TRAP" { trap } else { value }));
    let set: String = settings.iter().map(|(key, value)| format!("git config {key} '{value}'\n")).collect();
    let hook: String = HOOKS.iter().map(|hook| format!("ln -sf '{trap}' .git/hooks/{hook}\n")).collect();
    // In the attempt's copy: configured last, so that the agent's own git commands spring nothing.
    let agent = format!(
        "work\nsed -i 's/four/four and five/' shared.txt; printf 'a\\r\\nb\\n' >mixed.txt\nmkdir -p .git/hooks\n{set}{hook}\
         mkdir -p .git/info; echo '* filter=evil merge=evil' >.git/info/attributes\n"
    );
    let team = Team::of(2);
    let plan = Plan::new()
        .task_with("a", &[], json!({ "checks": ["test -f mixed.txt"] }))
        .doing(&agent)
        .task("b", &["a"])
        .task("c", &[]);
    world.set_up(&team, &plan);
    for (key, value) in settings {
        world.git.run(&["config", key, value]);
    }
    for hook in HOOKS {
        let path = world.git.path().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(trap, path).unwrap();
    }
    let done = world.run(&[]).expect(0);
    let run = done.run();
    let sprung = fs::read_to_string(world.path("sprung")).unwrap_or_default();
    assert_eq!(sprung, "", "something was run");
    let branch = format!("ensemble/{run}");
    let files = world.git.files(&branch);
    assert_eq!(files["shared.txt"], b"one\r\ntwo\n$Id$\nfour and five\n", "bytes are raw both ways");
    assert_eq!(files["mixed.txt"], b"a\r\nb\n");
    assert_eq!(files[".gitattributes"], attributes.as_bytes());
    let attempts = world.evidence(&run).of(&["merged"]).count();
    assert_eq!(attempts, 3);
}

/// Outputs that leave the repository are refused in the plan; links that lead out are never taken.
#[test]
fn outputs_that_leave_the_repository_are_refused() {
    let world = World::new();
    for path in [
        "../x",
        "/etc/passwd",
        ".git/config",
        "a/../../x",
        "sub/.GIT/hooks/x",
        "",
        ".",
        "a//b",
        "./a",
        "git~1/x",
    ] {
        let plan = Plan::new().task_with("a", &[], json!({ "outputs": [path] }));
        world.set_up(&Team::of(1), &plan);
        let refused = world.ensemble(&["check", world.plan_file().to_str().unwrap()]).expect(2);
        assert!(refused.says("outputs[0]"), "{path}: {refused}");
    }
    let outside = world.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), "canary\n").unwrap();
    let once = |outputs: serde_json::Value| json!({ "outputs": outputs, "max_attempts": 1 });
    let out = outside.display();
    let plan = Plan::new()
        .task_with("link", &[], once(json!(["secret.txt"])))
        .doing(&format!("ln -s '{out}/secret.txt' secret.txt; echo x >x.txt\n"))
        .task_with("folder", &[], once(json!(["out/secret.txt"])))
        .doing(&format!("ln -s '{out}' out; echo x >y.txt\n"))
        .task_with("git", &[], once(json!(["config"])))
        .doing("ln -s .git/config config; echo x >z.txt\n")
        .task("inside", &[])
        .doing("ln -s README good-link; echo fine >fine.txt\n");
    world.set_up(&Team::of(4), &plan);
    let ended = world.run(&[]).expect(1);
    let (run, result) = (ended.run(), ended.json());
    for task in ["link", "folder", "git"] {
        assert_eq!(task_of(&result, task)["state"], "failed", "{task}: {ended}");
    }
    assert_eq!(task_of(&result, "inside")["state"], "success", "{ended}");
    let files = world.git.files(&format!("ensemble/{run}"));
    assert_eq!(files["good-link"], b"README", "a link inside stays a link");
    let text: Vec<u8> = files.into_values().flatten().collect();
    assert!(!text.windows(6).any(|window| window == b"canary"), "what lies outside was taken");
    assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), "canary\n");
}

/// A shallow clone, no repository at all, a repository of somebody else's run: a clear word each.
#[test]
fn what_is_no_repository_of_ours_is_refused() {
    let world = World::new();
    let (team, plan) = simple();
    world.set_up(&team, &plan);
    world.git.write("more.txt", "more\n");
    world.git.commit("More");
    let shallow = world.path("shallow");
    let origin = format!("file://{}", world.git.path().display());
    world.git.run(&["clone", "-q", "--depth", "1", &origin, shallow.to_str().unwrap()]);
    let refused = world.run(&["--repo", shallow.to_str().unwrap()]).expect(2);
    assert!(refused.says("shallow") && refused.says("--unshallow"), "{refused}");
    let nowhere = world.path("tmp");
    let refused = world.run(&["--repo", nowhere.to_str().unwrap()]).expect(2);
    assert!(refused.says("repository"), "{refused}");
    assert!(world.agents().is_empty());

    let run = world.run(&[]).expect(0).run();
    let other = Git::init(&world.path("other"));
    other.write("x", "x");
    other.commit("Other");
    let refused = world.ensemble(&["fetch", &run, "--repo", other.path().to_str().unwrap()]);
    assert_ne!(refused.code(), Some(0), "{refused}");
    assert!(other.refs("refs/heads/ensemble").is_empty());
}
