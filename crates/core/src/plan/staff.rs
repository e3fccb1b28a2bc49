//! Who is there to do the tasks of a plan: the employees of a team file, or names alone.
//! Which of them gets a task is decided when it is dispatched, not here.

use std::collections::{BTreeMap, BTreeSet};

use crate::team::{PlanChecks, Team};

/// Who is there to do tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staff {
    /// Employees by id, with their agent type.
    employees: BTreeMap<String, String>,
    /// Agent types that somebody serves, ids included.
    types: BTreeSet<String>,
    /// Checks that a model's plan may name; any when `None`.
    checks: Option<Vec<String>>,
}

impl Staff {
    /// The employees of a team.
    #[must_use]
    pub fn of(team: &Team) -> Self {
        let mut staff = Self::default();
        for one in &team.employees {
            staff.employees.insert(one.id.to_string(), one.agent_type.clone());
            staff.types.extend([one.agent_type.clone(), one.id.to_string()]);
        }
        staff.checks = (team.plan_checks == PlanChecks::Refuse).then(|| team.checks.clone());
        staff
    }

    /// Employees that are known by their ids or types only.
    #[must_use]
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut staff = Self::default();
        for name in names {
            staff.employees.insert(name.to_owned(), name.to_owned());
            staff.types.insert(name.to_owned());
        }
        staff
    }

    /// Whether an employee has this id.
    #[must_use]
    pub fn employs(&self, id: &str) -> bool {
        self.employees.contains_key(id)
    }

    /// Whether an employee has this agent type, or this id.
    #[must_use]
    pub fn serves(&self, agent_type: &str) -> bool {
        self.types.contains(agent_type)
    }

    /// The ids of all employees, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.employees.keys().map(String::as_str)
    }

    /// Whether a model's plan may bring this check.
    #[must_use]
    pub fn allows_check(&self, check: &str) -> bool {
        self.checks.as_ref().is_none_or(|known| known.iter().any(|one| one == check))
    }

    /// The agent type of an employee.
    #[must_use]
    pub fn type_of(&self, id: &str) -> Option<&str> {
        self.employees.get(id).map(String::as_str)
    }

    /// Every word that [`serves`](Self::serves) accepts, in order.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(String::as_str)
    }
}
