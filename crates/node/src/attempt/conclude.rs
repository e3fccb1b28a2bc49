//! The steps after an agent's turn: outputs given in words become files, what is in the working copy
//! becomes a commit under the attempt's ref, and what the agent said is weighed against it.

use std::{collections::BTreeMap, path::Path};

use ensemble_agent::{Exit, OutputValue, Reading, TurnEnd};
use ensemble_core::{
    ids::CommitId,
    link::AttemptKey,
    message::{How, What, Work},
    outcome::{Delivery, Ending, Outcome},
    plan::WorktreeMode,
    run::{
        fact::{LossCause, Report},
        state::attempt_ref,
    },
};
use ensemble_workspace::{CaptureNote, Error, Expect, Repository, Worktree};

use super::{
    Failure, Halt, Job,
    evidence::{self, Seen},
    performance::Performance,
    prepare::Prepared,
};
use crate::{
    folder::{Folder, Stored},
    mirrors::Mirrors,
    transfer::Trouble,
};

/// What was found in a working copy.
#[derive(Default)]
struct Found {
    delivery: Option<Delivery>,
    left_out: Vec<String>,
    seen: Seen,
}

impl Job {
    pub(super) async fn conclude(&self, prepared: Prepared, performed: Performance) -> How {
        match (performed, &self.stored.assign.what) {
            (Performance::Check(end), _) => self.verdict(&end).await,
            (Performance::Agent(reading), What::Work(work)) => {
                match self.look(&prepared, work, &reading).await {
                    Ok(found) => self.report(work, *reading, found),
                    Err(how) => how,
                }
            }
            (Performance::Agent(_), What::Check { .. }) => {
                self.unbegun(Failure::Environment("a check was given to an agent".to_owned()))
            }
            (Performance::Broken { quiet, why }, _) => {
                let capture = if quiet {
                    capture_leftover(&self.world.mirrors, &self.folder, &self.stored).await
                } else {
                    None
                };
                How::Lost { cause: LossCause::Environment, capture, reason: why }
            }
        }
    }

    /// The end of an attempt that was told to end before it had a word of its own.
    pub(super) fn halted(&self, halt: Halt, capture: Option<Delivery>) -> How {
        let lost =
            |cause, reason: &str| How::Lost { cause, capture: capture.clone(), reason: reason.to_owned() };
        match (halt, &self.stored.assign.what) {
            (Halt::Drained, _) => lost(LossCause::Process, "the node's process ended"),
            (Halt::Stopped, What::Check { .. }) => lost(LossCause::Interrupted, "stopped on request"),
            (Halt::Stopped, What::Work(_)) => {
                let outcome = Outcome::new(Ending::Stopped, "stopped on request");
                How::Report(Report { outcome, delivery: capture, left_out: Vec::new(), log: None })
            }
        }
    }

