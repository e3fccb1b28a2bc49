//! `ensemble diff`: what a run or one of its tasks changed, as a unified diff or in figures. Taken from
//! the data directory's copy, so it needs neither the user's repository nor an owner.

use std::path::Path;

use ensemble_core::{
    ids::CommitId,
    run::{State, state::Task},
};
use ensemble_workspace::{FileChange, FileStatus, Repository};

use crate::{
    args::{Diff, Format},
    error::{Error, Exit},
    kept, output, owner, paths, runs,
};

/// Longest diff in bytes: beyond it nobody reads, and the branch has it all.
const LIMIT: usize = 256 * 1024 * 1024;

/// Two commits to compare, and what the second is.
struct Span {
    base: CommitId,
    commit: CommitId,
    /// Work that is not on the run's branch.
    unmerged: bool,
}

/// Shows what changed.
///
/// # Errors
/// When there is nothing to compare, and those of the journal and the repository.
pub async fn diff(args: &Diff) -> Result<Exit, Error> {
    let data = paths::data_of(&args.place)?;
    let journal = runs::existing_journal(&data)?;
    let run = runs::find(&journal, &data, &args.run).await?;
    let state = runs::load(&journal, run).await?;
    let (repository, span) = span(&data, &state, args.task.as_deref())?;
    if span.unmerged {
        output::say(&format!("note: {} is not merged; this is what its last attempt left", span.commit));
    }
    let files = repository.file_changes(&span.base, &span.commit)?;
    let text = if args.stat { None } else { Some(repository.diff_text(&span.base, &span.commit, LIMIT)?) };
    match (args.output.format, text) {
        (Format::Json, text) => {
            let object =
                output::diff_object(run, args.task.as_deref(), (&span.base, &span.commit), &files, text);
            output::result(&object.to_string())?;
        }
        // Agents wrote what stands in it; a terminal is not steered by that.
        (Format::Table, Some(text)) => output::transcript(text.as_bytes())?,
        (Format::Table, None) => output::result(&stat(&files).join("\n"))?,
    }
    Ok(Exit::Good)
}

fn span(data: &Path, state: &State, task: Option<&str>) -> Result<(Repository, Span), Error> {
    let (repository, base, head) = kept::of_run(data, state)?;
    let Some(word) = task else { return Ok((repository, Span { base, commit: head, unmerged: false })) };
    let id = owner::task_id(word)?;
    owner::must_have(state, &id)?;
    let found = state.find(&id).and_then(|(_, task)| work(task));
    let Some((commit, unmerged)) = found else {
        let what = format!("task {id} of run {} has changed nothing", state.run);
        return Err(Error::usage(what, format!("`ensemble show {}` says how far it is", state.run)));
    };
    let parent = repository.parents(&commit)?.into_iter().next();
    let base = parent.ok_or_else(|| Error::broken(format!("commit {commit} has no parent")))?;
    Ok((repository, Span { base, commit, unmerged }))
}

/// A task's merge, else the newest work of it that there is; and whether that is not merged.
fn work(task: &Task) -> Option<(CommitId, bool)> {
    if let Some(merged) = task.delivered.as_ref().and_then(|delivered| delivered.merged.clone()) {
        return Some((merged, false));
    }
    let report = task.attempt.as_ref().and_then(|attempt| attempt.stage.report());
    let under_way = report.and_then(|report| report.delivery.as_ref());
    let last = task.previous.as_ref().and_then(|previous| previous.capture.as_ref());
    under_way.or(last).map(|delivery| (delivery.commit.clone(), true))
}

/// The figures in lines, a sum last.
fn stat(files: &[FileChange]) -> Vec<String> {
    let row = |file: &FileChange| {
        let sign = match file.status {
            FileStatus::Added => "A",
            FileStatus::Deleted => "D",
            FileStatus::Modified => "M",
        };
        let figures = if file.binary { "binary".to_owned() } else { lines(file.added, file.removed) };
        [sign.to_owned(), output::one_line(&file.path), figures]
    };
    let rows: Vec<[String; 3]> = files.iter().map(row).collect();
    let mut all = output::table(&rows);
    let (added, removed) =
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    all.push(format!("{}, {}", output::count(files.len(), "file"), lines(added, removed)));
    all
}

fn lines(added: u64, removed: u64) -> String {
    format!("+{added} −{removed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_up_and_binary_files_named_as_such() {
        let file = |path: &str, status, binary| FileChange {
            path: path.to_owned(),
            status,
            added: if binary { 0 } else { 12 },
            removed: 0,
            binary,
        };
        let files = [file("a.txt", FileStatus::Added, false), file("logo.png", FileStatus::Modified, true)];
        assert_eq!(stat(&files), ["A  a.txt     +12 −0", "M  logo.png  binary", "2 files, +12 −0"]);
    }
}
