//! YAML as a small tree that knows where each key and value stands in the file.
//!
//! The only place that knows the YAML crate. It reads one document of YAML 1.2 (core schema: `yes`, `no`,
//! `on` and `off` are text), finds duplicate keys, and follows aliases. Left out on purpose: tags,
//! several documents, and keys that are not scalars; each is a mistake with its place. Depth and
//! size have a limit, so that no file can crash the reader.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::report::{Mistake, Place};
use super::scalar;
use super::syntax;

/// More levels than any profile has.
const MOST_LEVELS: usize = 32;
/// More values than any profile has; aliases count as often as they are used.
const MOST_NODES: usize = 100_000;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Where the value stands.
    pub(super) place: Place,
    /// Where its key stands; none for the whole document and for an element of a list.
    pub(super) key: Option<Place>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    /// The number, and how it is written.
    Float(f64, String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    /// What the reader puts where a value is missing or wrong, so that it can read on.
    StandIn,
}

/// One step down the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Node {
    pub(super) fn stand_in() -> Self {
        Self { place: Place::NONE, key: None, value: Value::StandIn }
    }

    /// The place to show for the value: its own, or its key's where the value takes many lines or none.
    pub(super) fn shown(&self) -> Place {
        let own = match &self.value {
            Value::Map(_) | Value::List(_) => self.place.width > 0 && !self.spreads(),
            _ => self.place.width > 0,
        };
        if own { self.place } else { self.key.unwrap_or(self.place) }
    }

    /// Whether the parts of a collection stand on other lines than its beginning.
    fn spreads(&self) -> bool {
        let line = self.place.line;
        match &self.value {
            Value::List(list) => list.iter().any(|node| node.place.line != line),
            Value::Map(map) => map.iter().any(|(_, node)| node.key.is_some_and(|key| key.line != line)),
            _ => false,
        }
    }

    fn child_mut(&mut self, step: &Step) -> Option<&mut Node> {
        match (&mut self.value, step) {
            (Value::Map(map), Step::Key(name)) => {
                map.iter_mut().find(|(key, _)| key == name).map(|(_, node)| node)
            }
            (Value::List(list), Step::Index(index)) => list.get_mut(*index),
            _ => None,
        }
    }

    /// The node at `path`.
    pub(super) fn at(&mut self, path: &[Step]) -> Option<&mut Node> {
        path.iter().try_fold(self, |node, step| node.child_mut(step))
    }

    /// The node that a path as text (`cluster.nodes[1].fabric`) leads to, or the nearest one above it
    /// that is in the file. Keys may have any character in them.
    pub(super) fn find(&self, path: &str) -> &Node {
        self.descend(path).0
    }

    fn descend(&self, path: &str) -> (&Node, usize) {
        let rest = path.strip_prefix('.').unwrap_or(path);
        let children: Vec<(String, &Node)> = match &self.value {
            Value::Map(map) => map.iter().map(|(key, node)| (key.clone(), node)).collect(),
            Value::List(list) => list.iter().enumerate().map(|(i, node)| (format!("[{i}]"), node)).collect(),
            _ => Vec::new(),
        };
        let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        children
            .into_iter()
            .filter_map(|(name, node)| {
                let rest = rest.strip_prefix(name.as_str()).filter(|rest| ends(rest))?;
                let (found, left) = node.descend(rest);
                Some((found, left))
            })
            .min_by_key(|(_, left)| *left)
            .unwrap_or((self, rest.len()))
    }

    fn count(&self) -> usize {
        1 + match &self.value {
            Value::List(list) => list.iter().map(Node::count).sum(),
            Value::Map(map) => map.iter().map(|(_, node)| node.count()).sum(),
            _ => 0,
        }
    }

    fn levels(&self) -> usize {
        match &self.value {
            Value::List(list) => 1 + list.iter().map(Node::levels).max().unwrap_or(0),
            Value::Map(map) => 1 + map.iter().map(|(_, node)| node.levels()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Reads `text`. The second part has what is wrong beyond the syntax, such as duplicate keys: the tree
/// is then of use, but not to be trusted. No tree: the file has nothing but comments.
///
/// # Errors
///
/// The first mistake after which nothing more can be read.
pub(super) fn read(text: &str) -> Result<(Option<Node>, Vec<Mistake>), Box<Mistake>> {
    let lines = super::report::lines(text);
    let mut builder = Builder {
        lines: &lines,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        root: None,
        wrong: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let opened = builder.open.last().map(|open| open.node.place).filter(|place| place.width > 0);
            Box::new(syntax::mistake(&error, opened, &lines))
        })?;
        builder.take(event, span)?;
    }
    Ok((builder.root, builder.wrong))
}

/// A collection that is not closed yet.
struct Open {
    anchor: usize,
    node: Node,
    /// The key whose value comes next.
    key: Option<(String, Place)>,
}

struct Builder<'a> {
    lines: &'a [&'a str],
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    wrong: Vec<Mistake>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Box<Mistake>> {
        let place = self.place(span);
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(Mistake::new("", "a second document begins here, and a profile is one document")
                    .at(place)
                    .help("put what follows into a file of its own")
                    .into());
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.begin(anchor, Node { place, key: None, value: Value::Map(Vec::new()) })?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.begin(anchor, Node { place, key: None, value: Value::List(Vec::new()) })?;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some(Open { anchor, mut node, .. }) = self.open.pop() {
                    close(&mut node, span);
                    self.put(anchor, node)?;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                if let Some(open) = self.open.last_mut()
                    && open.key.is_none()
                    && matches!(open.node.value, Value::Map(_))
                {
                    open.key = Some((text.into_owned(), place));
                } else {
                    let value = match style {
                        ScalarStyle::Plain => scalar::resolve(&text),
                        _ => Value::Text(text.into_owned()),
                    };
                    self.put(anchor, Node { place, key: None, value })?;
                }
            }
            Event::Alias(anchor) => {
                let mut node = self.anchors.get(&anchor).cloned().ok_or_else(|| {
                    Mistake::new("", "an alias cannot refer to a value that it is a part of").at(place)
                })?;
                if self.open.len() + node.levels() > MOST_LEVELS {
                    return Err(too_deep(place).into());
                }
                self.nodes += node.count();
                node.place = place;
                self.put(0, node)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, node: Node) -> Result<(), Box<Mistake>> {
        if self.open.len() >= MOST_LEVELS {
            return Err(too_deep(node.place).into());
        }
        if self.awaits_key() {
            return Err(Mistake::new("", "a key has to be text, not a list or a section")
                .at(node.place)
                .help("put the key in quotes if it begins with `[` or `{`")
                .into());
        }
        self.open.push(Open { anchor, node, key: None });
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, anchor: usize, mut node: Node) -> Result<(), Box<Mistake>> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(Mistake::new("", format!("this file has more than {MOST_NODES} values"))
                .at(node.place)
                .into());
        }
        if self.awaits_key() {
            return Err(Mistake::new("", "a key has to be text, not an alias").at(node.place).into());
        }
        let path = self.path();
        match self.open.last_mut() {
            None => self.root = Some(node.clone()),
            Some(Open { node: Node { value: Value::Map(map), .. }, key, .. }) => {
                if let Some((name, place)) = key.take() {
                    node.key = Some(place);
                    match map.iter_mut().find(|(key, _)| *key == name) {
                        Some((_, there)) => {
                            self.wrong.push(twice(&path, &name, there.key.unwrap_or(place), place));
                            *there = node.clone();
                        }
                        None => map.push((name, node.clone())),
                    }
                }
            }
            Some(Open { node: Node { value: Value::List(list), .. }, .. }) => list.push(node.clone()),
            Some(_) => {}
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node);
        }
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.key.is_none() && matches!(open.node.value, Value::Map(_)))
    }

    /// The path of the collection that is being filled.
    fn path(&self) -> String {
        let above = &self.open[..self.open.len().saturating_sub(1)];
        let steps = above.iter().map(|open| match (&open.key, &open.node.value) {
            (Some((name, _)), _) => Step::Key(name.clone()),
            (None, Value::List(list)) => Step::Index(list.len()),
            (None, _) => Step::Key(String::new()),
        });
        written(&steps.collect::<Vec<_>>())
    }

    fn refuse_tag(&mut self, is_there: bool, place: Place) {
        if is_there {
            let mistake = Mistake::new("", "tags (`!...`) have no meaning in a profile").at(place);
            self.wrong.push(mistake.help("leave the tag out; put the value in quotes to make it text"));
        }
    }

    fn place(&self, span: Span) -> Place {
        let (line, start) = (span.start.line(), span.start.col());
        if line > self.lines.len() {
            // The parser counts a line more where the last one has no end.
            let column = self.lines.last().map_or(0, |last| last.chars().count()) + 1;
            return Place { line: self.lines.len(), column, width: 0 };
        }
        let width = if span.end.line() == line {
            span.end.col().saturating_sub(start)
        } else if span.is_empty() {
            0
        } else {
            let text = self.lines.get(line.saturating_sub(1)).map_or("", |line| line.trim_end());
            text.chars().count().saturating_sub(start)
        };
        Place { line, column: start + 1, width }
    }
}

