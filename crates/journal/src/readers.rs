//! A small pool of reading connections, used on the blocking threads of the runtime.
//! In the write-ahead log readers neither wait for the writer nor hold it up.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use crate::{Error, Store};

/// Most reads at a time: more would only share the same disk.
const READERS: usize = 4;

type Open = dyn Fn() -> Result<Box<dyn Store>, Error> + Send + Sync;

/// The pool.
pub(crate) struct Readers {
    open: Box<Open>,
    idle: Mutex<Vec<Box<dyn Store>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// A pool whose connections are made by `open` when they are first needed.
    pub(crate) fn new(open: impl Fn() -> Result<Box<dyn Store>, Error> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            open: Box::new(open),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Runs `work` on a connection of the pool.
    ///
    /// # Errors
    /// Those of `work` and of opening, and [`Error::Closed`].
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut dyn Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        let readers = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut store = match idle {
                Some(store) => store,
                None => (readers.open)()?,
            };
            let value = work(store.as_mut())?;
            // After an error the connection is not trusted again.
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(store);
            Ok(value)
        });
        // Cancelled only when the runtime ends.
        reading.await.unwrap_or(Err(Error::Closed))
    }

    /// Waits for reads under way and drops all connections. Later reads are refused.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(READERS).unwrap_or(u32::MAX);
        let held = self.permits.acquire_many(all).await;
        self.permits.close();
        drop(held);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}
