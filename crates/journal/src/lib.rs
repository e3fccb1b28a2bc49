//! The journal: the append-only record of what happened in runs and projects, on SQLite.
//! It orders, fences and keeps facts, and stores large bodies as blobs beside them; what a fact
//! means is not known here. The async handle is [`Journal`]; [`Store`] is what a database must do.

mod blobs;
mod error;
mod facts;
mod faults;
mod journal;
mod readers;
mod schema;
mod sqlite;
mod store;
mod tail;
mod writer;

pub use blobs::Swept;
pub use error::{Doubt, Error};
pub use facts::{MAX_BATCH_BYTES, MAX_FACTS, NewFact, Row, Stream, StreamInfo};
pub use faults::FAULT_POINTS;
pub use journal::Journal;
pub use store::Store;
