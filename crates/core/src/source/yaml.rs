//! YAML to a tree, from the events of `saphyr-parser`: it works lazily, so a bound that is exceeded
//! ends the work where it is exceeded, and each event carries its position.
//! Aliases are followed within a bound; tags other than `!!str` and merge keys are refused.

use std::{borrow::Cow, collections::BTreeMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::{DEPTH_LIMIT, Entry, Kind, Node, Place, Problem, Value, shown};

/// Values that all aliases of a file may stand for together: far more than people reuse, far less
/// than a nested "bomb" makes.
const ALIASED_VALUES: usize = 10_000;

/// Bytes of text that they may stand for together.
const ALIASED_BYTES: usize = 4 * 1024 * 1024;

/// How much more than that may lie under anchors, used or not; each is copied once.
const ANCHORED_FACTOR: usize = 4;

/// The tree of `text`, which holds exactly one document; `problems` gets what is wrong and leaves a
/// tree all the same.
pub(super) fn parse(text: &str, problems: &mut Vec<Problem>) -> Result<Node, Problem> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(text, &error))?;
        builder.take(event, place(span.start), span)?;
    }
    problems.append(&mut builder.problems);
    builder.root.ok_or_else(|| Problem::new(Place::START, "empty", "the file holds nothing but comments"))
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

fn syntax(text: &str, error: &ScanError) -> Problem {
    let place = place(*error.marker());
    if error.info().contains("recursion limit") {
        return Problem::too_deep(place);
    }
    let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    if indent.contains('\t') || error.info().contains("tab") {
        return Problem::new(place, "tab", "a tab is used for indentation; YAML wants spaces");
    }
    let hint = if error.info().contains("mapping values are not allowed") {
        "; put text that holds `: ` in quotes"
    } else {
        ""
    };
    Problem::new(place, "yaml", format!("not valid YAML: {}{hint}", error.info()))
}

/// A list or mapping that is not closed yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The key that waits for its value, in a mapping.
    key: Option<(String, Place)>,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchored>,
    aliased: Size,
    anchored: Size,
    problems: Vec<Problem>,
}

/// What an alias stands for, with its size, so that a copy is refused before it is made.
struct Anchored {
    node: Node,
    size: Size,
}

/// How large a tree is.
#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    bytes: usize,
    depth: usize,
}

impl Size {
    /// The size of `node`, whose depth is bounded: aliases copy finished values only, and a copy
    /// counts towards the depth of what it stands in.
    fn of(node: &Node) -> Self {
        let mut all = Self { values: 1, bytes: 0, depth: 1 };
        match &node.value {
            Value::Scalar(_, text) => all.bytes = text.len(),
            Value::List(items) => items.iter().for_each(|item| all.put_in(Self::of(item), 0)),
            Value::Map(entries) => {
                entries.iter().for_each(|entry| all.put_in(Self::of(&entry.node), entry.key.len()));
            }
        }
        all
    }

    fn put_in(&mut self, inner: Self, key: usize) {
        self.add(inner);
        self.bytes += key;
        self.depth = self.depth.max(inner.depth + 1);
    }

    fn add(&mut self, other: Self) {
        self.values += other.values;
        self.bytes += other.bytes;
    }

    fn exceeds(self, factor: usize) -> bool {
        self.values > ALIASED_VALUES * factor || self.bytes > ALIASED_BYTES * factor
    }
}

