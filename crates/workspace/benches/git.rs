//! What working copies cost, on a generated repository of 20 000 files of which 60 changed: making
//! one, capturing what an attempt left in it, merging two attempts. Each beside the least that such
//! a step must do: a walk that looks at every file, libgit2's own difference of the two trees.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that goes wrong stops")]
#![allow(missing_docs, reason = "criterion makes its entry point")]

use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use ensemble_core::ids::CommitId;
use ensemble_workspace::{CaptureNote, Merge, MergeNote, Repository, Worktree};
use git2::Oid;

/// Folders at the top, folders in each, files in each of those: 20 000 files.
const SHAPE: [u32; 3] = [20, 10, 100];

/// Files that each side changes, in as many folders.
const CHANGED: u32 = 60;

/// Size of a file, in bytes.
const SIZE: usize = 2_000;

/// A mirror with a commit of all files.
struct Bench {
    folder: tempfile::TempDir,
    mirror: Repository,
    base: CommitId,
}

fn text(number: u32, version: u32) -> String {
    let line = format!("line of file {number}, version {version}\n");
    line.repeat(SIZE / line.len())
}

fn path(number: u32) -> String {
    let [_, folders, files] = SHAPE;
    format!("d{}/e{}/f{number}.txt", number / (folders * files), number / files % folders)
}

/// Files spread over the repository: those of different sides lie in the same folders.
fn changed(side: u32) -> impl Iterator<Item = u32> {
    let all: u32 = SHAPE.iter().product();
    (0..CHANGED).map(move |step| step * (all / CHANGED) + side)
}

impl Bench {
    /// On the disk of the build directory: a temporary folder may lie in memory.
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mirror = Repository::open_or_create(folder.path().join("mirror")).unwrap();
        let base = import(&mirror);
        Self { folder, mirror, base }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn capture(&self, worktree: &Worktree) -> CommitId {
        let note = CaptureNote {
            author: "writer".into(),
            message: "Change files".into(),
            trailers: Vec::new(),
            time_ms: 1_796_000_000_000,
            outputs: Vec::new(),
        };
        let capture = worktree.capture(&self.mirror, &self.base, &note).unwrap();
        assert_eq!(capture.changes.files, CHANGED);
        capture.commit.unwrap()
    }
}

/// Stores all files in one pack, as an import does, and gives the commit.
fn import(mirror: &Repository) -> CommitId {
    let repo = git2::Repository::open_bare(mirror.path()).unwrap();
    let odb = repo.odb().unwrap();
    let memory = odb.add_new_mempack_backend(1_000).unwrap();
    let mut folders: BTreeMap<String, Vec<(String, Oid)>> = BTreeMap::new();
    for number in 0..SHAPE.iter().product() {
        let id = repo.blob(text(number, 0).as_bytes()).unwrap();
        let path = path(number);
        let (folder, name) = path.rsplit_once('/').unwrap();
        folders.entry(folder.to_owned()).or_default().push((name.to_owned(), id));
    }
    let mut tops: BTreeMap<String, Vec<(String, Oid)>> = BTreeMap::new();
    for (folder, files) in folders {
        let (top, name) = folder.split_once('/').unwrap();
        tops.entry(top.to_owned()).or_default().push((name.to_owned(), tree(&repo, &files, 0o100_644)));
    }
    let tops: Vec<_> = tops.into_iter().map(|(name, below)| (name, tree(&repo, &below, 0o040_000))).collect();
    let root = repo.find_tree(tree(&repo, &tops, 0o040_000)).unwrap();
    let who = git2::Signature::new("bench", "bench@localhost", &git2::Time::new(1, 0)).unwrap();
    let commit = repo.commit(None, &who, &who, "Import\n", &root, &[]).unwrap();
    let mut pack = git2::Buf::new();
    memory.dump(&repo, &mut pack).unwrap();
    let disk = git2::Repository::open_bare(mirror.path()).unwrap();
    let odb = disk.odb().unwrap();
    let mut writer = odb.packwriter().unwrap();
    std::io::Write::write_all(&mut writer, &pack).unwrap();
    writer.commit().unwrap();
    CommitId::new(commit.to_string()).unwrap()
}

