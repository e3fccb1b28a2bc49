//! Which logs a run has, as its facts tell, and which of them are meant.

use std::collections::BTreeMap;

use ensemble_core::{
    ids::{AttemptNumber, BlobId, RunId, Seq, TaskId},
    link::AttemptKey,
    run::{Entry, Fact, fact::CheckOf},
    text::Text,
};

/// An attempt or a check with what is known of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// Which.
    pub(super) key: AttemptKey,
    /// The same for people.
    pub(super) title: String,
    /// How far it is.
    pub(super) end: End,
}

/// How far an attempt or a check is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is under way.
    Open,
    /// It is over without a word.
    Lost,
    /// It is over; this is its whole log.
    Blob(BlobId),
    /// It is over; this is the end of its output.
    Output(Text),
    /// It is over, and its log is not in the journal.
    Nothing,
}

/// The logs of a run in the order of their beginnings.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    run: RunId,
    logs: Vec<Log>,
    /// The last attempt of each task; under `None` the last round of the run's own checks.
    last: BTreeMap<Option<TaskId>, AttemptNumber>,
}

impl Shelf {
    pub(super) fn new(run: RunId) -> Self {
        Self { run, logs: Vec::new(), last: BTreeMap::new() }
    }

    /// Takes a fact in; of the beginning of a check with its command.
    pub(super) fn take(&mut self, entry: &Entry, command: Option<&str>) {
        match &entry.fact {
            Fact::Dispatched(dispatch) => {
                let (task, attempt) = (Some(dispatch.task.clone()), dispatch.attempt);
                let title = format!("{} attempt {attempt} ({})", dispatch.task, dispatch.employee);
                self.begin(AttemptKey { run: self.run, task, attempt, check: None, token: entry.seq }, title);
            }
            Fact::Reported { at, report } => {
                let end = report.log.clone().map_or(End::Nothing, End::Blob);
                self.end(at.token, end);
            }
            Fact::Lost { at, .. } | Fact::Refused { at, .. } => self.end(at.token, End::Lost),
            Fact::CheckDispatched { of: CheckOf { task, attempt }, check, .. } => {
                let what = task
                    .as_ref()
                    .map_or_else(|| "the merged tree".to_owned(), |task| format!("{task} attempt {attempt}"));
                let (task, attempt) = (task.clone(), *attempt);
                let key = AttemptKey { run: self.run, task, attempt, check: Some(*check), token: entry.seq };
                self.begin(key, format!("check {check} of {what}: {}", command.unwrap_or("a command")));
            }
            Fact::CheckReported { at, passed, ended, output } => {
                self.end(at.token, End::Output(output.clone()));
                self.judge(at.token, *passed, ended);
            }
            Fact::CheckLost { at, .. } => self.end(at.token, End::Lost),
            _ => {}
        }
    }

    fn begin(&mut self, key: AttemptKey, title: String) {
        self.last.insert(key.task.clone(), key.attempt);
        self.logs.push(Log { key, title, end: End::Open });
    }

    fn end(&mut self, token: Seq, end: End) {
        if let Some(log) = self.begun(token) {
            log.end = end;
        }
    }

    /// Says in the title how a check went: many say nothing themselves.
    fn judge(&mut self, token: Seq, passed: bool, ended: &str) {
        let word = if passed { "passed".to_owned() } else { format!("failed, {ended}") };
        if let Some(log) = self.begun(token) {
            log.title = format!("{} ({word})", log.title);
        }
    }

    fn begun(&mut self, token: Seq) -> Option<&mut Log> {
        // What ends began lately.
        self.logs.iter_mut().rev().find(|log| log.key.token == token)
    }

    /// The logs of `task`, or of all; of the given attempt, or of the last one of each task.
    pub(super) fn chosen<'a>(
        &'a self,
        task: Option<&'a TaskId>,
        attempt: Option<u32>,
    ) -> impl Iterator<Item = &'a Log> {
        self.logs.iter().filter(move |log| {
            let number = match attempt {
                Some(number) => Some(AttemptNumber(number)),
                None => self.last.get(&log.key.task).copied(),
            };
            task.is_none_or(|task| log.key.task.as_ref() == Some(task)) && Some(log.key.attempt) == number
        })
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::{
        ids::CheckNumber,
        run::fact::{AttemptRef, CheckRef, LossCause},
    };

    use super::*;
    use crate::testing::{dispatched, entry};

    fn shelf() -> Shelf {
        let mut shelf = Shelf::new(RunId::from_parts(1, 1));
        shelf.take(&entry(5, dispatched("api", 1, "back")), None);
        let at = AttemptRef { task: TaskId::new("api").unwrap(), attempt: AttemptNumber(1), token: Seq(5) };
        shelf.take(
            &entry(6, Fact::Lost { at, cause: LossCause::Node, capture: None, reason: String::new() }),
            None,
        );
        shelf.take(&entry(7, dispatched("api", 2, "back")), None);
        shelf.take(&entry(8, dispatched("page", 1, "front")), None);
        shelf
    }

    fn titles(shelf: &Shelf, task: Option<&str>, attempt: Option<u32>) -> Vec<String> {
        let task = task.map(|id| TaskId::new(id).unwrap());
        shelf.chosen(task.as_ref(), attempt).map(|log| log.title.clone()).collect()
    }

    #[test]
    fn the_last_attempt_of_each_task_is_meant_unless_one_is_named() {
        let shelf = shelf();
        assert_eq!(titles(&shelf, None, None), ["api attempt 2 (back)", "page attempt 1 (front)"]);
        assert_eq!(titles(&shelf, Some("api"), Some(1)), ["api attempt 1 (back)"]);
        assert!(titles(&shelf, Some("api"), Some(3)).is_empty());
    }

    #[test]
    fn a_check_belongs_to_the_attempt_that_it_tests() {
        let mut shelf = shelf();
        let of = CheckOf { task: Some(TaskId::new("api").unwrap()), attempt: AttemptNumber(2) };
        let place = crate::testing::place();
        let commit = crate::testing::commit('a');
        let check = CheckNumber(1);
        let begun = Fact::CheckDispatched { of: of.clone(), check, command: 0, commit, place };
        shelf.take(&entry(9, begun), Some("sh test.sh"));
        let at = CheckRef { of, check, token: Seq(9) };
        let output = Text::from("3 failed");
        let ended = "exit 1".to_owned();
        shelf
            .take(&entry(10, Fact::CheckReported { at, passed: false, ended, output: output.clone() }), None);
        let title = "check 1 of api attempt 2: sh test.sh (failed, exit 1)";
        assert_eq!(titles(&shelf, Some("api"), None).last().unwrap(), title);
        assert_eq!(shelf.chosen(None, None).last().unwrap().end, End::Output(output));
    }
}
