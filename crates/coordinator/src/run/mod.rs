//! The `Run` actor: owner of one run. It gathers what happened, admits it, stores it, and only then
//! acts. All decisions are `core::run`; the state here is never seen outside before it is durable.

mod assign;
pub mod desk;
pub mod inputs;
pub mod load;
mod merging;
mod prepare;
mod settle;

pub use prepare::spill;

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    time::Duration,
};

use desk::Desk;
use ensemble_core::{
    brief::Voice,
    ids::{BlobId, EmployeeId, Epoch, RunId, Seq},
    link::AttemptKey,
    message::{Ended, ToCoordinator},
    placement::Grant,
    run::{Changes, Duty, Entry, Fact, Refusal, State, admit, decide, state::TaskIx},
};
use ensemble_journal::{Doubt, Journal, NewFact, Stream};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    Error, clock,
    link::LinkHandle,
    repository::{Merged, RepositoryHandle},
    workforce::WorkforceHandle,
};
use inputs::{After, Input};

/// Facts in one batch.
const BATCH: usize = 256;

/// Pause before a batch that found no room, or a merge that failed, is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Tries at a merge or a move of the branch before the run is loaded afresh.
const REPOSITORY_TRIES: u32 = 5;

/// What the actor is told.
pub enum Msg {
    /// Somebody wants this to become a fact.
    Propose(Box<Fact>, oneshot::Sender<Result<Seq, Error>>),
    /// A node says something about the run.
    Node(LinkHandle, ToCoordinator, Option<OwnedSemaphorePermit>),
    /// An end whose long texts and log lie in the blob store.
    Prepared(LinkHandle, Box<Ended>, Option<BlobId>, Option<OwnedSemaphorePermit>),
    /// An end that could not be prepared; the node sends it again.
    Unprepared(LinkHandle),
    /// A node has attached.
    LinkUp(LinkHandle),
    /// A slot was granted.
    Granted(Grant, LinkHandle),
    /// The blobs of a brief were read.
    Briefed(LinkHandle, AttemptKey, TaskIx, BTreeMap<BlobId, String>),
    /// A merge has ended.
    Merged(Duty, u32, Result<Merged, Error>),
    /// A move of the branch has ended.
    Advanced(Duty, u32, Result<(), Error>),
    /// The batch was stored, or not.
    Appended(Result<Seq, ensemble_journal::Error>),
    /// Try the batch again.
    Again,
    /// Try a duty of the repository again.
    Repeat(Duty, u32),
    /// Tell me when all that came before this is stored.
    Flush(oneshot::Sender<()>),
}

/// Talks to the actor.
#[derive(Clone, Debug)]
pub struct RunHandle(ActorRef<Msg>);

/// What a run needs to know of its surroundings.
pub struct Arguments {
    /// What was loaded.
    pub loaded: load::Loaded,
    /// Whether the process's own node is the only one: attempts that it does not name are lost.
    pub embedded: bool,
    /// Who owns it.
    pub coordinator: ensemble_core::ids::CoordinatorId,
    /// The data directory.
    pub data: PathBuf,
    /// The journal.
    pub journal: Journal,
    /// The run's repository.
    pub repository: RepositoryHandle,
    /// Where slots come from.
    pub workforce: WorkforceHandle,
    /// The links that are there.
    pub links: Vec<LinkHandle>,
}

impl RunHandle {
    /// Starts the actor of a run that was loaded.
    pub async fn start(arguments: Arguments, supervisor: &ractor::ActorCell) -> Result<Self, Error> {
        let spawned = Actor::spawn_linked(None, Run, arguments, supervisor.clone()).await;
        spawned.map(|(actor, _)| Self(actor)).map_err(|error| Error::Unfit(error.to_string()))
    }

    /// The actor's id, by which its supervisor knows it.
    pub fn id(&self) -> ractor::ActorId {
        self.0.get_id()
    }

    /// Proposes a fact and says where it stands once it is durable.
    ///
    /// # Errors
    /// [`Error::Refused`] when the state does not allow it; [`Error::Gone`] when it is not known.
    pub async fn propose(&self, fact: Fact) -> Result<Seq, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell(Msg::Propose(Box::new(fact), reply));
        answer.await.map_err(|_| Error::Gone)?
    }

    /// A slot was granted.
    pub fn granted(&self, grant: Grant, link: LinkHandle) {
        self.tell(Msg::Granted(grant, link));
    }

    /// Waits until all that was said before is stored.
    pub async fn flush(&self) {
        let (reply, done) = oneshot::channel();
        self.tell(Msg::Flush(reply));
        drop(done.await);
    }

    /// Tells the actor. When it is gone its supervisor loads the run afresh and all is derived anew.
    pub fn tell(&self, msg: Msg) {
        drop(self.0.cast(msg));
    }
}

struct Run;

