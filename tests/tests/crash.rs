//! The process is killed at any moment, and `ensemble resume` goes on: the same tree, nothing accepted
//! twice, no agent left from before.

use std::{
    collections::BTreeMap,
    env, fs,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ensemble_tests::{Plan, Team, World, tell, within};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// How many moments.
const KILLS: usize = 20;

/// How many runs are under way at once.
const LANES: usize = 2;

/// Moments differ from one test run to the next; a failure is looked into with its seed.
fn seed() -> u64 {
    let given = env::var("ENSEMBLE_TEST_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
    })
}

fn team() -> Team {
    Team::of(4)
}

fn plan() -> Plan {
    Plan::random(50, 50)
}

/// A moment of a run: after so many lines in its agents' log, and a little later.
#[derive(Clone, Copy, Debug)]
struct Moment {
    lines: usize,
    later: Duration,
}

/// Twenty worlds, each killed once at a random moment of its run, each resumed to the same tree.
#[test]
fn a_run_survives_kill_at_any_moment() {
    let seed = seed();
    tell(&format!("ENSEMBLE_TEST_SEED={seed}"));
    let mut random = StdRng::seed_from_u64(seed);
    // An agent notes its start and its end: a hundred lines in all.
    let moments: Vec<Moment> = (0..KILLS)
        .map(|_| Moment {
            lines: random.random_range(0..=100),
            later: Duration::from_micros(random.random_range(0..80_000)),
        })
        .collect();
    thread::scope(|scope| {
        let lanes: Vec<_> = moments
            .chunks(KILLS.div_ceil(LANES))
            .map(|own| scope.spawn(move || own.iter().filter(|moment| killed_and_resumed(**moment)).count()))
            .collect();
        let lanes = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let during: usize = lanes.sum();
        assert!(
            during > KILLS / 2,
            "only {during} of {KILLS} kills came during the run: that proves too little"
        );
    });
}

/// Whether the kill came while the run was under way.
fn killed_and_resumed(moment: Moment) -> bool {
    let world = World::new();
    world.set_up(&team(), &plan());
    let mut started = world.start_run(&[]);
    within(Duration::from_secs(60), "the moment", || {
        (world.agents().len() >= moment.lines || started.has_ended()).then_some(())
    });
    // No condition is waited for here: this is the random part of the moment.
    thread::sleep(moment.later);
    let killed = started.kill();
    world.nobody_left(&[]);
    let runs = world.ensemble(&["ps", "-o", "json"]);
    let known = if runs.code() == Some(0) { runs.json()[0]["id"].as_str().map(str::to_owned) } else { None };
    let before = known.as_ref().map(|run| world.evidence(run).accepted());
    let during = killed.signal().is_some() && known.is_some();
    let count = before.as_ref().map_or(0, BTreeMap::len);
    tell(&format!("{moment:?}: {count} of 50 tasks accepted, during the run: {during}"));

    let run = match known {
        // It was killed before the run was written down: nothing was promised yet.
        None => world.run(&[]).expect(0).run(),
        Some(run) if world.show(&run)["state"] == "delivered" => {
            // The kill came after the end; the branch may not have come home yet.
            let _ = world.ensemble(&["fetch", &run]).expect(0);
            run
        }
        Some(run) => {
            let resumed = world.ensemble(&["resume", "-o", "json"]).expect(0).run();
            assert_eq!(resumed, run, "the only unfinished run");
            run
        }
    };
    let evidence = world.evidence(&run);
    evidence.delivered(&team(), &plan());
    for (task, attempt) in before.unwrap_or_default() {
        assert_eq!(evidence.accepted()[&task], attempt, "{task} was accepted and then done again");
    }
    during
}

/// One run, killed again and again, also while it is being resumed, gets done in the end.
#[test]
fn a_run_gets_done_however_often_it_is_killed() {
    const OFTEN: usize = 8;
    let seed = seed();
    tell(&format!("ENSEMBLE_TEST_SEED={seed}"));
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::new();
    world.set_up(&team(), &plan());
    let mut started = world.start_run(&[]);
    let first = within(Duration::from_secs(60), "the run's first word", || {
        assert!(!started.has_ended(), "{}", started.stderr());
        (!world.agents().is_empty()).then(|| world.newest())
    });
    for _ in 0..OFTEN {
        let goal = world.agents().len() + random.random_range(0..16);
        within(Duration::from_secs(60), "more work", || {
            (world.agents().len() >= goal || started.has_ended()).then_some(())
        });
        // The random part of the moment.
        thread::sleep(Duration::from_micros(random.random_range(0..50_000)));
        let _ = started.kill();
        world.nobody_left(&[]);
        world.evidence(&first).sound(&team(), &plan());
        started = world.start(&["resume", &first, "-o", "json"]);
    }
    let last = started.wait(Duration::from_secs(120));
    if world.show(&first)["state"] == "delivered" && last.code() != Some(0) {
        // It had been delivered before this resume: then that is said, and the branch is fetched.
        let _ = world.ensemble(&["fetch", &first]).expect(0);
    }
    world.evidence(&first).delivered(&team(), &plan());
}

