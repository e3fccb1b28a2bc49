//! Group commit: one thread owns the writing store, takes everything that has gathered, stores it
//! in one transaction and only then answers. What the writes are is decided by those who send them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::{Error, MAX_BATCH_BYTES, Store};

/// How often the writer looks whether other processes have written, while somebody waits for that.
const POLL: Duration = Duration::from_millis(100);

/// Unit in which the queue is bounded, in bytes: a write weighs at least one.
const UNIT: usize = 1024;

/// Bound of the queue, what is being stored included: exactly one batch of the largest size fits.
const QUEUE_UNITS: usize = MAX_BATCH_BYTES / UNIT;

/// A write on its way: performed in a transaction, once more alone if the group around it failed,
/// and answered when its fate is known.
trait Write: Send {
    fn perform(&mut self, store: &mut dyn Store) -> Result<(), Error>;
    fn answer(self: Box<Self>, fate: Result<(), Error>);
}

struct Pending<T, W, S> {
    work: W,
    /// Runs on the writer thread once the write is durable, whether or not the caller still listens.
    settle: S,
    value: Option<T>,
    caller: oneshot::Sender<Result<T, Error>>,
    _permit: OwnedSemaphorePermit,
}

impl<T, W, S> Write for Pending<T, W, S>
where
    T: Send,
    W: FnMut(&mut dyn Store) -> Result<T, Error> + Send,
    S: FnOnce(&T) -> Result<(), Error> + Send,
{
    fn perform(&mut self, store: &mut dyn Store) -> Result<(), Error> {
        self.value = Some((self.work)(store)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Error>) {
        let Self { settle, value, caller, .. } = *self;
        let result = fate.and_then(|()| {
            let value = value.ok_or(Error::Closed)?;
            settle(&value)?;
            Ok(value)
        });
        // A caller that is gone has stopped waiting; the write stands all the same.
        let _ = caller.send(result);
    }
}

enum Message {
    Write(Box<dyn Write>),
    Close,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
    permits: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the writer thread of `store`. `elsewhere` is told when other processes have written.
    ///
    /// # Errors
    /// The system's, when there can be no further thread.
    pub(crate) fn start(store: Box<dyn Store>, elsewhere: watch::Sender<()>) -> std::io::Result<Self> {
        let (queue, messages) = mpsc::channel();
        let worker = Worker { store, messages, elsewhere, polled: Instant::now() };
        let thread = thread::Builder::new().name("journal-writer".to_owned()).spawn(|| worker.run())?;
        Ok(Self { queue, permits: Arc::new(Semaphore::new(QUEUE_UNITS)), thread: Mutex::new(Some(thread)) })
    }

    /// Has `work` done in a transaction and waits until it is durable. `bytes` is what it weighs in
    /// the queue. A caller that stops waiting does not stop the write.
    ///
    /// # Errors
    /// Those of `work`, of the commit, of `settle`, and [`Error::Closed`].
    pub(crate) async fn write<T, W, S>(&self, bytes: usize, work: W, settle: S) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnMut(&mut dyn Store) -> Result<T, Error> + Send + 'static,
        S: FnOnce(&T) -> Result<(), Error> + Send + 'static,
    {
        let units = u32::try_from(bytes.div_ceil(UNIT).clamp(1, QUEUE_UNITS)).unwrap_or(u32::MAX);
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_many_owned(units).await.map_err(|_| Error::Closed)?;
        let (caller, answer) = oneshot::channel();
        let pending = Pending { work, settle, value: None, caller, _permit: permit };
        self.queue.send(Message::Write(Box::new(pending))).map_err(|_| Error::Closed)?;
        answer.await.unwrap_or_else(|_| {
            Err(Error::Unknown { detail: "the journal's writer ended without an answer".to_owned() })
        })
    }

    /// Stores what has been sent, then ends the thread. Later writes are refused.
    pub(crate) async fn close(&self) {
        self.permits.close();
        // Fails when the thread has ended already, which is what is wanted.
        let _ = self.queue.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let ended = tokio::task::spawn_blocking(|| thread.join().is_ok()).await;
            if !ended.unwrap_or(false) {
                tracing::error!("the journal's writer thread panicked");
            }
        }
    }
}

/// The writer thread's side.
struct Worker {
    store: Box<dyn Store>,
    messages: Receiver<Message>,
    elsewhere: watch::Sender<()>,
    polled: Instant,
}

