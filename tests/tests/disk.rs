//! A disk that fills up, and a journal that something else wrote to: what runs goes on, nothing is
//! lost, and what can't be done is refused with a word that helps. The disks are small ones in
//! memory, which only root may mount; others see the tests pass with a word that they did nothing.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use ensemble_tests::{Plan, Started, Team, World, task_of, tell, within};

const MIB: u64 = 1 << 20;

/// Between two places of a file that are damaged; no divisor of a page.
const STEP: usize = 211;

/// A world whose data lie on a disk of their own.
struct Disk {
    world: World,
    mount: PathBuf,
}

impl Disk {
    /// Nothing where no disk can be mounted.
    fn of(mib: u64) -> Option<Self> {
        let world = World::new();
        let mount = world.data();
        fs::create_dir(&mount).unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&mount).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            tell("skipped: no file system can be mounted here (root may)");
            return None;
        }
        Some(Self { world, mount })
    }

    /// Takes room until so many bytes are left, at most.
    fn fill(&self, left: u64) {
        let mut file = File::options().create(true).append(true).open(self.filler()).unwrap();
        let block = vec![0; 64 << 10];
        while free(&self.mount) > left {
            let most = usize::try_from(free(&self.mount) - left).unwrap().min(block.len());
            match file.write(&block[..most]) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return,
                written => drop(written.unwrap()),
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.mount.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.mount).output());
    }
}

/// Bytes that are free, as `df` has them.
fn free(folder: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().nth(1).unwrap().trim().parse().unwrap()
}

/// Two tasks, the first of which ends when the test says so.
fn chain(world: &World) -> Team {
    let hold = "until test -e \"$TEAM/go\"; do sleep 0.05; done\nwork\n";
    let team = Team::of(2);
    world.set_up(&team, &Plan::new().task("first", &[]).doing(hold).task("second", &["first"]));
    team
}

fn go(world: &World) {
    drop(world.beside_team("go", ""));
}

/// Waits until a run's task is in this state.
fn state(disk: &Disk, run: &str, task: &str, wanted: &str, of: &mut Started) {
    within(Duration::from_secs(60), &format!("{task} {wanted}"), || {
        assert!(!of.has_ended(), "ended early: {}\n{}", of.stdout(), of.stderr());
        let shown = disk.world.ensemble(&["show", run, "-o", "json"]);
        let shown = shown.status.success().then(|| shown.json())?;
        (task_of(&shown, task)["state"] == wanted).then_some(())
    });
}

fn said(of: &mut Started, word: &str) {
    within(Duration::from_secs(60), word, || {
        assert!(!of.has_ended(), "ended early: {}\n{}", of.stdout(), of.stderr());
        of.stderr().contains(word).then_some(())
    });
}

#[test]
fn on_a_disk_that_is_nearly_full_what_runs_goes_on_and_nothing_is_begun() {
    let Some(disk) = Disk::of(400) else { return };
    let team = chain(&disk.world);
    let mut run = disk.world.start_run(&[]);
    disk.world.await_agent("start first", &mut run);
    disk.fill(20 * MIB);
    said(&mut run, "256 MiB are needed to begin an attempt");
    let refused = disk.world.run(&[]);
    assert!(!refused.status.success(), "{}", refused.stdout);
    assert!(refused.stderr.contains("64 MiB are needed to begin a run"), "{}", refused.stderr);

    go(&disk.world);
    let id = disk.world.newest();
    state(&disk, &id, "first", "success", &mut run);
    assert!(!disk.world.agents().iter().any(|line| line.starts_with("start second")));
    disk.make_room();
    let done = run.wait(Duration::from_secs(60)).expect(0);
    let evidence = disk.world.evidence(&done.run());
    evidence.delivered(&team, &Plan::new().task("first", &[]).task("second", &["first"]));
    let refusals =
        disk.world.ensemble(&["events", &done.run(), "-o", "json"]).stdout.matches("refused").count();
    assert!(refusals < 3, "{refusals} refusals: the offer was not held back");
}

