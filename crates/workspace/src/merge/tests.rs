//! Merges on real repositories: what is clean, what is a conflict, and that nothing is ever lost.
//! Git's own merge is asked for its opinion.

use super::*;
use crate::testing::{Bench, git, merge_note};

const LINES: &[u8] = b"one\ntwo\nthree\nfour\nfive\nsix\n";

/// Paths and contents; see `Bench::commit`.
type Files<'a> = &'a [(&'a str, &'a [u8])];

/// Merges two children of one base and says what came of it.
fn merged(base: Files<'_>, ours: Files<'_>, theirs: Files<'_>) -> (Bench, Merge) {
    let bench = Bench::new();
    let base = bench.commit(&[], base);
    let (ours, theirs) = (bench.commit(&[&base], ours), bench.commit(&[&base], theirs));
    let merge = bench.repository.merge(&ours, &theirs, &base, &merge_note()).unwrap();
    (bench, merge)
}

fn files(base: Files<'_>, ours: Files<'_>, theirs: Files<'_>) -> Vec<(String, String)> {
    match merged(base, ours, theirs) {
        (bench, Merge::Clean { commit, .. }) => bench.files(&commit),
        (_, conflict) => panic!("{conflict:?}"),
    }
}

fn conflict(base: Files<'_>, ours: Files<'_>, theirs: Files<'_>) -> Vec<(String, What)> {
    match merged(base, ours, theirs).1 {
        Merge::Conflict { files } => files.into_iter().map(|file| (file.path, file.what)).collect(),
        clean => panic!("{clean:?}"),
    }
}

fn one(path: &str, what: What) -> Vec<(String, What)> {
    vec![(path.to_owned(), what)]
}

#[test]
fn both_sides_are_kept_and_the_commit_has_both_parents() {
    let bench = Bench::new();
    let base = bench.commit(&[], &[("a", b"a\n"), ("d/b", b"b\n"), ("gone", b"x\n")]);
    let ours = bench.commit(&[&base], &[("a", b"A\n"), ("d/b", b"b\n"), ("gone", b"x\n")]);
    let theirs = bench.commit(&[&base], &[("a", b"a\n"), ("d/b", b"B\n"), ("d/new", b"n\nm\n")]);
    let merge = bench.repository.merge(&ours, &theirs, &base, &merge_note()).unwrap();
    let Merge::Clean { commit, changes } = merge.clone() else { panic!("{merge:?}") };
    assert_eq!(bench.repository.parents(&commit).unwrap(), [ours.clone(), theirs.clone()]);
    assert_eq!(
        bench.files(&commit),
        [("a", "A\n"), ("d/b", "B\n"), ("d/new", "n\nm\n")].map(|(p, t)| (p.to_owned(), t.to_owned()))
    );
    assert_eq!((changes.files, changes.added, changes.removed), (3, 3, 2));
    assert_eq!(changes.paths, ["d/b", "d/new", "gone"]);
    // The same inputs give the same id, and git's own eyes find nothing wrong.
    assert_eq!(bench.repository.merge(&ours, &theirs, &base, &merge_note()).unwrap(), merge);
    git(bench.repository.path(), &["fsck", "--strict"]);
    let shown =
        git(bench.repository.path(), &["log", "-1", "--format=%an %at %s|%(trailers)", commit.as_str()]);
    assert_eq!(shown.trim(), "ensemble 1796000000 Merge api|Ensemble-Task: api");
}

#[test]
fn a_fast_forward_is_a_merge_commit_too() {
    let bench = Bench::new();
    let base = bench.commit(&[], &[("a", b"a\n")]);
    let theirs = bench.commit(&[&base], &[("a", b"b\n")]);
    let merge = bench.repository.merge(&base, &theirs, &base, &merge_note()).unwrap();
    let Merge::Clean { commit, .. } = merge else { panic!("{merge:?}") };
    assert_eq!(bench.repository.parents(&commit).unwrap(), [base, theirs]);
}

