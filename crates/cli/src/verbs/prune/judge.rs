//! Whether a run may be forgotten: it is over for long enough, and its work is in a branch of the user's,
//! or somebody said that it may be lost.

use std::fmt;

use ensemble_core::{
    ids::CommitId,
    run::{
        State,
        state::{RunState, TaskState},
    },
};
use ensemble_workspace::UserRepository;

use crate::error::Error;

/// What becomes of a run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is forgotten; with the work that is lost by that.
    Goes(Work),
    /// A process works on it.
    Owned(u32),
    /// It can go on.
    Unfinished(RunState),
    /// It was over only lately.
    Young,
    /// Its work is nowhere else.
    Untaken(Work),
}

/// Work of a run that is in none of the user's branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The result, if it holds something and was not taken over.
    pub result: Option<CommitId>,
    /// Tasks that did not succeed, with attempts whose work is kept.
    pub attempts: u32,
    /// No repository was found in which it could have been taken over.
    pub unknown: bool,
}

impl Work {
    fn is_none(&self) -> bool {
        self.result.is_none() && self.attempts == 0
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(result) = &self.result {
            let where_ =
                if self.unknown { "no repository is known here" } else { "in none of your branches" };
            parts.push(format!("its result {} is {where_}", &result.as_str()[..12]));
        }
        match self.attempts {
            0 => {}
            1 => parts.push("unmerged work of 1 task is kept".to_owned()),
            many => parts.push(format!("unmerged work of {many} tasks is kept")),
        }
        f.write_str(&parts.join(", "))
    }
}

impl Verdict {
    /// One word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Goes(_) => "goes",
            Self::Owned(_) => "owned",
            Self::Unfinished(_) => "unfinished",
            Self::Young => "young",
            Self::Untaken(_) => "untaken",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goes(work) if work.is_none() => f.write_str("over, and taken or without a result"),
            Self::Goes(work) => write!(f, "lost with it: {work}"),
            Self::Owned(0) => f.write_str("a process works on it"),
            Self::Owned(pid) => write!(f, "process {pid} works on it"),
            Self::Unfinished(state) => write!(f, "unfinished ({})", state.word()),
            Self::Young => f.write_str("it was over only lately"),
            Self::Untaken(work) => write!(f, "{work}; --untaken forgets it too"),
        }
    }
}

/// What becomes of a run that nobody works on. `before` is the time in milliseconds since the epoch
/// until which it must have been over.
///
/// # Errors
/// When the user's repository can't be read.
pub fn judge(
    state: &State,
    before: u64,
    untaken: bool,
    repository: Option<&UserRepository>,
) -> Result<Verdict, Error> {
    let Some(ended) = state.ended_ms.filter(|_| state.ended.is_some()) else {
        return Ok(Verdict::Unfinished(state.state()));
    };
    if ended > before {
        return Ok(Verdict::Young);
    }
    let work = untaken_work(state, repository)?;
    Ok(if untaken || work.is_none() { Verdict::Goes(work) } else { Verdict::Untaken(work) })
}

fn untaken_work(state: &State, repository: Option<&UserRepository>) -> Result<Work, Error> {
    let base = state.submitted.as_ref().map(|submitted| &submitted.base);
    let result = state.head.as_ref().filter(|head| Some(*head) != base);
    let branches = match (repository, result) {
        (Some(repository), Some(head)) => repository.branches_with(head)?,
        _ => Vec::new(),
    };
    // A later run that began from this one holds its result too, but that is not the user's word.
    let taken = branches.iter().any(|name| !name.starts_with("ensemble/"));
    let kept = state.tasks.iter().filter(|task| {
        let capture = task.previous.as_ref().is_some_and(|previous| previous.capture.is_some());
        task.state != TaskState::Success && capture
    });
    Ok(Work {
        result: result.filter(|_| !taken).cloned(),
        attempts: u32::try_from(kept.count()).unwrap_or(u32::MAX),
        unknown: repository.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use ensemble_core::run::{Fact, fact::EndState};

    use super::*;
    use crate::testing::{begun, commit, entry, run, spec};

    /// A run that ended four seconds after it began, with its result at `head`.
    fn over(head: char) -> State {
        let mut state = State::new(run());
        let ended = Fact::Ended { state: EndState::Stopped, reason: String::new(), head: commit(head) };
        let facts = begun(vec![spec("a", "A", &[], &[])]).into_iter().chain([entry(4, ended)]);
        for entry in facts {
            state.apply(&entry);
        }
        state.head = Some(commit(head));
        state
    }

    #[test]
    fn a_run_goes_only_once_it_has_been_over_for_long_enough() {
        let state = over('0');
        let ended = state.ended_ms.unwrap();
        assert_eq!(judge(&state, ended - 1, true, None).unwrap(), Verdict::Young);
        assert!(matches!(judge(&state, ended, false, None).unwrap(), Verdict::Goes(_)));
        let going = State::new(run());
        assert!(matches!(judge(&going, u64::MAX, true, None).unwrap(), Verdict::Unfinished(_)));
    }

    #[test]
    fn a_result_that_is_nowhere_else_is_kept_unless_that_is_asked_for() {
        let state = over('e');
        let kept = judge(&state, u64::MAX, false, None).unwrap();
        assert!(matches!(&kept, Verdict::Untaken(work) if work.unknown), "{kept:?}");
        assert!(kept.to_string().contains("--untaken"));
        let gone = judge(&state, u64::MAX, true, None).unwrap();
        assert!(gone.to_string().contains("lost with it"), "{gone}");
    }
}
