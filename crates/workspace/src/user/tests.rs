//! The user's repository in all the states that people have theirs in.
//! It must look the same afterwards, but for what was asked for.

use std::fs;

use super::*;
use crate::{
    Repository,
    testing::{Bench, git, write},
};

const LIMIT: u64 = 1 << 30;

/// A user's repository with one commit on `main`.
fn user(bench: &Bench) -> (PathBuf, UserRepository) {
    let folder = bench.path("my repo ü");
    fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    write(&folder, "a b.txt", "1\n");
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-qm", "first"]);
    let found = UserRepository::discover(&folder).unwrap();
    (folder, found)
}

/// Sends the user's HEAD to our repository and makes a result on top of it.
fn result(bench: &Bench, user: &UserRepository) -> (CommitId, CommitId, Vec<u8>) {
    let base = user.head().unwrap().commit.unwrap();
    let mut way_in = Vec::new();
    user.write_pack(std::slice::from_ref(&base), &[], &mut way_in, LIMIT).unwrap();
    bench.repository.receive_pack(&mut way_in.as_slice(), std::slice::from_ref(&base), LIMIT).unwrap();
    let commit = bench.commit(&[&base], &[("result", b"2\n")]);
    (base.clone(), commit.clone(), pack_of(&bench.repository, &commit, &[base]))
}

fn pack_of(from: &Repository, commit: &CommitId, have: &[CommitId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.write_pack(std::slice::from_ref(commit), have, &mut bytes, LIMIT).unwrap();
    bytes
}

/// All files below a folder, with their sizes.
fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(listing(&entry.path()));
        } else {
            found.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_repository_is_found_from_below_and_read() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    write(&folder, "sub/x", "new");
    assert_eq!(UserRepository::discover(&folder.join("sub")).unwrap(), user);
    let head = user.head().unwrap();
    assert_eq!(head.branch.as_deref(), Some("main"));
    let id = git(&folder, &["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(head.commit.as_ref().map(CommitId::as_str), Some(id.as_str()));
    assert_eq!(user.resolve("main").unwrap().as_str(), id);
    git(&folder, &["tag", "-am", "x", "v1"]);
    assert_eq!(user.resolve("v1").unwrap().as_str(), id);
    assert!(matches!(user.resolve("nothing"), Err(Error::NoSuchRevision { .. })));
    assert!(matches!(user.resolve("HEAD:a b.txt"), Err(Error::NoSuchRevision { .. })));
    assert_eq!(user.uncommitted(&[]).unwrap(), 1);
    write(&folder, "a b.txt", "changed\n");
    assert_eq!(user.uncommitted(&[]).unwrap(), 2);
    let known = [folder.join("a b.txt"), folder.join("not/there")];
    assert_eq!(user.uncommitted(&known).unwrap(), 1, "what is read anyway is not counted");
    assert_eq!(user.uncommitted(std::slice::from_ref(&folder)).unwrap(), 0);
    git(&folder, &["checkout", "-q", "--detach"]);
    assert_eq!(user.head().unwrap().branch, None);
    assert_eq!(fs::canonicalize(user.folder().unwrap().unwrap()).unwrap(), fs::canonicalize(folder).unwrap());
}

#[test]
fn counting_changes_runs_no_filter() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    let flag = bench.path("ran");
    let touch = format!("touch '{}'; cat", flag.display());
    git(&folder, &["config", "filter.x.clean", &touch]);
    git(&folder, &["config", "core.fsmonitor", &touch]);
    write(&folder, ".gitattributes", "* filter=x\n");
    write(&folder, "a b.txt", "2\n");
    assert_eq!(user.uncommitted(&[]).unwrap(), 2);
    assert!(!flag.exists());
}

#[test]
fn an_unborn_head_is_based_on_the_empty_root() {
    let bench = Bench::new();
    let folder = bench.path("new");
    fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    let user = UserRepository::discover(&folder).unwrap();
    let head = user.head().unwrap();
    assert_eq!((head.commit, head.branch.as_deref()), (None, Some("main")));
    let base = bench.repository.empty_root().unwrap();
    let commit = bench.commit(&[&base], &[("f", b"x")]);
    let bytes = pack_of(&bench.repository, &commit, &[]);
    user.bring_home(&mut bytes.as_slice(), &commit, "ensemble/r1", LIMIT).unwrap();
    assert_eq!(git(&folder, &["show", "ensemble/r1:f"]), "x");
    assert_eq!(user.root(&commit).unwrap(), base);
    // The unborn branch is checked out too: its folder would show everything as deleted.
    assert!(matches!(user.move_branch("main", &commit, &base).unwrap(), BranchMove::CheckedOut { .. }));
    git(&folder, &["fsck", "--strict"]);
}

#[test]
fn other_formats_and_places_are_refused_with_a_clear_word() {
    let bench = Bench::new();
    assert!(matches!(UserRepository::discover(&bench.path("")), Err(Error::NotARepository { .. })));
    for (name, key, value) in [
        ("reftable", "extensions.refstorage", "reftable"),
        ("partial", "extensions.partialclone", "origin"),
        ("sha256", "extensions.objectformat", "sha256"),
        ("future", "core.repositoryformatversion", "7"),
    ] {
        let folder = bench.path(name);
        fs::create_dir(&folder).unwrap();
        git(&folder, &["init", "-q"]);
        // Git itself would refuse to go on in some of these.
        let (section, key) = key.split_once('.').unwrap();
        let config = format!("[core]\nrepositoryformatversion = 1\n[{section}]\n{key} = {value}\n");
        fs::write(folder.join(".git/config"), config).unwrap();
        let refused = UserRepository::discover(&folder);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{name}: {refused:?}");
    }
}

#[test]
fn a_bare_repository_will_do() {
    let bench = Bench::new();
    let (folder, _) = user(&bench);
    git(&bench.path(""), &["clone", "-q", "--bare", folder.to_str().unwrap(), "bare.git"]);
    let bare = UserRepository::discover(&bench.path("bare.git")).unwrap();
    assert_eq!((bare.folder().unwrap(), bare.uncommitted(&[]).unwrap()), (None, 0));
    let (base, commit, bytes) = result(&bench, &bare);
    bare.bring_home(&mut bytes.as_slice(), &commit, "ensemble/r1", LIMIT).unwrap();
    assert_eq!(bare.move_branch("main", &commit, &base).unwrap(), BranchMove::Moved);
    assert_eq!(bare.head().unwrap().commit, Some(commit));
}

#[test]
fn a_shallow_clone_is_refused_with_the_remedy() {
    let bench = Bench::new();
    let (folder, _) = user(&bench);
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "second"]);
    let url = format!("file://{}", folder.display());
    git(&bench.path(""), &["clone", "-q", "--depth", "1", &url, "shallow"]);
    let shallow = UserRepository::discover(&bench.path("shallow")).unwrap();
    assert!(shallow.is_shallow().unwrap());
    let head = shallow.head().unwrap().commit.unwrap();
    let refused = shallow.write_pack(std::slice::from_ref(&head), &[], &mut Vec::new(), LIMIT).unwrap_err();
    assert!(refused.to_string().contains("git fetch --unshallow"), "{refused}");
    assert!(matches!(shallow.root(&head), Err(Error::Shallow { .. })));
}

