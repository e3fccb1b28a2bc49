//! What the doctor looks at in a data directory: whether it can be written, on what file system, how much
//! room there is, whether the journal opens, and what processes that were killed left.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use ensemble_directory::Local;
use ensemble_journal::Journal;
use nix::{
    errno::Errno,
    sys::{
        signal::kill,
        statfs::{self, Statfs},
        statvfs::statvfs,
    },
    unistd::Pid,
};

use super::Finding;
use crate::{args::Place, error::Error, kept, output, paths, runs};

/// Free space below which a run may soon be held up.
const LITTLE: u64 = 1024 * 1024 * 1024;

/// Free space below which nothing can be begun.
const TOO_LITTLE: u64 = 64 * 1024 * 1024;

/// File systems whose locks and write-ahead logs can't be relied on between machines, by the number that
/// the kernel has for them.
const REMOTE: [(i64, &str); 6] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
];

/// All findings.
pub async fn look(place: &Place) -> Vec<Finding> {
    let data = match paths::data_of(place) {
        Ok(data) => data,
        Err(error) => {
            return vec![Finding::bad("data directory", error.to_string(), "name one with --data DIR")];
        }
    };
    let mut findings = vec![writable(&data)];
    // What is not made yet will lie where its nearest ancestor lies.
    if let Some(there) = data.ancestors().find(|path| path.is_dir()) {
        findings.push(file_system(statfs::statfs(there).ok()));
        findings.push(room(there));
    }
    if data.is_dir() {
        findings.extend(journal(&data).await);
        findings.push(sockets(&data));
        findings.push(locks(&data));
        findings.push(attempts(&data));
    }
    findings
}

fn writable(data: &Path) -> Finding {
    const NAME: &str = "data directory";
    let shown = data.display();
    let Some(there) = data.ancestors().find(|path| path.is_dir()) else {
        return Finding::bad(NAME, format!("{shown} can't be made"), "name another with --data DIR");
    };
    match tempfile::tempfile_in(there) {
        Ok(_) if there == data => Finding::good(NAME, shown.to_string()),
        Ok(_) => Finding::good(NAME, format!("{shown}, made by the first run")),
        Err(error) => Finding::bad(
            NAME,
            format!("{} can't be written: {error}", there.display()),
            "name another with --data DIR",
        ),
    }
}

fn file_system(found: Option<Statfs>) -> Finding {
    const NAME: &str = "file system";
    let Some(found) = found else { return Finding::warning(NAME, "it can't be asked", "") };
    #[allow(clippy::useless_conversion, reason = "the number's type differs between systems")]
    let number = i64::from(found.filesystem_type().0);
    match REMOTE.iter().find(|(remote, _)| *remote == number) {
        Some((_, "FUSE" | "9P")) => {
            Finding::warning(NAME, "FUSE or 9P: its locks may not reach the disk", "prefer a local disk")
        }
        Some((_, name)) => {
            Finding::bad(NAME, format!("{name} has no safe locks"), "use a local disk: --data DIR")
        }
        None => Finding::good(NAME, format!("local (type {number:#x})")),
    }
}

fn room(there: &Path) -> Finding {
    const NAME: &str = "free space";
    let Ok(found) = statvfs(there) else { return Finding::warning(NAME, "it can't be asked", "") };
    #[allow(clippy::useless_conversion, reason = "the numbers' types differ between systems")]
    let free = u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size()));
    let shown = output::bytes(free);
    match free {
        free if free < TOO_LITTLE => Finding::bad(NAME, shown, "make room; `ensemble prune` gives some back"),
        free if free < LITTLE => Finding::warning(NAME, shown, "`ensemble prune` gives some back"),
        _ => Finding::good(NAME, shown),
    }
}

/// Whether the journal opens, and which runs nobody goes on with.
async fn journal(data: &Path) -> Vec<Finding> {
    if !data.join("journal.db").exists() {
        return vec![Finding::good("journal", "none yet")];
    }
    let journal = match Journal::open(data) {
        Ok(journal) => journal,
        Err(error) => return vec![Finding::bad("journal", error.to_string(), "")],
    };
    match unfinished(data, &journal).await {
        Ok((all, left)) if left.is_empty() => vec![Finding::good("journal", output::count(all, "run"))],
        Ok((all, left)) => vec![
            Finding::good("journal", output::count(all, "run")),
            Finding::warning(
                "runs",
                format!("nobody works on {}", left.join(", ")),
                "`ensemble resume RUN` goes on",
            ),
        ],
        Err(error) => vec![Finding::bad("journal", error.to_string(), "")],
    }
}

