//! What a database must do to hold the journal. Synchronous: the writer thread drives one store
//! through transactions, readers use others. SQLite is the one there is.

use ensemble_core::ids::{Epoch, Seq};

use crate::{Error, NewFact, Row, Stream, StreamInfo};

/// One connection to the database.
///
/// `claim`, `append`, `forget` and `set_cursor` are called between `begin` and `commit`. Each is all or
/// nothing by itself: one that is refused changes nothing and leaves the transaction usable.
pub trait Store: Send + 'static {
    /// Starts a transaction that excludes all other writers, of other processes too.
    ///
    /// # Errors
    /// [`Error::Busy`] when another writer does not end in time; then no transaction is open.
    fn begin(&mut self) -> Result<(), Error>;

    /// Makes the transaction durable. When this returns, it survives a loss of power.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it may be stored; every other error says that nothing is.
    /// The transaction is closed in each case.
    fn commit(&mut self) -> Result<(), Error>;

    /// Forgets the transaction.
    fn rollback(&mut self);

    /// Makes the epoch one higher if it is `read`, and returns the new one.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the epoch is another one.
    fn claim(&mut self, stream: &Stream, read: Epoch) -> Result<Epoch, Error>;

    /// Appends facts behind `after` and returns the last sequence.
    ///
    /// # Errors
    /// [`Error::Fenced`] when `epoch` is not the stream's or the stream was never claimed,
    /// [`Error::OutOfSequence`] when `after` is not its last fact.
    fn append(&mut self, stream: &Stream, epoch: Epoch, after: Seq, facts: &[NewFact]) -> Result<Seq, Error>;

    /// Removes a stream with its facts, and returns how many those were.
    ///
    /// # Errors
    /// [`Error::Fenced`] when `epoch` is not the stream's.
    fn forget(&mut self, stream: &Stream, epoch: Epoch) -> Result<u64, Error>;

    /// Keeps a number under a name.
    ///
    /// # Errors
    /// Those of the database.
    fn set_cursor(&mut self, name: &str, value: u64) -> Result<(), Error>;

    /// Whether another connection has committed since this was last asked; the first answer is
    /// `true`. Commits through this store itself don't count.
    ///
    /// # Errors
    /// Those of the database.
    fn changed_elsewhere(&mut self) -> Result<bool, Error>;

    /// The stream's epoch; `Epoch(0)` when it was never claimed.
    ///
    /// # Errors
    /// Those of the database.
    fn epoch(&mut self, stream: &Stream) -> Result<Epoch, Error>;

    /// The stream's last fact; `Seq(0)` when it has none.
    ///
    /// # Errors
    /// Those of the database.
    fn last_seq(&mut self, stream: &Stream) -> Result<Seq, Error>;

    /// The first `limit` facts beyond `after`, in order.
    ///
    /// # Errors
    /// Those of the database.
    fn read(&mut self, stream: &Stream, after: Seq, limit: usize) -> Result<Vec<Row>, Error>;

    /// All streams, the one that was first claimed last comes first.
    ///
    /// # Errors
    /// Those of the database.
    fn streams(&mut self) -> Result<Vec<StreamInfo>, Error>;

    /// The number that is kept under `name`.
    ///
    /// # Errors
    /// Those of the database.
    fn cursor(&mut self, name: &str) -> Result<Option<u64>, Error>;
}
