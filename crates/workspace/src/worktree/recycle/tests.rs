//! Recycled working copies against new ones: whatever was done to one before, it is the same
//! afterwards, down to the rights of every file and folder.

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::*;
use crate::testing::{Bench, git, write};

/// All that a folder holds: rights, kind and content by path. The index of `.git` holds times, so
/// git itself is asked about that one.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn walk(top: &Path, folder: &Path, out: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let seen = fs::symlink_metadata(&path).unwrap();
            let bytes = if seen.is_dir() {
                walk(top, &path, out);
                Vec::new()
            } else if seen.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                assert_eq!(seen.nlink(), 1, "{} has a second name", path.display());
                fs::read(&path).unwrap()
            };
            out.insert(path.strip_prefix(top).unwrap().to_owned(), (seen.mode(), bytes));
        }
    }
    let mut out = BTreeMap::new();
    walk(folder, folder, &mut out);
    assert!(out.remove(Path::new(".git/index")).is_some());
    out
}

fn recycle(bench: &Bench, base: &CommitId, keep_ignored: bool) -> Result<Worktree, Error> {
    Worktree::recycle(&bench.repository, bench.path("work/1"), base, keep_ignored)
}

fn create(bench: &Bench, base: &CommitId) -> Worktree {
    Worktree::create(&bench.repository, bench.path("work/1"), base).unwrap()
}

/// The recycled copy is what a new one would be, also to git.
fn assert_fresh(bench: &Bench, base: &CommitId) {
    let path = bench.path("new");
    let new = Worktree::create(&bench.repository, &path, base).unwrap();
    assert_eq!(snapshot(&bench.path("work/1")), snapshot(&path));
    assert_eq!(git(&bench.path("work/1"), &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(&bench.path("work/1"), &["rev-parse", "HEAD"]).trim(), base.as_str());
    new.remove().unwrap();
}

/// Waits until a file written now is older than the next one.
fn tick(bench: &Bench) {
    let [one, two] = ["tick-1", "tick-2"].map(|name| bench.path(name));
    let time = |path: &Path| {
        fs::write(path, "").unwrap();
        let seen = fs::metadata(path).unwrap();
        (seen.ctime(), seen.ctime_nsec())
    };
    let (first, deadline) = (time(&one), Instant::now() + Duration::from_secs(10));
    while time(&two) == first {
        assert!(Instant::now() < deadline);
    }
}

const FIRST: &[(&str, &[u8])] = &[
    (".gitignore", b"/target/\n*.log\n"),
    ("src/a.rs", b"a\n"),
    ("src/b.rs", b"b\n"),
    ("run.sh:100755", b"#!/bin/sh\n"),
    ("link:120000", b"src/a.rs"),
    ("docs/deep/er/page.md", b"x\n"),
    ("sub:160000", b"1111111111111111111111111111111111111111"),
];

const SECOND: &[(&str, &[u8])] = &[
    (".gitignore", b"/target/\n*.log\n"),
    ("src/a.rs", b"a\n"),
    ("src/b.rs:100755", b"b\n"),
    ("run.sh/main", b"a folder now\n"),
    ("link", b"a file now\n"),
    ("docs", b"a file where a folder was\n"),
    ("target/kept.txt", b"tracked although ignored\n"),
];

#[test]
fn what_is_the_same_is_not_written_again() {
    let bench = Bench::new();
    let [first, second] = [FIRST, SECOND].map(|files| bench.commit(&[], files));
    create(&bench, &first);
    tick(&bench);
    let inode = |path: &str| fs::symlink_metadata(bench.path("work/1").join(path)).unwrap().ino();
    // A record as young as the files is not trusted; from the second time on this one is older.
    recycle(&bench, &first, false).unwrap();
    tick(&bench);
    recycle(&bench, &first, false).unwrap();
    let before = [inode("src/a.rs"), inode(".gitignore")];
    recycle(&bench, &second, false).unwrap();
    assert_eq!([inode("src/a.rs"), inode(".gitignore")], before);
    assert_fresh(&bench, &second);
    recycle(&bench, &first, false).unwrap();
    assert_fresh(&bench, &first);
}

#[test]
fn an_agents_git_folder_is_made_anew_whatever_became_of_it() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let worktree = create(&bench, &base);
    let hook = worktree.path().join(".git/hooks/post-checkout");
    write(worktree.path(), ".git/hooks/post-checkout", "#!/bin/sh\n");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    git(worktree.path(), &["config", "core.fsmonitor", "evil"]);
    recycle(&bench, &base, false).unwrap();
    assert_fresh(&bench, &base);
    fs::remove_dir_all(worktree.path().join(".git")).unwrap();
    symlink("/etc", worktree.path().join(".git")).unwrap();
    recycle(&bench, &base, false).unwrap();
    assert_fresh(&bench, &base);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn ignored_files_stay_only_when_asked_and_only_by_the_rules_of_the_base() {
    let bench = Bench::new();
    let [first, second] = [FIRST, SECOND].map(|files| bench.commit(&[], files));
    let worktree = create(&bench, &first);
    for path in ["target/debug/app", "src/x.log", "new.txt", "mine/file"] {
        write(worktree.path(), path, "left\n");
    }
    write(worktree.path(), ".gitignore", "*\n");
    let left = |path: &str| worktree.path().join(path).exists();
    recycle(&bench, &second, true).unwrap();
    assert_eq!(
        ["target/debug/app", "src/x.log", "new.txt", "mine"].map(left),
        [true, true, false, false],
        "the agent's own .gitignore says nothing"
    );
    assert_eq!(git(worktree.path(), &["status", "--porcelain"]), "");
    assert_eq!(fs::read(worktree.path().join("target/kept.txt")).unwrap(), b"tracked although ignored\n");
    recycle(&bench, &second, false).unwrap();
    assert_fresh(&bench, &second);
}

#[test]
fn a_change_within_a_tick_of_the_clock_is_seen() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let worktree = create(&bench, &base);
    let file = worktree.path().join("src/a.rs");
    for round in 0..100 {
        // In place: same file, same size, its time put back.
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "z\n").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        recycle(&bench, &base, false).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"a\n", "round {round}");
    }
}