/// Sets how much of a finished collection to show: all of it where it stands in brackets on one line, the
/// first entry where it is a block.
fn close(node: &mut Node, end: Span) {
    let in_brackets = node.place.width > 0;
    if in_brackets {
        if end.end.line() == node.place.line {
            node.place.width = (end.end.col() + 1).saturating_sub(node.place.column);
        }
    } else if let Value::Map(map) = &node.value
        && let Some((_, first)) = map.first()
        && let Some(key) = first.key
    {
        let to = if first.place.line == key.line { first.place } else { key };
        node.place.width = (to.column + to.width).saturating_sub(node.place.column);
    }
}

fn too_deep(place: Place) -> Mistake {
    Mistake::new("", format!("nested more than {MOST_LEVELS} levels deep")).at(place)
}

fn twice(section: &str, key: &str, first: Place, again: Place) -> Mistake {
    let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    Mistake::new(path, format!("the key `{key}` is there twice {}", section_words(section)))
        .at(again)
        .also(first, "first here")
        .help("keep one of the two")
}

/// `` in `engine` ``, or that it is the top level.
pub(super) fn section_words(section: &str) -> String {
    if section.is_empty() { "at the top level".to_owned() } else { format!("in `{section}`") }
}

/// A path as people write it: `cluster.nodes[1].fabric`.
pub(super) fn written(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Index(index) => format!("{text}[{index}]"),
        Step::Key(key) if text.is_empty() => key.clone(),
        Step::Key(key) => format!("{text}.{key}"),
    })
}
