//! `ensemble prune`: forgets runs that have been over for long enough, and gives back what they take up.
//! What an unfinished run needs stays, and so does work that is nowhere else, unless that is asked for.

mod judge;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ensemble_core::ids::{Epoch, RepositoryId, RunId, Seq};
use ensemble_directory::{Election, Local, Ownership};
use ensemble_journal::{Journal, Stream, Swept};
use ensemble_node::Pruned;
use ensemble_workspace::{Expect, Repository, UserRepository};
pub use judge::Verdict;

use super::run::detached_log;
use crate::{
    args::{Format, Prune},
    embedded,
    error::{DoingTo, Error, Exit},
    kept, output, paths, runs,
};

/// How long a blob may lie before a fact names it.
const BLOB_AGE: Duration = Duration::from_secs(60 * 60);

/// What was given back, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Facts of the journal.
    pub facts: u64,
    /// Refs of the data directory's repositories.
    pub refs: u64,
    /// Logs and files beside them.
    pub logs: u64,
    /// Bytes of those.
    pub log_bytes: u64,
    /// What nodes left.
    pub nodes: Pruned,
    /// Blobs.
    pub blobs: Swept,
}

/// Runs that are forgotten together: each of them is held by an open lock file.
const BATCH: usize = 200;

/// A run that goes, as far as it was judged.
#[derive(Clone, Debug)]
struct Going {
    run: RunId,
    repository: Option<RepositoryId>,
    epoch: Epoch,
    seq: Seq,
}

/// Forgets old runs.
///
/// # Errors
/// Those of the journal, the repositories and the file system; repeating is safe.
pub async fn prune(args: &Prune) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let (mut verdicts, mut reclaimed) = (BTreeMap::new(), Reclaimed::default());
    if let Some(journal) = runs::journal(&data)? {
        let going = choose(args, &data, &journal, &mut verdicts).await?;
        for batch in going.chunks(BATCH) {
            forget(args, &data, &journal, batch, &mut verdicts, &mut reclaimed).await?;
        }
        let gone = |one: &Going| matches!(verdicts.get(&one.run), Some(Verdict::Goes(_)));
        let streams: Vec<Stream> =
            going.iter().filter(|one| gone(one)).map(|one| Stream::Run(one.run)).collect();
        reclaimed.blobs = journal.sweep_blobs(&streams, BLOB_AGE, args.dry_run).await?;
    }
    let left = left_over(&data);
    match args.output.format {
        Format::Json => {
            let object = output::prune_object(args.dry_run, &verdicts, &reclaimed, &left);
            output::result(&object.to_string())?;
        }
        Format::Table => output::result(&lines(args.dry_run, &verdicts, &reclaimed, &left).join("\n"))?,
    }
    Ok(Exit::Good)
}

/// The runs that go; every run's verdict is noted.
async fn choose(
    args: &Prune,
    data: &Path,
    journal: &Journal,
    verdicts: &mut BTreeMap<RunId, Verdict>,
) -> Result<Vec<Going>, Error> {
    let directory = Local::new(data);
    let repository = UserRepository::discover(&args.place.repo).ok();
    let age = u64::try_from(args.older_than.as_millis()).unwrap_or(u64::MAX);
    let before = output::now_ms().saturating_sub(age);
    let mut going = Vec::new();
    for run in runs::list(journal).await? {
        if let Some(owner) = directory.owner(run)? {
            verdicts.insert(run, Verdict::Owned(owner.pid));
            continue;
        }
        let state = runs::load(journal, run).await?;
        let verdict = judge::judge(&state, before, args.untaken, repository.as_ref())?;
        if matches!(verdict, Verdict::Goes(_)) {
            let repository = state.submitted.as_ref().map(|submitted| submitted.repository.clone());
            going.push(Going { run, repository, epoch: state.epoch, seq: state.seq });
        }
        verdicts.insert(run, verdict);
    }
    Ok(going)
}

/// Takes the runs, so that nobody goes on with them meanwhile; those that somebody has, or that went on
/// since they were judged, are left out.
async fn hold<'g>(
    data: &Path,
    journal: &Journal,
    batch: &'g [Going],
    verdicts: &mut BTreeMap<RunId, Verdict>,
) -> Result<Vec<(&'g Going, Ownership)>, Error> {
    let (directory, me) = (Local::new(data), embedded::me(data)?);
    let mut held = Vec::new();
    for one in batch {
        let ownership = match directory.own(one.run, &me)? {
            Election::Won(ownership) => ownership,
            Election::Held(owner) => {
                verdicts.insert(one.run, Verdict::Owned(owner.map_or(0, |owner| owner.pid)));
                continue;
            }
        };
        if journal.last_seq(&Stream::Run(one.run)).await? == one.seq {
            held.push((one, ownership));
        } else {
            verdicts.insert(one.run, Verdict::Young);
        }
    }
    Ok(held)
}

