//! The wire: code generated from `proto/`, and the only conversions between it and the heart's values.
//! Nothing else in the workspace knows how a value looks on the wire; no logic lives here.

mod chunks;
mod convert;
pub mod door;
mod frame;
mod report;
mod status;

pub use chunks::Chunks;
pub use convert::{Malformed, attempt_key, source_file, wire_key, wire_source_file};
pub use frame::{
    CoordinatorFirst, NodeFirst, coordinator_first, coordinator_frame, decode_assign, encode_assign,
    node_first, node_frame, wire_coordinator_frame, wire_hello, wire_node_frame, wire_welcome,
};
pub use report::{decode_ended, encode_ended};
pub use status::{Advice, advice};

/// Largest frame on a link, in bytes.
pub const FRAME_LIMIT: usize = 1024 * 1024;

/// Largest message of the services for people, in bytes: a plan, a team file and its definitions.
pub const MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

/// Bytes of a pack or a log in one chunk.
pub const CHUNK: usize = 256 * 1024;

/// Types and services as generated.
#[allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]
pub mod v1 {
    tonic::include_proto!("ensemble.v1");
}

/// The descriptor of all of it, for reflection and for the test that makes changes deliberate.
pub const DESCRIPTOR: &[u8] = tonic::include_file_descriptor_set!("ensemble.v1");
