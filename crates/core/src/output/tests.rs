//! What models really answer: every case of the two files must be answered as it expects.

#![allow(clippy::disallowed_types, reason = "measures the code from outside")]

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::*;

/// Each case is answered in a fraction of this even without optimisation; a guard against work that
/// grows faster than the answer.
const GUARD: Duration = Duration::from_secs(5);

fn raw(case: &Json) -> String {
    match case["gen"].as_object() {
        Some(made) => {
            let text = |key: &str| made[key].as_str().unwrap().to_owned();
            let count = usize::try_from(made["n"].as_u64().unwrap()).unwrap();
            text("prefix") + &text("repeat").repeat(count) + &text("suffix")
        }
        None => case["raw"].as_str().unwrap().to_owned(),
    }
}

/// What an answer came to, in the words of the cases.
fn verdict<T>(answer: Result<Accepted<T>, Rejected>) -> Result<(Json, Vec<String>), String> {
    answer
        .map(|taken| (taken.json, taken.warnings.into_iter().map(|one| one.code).collect()))
        .map_err(|refused| refused.code)
}

type Verdict = Result<(Json, Vec<String>), String>;

fn fits(case: &Json, text: &str, got: &Verdict) -> bool {
    let expect = &case["expect"];
    let code = |key: &str| expect[key].as_str();
    match got {
        Err(code_got) => [code("reject"), code("or_reject")].contains(&Some(code_got)),
        Ok((value, _)) if expect["unchanged"] == json!(true) => {
            serde_json::from_str::<Json>(text).unwrap() == *value
        }
        Ok((_, warnings)) if code("accept_with_warning").is_some() => {
            warnings.iter().any(|one| Some(one.as_str()) == code("accept_with_warning"))
        }
        Ok((value, _)) => expect.get("accept") == Some(value),
    }
}

fn answer_all(cases: &str, answer: impl Fn(&str, Option<&str>) -> Verdict) {
    let mut count = 0;
    for line in cases.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let text = raw(&case);
        let start = Instant::now();
        let got = answer(&text, case["finish_reason"].as_str());
        let took = start.elapsed();
        assert!(
            fits(&case, &text, &got),
            "{} {}: {got:?} instead of {}",
            case["id"],
            case["kind"],
            case["expect"]
        );
        assert!(took < GUARD, "{} took {took:?}", case["id"]);
        count += 1;
    }
    assert!(count >= 20, "the cases were not found");
}

fn staff() -> Staff {
    Staff::named(["backend", "reviewer"])
}

#[test]
fn plans_are_taken_or_refused_as_their_cases_say() {
    let staff = staff();
    answer_all(include_str!("../../testdata/model/model-output.jsonl"), |text, reason| {
        verdict(plan(text, reason, Some(&staff)))
    });
}

#[test]
fn loop_steps_are_taken_or_refused_as_their_cases_say() {
    answer_all(include_str!("../../testdata/model/loop-output.jsonl"), |text, reason| {
        verdict(loop_step(text, reason, &["back", "front", "test"]))
    });
}

fn code(text: &str) -> String {
    match plan(text, Some("stop"), Some(&staff())) {
        Ok(taken) => format!("taken {}", taken.json),
        Err(refused) => refused.code,
    }
}

fn step_code(text: &str) -> String {
    match loop_step(text, None, &["back", "front"]) {
        Ok(taken) => format!("taken {}", taken.json),
        Err(refused) => refused.code,
    }
}

const TASK: &str = r#"{"sub_tasks":[{"id":"a","description":"d"}]}"#;

#[test]
fn what_stands_around_a_plan_is_left_aside() {
    for text in [
        format!("see [1] and [docs](x) and {{this}}:\n{TASK}\nnote {{}} [ ]"),
        format!("for example {{\"id\":\"z\",\"description\":\"z\"}} and then\n```json\n{TASK}\n```\nDone."),
        format!("first {{\"sub_tasks\":[draft]}}</think>{TASK}"),
        format!("<THINK>a <think>b {{\"x\":</think> c</THINK>\n{TASK}"),
        format!("<answer>{TASK}</answer> thanks"),
    ] {
        assert_eq!(code(&text), format!("taken {TASK}"), "{text}");
    }
    assert_eq!(code(&format!("<think>{TASK}")), "reasoning_unclosed");
    assert_eq!(code(&format!("{TASK}\nand also {{\"sub_tasks\":[{{\"id\":\"b\"")), "truncated");
    for text in ["null", "[]", "[1, 2]", "see [1] and {this}", "\"sub_tasks\""] {
        assert_eq!(code(text), "no_json", "{text}");
    }
}

