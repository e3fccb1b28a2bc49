//! The pool as its attempts see it, and as a process finds it that was started after another's death.

use ensemble_workspace::CaptureNote;

use super::*;

struct Bench {
    home: tempfile::TempDir,
    mirror: Repository,
    lock: Arc<File>,
    base: CommitId,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mirror = Repository::open_or_create(home.path().join("shop.git")).unwrap();
        let empty = mirror.empty_root().unwrap();
        let worktree = Worktree::create(&mirror, home.path().join("first"), &empty).unwrap();
        fs::write(worktree.path().join(".gitignore"), "target/\n").unwrap();
        fs::write(worktree.path().join("a"), "a\n").unwrap();
        let note = CaptureNote {
            author: "back".into(),
            message: "First".into(),
            trailers: vec![],
            time_ms: 0,
            outputs: vec![],
        };
        let base = worktree.capture(&mirror, &empty, &note).unwrap().commit.unwrap();
        let lock = Arc::new(File::create(home.path().join("lock")).unwrap());
        Self { mirror, lock, base, home }
    }

    fn free(&self) -> PathBuf {
        self.home.path().join("free")
    }

    fn pool(&self, slots: usize) -> Pool {
        Pool::open(self.free(), slots, &self.lock).unwrap()
    }

    fn take(&self, pool: &Pool, name: &str, owner: &Owner, keep: bool) -> Worktree {
        let what = (&repository(), &self.base);
        pool.take(&self.mirror, what, (owner, keep), &self.home.path().join(name).join("work")).unwrap()
    }
}

fn repository() -> RepositoryId {
    format!("{}-shop", "1".repeat(40)).parse().unwrap()
}

fn employee(id: &str) -> Owner {
    Owner::Employee(EmployeeId::new(id).unwrap())
}

/// Tells copies apart: a file that is not written again has the same inode.
fn inode(worktree: &Worktree) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(worktree.path()).unwrap())
}

/// What an attempt leaves: a change, something untracked, something ignored.
fn use_up(worktree: &Worktree) {
    fs::write(worktree.path().join("a"), "changed\n").unwrap();
    fs::write(worktree.path().join("secret"), "mine\n").unwrap();
    fs::create_dir_all(worktree.path().join("target")).unwrap();
    fs::write(worktree.path().join("target/built"), "built\n").unwrap();
}

fn left(worktree: &Worktree) -> [bool; 3] {
    let changed = fs::read_to_string(worktree.path().join("a")).unwrap() != "a\n";
    [changed, worktree.path().join("secret").exists(), worktree.path().join("target/built").exists()]
}

#[test]
fn a_copy_is_used_again_and_nobody_finds_what_another_left() {
    let bench = Bench::new();
    let pool = bench.pool(2);
    let (back, front) = (employee("back"), employee("front"));
    let first = bench.take(&pool, "1", &back, true);
    let which = inode(&first);
    use_up(&first);
    pool.put(first, &repository(), &back).unwrap();

    let second = bench.take(&pool, "2", &back, true);
    assert_eq!((inode(&second), left(&second)), (which, [false, false, true]), "its own build is there");
    pool.put(second, &repository(), &back).unwrap();

    let third = bench.take(&pool, "3", &front, true);
    assert_eq!((inode(&third), left(&third)), (which, [false; 3]), "another's is not");
    use_up(&third);
    pool.put(third, &repository(), &front).unwrap();
    let fourth = bench.take(&pool, "4", &front, false);
    assert_eq!((inode(&fourth), left(&fourth)), (which, [false; 3]), "nor one's own, unasked");
}

#[test]
fn two_attempts_never_have_one_copy() {
    let bench = Bench::new();
    let pool = bench.pool(2);
    let back = employee("back");
    let first = bench.take(&pool, "1", &back, false);
    pool.put(first, &repository(), &back).unwrap();
    let (one, two) = (bench.take(&pool, "2", &back, false), bench.take(&pool, "3", &back, false));
    assert_ne!(inode(&one), inode(&two));
    assert!(below(&bench.free()).unwrap().is_empty(), "what was handed out leaves no trace");
}

#[test]
fn another_repository_gets_a_copy_of_its_own() {
    let bench = Bench::new();
    let pool = bench.pool(2);
    let other: RepositoryId = format!("{}-other", "1".repeat(40)).parse().unwrap();
    let first = bench.take(&pool, "1", &Owner::Check, false);
    let which = inode(&first);
    pool.put(first, &other, &Owner::Check).unwrap();
    assert_ne!(inode(&bench.take(&pool, "2", &Owner::Check, false)), which);
}

#[test]
fn no_more_are_kept_than_there_are_slots_and_the_oldest_goes_first() {
    let bench = Bench::new();
    let pool = bench.pool(2);
    let all: Vec<_> = (0..3).map(|n| bench.take(&pool, &n.to_string(), &Owner::Check, false)).collect();
    let oldest = inode(&all[0]);
    for worktree in all {
        pool.put(worktree, &repository(), &Owner::Check).unwrap();
    }
    assert_eq!(below(&bench.free()).unwrap().len(), 2);
    let kept: Vec<_> = (3..5).map(|n| bench.take(&pool, &n.to_string(), &Owner::Check, false)).collect();
    assert!(kept.iter().all(|worktree| inode(worktree) != oldest));
}

#[test]
fn a_new_process_finds_what_is_whole_and_deletes_the_rest() {
    let bench = Bench::new();
    let pool = bench.pool(8);
    let all: Vec<_> = (0..5).map(|n| bench.take(&pool, &n.to_string(), &Owner::Check, false)).collect();
    for worktree in all {
        pool.put(worktree, &repository(), &Owner::Check).unwrap();
    }
    let places = below(&bench.free()).unwrap();
    drop(pool);
    // Killed while it was recycled, while it was taken in, before its description was written, and
    // left from before the machine was started.
    fs::remove_file(places[0].join("work.index")).unwrap();
    fs::rename(places[1].join("work"), bench.home.path().join("elsewhere")).unwrap();
    fs::write(places[2].join("whose"), "").unwrap();
    let whose = fs::read_to_string(places[3].join("whose")).unwrap();
    fs::write(places[3].join("whose"), whose.replace(&boot(), "another")).unwrap();

    let pool = bench.pool(8);
    let kept = below(&bench.free()).unwrap();
    assert!(!kept.iter().any(|path| places[1..4].contains(path)), "{kept:?}");
    // The one without its record is found out when it is to be used.
    for name in ["6", "7"] {
        assert_eq!(left(&bench.take(&pool, name, &Owner::Check, false)), [false; 3]);
    }
    assert!(below(&bench.free()).unwrap().is_empty());
}

#[test]
fn without_its_directorys_lock_a_pool_touches_nothing() {
    let bench = Bench::new();
    let pool =
        Pool::open(bench.free(), 2, &Arc::new(File::create(bench.home.path().join("x")).unwrap())).unwrap();
    let what = (&repository(), &bench.base);
    let path = bench.home.path().join("1/work");
    let taken = pool.take(&bench.mirror, what, (&Owner::Check, false), &path);
    assert!(matches!(taken, Err(Error::Gone(_))));
}