#[test]
fn different_lines_of_one_file_are_merged() {
    let ours = LINES.strip_prefix(b"one\n").unwrap();
    let theirs = [LINES, b"seven\n"].concat();
    let found = files(&[("f", LINES)], &[("f", ours)], &[("f", &theirs)]);
    assert_eq!(found, [("f".to_owned(), "two\nthree\nfour\nfive\nsix\nseven\n".to_owned())]);
}

#[test]
fn both_may_empty_a_file_half_by_half() {
    let base: &[u8] = b"1\n2\n3\n4\n5\n6\n";
    let found = files(&[("f", base)], &[("f", b"3\n4\n5\n6\n")], &[("f", b"1\n2\n3\n")]);
    assert_eq!(found, [("f".to_owned(), "3\n".to_owned())]);
}

#[test]
fn the_same_change_on_both_sides_is_one() {
    let found = files(&[("f", b"a\n")], &[("f", b"b\n"), ("n", b"n\n")], &[("f", b"b\n"), ("n", b"n\n")]);
    assert_eq!(found.len(), 2);
}

#[test]
fn the_same_lines_are_a_conflict() {
    assert_eq!(
        conflict(&[("d/f", b"a\n")], &[("d/f", b"b\n")], &[("d/f", b"c\n")]),
        one("d/f", What::BothChanged)
    );
    assert_eq!(conflict(&[], &[("f", b"b\n")], &[("f", b"c\n")]), one("f", What::BothAdded));
}

#[test]
fn deleted_and_changed_is_a_conflict_with_renames_too() {
    let changed = [LINES, b"seven\n"].concat();
    assert_eq!(conflict(&[("f", LINES)], &[], &[("f", &changed)]), one("f", What::DeletedHere));
    assert_eq!(conflict(&[("f", LINES)], &[("f", &changed)], &[]), one("f", What::DeletedThere));
    assert_eq!(conflict(&[("f", LINES)], &[("g", LINES)], &[("f", &changed)]), one("f", What::DeletedHere));
    assert_eq!(conflict(&[("f", LINES)], &[("f", &changed)], &[("g", LINES)]), one("f", What::DeletedThere));
}

#[test]
fn a_rename_alone_and_a_deletion_on_both_sides_are_clean() {
    assert_eq!(files(&[("f", LINES)], &[("f", LINES), ("x", b"x")], &[("g", LINES)]).len(), 2);
    assert_eq!(files(&[("f", LINES), ("k", b"k")], &[("k", b"k")], &[("k", b"k"), ("n", b"n")]).len(), 2);
}

#[test]
fn exec_bits_merge_beside_content_and_clash_when_both_added() {
    let found = files(&[("f", LINES)], &[("f:100755", LINES)], &[("f", b"two\n")]);
    assert_eq!(found, [("f:100755".to_owned(), "two\n".to_owned())]);
    assert_eq!(conflict(&[], &[("f:100755", b"x")], &[("f", b"x")]), one("f", What::KindsDiffer));
}

#[test]
fn links_submodules_and_binaries_are_never_merged_by_content() {
    let (a, b, c): (&[u8], &[u8], &[u8]) = (&[b'1'; 40], &[b'2'; 40], &[b'3'; 40]);
    for mode in ["120000", "160000"] {
        let f = format!("f:{mode}");
        let f = f.as_str();
        assert_eq!(conflict(&[(f, a)], &[(f, b)], &[(f, c)]), one("f", What::BothChanged), "{mode}");
        assert_eq!(files(&[(f, a)], &[(f, a), ("x", b"x")], &[(f, c)]).len(), 2);
    }
    assert_eq!(conflict(&[("f", a)], &[("f:120000", b"x")], &[("f", c)]), one("f", What::KindsDiffer));
    let binary = |first: u8, last: u8| [&[first, 0, b'\n'][..], LINES, &[last]].concat();
    let (x, y, z) = (binary(1, 1), binary(2, 1), binary(1, 2));
    assert_eq!(conflict(&[("f", &x)], &[("f", &y)], &[("f", &z)]), one("f", What::BothChanged));
}

