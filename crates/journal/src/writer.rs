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
