//! Every fault point, one after the other: the process ends there, or what it did there is taken for
//! undone. The run is resumed to its end each time, and everything is held against everything.

use std::{collections::BTreeSet, process::Command, thread};

use ensemble_tests::{Plan, Started, Team, World, tell};
use serde_json::json;

/// How many worlds are under way at once.
const LANES: usize = 2;

/// How often a run may have to be resumed after one fault.
const RESUMES: usize = 4;

/// What happened to the first process of a world.
struct Seen {
    point: String,
    kind: &'static str,
    pass: usize,
    hit: bool,
}

fn team() -> Team {
    Team::of(2)
}

/// A diamond, with a check on one side and a summary too long for a fact at the top.
fn plan() -> Plan {
    Plan::new()
        .task("top", &[])
        .doing("work\nhead -c 50000 /dev/zero | tr '\\0' s\n")
        .task_with(
            "left",
            &["top"],
            json!({ "checks": ["test -f work/left.txt"], "outputs": ["work/left.txt"] }),
        )
        .task("right", &["top"])
        .task("bottom", &["left", "right"])
}

/// The fault points of the binary.
fn points() -> Vec<String> {
    let world = World::new();
    let listed = world.ensemble(&["doctor", "--fault-points"]).expect(0).stdout;
    let points: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
    assert!(points.len() >= 10, "{points:?}");
    assert_eq!(points.iter().collect::<BTreeSet<_>>().len(), points.len(), "a point is listed twice");
    points
}

#[test]
fn every_point_survives_an_abort_and_a_lost_answer() {
    let mut cases = Vec::new();
    for point in points() {
        for kind in ["abort", "done-then-error", "error"] {
            cases.push((point.clone(), kind, 1));
        }
        // The second pass comes at another moment of the run, often the one that hurts.
        cases.push((point.clone(), "abort", 2));
    }
    let count = cases.len();
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let own: Vec<_> = cases.iter().skip(lane).step_by(LANES).collect();
                scope.spawn(move || {
                    own.into_iter().map(|(point, kind, pass)| survive(point, kind, *pass)).collect()
                })
            })
            .collect();
        for lane in lanes {
            let of_lane: Vec<Seen> = lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            seen.extend(of_lane);
        }
    });
    assert_eq!(seen.len(), count);
    // An abort that does not abort was never reached. Where the abort strikes, the other kinds do: they
    // stand at the same place, or right behind it.
    let missed: Vec<_> = seen
        .iter()
        .filter(|one| one.kind == "abort" && one.pass == 1 && !one.hit)
        .map(|one| &one.point)
        .collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

/// One world, one fault, then resumed until it is delivered.
fn survive(point: &str, kind: &'static str, pass: usize) -> Seen {
    let world = World::new();
    world.set_up(&team(), &plan());
    let fault = format!("{point}:{pass}:{kind}");
    let mut command: Command = world.run_command(&[]);
    command.env("ENSEMBLE_FAULT", &fault);
    let mut ended = wait(world.launch(command));
    let hit = ended.signal() == Some(nix::sys::signal::Signal::SIGABRT as i32);
    tell(&format!("{fault}: {}", ended.status));
    if hit {
        world.nobody_left(&[]);
    }
    let mut tries = 0;
    let run = loop {
        let known = world.ensemble(&["ps", "-o", "json"]);
        let newest = if known.code() == Some(0) { known.json()[0].clone() } else { json!(null) };
        match (newest["id"].as_str(), newest["state"].as_str()) {
            (Some(run), Some("delivered")) => break run.to_owned(),
            (Some(run), _) => ended = wait(world.start(&["resume", run, "-o", "json"])),
            // The fault came before the run was written down: nothing was promised.
            (None, _) => ended = wait(world.start_run(&[])),
        }
        tries += 1;
        assert!(tries <= RESUMES, "{fault}: not delivered after {RESUMES} resumes; last: {ended}");
    };
    if world.git.resolve(&format!("ensemble/{run}")).is_none() {
        let _ = world.ensemble(&["fetch", &run]).expect(0);
    }
    let what = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.evidence(&run).delivered(&team(), &plan());
    }));
    assert!(what.is_ok(), "{fault}: see above; the first process: {ended}");
    Seen { point: point.to_owned(), kind, pass, hit }
}

fn wait(started: Started) -> ensemble_tests::Finished {
    started.wait(std::time::Duration::from_secs(60))
}

/// A point that does not exist is refused: a test that believes in it would prove nothing.
#[test]
fn a_fault_that_can_not_be_set_is_refused() {
    let world = World::new();
    world.set_up(&Team::of(1), &Plan::new().task("a", &[]));
    for wish in
        ["journal.apend:1:abort", "journal.append", "journal.append:0:abort", "journal.append:1:explode"]
    {
        let mut command = world.run_command(&[]);
        command.env("ENSEMBLE_FAULT", wish);
        let refused = wait(world.launch(command)).expect(2);
        assert!(refused.says("ENSEMBLE_FAULT") || refused.says("--fault-points"), "{refused}");
    }
    assert!(world.agents().is_empty());
}