    async fn verdict(&self, end: &TurnEnd) -> How {
        let ended = match &end.exit {
            Exit::Code(code) => format!("exit {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::TimedOut => "timed out".to_owned(),
            Exit::Cancelled => return self.halted(self.halting.why().unwrap_or(Halt::Stopped), None),
            Exit::NotStarted(why) => return self.unbegun(Failure::Environment(why.clone())),
        };
        let log = self.folder.log();
        let output = super::blocking(move || {
            let bytes = ensemble_agent::LogReader::open(&log).and_then(|log| log.read_all());
            Ok(evidence::ending_of(&String::from_utf8_lossy(&bytes.unwrap_or_default())))
        });
        let output = output.await.unwrap_or_default().into();
        How::Check { passed: end.exit == Exit::Code(0), ended, output }
    }

    /// Looks at what the agent left.
    async fn look(&self, prepared: &Prepared, work: &Work, reading: &Reading) -> Result<Found, How> {
        let Some(worktree) = prepared.worktree.clone() else {
            let left_out = reading.outputs.keys().map(|path| format!("{path}: the task has no files"));
            let seen = Seen { changed: false, missing: work.outputs.clone() };
            return Ok(Found { left_out: left_out.collect(), seen, ..Found::default() });
        };
        if self.folder.path().is_dir() && !is_real_folder(&prepared.dir) {
            let why = "its working directory is gone or is no folder any more; leave it where it is";
            return Err(failed(why.to_owned()));
        }
        let (stored, outputs) = (self.stored.clone(), reading.outputs.clone());
        let (mode, note) = (work.worktree, note(&self.stored, work, reading.outcome.summary.head()));
        let repository = &self.stored.assign.repository;
        let looking = self.world.mirrors.with(repository, move |mirror| {
            if mode == Some(WorktreeMode::Read) {
                return look_only(mirror, &worktree, &stored, &note);
            }
            let refused = write_outputs(&worktree, &outputs)?;
            let mut found = capture(mirror, &worktree, &stored, &note)?;
            found.left_out.splice(0..0, refused);
            Ok(found)
        });
        looking.await.map_err(|trouble| match trouble {
            // What the agent left is too much, or not of this world: its own doing.
            Trouble::Final(why) => failed(format!("what it left can't be taken: {why}")),
            Trouble::Passing(why) | Trouble::Failing(why) => How::Lost {
                cause: LossCause::Environment,
                capture: None,
                reason: format!("the working copy can't be captured: {why}"),
            },
        })
    }

    fn report(&self, work: &Work, reading: Reading, found: Found) -> How {
        let Found { delivery, left_out, seen } = found;
        if reading.outcome.ending == Ending::Stopped && self.halting.why() == Some(Halt::Drained) {
            return self.halted(Halt::Drained, delivery);
        }
        let mut outcome = reading.outcome;
        outcome.messages.extend(reading.warnings.into_iter().map(Into::into));
        let outcome = evidence::judge(outcome, work.worktree, &work.outputs, &seen);
        How::Report(Report { outcome: evidence::bound(outcome), delivery, left_out, log: None })
    }
}

/// The end of an attempt whose agent left nothing that can be taken: its own doing.
fn failed(why: String) -> How {
    How::Report(Report { outcome: Outcome::failed(why), delivery: None, left_out: Vec::new(), log: None })
}

fn is_real_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// The commit of an end, if it has one.
pub(crate) fn commit_of(how: &How) -> Option<&CommitId> {
    let delivery = match how {
        How::Report(report) => report.delivery.as_ref(),
        How::Lost { capture, .. } => capture.as_ref(),
        How::Check { .. } => None,
    };
    delivery.map(|delivery| &delivery.commit)
}

/// What an attempt left whose agent has no word to say, or said it to a process that is gone.
/// Nothing of it may run any more.
pub(crate) async fn capture_leftover(
    mirrors: &Mirrors,
    folder: &Folder,
    stored: &Stored,
) -> Option<Delivery> {
    let What::Work(work) = &stored.assign.what else { return None };
    // Without its keeper's lock no agent has run, and the working copy may be half of one.
    let dropped = matches!(work.worktree, Some(WorktreeMode::Read | WorktreeMode::None));
    if dropped || !folder.lock().exists() {
        return None;
    }
    let (path, repository) = (folder.work(), stored.assign.repository.clone());
    let stored = stored.clone();
    let note = note(&stored, work, &format!("Interrupted: {}", work.title));
    let captured = mirrors.with(&repository, move |mirror| {
        let name = ref_of(&stored.assign.key);
        if let Some(commit) = name.map_or(Ok(None), |name| mirror.ref_target(&name))? {
            let changes = mirror.changes(&stored.assign.base, &commit)?;
            return Ok(Some(Delivery { commit, changes }));
        }
        Ok(capture(mirror, &Worktree::open(path)?, &stored, &note)?.delivery)
    });
    captured.await.unwrap_or_else(|trouble| {
        tracing::warn!(token = %folder.path().display(), %trouble, "an interrupted attempt can't be captured");
        None
    })
}

/// The ref that keeps an attempt's commit; checks have none.
pub(crate) fn ref_of(key: &AttemptKey) -> Option<String> {
    key.task.as_ref().filter(|_| key.check.is_none()).map(|task| attempt_ref(key.run, task, key.attempt))
}

fn note(stored: &Stored, work: &Work, summary: &str) -> CaptureNote {
    let key = &stored.assign.key;
    let first = summary.lines().map(str::trim).find(|line| !line.is_empty());
    let task = key.task.as_ref().map_or_else(String::new, ToString::to_string);
    let trailers = [
        ("Ensemble-Run", key.run.to_string()),
        ("Ensemble-Task", task),
        ("Ensemble-Attempt", key.attempt.to_string()),
    ];
    CaptureNote {
        author: work.employee.to_string(),
        message: first.unwrap_or(&work.title).to_owned(),
        trailers: trailers.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        time_ms: stored.began_ms,
        outputs: work.outputs.clone(),
    }
}

/// Takes what is in the working copy as a commit under the attempt's ref.
fn capture(
    mirror: &Repository,
    worktree: &Worktree,
    stored: &Stored,
    note: &CaptureNote,
) -> Result<Found, Error> {
    let capture = worktree.capture(mirror, &stored.assign.base, note)?;
    if let (Some(commit), Some(name)) = (&capture.commit, ref_of(&stored.assign.key)) {
        mirror.update_ref(&name, commit, &Expect::Any)?;
    }
    let skipped = capture.skipped.iter().map(|one| format!("{}: {}", one.path, one.why)).collect();
    let seen = Seen { changed: capture.commit.is_some(), missing: capture.missing_outputs };
    let changes = capture.changes;
    Ok(Found {
        delivery: capture.commit.map(|commit| Delivery { commit, changes }),
        left_out: evidence::bound_names(skipped, capture.more_skipped),
        seen,
    })
}

/// Names what was changed where changes are dropped.
fn look_only(
    mirror: &Repository,
    worktree: &Worktree,
    stored: &Stored,
    note: &CaptureNote,
) -> Result<Found, Error> {
    let capture = worktree.capture(mirror, &stored.assign.base, note)?;
    let more = u64::from(capture.changes.files).saturating_sub(capture.changes.paths.len() as u64);
    let dropped = capture.changes.paths.iter().map(|path| format!("{path}: dropped (worktree: read)"));
    Ok(Found {
        delivery: None,
        left_out: evidence::bound_names(dropped.collect(), more),
        seen: Seen { changed: capture.commit.is_some(), missing: capture.missing_outputs },
    })
}

/// Writes the outputs that the agent gave in words; names those that can't be.
fn write_outputs(worktree: &Worktree, outputs: &BTreeMap<String, OutputValue>) -> Result<Vec<String>, Error> {
    let mut refused = Vec::new();
    for (path, value) in outputs {
        let OutputValue::Contents(contents) = value else { continue };
        match worktree.write_missing_output(path, contents.as_bytes()) {
            Ok(_) => {}
            Err(error @ (Error::BadPath { .. } | Error::Escapes { .. })) => refused.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}