/// The actor's state: the heart's, and what surrounds it.
struct Shell {
    core: State,
    epoch: Epoch,
    embedded: bool,
    data: PathBuf,
    me: RunHandle,
    journal: Journal,
    repository: RepositoryHandle,
    workforce: WorkforceHandle,
    voices: BTreeMap<EmployeeId, Voice>,
    desk: Desk,
    queue: VecDeque<Input>,
    batch: Option<Batch>,
    flushes: Vec<oneshot::Sender<()>>,
}

/// Facts on their way into the journal, with what follows once they are there.
struct Batch {
    facts: Vec<NewFact>,
    behind: Seq,
    outcomes: Vec<(After, Result<Seq, Refusal>)>,
    changes: Changes,
}

impl Actor for Run {
    type Msg = Msg;
    type State = Shell;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<Shell, ActorProcessingErr> {
        let mut shell = Shell {
            core: arguments.loaded.state,
            epoch: arguments.loaded.epoch,
            embedded: arguments.embedded,
            data: arguments.data,
            me: RunHandle(myself),
            journal: arguments.journal,
            repository: arguments.repository,
            workforce: arguments.workforce,
            voices: arguments.loaded.voices,
            desk: Desk::default(),
            queue: VecDeque::new(),
            batch: None,
            flushes: Vec::new(),
        };
        shell.workforce.tell(crate::workforce::Msg::Forgotten(shell.run()));
        // Settling with an empty desk is the whole recovery path.
        let owed = Changes { appeared: shell.core.duties().cloned().collect(), ..Changes::default() };
        shell.settle(owed);
        for link in arguments.links {
            shell.greet(link);
        }
        let claimed = Fact::Claimed { coordinator: arguments.coordinator };
        shell.queue.push_back(Input::Fact(Box::new(claimed), After::Nothing));
        shell.turn();
        Ok(shell)
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, shell: &mut Shell) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Appended(Ok(seq)) => shell.stored(seq),
            Msg::Appended(Err(error)) if error.doubt() == Doubt::Retry => {
                tracing::warn!(%error, "the journal takes nothing now; trying again");
                shell.later(Msg::Again);
            }
            // The state is ahead of what is known to be stored: nobody may see it. Load afresh.
            Msg::Appended(Err(error)) => return Err(error.into()),
            Msg::Again => shell.append(),
            Msg::Merged(duty, tries, result) => shell.merged(duty, tries, result)?,
            Msg::Advanced(duty, tries, result) => shell.advanced(duty, tries, result)?,
            Msg::Repeat(duty, tries) => shell.repeat(&duty, tries),
            Msg::Flush(reply) => shell.flushes.push(reply),
            other => shell.take(other),
        }
        shell.turn();
        Ok(())
    }
}

impl Shell {
    fn run(&self) -> RunId {
        self.core.run
    }

    /// Tells the actor something after a pause.
    fn later(&self, msg: Msg) {
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            me.tell(msg);
        });
    }

    /// Admits and applies what has gathered, and sends it to the journal. One batch at a time:
    /// meanwhile nothing is admitted or answered.
    fn turn(&mut self) {
        if self.batch.is_some() {
            return;
        }
        let mut batch = Batch {
            facts: Vec::new(),
            behind: self.core.seq,
            outcomes: Vec::new(),
            changes: Changes::default(),
        };
        loop {
            while batch.facts.len() < BATCH
                && let Some(fact) = decide(&self.core)
            {
                self.take_in(fact, &mut batch);
            }
            if batch.facts.len() >= BATCH {
                break;
            }
            let Some(input) = self.queue.pop_front() else { break };
            let (fact, after) = input.into_fact(&self.core);
            let outcome = fact.and_then(|fact| {
                admit(&self.core, &fact)?;
                Ok(self.take_in(fact, &mut batch))
            });
            batch.outcomes.push((after, outcome));
        }
        if batch.facts.is_empty() {
            self.conclude(batch.outcomes);
            for reply in self.flushes.drain(..) {
                let _asker_left = reply.send(());
            }
        } else {
            self.batch = Some(batch);
            self.append();
        }
    }

    fn take_in(&mut self, fact: Fact, batch: &mut Batch) -> Seq {
        let entry = Entry { seq: self.core.seq.next(), epoch: self.epoch, time_ms: clock::now_ms(), fact };
        batch.changes.then(self.core.apply(&entry));
        batch.facts.push(load::stored_form(&entry.fact, entry.time_ms));
        entry.seq
    }

    fn append(&self) {
        let Some(batch) = &self.batch else { return };
        let (journal, me, epoch) = (self.journal.clone(), self.me.clone(), self.epoch);
        let (stream, behind, facts) = (Stream::Run(self.run()), batch.behind, batch.facts.clone());
        tokio::spawn(async move {
            me.tell(Msg::Appended(journal.append(&stream, epoch, behind, facts).await));
        });
    }

    /// The batch is durable: only now is anybody told, and only now does anything begin.
    fn stored(&mut self, _last: Seq) {
        if let Some(batch) = self.batch.take() {
            self.conclude(batch.outcomes);
            self.settle(batch.changes);
        }
    }
}
