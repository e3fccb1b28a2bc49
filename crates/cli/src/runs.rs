//! Runs as the journal has them: which there are, what a word on the command line means by one, and
//! their state. Reads only; whoever owns a run may go on with it meanwhile.

use std::path::Path;

use ensemble_core::{
    ids::{RunId, Seq},
    run::{Entry, Fact, State, fact::FACT_VERSION},
    text::Text,
};
use ensemble_journal::{Journal, Row, Stream};

use crate::error::{Error, or_list};

/// Facts read at once; a fact has at most some tens of kilobytes.
const PAGE: usize = 256;

/// Runs named in a message; more are counted.
const NAMED: usize = 10;

/// The journal of a data directory, unless nothing was ever kept there.
///
/// # Errors
/// Those of the journal.
pub fn journal(data: &Path) -> Result<Option<Journal>, Error> {
    if data.is_dir() { Ok(Some(Journal::open(data)?)) } else { Ok(None) }
}

/// The journal of a data directory, which must be there.
///
/// # Errors
/// [`Error::Usage`] when nothing was ever kept there, and those of the journal.
pub fn existing_journal(data: &Path) -> Result<Journal, Error> {
    journal(data)?.ok_or_else(|| no_runs(data))
}

fn no_runs(data: &Path) -> Error {
    Error::usage(
        format!("there are no runs in {}", data.display()),
        "start one with `ensemble run`, or name another place with --repo or --data",
    )
}

/// All runs, newest first: by their ids, which begin with the time.
///
/// # Errors
/// Those of the journal.
pub async fn list(journal: &Journal) -> Result<Vec<RunId>, Error> {
    let streams = journal.streams().await?;
    let mut found: Vec<RunId> = streams
        .into_iter()
        .filter(|info| info.last > Seq(0))
        .filter_map(|info| match info.stream {
            Stream::Run(run) => Some(run),
            Stream::Project(_) => None,
        })
        .collect();
    // Two that start at once may reach the journal the other way round.
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// The run that a word on the command line means.
///
/// # Errors
/// [`Error::Usage`] when it means none or several.
pub async fn find(journal: &Journal, data: &Path, word: &str) -> Result<RunId, Error> {
    let runs = list(journal).await?;
    if runs.is_empty() {
        return Err(no_runs(data));
    }
    pick(&runs, word)
}

/// The run among `runs` (newest first) that `word` means: its id, a prefix of only one, or `last`.
///
/// # Errors
/// [`Error::Usage`] when it means none or several.
pub fn pick(runs: &[RunId], word: &str) -> Result<RunId, Error> {
    if let ("last", Some(newest)) = (word, runs.first()) {
        return Ok(*newest);
    }
    let prefix = word.to_ascii_uppercase();
    let found: Vec<RunId> = runs
        .iter()
        .copied()
        .filter(|run| !prefix.is_empty() && run.to_string().starts_with(&prefix))
        .collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Error::usage(format!("there is no run `{word}`"), "`ensemble ps` lists them")),
        many => {
            let named = or_list(&many[..many.len().min(NAMED)]);
            Err(Error::usage(format!("`{word}` may be {named}"), "give more of its id"))
        }
    }
}

/// A stored fact.
///
/// # Errors
/// [`Error::Fact`] when this version can't read it.
pub fn entry(run: RunId, row: &Row) -> Result<Entry, Error> {
    let broken = |why: String| Error::Fact { run, seq: row.seq.0, why };
    if row.version > FACT_VERSION {
        return Err(broken(format!("it has format {}, newer than {FACT_VERSION}", row.version)));
    }
    let fact: Fact = serde_json::from_str(&row.body).map_err(|error| broken(error.to_string()))?;
    Ok(Entry { seq: row.seq, epoch: row.epoch, time_ms: row.time_ms, fact })
}

/// The facts of a run beyond `after`, a page of them; empty at the end.
///
/// # Errors
/// Those of the journal, and [`Error::Fact`].
pub async fn page(journal: &Journal, run: RunId, after: Seq) -> Result<Vec<Entry>, Error> {
    let rows = journal.read(&Stream::Run(run), after, PAGE).await?;
    rows.iter().map(|row| entry(run, row)).collect()
}

/// Goes through all facts of a run beyond `after`, in order.
///
/// # Errors
/// Those of the journal, [`Error::Fact`], and what `each` answers.
pub async fn each(
    journal: &Journal,
    run: RunId,
    mut after: Seq,
    mut each: impl FnMut(Entry) -> Result<(), Error>,
) -> Result<Seq, Error> {
    loop {
        let entries = page(journal, run, after).await?;
        let Some(last) = entries.last() else { return Ok(after) };
        after = last.seq;
        entries.into_iter().try_for_each(&mut each)?;
    }
}

/// The state of a run as far as it is journalled.
///
/// # Errors
/// Those of the journal, and [`Error::Fact`].
pub async fn load(journal: &Journal, run: RunId) -> Result<State, Error> {
    let mut state = State::new(run);
    each(journal, run, Seq(0), |entry| {
        state.apply(&entry);
        Ok(())
    })
    .await?;
    Ok(state)
}

/// The whole of a text, fetched from the blob store if it lies there.
///
/// # Errors
/// Those of the blob store.
pub async fn whole(journal: &Journal, text: &Text) -> Result<String, Error> {
    let Text::Blob { blob, head, .. } = text else { return Ok(text.head().to_owned()) };
    Ok(match journal.get_blob(blob).await? {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => head.clone(),
    })
}

/// Whether somebody can still go on with the run.
#[must_use]
pub fn is_unfinished(state: &State) -> bool {
    state.submitted.is_some() && state.ended.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<RunId> {
        ["01KBD000000000000000000003", "01KBC000000000000000000002", "01KBC000000000000000000001"]
            .map(|text| text.parse().unwrap())
            .to_vec()
    }

    #[test]
    fn a_run_is_found_by_id_prefix_and_last() {
        let runs = runs();
        assert_eq!(pick(&runs, "last").unwrap(), runs[0]);
        assert_eq!(pick(&runs, "01kbd").unwrap(), runs[0]);
        assert_eq!(pick(&runs, "01KBC000000000000000000001").unwrap(), runs[2]);
    }

    #[tokio::test]
    async fn the_newest_run_comes_first_whichever_was_journalled_first() {
        let data = tempfile::tempdir().unwrap();
        let journal = Journal::open(data.path()).unwrap();
        let runs = runs();
        for run in [runs[1], runs[0], runs[2]] {
            let stream = Stream::Run(run);
            let epoch = journal.claim(&stream, ensemble_core::ids::Epoch(0)).await.unwrap();
            let fact = ensemble_journal::NewFact {
                time_ms: 1,
                kind: "submitted".to_owned(),
                version: 1,
                body: "{}".to_owned(),
            };
            journal.append(&stream, epoch, Seq(0), vec![fact]).await.unwrap();
        }
        assert_eq!(list(&journal).await.unwrap(), runs);
    }

    #[test]
    fn a_word_that_means_none_or_several_is_refused() {
        let several = pick(&runs(), "01KBC").unwrap_err();
        assert_eq!(several.exit() as u8, 2);
        assert!(several.to_string().contains("01KBC000000000000000000001"), "{several}");
        for none in ["", "02", "latest"] {
            assert!(pick(&runs(), none).unwrap_err().to_string().contains("no run"), "{none}");
        }
        assert!(pick(&[], "last").is_err());
    }
}