async fn unfinished(data: &Path, journal: &Journal) -> Result<(usize, Vec<String>), Error> {
    let directory = Local::new(data);
    let all = runs::list(journal).await?;
    let mut left = Vec::new();
    for run in &all {
        let state = runs::load(journal, *run).await?;
        if runs::is_unfinished(&state) && state.waiting.is_none() && directory.owner(*run)?.is_none() {
            left.push(run.to_string());
        }
    }
    Ok((all.len(), left))
}

/// Sockets whose process is gone: litter that the next run sweeps away.
fn sockets(data: &Path) -> Finding {
    let gone = entries(&data.join("sock")).into_iter().filter(|path| {
        let pid = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(".sock"));
        pid.and_then(|pid| pid.parse().ok())
            .is_some_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH))
    });
    match gone.count() {
        0 => Finding::good("sockets", "none is left over"),
        many => Finding::warning(
            "sockets",
            format!("{many} of processes that are gone"),
            "the next run removes them",
        ),
    }
}

/// Locks on refs. An update takes milliseconds, so one that is seen was most likely left by a process that
/// was killed; who owns the run next removes it.
fn locks(data: &Path) -> Finding {
    let repositories = entries(&kept::folder(data));
    match repositories.iter().map(|path| count_locks(&path.join("refs"))).sum::<usize>() {
        0 => Finding::good("locks", "none is left over"),
        many => Finding::warning("locks", format!("{many} on refs"), "`ensemble resume` removes a run's"),
    }
}

fn count_locks(folder: &Path) -> usize {
    let count = |path: PathBuf| match path.is_dir() {
        true => count_locks(&path),
        false => usize::from(path.extension() == Some(OsStr::new("lock"))),
    };
    entries(folder).into_iter().map(count).sum()
}

/// Working copies below nodes that no process holds.
fn attempts(data: &Path) -> Finding {
    let is_free = |node: &PathBuf| ensemble_agent::lock_is_free(&node.join("lock"));
    let nodes = entries(&data.join("nodes")).into_iter().filter(|node| node.is_dir()).filter(is_free);
    let runs = nodes.flat_map(|node| entries(&node.join("attempts")));
    let left: usize = runs.map(|run| entries(&run).len()).sum();
    match left {
        0 => Finding::good("working copies", "none is left over"),
        many => Finding::warning(
            "working copies",
            format!("{many} of processes that are gone"),
            "the next run takes in what they hold",
        ),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::Health, *};

    async fn found(data: &Path) -> Vec<(&'static str, Health)> {
        let place = Place { repo: data.to_owned(), data: Some(data.to_owned()) };
        look(&place).await.into_iter().map(|one| (one.name, one.health)).collect()
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_yet_is_good_and_is_not_made() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("a/b");
        assert_eq!(found(&data).await[0], ("data directory", Health::Good));
        assert!(!data.exists());
    }

    #[tokio::test]
    async fn what_killed_processes_left_is_named_and_a_damaged_journal_is_bad() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        drop(Journal::open(data).unwrap());
        fs::create_dir_all(data.join("nodes/1/attempts/run/5-api-1")).unwrap();
        fs::create_dir_all(data.join("sock")).unwrap();
        // No process has the highest number that there is.
        fs::write(data.join("sock/2147483647.sock"), "").unwrap();
        let refs = data.join("repositories/shop.git/refs/heads/ensemble");
        fs::create_dir_all(&refs).unwrap();
        fs::write(refs.join("run.lock"), "").unwrap();
        let healths = found(data).await;
        for expected in [
            ("journal", Health::Good),
            ("sockets", Health::Warning),
            ("locks", Health::Warning),
            ("working copies", Health::Warning),
        ] {
            assert!(healths.contains(&expected), "{expected:?} in {healths:?}");
        }
        fs::write(data.join("journal.db"), vec![7; 8192]).unwrap();
        assert!(found(data).await.contains(&("journal", Health::Bad)));
    }
}
