//! Real processes: this program is its own keeper (`keeper`) and its own node to be killed
//! (`node`), else it runs the tests below. Every agent carries a mark of its own in its
//! environment, by which whatever is left of it is found. Linux only, as the keeper is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;

use std::{
    fs,
    path::Path,
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

use bench::{
    Bench, PATIENCE, block_on, environment_with, finish, keeper_command, never, run_until, stdout, until,
    until_exists,
};
use ensemble_agent::{
    Backend, Error, Exec, Exit, LogFile, LogReader, Request, Stream, Turn, Wish, keeper, lock_is_free, run,
    wait_until_free,
};
use ensemble_core::outcome::Ending;
use libtest_mimic::{Arguments, Trial};

/// Exit code of our node when a fault point fired.
const FAULT: u8 = 3;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("keeper") => return keeper::main(),
        Some("node") => return node(),
        _ => {}
    }
    let tests: &[(&str, Test)] = &[
        ("exit_codes_and_signals_are_told_apart", exit_codes_and_signals_are_told_apart),
        ("the_agent_sees_a_plain_world", the_agent_sees_a_plain_world),
        ("a_command_that_is_not_there_is_named", a_command_that_is_not_there_is_named),
        ("an_agent_that_runs_away_leaves_nothing", an_agent_that_runs_away_leaves_nothing),
        ("helpers_may_finish_their_last_words", helpers_may_finish_their_last_words),
        ("respawning_children_do_not_win", respawning_children_do_not_win),
        ("time_is_limited", time_is_limited),
        ("an_agent_that_stops_its_keeper_is_ended_in_time", an_agent_that_stops_its_keeper),
        ("an_agent_may_tidy_up_when_it_is_cancelled", an_agent_may_tidy_up_when_it_is_cancelled),
        ("a_stopped_agent_hears_that_it_shall_end", a_stopped_agent_hears_that_it_shall_end),
        ("a_wish_to_kill_does_not_wait_for_grace", a_wish_to_kill_does_not_wait_for_grace),
        ("a_dropped_turn_is_a_killed_turn", a_dropped_turn_is_a_killed_turn),
        ("a_killed_node_leaves_nothing", a_killed_node_leaves_nothing),
        #[cfg(feature = "faults")]
        ("a_fault_around_the_start_leaves_nothing", a_fault_around_the_start_leaves_nothing),
        ("a_killed_keeper_is_an_error_and_takes_its_session_along", a_killed_keeper_is_an_error),
        ("an_agent_cannot_signal_its_keeper_through_its_group", an_agent_cannot_signal_its_keeper),
        ("one_keeper_at_a_time_holds_a_directory", one_keeper_at_a_time_holds_a_directory),
        ("much_output_costs_little", much_output_costs_little),
        ("a_brief_that_is_never_read_hurts_nobody", a_brief_that_is_never_read_hurts_nobody),
        ("closed_outputs_are_not_the_end", closed_outputs_are_not_the_end),
        ("exec_reads_the_result_file", exec_reads_the_result_file),
        ("many_turns_at_once_do_not_disturb_each_other", many_turns_at_once),
    ];
    let trials = tests.iter().flat_map(|(name, test)| {
        [true, false].map(|cgroup| {
            let kind = if cgroup { "cgroup" } else { "tree" };
            Trial::test(format!("{name}::{kind}"), move || {
                test(cgroup);
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// A test, told whether the keeper may make a cgroup.
type Test = fn(bool);

/// Forks twice, traps what can be trapped, makes sessions of its own, holds its output open.
const RUNAWAY: &str = r#"
    trap '' TERM INT HUP QUIT
    (setsid sh -c 'trap "" TERM INT HUP; (setsid sh -c "trap \"\" TERM; touch far; while :; do sleep 1; done" &) ; while :; do sleep 1; done' &)
    (sh -c 'trap "" TERM; while :; do sleep 1; done' &)
    while [ ! -e far ]; do sleep 0.01; done
    touch ready
"#;

fn exit_codes_and_signals_are_told_apart(cgroup: bool) {
    for (script, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("kill -KILL $$", Exit::Signal(9)),
    ] {
        let bench = Bench::new(cgroup);
        let end = finish(bench.sh(script));
        assert_eq!(end.exit, exit, "{script}");
        assert_eq!(end.left_behind, 0, "{script}");
        bench.assert_nothing_left();
    }
}

fn the_agent_sees_a_plain_world(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut turn = bench.sh("cat; pwd; echo \"$HOME|$CARGO_MANIFEST_DIR|$TERM\"; ls /proc/self/fd | wc -l; \
         grep -E 'Sig(Blk|Ign)' /proc/self/status; echo err >&2");
    turn.stdin = b"the brief\n".to_vec();
    let end = finish(turn);
    let text = stdout(&end);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "the brief");
    assert_eq!(Path::new(lines[1]), fs::canonicalize(bench.dir.path()).unwrap());
    assert_eq!(lines[2], "||dumb");
    assert_eq!(lines[3], "4", "0, 1, 2 and the listing itself");
    assert_eq!(lines[4], "SigBlk:\t0000000000000000");
    // Whoever started this program may have ignored others.
    let ignored = u64::from_str_radix(lines[5].trim_start_matches("SigIgn:\t"), 16).unwrap();
    assert_eq!(ignored & (1 << (13 - 1) | 1 << (15 - 1)), 0, "PIPE and TERM");
    assert_eq!(end.stderr.to_bytes(), b"err\n");
}

fn a_command_that_is_not_there_is_named(cgroup: bool) {
    let bench = Bench::new(cgroup);
    fs::write(bench.path("data"), "x").unwrap();
    for command in [&["no-such-program-here"] as &[&str], &["./data"], &["a\0b"], &[]] {
        let end = finish(bench.turn(command));
        let Exit::NotStarted(why) = end.exit else { panic!("{command:?}: {:?}", end.exit) };
        assert!(command.is_empty() || why.contains(&format!("`{}`", command[0])), "{why}");
    }
    let mut turn = bench.sh("true");
    turn.dir = bench.path("absent");
    let Exit::NotStarted(why) = finish(turn).exit else { panic!() };
    assert!(why.contains("absent is missing"), "{why}");
    let mut turn = bench.sh("true");
    turn.env.insert("LARGE".into(), "x".repeat(200_000).into());
    assert!(matches!(finish(turn).exit, Exit::NotStarted(_)));
    bench.assert_nothing_left();
}

fn an_agent_that_runs_away_leaves_nothing(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let started = Instant::now();
    let end = finish(bench.sh(RUNAWAY));
    assert_eq!(end.exit, Exit::Code(0));
    assert!(end.left_behind >= 3, "{}", end.left_behind);
    assert!(started.elapsed() < Duration::from_secs(10), "nothing waits for what will not end");
    bench.assert_nothing_left();
}

fn helpers_may_finish_their_last_words(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let end = finish(bench.sh("(while kill -0 $$ 2>&-; do :; done; echo last) & echo first"));
    assert_eq!(stdout(&end), "first\nlast\n");
    assert_eq!(end.left_behind, 0);
}

fn respawning_children_do_not_win(cgroup: bool) {
    let bench = Bench::new(cgroup);
    // Twenty that always have a successor on the way, each in a session of its own.
    let script = r#"
        cat > again.sh <<'X'
trap '' TERM
setsid sh again.sh &
sleep 0.02
X
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do setsid sh again.sh & done
        sleep 0.2; touch ready; sleep 60
    "#;
    let end = run_until(bench.sh(script), &bench.path("ready"), Wish::Kill);
    assert_eq!(end.exit, Exit::Cancelled);
    assert!(end.left_behind > 0);
    bench.assert_nothing_left();
}

fn time_is_limited(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut turn = bench.sh(&format!("{RUNAWAY}\nwhile :; do sleep 1; done"));
    turn.time_limit = Duration::from_millis(300);
    turn.grace = Duration::from_millis(200);
    let end = finish(turn);
    assert_eq!(end.exit, Exit::TimedOut);
    assert!(
        end.duration >= Duration::from_millis(500),
        "TERM was trapped, so grace passed: {:?}",
        end.duration
    );
    assert!(end.duration < Duration::from_secs(5), "{:?}", end.duration);
    bench.assert_nothing_left();
}

fn an_agent_that_stops_its_keeper(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut turn = bench.sh("kill -STOP $PPID; sleep 60");
    turn.time_limit = Duration::from_millis(300);
    turn.grace = Duration::from_millis(200);
    let end = finish(turn);
    assert_eq!(end.exit, Exit::TimedOut);
    assert!(end.duration < Duration::from_secs(5), "{:?}", end.duration);
    bench.assert_nothing_left();
}

fn an_agent_may_tidy_up_when_it_is_cancelled(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let turn = bench.sh("trap 'echo tidy; exit 0' TERM; touch ready; while :; do sleep 0.02; done");
    let end = run_until(turn, &bench.path("ready"), Wish::Stop);
    assert_eq!(end.exit, Exit::Cancelled);
    assert_eq!(stdout(&end), "tidy\n");
    bench.assert_nothing_left();
}

fn a_stopped_agent_hears_that_it_shall_end(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let turn =
        bench.sh("trap 'echo tidy; exit 0' TERM; touch ready; kill -STOP $$; while :; do sleep 0.02; done");
    let end = run_until(turn, &bench.path("ready"), Wish::Stop);
    assert_eq!(stdout(&end), "tidy\n");
    assert!(end.duration < Duration::from_secs(4), "{:?}", end.duration);
}

fn a_wish_to_kill_does_not_wait_for_grace(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut turn = bench.sh(&format!("{RUNAWAY}\nwhile :; do sleep 1; done"));
    turn.grace = Duration::from_secs(3600);
    let end = run_until(turn, &bench.path("ready"), Wish::Kill);
    assert_eq!(end.exit, Exit::Cancelled);
    bench.assert_nothing_left();
}

fn a_dropped_turn_is_a_killed_turn(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let turn = bench.sh(&format!("{RUNAWAY}\nwhile :; do sleep 1; done"));
    let ready = bench.path("ready");
    block_on(async {
        let mut ignore = |_: Stream, _: &[u8]| {};
        tokio::select! {
            end = run(turn, &mut ignore, never()) => panic!("{end:?}"),
            () = until_exists(&ready) => {}
        }
        assert!(wait_until_free(&bench.path("lock"), Instant::now() + PATIENCE).await);
    });
    bench.assert_nothing_left();
}

/// A node that runs the agent described by its arguments, to be killed meanwhile.
fn node() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [dir, mark, cgroup, script] = args.as_slice() else { return ExitCode::from(2) };
    let turn = Turn {
        keeper: keeper_command(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: environment_with(mark),
        dir: dir.into(),
        stdin: Vec::new(),
        lock: Path::new(dir).join("lock"),
        time_limit: Duration::from_secs(60),
        grace: Duration::from_secs(5),
        cgroup: cgroup == "true",
    };
    #[cfg(feature = "faults")]
    let _faults = fail::FailScenario::setup();
    match block_on(run(turn, &mut |_, _: &[u8]| {}, never())) {
        Ok(_) => ExitCode::SUCCESS,
        Err(Error::Fault(_)) => ExitCode::from(FAULT),
        Err(error) => panic!("{error}"),
    }
}

fn a_killed_node_leaves_nothing(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut node = bench.node(&format!("{RUNAWAY}\nwhile :; do sleep 1; done")).spawn().unwrap();
    until("the agent to be up", || bench.path("ready").exists());
    assert!(bench.marked().len() >= 5, "keeper, agent and three others: {:?}", bench.marked());
    assert!(!lock_is_free(&bench.path("lock")));
    let killed = Instant::now();
    node.kill().unwrap();
    node.wait().unwrap();
    until("the lock to be free", || lock_is_free(&bench.path("lock")));
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    until("the keeper to be gone", || bench.marked().is_empty());
    bench.assert_nothing_left();
}

#[cfg(feature = "faults")]
fn a_fault_around_the_start_leaves_nothing(cgroup: bool) {
    for point in ensemble_agent::FAULT_POINTS {
        for (fault, code) in [
            (format!("{point}=return"), Some(i32::from(FAULT))),
            (format!("{point}.done=return"), Some(i32::from(FAULT))),
            (format!("{point}=panic"), Some(101)),
            (format!("{point}.done=panic"), Some(101)),
        ] {
            let bench = Bench::new(cgroup);
            let mut node = bench.node("touch started; sleep 60");
            let ended = node.env("FAILPOINTS", &fault).stderr(Stdio::null()).status().unwrap();
            assert_eq!(ended.code(), code, "{fault}");
            until("everything to be gone", || bench.marked().is_empty());
            assert!(!bench.path("started").exists(), "{fault}");
            bench.assert_nothing_left();
        }
    }
}

fn a_killed_keeper_is_an_error(cgroup: bool) {
    let bench = Bench::new(cgroup);
    // The agent kills its parent, which is the keeper; a helper in the same session stays.
    let turn =
        bench.sh("(while :; do sleep 1; done) & touch ready; kill -KILL $PPID; while :; do sleep 1; done");
    let error = block_on(run(turn, &mut |_, _: &[u8]| {}, never())).unwrap_err();
    let Error::Lost { how, .. } = &error else { panic!("{error}") };
    assert_eq!(how, "signal 9");
    until("the session to be gone", || bench.marked().is_empty());
    bench.assert_nothing_left();
}

fn an_agent_cannot_signal_its_keeper(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let end = finish(bench.sh(
        "trap '' TERM HUP INT; kill -TERM 0; kill -HUP $PPID; kill -INT $PPID; kill -TERM $PPID; exit 4",
    ));
    assert_eq!(end.exit, Exit::Code(4));
    let end = finish(bench.sh("kill -KILL 0"));
    assert_eq!(end.exit, Exit::Signal(9));
    bench.assert_nothing_left();
}

fn one_keeper_at_a_time_holds_a_directory(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let first = bench.sh("touch ready; while [ ! -e go ]; do sleep 0.02; done");
    block_on(async {
        let mut ignore = |_: Stream, _: &[u8]| {};
        let mut ignore_too = |_: Stream, _: &[u8]| {};
        let first = run(first, &mut ignore, never());
        let second = async {
            until_exists(&bench.path("ready")).await;
            let refused = run(bench.sh("touch second"), &mut ignore_too, never()).await;
            assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
            fs::write(bench.path("go"), "").unwrap();
        };
        assert_eq!(tokio::join!(first, second).0.unwrap().exit, Exit::Code(0));
    });
    assert!(!bench.path("second").exists());
    bench.assert_nothing_left();
}

fn much_output_costs_little(cgroup: bool) {
    const MUCH: u64 = 256 * 1024 * 1024;
    let bench = Bench::new(cgroup);
    let mut log = LogFile::open(&bench.path("log")).unwrap();
    // One endless line of invalid UTF-8.
    let turn = bench.sh(&format!("head -c {MUCH} /dev/zero | tr '\\0' '\\377'; echo oops >&2"));
    let before = peak_memory();
    let end = block_on(run(turn, &mut log, never())).unwrap();
    // Other tests run at the same time in this process, so this is a coarse measure.
    let grown = peak_memory() - before;
    assert!(grown < MUCH / 2, "memory grew by {grown}");
    assert_eq!(end.exit, Exit::Code(0));
    assert_eq!(log.written(), MUCH + 5);
    assert!(fs::metadata(bench.path("log")).unwrap().len() <= 16 * 1024 * 1024 + 64);
    let all = LogReader::open(&bench.path("log")).unwrap().read_all().unwrap();
    assert!(all.starts_with(b"\xff\xff") && all.ends_with(b"oops\n"));
    assert!(end.stdout.to_bytes().len() < 1200 * 1024);
    assert_eq!(end.stdout.dropped(), MUCH - (1024 + 64) * 1024);
}

/// The most memory that this process ever had, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

fn a_brief_that_is_never_read_hurts_nobody(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let mut turn = bench.sh("exec 0<&-; echo fine");
    turn.stdin = vec![b'x'; 256 * 1024];
    let end = finish(turn.clone());
    assert_eq!((end.exit, stdout(&finish(turn))), (Exit::Code(0), "fine\n".to_owned()));
    let mut turn = bench.sh("wc -c");
    turn.stdin = vec![b'x'; 256 * 1024];
    assert_eq!(stdout(&finish(turn)).trim(), "262144");
}

fn closed_outputs_are_not_the_end(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let end = finish(bench.sh("exec 1>&- 2>&-; sleep 0.1; touch later; exit 5"));
    assert_eq!(end.exit, Exit::Code(5));
    assert!(bench.path("later").exists());
}

fn exec_reads_the_result_file(cgroup: bool) {
    let bench = Bench::new(cgroup);
    let attempt = bench.path("attempt");
    fs::create_dir(&attempt).unwrap();
    let script = r#"
        cmp -s "$ENSEMBLE_PROMPT_FILE" - || exit 9
        [ -d "$HOME" ] || exit 8
        echo '{"status": "SUCCESS", "summary": "made it", "usage": {"total_tokens": 5}}' > "$ENSEMBLE_RESULT_FILE"
    "#;
    let request = Request {
        brief: "do it".to_owned(),
        session: None,
        worktree: bench.dir.path().to_owned(),
        attempt: attempt.clone(),
        env: environment_with(&bench.mark),
        time_limit: Duration::from_secs(60),
    };
    let exec = |script: &str| Exec {
        keeper: keeper_command(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        grace: Exec::GRACE,
    };
    let mut ignore = |_: Stream, _: &[u8]| {};
    let reply = block_on(exec(script).turn(request.clone(), &mut ignore, never())).unwrap();
    assert_eq!(reply.reading.outcome.ending, Ending::Done);
    assert_eq!(reply.reading.outcome.summary.head(), "made it");
    assert_eq!(reply.reading.outcome.usage.total_tokens, 5);
    // What the first turn said is not the second's word.
    let reply = block_on(exec("exit 1").turn(request.clone(), &mut ignore, never())).unwrap();
    assert_eq!(reply.reading.outcome.ending, Ending::Failed);
    // A pipe that nobody writes must not be waited for.
    let script = "mkfifo \"$ENSEMBLE_RESULT_FILE\"";
    let reply = block_on(exec(script).turn(request, &mut ignore, never())).unwrap();
    assert_eq!(reply.reading.outcome.ending, Ending::Failed);
    assert!(lock_is_free(&Exec::lock(&attempt)));
}

fn many_turns_at_once(cgroup: bool) {
    let benches: Vec<Bench> = (0..16).map(|_| Bench::new(cgroup)).collect();
    block_on(async {
        let mut turns = tokio::task::JoinSet::new();
        for (number, bench) in benches.iter().enumerate() {
            let turn = bench.sh(&format!("(setsid sleep 60 &) ; echo {number}; exit {number}"));
            turns.spawn(async move { (number, run(turn, &mut |_, _: &[u8]| {}, never()).await.unwrap()) });
        }
        while let Some(done) = turns.join_next().await {
            let (number, end) = done.unwrap();
            assert_eq!(end.exit, Exit::Code(i32::try_from(number).unwrap()));
            assert_eq!(stdout(&end), format!("{number}\n"));
            assert_eq!(end.left_behind, 1);
        }
    });
    benches.iter().for_each(Bench::assert_nothing_left);
}
