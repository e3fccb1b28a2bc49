//! Giving back what runs that are forgotten take up at nodes: left working copies, refs of mirrors, whole
//! mirrors that no run uses, reports that nobody will ask for. Only in directories that no process holds.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use ensemble_core::ids::RunId;
use ensemble_workspace::{Expect, Repository};

use crate::{
    Error,
    error::DoingTo,
    folder::{self, Folder},
    home::Held,
    mirrors::BASES,
    pool::Pool,
    store::Store,
};

/// How long a dead process's keeper may take to end what is left of its agent.
const VANISH: Duration = Duration::from_secs(10);

/// What was given back, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Directories of attempts, working copies included.
    pub attempts: u64,
    /// Refs of mirrors.
    pub refs: u64,
    /// Mirrors that no run uses any more.
    pub mirrors: u64,
    /// Bytes of those directories and mirrors.
    pub bytes: u64,
    /// Nodes that other processes hold; they were not looked at.
    pub busy: u64,
}

impl std::ops::AddAssign for Pruned {
    /// Nodes that are busy are the same ones each time.
    fn add_assign(&mut self, more: Self) {
        self.attempts += more.attempts;
        self.refs += more.refs;
        self.mirrors += more.mirrors;
        self.bytes += more.bytes;
        self.busy = self.busy.max(more.busy);
    }
}

/// Clears away what the runs in `gone` left below `<data>/nodes`; with `dry_run` only counts it.
///
/// # Errors
/// When something can't be read or removed. Repeating is safe.
pub async fn prune(data: &Path, gone: &BTreeSet<RunId>, dry_run: bool) -> Result<Pruned, Error> {
    let (homes, busy) = Held::free(data)?;
    let mut pruned = Pruned { busy: busy as u64, ..Pruned::default() };
    for home in &homes {
        let mut left = 0;
        for folder in folder::list(home.path())? {
            if folder.run().is_some_and(|run| gone.contains(&run)) {
                left += u64::from(!attempt(&folder, dry_run, &mut pruned).await?);
            } else {
                left += 1;
            }
        }
        if !dry_run {
            forget_reports(home, gone)?;
            // Copies that wait for their next attempt hold nothing of anybody.
            Pool::clear(&home.idle())?;
        }
        for entry in fs::read_dir(home.path().join("mirrors")).doing_to("list", home.path())? {
            mirror(&entry.doing_to("list", home.path())?.path(), gone, left == 0, dry_run, &mut pruned)?;
        }
    }
    Ok(pruned)
}

/// Whether the attempt's directory is gone, or would be.
async fn attempt(folder: &Folder, dry_run: bool, pruned: &mut Pruned) -> Result<bool, Error> {
    if !ensemble_agent::wait_until_free(&folder.lock(), Instant::now() + VANISH).await {
        tracing::warn!(path = %folder.path().display(), "processes of its agent are still there, so it stays");
        return Ok(false);
    }
    pruned.bytes += size(folder.path());
    if !dry_run {
        folder.remove()?;
    }
    pruned.attempts += 1;
    Ok(true)
}

fn forget_reports(home: &Held, gone: &BTreeSet<RunId>) -> Result<(), Error> {
    if !home.outbox().is_file() {
        return Ok(());
    }
    let store = Store::open(&home.outbox())?;
    for kept in store.all()? {
        if gone.contains(&kept.ended.key.run) {
            store.forget(&kept.ended.key)?;
        }
    }
    Ok(())
}

