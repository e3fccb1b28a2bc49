//! A run under test from outside: stories with an exact outcome, random plans in random worlds with
//! invariants after every fact, and stored journals that must replay for ever.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod briefs;
mod checks;
mod desk;
mod golden;
mod invariants;
mod pauses;
mod properties;
mod stops;
mod stories;
mod views;
mod world;
