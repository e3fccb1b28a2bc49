//! The wire as it stands, in words: every field with its number and type, every value, every call.
//! A change shows here and is made deliberately: `UPDATE_GOLDEN=1` writes it down. What was taken
//! away stays in the list as `retired`, so that no number is ever used again.

#![allow(clippy::unwrap_used, reason = "a test: what can't be read shall fail it")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

const RETIRED: &str = "retired ";

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/wire.txt")
}

/// Every part of the wire, a line each, in order.
fn wire() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(ensemble_proto::DESCRIPTOR).unwrap();
    let mut lines = BTreeSet::new();
    for file in set.file.iter().filter(|file| file.package() == "ensemble.v1") {
        file.message_type.iter().for_each(|message| describe("", message, &mut lines));
        file.enum_type.iter().for_each(|values| describe_enum("", values, &mut lines));
        file.service.iter().for_each(|service| describe_service(service, &mut lines));
    }
    lines
}

fn describe(outer: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{outer}{}", message.name());
    lines.insert(format!("message {name}"));
    for field in &message.field {
        let one_of = match field.oneof_index {
            Some(_) if field.proto3_optional() => " optional".to_owned(),
            Some(index) => format!(" of {}", message.oneof_decl[usize::try_from(index).unwrap()].name()),
            None if field.label() == Label::Repeated => " repeated".to_owned(),
            None => String::new(),
        };
        lines.insert(format!("{name} = {:03} {}: {}{one_of}", field.number(), field.name(), kind(field)));
    }
    let below = format!("{name}.");
    message.nested_type.iter().for_each(|nested| describe(&below, nested, lines));
    message.enum_type.iter().for_each(|values| describe_enum(&below, values, lines));
}

fn kind(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches(".ensemble.v1.").to_owned(),
        plain => plain.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

fn describe_enum(outer: &str, values: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{outer}{}", values.name());
    lines.insert(format!("enum {name}"));
    for value in &values.value {
        lines.insert(format!("{name} = {:03} {}", value.number(), value.name()));
    }
}

fn describe_service(service: &ServiceDescriptorProto, lines: &mut BTreeSet<String>) {
    for method in &service.method {
        let part = |name: &str, streams: bool| {
            let name = name.trim_start_matches(".ensemble.v1.").to_owned();
            if streams { format!("stream {name}") } else { name }
        };
        lines.insert(format!(
            "call {}.{}({}) -> {}",
            service.name(),
            method.name(),
            part(method.input_type(), method.client_streaming()),
            part(method.output_type(), method.server_streaming())
        ));
    }
}

/// What a line says is taken: a message's field number, an enum's value.
fn number(line: &str) -> Option<(&str, &str)> {
    let (owner, rest) = line.split_once(" = ")?;
    Some((owner, rest.split(' ').next()?))
}

/// The list with everything that is on the wire, and what was there before as retired.
fn written_down(before: &str, now: &BTreeSet<String>) -> String {
    let known = before.lines().map(|line| line.strip_prefix(RETIRED).unwrap_or(line).to_owned());
    let all: BTreeSet<String> = known.chain(now.iter().cloned()).collect();
    all.iter()
        .map(|line| if now.contains(line) { format!("{line}\n") } else { format!("{RETIRED}{line}\n") })
        .collect()
}

/// Numbers that two lines claim.
fn twice(list: &str) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let lines = list.lines().map(|line| line.strip_prefix(RETIRED).unwrap_or(line));
    lines.filter(|line| number(line).is_some_and(|number| !seen.insert(number))).collect()
}

#[test]
fn a_change_of_the_wire_is_deliberate() {
    let stored = fs::read_to_string(file()).unwrap_or_default();
    let found = written_down(&stored, &wire());
    assert!(wire().len() > 100, "the descriptor is not the whole wire");
    assert_eq!(twice(&found), [""; 0], "a number is used again, or a field changed its name or type");
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        fs::write(file(), &found).unwrap();
        return;
    }
    let difference: Vec<&str> =
        found.lines().filter(|line| !stored.lines().any(|old| old == *line)).collect();
    assert!(stored == found, "the wire changed; if that is meant, run with UPDATE_GOLDEN=1: {difference:#?}");
}

#[test]
fn a_number_that_was_retired_is_never_used_again() {
    let before = "Text = 001 inline: string\nText = 002 blob: BlobText\n";
    let line = |text: &str| text.to_owned();
    let without = written_down(before, &[line("Text = 002 blob: BlobText")].into());
    assert_eq!(without, "retired Text = 001 inline: string\nText = 002 blob: BlobText\n");
    assert!(twice(&without).is_empty());
    let again =
        written_down(&without, &[line("Text = 002 blob: BlobText"), line("Text = 001 head: string")].into());
    assert_eq!(twice(&again).len(), 1, "{again}");
}