/// The keeper ends what its agent started as soon as the process is gone.
#[test]
fn no_agent_outlives_the_process() {
    let world = World::new();
    let plan = Plan::new().task("a", &[]).doing(
        "trap '' TERM HUP INT\n\
         setsid sh -c 'trap \"\" TERM HUP; (sleep 600 & sleep 600)' &\n\
         (setsid sleep 600 &)\n\
         sleep 600\n",
    );
    world.set_up(&Team::of(1), &plan);
    let mut started = world.start_run(&[]);
    world.await_agent("start a", &mut started);
    let pid = started.pid();
    within(Duration::from_secs(10), "the agent's helpers", || {
        (world.census(&[pid]).alive.len() >= 5).then_some(())
    });
    let _ = started.kill();
    let began = Instant::now();
    world.nobody_left(&[]);
    tell(&format!("gone after {:?}", began.elapsed()));
}

/// Without a run that could go on there is nothing to resume; with several the right one must be named.
#[test]
fn resume_wants_to_know_which_run() {
    let world = World::new();
    let plan = Plan::new().task("a", &[]).doing("test -e \"$TEAM/go\" || sleep 600\nwork\n");
    world.set_up(&Team::of(1), &plan);
    let nothing = world.ensemble(&["resume"]).expect(2);
    assert!(nothing.says("no runs"), "{nothing}");

    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut started = world.start_run(&[]);
        let count = runs.len() + 1;
        within(Duration::from_secs(30), "its agent", || {
            assert!(!started.has_ended(), "{}", started.stderr());
            (world.agents().iter().filter(|line| line.starts_with("start a")).count() == count).then_some(())
        });
        if let Some(first) = runs.first() {
            assert!(started.stderr().contains(first), "unfinished runs are named: {}", started.stderr());
        }
        let _ = started.kill();
        world.nobody_left(&[]);
        runs.push(world.newest());
    }
    world.beside_team("go", "");

    let several = world.ensemble(&["resume"]).expect(2);
    assert!(several.says(&runs[0]) && several.says(&runs[1]), "both are named: {several}");
    let _ = world.ensemble(&["resume", &runs[0]]).expect(0);
    // Only one is left: it need not be named.
    let _ = world.ensemble(&["resume"]).expect(0);
    for run in &runs {
        world.evidence(run).delivered(&Team::of(1), &plan);
    }
    let _ = world.ensemble(&["resume"]).expect(2);
}

/// What an interrupted attempt had written is kept and named to the next one, which starts afresh.
#[test]
fn the_work_of_a_killed_attempt_is_kept_and_named() {
    let world = World::new();
    let plan = Plan::new().task("a", &[]).doing(
        "echo half >half.txt\n\
         if test \"$ENSEMBLE_ATTEMPT\" = 1; then echo ready >\"$TEAM/ready\"; sleep 600; fi\n\
         rm half.txt; cp \"$ENSEMBLE_PROMPT_FILE\" brief.md\n",
    );
    world.set_up(&Team::of(1), &plan);
    let started = world.start_run(&[]);
    within(Duration::from_secs(30), "half of the work", || world.path("team/ready").exists().then_some(()));
    let _ = started.kill();
    world.nobody_left(&[]);
    let run = world.ensemble(&["resume", "-o", "json"]).expect(0).run();
    let kept = format!("refs/ensemble/{run}/a/1");
    assert_eq!(world.kept().text(&kept, "half.txt").as_deref(), Some("half\n"));
    let brief = world.git.text(&format!("ensemble/{run}"), "brief.md").unwrap();
    assert!(brief.contains(&kept), "{brief}");
    assert_eq!(world.git.text(&format!("ensemble/{run}"), "half.txt"), None);
    let shown = world.show(&run);
    assert_eq!(shown["details"][0]["attempt"], 2, "{shown:#}");
}

/// A process that is killed while it moves a ref leaves the ref's lock; whoever goes on clears it.
#[test]
fn a_lock_that_a_killed_process_left_is_cleared() {
    let world = World::new();
    let team = Team::of(1);
    let plan =
        Plan::new().task("a", &[]).doing("test -e \"$TEAM/go\" || sleep 600\nwork\n").task("b", &["a"]);
    world.set_up(&team, &plan);
    let mut started = world.start_run(&[]);
    world.await_agent("start a", &mut started);
    let _ = started.kill();
    world.nobody_left(&[]);
    let run = world.newest();
    world.beside_team("go", "");
    let folder = world.kept().path().file_name().unwrap().to_owned();
    let mirror = world.data().join("nodes/1/mirrors").join(folder);
    for lock in [
        world.kept().path().join(format!("refs/heads/ensemble/{run}.lock")),
        world.kept().path().join(format!("refs/ensemble/{run}/a/2.lock")),
        mirror.join(format!("refs/ensemble/{run}/a/2.lock")),
    ] {
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(lock, "").unwrap();
    }
    let _ = world.ensemble(&["resume"]).expect(0);
    world.evidence(&run).delivered(&team, &plan);
}
