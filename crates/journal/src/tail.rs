//! Who waits for facts of which stream. The writer announces its own appends here at once, and
//! that another process has written something as soon as it notices.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ensemble_core::ids::Seq;
use tokio::sync::watch;

use crate::Stream;

/// The places where appends are announced, shared by the writer and those who wait.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Last announced fact of each stream that somebody waits for; no entry outlives its waiters.
    streams: Mutex<HashMap<Stream, watch::Sender<Seq>>>,
    /// Changes when another process has written. Its sender is the writer's: closed is closed.
    elsewhere: watch::Receiver<()>,
}

impl Tail {
    /// A tail, and the sender by which the writer tells of other processes.
    pub(crate) fn new() -> (Arc<Self>, watch::Sender<()>) {
        let (sender, elsewhere) = watch::channel(());
        (Arc::new(Self { streams: Mutex::default(), elsewhere }), sender)
    }

    /// Announces the last fact of a stream to those who wait for it.
    pub(crate) fn announce(&self, stream: &Stream, last: Seq) {
        if let Some(waiters) = self.lock().get(stream) {
            waiters.send_replace(last);
        }
    }

    /// Begins to wait for facts of `stream`. Look at what is stored after this, not before:
    /// only then is no append missed.
    pub(crate) fn subscribe(self: &Arc<Self>, stream: &Stream) -> Subscription {
        let appended =
            self.lock().entry(stream.clone()).or_insert_with(|| watch::Sender::new(Seq(0))).subscribe();
        Subscription {
            tail: Arc::clone(self),
            stream: stream.clone(),
            appended,
            elsewhere: self.elsewhere.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Stream, watch::Sender<Seq>>> {
        // Every change of the map is one call: a panic elsewhere can't leave it half done.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits.
#[derive(Debug)]
pub(crate) struct Subscription {
    tail: Arc<Tail>,
    stream: Stream,
    /// Last fact announced by this process.
    pub(crate) appended: watch::Receiver<Seq>,
    /// Changes when another process has written something.
    pub(crate) elsewhere: watch::Receiver<()>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut streams = self.tail.lock();
        // Our own receiver is still counted.
        if streams.get(&self.stream).is_some_and(|waiters| waiters.receiver_count() <= 1) {
            streams.remove(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::ids::RunId;

    use super::*;

    #[test]
    fn no_entry_outlives_its_waiters() {
        let (tail, _elsewhere) = Tail::new();
        let stream = Stream::Run(RunId::from_parts(1, 1));
        let (first, second) = (tail.subscribe(&stream), tail.subscribe(&stream));
        tail.announce(&stream, Seq(3));
        assert_eq!(*first.appended.borrow(), Seq(3));
        drop(first);
        tail.announce(&stream, Seq(4));
        assert_eq!(*second.appended.borrow(), Seq(4));
        drop(second);
        assert!(tail.lock().is_empty());
    }
}
