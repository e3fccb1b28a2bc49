//! What models really answer: every case of the two files must be answered as it expects.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::*;

/// Each case is answered in a fraction of this even without optimisation; a guard against work that
/// grows faster than the answer.
const GUARD: Duration = Duration::from_secs(2);

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

#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures the code from outside")]
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