#[test]
fn recent_ancestors_have_growing_gaps() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    for number in 0..20 {
        git(&folder, &["commit", "-q", "--allow-empty", "-m", &number.to_string()]);
    }
    let line = git(&folder, &["rev-list", "--first-parent", "HEAD"]);
    let line: Vec<_> = line.lines().collect();
    let head = user.head().unwrap().commit.unwrap();
    let recent: Vec<_> = user.recent(&head, 100).unwrap();
    let expected: Vec<_> = [0, 1, 2, 4, 8, 16].map(|age| line[age]).to_vec();
    assert_eq!(recent.iter().map(CommitId::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(user.recent(&head, 2).unwrap().len(), 2);
    assert_eq!(user.root(&head).unwrap().as_str(), line[20]);
}

#[test]
fn a_result_comes_home_once_and_the_checkout_is_not_touched() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    write(&folder, "a b.txt", "dirty\n");
    let look = || (git(&folder, &["status", "--porcelain"]), fs::read(folder.join(".git/index")).unwrap());
    let (before, files) = (look(), listing(&folder));
    assert_eq!(user.uncommitted(&[]).unwrap(), 1);
    let (base, commit, bytes) = result(&bench, &user);
    // So far it was only read.
    assert_eq!(listing(&folder), files);
    for _ in 0..2 {
        user.bring_home(&mut bytes.as_slice(), &commit, "ensemble/r1", LIMIT).unwrap();
    }
    assert_eq!(git(&folder, &["log", "--format=%H", "ensemble/r1"]), format!("{commit}\n{base}\n"));
    assert_eq!(look(), before);
    assert_eq!(user.head().unwrap().commit, Some(base.clone()));
    let other = bench.commit(&[&base], &[("other", b"3\n")]);
    let bytes = pack_of(&bench.repository, &other, &[base]);
    let moved = user.bring_home(&mut bytes.as_slice(), &other, "ensemble/r1", LIMIT);
    assert!(matches!(moved, Err(Error::Moved { now: Some(now), .. }) if now == commit));
    git(&folder, &["branch", "r2/x"]);
    let bad = user.bring_home(&mut bytes.as_slice(), &other, "r2", LIMIT);
    assert!(matches!(bad, Err(Error::BadName { .. })), "{bad:?}");
    git(&folder, &["fsck", "--strict"]);
}

#[test]
fn a_pack_that_does_not_hold_the_result_makes_no_branch() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    let (_, commit, bytes) = result(&bench, &user);
    let cut = user.bring_home(&mut &bytes[..bytes.len() - 1], &commit, "ensemble/r1", LIMIT);
    assert!(matches!(cut, Err(Error::BadPack { .. })), "{cut:?}");
    assert_eq!(git(&folder, &["branch", "--format=%(refname)"]).trim(), "refs/heads/main");
}

