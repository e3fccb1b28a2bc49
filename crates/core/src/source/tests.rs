//! Texts in, findings out: the cases lie in `testdata/files`, one file a subject. Each case is a
//! title, the file's name, its text and the findings that are expected, in this order:
//! `==== title`, `---- name`, text, `---- findings`, lines as people see them, or `ok`.

use std::fmt::Write;

use super::{Finding, Reading, SIZE_LIMIT};
use crate::{
    plan::{self, Plan},
    team::{self, Team},
};

/// A Markdown definition for the cases with `use:`; other names can't be read.
const FRONT: &str = "---\nname: Front end\ndescription: Builds pages\ntools: Read, Write\nmodel: sonnet\nensemble:\n  type: frontend_developer\n  slots: 2\n---\n\nYou build pages.\n";

fn include(path: &str) -> Result<String, String> {
    match path {
        "front.md" => Ok(FRONT.to_owned()),
        "typo.md" => Ok("---\nname: typo\ndescription: d\nensemble:\n  slotz: 2\n---\n".to_owned()),
        "top.md" => Ok("---\nname: top\ndescription: d\nslots: 2\n---\n".to_owned()),
        "plain.md" => Ok("# No front matter\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn read_team(file: &str, text: &str) -> Reading<Team> {
    team::read(file, text, "/srv/team", &include)
}

/// The team that plans are read with: back, front and test, of these types.
fn shop() -> Team {
    let text = "name: shop\ndefaults: {backend: claude}\nemployees:\n\
                - {id: back, description: d, type: backend_developer}\n\
                - {id: front, description: d, type: frontend_developer}\n\
                - {id: test, description: d, type: tester}\n";
    read_team("shop.yaml", text).unwrap().0
}

fn read_plan(file: &str, text: &str) -> Reading<Plan> {
    plan::read(file, text, Some(&shop()))
}

fn lines<T>(reading: &Reading<T>) -> String {
    let (all, taken): (&[Finding], bool) = match reading {
        Ok((_, warnings)) => (warnings, true),
        Err(all) => (all, false),
    };
    let mut said = String::new();
    for finding in all {
        writeln!(said, "{finding}").unwrap();
    }
    if taken {
        said.push_str("ok\n");
    }
    said
}

/// Runs every case of `cases` and compares the whole file, so that a change shows as a difference.
fn run(cases: &str, answer: impl Fn(&str, &str) -> String) {
    let mut actual = String::new();
    let mut count = 0;
    for case in cases.split("==== ").skip(1) {
        let (head, rest) = case.split_once("\n---- ").unwrap();
        let (name, rest) = rest.split_once('\n').unwrap();
        let (text, _) = rest.split_once("---- findings\n").unwrap();
        let raw = text
            .replace("<TAB>", "\t")
            .replace("<CR>", "\r")
            .replace("<BOM>", "\u{feff}")
            .replace("<NUL>", "\0");
        write!(actual, "==== {head}\n---- {name}\n{text}---- findings\n{}", answer(name, &raw)).unwrap();
        count += 1;
    }
    assert!(count > 5, "the cases were not found");
    assert!(actual == cases, "the findings differ; these came out:\n{actual}");
}

#[test]
fn team_files_are_answered_as_written_down() {
    run(include_str!("../../testdata/files/team.txt"), |name, text| lines(&read_team(name, text)));
}

#[test]
fn plan_files_are_answered_as_written_down() {
    run(include_str!("../../testdata/files/plan.txt"), |name, text| lines(&read_plan(name, text)));
}

#[test]
fn texts_of_any_kind_are_answered_as_written_down() {
    run(include_str!("../../testdata/files/source.txt"), |name, text| lines(&read_plan(name, text)));
}
