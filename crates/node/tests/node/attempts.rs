//! What a node makes of assignments while nothing breaks.

use std::fs;

use ensemble_core::{
    ids::{CommitId, EmployeeId, Epoch},
    message::{Assign, Ended, How, ToCoordinator, ToNode},
    outcome::Ending,
    plan::WorktreeMode,
    run::{fact::LossCause, state::attempt_ref},
};

use crate::bench::{Bench, mode};

pub async fn an_attempt_from_its_assignment_to_its_receipt() {
    let bench = Bench::new();
    let node = bench.node("echo working; echo code > api.py; echo 'Wrote the API'").await;
    let hello = bench.coordinator.attached().await;
    assert_eq!(hello.node, *node.id());
    assert_eq!(hello.employees, [(EmployeeId::new("back").unwrap(), 2)], "those that can run here");
    assert_eq!(hello.check_slots, 1);
    let report = bench.report(bench.work_with(5, |work| work.outputs = vec!["api.py".to_owned()])).await;
    let key = bench.key("api", 5);
    assert_eq!(report.outcome.ending, Ending::Done, "{report:?}");
    assert_eq!(report.outcome.summary.head(), "working\nWrote the API");
    let delivery = report.delivery.unwrap();
    assert_eq!(delivery.changes.paths, ["api.py"]);
    assert_eq!(bench.file(&delivery.commit, "api.py").unwrap(), "code\n");
    let name = attempt_ref(bench.run, key.task.as_ref().unwrap(), key.attempt);
    let there = bench.coordinator.inner().repository.ref_target(&name).unwrap();
    assert_eq!(there, Some(delivery.commit), "the commit came before the word of it");
    let log = bench.coordinator.inner().logs[&key].clone();
    assert_eq!(String::from_utf8(log).unwrap(), "working\nWrote the API\n");
    assert_eq!(bench.coordinator.inner().heard[1], ToCoordinator::Started(key));
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
    node.drain(std::time::Duration::from_secs(1)).await;
}

pub async fn an_agent_finds_what_it_is_promised() {
    let bench = Bench::new();
    let _node = bench
        .node(
            r#"set -eu
            test "$(pwd -P)" = "$(cd "$ENSEMBLE_WORKTREE" && pwd -P)"
            test "$ENSEMBLE_TASK $ENSEMBLE_ATTEMPT" = "api 1"
            test "${#ENSEMBLE_RUN}" = 26
            test "$(cat "$ENSEMBLE_PROMPT_FILE")" = "You write the API."
            test "$(cat)" = "You write the API."
            test "$(cat "$ENSEMBLE_CONTEXT_FILE")" = '{"task":"api"}'
            test -d "$ENSEMBLE_INBOX" -a -d "$HOME" -a -d "$TMPDIR"
            case "$ENSEMBLE_WORKTREE$HOME" in "$TMPDIR"*) exit 9;; esac
            touch "$ENSEMBLE_CHECKPOINT_FILE"
            echo "$ENSEMBLE_PORTS" | grep -qE '^[0-9]+-[0-9]+$'
            echo "$TRACEPARENT" | grep -q '^00-0af7651916cd43dd8448eb211c80319c-'
            echo '{"status":"SUCCESS","artifacts":{"ports":"'$ENSEMBLE_PORTS'"}}' > "$ENSEMBLE_RESULT_FILE"
            "#,
        )
        .await;
    let report = bench.report(bench.work(5)).await;
    assert_eq!(report.outcome.ending, Ending::Done, "{report:?}");
    assert!(report.outcome.artifacts["ports"].is_string());
    assert_eq!(report.delivery, None, "nothing was changed, nothing is due");
}

pub async fn what_can_not_be_taken_is_refused() {
    let bench = Bench::new();
    let _node = bench.node("until [ -e \"$BENCH/go\" ]; do sleep 0.05; done").await;
    for (token, employee, why) in [(5, "nobody", "nobody can't run"), (6, "model", "model can't run")] {
        let assign = bench.work_with(token, |work| work.employee = EmployeeId::new(employee).unwrap());
        let key = bench.hand_out(assign).await;
        assert!(bench.coordinator.refusal(&key).await.contains(why));
    }
    for token in [7, 8] {
        let assign = Assign { key: bench.key(&format!("t{token}"), token), ..bench.work(token) };
        let key = bench.hand_out(assign).await;
        bench.coordinator.started(&key).await;
    }
    let key = bench.hand_out(Assign { key: bench.key("t9", 9), ..bench.work(9) }).await;
    assert_eq!(bench.coordinator.refusal(&key).await, "all 2 slots are taken");
    // A slot is free as soon as its attempt's end is told.
    fs::write(bench.path("go"), "").unwrap();
    bench.coordinator.end(&bench.key("t7", 7)).await;
    bench.coordinator.end(&bench.key("t8", 8)).await;
    let report = bench.report(Assign { key: bench.key("t9", 10), ..bench.work(10) }).await;
    assert_eq!(report.outcome.ending, Ending::Done);
}

