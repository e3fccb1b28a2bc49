//! The tree itself, and the way from a place in it back to the field's name and position.

use std::{collections::BTreeMap, fmt};

use serde_json::Value as Json;

use super::Problem;

/// A position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line from 1.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
}

impl Place {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };
    /// What a value has that stands in no file.
    pub const NOWHERE: Self = Self { line: 0, column: 0 };
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it begins.
    pub place: Place,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A single value: what it would be, and as it is spelt.
    Scalar(Kind, String),
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values in order; no key twice.
    Map(Vec<Entry>),
}

/// What a scalar is by the rules of JSON and of YAML's core schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Null,
    /// True or false.
    Bool,
    /// Any number.
    Number,
    /// Text.
    Text,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key begins.
    pub place: Place,
    /// The value.
    pub node: Node,
}

/// Keys up to which a mapping is searched for duplicates pair by pair, which is faster than an index.
const PAIRWISE: usize = 12;

impl Node {
    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar(Kind::Null, _))
    }

    /// The value of `key`, if this is a mapping that has it.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Value::List(_) | Value::Scalar(..) => None,
        }
    }

    /// The value of `key`, to be changed.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Map(entries) => {
                entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
            }
            Value::List(_) | Value::Scalar(..) => None,
        }
    }

    /// The same value as JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(Kind::Null, _) => Json::Null,
            Value::Scalar(Kind::Bool, text) => Json::Bool(text.eq_ignore_ascii_case("true")),
            Value::Scalar(Kind::Number, text) => {
                serde_json::from_str(text).map_or_else(|_| Json::String(text.clone()), Json::Number)
            }
            Value::Scalar(Kind::Text, text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect())
            }
        }
    }

    /// What it is, in words for people.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match &self.value {
            Value::Scalar(Kind::Null, _) => "nothing",
            Value::Scalar(Kind::Bool, _) => "true or false",
            Value::Scalar(Kind::Number, _) => "a number",
            Value::Scalar(Kind::Text, _) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// A mapping of `entries`. Of a key that stands twice the first is kept, and `problems` gets the others.
    pub(super) fn map(mut entries: Vec<Entry>, place: Place, problems: &mut Vec<Problem>) -> Self {
        let repeated = repeated(&entries);
        if !repeated.is_empty() {
            let mut number = 0;
            entries.retain(|entry| {
                let first = repeated.get(&number);
                problems.extend(first.map(|first| Problem::duplicate(entry.place, &entry.key, *first)));
                number += 1;
                first.is_none()
            });
        }
        Self { value: Value::Map(entries), place }
    }
}

/// The entries whose keys stood before, by number, each with the place of the first.
fn repeated(entries: &[Entry]) -> BTreeMap<usize, Place> {
    let mut all = BTreeMap::new();
    if entries.len() <= PAIRWISE {
        for (number, entry) in entries.iter().enumerate() {
            let first = entries[..number].iter().find(|earlier| earlier.key == entry.key);
            all.extend(first.map(|first| (number, first.place)));
        }
        return all;
    }
    let mut seen = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let first = *seen.entry(entry.key.as_str()).or_insert(number);
        if first != number {
            all.insert(number, entries[first].place);
        }
    }
    all
}

/// A node together with the way that leads to it.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The node.
    pub node: &'a Node,
    place: Place,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Key(&'a Spot<'a>, &'a str),
    Item(&'a Spot<'a>, usize),
}

impl<'a> Spot<'a> {
    /// The root of a tree.
    #[must_use]
    pub fn root(node: &'a Node) -> Self {
        Self { node, place: node.place, step: Step::Root }
    }

    /// Where a finding about it points: the value, or the key when the value is nothing.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The value of `key`; `None` when it is absent or null, which mean the same everywhere.
    #[must_use]
    pub fn get(&'a self, key: &'a str) -> Option<Self> {
        let entry = self.node.entry(key)?;
        let spot = Self { node: &entry.node, place: entry.node.place, step: Step::Key(self, key) };
        (!entry.node.is_null()).then_some(spot)
    }

    /// The keys, each as a spot that points at the key itself.
    pub fn keys(&'a self) -> impl Iterator<Item = (&'a str, Self)> {
        let entries: &[Entry] = match &self.node.value {
            Value::Map(entries) => entries,
            Value::List(_) | Value::Scalar(..) => &[],
        };
        entries.iter().map(move |entry| {
            let spot = Self { node: &entry.node, place: entry.place, step: Step::Key(self, &entry.key) };
            (entry.key.as_str(), spot)
        })
    }

    /// A key that is missing, to be named in a finding.
    #[must_use]
    pub fn missing(&'a self, key: &'a str) -> Self {
        Self { node: self.node, place: self.place, step: Step::Key(self, key) }
    }

    /// The item of a list at `index`; a single value is a list of one.
    #[must_use]
    pub fn item(&'a self, index: usize) -> Option<Self> {
        match &self.node.value {
            Value::List(items) => {
                items.get(index).map(|node| Self { node, place: node.place, step: Step::Item(self, index) })
            }
            _ => (index == 0).then_some(*self),
        }
    }

    /// The items of a list; a single value is a list of one.
    pub fn items(&'a self) -> impl Iterator<Item = Self> {
        let list: Option<&[Node]> = match &self.node.value {
            Value::List(items) => Some(items),
            Value::Map(_) | Value::Scalar(..) => None,
        };
        let of_list = list.unwrap_or_default().iter().enumerate().map(move |(index, node)| Self {
            node,
            place: node.place,
            step: Step::Item(self, index),
        });
        let single = (list.is_none() && !self.node.is_null()).then_some(*self);
        of_list.chain(single)
    }
}

impl fmt::Display for Spot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Step::Root => Ok(()),
            Step::Key(Spot { step: Step::Root, .. }, key) => f.write_str(&super::shown(key)),
            Step::Key(up, key) => write!(f, "{up}.{}", super::shown(key)),
            Step::Item(up, index) => write!(f, "{up}[{index}]"),
        }
    }
}
