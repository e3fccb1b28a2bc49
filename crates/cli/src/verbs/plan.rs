//! `ensemble plan`: a plan's order, what runs at once, its critical path; or a drawing of it.

use ensemble_core::plan::{Plan as Value, draw, graph::Graph};

use crate::{
    args::{Drawing, Format, Plan},
    error::{Error, Exit},
    files, output,
};

/// Shows or draws a plan.
///
/// # Errors
/// [`Error::Files`] when it is refused.
pub fn plan(args: &Plan) -> Result<Exit, Error> {
    let work = files::read_plan(&args.file, None)?;
    work.warnings.iter().for_each(|finding| output::say(&finding.to_string()));
    let graph = Graph::of(&work.plan);
    let text = match (args.draw, args.output.format) {
        (Some(Drawing::Mermaid), _) => draw::mermaid(&work.plan),
        (Some(Drawing::Dot), _) => draw::dot(&work.plan),
        (None, Format::Json) => output::plan_object(&work.plan, &graph).to_string(),
        (None, Format::Table) => lines(&work.plan, &graph).join("\n"),
    };
    output::result(&text)?;
    Ok(Exit::Good)
}

fn lines(plan: &Value, graph: &Graph) -> Vec<String> {
    let ids = |places: &[usize], between: &str| {
        let ids = places.iter().filter_map(|place| plan.sub_tasks.get(*place)).map(|task| task.id.as_str());
        ids.collect::<Vec<_>>().join(between)
    };
    let levels = graph.levels().iter().map(|level| ids(level, ", ")).collect::<Vec<_>>().join(" | ");
    output::table(&[
        ["order".to_owned(), ids(graph.order(), ", ")],
        ["at once".to_owned(), levels],
        ["critical path".to_owned(), ids(&graph.critical_path(|_| 1), " → ")],
    ])
}

#[cfg(test)]
mod tests {
    use ensemble_core::plan;

    use super::*;

    #[test]
    fn a_plan_is_shown_by_order_levels_and_critical_path() {
        let text = "sub_tasks:\n  - {id: c, description: C, dependencies: [a, b]}\n  - {id: a, description: A}\n  - {id: b, description: B}\n";
        let (plan, _) = plan::read("plan.yaml", text, None).unwrap();
        assert_eq!(
            lines(&plan, &Graph::of(&plan)),
            ["order          a, b, c", "at once        a, b | c", "critical path  a → c"]
        );
    }
}
