//! The journal through its public handle: ownership, order, durability, waiting, refusal of files.
//! What happens inside one connection is tested beside the code.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

mod blobs;
mod files;
mod model;
mod ownership;
mod tail;

use std::time::Duration;

use ensemble_core::ids::{RunId, Seq};
use ensemble_journal::{NewFact, Row, Stream};

/// How long a test waits for what must happen.
const LONG: Duration = Duration::from_secs(20);

fn run(number: u128) -> Stream {
    Stream::Run(RunId::from_parts(1_796_000_000_000, number))
}

fn fact(body: &str) -> NewFact {
    NewFact { kind: "noted".to_owned(), version: 1, body: body.to_owned(), time_ms: 1_796_000_000_123 }
}

fn facts(bodies: &[&str]) -> Vec<NewFact> {
    bodies.iter().map(|body| fact(body)).collect()
}

fn bodies(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.body.as_str()).collect()
}

fn assert_in_order(rows: &[Row]) {
    for (row, expected) in rows.iter().zip(1..) {
        assert_eq!(row.seq, Seq(expected));
    }
}