pub async fn an_assignment_that_comes_again_changes_nothing() {
    let bench = Bench::new();
    let _node =
        bench.node("echo x >> \"$BENCH/runs\"; until [ -e \"$BENCH/go\" ]; do sleep 0.05; done").await;
    let key = bench.hand_out(bench.work(5)).await;
    bench.coordinator.started(&key).await;
    bench.hand_out(bench.work(5)).await;
    bench.coordinator.say(ToNode::Stop(bench.key("unknown", 77)));
    bench.coordinator.say(ToNode::Receipt(bench.key("unknown", 77)));
    fs::write(bench.path("go"), "").unwrap();
    bench.coordinator.end(&key).await;
    bench.until("it is cleared away", || bench.attempts().is_empty()).await;
    bench.hand_out(bench.work(5)).await;
    // What is said next is dealt with after it.
    bench.report(Assign { key: bench.key("next", 6), ..bench.work(6) }).await;
    assert_eq!(bench.coordinator.inner().ends(&key).count(), 1);
    assert_eq!(fs::read_to_string(bench.path("runs")).unwrap().lines().count(), 2);
}

pub async fn a_stopped_attempt_hands_in_what_it_has() {
    let bench = Bench::new();
    let _node = bench.node("echo half > api.py; echo begun; sleep 600").await;
    let key = bench.hand_out(bench.work(5)).await;
    bench.coordinator.wait("output", |inner| inner.logs.get(&key).map(drop)).await;
    bench.coordinator.say(ToNode::Stop(key.clone()));
    let How::Report(report) = bench.coordinator.end(&key).await.how else { panic!() };
    assert_eq!(report.outcome.ending, Ending::Stopped);
    assert_eq!(bench.file(&report.delivery.unwrap().commit, "api.py").unwrap(), "half\n");
    bench.nobody_left().await;
}

pub async fn time_is_limited_and_the_work_kept() {
    let bench = Bench::new();
    let _node = bench.node("echo half > api.py; sleep 600").await;
    let report = bench.report(Assign { timeout_ms: 300, ..bench.work(5) }).await;
    assert_eq!(report.outcome.ending, Ending::Failed);
    assert!(report.outcome.blockers[0].head().contains("time"), "{report:?}");
    assert!(report.delivery.is_some());
}

pub async fn outputs_in_words_become_files() {
    let bench = Bench::new();
    let _node = bench
        .node(
            r#"echo own > kept.txt
            echo '{"status":"SUCCESS","outputs":{"docs/a.md":"from words","kept.txt":"not this"}}' > "$ENSEMBLE_RESULT_FILE""#,
        )
        .await;
    let outputs = ["docs/a.md", "kept.txt"].map(str::to_owned).to_vec();
    let report = bench.report(bench.work_with(5, |work| work.outputs = outputs)).await;
    assert_eq!(report.outcome.ending, Ending::Done, "{report:?}");
    let commit = report.delivery.unwrap().commit;
    assert_eq!(bench.file(&commit, "docs/a.md").unwrap(), "from words");
    assert_eq!(bench.file(&commit, "kept.txt").unwrap(), "own\n");
}

pub async fn done_is_believed_only_with_evidence() {
    let bench = Bench::new();
    let _node = bench.node("echo done; [ \"$ENSEMBLE_TASK\" != other ] || echo x > other.txt").await;
    let declared = |work: &mut ensemble_core::message::Work| work.outputs = vec!["api.py".to_owned()];
    let missing = bench.report(bench.work_with(5, declared)).await;
    assert_eq!(missing.outcome.ending, Ending::Failed);
    assert!(missing.outcome.blockers[0].head().contains("api.py"), "{missing:?}");
    let other = Assign { key: bench.key("other", 6), ..bench.work_with(6, declared) };
    let other = bench.report(other).await;
    assert_eq!(other.outcome.ending, Ending::Failed);
    assert!(other.delivery.is_some(), "what is there is kept");
    let idle = Assign { key: bench.key("idle", 7), ..bench.work_with(7, mode(WorktreeMode::Write)) };
    assert_eq!(bench.report(idle).await.outcome.ending, Ending::Failed);
    let study = Assign { key: bench.key("study", 8), ..bench.work(8) };
    assert_eq!(bench.report(study).await.outcome.ending, Ending::Done);
}

