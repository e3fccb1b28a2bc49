//! Worktrees as agents leave them: made, changed in every way, captured, removed.
//! Nothing an agent does may run code here, reach outside, or lose what the base has.

use std::os::unix::{
    ffi::OsStrExt,
    fs::{PermissionsExt, symlink},
};

use super::*;
use crate::testing::{Bench, capture_note, git, write};

mod random;

const BASE: &[(&str, &[u8])] = &[
    ("app/main.py", b"print(1)\n"),
    ("app/run.sh:100755", b"#!/bin/sh\n"),
    ("crlf.txt", b"a\r\nb\r\n"),
    ("docs/übersicht mit leerzeichen.md", b"x\n"),
    ("link:120000", b"app/main.py"),
    ("out:120000", b"/etc/passwd"),
    ("sub:160000", b"1111111111111111111111111111111111111111"),
];

struct Desk {
    bench: Bench,
    base: CommitId,
    worktree: Worktree,
}

impl Desk {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let bench = Bench::new();
        let base = bench.commit(&[], files);
        let worktree = Worktree::create(&bench.repository, bench.path("work/1"), &base).unwrap();
        Self { bench, base, worktree }
    }

    fn path(&self) -> &Path {
        self.worktree.path()
    }

    fn capture(&self, outputs: &[&str]) -> Capture {
        self.worktree.capture(&self.bench.repository, &self.base, &capture_note(outputs)).unwrap()
    }

    /// The captured files that differ from the base.
    fn captured(&self, capture: &Capture) -> Vec<String> {
        let Some(commit) = &capture.commit else { return vec![] };
        let before = self.bench.files(&self.base);
        let after = self.bench.files(commit);
        let gone = before.iter().filter(|f| !after.iter().any(|a| a.0 == f.0)).map(|f| format!("-{}", f.0));
        after.iter().filter(|f| !before.contains(f)).map(|f| f.0.clone()).chain(gone).collect()
    }
}

fn skipped(capture: &Capture) -> Vec<(&str, &Why)> {
    capture.skipped.iter().map(|s| (s.path.as_str(), &s.why)).collect()
}

