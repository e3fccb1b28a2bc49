//! `ensemble logs`: what agents and checks wrote. Once an attempt is over that lies in the journal's
//! blobs, until then in a file that grows; `--follow` goes on as long as the run does.

mod shelf;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    time::Duration,
};

use ensemble_core::{
    ids::Seq,
    link::AttemptKey,
    run::{Fact, State},
};
use ensemble_journal::{Journal, Stream};
use shelf::{End, Log, Shelf};

use crate::{
    args::Logs,
    error::{DoingTo, Error, Exit},
    output,
    owner::{self, Existing},
    runs,
};

/// Bytes of a growing log that are read at a time.
const PIECE: u64 = 64 * 1024;

/// Characters of a check's command in its title.
const COMMAND: usize = 100;

/// How long to wait for news before the growing logs are looked at again.
const LOOK: Duration = Duration::from_millis(250);

/// Prints logs.
///
/// # Errors
/// When no run, task or attempt is meant, and those of the journal.
pub async fn logs(args: &Logs) -> Result<Exit, Error> {
    let existing = Existing::find(&args.place, &args.run).await?;
    let (run, journal, data) = (existing.run(), &existing.journal, &existing.data);
    let task = args.task.as_deref().map(owner::task_id).transpose()?;
    if let Some(task) = &task {
        owner::must_have(&existing.state, task)?;
    }
    let (mut shelf, mut state, mut after) = (Shelf::new(run), State::new(run), Seq(0));
    let mut printer = Printer::default();
    loop {
        after = runs::each(journal, run, after, |entry| {
            shelf.take(&entry, command(&state, &entry.fact).as_deref());
            state.apply(&entry);
            Ok(())
        })
        .await?;
        for log in shelf.chosen(task.as_ref(), args.attempt) {
            printer.print(journal, data, log).await?;
        }
        if !args.follow || state.ended.is_some() || state.waiting.is_some() {
            break;
        }
        journal.wait_beyond(&Stream::Run(run), after, LOOK).await?;
    }
    if printer.shown.is_empty() {
        let remedy = format!("`ensemble show {run}` says how far it is");
        let what = match args.attempt {
            Some(attempt) => format!("there is no attempt {attempt} of it"),
            None => "nothing of this has run yet".to_owned(),
        };
        return Err(Error::usage(what, remedy));
    }
    Ok(Exit::Good)
}

/// The command of a check that begins.
fn command(state: &State, fact: &Fact) -> Option<String> {
    let Fact::CheckDispatched { of, command, .. } = fact else { return None };
    let check = state.checks(of)?.each.get(*command as usize)?;
    Some(output::short(&check.command, COMMAND))
}

/// Prints each byte of each log once.
#[derive(Debug, Default)]
struct Printer {
    /// How much of each log was printed; `None` when that was all.
    shown: BTreeMap<AttemptKey, Option<u64>>,
    /// Whose bytes stand at the end of the output.
    last: Option<AttemptKey>,
}

impl Printer {
    /// Prints what is new of a log.
    async fn print(&mut self, journal: &Journal, data: &Path, log: &Log) -> Result<(), Error> {
        let Some(mut offset) = *self.shown.entry(log.key.clone()).or_insert(Some(0)) else { return Ok(()) };
        if offset == 0 && self.last.as_ref() != Some(&log.key) && log.end != End::Open {
            self.head(log)?;
        }
        match &log.end {
            End::Open | End::Lost | End::Nothing => {
                let path = ensemble_coordinator::log_path(data, &log.key);
                while let Some(piece) = read(&path, offset)? {
                    offset += piece.len() as u64;
                    self.bytes(log, &piece)?;
                }
                if log.end == End::Lost {
                    output::result("(it ended here without a word)")?;
                }
            }
            End::Blob(blob) => {
                let bytes = journal.get_blob(blob).await?.unwrap_or_default();
                // Of a log whose middle was dropped meanwhile the rest is printed again.
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                self.bytes(log, bytes.get(from..).unwrap_or(&bytes))?;
            }
            End::Output(text) => {
                let text = runs::whole(journal, text).await?;
                self.bytes(log, text.as_bytes())?;
            }
        }
        let open = log.end == End::Open;
        self.shown.insert(log.key.clone(), open.then_some(offset));
        Ok(())
    }

    fn head(&mut self, log: &Log) -> Result<(), Error> {
        output::result(&format!("== {} ==", log.title))?;
        self.last = Some(log.key.clone());
        Ok(())
    }

    fn bytes(&mut self, log: &Log, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.last.as_ref() != Some(&log.key) {
            self.head(log)?;
        }
        output::transcript(bytes)
    }
}

/// A piece of a growing log from `offset` on; nothing where there is no more.
fn read(path: &Path, offset: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).doing_to("read", path),
    };
    file.seek(SeekFrom::Start(offset)).doing_to("read", path)?;
    let mut piece = Vec::new();
    file.take(PIECE).read_to_end(&mut piece).doing_to("read", path)?;
    Ok((!piece.is_empty()).then_some(piece))
}
