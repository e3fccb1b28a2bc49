//! A node against a coordinator that speaks the real protocol, with shell scripts as agents. This
//! program is its own keeper (`keeper`) and its own node to be killed (`node`), else it runs the
//! tests. Linux only, as the keeper is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attempts;
mod bench;
mod coordinator;
mod failures;

use std::{process::ExitCode, time::Duration};

use libtest_mimic::{Arguments, Trial};

/// A test, which runs in a runtime of its own.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$(Trial::test(stringify!($name), || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on($module::$name());
            runtime.shutdown_timeout(Duration::from_secs(5));
            Ok(())
        })),*]
    };
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("keeper") => return ensemble_agent::keeper::main(),
        Some("node") => return failures::node(),
        _ => {}
    }
    let trials = tests![
        attempts::an_attempt_from_its_assignment_to_its_receipt,
        attempts::an_agent_finds_what_it_is_promised,
        attempts::what_can_not_be_taken_is_refused,
        attempts::an_assignment_that_comes_again_changes_nothing,
        attempts::a_stopped_attempt_hands_in_what_it_has,
        attempts::time_is_limited_and_the_work_kept,
        attempts::an_agent_that_takes_its_working_directory_away_has_failed,
        attempts::outputs_in_words_become_files,
        attempts::done_is_believed_only_with_evidence,
        attempts::changes_of_a_reader_are_dropped_and_named,
        attempts::a_task_without_files_pays_for_no_git,
        attempts::checks_run_on_a_fresh_copy_of_the_commit,
        attempts::a_base_that_nobody_has_costs_no_attempt,
        failures::a_broken_link_loses_nothing,
        failures::an_end_waits_for_its_receipt_across_a_restart,
        failures::a_run_moves_to_another_coordinator_with_its_agents,
        failures::a_drained_node_hands_back_what_its_agents_had,
        failures::a_killed_node_leaves_no_agent_and_its_successor_captures,
        failures::a_commit_that_is_never_taken_is_a_loss,
        failures::a_commit_waits_for_a_coordinator_that_is_away,
        failures::an_older_owner_is_not_believed,
        failures::a_successor_speaks_for_all_that_are_gone,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