#[test]
fn a_second_name_of_a_file_opens_no_way_into_the_next_attempt() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let worktree = create(&bench, &base);
    let secret = bench.path("second-name");
    fs::hard_link(worktree.path().join("src/a.rs"), &secret).unwrap();
    recycle(&bench, &base, false).unwrap();
    fs::write(&secret, "changed later\n").unwrap();
    assert_fresh(&bench, &base);
}

#[test]
fn a_copy_without_its_record_is_refused_and_stays_as_it_is() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let worktree = create(&bench, &base);
    fs::remove_file(worktree.stat_path()).unwrap();
    assert!(matches!(recycle(&bench, &base, false), Err(Error::Unfinished { .. })));
    assert_eq!(fs::read(worktree.path().join("src/a.rs")).unwrap(), b"a\n");
    Worktree::discard(worktree.path()).unwrap();
    create(&bench, &base);
    assert_fresh(&bench, &base);
}

#[test]
fn a_copy_whose_own_folder_was_changed_is_refused() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let worktree = create(&bench, &base);
    fs::set_permissions(worktree.path(), fs::Permissions::from_mode(0o2777)).unwrap();
    assert!(matches!(recycle(&bench, &base, false), Err(Error::Unfinished { .. })));
}

#[test]
fn a_moved_copy_is_whole_at_its_new_place_alone() {
    let bench = Bench::new();
    let base = bench.commit(&[], FIRST);
    let moved = create(&bench, &base).move_to(bench.path("free/7/work")).unwrap();
    assert!(Worktree::open(bench.path("work/1")).is_err());
    assert_eq!(git(moved.path(), &["status", "--porcelain"]), "");
    Worktree::recycle(&bench.repository, moved.path(), &base, false).unwrap();
}

/// A base: what stands at some of the paths.
#[derive(Clone, Debug)]
enum Node {
    File(u8),
    Executable(u8),
    Link(u8),
}

const PATHS: [&str; 9] = ["a", "a/b", "a/b/c", "d/e", "d/f", "d", "g.log", "h/i/j/k", "l"];