fn too_much(place: Place) -> Problem {
    let message = format!("anchors and aliases stand for more than {ALIASED_VALUES} values; write them out");
    Problem::new(place, "alias_limit", message)
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: Place, span: Span) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                let message = "a second document starts here; a file holds one";
                return Err(Problem::new(place, "several_documents", message));
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
            Event::DocumentStart(_) | Event::DocumentEnd => {}
            Event::Alias(anchor) => {
                let node = self.aliased(anchor, place)?;
                self.add(node, 0)?;
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = kind(&text, style, tag.as_ref(), place)?;
                let empty = span.is_empty() && text.is_empty();
                let place = if empty { self.key_place().unwrap_or(place) } else { place };
                self.add(Node { value: Value::Scalar(kind, text.into_owned()), place }, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => self.start(Value::List(Vec::new()), anchor, tag, place)?,
            Event::MappingStart(anchor, tag) => self.start(Value::Map(Vec::new()), anchor, tag, place)?,
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
        }
        Ok(())
    }

    fn start(
        &mut self,
        value: Value,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        place: Place,
    ) -> Result<(), Problem> {
        if let Some(tag) = tag {
            return Err(unknown_tag(&tag, place));
        }
        if self.open.len() >= DEPTH_LIMIT {
            return Err(Problem::too_deep(place));
        }
        self.open.push(Open { node: Node { value, place }, anchor, key: None });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(Open { node, anchor, .. }) = self.open.pop() else { return Ok(()) };
        let node = match node.value {
            Value::Map(entries) => Node::map(entries, node.place, &mut self.problems),
            Value::List(_) | Value::Scalar(..) => node,
        };
        self.add(node, anchor)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        if anchor > 0 {
            let size = Size::of(&node);
            self.anchored.add(size);
            if self.anchored.exceeds(ANCHORED_FACTOR) {
                return Err(too_much(node.place));
            }
            self.anchors.insert(anchor, Anchored { node: node.clone(), size });
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.value, open.key.take()) {
            (Value::Map(entries), Some((key, place))) => entries.push(Entry { key, place, node }),
            (Value::Map(_), None) => open.key = Some(key(node)?),
            (Value::List(items), _) => items.push(node),
            (Value::Scalar(..), _) => {}
        }
        Ok(())
    }

    /// Where the key stands whose value is awaited.
    fn key_place(&self) -> Option<Place> {
        self.open.last().and_then(|open| open.key.as_ref()).map(|(_, place)| *place)
    }

    fn aliased(&mut self, anchor: usize, place: Place) -> Result<Node, Problem> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Problem::new(place, "alias", "an alias stands inside the very value that it names"));
        };
        self.aliased.add(anchored.size);
        if self.aliased.exceeds(1) {
            return Err(too_much(place));
        }
        if self.open.len() + anchored.size.depth > DEPTH_LIMIT + 1 {
            return Err(Problem::too_deep(place));
        }
        Ok(Node { value: anchored.node.value.clone(), place })
    }
}

fn key(node: Node) -> Result<(String, Place), Problem> {
    match node.value {
        Value::Scalar(_, text) if text == "<<" => {
            let message = "merge keys (`<<`) are not supported; write the keys out";
            Err(Problem::new(node.place, "merge_key", message))
        }
        Value::Scalar(_, text) => Ok((text, node.place)),
        Value::List(_) | Value::Map(_) => {
            let message = "a key must be plain text; put text that starts with `{` or `[` in quotes";
            Err(Problem::new(node.place, "yaml", message))
        }
    }
}

/// What a scalar is by YAML's core schema; quoted and block scalars are text.
fn kind(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>, place: Place) -> Result<Kind, Problem> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(Kind::Text),
        Some(tag) => return Err(unknown_tag(tag, place)),
        None => {}
    }
    Ok(match text {
        _ if style != ScalarStyle::Plain => Kind::Text,
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Bool,
        _ if is_number(text) => Kind::Number,
        _ => Kind::Text,
    })
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    let starts = unsigned.strip_prefix('.').unwrap_or(unsigned).starts_with(|c: char| c.is_ascii_digit());
    starts && unsigned.parse::<f64>().is_ok()
}

fn unknown_tag(tag: &Tag, place: Place) -> Problem {
    let message = format!("the tag `{}` is not known here; leave it out", shown(&tag.to_string()));
    Problem::new(place, "tag", message)
}
