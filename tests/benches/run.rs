//! What a task costs besides its agent: a run of 200 tasks that do nothing, 8 at a time, against
//! `make -j8` of the same commands. The binary must have been built for release before.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that goes wrong stops")]
#![allow(missing_docs, reason = "criterion makes its entry point")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Tasks of the run, none of which depends on another.
const TASKS: u32 = 200;

/// Tasks at a time.
const SLOTS: u32 = 8;

/// The binary as `cargo build --release -p ensemble` puts it: beside the folder of this benchmark.
fn binary() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("ensemble");
    assert!(path.exists(), "{} is not there: cargo build --release -p ensemble", path.display());
    path
}

/// Runs a command in `folder`; it must succeed.
fn run(folder: &Path, program: impl AsRef<Path>, arguments: &[&str]) -> Duration {
    let mut command = Command::new(program.as_ref());
    command.current_dir(folder).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let began = Instant::now();
    let output = command.output().unwrap();
    let took = began.elapsed();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}{stderr}", String::from_utf8_lossy(&output.stdout));
    took
}

/// A repository with a team whose only employee does nothing, a plan and a makefile of it.
fn project(folder: &Path, files: bool) {
    let worktree = if files { "" } else { ", worktree: none" };
    let mut plan = "project_scope: Do nothing\nsub_tasks:\n".to_owned();
    let mut make = ".PHONY: all\n".to_owned();
    for task in 0..TASKS {
        writeln!(plan, "  - {{ id: t{task}, description: Do nothing, agent_type: idler{worktree} }}")
            .unwrap();
        write!(make, ".PHONY: t{task}\nall: t{task}\nt{task}:\n\t@sh -c true\n").unwrap();
    }
    let team = format!(
        "name: idle\ndescription: Nobody does anything\nemployees:\n  - id: idler\n    description: Idle\n    \
         type: idler\n    slots: {SLOTS}\n    timeout: 1m\n    backend: {{ kind: exec, command: [sh, -c, \
         \"true\"] }}\n"
    );
    for (name, text) in [("team.yaml", &team), ("plan.yaml", &plan), ("Makefile", &make)] {
        fs::write(folder.join(name), text).unwrap();
    }
    run(folder, "git", &["init", "-q"]);
    run(folder, "git", &["add", "-A"]);
    let user = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    run(folder, "git", &[&user[..], &["commit", "-q", "-m", "Begin"]].concat());
}

fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("run");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(10));
    group.throughput(Throughput::Elements(TASKS.into()));
    let slots = format!("-j{SLOTS}");
    for (name, files) in [("ensemble", true), ("ensemble_no_worktree", false)] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        project(folder.path(), files);
        if files {
            group.bench_function("make", |bencher| {
                bencher.iter_custom(|rounds| {
                    (0..rounds).map(|_| run(folder.path(), "make", &["-s", &slots, "all"])).sum()
                });
            });
        }
        let data = folder.path().join(".git/data");
        let arguments = ["run", "--plan", "plan.yaml", "--data", data.to_str().unwrap()];
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| run(folder.path(), binary(), &arguments)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
