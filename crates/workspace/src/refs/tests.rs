//! Compare-and-swap of refs, alone and among many writers.
//! Leftover locks and names in the way must be told apart from lost races.

use std::{fs, thread};

use super::*;
use crate::testing::{Bench, git};

const NAME: &str = "refs/ensemble/run/task/1";

fn two(bench: &Bench) -> (CommitId, CommitId) {
    let first = bench.commit(&[], &[("a", b"1")]);
    let second = bench.commit(&[&first], &[("a", b"2")]);
    (first, second)
}

#[test]
fn a_ref_moves_only_from_where_it_was_expected() {
    let bench = Bench::new();
    let (first, second) = two(&bench);
    let repository = &bench.repository;
    let moved = |result: Result<(), Error>| match result {
        Err(Error::Moved { now, .. }) => now,
        other => panic!("{other:?}"),
    };
    assert_eq!(moved(repository.update_ref(NAME, &first, &Expect::At(second.clone()))), None);
    repository.update_ref(NAME, &first, &Expect::Absent).unwrap();
    assert_eq!(repository.ref_target(NAME).unwrap(), Some(first.clone()));
    assert_eq!(moved(repository.update_ref(NAME, &second, &Expect::Absent)), Some(first.clone()));
    assert_eq!(moved(repository.update_ref(NAME, &second, &Expect::At(second.clone()))), Some(first.clone()));
    repository.update_ref(NAME, &second, &Expect::At(first.clone())).unwrap();
    // Already there: done, whatever was expected.
    for expect in [Expect::Absent, Expect::At(first.clone()), Expect::At(second.clone()), Expect::Any] {
        repository.update_ref(NAME, &second, &expect).unwrap();
    }
    repository.update_ref(NAME, &first, &Expect::Any).unwrap();
    assert_eq!(repository.refs("refs/ensemble/run/").unwrap(), [(NAME.to_owned(), first.clone())]);
    assert_eq!(repository.refs("refs/ensemble/runs/").unwrap(), []);
    assert_eq!(moved(repository.delete_ref(NAME, &Expect::At(second))), Some(first.clone()));
    repository.delete_ref(NAME, &Expect::At(first.clone())).unwrap();
    repository.delete_ref(NAME, &Expect::At(first)).unwrap();
    assert_eq!(repository.ref_target(NAME).unwrap(), None);
}

#[test]
fn packed_refs_count_as_well() {
    let bench = Bench::new();
    let (first, second) = two(&bench);
    bench.repository.update_ref(NAME, &first, &Expect::Absent).unwrap();
    git(bench.repository.path(), &["pack-refs", "--all"]);
    assert!(matches!(bench.repository.update_ref(NAME, &second, &Expect::Absent), Err(Error::Moved { .. })));
    bench.repository.update_ref(NAME, &second, &Expect::At(first)).unwrap();
    assert_eq!(bench.repository.refs("refs/").unwrap(), [(NAME.to_owned(), second.clone())]);
    bench.repository.delete_ref(NAME, &Expect::At(second)).unwrap();
    assert_eq!(bench.repository.refs("refs/").unwrap(), []);
}

#[test]
fn bad_names_names_in_the_way_and_unknown_commits_are_told_apart() {
    let bench = Bench::new();
    let (first, _) = two(&bench);
    let update = |name: &str| bench.repository.update_ref(name, &first, &Expect::Absent);
    update("refs/heads/a").unwrap();
    update("refs/heads/b/c").unwrap();
    for name in ["refs/heads/a/b", "refs/heads/b", "refs/heads/a..b", "heads/x", "refs/heads/x.lock", "HEAD"]
    {
        let refused = update(name);
        assert!(matches!(refused, Err(Error::BadName { .. })), "{name}: {refused:?}");
    }
    let unknown = CommitId::new("0123456789012345678901234567890123456789").unwrap();
    let refused = bench.repository.update_ref("refs/heads/x", &unknown, &Expect::Any);
    assert!(matches!(refused, Err(Error::NoSuchCommit { .. })), "{refused:?}");
}