#[test]
fn what_could_mean_two_things_is_refused() {
    for (text, expected) in [
        (r#"{"sub_tasks":[{"id":"a","description":"d"}]"#, "truncated"),
        (r#"{"sub_tasks":[{"id":"a","description":"d"}}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a" "description":"d"}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","description":"x "title":"y"}]}"#, "schema"),
        (r#"{"sub\_tasks":[{"id":"a","description":"d"}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","description":d}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","id":"b","description":"d"}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":true,"description":"d"}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","description":"d","outputs":5}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","description":"d","checks":["say "x", "y" z"]}]}"#, "schema"),
        (r#"{"sub_tasks":[{"id":"a","description":"d","outputs":["../x"]}]}"#, "bad_path"),
        (r#"{"sub_tasks":[{"id":"a","description":"d","outputs":["a\u0000b"]}]}"#, "control_char_in_path"),
        (
            "{\"sub_tasks\":[{\"id\":\"a\",\"description\":\"d\",\"outputs\":[\"a\nb\"]}]}",
            "control_char_in_path",
        ),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
}

#[test]
fn what_can_mean_one_thing_is_repaired() {
    for (text, json) in [
        (
            r#"{"sub_tasks":[{"id":"a","description":"the set {"x"} is","title":"t"}]}"#,
            r#"{"sub_tasks":[{"id":"a","description":"the set {\"x\"} is","title":"t"}]}"#,
        ),
        (
            r#"{"sub_tasks":[{"id":"a","description":"say "go", then stop",}]}"#,
            r#"{"sub_tasks":[{"id":"a","description":"say \"go\", then stop"}]}"#,
        ),
        (
            r#"{sub_tasks:[{id:'a',description:'it isn't "done"'}]}"#,
            r#"{"sub_tasks":[{"id":"a","description":"it isn't \"done\""}]}"#,
        ),
        (
            r#"{"sub_tasks":[{"id":2,"description":"d"},{"id":3,"description":"d","dependencies":2}]}"#,
            r#"{"sub_tasks":[{"id":"2","description":"d"},{"id":"3","description":"d","dependencies":["2"]}]}"#,
        ),
    ] {
        assert_eq!(code(text), format!("taken {json}"), "{text}");
    }
}

#[test]
fn steps_of_the_wrong_shape_are_refused() {
    for (text, expected) in [
        (r#"[{"name":"back","message":"go","finished":false}]"#, "schema"),
        (r#"{"name":"Back","message":"go","finished":false}"#, "unknown_employee"),
        (r#"{"name":"back","message":"go","finished":false,"why":"x"}"#, "unknown_field"),
        (r#"{"name":7,"message":"go","finished":false}"#, "schema"),
        (r#"{"name":null,"message":null,"finished":true}"#, "schema"),
        (r#"{"message":"go","finished":true}"#, "schema"),
        (
            r#"{'name': 'back', 'message': 'run "x"', 'finished': False} Thanks."#,
            r#"taken {"name":"back","message":"run \"x\"","finished":false}"#,
        ),
    ] {
        assert_eq!(step_code(text), expected, "{text}");
    }
}

#[test]
fn a_models_plan_brings_no_checks_that_the_team_file_does_not_have() {
    let team = |rule: &str| {
        let text =
            format!("name: t\nchecks: [make test]\n{rule}employees: [{{id: backend, description: d}}]\n");
        crate::team::read("t.yaml", &text, "", &|_| Err(String::new()), &[]).unwrap().0
    };
    let text =
        |check: &str| format!(r#"{{"sub_tasks":[{{"id":"a","description":"d","checks":["{check}"]}}]}}"#);
    let answer = |rule: &str, check: &str| {
        plan(&text(check), None, Some(&Staff::of(&team(rule)))).map_err(|one| one.code)
    };
    assert!(answer("", "make test").is_ok());
    assert_eq!(answer("", "curl x | sh").unwrap_err(), "unknown_check");
    assert!(answer("plan_checks: allow\n", "curl x | sh").is_ok());
}

#[test]
fn a_refusal_says_everything_that_is_wrong() {
    let text = r#"{"sub_tasks":[{"id":"a","description":"d","agent_type":"backnd","dependencies":["b"]}]}"#;
    let refused = plan(text, None, Some(&staff())).unwrap_err();
    assert_eq!(
        refused.message,
        "sub_tasks[0].agent_type: nobody serves the agent type `backnd`; there are backend, reviewer \
         (did you mean `backend`?); sub_tasks[0].dependencies[0]: no task has the id `b`"
    );
}

#[test]
fn a_repair_is_recorded() {
    let text = r#"{"name":"back","message":"go","finished":false,}"#;
    let taken = loop_step(text, None, &["back"]).unwrap();
    assert_eq!(taken.repaired.as_deref(), Some(r#"{"name":"back","message":"go","finished":false}"#));
    let clean = loop_step(&text.replace(",}", "}"), None, &["back"]).unwrap();
    assert_eq!(clean.repaired, None);
}

#[test]
fn a_cut_off_answer_is_never_taken_even_if_it_is_whole() {
    let text = r#"{"name":"back","message":"go","finished":false}"#;
    for reason in ["length", "max_tokens", "MAX_TOKENS"] {
        assert_eq!(loop_step(text, Some(reason), &["back"]).unwrap_err().code, "truncated");
    }
}

/// Answers made to be slow: the work must stay linear in their length.
#[test]
fn hostile_answers_are_answered_in_time() {
    let n = 100_000;
    for (name, text) in [
        ("quotes in a text", format!("{{\"sub_tasks\":\"{}", "\"".repeat(n))),
        ("quotes and spaces", format!("{{\"sub_tasks\":\"{}", "\" ".repeat(n))),
        ("commas and quotes", format!("{{\"sub_tasks\":\"{}", "\",".repeat(n))),
        ("open maps", "{\"a\"".repeat(n)),
        ("open maps, broken", "{\"a\" ".repeat(n)),
        ("maps with bare words", "{a: b ".repeat(n)),
        ("maps in a row", "{\"a\":1}".repeat(n)),
        ("plans in a row", "{\"sub_tasks\":[]} ".repeat(n)),
        ("lists in lists", "[{".repeat(n)),
        ("think", "<think>".repeat(n)),
        ("think closed", "<think></think>".repeat(n)),
        ("less than", "<".repeat(n)),
        ("comments", "{/**/".repeat(n)),
        ("comment", format!("{{{}", "/*".repeat(n))),
        ("fences", "```json\n".repeat(n)),
        ("spaces", format!("{{{}", " ".repeat(n * 5))),
        (
            "text, commas, spaces",
            format!("{{\"sub_tasks\":\"{}", format!("\",{}", " ".repeat(300)).repeat(n / 100)),
        ),
        ("backslashes", format!("{{\"sub_tasks\":\"{}", "\\\\".repeat(n))),
        ("single quotes", format!("{{'sub_tasks':'{}", "', ".repeat(n))),
        ("brackets in strings", format!("{{\"sub_tasks\":\"{}", "\"}".repeat(n))),
        ("bare keys", format!("{{{}", "a:{".repeat(n))),
        ("long bare word", format!("{{{}", "a".repeat(n))),
        (
            "many keys",
            format!(
                "{{\"sub_tasks\":[{{{}}}]}}",
                (0..n / 4).map(|i| format!("\"k{i}\":1")).collect::<Vec<_>>().join(",")
            ),
        ),
        (
            "many tasks of one id",
            format!("[{}]", vec!["{\"id\":\"a\",\"description\":\"d\"}"; n / 4].join(",")),
        ),
        (
            "many wrong names",
            format!(
                "[{}]",
                (0..n / 8)
                    .map(|i| format!("{{\"id\":\"a{i}\",\"description\":\"d\",\"dependencies\":[\"b{i}\"]}}"))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
    ] {
        let start = Instant::now();
        let answer = code(&text);
        let took = start.elapsed();
        println!("{name}: {} bytes, {took:?}, {}", text.len(), crate::text::clip(&answer, 40));
        assert!(took < GUARD, "{name} took {took:?}");
    }
}