impl Worker {
    fn run(mut self) {
        loop {
            let first = match self.messages.recv_timeout(POLL) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut group = Vec::new();
            let mut open = true;
            for message in first.into_iter().chain(self.messages.try_iter()) {
                match message {
                    Message::Write(write) => group.push(write),
                    Message::Close => open = false,
                }
            }
            store_group(self.store.as_mut(), group);
            if !open {
                return;
            }
            self.look_elsewhere();
        }
    }

    fn look_elsewhere(&mut self) {
        // One receiver is the journal's own, the others belong to those who wait.
        if self.elsewhere.receiver_count() <= 1 || self.polled.elapsed() < POLL {
            return;
        }
        self.polled = Instant::now();
        match self.store.changed_elsewhere() {
            Ok(false) => {}
            Ok(true) => {
                self.elsewhere.send_replace(());
            }
            Err(error) => {
                tracing::warn!(%error, "can't see whether others have written");
                // Better that those who wait look for themselves.
                self.elsewhere.send_replace(());
            }
        }
    }
}

/// Stores a group in one transaction. If that fails without doubt, each write is tried alone, so
/// that one which can't be stored (too large for what is left of the disk) fails only itself.
fn store_group(store: &mut dyn Store, mut group: Vec<Box<dyn Write>>) {
    if group.is_empty() {
        return;
    }
    match transact(store, &mut group) {
        Ok(fates) => answer(group, fates),
        Err(Failed { error, worth_splitting: true }) if group.len() > 1 => {
            tracing::warn!(%error, writes = group.len(), "group commit failed, storing one by one");
            for write in group {
                let mut alone = vec![write];
                match transact(store, &mut alone) {
                    Ok(fates) => answer(alone, fates),
                    Err(failed) => refuse(alone, &failed.error),
                }
            }
        }
        Err(failed) => refuse(group, &failed.error),
    }
}

struct Failed {
    error: Error,
    worth_splitting: bool,
}

/// One transaction; the fate of each write, or why there was no transaction.
fn transact(store: &mut dyn Store, group: &mut [Box<dyn Write>]) -> Result<Vec<Result<(), Error>>, Failed> {
    store.begin().map_err(|error| Failed { error, worth_splitting: false })?;
    let mut fates = Vec::with_capacity(group.len());
    for write in group {
        let fate = write.perform(store);
        if let Err(error) = &fate
            && !error.is_refusal()
        {
            store.rollback();
            return Err(Failed { error: error.clone(), worth_splitting: true });
        }
        fates.push(fate);
    }
    match store.commit() {
        Ok(()) => Ok(fates),
        Err(error) => {
            let worth_splitting = matches!(error, Error::Full { .. });
            Err(Failed { error, worth_splitting })
        }
    }
}

fn answer(group: Vec<Box<dyn Write>>, fates: Vec<Result<(), Error>>) {
    for (write, fate) in group.into_iter().zip(fates) {
        write.answer(fate);
    }
}

