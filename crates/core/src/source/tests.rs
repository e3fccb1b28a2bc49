//! Texts in, findings out: the cases lie in `testdata/files`, one file a subject. Each case is a
//! title, the file's name, its text and the findings that are expected, in this order:
//! `==== title`, `---- name`, text, `---- findings`, lines as people see them, or `ok`.

#![allow(clippy::disallowed_types, reason = "measures the code from outside")]

use std::fmt::Write;

use proptest::prelude::*;

use super::{Finding, Findings, Reading, SIZE_LIMIT, Spot, Value, decode, parse_json};
use crate::{
    ids::EmployeeId,
    plan::{self, Plan},
    team::{self, Team},
};

/// A Markdown definition for the cases with `use:`; other names can't be read.
const FRONT: &str = "---\nname: Front end\ndescription: Builds pages\ntools: Read, Write\nmodel: sonnet\nensemble:\n  type: frontend_developer\n  instances: 1\n  slots: 2\n---\n\nYou build pages.\n";

fn include(path: &str) -> Result<String, String> {
    match path {
        "front.md" => Ok(FRONT.to_owned()),
        "typo.md" => Ok("---\nname: typo\ndescription: d\nensemble:\n  slotz: 2\n---\n".to_owned()),
        "top.md" => Ok("---\nname: top\ndescription: d\nslots: 2\n---\n".to_owned()),
        "near.md" => Ok("---\nname: near\ndescription: d\nensembel: {slots: 2}\n---\n".to_owned()),
        "loose.md" => {
            Ok("---\nname: loose\ndescription: Use it when: it's #1\ntools: [Read\n---\nGo.".to_owned())
        }
        "broken.md" => Ok("---\nname: broken\n  x: [y\n---\nGo.".to_owned()),
        "plain.md" => Ok("# No front matter\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn read_team(file: &str, text: &str) -> Reading<Team> {
    team::read(file, text, "/srv/team", &include, &[])
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

#[test]
fn a_team_file_gives_what_it_says() {
    let text = "name: shop\nprompt: Lead.\ndefaults: {backend: {kind: exec, command: [sh, \"${TEAM_DIR}/all.sh\"]}, timeout: 5m, instances: 3, slots: 4}\n\
                employees:\n- {id: back, description: d, backend: {kind: exec, command: [\"${TEAM_DIR}/b\", \"${HOME}\", 5], env: {T: \"${TEAM_DIR}\"}}}\n\
                - {use: front.md, timeout: 1h}\n";
    let (team, _) = read_team("team.yaml", text).unwrap();
    let [back, front] = team.employees.as_slice() else { panic!("two employees") };
    let Some(team::Backend::Exec(exec)) = &back.backend else { panic!("a command") };
    assert_eq!(exec.command, ["/srv/team/b", "${HOME}", "5"]);
    assert_eq!(exec.env["T"], "/srv/team");
    assert_eq!((back.instances, front.instances), (3, 1));
    assert_eq!((back.agent_type.as_str(), back.slots, back.timeout_ms), ("back", 4, 300_000));
    let Some(team::Backend::Exec(shared)) = &front.backend else { panic!("the default command") };
    assert_eq!(shared.command, ["sh", "/srv/team/all.sh"]);
    assert_eq!(front.id, EmployeeId::new("front-end").unwrap());
    assert_eq!((front.name.as_str(), front.agent_type.as_str()), ("Front end", "frontend_developer"));
    assert_eq!((front.prompt.as_str(), front.slots, front.timeout_ms), ("You build pages.", 2, 3_600_000));
    assert_eq!(team.coordinator.prompt, "Lead.");
}

#[test]
fn a_plan_file_gives_what_it_says() {
    let text = "sub_tasks:\n- id: 01\n  description: |\n    one\n    two\n  timeout: 90s\n  dependencies:\n  provides: {spec: {a: [1, true]}}\n  worktree: read\n  priority: P1\n  agent_type: \"\"\n";
    let (plan, _) = read_plan("plan.yaml", text).unwrap();
    let task = &plan.sub_tasks[0];
    assert_eq!((task.id.as_str(), task.description.head()), ("01", "one\ntwo\n"));
    assert_eq!((task.timeout_ms, task.worktree), (Some(90_000), Some(plan::WorktreeMode::Read)));
    assert_eq!(task.priority, plan::Priority::P1);
    assert_eq!((&task.agent_type, task.dependencies.len()), (&None, 0));
    assert_eq!(task.provides["spec"], r#"{"a":[1,true]}"#);
}

#[test]
fn findings_are_bounded_and_counted() {
    let tasks: String =
        (0..500).map(|n| format!("- {{id: t{n}, description: d, dependencies: [x{n}]}}\n")).collect();
    let all = read_plan("plan.yaml", &format!("sub_tasks:\n{tasks}")).unwrap_err();
    assert_eq!(all.len(), 101);
    assert_eq!(all[100].message, "and 400 more like these");
    assert_eq!(all[99].line, 101);
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    let place = |bytes: &[u8]| {
        decode("f", bytes).map(str::len).map_err(|all| (all[0].line, all[0].column, all[0].message.clone()))
    };
    assert_eq!(place("ä: b\n".as_bytes()), Ok(6));
    assert_eq!(
        place(b"a: \xc3\xa4\nb: \xff"),
        Err((2, 4, "these bytes are not UTF-8; save it as UTF-8".into()))
    );
    assert_eq!(place(b"\xff\xfea\0"), Err((1, 1, "the file is UTF-16; save it as UTF-8".into())));
    assert!(decode("f", &vec![b'a'; SIZE_LIMIT + 1]).is_err());
}

/// Files made to be slow or to exhaust memory, and the first code they are refused with.
#[test]
fn hostile_files_are_refused_in_time() {
    let big = 50 * 1024 * 1024;
    let bomb = (0..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let many = vec![format!("*a{n}"); 10].join(", ");
        text + &format!("a{0}: &a{0} [{many}]\n", n + 1)
    });
    let deep: String = (0..2000).map(|n| " ".repeat(n) + "a:\n").collect();
    let anchors = "&a [".repeat(60) + &"[],".repeat(100_000);
    let string = format!("a: &a {}\nb: [{}]", "x".repeat(1_000_000), "*a,".repeat(1000));
    for (code, file, text) in [
        ("too_large", "p.yaml", "a".repeat(big)),
        ("too_large", "p.json", "[".repeat(big)),
        ("alias_limit", "p.yaml", bomb),
        ("alias_limit", "p.yaml", string),
        ("depth", "p.yaml", "[".repeat(2_000_000)),
        ("depth", "p.json", "[".repeat(2_000_000)),
        ("depth", "p.yaml", "{".repeat(2_000_000)),
        ("depth", "p.yaml", "{a: ".repeat(500_000)),
        ("depth", "p.json", "{\"a\":".repeat(500_000)),
        ("depth", "p.yaml", "[\n".repeat(1_000_000)),
        ("depth", "p.yaml", "- ".repeat(1_000_000)),
        ("depth", "p.yaml", "? ".repeat(1_000_000)),
        ("depth", "p.yaml", deep),
        ("yaml", "p.yaml", "&a ".repeat(1_000_000)),
        ("yaml", "p.yaml", "\"".repeat(2_000_000)),
        ("json", "p.json", "\"\\".repeat(1_000_000)),
        ("yaml", "p.yaml", anchors),
    ] {
        let start = std::time::Instant::now();
        let all = read_plan(file, &text).unwrap_err();
        let took = start.elapsed();
        println!("{:20} {} {took:?}", crate::text::clip(&text, 20), all[0].code);
        assert_eq!(all[0].code, code, "{}", all[0]);
        // A guard against what takes for ever, not a measurement: machines may be busy.
        assert!(took < std::time::Duration::from_secs(10), "{code} took {took:?}");
    }
}

#[test]
fn a_plan_of_100_000_tasks_is_read() {
    let task = |n: usize| {
        format!("{{\"id\":\"t{n}\",\"description\":\"d\",\"dependencies\":[\"t{}\"]}}", (n + 1) % 100_000)
    };
    let tasks: Vec<String> = (0..100_000).map(task).collect();
    let start = std::time::Instant::now();
    let all = read_plan("p.json", &format!("{{\"sub_tasks\":[{}]}}", tasks.join(","))).unwrap_err();
    println!("100000: {:?}", start.elapsed());
    assert_eq!(all.len(), 1, "one cycle through all");
    assert!(all[0].message.ends_with("t18 -> t19 -> (99980 more) -> t0"), "{}", all[0]);
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}

/// Any JSON value of a small size.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "\\PC{0,12}".prop_map(Into::into),
        "[\"'\\\\/,:{}\\[\\]<>`#“” \n\ta]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\ ]{0,6}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The text from where a node is said to stand.
fn text_at<'t>(text: &'t str, spot: &Spot<'_>) -> &'t str {
    let line = text.split('\n').nth(spot.place().line - 1).unwrap();
    let start = line.char_indices().map(|(at, _)| at).nth(spot.place().column - 1).unwrap();
    &line[start..]
}

proptest! {
    #[test]
    fn json_keeps_its_meaning_and_its_places(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let tree = parse_json(&text).unwrap();
        prop_assert_eq!(tree.to_json(), value);
        let mut open = vec![&tree];
        while let Some(node) = open.pop() {
            let at = text_at(&text, &Spot::root(node));
            let first = match &node.value {
                Value::Scalar(super::Kind::Text, _) => "\"",
                Value::Scalar(_, word) => word.as_str(),
                Value::List(_) => "[",
                Value::Map(_) => "{",
            };
            prop_assert!(at.starts_with(first), "{} is not at {}", first, at);
            match &node.value {
                Value::Scalar(..) => {}
                Value::List(items) => open.extend(items),
                Value::Map(entries) => open.extend(entries.iter().map(|one| &one.node)),
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail(text in "([-:?{}\\[\\],&*!|>'\"%@`#~ a-c0-9\n\t\r\u{e9}]|<<|---|\\.\\.\\.){0,60}") {
        for file in ["p.yaml", "p.json"] {
            let mut findings = Findings::new(file);
            let tree = super::parse(&text, &mut findings);
            prop_assert!(tree.is_some() || findings.refused());
        }
    }
}
