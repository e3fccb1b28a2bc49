//! Folders of any shape, turned into any other: what is captured is what stands there.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>, bool),
    Link(u8),
}

type Files = BTreeMap<String, Node>;

/// Files under a few names, so that files and folders often change places.
fn files() -> impl Strategy<Value = Files> {
    let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "ü x", "a-b"]), 1..4);
    let node = prop_oneof![
        4 => (prop::collection::vec(any::<u8>(), 0..4), any::<bool>()).prop_map(|(b, x)| Node::File(b, x)),
        1 => (0..3_u8).prop_map(Node::Link),
    ];
    prop::collection::btree_map(path.prop_map(|parts| parts.join("/")), node, 0..8).prop_map(|all| {
        let inner = |path: &String| all.keys().any(|k| k.starts_with(&format!("{path}/")));
        all.iter().filter(|(path, _)| !inner(path)).map(|(p, n)| (p.clone(), n.clone())).collect()
    })
}

fn target(number: u8) -> &'static str {
    ["a", "b/c", "./ü x"][usize::from(number)]
}

fn lay(folder: &Path, files: &Files) {
    for (path, node) in files {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        match node {
            Node::Link(number) => symlink(target(*number), file).unwrap(),
            Node::File(bytes, executable) => {
                fs::write(&file, bytes).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

fn read(folder: &Path, prefix: &str, out: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().unwrap();
        if path == ".git" {
        } else if kind.is_dir() {
            read(&entry.path(), &format!("{path}/"), out);
        } else if kind.is_symlink() {
            let to = fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes();
            out.insert(path, (1, to));
        } else {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o100;
            out.insert(path, (mode, fs::read(entry.path()).unwrap()));
        }
    }
}

fn read_all(folder: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut out = BTreeMap::new();
    read(folder, "", &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A worktree is turned into anything else; the captured commit, checked out again, is the
    /// same folder.
    #[test]
    fn a_capture_read_back_equals_the_folder(first in files(), second in files()) {
        let bench = Bench::new();
        let empty = bench.repository.empty_root().unwrap();
        let one = Worktree::create(&bench.repository, bench.path("one"), &empty).unwrap();
        lay(one.path(), &first);
        let base = one.capture(&bench.repository, &empty, &capture_note(&[])).unwrap();
        prop_assert!(base.skipped.is_empty());
        let base = base.commit.unwrap_or(empty);

        let two = Worktree::create(&bench.repository, bench.path("two"), &base).unwrap();
        prop_assert_eq!(read_all(one.path()), read_all(two.path()));
        for entry in fs::read_dir(two.path()).unwrap().map(Result::unwrap) {
            if entry.file_name() == ".git" {
            } else if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        lay(two.path(), &second);
        let next = two.capture(&bench.repository, &base, &capture_note(&[])).unwrap();
        let next = next.commit.unwrap_or(base);

        let three = Worktree::create(&bench.repository, bench.path("three"), &next).unwrap();
        prop_assert_eq!(read_all(two.path()), read_all(three.path()));
        let status = git(three.path(), &["status", "--porcelain"]);
        prop_assert_eq!(status, "");
    }
}