#[test]
fn a_file_and_a_folder_of_one_name_are_a_conflict_from_either_side() {
    let base: Files<'_> = &[("k", b"k")];
    let (file, folder): (Files<'_>, Files<'_>) =
        (&[("k", b"k"), ("p", b"x")], &[("k", b"k"), ("p/q/r", b"y")]);
    assert_eq!(conflict(base, file, folder), one("p/q/r", What::FileAndFolder));
    assert_eq!(conflict(base, folder, file), one("p", What::FileAndFolder));
    // Both emptied the folder, one put a file there.
    assert_eq!(files(&[("p/x", b"x"), ("k", b"k")], &[("p", b"y"), ("k", b"k")], &[("k", b"k")]).len(), 2);
    // One side turns the file into a folder, the other leaves it.
    assert_eq!(files(&[("p", b"x")], &[("p", b"x"), ("k", b"k")], &[("p/q", b"y")]).len(), 2);
    assert_eq!(conflict(&[("p", b"x")], &[("p", b"z")], &[("p/q", b"y")])[0].1, What::DeletedThere);
}

#[test]
fn attributes_in_the_tree_mean_nothing() {
    for line in ["* merge=union\n", "* merge=ours\n", "* -merge\n", "* binary\n", "f merge=mine\n"] {
        let a: (&str, &[u8]) = (".gitattributes", line.as_bytes());
        let clash = conflict(&[a, ("f", b"a\n")], &[a, ("f", b"b\n")], &[a, ("f", b"c\n")]);
        assert_eq!(clash, one("f", What::BothChanged), "{line}");
        let theirs = [LINES, b"seven\n"].concat();
        let found = files(&[a, ("f", LINES)], &[a, ("f", &LINES[4..])], &[a, ("f", &theirs)]);
        assert_eq!(found[1].1, "two\nthree\nfour\nfive\nsix\nseven\n", "{line}");
    }
}

#[test]
fn a_base_that_is_no_common_ancestor_is_refused() {
    let bench = Bench::new();
    let (a, b) = (bench.commit(&[], &[("a", b"a")]), bench.commit(&[], &[("b", b"b")]));
    let refused = bench.repository.merge(&a, &b, &a, &merge_note());
    assert!(matches!(refused, Err(Error::NotABase { .. })), "{refused:?}");
}

#[test]
fn lines_that_a_side_added_must_be_in_the_result() {
    assert!(keeps_lines([b"a\n", b"a\nb\n", b"c\na\n"], b"c\na\nb\n"));
    assert!(!keeps_lines([b"a\n", b"a\nb\n", b"c\na\n"], b"c\na\n"));
    assert!(!keeps_lines([b"a\n", b"a\nb\n", b"c\na\n"], b"a\nb\n"));
    // Two more of one line and one fewer: one more.
    assert!(keeps_lines([b"x\nx\n", b"x\nx\nx\nx\n", b"x\n"], b"x\nx\nx\n"));
    assert!(!keeps_lines([b"x\nx\n", b"x\nx\nx\nx\n", b"x\n"], b"x\nx\n"));
}

