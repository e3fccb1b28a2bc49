//! A plan as a picture, in the words of mermaid and of graphviz. Titles are foreign text: what
//! either language would obey is escaped.

use std::fmt::Write;

use super::{Plan, graph::Graph};

/// The plan as a mermaid flow chart.
#[must_use]
pub fn mermaid(plan: &Plan) -> String {
    let mut drawing = String::from("flowchart LR\n");
    for (place, task) in plan.sub_tasks.iter().enumerate() {
        let (id, label) = (mermaid_text(task.id.as_str()), mermaid_text(task.label()));
        write_line(&mut drawing, format_args!("    t{place}[\"{id}: {label}\"]"));
    }
    for (from, to) in edges(plan) {
        write_line(&mut drawing, format_args!("    t{from} --> t{to}"));
    }
    drawing
}

/// The plan in graphviz's `dot` language.
#[must_use]
pub fn dot(plan: &Plan) -> String {
    let mut drawing = String::from("digraph plan {\n    rankdir=LR;\n    node [shape=box];\n");
    for (place, task) in plan.sub_tasks.iter().enumerate() {
        let (id, label) = (dot_text(task.id.as_str()), dot_text(task.label()));
        write_line(&mut drawing, format_args!("    t{place} [label=\"{id}\\n{label}\"];"));
    }
    for (from, to) in edges(plan) {
        write_line(&mut drawing, format_args!("    t{from} -> t{to};"));
    }
    drawing.push_str("}\n");
    drawing
}

/// From each task to those that need it.
fn edges(plan: &Plan) -> Vec<(usize, usize)> {
    let graph = Graph::of(plan);
    (0..graph.len())
        .flat_map(|to| graph.dependencies(to).iter().map(move |from| (*from, to)).collect::<Vec<_>>())
        .collect()
}

fn write_line(drawing: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = writeln!(drawing, "{line}");
}

/// Everything but letters, digits and plain punctuation as a character code, which mermaid shows as it is.
fn mermaid_text(text: &str) -> String {
    text.chars().fold(String::new(), |mut all, c| {
        match c {
            _ if c.is_control() => all.push(' '),
            '"' | '#' | '<' | '>' | '&' | '`' | ';' | '\\' | '[' | ']' | '{' | '}' | '|' => {
                let _ = write!(all, "#{};", u32::from(c));
            }
            _ => all.push(c),
        }
        all
    })
}

fn dot_text(text: &str) -> String {
    text.chars().fold(String::new(), |mut all, c| {
        match c {
            _ if c.is_control() => all.push(' '),
            '"' | '\\' => all.extend(['\\', c]),
            _ => all.push(c),
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::TaskId, plan::TaskSpec};

    fn hostile() -> Plan {
        let id = |text: &str| TaskId::new(text).unwrap();
        let mut first = TaskSpec::new(id("ST-1"), "d");
        first.title = Some("say \"hi\"; click t0 `x` [a] \\n <b> #1 → ü".to_owned());
        let mut second = TaskSpec::new(id("end"), "first line\nsecond line");
        second.dependencies = vec![id("ST-1"), id("gone")];
        Plan { sub_tasks: vec![first, second], ..Plan::default() }
    }

    #[test]
    fn mermaid_shows_titles_and_obeys_none() {
        let expected = "flowchart LR\n    \
            t0[\"ST-1: say #34;hi#34;#59; click t0 #96;x#96; #91;a#93; #92;n #60;b#62; #35;1 → ü\"]\n    \
            t1[\"end: first line\"]\n    \
            t0 --> t1\n";
        assert_eq!(mermaid(&hostile()), expected);
    }

    #[test]
    fn dot_shows_titles_and_obeys_none() {
        let expected = "digraph plan {\n    rankdir=LR;\n    node [shape=box];\n    \
            t0 [label=\"ST-1\\nsay \\\"hi\\\"; click t0 `x` [a] \\\\n <b> #1 → ü\"];\n    \
            t1 [label=\"end\\nfirst line\"];\n    \
            t0 -> t1;\n}\n";
        assert_eq!(dot(&hostile()), expected);
    }
}
