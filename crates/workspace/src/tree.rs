//! Trees as values: what differs between two, and a tree with some entries changed. Both touch only
//! the folders that differ, so their cost follows the change and not the repository.

use std::collections::{BTreeMap, BTreeSet};

use ensemble_core::{
    ids::CommitId,
    plan::path::{self, BadPath},
};
use git2::{ObjectType, Oid, Repository};

use crate::error::{Doing, Error};

/// Deepest folder that is read: far beyond real trees, and shallow enough for any stack.
const DEPTH_LIMIT: usize = 256;

pub(crate) const FILE: i32 = 0o100_644;
pub(crate) const EXECUTABLE: i32 = 0o100_755;
pub(crate) const LINK: i32 = 0o120_000;
pub(crate) const MODULE: i32 = 0o160_000;
pub(crate) const FOLDER: i32 = 0o040_000;

/// A path in a tree, as git keeps it: bytes with `/` between components.
pub(crate) type TreePath = Vec<u8>;

/// What stands at a path: a mode and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: i32,
    pub(crate) id: Oid,
}

impl Entry {
    pub(crate) fn is_file(self) -> bool {
        matches!(self.mode, FILE | EXECUTABLE)
    }

    pub(crate) fn is_module(self) -> bool {
        self.mode == MODULE
    }

    fn is_folder(self) -> bool {
        self.mode == FOLDER
    }
}

/// A difference at one path; folders never appear, only what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
}

/// Differences by path.
pub(crate) type Changed = BTreeMap<TreePath, Change>;

/// Converts an id of ours into git's.
pub(crate) fn oid(commit: &CommitId) -> Result<Oid, Error> {
    Oid::from_str(commit.as_str()).doing("read a commit id")
}

/// Converts git's id into ours.
pub(crate) fn commit_id(oid: Oid) -> Result<CommitId, Error> {
    CommitId::new(oid.to_string()).map_err(|why| Error::Git {
        doing: "read a commit id",
        source: git2::Error::from_str(&why.to_string()),
    })
}

/// The commit, or a clear word that it is not there.
pub(crate) fn commit<'r>(repo: &'r Repository, id: &CommitId) -> Result<git2::Commit<'r>, Error> {
    repo.find_commit(oid(id)?).map_err(|_| Error::NoSuchCommit { commit: id.clone() })
}