#[test]
fn on_a_disk_that_is_full_ends_and_facts_wait_for_room() {
    let Some(disk) = Disk::of(400) else { return };
    let team = chain(&disk.world);
    let mut run = disk.world.start_run(&[]);
    disk.world.await_agent("start first", &mut run);
    disk.fill(0);
    go(&disk.world);
    disk.world.await_agent("end first", &mut run);
    said(&mut run, "nothing new is begun");
    disk.make_room();
    let done = run.wait(Duration::from_secs(90)).expect(0);
    let evidence = disk.world.evidence(&done.run());
    evidence.delivered(&team, &Plan::new().task("first", &[]).task("second", &["first"]));
}

/// A delivered run, and the files of its journal as a kill left them: with a log.
fn killed(world: &World) -> String {
    let team = chain(world);
    let mut run = world.start_run(&[]);
    world.await_agent("start first", &mut run);
    let id = world.newest();
    run.signal(nix::sys::signal::Signal::SIGKILL);
    drop(run.wait(Duration::from_secs(10)));
    world.nobody_left(&[]);
    drop(team);
    id
}

fn journal(world: &World, name: &str) -> PathBuf {
    world.data().join(name)
}

#[test]
fn a_log_that_was_cut_off_anywhere_is_taken_up_to_its_last_whole_commit() {
    let world = World::new();
    let id = killed(&world);
    let log = journal(&world, "journal.db-wal");
    let whole = fs::read(&log).unwrap();
    assert!(whole.len() > 4096, "the kill left no log");
    go(&world);
    for part in [3, 2] {
        let saved = world.path(&format!("copy-{part}"));
        copy(&world.data(), &saved);
        let file = File::options().write(true).open(&log).unwrap();
        file.set_len(u64::try_from(whole.len() - whole.len() / (part * 7) - 11).unwrap()).unwrap();
        let _ = fs::remove_file(journal(&world, "journal.db-shm"));
        let shown = world.ensemble(&["show", &id, "-o", "json"]);
        // The cut may have taken the run's first facts with it; then it is unknown, which is said.
        assert!(shown.status.success() || shown.stderr.contains(&id), "{}", shown.stderr);
        fs::remove_dir_all(world.data()).unwrap();
        fs::rename(&saved, world.data()).unwrap();
    }
    let done = world.ensemble(&["resume", &id, "-o", "json"]).expect(0);
    world.evidence(&id).delivered(&chain(&world), &Plan::new().task("first", &[]).task("second", &["first"]));
    drop(done);
}

#[test]
fn a_flipped_byte_is_refused_with_a_word_or_changes_nothing_that_is_shown_as_sound() {
    let world = World::new();
    chain(&world);
    go(&world);
    let done = world.run(&[]).expect(0);
    let id = done.run();
    let sound = world.ensemble(&["events", &id, "-o", "json"]).expect(0).stdout;
    let database = journal(&world, "journal.db");
    let whole = fs::read(&database).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(STEP) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&database, &damaged).unwrap();
        for beside in ["journal.db-wal", "journal.db-shm"] {
            let _ = fs::remove_file(journal(&world, beside));
        }
        let shown = world.ensemble(&["events", &id, "-o", "json"]);
        if shown.status.success() && shown.stdout == sound {
            continue;
        }
        assert!(!shown.status.success(), "a flipped byte at {at} went unnoticed");
        refused += 1;
        assert!(
            ["journal.db", "damaged", "fact"].iter().any(|word| shown.stderr.contains(word)),
            "{}",
            shown.stderr
        );
        assert!(!shown.stderr.contains("panicked"), "{}", shown.stderr);
        assert_eq!(fs::read(&database).unwrap(), damaged, "bytes are kept");
    }
    tell(&format!("flipped bytes: {refused} refused of {}", whole.len().div_ceil(STEP)));
    assert!(refused > 0);
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}