#[test]
fn a_new_worktree_is_clean_and_holds_the_bytes_of_the_commit() {
    let desk = Desk::new(BASE);
    assert_eq!(git(desk.path(), &["status", "--porcelain"]), "");
    assert_eq!(git(desk.path(), &["rev-parse", "HEAD"]).trim(), desk.base.as_str());
    assert_eq!(git(desk.path(), &["symbolic-ref", "HEAD"]).trim(), "refs/heads/task");
    assert_eq!(fs::read(desk.path().join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(fs::read_link(desk.path().join("out")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::metadata(desk.path().join("app/run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    assert_eq!(fs::read_dir(desk.path().join("sub")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(desk.path().join(".git")).unwrap().count(), 6, "no hooks, no samples");
    let capture = desk.capture(&[]);
    assert_eq!((capture.commit, capture.skipped), (None, vec![]));
}

#[test]
fn a_worktree_stays_clean_when_the_tree_has_attributes() {
    let desk = Desk::new(&[(".gitattributes", b"* text=auto eol=crlf ident\n"), ("f", b"a\r\n$Id: x$\n")]);
    // Same size, other time: git has to read the file.
    let file = fs::File::options().write(true).open(desk.path().join("f")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(git(desk.path(), &["status", "--porcelain"]), "");
    assert_eq!(desk.capture(&[]).commit, None);
}

#[test]
fn an_agent_may_commit_and_its_files_count() {
    let desk = Desk::new(BASE);
    write(desk.path(), "app/new.py", "new\n");
    git(desk.path(), &["add", "-A"]);
    git(desk.path(), &["commit", "-qm", "mine"]);
    let capture = desk.capture(&[]);
    assert_eq!(desk.captured(&capture), ["app/new.py"]);
    let commit = capture.commit.unwrap();
    assert_eq!(desk.bench.repository.parents(&commit).unwrap(), std::slice::from_ref(&desk.base));
    let shown = git(desk.bench.repository.path(), &["log", "-1", "--format=%an %ae %at %s", commit.as_str()]);
    assert_eq!(shown.trim(), "back back@ensemble.localhost 1796000000 Write the API");
    git(desk.bench.repository.path(), &["fsck", "--strict"]);
}

#[test]
fn every_kind_of_change_is_taken_and_counted() {
    let desk = Desk::new(BASE);
    write(desk.path(), "app/main.py", "print(1)\nprint(2)\n");
    write(desk.path(), "crlf.txt", "a\r\nc\r\n");
    fs::remove_file(desk.path().join("link")).unwrap();
    fs::set_permissions(desk.path().join("app/run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink("../app/main.py", desk.path().join("docs/inside")).unwrap();
    fs::remove_dir(desk.path().join("sub")).unwrap();
    let capture = desk.capture(&["docs", "app/none", "../x"]);
    assert_eq!(
        desk.captured(&capture),
        ["app/main.py", "app/run.sh", "crlf.txt", "docs/inside:120000", "-app/run.sh:100755", "-link:120000"]
    );
    assert_eq!((capture.changes.files, capture.changes.added, capture.changes.removed), (5, 3, 2));
    assert_eq!(capture.missing_outputs, ["app/none", "../x"]);
    // The same again has the same id.
    assert_eq!(desk.capture(&["docs", "app/none", "../x"]), capture);
    let text = desk.bench.repository.diff_text(&desk.base, capture.commit.as_ref().unwrap(), 10_000).unwrap();
    assert!(text.contains("old mode 100755\nnew mode 100644\n"), "{text}");
    assert!(
        text.contains("--- a/app/main.py\n+++ b/app/main.py\n@@ -1 +1,2 @@\n print(1)\n+print(2)\n"),
        "{text}"
    );
    assert!(text.contains("deleted file mode 120000\n--- a/link\n+++ /dev/null\n"), "{text}");
}

#[test]
fn nothing_of_the_agents_git_configuration_runs_or_counts() {
    let desk = Desk::new(&[("f.txt", b"raw\r\n"), (".gitattributes", b"* filter=evil text eol=crlf\n")]);
    let flag = desk.bench.path("ran");
    let touch = format!("touch '{}'; cat", flag.display());
    for (key, value) in [
        ("filter.evil.clean", touch.as_str()),
        ("filter.evil.smudge", &touch),
        ("filter.evil.process", &touch),
        ("core.fsmonitor", &touch),
        ("core.autocrlf", "true"),
        ("core.excludesFile", "/dev/stdin"),
        ("core.hooksPath", ".git/hooks"),
        ("core.worktree", "/"),
    ] {
        git(desk.path(), &["config", key, value]);
    }
    for hook in ["pre-commit", "post-checkout", "reference-transaction", "post-index-change"] {
        let hook = desk.path().join(".git/hooks").join(hook);
        write(desk.path(), hook.to_str().unwrap(), format!("#!/bin/sh\n{touch}\n"));
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(desk.path(), ".git/info/exclude", "*\n");
    write(desk.path(), "f.txt", "changed\r\n");
    write(desk.path(), "new.txt", "new\r\n");
    let capture = desk.capture(&[]);
    assert_eq!(desk.captured(&capture), ["f.txt", "new.txt"]);
    let commit = capture.commit.unwrap();
    assert_eq!(desk.bench.repository.file_at(&commit, "new.txt").unwrap().unwrap(), b"new\r\n");
    assert!(!flag.exists());
}

#[test]
fn a_missing_or_foreign_git_folder_changes_nothing() {
    let desk = Desk::new(&[("f", b"1\n")]);
    fs::remove_dir_all(desk.path().join(".git")).unwrap();
    symlink("/etc", desk.path().join(".git")).unwrap();
    write(desk.path(), "f", "2\n");
    assert_eq!(desk.captured(&desk.capture(&[])), ["f"]);
}

#[test]
fn ignored_files_stay_out_but_tracked_and_declared_ones_do_not() {
    let desk = Desk::new(&[
        (".gitignore", b"*.log\n/build/\nlib\n"),
        ("kept.log", b"1\n"),
        ("build/tracked", b"1\n"),
    ]);
    write(desk.path(), "kept.log", "2\n");
    write(desk.path(), "x.log", "no");
    write(desk.path(), "build/tracked", "2\n");
    write(desk.path(), "build/other", "no");
    write(desk.path(), "build/deep/wanted.bin", "yes");
    write(desk.path(), "lib/a/b", "yes");
    write(desk.path(), "lib/c.log", "yes");
    write(desk.path(), "src/.gitignore", "!y.log\n");
    write(desk.path(), "src/y.log", "yes");
    let capture = desk.capture(&["build/deep/wanted.bin", "lib", "x/none.log"]);
    assert_eq!(
        desk.captured(&capture),
        [
            "build/deep/wanted.bin",
            "build/tracked",
            "kept.log",
            "lib/a/b",
            "lib/c.log",
            "src/.gitignore",
            "src/y.log"
        ]
    );
    assert_eq!(capture.missing_outputs, ["x/none.log"]);
    assert_eq!(capture.skipped, []);
}

#[test]
fn what_can_not_be_kept_is_named_and_deletes_nothing() {
    let desk = Desk::new(BASE);
    let (path, root) = (desk.path(), at::open_root(desk.path()).unwrap());
    fs::remove_file(path.join("app/main.py")).unwrap();
    rustix::fs::mkfifoat(&root, "app/main.py", Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path.join("app/socket")).unwrap();
    fs::remove_file(path.join("link")).unwrap();
    symlink("../outside", path.join("link")).unwrap();
    for (name, target) in [
        ("up", "app/../../x"),
        ("around", "app/../crlf.txt"),
        ("git", ".git/config"),
        ("abs", "/tmp"),
        ("ok", "./app//main.py"),
    ] {
        symlink(target, path.join(name)).unwrap();
    }
    write(path, "vendor/.git/config", "x");
    write(path, "vendor/file", "kept");
    write(path, "odd:name", "x");
    write(path, "ctl\u{7}", "x");
    write(path, ".GIT/hooks/x", "x");
    write(path, "sub/file", "x");
    fs::write(path.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    let capture = desk.capture(&["abs", "app/main.py"]);
    assert_eq!(desk.captured(&capture), ["ok:120000", "vendor/file"]);
    let control = Why::Name(plan::path::BadPath::Control);
    assert_eq!(
        skipped(&capture),
        [
            (".GIT", &Why::Name(plan::path::BadPath::Git)),
            ("abs", &Why::LinkOut),
            ("app/main.py", &Why::Special),
            ("app/socket", &Why::Special),
            ("around", &Why::LinkOut),
            ("bad\u{fffd}", &Why::NotText),
            ("ctl\u{7}", &control),
            ("git", &Why::LinkOut),
            ("link", &Why::LinkOut),
            ("odd:name", &Why::Name(plan::path::BadPath::Odd)),
            ("sub", &Why::Submodule),
            ("up", &Why::LinkOut),
            ("vendor/.git", &Why::NestedGit),
        ]
    );
    assert_eq!(capture.missing_outputs, ["abs", "app/main.py"]);
}

#[test]
fn a_folder_that_became_a_link_is_not_walked_through() {
    let desk = Desk::new(&[("d/x", b"1"), ("e/y", b"1")]);
    let outside = desk.bench.path("outside");
    write(&outside, "x", "secret");
    fs::remove_dir_all(desk.path().join("d")).unwrap();
    symlink(&outside, desk.path().join("d")).unwrap();
    fs::remove_dir_all(desk.path().join("e")).unwrap();
    symlink("d", desk.path().join("e")).unwrap();
    let capture = desk.capture(&["d/x"]);
    assert_eq!(skipped(&capture), [("d", &Why::LinkOut)]);
    assert_eq!(desk.captured(&capture), ["e:120000", "-e/y"]);
    assert_eq!(capture.missing_outputs, ["d/x"]);
}

#[test]
fn files_and_folders_may_change_places() {
    let desk = Desk::new(&[("a", b"1"), ("b/c", b"1"), ("k", b"k")]);
    fs::remove_file(desk.path().join("a")).unwrap();
    write(desk.path(), "a/x/y", "2");
    fs::remove_dir_all(desk.path().join("b")).unwrap();
    write(desk.path(), "b", "2");
    let capture = desk.capture(&["a", "b"]);
    assert_eq!(desk.captured(&capture), ["a/x/y", "b", "-a", "-b/c"]);
    assert_eq!(capture.missing_outputs, [] as [&str; 0]);
}

#[test]
fn a_change_in_the_same_tick_with_the_same_size_is_seen() {
    for round in 0..20_u8 {
        let desk = Desk::new(&[("f", b"00")]);
        let before = fs::metadata(desk.path().join("f")).unwrap().modified().unwrap();
        write(desk.path(), "f", [b'1', round]);
        fs::File::options().write(true).open(desk.path().join("f")).unwrap().set_modified(before).unwrap();
        assert_eq!(desk.captured(&desk.capture(&[])), ["f"]);
    }
}

#[test]
fn a_large_file_is_streamed_and_a_huge_one_left_out() {
    let desk = Desk::new(&[("f", b"1")]);
    let bytes: Vec<u8> = (0..20_u32 << 20).map(|i| (i / 251) as u8).collect();
    write(desk.path(), "large", &bytes);
    let huge = fs::File::create(desk.path().join("huge")).unwrap();
    huge.set_len(walk::FILE_LIMIT).unwrap();
    let capture = desk.capture(&["huge"]);
    assert_eq!(skipped(&capture), [("huge", &Why::TooLarge)]);
    assert_eq!(capture.missing_outputs, ["huge"]);
    let commit = capture.commit.unwrap();
    assert!(desk.bench.repository.file_at(&commit, "large").unwrap().unwrap() == bytes);
}

#[test]
fn very_many_left_out_paths_are_counted() {
    let desk = Desk::new(&[("f", b"1")]);
    for number in 0..Capture::NAMED + 7 {
        symlink("/", desk.path().join(format!("l{number}"))).unwrap();
    }
    let capture = desk.capture(&[]);
    assert_eq!((capture.skipped.len(), capture.more_skipped), (Capture::NAMED, 7));
}

#[test]
fn a_tree_that_would_write_outside_is_refused() {
    for evil in ["..", ".git", ".GIT", "."] {
        let bench = Bench::new();
        let repo = bench.git();
        let blob = repo.blob(b"x").unwrap();
        // Written as raw bytes, since no library would make such a tree.
        let tree = [format!("100644 {evil}\0").as_bytes(), blob.as_bytes()].concat();
        let tree = repo.odb().unwrap().write(git2::ObjectType::Tree, &tree).unwrap();
        let text = format!("tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n");
        let id = repo.odb().unwrap().write(git2::ObjectType::Commit, text.as_bytes()).unwrap();
        let id = crate::tree::commit_id(id).unwrap();
        let refused = Worktree::create(&bench.repository, bench.path("w"), &id);
        assert!(matches!(refused, Err(Error::Escapes { .. })), "{evil}: {refused:?}");
        Worktree::discard(bench.path("w")).unwrap();
        assert!(!bench.path("w").exists());
    }
}

#[test]
fn missing_outputs_are_written_only_inside_and_only_if_absent() {
    let desk = Desk::new(&[("there", b"1"), ("dir/x", b"1")]);
    assert!(desk.worktree.write_missing_output("new/deep/file.md", b"text").unwrap());
    assert!(!desk.worktree.write_missing_output("there", b"text").unwrap());
    assert_eq!(desk.worktree.read_back("new/deep/file.md", 10).unwrap().unwrap(), b"text");
    assert_eq!(desk.worktree.read_back("there", 10).unwrap().unwrap(), b"1");
    assert_eq!(desk.worktree.read_back("none/x", 10).unwrap(), None);
    assert_eq!(desk.worktree.read_back("dir", 10).unwrap(), None);
    assert!(matches!(desk.worktree.read_back("new/deep/file.md", 3), Err(Error::TooLarge { .. })));
    let outside = desk.bench.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, desk.path().join("way")).unwrap();
    symlink(outside.join("y"), desk.path().join("dangling")).unwrap();
    let escapes = desk.worktree.write_missing_output("way/x", b"text");
    assert!(matches!(escapes, Err(Error::Escapes { .. })), "{escapes:?}");
    assert!(!desk.worktree.write_missing_output("dangling", b"text").unwrap());
    assert_eq!(desk.worktree.read_back("dangling", 10).unwrap(), None);
    for bad in ["../x", "/x", ".git/hooks/pre-commit", "", "a/../../x"] {
        let refused = desk.worktree.write_missing_output(bad, b"text");
        assert!(matches!(refused, Err(Error::BadPath { .. })), "{bad}: {refused:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn removal_is_thorough_and_stays_inside() {
    let desk = Desk::new(BASE);
    let outside = desk.bench.path("outside");
    write(&outside, "precious", "x");
    let before = fs::metadata(&outside).unwrap().permissions().mode();
    symlink(&outside, desk.path().join("way")).unwrap();
    write(desk.path(), "locked/below/file", "x");
    for (folder, mode) in [("locked/below", 0o500), ("locked", 0o000)] {
        fs::set_permissions(desk.path().join(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut folder = at::open_root(desk.path()).unwrap();
    for _ in 0..400 {
        rustix::fs::mkdirat(&folder, "deeper", Mode::RWXU).unwrap();
        folder = at::open_folder(&folder, "deeper").unwrap();
    }
    at::create_file(&folder, "end", Mode::RWXU, b"x").unwrap();
    let capture = desk.capture(&[]);
    assert!(capture.skipped.iter().any(|s| s.why == Why::TooDeep), "{:?}", capture.skipped);
    let worktree = desk.worktree.clone();
    desk.worktree.clone().remove().unwrap();
    assert_eq!(fs::read_dir(desk.bench.path("work")).unwrap().count(), 0);
    assert!(outside.join("precious").exists());
    assert_eq!(fs::metadata(&outside).unwrap().permissions().mode(), before);
    worktree.remove().unwrap();
    git(desk.bench.repository.path(), &["fsck", "--strict"]);
}

#[test]
fn names_that_are_no_text_stay_as_they_are() {
    let bench = Bench::new();
    let repo = bench.git();
    let plain =
        |text: &str| Some(crate::tree::Entry { mode: 0o100_644, id: repo.blob(text.as_bytes()).unwrap() });
    let edits = [(b"d/bad\xff".to_vec(), plain("1")), (b"d/good".to_vec(), plain("2"))].into();
    let tree = repo.find_tree(crate::tree::edit(&repo, None, &edits).unwrap()).unwrap();
    let who = git2::Signature::new("a", "a", &git2::Time::new(1, 0)).unwrap();
    let base = repo.commit(None, &who, &who, "m", &tree, &[]).unwrap();
    let base = crate::tree::commit_id(base).unwrap();
    let worktree = Worktree::create(&bench.repository, bench.path("w"), &base).unwrap();
    assert_eq!(git(worktree.path(), &["status", "--porcelain"]), "");
    fs::remove_dir_all(worktree.path().join("d")).unwrap();
    let capture = worktree.capture(&bench.repository, &base, &capture_note(&[])).unwrap();
    let left = bench.repository.list_files(&capture.commit.unwrap()).unwrap();
    assert_eq!(left, ["d/bad\u{fffd}"]);
}

#[test]
fn files_and_folders_that_can_not_be_read_are_named() {
    // Root reads everything.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let desk = Desk::new(&[("d/x", b"1"), ("f", b"1"), ("k", b"1")]);
    write(desk.path(), "f", "2");
    for name in ["d", "f"] {
        fs::set_permissions(desk.path().join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    fs::remove_file(desk.path().join("k")).unwrap();
    let capture = desk.capture(&[]);
    assert_eq!(desk.captured(&capture), ["-k"]);
    let named: Vec<_> = capture.skipped.iter().map(|s| (s.path.as_str(), s.why.to_string())).collect();
    assert_eq!(named.iter().map(|n| n.0).collect::<Vec<_>>(), ["d", "f"]);
    assert!(named.iter().all(|n| n.1.starts_with("can't be read: ")), "{named:?}");
    desk.worktree.clone().remove().unwrap();
    assert!(!desk.path().exists());
}

#[test]
fn many_worktrees_are_made_captured_and_removed_at_once() {
    const AT_ONCE: usize = 8;
    let bench = Bench::new();
    let base = bench.commit(&[], BASE);
    let commits: Vec<_> = std::thread::scope(|scope| {
        let attempt = |number: usize| {
            let (bench, base) = (&bench, &base);
            move || {
                let path = bench.path(&format!("work/{number}"));
                let worktree = Worktree::create(&bench.repository, path, base).unwrap();
                write(worktree.path(), &format!("new/{number}"), number.to_string());
                let capture = worktree.capture(&bench.repository, base, &capture_note(&[])).unwrap();
                worktree.remove().unwrap();
                capture.commit.unwrap()
            }
        };
        let running: Vec<_> = (0..AT_ONCE).map(|number| scope.spawn(attempt(number))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, commit) in commits.iter().enumerate() {
        let path = format!("new/{number}");
        let file = bench.repository.file_at(commit, &path).unwrap();
        assert_eq!(file.unwrap(), number.to_string().into_bytes());
        let name = format!("refs/ensemble/run/t{number}/1");
        bench.repository.update_ref(&name, commit, &crate::Expect::Absent).unwrap();
    }
    git(bench.repository.path(), &["fsck", "--strict"]);
}

#[test]
fn earlier_work_has_a_name_that_the_agents_own_git_knows() {
    let desk = Desk::new(&[("a", b"1\n")]);
    let earlier = desk.bench.commit(&[&desk.base], &[("a", b"2\n")]);
    desk.worktree.name_commit("refs/ensemble/run/task/1", &earlier).unwrap();
    let shown = git(desk.path(), &["show", "refs/ensemble/run/task/1:a"]);
    assert_eq!(shown.trim(), "2");
    assert_eq!(desk.captured(&desk.capture(&[])), Vec::<String>::new(), "it changes nothing");
    for bad in ["refs/../../x", "HEAD", "refs/a b"] {
        assert!(desk.worktree.name_commit(bad, &earlier).is_err(), "{bad}");
    }
}