/// A path for people and for facts.
pub(crate) fn spell(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Whether a name could lead out of the working copy or into git's own folder.
pub(crate) fn escapes(name: &[u8]) -> bool {
    let git = |text: &str| path::check(text) == Err(BadPath::Git);
    let shown = |c: &char| path::check(c.encode_utf8(&mut [0; 4])) != Err(BadPath::Control);
    let text = String::from_utf8_lossy(name);
    matches!(name, b"" | b"." | b"..")
        || name.iter().any(|b| matches!(b, b'/' | 0))
        || git(&text)
        // Some file systems drop the characters that nobody sees.
        || !text.is_ascii() && git(&text.chars().filter(shown).collect::<String>())
}

/// The path of `name` in the folder `prefix`.
pub(crate) fn join(prefix: &[u8], name: &[u8]) -> TreePath {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// The entries of one folder, in git's order.
pub(crate) fn entries(repo: &Repository, tree: Oid) -> Result<Vec<(Vec<u8>, Entry)>, Error> {
    let tree = repo.find_tree(tree).doing("read a tree")?;
    Ok(tree.iter().map(|e| (e.name_bytes().to_vec(), Entry { mode: e.filemode(), id: e.id() })).collect())
}

/// What differs between two trees; no tree is an empty one.
pub(crate) fn diff(repo: &Repository, old: Option<Oid>, new: Option<Oid>) -> Result<Changed, Error> {
    let mut out = Changed::new();
    diff_into(repo, (old, new), &[], 0, &mut out)?;
    Ok(out)
}

/// All files of a tree.
pub(crate) fn files(repo: &Repository, tree: Oid) -> Result<BTreeMap<TreePath, Entry>, Error> {
    let all = diff(repo, None, Some(tree))?;
    Ok(all.into_iter().filter_map(|(path, change)| Some((path, change.new?))).collect())
}

fn diff_into(
    repo: &Repository,
    (old, new): (Option<Oid>, Option<Oid>),
    prefix: &[u8],
    depth: usize,
    out: &mut Changed,
) -> Result<(), Error> {
    if old == new {
        return Ok(());
    }
    check_depth(prefix, depth)?;
    let read = |tree: Option<Oid>| -> Result<BTreeMap<Vec<u8>, Entry>, Error> {
        tree.map_or_else(|| Ok(BTreeMap::new()), |id| Ok(entries(repo, id)?.into_iter().collect()))
    };
    let (old, new) = (read(old)?, read(new)?);
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (old.get(name).copied(), new.get(name).copied());
        if before == after {
            continue;
        }
        let path = join(prefix, name);
        let folder = |entry: Option<Entry>| entry.filter(|e| e.is_folder()).map(|e| e.id);
        diff_into(repo, (folder(before), folder(after)), &path, depth + 1, out)?;
        let leaf = |entry: Option<Entry>| entry.filter(|e| !e.is_folder());
        let change = Change { old: leaf(before), new: leaf(after) };
        if change.old != change.new {
            out.insert(path, change);
        }
    }
    Ok(())
}

fn check_depth(prefix: &[u8], depth: usize) -> Result<(), Error> {
    if depth > DEPTH_LIMIT {
        return Err(Error::BadPath { path: spell(prefix), why: BadPath::Long });
    }
    Ok(())
}

/// Entries to put (or, with `None`, to take away) by path.
pub(crate) type Edits = BTreeMap<TreePath, Option<Entry>>;

/// The tree `base` with `edits` made; folders that end up empty vanish.
pub(crate) fn edit(repo: &Repository, base: Option<Oid>, edits: &Edits) -> Result<Oid, Error> {
    let edits = edits.iter().map(|(path, entry)| (path.as_slice(), *entry)).collect();
    match edit_folder(repo, base, edits, 0)? {
        Some(tree) => Ok(tree),
        None => repo.treebuilder(None).and_then(|empty| empty.write()).doing("write a tree"),
    }
}

/// What happens to one name of a folder: to the entry itself, and to what lies below it.
#[derive(Default)]
struct Here<'a> {
    leaf: Option<Option<Entry>>,
    below: Vec<(&'a [u8], Option<Entry>)>,
}

fn edit_folder(
    repo: &Repository,
    base: Option<Oid>,
    edits: Vec<(&[u8], Option<Entry>)>,
    depth: usize,
) -> Result<Option<Oid>, Error> {
    check_depth(b"", depth)?;
    let mut names: BTreeMap<&[u8], Here<'_>> = BTreeMap::new();
    for (path, entry) in edits {
        match path.iter().position(|b| *b == b'/') {
            None => names.entry(path).or_default().leaf = Some(entry),
            Some(at) => names.entry(&path[..at]).or_default().below.push((&path[at + 1..], entry)),
        }
    }
    let old = base.map(|id| repo.find_tree(id)).transpose().doing("read a tree")?;
    let mut builder = repo.treebuilder(old.as_ref()).doing("write a tree")?;
    for (name, here) in names {
        let there = builder.get(name).doing("read a tree")?.map(|e| (e.id(), e.kind()));
        let folder = there.filter(|(_, kind)| *kind == Some(ObjectType::Tree)).map(|(id, _)| id);
        let below =
            if here.below.is_empty() { folder } else { edit_folder(repo, folder, here.below, depth + 1)? };
        match (here.leaf, below) {
            (Some(Some(entry)), _) => builder.insert(name, entry.id, entry.mode).map(drop),
            (_, Some(tree)) => builder.insert(name, tree, FOLDER).map(drop),
            // A file that nobody asked to delete stays, even if a folder of its name was emptied.
            (leaf, None) if there.is_some() && (leaf.is_some() || folder.is_some()) => builder.remove(name),
            (_, None) => Ok(()),
        }
        .doing("write a tree")?;
    }
    if builder.is_empty() {
        return Ok(None);
    }
    builder.write().map(Some).doing("write a tree")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn file(bench: &Bench, text: &str) -> Entry {
        Entry { mode: FILE, id: bench.git().blob(text.as_bytes()).unwrap() }
    }

    #[test]
    fn an_edited_tree_differs_exactly_by_its_edits() {
        let bench = Bench::new();
        let repo = bench.git();
        let (a, b) = (file(&bench, "a"), file(&bench, "b"));
        let first: Edits =
            [("d/x", a), ("d/e/y", a), ("d-z", a), ("q", a)].map(|(p, e)| (p.into(), Some(e))).into();
        let base = edit(&repo, None, &first).unwrap();
        // A file becomes a folder, a folder becomes a file, a folder becomes empty.
        let second: Edits = [
            ("q", None),
            ("q/deep/er", Some(b)),
            ("d", Some(b)),
            ("d/x", None),
            ("d/e/y", None),
            ("d-z", None),
        ]
        .map(|(p, e)| (p.into(), e))
        .into();
        let result = edit(&repo, Some(base), &second).unwrap();
        let left: Vec<_> = files(&repo, result).unwrap().into_keys().map(|p| spell(&p)).collect();
        assert_eq!(left, ["d", "q/deep/er"]);
        let seen = diff(&repo, Some(base), Some(result)).unwrap();
        assert_eq!(seen.into_iter().map(|(p, c)| (p, c.new)).collect::<Edits>(), second);
    }

    #[test]
    fn taking_everything_away_leaves_the_empty_tree() {
        let bench = Bench::new();
        let repo = bench.git();
        let base = edit(&repo, None, &[(b"a/b".to_vec(), Some(file(&bench, "x")))].into()).unwrap();
        let empty = edit(&repo, Some(base), &[(b"a/b".to_vec(), None)].into()).unwrap();
        assert_eq!(empty.to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }

    #[test]
    fn names_that_lead_out_are_known() {
        for name in ["", ".", "..", ".git", ".GIT", ".git.", "git~1", "a/b", ".g\u{200c}it"] {
            assert!(escapes(name.as_bytes()), "{name:?}");
        }
        for name in ["a", "...", ".gitignore", "a:b", "a."] {
            assert!(!escapes(name.as_bytes()), "{name:?}");
        }
    }
}