pub async fn changes_of_a_reader_are_dropped_and_named() {
    let bench = Bench::new();
    let _node = bench.node("echo x > notes.txt").await;
    let report = bench.report(bench.work_with(5, mode(WorktreeMode::Read))).await;
    assert_eq!(report.outcome.ending, Ending::Done);
    assert_eq!(report.delivery, None);
    assert_eq!(report.left_out, ["notes.txt: dropped (worktree: read)"]);
}

pub async fn a_task_without_files_pays_for_no_git() {
    let bench = Bench::new();
    let _node = bench.node("ls -A; echo x > notes.txt").await;
    let unknown = CommitId::new("a".repeat(40)).unwrap();
    let assign = Assign { base: unknown, ..bench.work_with(5, mode(WorktreeMode::None)) };
    let report = bench.report(assign).await;
    assert_eq!(report.outcome.ending, Ending::Done);
    assert_eq!(report.outcome.summary.head(), "", "an empty folder");
    assert_eq!(report.delivery, None);
}

pub async fn checks_run_on_a_fresh_copy_of_the_commit() {
    let bench = Bench::new();
    let _node = bench.node("echo code > api.py").await;
    let commit = bench.report(bench.work(5)).await.delivery.unwrap().commit;
    let table = [
        (6, "cat api.py && echo x > api.py", true, "exit 0", "code\n"),
        (7, "cat api.py; echo bad >&2; exit 3", false, "exit 3", "code\nbad\n"),
    ];
    for (token, command, passes, ends, prints) in table {
        let key = bench.hand_out(bench.check(token, &commit, command)).await;
        let How::Check { passed, ended, output } = bench.coordinator.end(&key).await.how else { panic!() };
        assert_eq!((passed, ended.as_str(), output.head()), (passes, ends, prints));
    }
    let key = bench.hand_out(Assign { timeout_ms: 200, ..bench.check(8, &commit, "sleep 600") }).await;
    let How::Check { passed: false, ended, .. } = bench.coordinator.end(&key).await.how else { panic!() };
    assert_eq!(ended, "timed out");
    let key = bench.hand_out(bench.check(9, &commit, "sleep 600")).await;
    bench.coordinator.started(&key).await;
    bench.coordinator.say(ToNode::Stop(key.clone()));
    let ended = bench.coordinator.end(&key).await;
    assert!(matches!(ended.how, How::Lost { cause: LossCause::Interrupted, .. }), "{ended:?}");
}

pub async fn a_base_that_nobody_has_costs_no_attempt() {
    let bench = Bench::new();
    let _node = bench.node("true").await;
    let unknown = CommitId::new("a".repeat(40)).unwrap();
    let key = bench.hand_out(Assign { base: unknown, ..bench.work(5) }).await;
    let Ended { how: How::Lost { cause, capture: None, reason }, .. } = bench.coordinator.end(&key).await
    else {
        panic!()
    };
    assert_eq!(cause, LossCause::Environment);
    assert!(reason.contains("can't be fetched"), "{reason}");
    // An older epoch than one that was seen is refused.
    bench.coordinator.claim(bench.run, 3);
    let key = bench.hand_out(Assign { epoch: Epoch(2), ..bench.work(6) }).await;
    assert!(bench.coordinator.refusal(&key).await.contains("superseded"));
}

pub async fn an_agent_that_takes_its_working_directory_away_has_failed() {
    let bench = Bench::new();
    let _node = bench.node("cd /; rm -r \"$ENSEMBLE_WORKTREE\"; ln -s /etc \"$ENSEMBLE_WORKTREE\"").await;
    let report = bench.report(bench.work(5)).await;
    assert_eq!(report.outcome.ending, Ending::Failed);
    assert!(report.outcome.blockers[0].head().contains("working directory is gone"), "{report:?}");
    bench.until("the attempt is cleared away", || bench.attempts().is_empty()).await;
}