/// Working copies borrow a mirror's objects, so it goes whole only when `unused`: with no working copy
/// left, and no ref of a run that stays.
fn mirror(
    path: &Path,
    gone: &BTreeSet<RunId>,
    unused: bool,
    dry_run: bool,
    pruned: &mut Pruned,
) -> Result<(), Error> {
    if path.extension().is_none_or(|extension| extension != "git") {
        return Ok(());
    }
    let mirror = Repository::open_or_create(path)?;
    let (going, staying): (Vec<_>, Vec<_>) = mirror
        .refs("refs/")?
        .into_iter()
        .partition(|(name, _)| run_of(name).is_some_and(|run| gone.contains(&run)));
    pruned.refs += going.len() as u64;
    let whole = unused && staying.is_empty() && !going.is_empty();
    if whole {
        pruned.mirrors += 1;
        pruned.bytes += size(path);
    }
    match (dry_run, whole) {
        (true, _) => Ok(()),
        (false, true) => fs::remove_dir_all(path).doing_to("delete", path),
        (false, false) => {
            going.iter().try_for_each(|(name, _)| mirror.delete_ref(name, &Expect::Any)).map_err(Error::from)
        }
    }
}

/// The run that a ref belongs to.
fn run_of(name: &str) -> Option<RunId> {
    let rest = name.strip_prefix(BASES).or_else(|| name.strip_prefix("refs/ensemble/"))?;
    rest.split('/').next()?.parse().ok()
}

/// Bytes of all files below a path, as far as they can be seen.
fn size(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !found.is_dir() {
        return found.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Home,
        folder::{
            Stored,
            tests::{assign, key},
        },
    };

    /// A data directory in which the run of `key` left an attempt, refs in a mirror, and a report.
    fn left() -> (tempfile::TempDir, Repository) {
        let data = tempfile::tempdir().unwrap();
        let home = Home::open_free(data.path()).unwrap();
        let folder = Folder::of(home.path(), &key(5));
        folder.store(&Stored { began_ms: 1, assign: assign(5) }).unwrap();
        fs::create_dir_all(folder.work()).unwrap();
        fs::write(folder.work().join("a.txt"), "abc").unwrap();
        let mirror = Repository::open_or_create(home.path().join("mirrors/shop.git")).unwrap();
        let commit = mirror.empty_root().unwrap();
        let run = key(5).run;
        for name in [format!("{BASES}{run}/{commit}"), format!("refs/ensemble/{run}/api/1")] {
            mirror.update_ref(&name, &commit, &Expect::Any).unwrap();
        }
        (data, mirror)
    }

    #[tokio::test]
    async fn what_a_forgotten_run_left_is_given_back() {
        let (data, mirror) = left();
        let gone = BTreeSet::from([key(5).run]);
        let counted = prune(data.path(), &gone, true).await.unwrap();
        assert_eq!((counted.attempts, counted.refs, counted.mirrors, counted.busy), (1, 2, 1, 0));
        assert!(mirror.path().exists(), "only counted");
        let done = prune(data.path(), &gone, false).await.unwrap();
        assert_eq!(done, counted);
        assert!(!mirror.path().exists());
        let attempts = data.path().join("nodes/1/attempts");
        assert_eq!(fs::read_dir(attempts).unwrap().count(), 0);
        assert_eq!(prune(data.path(), &gone, false).await.unwrap(), Pruned::default());
    }

    #[tokio::test]
    async fn what_another_run_needs_stays_and_so_does_a_mirror_with_it() {
        let (data, mirror) = left();
        let nothing = prune(data.path(), &BTreeSet::new(), false).await.unwrap();
        assert_eq!(nothing, Pruned::default());
        let other = RunId::from_parts(9, 9);
        let name = format!("{BASES}{other}/1");
        mirror.update_ref(&name, &mirror.empty_root().unwrap(), &Expect::Any).unwrap();
        let done = prune(data.path(), &BTreeSet::from([key(5).run]), false).await.unwrap();
        assert_eq!((done.refs, done.mirrors), (2, 0));
        assert_eq!(mirror.refs("refs/").unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_node_that_lives_is_not_touched() {
        let (data, mirror) = left();
        let _home = Home::open_free(data.path()).unwrap();
        let done = prune(data.path(), &BTreeSet::from([key(5).run]), false).await.unwrap();
        assert_eq!(done, Pruned { busy: 1, ..Pruned::default() });
        assert!(mirror.path().exists());
    }
}