fn refuse(group: Vec<Box<dyn Write>>, error: &Error) {
    for write in group {
        write.answer(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::ids::{Epoch, Seq};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{Doubt, NewFact, Row, Stream, StreamInfo};

    /// A store that knows cursors only: their names say what becomes of them. It logs what it is
    /// asked, and before its first commit it waits until it is let go.
    struct Scripted {
        log: Arc<Mutex<Vec<String>>>,
        gate: Option<Receiver<()>>,
        unsure: bool,
    }

    impl Scripted {
        fn note(&self, what: &str) {
            self.log.lock().unwrap().push(what.to_owned());
        }
    }

    impl Store for Scripted {
        fn begin(&mut self) -> Result<(), Error> {
            self.note("begin");
            Ok(())
        }
        fn commit(&mut self) -> Result<(), Error> {
            if let Some(gate) = self.gate.take() {
                gate.recv().unwrap();
            }
            self.note("commit");
            if self.unsure { Err(Error::Unknown { detail: "scripted".to_owned() }) } else { Ok(()) }
        }
        fn rollback(&mut self) {
            self.note("rollback");
        }
        fn set_cursor(&mut self, name: &str, _: u64) -> Result<(), Error> {
            self.note(name);
            match name {
                "refused" => Err(Error::Injected { point: "scripted" }),
                "large" => Err(Error::Full { path: "scripted".into() }),
                "unsure" => {
                    self.unsure = true;
                    Ok(())
                }
                _ => Ok(()),
            }
        }
        fn claim(&mut self, _: &Stream, _: Epoch) -> Result<Epoch, Error> {
            Err(Error::Closed)
        }
        fn append(&mut self, _: &Stream, _: Epoch, _: Seq, _: &[NewFact]) -> Result<Seq, Error> {
            Err(Error::Closed)
        }
        fn forget(&mut self, _: &Stream, _: Epoch) -> Result<u64, Error> {
            Err(Error::Closed)
        }
        fn changed_elsewhere(&mut self) -> Result<bool, Error> {
            Err(Error::Closed)
        }
        fn epoch(&mut self, _: &Stream) -> Result<Epoch, Error> {
            Err(Error::Closed)
        }
        fn last_seq(&mut self, _: &Stream) -> Result<Seq, Error> {
            Err(Error::Closed)
        }
        fn read(&mut self, _: &Stream, _: Seq, _: usize) -> Result<Vec<Row>, Error> {
            Err(Error::Closed)
        }
        fn streams(&mut self) -> Result<Vec<StreamInfo>, Error> {
            Err(Error::Closed)
        }
        fn cursor(&mut self, _: &str) -> Result<Option<u64>, Error> {
            Err(Error::Closed)
        }
    }

    fn send(writer: &Arc<Writer>, name: &'static str, bytes: usize) -> JoinHandle<Result<(), Error>> {
        let writer = Arc::clone(writer);
        tokio::spawn(
            async move { writer.write(bytes, move |store| store.set_cursor(name, 0), |()| Ok(())).await },
        )
    }

    /// Sends `first`, and while it is being stored the others; returns what each heard and the log.
    async fn gathered(others: &[&'static str]) -> (Vec<Result<(), Error>>, Vec<String>) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (open, gate) = mpsc::channel();
        let store = Scripted { log: Arc::clone(&log), gate: Some(gate), unsure: false };
        let (elsewhere, _receiver) = watch::channel(());
        let writer = Arc::new(Writer::start(Box::new(store), elsewhere).unwrap());
        let first = send(&writer, "first", 0);
        while log.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = others.iter().map(|name| send(&writer, name, 0)).collect();
        while writer.permits.available_permits() + 1 + others.len() > QUEUE_UNITS {
            tokio::task::yield_now().await;
        }
        open.send(()).unwrap();
        first.await.unwrap().unwrap();
        let mut heard = Vec::new();
        for other in others {
            heard.push(other.await.unwrap());
        }
        writer.close().await;
        let log = log.lock().unwrap().split_off(3);
        (heard, log)
    }

    #[tokio::test]
    async fn what_gathers_is_committed_together_and_a_refused_write_refuses_only_itself() {
        let (heard, log) = gathered(&["a", "refused", "b"]).await;
        assert_eq!(log, ["begin", "a", "refused", "b", "commit"]);
        assert!(heard[0].is_ok() && heard[2].is_ok());
        assert!(matches!(heard[1], Err(Error::Injected { .. })));
    }

    #[tokio::test]
    async fn one_that_finds_no_space_does_not_keep_the_others_from_being_stored() {
        let (heard, log) = gathered(&["a", "large", "b"]).await;
        let alone = ["begin", "a", "commit", "begin", "large", "rollback", "begin", "b", "commit"];
        assert_eq!(log, [&["begin", "a", "large", "rollback"], &alone[..]].concat());
        assert!(heard[0].is_ok() && heard[2].is_ok());
        assert!(matches!(heard[1], Err(Error::Full { .. })));
    }

    #[tokio::test]
    async fn a_commit_in_doubt_is_told_to_all_and_never_repeated() {
        let (heard, log) = gathered(&["a", "unsure", "b"]).await;
        assert_eq!(log, ["begin", "a", "unsure", "b", "commit"]);
        assert!(heard.iter().all(|answer| answer.as_ref().is_err_and(|e| e.doubt() == Doubt::Unknown)));
    }

    #[tokio::test]
    async fn the_queue_is_bounded_by_what_it_weighs() {
        let (open, gate) = mpsc::channel();
        let store = Scripted { log: Arc::default(), gate: Some(gate), unsure: false };
        let (elsewhere, _receiver) = watch::channel(());
        let writer = Arc::new(Writer::start(Box::new(store), elsewhere).unwrap());
        let large = send(&writer, "a", MAX_BATCH_BYTES);
        while writer.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let small = writer.write(0, |store| store.set_cursor("b", 0), |()| Ok(()));
        tokio::pin!(small);
        tokio::select! {
            biased;
            _ = &mut small => panic!("there was no room for it"),
            () = tokio::task::yield_now() => {}
        }
        open.send(()).unwrap();
        large.await.unwrap().unwrap();
        small.await.unwrap();
    }
}
