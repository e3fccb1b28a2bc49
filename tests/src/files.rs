//! Team and plan files as values, written as JSON, which YAML readers take too; and with them what the
//! fake agent needs beside the team file: what each task depends on, and work of a task's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};

use crate::git::Files;

/// A team whose employees are fake agents.
#[derive(Clone, Debug, Default)]
pub struct Team {
    employees: Vec<(String, usize, Value)>,
    rest: Value,
}

/// A plan for such a team.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    tasks: Vec<Value>,
    work: BTreeMap<String, String>,
    rest: Value,
}

impl Team {
    /// One employee, `ant`, with so many slots.
    #[must_use]
    pub fn of(slots: usize) -> Self {
        Self::default().employee("ant", slots)
    }

    /// And another employee.
    #[must_use]
    pub fn employee(self, id: &str, slots: usize) -> Self {
        self.employee_with(id, slots, json!({}))
    }

    /// And another employee with more keys.
    #[must_use]
    pub fn employee_with(mut self, id: &str, slots: usize, more: Value) -> Self {
        self.employees.push((id.to_owned(), slots, more));
        self
    }

    /// More keys of the team file.
    #[must_use]
    pub fn with(mut self, more: Value) -> Self {
        merge(&mut self.rest, more);
        self
    }

    /// How many attempts each employee may have at once, on all its instances.
    #[must_use]
    pub fn slots(&self) -> BTreeMap<&str, usize> {
        let instances = |more: &Value| more["instances"].as_u64().map_or(1, |number| number as usize);
        self.employees.iter().map(|(id, slots, more)| (id.as_str(), instances(more) * slots)).collect()
    }

    /// The file; the agents note in `log` and carry `mark` in their environment.
    #[must_use]
    pub fn to_json(&self, log: &Path, mark: &str) -> Value {
        let employee = |(id, slots, more): &(String, usize, Value)| {
            let env = json!({ "WHO": id, "TEAM": "${TEAM_DIR}", "AGENT_LOG": log, "AGENT_MARK": mark });
            let mut value = json!({
                "id": id, "description": format!("Does what {id}s do"), "slots": slots,
                "backend": { "kind": "exec", "command": ["sh", "${TEAM_DIR}/agent.sh"], "env": env },
            });
            merge(&mut value, more.clone());
            value
        };
        let employees: Vec<Value> = self.employees.iter().map(employee).collect();
        let mut team = json!({ "name": "colony", "employees": employees });
        merge(&mut team, self.rest.clone());
        team
    }
}

impl Plan {
    /// A plan without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self { rest: json!({ "project_scope": "A colony" }), ..Self::default() }
    }

    /// And another task.
    #[must_use]
    pub fn task(self, id: &str, needs: &[&str]) -> Self {
        self.task_with(id, needs, json!({}))
    }

    /// And another task with more keys.
    #[must_use]
    pub fn task_with(mut self, id: &str, needs: &[&str], more: Value) -> Self {
        let mut task = json!({ "id": id, "description": format!("Do {id}"), "dependencies": needs });
        merge(&mut task, more);
        self.tasks.push(task);
        self
    }

    /// A shell script for the task that was added last, in place of the agent's usual work.
    #[must_use]
    pub fn doing(mut self, script: &str) -> Self {
        let id = self.tasks.last().map(id).expect("a task to do it");
        self.work.insert(id, script.to_owned());
        self
    }

    /// More keys of the plan file.
    #[must_use]
    pub fn with(mut self, more: Value) -> Self {
        merge(&mut self.rest, more);
        self
    }

    /// So many tasks, each with up to three dependencies among those shortly before it: the same plan
    /// for the same seed.
    #[must_use]
    pub fn random(tasks: usize, seed: u64) -> Self {
        use rand::{Rng, SeedableRng, rngs::StdRng};
        let mut random = StdRng::seed_from_u64(seed);
        let name = |number: usize| format!("t{number:03}");
        (0..tasks).fold(Self::new(), |plan, number| {
            let wanted = random.random_range(0..4usize);
            let near = number.saturating_sub(24)..number;
            let needs: BTreeSet<String> =
                (0..wanted).filter(|_| number > 0).map(|_| name(random.random_range(near.clone()))).collect();
            let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
            plan.task(&name(number), &needs)
        })
    }

    /// The file.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut plan = json!({ "sub_tasks": self.tasks });
        merge(&mut plan, self.rest.clone());
        plan
    }

    /// Writes what the agent reads beside the team file.
    pub fn equip(&self, folder: &Path) {
        let (needs, tasks) = (folder.join("needs"), folder.join("tasks"));
        fs::create_dir_all(&needs).unwrap();
        fs::create_dir_all(&tasks).unwrap();
        for (task, depends) in self.needs() {
            let lines: String = depends.iter().map(|need| format!("{need}\n")).collect();
            fs::write(needs.join(task), lines).unwrap();
        }
        for (task, script) in &self.work {
            fs::write(tasks.join(format!("{task}.sh")), script).unwrap();
        }
    }

    /// What each task depends on.
    #[must_use]
    pub fn needs(&self) -> BTreeMap<String, Vec<String>> {
        self.lists("dependencies")
    }

    /// The exclusive names of each task.
    #[must_use]
    pub fn exclusive(&self) -> BTreeMap<String, Vec<String>> {
        self.lists("exclusive")
    }

    fn lists(&self, key: &str) -> BTreeMap<String, Vec<String>> {
        let words = |value: &Value| -> Vec<String> {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        self.tasks.iter().map(|task| (id(task), words(&task[key]))).collect()
    }

    /// The files that the agent's usual work leaves, beside those of `base`.
    #[must_use]
    pub fn expected(&self, base: &Files) -> Files {
        let mut files = base.clone();
        for (task, needs) in self.needs() {
            let text: String = std::iter::once(&task).chain(&needs).map(|id| format!("{id}\n")).collect();
            files.insert(format!("work/{task}.txt"), text.into_bytes());
        }
        files
    }
}

fn id(task: &Value) -> String {
    task["id"].as_str().expect("an id").to_owned()
}

/// Lays `more` over `value`, mapping by mapping.
fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, more) in new {
                merge(old.entry(key).or_insert(Value::Null), more);
            }
        }
        (_, Value::Null) => {}
        (value, more) => *value = more,
    }
}