#[test]
fn a_read_only_repository_is_told_apart() {
    let denied = Error::Io {
        doing: "write into",
        path: "x".into(),
        source: std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem),
    };
    let bench = Bench::new();
    let (_, user) = user(&bench);
    assert!(matches!(user.read_only(denied), Error::ReadOnly { .. }));
    // Root may write anywhere; for others the folder's mode says no.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let (_, commit, bytes) = result(&bench, &user);
    let objects = user.path().join("objects");
    let modes = |mode| {
        fs::set_permissions(&objects, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    modes(0o555);
    let refused = user.bring_home(&mut bytes.as_slice(), &commit, "ensemble/r1", LIMIT);
    let read = user.write_pack(&[user.resolve("HEAD").unwrap()], &[], &mut Vec::new(), LIMIT);
    modes(0o755);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    assert!(read.is_ok());
}

#[test]
fn a_branch_moves_only_from_the_base_and_never_under_a_checkout() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    let (base, commit, bytes) = result(&bench, &user);
    assert!(matches!(user.move_branch("main", &commit, &base), Err(Error::NoSuchCommit { .. })));
    user.bring_home(&mut bytes.as_slice(), &commit, "ensemble/r1", LIMIT).unwrap();
    assert!(matches!(user.move_branch("main", &commit, &base).unwrap(), BranchMove::CheckedOut { .. }));
    for branch in ["free", "linked", "rebased", "bisected", "ahead"] {
        git(&folder, &["branch", branch]);
    }
    git(&folder, &["worktree", "add", "-q", "../linked", "linked"]);
    let linked = UserRepository::discover(&bench.path("linked")).unwrap();
    for view in [&user, &linked] {
        for branch in ["main", "linked"] {
            let left = view.move_branch(branch, &commit, &base).unwrap();
            assert!(matches!(left, BranchMove::CheckedOut { .. }), "{branch}: {left:?}");
        }
    }
    write(&folder.join(".git"), "rebase-merge/head-name", "refs/heads/rebased\n");
    write(&folder.join(".git"), "BISECT_START", "bisected\n");
    for branch in ["rebased", "bisected"] {
        assert!(
            matches!(user.move_branch(branch, &commit, &base).unwrap(), BranchMove::CheckedOut { .. }),
            "{branch}"
        );
    }
    let ahead = git(&folder, &["commit-tree", "-p", base.as_str(), "-m", "x", "HEAD^{tree}"]);
    git(&folder, &["branch", "-f", "ahead", ahead.trim()]);
    let now = CommitId::new(ahead.trim()).unwrap();
    assert_eq!(user.move_branch("ahead", &commit, &base).unwrap(), BranchMove::MovedSince { now });
    assert_eq!(user.move_branch("free", &commit, &base).unwrap(), BranchMove::Moved);
    assert_eq!(user.move_branch("free", &commit, &base).unwrap(), BranchMove::Moved);
    assert_eq!(user.move_branch("fresh", &commit, &base).unwrap(), BranchMove::Created);
    assert_eq!(git(&folder, &["rev-parse", "free", "fresh"]), format!("{commit}\n{commit}\n"));
    // Backwards is no way for a result.
    assert!(matches!(user.move_branch("free", &base, &commit), Err(Error::NotABase { .. })));
    git(&folder, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    assert!(matches!(user.move_branch("alias", &commit, &base), Err(Error::BadName { .. })));
    assert_eq!(user.head().unwrap().commit, Some(base));
}

#[test]
fn the_branches_that_hold_a_result_are_named_wherever_they_stand() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    let (base, result, pack) = result(&bench, &user);
    assert!(user.branches_with(&result).unwrap().is_empty(), "it is not even here");
    user.bring_home(&mut pack.as_slice(), &result, "ensemble/run", LIMIT).unwrap();
    assert_eq!(user.branches_with(&result).unwrap(), ["ensemble/run"]);
    git(&folder, &["branch", "theirs", result.as_str()]);
    git(&folder, &["update-ref", "refs/remotes/origin/main", result.as_str()]);
    assert_eq!(user.branches_with(&result).unwrap(), ["ensemble/run", "theirs", "origin/main"]);
    assert_eq!(user.branches_with(&base).unwrap().len(), 4, "a branch holds all that it grew from");
}

#[test]
fn how_a_branch_stands_is_told_before_it_is_moved() {
    let bench = Bench::new();
    let (folder, user) = user(&bench);
    let head = user.head().unwrap().commit.unwrap();
    git(&folder, &["branch", "side"]);
    assert_eq!(user.standing("main").unwrap(), Standing::CheckedOut);
    assert_eq!(user.standing("side").unwrap(), Standing::At(head));
    assert_eq!(user.standing("new").unwrap(), Standing::Absent);
    for bad in ["a b", "side/below", "x..y", "-dash", "refs/heads/side"] {
        assert!(matches!(user.standing(bad), Err(Error::BadName { .. })), "{bad}");
    }
}
