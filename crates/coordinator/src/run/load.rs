//! Taking a run over: become its owner, claim its stream, replay its facts. The same path whether the
//! run is new, was left by a process that died, or failed in this one.

use std::collections::BTreeMap;

use ensemble_core::{
    brief::Voice,
    ids::{BlobId, EmployeeId, Epoch, RunId, Seq},
    run::{
        Entry, Fact, State,
        fact::{FACT_VERSION, SourceFile, Submitted},
    },
    team::{self, Team},
    text::Text,
};
use ensemble_directory::{Election, Owner, Ownership};
use ensemble_journal::{Doubt, Journal, NewFact, Row, Stream};

use crate::Error;

/// Facts read at a time.
const PAGE: usize = 1000;

/// Tries to become the owner while somebody merely looks at the lock.
const ELECTION_TRIES: u32 = 20;

/// A run that is ours.
#[derive(Debug)]
pub struct Loaded {
    /// Its state.
    pub state: State,
    /// The epoch that was claimed.
    pub epoch: Epoch,
    /// What the employees are told in every brief.
    pub voices: BTreeMap<EmployeeId, Voice>,
}

/// Becomes the owner of a run, or says who is.
pub async fn own(directory: &ensemble_directory::Local, run: RunId, me: &Owner) -> Result<Ownership, Error> {
    let mut owner = None;
    for _ in 0..ELECTION_TRIES {
        match directory.own(run, me)? {
            Election::Won(ownership) => return Ok(ownership),
            Election::Held(held) => owner = held,
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(Error::Owned { run, pid: owner.map_or(0, |owner| owner.pid) })
}

/// Claims the run's stream and replays it. The caller owns the run.
pub async fn load(journal: &Journal, run: RunId) -> Result<Loaded, Error> {
    let stream = Stream::Run(run);
    let epoch = claim(journal, &stream).await?;
    let mut state = State::new(run);
    loop {
        let rows = journal.read(&stream, state.seq, PAGE).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            state.apply(&entry(run, row)?);
        }
    }
    let Some(submitted) = state.submitted.clone() else { return Err(Error::UnknownRun(run)) };
    let voices = voices(&team(journal, &submitted).await?);
    Ok(Loaded { state, epoch, voices })
}

/// Claims a stream. An answer that leaves a doubt is no loss: the next claim is higher.
pub async fn claim(journal: &Journal, stream: &Stream) -> Result<Epoch, Error> {
    const TRIES: u32 = 3;
    let mut tried = 0;
    loop {
        tried += 1;
        let read = journal.epoch(stream).await?;
        match journal.claim(stream, read).await {
            Err(error) if tried < TRIES && error.doubt() != Doubt::Final => {}
            claimed => return Ok(claimed?),
        }
    }
}

/// A stored row as a fact.
pub fn entry(run: RunId, row: Row) -> Result<Entry, Error> {
    let damaged = |what: String| Error::Damaged { run, seq: row.seq.0, what };
    if row.version > FACT_VERSION {
        return Err(damaged(format!("its version {} is newer than this program", row.version)));
    }
    let fact: Fact = serde_json::from_str(&row.body).map_err(|error| damaged(error.to_string()))?;
    Ok(Entry { seq: row.seq, epoch: row.epoch, time_ms: row.time_ms, fact })
}

/// A fact as it is stored.
pub fn stored_form(fact: &Fact, time_ms: u64) -> NewFact {
    // Facts hold nothing that JSON can't: no maps with other keys than text, no non-finite numbers.
    let body = serde_json::to_string(fact).unwrap_or_default();
    NewFact { kind: fact.kind().to_owned(), version: FACT_VERSION, body, time_ms }
}

/// The team of a run, from the copies that it keeps.
pub async fn team(journal: &Journal, submitted: &Submitted) -> Result<Team, Error> {
    let mut files = Vec::new();
    for file in &submitted.files {
        files.push(SourceFile { text: Text::Inline(whole(journal, &file.text).await?), ..file.clone() });
    }
    read_team(&files).map(|(team, _)| team)
}

/// Reads a team file and the definition files that it uses.
pub fn read_team(files: &[SourceFile]) -> Result<(Team, Vec<ensemble_core::source::Finding>), Error> {
    let [first, others @ ..] = files else { return Err(Error::Unfit("a run needs a team file".to_owned())) };
    let include = |name: &str| {
        let file = others.iter().find(|file| file.name == name);
        file.map(|file| file.text.head().to_owned())
            .ok_or_else(|| "it was not handed in with the run".to_owned())
    };
    let names: Vec<&str> = others.iter().map(|file| file.name.as_str()).collect();
    team::read(&first.name, first.text.head(), &first.dir, &include, &names).map_err(Error::Invalid)
}

/// The whole of a text.
pub async fn whole(journal: &Journal, text: &Text) -> Result<String, Error> {
    match text {
        Text::Inline(text) => Ok(text.clone()),
        Text::Blob { blob, head, .. } => Ok(blob_text(journal, blob).await?.unwrap_or_else(|| head.clone())),
    }
}

/// The text in a blob, if it is there.
pub async fn blob_text(journal: &Journal, blob: &BlobId) -> Result<Option<String>, Error> {
    let bytes = journal.get_blob(blob).await?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn voices(team: &Team) -> BTreeMap<EmployeeId, Voice> {
    team.employees
        .iter()
        .map(|one| {
            let voice = Voice {
                prompt: one.prompt.clone(),
                project: team.description.clone(),
                conventions: team.conventions.clone(),
            };
            (one.id.clone(), voice)
        })
        .collect()
}

/// The last fact that is stored.
pub async fn last(journal: &Journal, run: RunId) -> Result<Seq, Error> {
    Ok(journal.last_seq(&Stream::Run(run)).await?)
}