fn base() -> impl Strategy<Value = Vec<(&'static str, Node)>> {
    let node = prop_oneof![
        any::<u8>().prop_map(Node::File),
        any::<u8>().prop_map(Node::Executable),
        any::<u8>().prop_map(Node::Link)
    ];
    let all = prop::collection::vec((prop::sample::select(&PATHS[..]), node), 1..7);
    all.prop_map(|all| {
        let mut kept: Vec<(&'static str, Node)> = Vec::new();
        for (path, node) in all {
            let clash = |other: &str| {
                other == path
                    || path.starts_with(&format!("{other}/"))
                    || other.starts_with(&format!("{path}/"))
            };
            if !kept.iter().any(|(other, _)| clash(other)) {
                kept.push((path, node));
            }
        }
        kept
    })
}

fn commit_of(bench: &Bench, base: &[(&'static str, Node)]) -> CommitId {
    let files: Vec<(String, Vec<u8>)> = base
        .iter()
        .map(|(path, node)| match node {
            Node::File(byte) => ((*path).to_owned(), vec![*byte; 3]),
            Node::Executable(byte) => (format!("{path}:100755"), vec![*byte; 3]),
            Node::Link(byte) => (format!("{path}:120000"), vec![b'a' + byte % 9; 3]),
        })
        .collect();
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    bench.commit(&[], &files)
}

/// What an agent does at a path, as far as the file system lets it.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Write(u8),
    Sneak(u8),
    Delete,
    Folder,
    Link,
    SecondName,
    Rights(u32),
    Repository,
    Attribute,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        any::<u8>().prop_map(Deed::Write),
        any::<u8>().prop_map(Deed::Sneak),
        Just(Deed::Delete),
        Just(Deed::Folder),
        Just(Deed::Link),
        Just(Deed::SecondName),
        prop::sample::select(&[0o000, 0o444, 0o555, 0o700, 0o755, 0o2755, 0o1777][..]).prop_map(Deed::Rights),
        Just(Deed::Repository),
        Just(Deed::Attribute),
    ]
}

/// Failures are part of the game: a path may be blocked by what was done before.
fn act(bench: &Bench, number: usize, path: &str, deed: Deed) {
    let place = bench.path("work/1").join(path);
    let _ = match deed {
        Deed::Write(byte) => {
            fs::create_dir_all(place.parent().unwrap()).and_then(|()| fs::write(place, [byte; 3]))
        }
        Deed::Sneak(byte) => fs::File::options().write(true).open(place).and_then(|mut file| {
            let time = file.metadata()?.modified()?;
            std::io::Write::write_all(&mut file, &[byte; 3])?;
            file.set_modified(time)
        }),
        Deed::Delete if place.is_dir() => fs::remove_dir_all(place),
        Deed::Delete => fs::remove_file(place),
        Deed::Folder => fs::create_dir_all(place),
        Deed::Link => symlink("../../outside", place),
        Deed::SecondName => fs::hard_link(place, bench.path(&format!("name-{number}"))),
        Deed::Rights(mode) => fs::set_permissions(place, fs::Permissions::from_mode(mode)),
        Deed::Repository => {
            fs::create_dir_all(place.join(".git/refs")).and_then(|()| fs::write(place.join(".git/HEAD"), "x"))
        }
        Deed::Attribute => {
            let flags = rustix::fs::XattrFlags::empty();
            // Not every file system has them.
            let _ = rustix::fs::setxattr(place, "user.left", b"over", flags);
            Ok(())
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was done to a copy, afterwards it is as a new one.
    #[test]
    fn a_recycled_copy_equals_a_new_one(
        first in base(),
        second in base(),
        deeds in prop::collection::vec((prop::sample::select(&PATHS[..]), deed()), 0..12),
        old in any::<bool>(),
    ) {
        let bench = Bench::new();
        fs::create_dir_all(bench.path("outside")).unwrap();
        fs::write(bench.path("outside/file"), "mine").unwrap();
        let [first, second] = [&first, &second].map(|base| commit_of(&bench, base));
        create(&bench, &first);
        if old {
            tick(&bench);
            recycle(&bench, &first, false).unwrap();
            tick(&bench);
        }
        for (number, (path, deed)) in deeds.iter().enumerate() {
            act(&bench, number, path, *deed);
        }
        recycle(&bench, &second, false).unwrap();
        assert_fresh(&bench, &second);
        prop_assert_eq!(fs::read(bench.path("outside/file")).unwrap(), b"mine");
    }
}
