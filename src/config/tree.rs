//! A profile as a small tree that knows where each key and value stands.
//!
//! Left out: reading it ([`super::reader`]), and what its values mean.

use super::source::Place;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Where the value stands.
    pub(super) place: Place,
    /// Where its key stands; none for the whole document and for an element of a list.
    pub(super) key: Option<Place>,
    pub(super) value: Value,
    /// Whether it is a scalar without quotes, which may be of any type.
    pub(super) is_plain: bool,
    /// The variables of the environment that the value was made with.
    pub(super) variables: Vec<String>,
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
    /// What is put where a value is missing or wrong, so that the rest can be read: one of several values of the type
    /// that is asked for.
    StandIn(Variant),
}

/// Which value a stand-in has. What is said of a profile whatever stands in is said of what the person wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    First,
    Second,
    Third,
}

/// One step down the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Node {
    pub(super) const fn new(place: Place, value: Value) -> Self {
        Self { place, key: None, value, is_plain: false, variables: Vec::new() }
    }

    pub(super) const fn stand_in() -> Self {
        Self::new(Place::NONE, Value::StandIn(Variant::First))
    }

    pub(super) fn is_stand_in(&self) -> bool {
        matches!(self.value, Value::StandIn(_))
    }

    /// The value of a key, where the node is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(map) => map.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The nodes right below.
    pub(super) fn children_mut(&mut self) -> Vec<&mut Node> {
        match &mut self.value {
            Value::List(list) => list.iter_mut().collect(),
            Value::Map(map) => map.iter_mut().map(|(_, node)| node).collect(),
            _ => Vec::new(),
        }
    }

    /// The same tree in another source than the first.
    pub(super) fn move_to(&mut self, source: usize) {
        self.place = self.place.moved_to(source);
        self.key = self.key.map(|key| key.moved_to(source));
        for child in self.children_mut() {
            child.move_to(source);
        }
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
        let line = |place: Place| (place.source, place.line);
        let own = line(self.place);
        match &self.value {
            Value::List(list) => list.iter().any(|node| line(node.place) != own),
            Value::Map(map) => map.iter().any(|(_, node)| node.key.is_some_and(|key| line(key) != own)),
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
    pub(super) fn at_mut(&mut self, path: &[Step]) -> Option<&mut Node> {
        path.iter().try_fold(self, |node, step| node.child_mut(step))
    }

    /// The node at `path`.
    pub(super) fn at(&self, path: &[Step]) -> Option<&Node> {
        path.iter().try_fold(self, |node, step| match (&node.value, step) {
            (_, Step::Key(key)) => node.get(key),
            (Value::List(list), Step::Index(index)) => list.get(*index),
            _ => None,
        })
    }

    /// Makes every stand-in one of this variant.
    pub(super) fn vary(&mut self, variant: Variant) {
        if self.is_stand_in() {
            self.value = Value::StandIn(variant);
        }
        for child in self.children_mut() {
            child.vary(variant);
        }
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

    pub(super) fn count(&self) -> usize {
        1 + match &self.value {
            Value::List(list) => list.iter().map(Node::count).sum(),
            Value::Map(map) => map.iter().map(|(_, node)| node.count()).sum(),
            _ => 0,
        }
    }

    pub(super) fn levels(&self) -> usize {
        match &self.value {
            Value::List(list) => 1 + list.iter().map(Node::levels).max().unwrap_or(0),
            Value::Map(map) => 1 + map.iter().map(|(_, node)| node.levels()).max().unwrap_or(0),
            _ => 0,
        }
    }
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

/// The keys on a path; an element of a list is `[]`.
pub(super) fn names(path: &[Step]) -> Vec<&str> {
    path.iter()
        .map(|step| match step {
            Step::Key(key) => key.as_str(),
            Step::Index(_) => "[]",
        })
        .collect()
}
