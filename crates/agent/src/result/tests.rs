//! Readings as a table: how the process ended and what it said, and what that comes to.

use super::*;

fn from_file(exit: &Exit, text: &str) -> Reading {
    outcome(exit, Some(text.as_bytes()), b"", b"")
}

fn said(text: &str) -> Reading {
    from_file(&Exit::Code(0), text)
}

fn why(reading: &Reading) -> &str {
    reading.outcome.blockers[0].head()
}

#[test]
fn every_status_is_read_in_any_case() {
    for (status, ending) in [
        ("SUCCESS", Ending::Done),
        ("success", Ending::Done),
        ("done", Ending::Done),
        ("FAILED", Ending::Failed),
        ("Blocked", Ending::Blocked),
        ("revise", Ending::Revise),
    ] {
        assert_eq!(said(&format!("{{\"status\": \"{status}\"}}")).outcome.ending, ending, "{status}");
    }
}

#[test]
fn a_full_result_is_kept_whole() {
    let reading = said(
        r#"{"status": "SUCCESS", "task_id": "ST-2", "summary": "the API",
            "artifacts": {"api_spec": {"routes": ["/books"]}}, "messages": ["mind the port", ""],
            "blockers": [], "usage": {"total_tokens": 12, "tool_uses": 3},
            "outputs": {"a.py": "print()\n", "b.py": true, "c.py": {"ref": "there"}, "d.py": {"contents": ""},
                        "e.py": "./e.py", "f.py": "https://x.test/f", "g.py": null}}"#,
    );
    assert_eq!(reading.warnings, Vec::<String>::new());
    assert_eq!(reading.outcome.summary.head(), "the API");
    assert_eq!(reading.outcome.messages, [Text::from("mind the port")]);
    assert_eq!(reading.outcome.artifacts["api_spec"]["routes"][0], "/books");
    assert_eq!((reading.outcome.usage.total_tokens, reading.outcome.usage.tool_uses), (12, 3));
    let contents: Vec<_> =
        reading.outputs.iter().filter(|(_, v)| matches!(v, OutputValue::Contents(_))).collect();
    assert_eq!(contents.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a.py", "d.py"]);
    assert_eq!(reading.outputs["c.py"], OutputValue::Reference("there".into()));
    assert_eq!(reading.outputs["b.py"], OutputValue::Reference("b.py".into()));
}