/// Forgets runs. The journal goes last: whatever interrupts this, the run is still known and the rest can
/// be repeated.
async fn forget(
    args: &Prune,
    data: &Path,
    journal: &Journal,
    batch: &[Going],
    verdicts: &mut BTreeMap<RunId, Verdict>,
    reclaimed: &mut Reclaimed,
) -> Result<(), Error> {
    let dry_run = args.dry_run;
    let held = if dry_run { Vec::new() } else { hold(data, journal, batch, verdicts).await? };
    let batch: Vec<&Going> =
        if dry_run { batch.iter().collect() } else { held.iter().map(|(one, _)| *one).collect() };
    for one in &batch {
        reclaimed.refs += refs(data, one.repository.as_ref(), one.run, dry_run)?;
    }
    let gone: BTreeSet<RunId> = batch.iter().map(|one| one.run).collect();
    reclaimed.nodes += ensemble_node::prune(data, &gone, dry_run).await?;
    for one in batch {
        for path in [data.join("logs").join(one.run.to_string()), detached_log(data, one.run)] {
            files(&path, dry_run, reclaimed)?;
        }
        reclaimed.facts += one.seq.0;
        if !dry_run {
            journal.forget(&Stream::Run(one.run), one.epoch).await?;
            // Nobody can own what is not in the journal, so the file is only litter.
            let _ = fs::remove_file(data.join("runs").join(format!("{}.lock", one.run)));
        }
    }
    Ok(())
}

/// Deletes a run's refs in the data directory's copy; how many.
fn refs(data: &Path, id: Option<&RepositoryId>, run: RunId, dry_run: bool) -> Result<u64, Error> {
    let Some(repository) = id.map(|id| kept::find(data, id)).transpose()?.flatten() else { return Ok(0) };
    let mut names = of_run(&repository, &format!("refs/ensemble/{run}/"))?;
    let branch = format!("refs/heads/ensemble/{run}");
    names.extend(of_run(&repository, &branch)?.into_iter().filter(|name| *name == branch));
    if !dry_run {
        names.iter().try_for_each(|name| repository.delete_ref(name, &Expect::Any))?;
    }
    Ok(names.len() as u64)
}

fn of_run(repository: &Repository, prefix: &str) -> Result<Vec<String>, Error> {
    Ok(repository.refs(prefix)?.into_iter().map(|(name, _)| name).collect())
}

/// Deletes a file, or a folder of files.
fn files(path: &Path, dry_run: bool, reclaimed: &mut Reclaimed) -> Result<(), Error> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_dir() {
        reclaimed.logs += 1;
        reclaimed.log_bytes += found.len();
        return if dry_run { Ok(()) } else { fs::remove_file(path).doing_to("delete", path) };
    }
    for entry in fs::read_dir(path).doing_to("list", path)? {
        files(&entry.doing_to("list", path)?.path(), dry_run, reclaimed)?;
    }
    if dry_run { Ok(()) } else { fs::remove_dir(path).doing_to("delete", path) }
}

/// Repositories whose objects stay: only git's own collection takes those.
fn left_over(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(kept::folder(data)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "git"));
    paths.sort();
    paths
}

fn lines(
    dry_run: bool,
    verdicts: &BTreeMap<RunId, Verdict>,
    reclaimed: &Reclaimed,
    left: &[PathBuf],
) -> Vec<String> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Goes(_) if dry_run => "would go",
        Verdict::Goes(_) => "gone",
        _ => "kept",
    };
    let rows: Vec<[String; 3]> = verdicts
        .iter()
        .map(|(run, verdict)| [run.to_string(), word(verdict).to_owned(), verdict.to_string()])
        .collect();
    let mut lines = output::table(&rows);
    let Reclaimed { facts, refs, logs, log_bytes, nodes, blobs } = reclaimed;
    let bytes = log_bytes + nodes.bytes + blobs.bytes;
    let what = format!(
        "{facts} facts, {} blobs, {logs} logs, {} refs, {} working copies, {} mirrors: {} of files",
        blobs.blobs,
        refs + nodes.refs,
        nodes.attempts,
        nodes.mirrors,
        output::bytes(bytes)
    );
    lines.push(format!("{}: {what}", if dry_run { "would be given back" } else { "given back" }));
    if nodes.busy > 0 {
        lines.push(format!("{} nodes of living processes were not looked at", nodes.busy));
    }
    if *facts == 0 {
        return lines;
    }
    lines.push(
        "not given back: the journal's file keeps its length, what is free in it is used again".to_owned(),
    );
    lines.extend(left.iter().map(|path| {
        let path = path.display();
        format!("not given back: objects in {path}; `git -C {path} gc` takes those that no ref needs")
    }));
    lines
}