mod random {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d", "e"]), 0..12)
            .prop_map(|lines| lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect())
    }

    /// Nine lines, some of them changed or gone. No other path has them, or git would take a move for
    /// a rename; none is there twice, so that every algorithm finds the same differences (git's merge
    /// and this one use two).
    fn lines_of(path: &'static str) -> impl Strategy<Value = Vec<u8>> {
        let usual: String = (0..9).map(|n| format!("{path} {n}\n")).collect();
        let line = prop_oneof![3 => Just(Some(0)), 1 => Just(None), 1 => (1..3).prop_map(Some)];
        let other = prop::collection::vec(line, 9).prop_map(move |all| {
            let kept = all.iter().enumerate().filter_map(|(n, version)| version.map(|v| (n, v)));
            kept.map(|(n, v)| if v == 0 { format!("{path} {n}\n") } else { format!("{path} {n}, {v}\n") })
                .collect()
        });
        let appended = usual.clone() + path + " last\n";
        let prepended = path.to_owned() + " first\n" + &usual;
        prop_oneof![16 => Just(usual), 2 => Just(appended), 2 => Just(prepended), 1 => Just(String::new()), 4 => other]
            .prop_map(String::into_bytes)
    }

    /// Some files, and now and then a folder or a link in the place of one.
    fn tree() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let file = |path: &'static str, below: &'static str| {
            prop_oneof![
                1 => Just(vec![]),
                32 => lines_of(path).prop_map(move |bytes| vec![(path.to_owned(), bytes)]),
                2 => lines_of(path).prop_map(move |bytes| vec![(format!("{path}:100755"), bytes)]),
                1 => lines_of(below).prop_map(move |bytes| vec![(below.to_owned(), bytes)]),
                1 => (0..2).prop_map(move |n| vec![(format!("{path}:120000"), format!("{path}{n}").into_bytes())]),
            ]
        };
        (file("a", "a/x"), file("b", "b/x"), file("d/e", "d/e/x"), file("d/f", "d/f/x"))
            .prop_map(|(a, b, c, d)| [a, b, c, d, vec![("k".to_owned(), b"k".to_vec())]].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Whatever three versions there are: the merge is clean and has what each side changed,
        /// or it is a conflict; and the other way round it is the same.
        #[test]
        fn no_side_is_dropped(base in text(), ours in text(), theirs in text()) {
            let bench = Bench::new();
            let base_id = bench.commit(&[], &[("f", &base), ("k", b"k")]);
            let ours_id = bench.commit(&[&base_id], &[("f", &ours), ("k", b"k"), ("o", b"o")]);
            let theirs_id = bench.commit(&[&base_id], &[("f", &theirs), ("k", b"k"), ("t", b"t")]);
            let merge = |a, b| bench.repository.merge(a, b, &base_id, &merge_note()).unwrap();
            let (one, other) = (merge(&ours_id, &theirs_id), merge(&theirs_id, &ours_id));
            match (one, other) {
                (Merge::Clean { commit: one, .. }, Merge::Clean { commit: other, .. }) => {
                    prop_assert_eq!(bench.files(&one), bench.files(&other));
                    let merged = bench.repository.file_at(&one, "f").unwrap().unwrap();
                    prop_assert!(keeps_lines([&base, &ours, &theirs], &merged));
                    if ours == base {
                        prop_assert_eq!(&merged, &theirs);
                    }
                    prop_assert_eq!(bench.files(&one).len(), 4);
                }
                (Merge::Conflict { .. }, Merge::Conflict { .. }) => {
                    prop_assert!(ours != base && theirs != base && ours != theirs);
                }
                (one, other) => prop_assert!(false, "{:?} / {:?}", one, other),
            }
        }

        /// Files and folders under a few names: where this merge is clean, git's own finds the same
        /// tree; and it finds no conflict where git finds none.
        #[test]
        fn git_agrees(base in tree(), ours in tree(), theirs in tree()) {
            let bench = Bench::new();
            let commit = |parents: &[&CommitId], files: &[(String, Vec<u8>)]| {
                let files: Vec<_> = files.iter().map(|(p, b)| (p.as_str(), b.as_slice())).collect();
                bench.commit(parents, &files)
            };
            let base = commit(&[], &base);
            let (ours, theirs) = (commit(&[&base], &ours), commit(&[&base], &theirs));
            let merge = bench.repository.merge(&ours, &theirs, &base, &merge_note()).unwrap();
            let git = std::process::Command::new("git")
                .current_dir(bench.repository.path())
                .args(["merge-tree", "--write-tree", ours.as_str(), theirs.as_str()])
                .output()
                .unwrap();
            // A git before 2.38 has no such command, so it has no word in this.
            if git.status.code().is_none_or(|code| code > 1) {
                return Ok(());
            }
            let printed = String::from_utf8(git.stdout).unwrap();
            match merge {
                Merge::Clean { commit, .. } => {
                    let tree = tree::commit(&bench.git(), &commit).unwrap().tree_id().to_string();
                    prop_assert_eq!(printed.trim(), tree);
                }
                // Git takes the longer one where both added a file and one of them is empty.
                Merge::Conflict { files } if files.iter().all(|f| f.what == What::BothAdded) => {}
                Merge::Conflict { files } => prop_assert_eq!(git.status.code(), Some(1), "{:?}", files),
            }
        }
    }
}