#[test]
fn one_line_is_contents_with_a_warning() {
    let reading = said(r#"{"status": "done", "outputs": {"a": "hello"}}"#);
    assert_eq!(reading.outputs["a"], OutputValue::Contents("hello".into()));
    assert!(reading.warnings[0].contains("outputs.a"));
}

#[test]
fn a_failing_exit_beats_a_claim_of_success_and_both_are_said() {
    let exit = Exit::Code(3);
    let reading = outcome(&exit, Some(br#"{"status": "SUCCESS", "summary": "fine"}"#), b"", b"boom\n");
    assert_eq!(reading.outcome.ending, Ending::Failed);
    assert_eq!(why(&reading), "it said done, but the agent ended with exit status 3; its last words:\nboom");
    assert_eq!(reading.outcome.summary.head(), "fine");
}

#[test]
fn a_failing_exit_leaves_a_claim_of_failure_as_it_is() {
    let reading = from_file(&Exit::Code(1), r#"{"status": "BLOCKED", "blockers": ["no key"]}"#);
    assert_eq!(reading.outcome.ending, Ending::Blocked);
    assert_eq!(reading.outcome.blockers, [Text::from("no key")]);
}

#[test]
fn out_of_time_is_failed_and_cancelled_is_stopped_whatever_was_said() {
    for claim in [r#"{"status": "done"}"#, r#"{"status": "blocked"}"#, r#"{"status": "revise"}"#, "{"] {
        assert_eq!(from_file(&Exit::TimedOut, claim).outcome.ending, Ending::Failed, "{claim}");
        assert_eq!(from_file(&Exit::Cancelled, claim).outcome.ending, Ending::Stopped, "{claim}");
    }
    assert_eq!(outcome(&Exit::Cancelled, None, b"half way\n", b"").outcome.summary.head(), "half way");
}

#[test]
fn done_with_blockers_asks_for_another_round() {
    assert_eq!(said(r#"{"status": "done", "blockers": ["tests fail"]}"#).outcome.ending, Ending::Revise);
    assert_eq!(said(r#"{"status": "done", "blockers": ["", " "]}"#).outcome.ending, Ending::Done);
}

#[test]
fn the_file_counts_before_the_block_and_the_block_before_plain_output() {
    let stdout = b"I worked.\n```result\n{\"status\": \"FAILED\"}\n```\n";
    let both = outcome(&Exit::Code(0), Some(br#"{"status": "done"}"#), stdout, b"");
    assert_eq!(both.outcome.ending, Ending::Done);
    assert_eq!(both.outcome.summary.head(), "I worked.");
    assert_eq!(outcome(&Exit::Code(0), None, stdout, b"").outcome.ending, Ending::Failed);
}

#[test]
fn without_a_word_the_exit_status_decides_and_the_last_lines_tell() {
    let many: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let reading = outcome(&Exit::Code(0), None, many.as_bytes(), b"");
    assert_eq!(reading.outcome.ending, Ending::Done);
    assert!(reading.outcome.summary.head().starts_with("line 980\n"));
    assert!(reading.outcome.summary.head().ends_with("line 999"));

    let endless = "ü".repeat(1_000_000);
    let reading = outcome(&Exit::Code(0), None, endless.as_bytes(), b"");
    assert!(reading.outcome.summary.head().len() <= WORDS_LIMIT);

    let reading = outcome(&Exit::Signal(11), None, b"working\n", b"");
    assert_eq!(reading.outcome.ending, Ending::Failed);
    assert_eq!(why(&reading), "the agent was ended by signal 11; its last words:\nworking");

    let reading = outcome(&Exit::NotStarted("`x`: not found".into()), None, b"", b"");
    assert_eq!(reading.outcome.ending, Ending::Blocked, "a person must do something");
    assert!(why(&reading).starts_with("the agent could not be started: `x`: not found; install"));
}

#[test]
fn a_result_that_cannot_be_read_is_a_failure_that_names_line_and_field() {
    for (text, wanted) in [
        ("", "the result file is empty"),
        ("{\n\"status\": \"SUCCESS\",,\n}", "line 2 column 21"),
        ("[1]", "not a JSON object"),
        ("{\"summary\": \"x\"}", "field `status` is missing"),
        ("{\n\"status\": 7}", "line 2, field `status` must be one of"),
        ("{\n\n\"status\": \"DONNE\"}", "line 3, field `status` is `donne`"),
        ("{\"status\": \"done\",\n\"summary\": []}", "line 2, field `summary` must be a text"),
        ("{\"status\": \"done\",\n\"blockers\": 3}", "line 2, field `blockers` must be a list of texts"),
        ("{\"status\": \"done\",\n\"artifacts\": 3}", "line 2, field `artifacts` must be an object"),
        ("{\"status\": \"done\",\n\"outputs\": {\n\"a\": 3}}", "line 3, field `outputs.a` must be"),
        (
            "{\"status\": \"done\",\n\"outputs\": {\"../a\": \"x\\n\"}}",
            "line 2, field `outputs[\"../a\"]` holds",
        ),
    ] {
        let reading = said(text);
        assert_eq!(reading.outcome.ending, Ending::Failed, "{text}");
        assert!(why(&reading).contains(wanted), "{text}: {}", why(&reading));
    }
    let deep = format!("{{\"status\": {}", "[".repeat(500_000));
    assert_eq!(said(&deep).outcome.ending, Ending::Failed);
    assert!(why(&said(&" ".repeat(RESULT_LIMIT + 1))).contains("more than 1048576 bytes"));
}

#[test]
fn a_broken_block_is_a_failure_too() {
    let reading = outcome(&Exit::Code(0), None, b"```result\nall fine\n```\n", b"");
    assert_eq!(reading.outcome.ending, Ending::Failed);
    assert!(why(&reading).starts_with("the `result` block is not a JSON object"));
    let cut = outcome(&Exit::Code(0), None, b"```result\n{}", b"");
    assert!(why(&cut).contains("not closed"));
}

#[test]
fn odd_but_harmless_things_are_warned_about() {
    let reading = said(
        "{\"status\": \"done\", \"blockers\": [{\"resolved\": 1}],\n\"mood\": \"good\", \"usage\": \"much\",\n\
         \"outputs\": {\"/abs\": true}}",
    );
    assert_eq!(reading.outcome.blockers, [Text::from("{\"resolved\":1}")]);
    let all = reading.warnings.join("\n");
    for part in [
        "line 2, field `mood` is not",
        "field `usage` must be",
        "line 3, field `outputs[\"/abs\"]` is absolute",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(reading.outputs.is_empty());
}

#[test]
fn a_flood_of_oddities_is_cut_short() {
    let fields: String = (0..50_000).map(|n| format!(",\n\"x{n}\": 1")).collect();
    let reading = said(&format!("{{\"status\": \"done\"{fields}}}"));
    assert_eq!(reading.outcome.ending, Ending::Done);
    assert_eq!(reading.warnings.len(), 21);
    assert!(reading.warnings[20].ends_with("49980 more warnings"));
}

#[test]
fn invalid_utf_8_is_replaced() {
    let reading = outcome(&Exit::Code(0), Some(b"{\"status\": \"done\", \"summary\": \"a\xffb\"}"), b"", b"");
    assert_eq!(reading.outcome.summary.head(), "a\u{fffd}b");
    assert_eq!(outcome(&Exit::Code(0), None, b"a\xffb", b"").outcome.summary.head(), "a\u{fffd}b");
}