fn tree(repo: &git2::Repository, entries: &[(String, Oid)], mode: i32) -> Oid {
    let mut builder = repo.treebuilder(None).unwrap();
    for (name, id) in entries {
        builder.insert(name, *id, mode).unwrap();
    }
    builder.write().unwrap()
}

/// Looks at everything below `folder` and counts the files.
fn look(folder: &Path) -> u32 {
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let seen = entry.metadata().unwrap();
        if !seen.is_dir() {
            files += u32::from(seen.len() > 0);
        } else if entry.file_name() != ".git" {
            files += look(&entry.path());
        }
    }
    files
}

/// The time that `work` takes, `rounds` times, what it makes taken away off the clock.
fn timed<T>(rounds: u64, mut work: impl FnMut() -> T, mut after: impl FnMut(T)) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        let began = Instant::now();
        let made = work();
        total += began.elapsed();
        after(made);
    }
    total
}

fn git(criterion: &mut Criterion) {
    let bench = Bench::new();
    let mut group = criterion.benchmark_group("git");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(3));

    let worktree = Worktree::create(&bench.mirror, bench.path("attempt"), &bench.base).unwrap();
    let side = |side: u32| {
        // The other side's files as they were; what is written counts as changed until it is captured.
        for (number, version) in changed(1 - side).map(|n| (n, 0)).chain(changed(side).map(|n| (n, 1))) {
            fs::write(worktree.path().join(path(number)), text(number, version)).unwrap();
        }
        bench.capture(&worktree)
    };
    let [ours, theirs] = [0, 1].map(side);

    group.bench_function("capture/stat_walk", |bencher| {
        bencher.iter(|| assert_eq!(look(worktree.path()), SHAPE.iter().product::<u32>()));
    });
    group.bench_function("capture/ensemble", |bencher| {
        bencher.iter(|| bench.capture(&worktree));
    });

    let repo = git2::Repository::open_bare(bench.mirror.path()).unwrap();
    let tree_of =
        |id: &CommitId| repo.find_commit(Oid::from_str(id.as_str()).unwrap()).unwrap().tree().unwrap();
    group.bench_function("merge/tree_diff", |bencher| {
        bencher.iter(|| {
            let (old, new) = (tree_of(&ours), tree_of(&theirs));
            let diff = repo.diff_tree_to_tree(Some(&old), Some(&new), None).unwrap();
            assert_eq!(black_box(diff).deltas().len(), 2 * CHANGED as usize);
        });
    });
    let mut time_ms = 1_796_000_000_000;
    group.bench_function("merge/ensemble", |bencher| {
        bencher.iter(|| {
            // Another time for each, so that its commit has to be written.
            time_ms += 1_000;
            merge(&bench, &ours, &theirs, time_ms);
        });
    });
    // Last, since it takes by far the longest.
    group.bench_function("ready/fresh_checkout", |bencher| {
        let make = || Worktree::create(&bench.mirror, bench.path("fresh"), &bench.base).unwrap();
        bencher.iter_custom(|rounds| timed(rounds, make, |made| made.remove().unwrap()));
    });
    group.finish();
}

fn merge(bench: &Bench, ours: &CommitId, theirs: &CommitId, time_ms: u64) {
    let note = MergeNote {
        subject: "Merge".into(),
        body: String::new(),
        trailers: Vec::new(),
        author_name: "ensemble".into(),
        author_email: "ensemble@localhost".into(),
        time_ms,
    };
    let merged = bench.mirror.merge(ours, theirs, &bench.base, &note).unwrap();
    assert!(matches!(merged, Merge::Clean { changes, .. } if changes.files == CHANGED));
}

criterion_group!(benches, git);
criterion_main!(benches);
