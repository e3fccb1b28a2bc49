//! Stories of briefs: however much dependencies deliver and plans say, both forms of a brief stay
//! in their bounds, stay readable, and name what is left out.

use ensemble_core::{
    brief::{Brief, Voice, write},
    ids::BlobId,
    message::BRIEF_LIMIT,
    outcome::Ending,
    run::Fact,
    text::Text,
};
use serde_json::{Value, json};

use crate::desk::{Desk, id, report};

fn brief(desk: &Desk, voice: &Voice, whole: &str) -> (Brief, Value) {
    let (_, task) = desk.state.find(&id("last")).unwrap();
    let resolve = |text: &Text| match text {
        Text::Inline(text) => text.clone(),
        Text::Blob { .. } => whole.to_owned(),
    };
    let brief = write(&desk.state, task, voice, &resolve);
    assert!(brief.text.len() <= BRIEF_LIMIT && brief.context.len() <= BRIEF_LIMIT);
    assert!(brief.text.contains("# How to report"), "the rules of the answer are never cut off");
    let context = serde_json::from_str(&brief.context).unwrap();
    (brief, context)
}

fn delivered(messages: usize, artifact: Value) -> Desk {
    let mut desk = Desk::new("first; last: first");
    desk.start("first");
    let work = desk.new_commit();
    let mut report = report(Ending::Done, "did it", Some(work));
    report.outcome.messages = vec!["m".repeat(9_000).into(); messages];
    report.outcome.artifacts.insert("spec".to_owned(), artifact);
    report.outcome.artifacts.insert("small".to_owned(), json!({ "port": 80 }));
    desk.put(Fact::Reported { at: desk.at("first"), report });
    desk.decide();
    desk.merge("first");
    desk
}

fn spilled(whole: &str) -> Value {
    serde_json::to_value(Text::spilled(whole, BlobId::new("ab".repeat(32)).unwrap())).unwrap()
}

#[test]
fn an_artifact_from_the_blob_store_arrives_as_the_json_that_it_is() {
    for artifact in [json!({ "routes": ["x".repeat(40_000)] }), json!("y\"".repeat(20_000))] {
        let whole = artifact.to_string();
        let (_, context) = brief(&delivered(0, spilled(&whole)), &Voice::default(), &whole);
        assert_eq!(context["dependencies"][0]["artifacts"]["spec"], artifact);
    }
}

#[test]
fn a_long_artifact_is_left_out_by_name_and_short_ones_stay() {
    let whole = json!("y".repeat(BRIEF_LIMIT)).to_string();
    let (_, context) = brief(&delivered(1, spilled(&whole)), &Voice::default(), &whole);
    let dependency = &context["dependencies"][0];
    assert_eq!(dependency["left_out"], json!([format!("artifact `spec` ({} bytes)", whole.len())]));
    assert_eq!(dependency["artifacts"], json!({ "small": { "port": 80 } }));
    assert_eq!(dependency["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn many_messages_are_left_out_by_number() {
    let (brief, context) = brief(&delivered(100, json!(1)), &Voice::default(), "");
    let named = |left_out: &Value| left_out.as_array().unwrap().contains(&json!("100 messages"));
    assert!(named(&context["dependencies"][0]["left_out"]));
    assert!(brief.text.contains("- 100 messages"));
}

#[test]
fn a_brief_is_bounded_even_where_the_team_file_alone_is_too_long() {
    let prompt = "\u{1}".repeat(BRIEF_LIMIT);
    let voice = Voice { prompt: prompt.clone(), project: prompt.clone(), conventions: prompt };
    let (brief, context) = brief(&delivered(100, json!(1)), &voice, "");
    assert!(brief.text.contains("cut here"));
    assert_eq!(context["left_out"][0], "what 1 dependencies delivered");
}
