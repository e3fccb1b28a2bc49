//! The heart of Ensemble: everything that is *decided* lives here, nothing that is *done*.
//! No clock, randomness, I/O, async, logging or hash-ordered iteration; the same facts always
//! give the same state. Shells feed it facts and perform the duties that it derives.

pub mod brief;
pub mod ids;
pub mod link;
pub mod message;
pub mod outcome;
pub mod output;
pub mod placement;
pub mod plan;
pub mod run;
pub mod source;
pub mod team;
pub mod text;