#[test]
fn a_lock_that_was_left_behind_is_named_within_seconds() {
    let bench = Bench::new();
    let (first, _) = two(&bench);
    let lock = bench.repository.path().join(format!("{NAME}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(lock, "").unwrap();
    let start = Instant::now();
    let refused = bench.repository.update_ref(NAME, &first, &Expect::Absent);
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert!(start.elapsed() < LOCK_PATIENCE * 3);
}

#[test]
fn who_alone_writes_some_refs_clears_their_locks() {
    let bench = Bench::new();
    let (first, second) = two(&bench);
    let lock = |name: &str| {
        let lock = bench.repository.path().join(format!("{name}.lock"));
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(&lock, "").unwrap();
        lock
    };
    let (ours, below) = (lock("refs/heads/run/1"), lock("refs/ensemble/1/task/1"));
    let theirs = lock("refs/heads/run/2");
    bench.repository.update_ref("refs/ensemble/1/task/2", &first, &Expect::Absent).unwrap();
    for name in ["refs/heads/run/1", "refs/ensemble/1", "refs/nothing/here"] {
        bench.repository.clear_locks(name).unwrap();
    }
    assert!(!ours.exists() && !below.exists() && theirs.exists());
    bench.repository.update_ref("refs/heads/run/1", &second, &Expect::Absent).unwrap();
    let kept = bench.repository.ref_target("refs/ensemble/1/task/2").unwrap();
    assert_eq!(kept, Some(first), "refs are left alone");
}

#[test]
fn many_writers_of_one_ref_never_lose_an_update() {
    const WRITERS: usize = 4;
    const EACH: usize = 15;
    let bench = Bench::new();
    let root = bench.repository.empty_root().unwrap();
    bench.repository.update_ref(NAME, &root, &Expect::Absent).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let bench = &bench;
            scope.spawn(move || {
                for step in 0..EACH {
                    // Each puts its own commit on top of what it saw, until it wins.
                    loop {
                        let seen = bench.repository.ref_target(NAME).unwrap().unwrap();
                        let text = format!("{writer} {step}");
                        let next = bench.commit(&[&seen], &[("a", text.as_bytes())]);
                        match bench.repository.update_ref(NAME, &next, &Expect::At(seen)) {
                            Ok(()) => break,
                            Err(Error::Moved { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let count = git(bench.repository.path(), &["rev-list", "--count", NAME]);
    assert_eq!(count.trim(), (WRITERS * EACH + 1).to_string());
}

#[test]
fn a_repository_may_be_made_by_many_at_once() {
    let bench = Bench::new();
    let path = bench.path("deep/new");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| crate::Repository::open_or_create(&path).unwrap().empty_root().unwrap());
        }
    });
    assert_eq!(fs::read_dir(bench.path("deep")).unwrap().count(), 1);
    let root = crate::Repository::open_or_create(&path).unwrap().empty_root().unwrap();
    assert_eq!(root, bench.repository.empty_root().unwrap());
    assert_eq!(bench.repository.list_files(&root).unwrap(), [] as [&str; 0]);
    let repository = crate::Repository::open_or_create(&path).unwrap().git().unwrap();
    assert!(repository.config().unwrap().get_bool("core.fsyncobjectfiles").unwrap(), "safe from power cuts");
    assert!(!fs::read_to_string(path.join("config")).unwrap().contains("fsync"), "git warns of that key");
}

#[test]
fn an_old_lock_on_a_ref_of_ours_is_broken_and_one_of_the_users_never() {
    let bench = Bench::new();
    let (first, _) = two(&bench);
    let repository = &bench.repository;
    for (name, broken) in [("refs/ensemble/base/x", true), ("refs/heads/main2", false)] {
        let lock = repository.path().join(format!("{name}.lock"));
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let file = fs::File::create(&lock).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * LOCK_AGE).unwrap();
        let result = repository.update_ref(name, &first, &Expect::Absent);
        assert_eq!(result.is_ok(), broken, "{result:?}");
        assert_eq!(lock.exists(), !broken);
    }
}
