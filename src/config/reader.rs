//! YAML text to a [`Node`] that knows where each key and value stands.
//!
//! The only place that knows the YAML crate. It reads one document of YAML 1.2 (core schema: `yes`, `no`,
//! `on` and `off` are text), finds duplicate keys, and follows aliases. Left out on purpose: tags,
//! several documents, and keys that are not scalars; each is a mistake with its place. Depth and
//! size have a limit, so that no file can crash the reader.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::report::Mistake;
use super::scalar;
use super::source::{self, Place};
use super::syntax;
use super::tree::{Node, Step, Value, section_words, written};

/// More levels than any profile has.
const MOST_LEVELS: usize = 32;
/// More values than any profile has; aliases count as often as they are used.
const MOST_NODES: usize = 100_000;

/// What could be read of a text.
pub(super) struct Read {
    /// None: the text has nothing but comments.
    pub(super) root: Option<Node>,
    /// What is wrong beyond the syntax, such as duplicate keys.
    pub(super) wrong: Vec<Mistake>,
    /// Values of which there are two: none of them is to be trusted.
    pub(super) doubtful: Vec<Vec<Step>>,
}

/// Reads `text`.
///
/// # Errors
///
/// The first mistake after which nothing more can be read.
pub(super) fn read(text: &str) -> Result<Read, Box<Mistake>> {
    let lines = source::lines(text);
    let guarded = guard(text);
    let mut builder = Builder {
        lines: &lines,
        is_guarded: matches!(guarded, Cow::Owned(_)),
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        root: None,
        wrong: Vec::new(),
        doubtful: Vec::new(),
    };
    for event in Parser::new_from_str(&guarded) {
        let (event, span) = event.map_err(|error| {
            let opened = builder.open.last().map(|open| open.node.place).filter(|place| place.width > 0);
            Box::new(syntax::mistake(&error, opened, &lines))
        })?;
        builder.take(event, span)?;
    }
    Ok(Read { root: builder.root, wrong: builder.wrong, doubtful: builder.doubtful })
}

/// What stands for the braces of `${NAME}` while YAML is read.
const GUARDS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// `text` with other characters, as many, for the braces of each `${NAME}`: so they may stand in `[]` and `{}` too.
fn guard(text: &str) -> Cow<'_, str> {
    if !text.contains("${") || text.contains(GUARDS) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("${") {
        let (before, from) = rest.split_at(begin);
        out.push_str(before);
        let end = from.find(['}', '\n', '\r']).filter(|end| from[*end..].starts_with('}'));
        if let Some(end) = end {
            out.extend(['$', GUARDS[0]]);
            out.push_str(&from[2..end]);
            out.push(GUARDS[1]);
            rest = &from[end + 1..];
        } else {
            out.push_str("${");
            rest = &from[2..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The text as it was before it was guarded.
fn unguarded(text: Cow<'_, str>, was_guarded: bool) -> String {
    if was_guarded { text.replace(GUARDS[0], "{").replace(GUARDS[1], "}") } else { text.into_owned() }
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
    is_guarded: bool,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    wrong: Vec<Mistake>,
    doubtful: Vec<Vec<Step>>,
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
                self.begin(anchor, Node::new(place, Value::Map(Vec::new())))?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.begin(anchor, Node::new(place, Value::List(Vec::new())))?;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some(Open { anchor, mut node, .. }) = self.open.pop() {
                    close(&mut node, span);
                    self.put(anchor, node)?;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text = unguarded(text, self.is_guarded);
                self.refuse_tag(tag.is_some(), place);
                if let Some(open) = self.open.last_mut()
                    && open.key.is_none()
                    && matches!(open.node.value, Value::Map(_))
                {
                    open.key = Some((text, place));
                } else {
                    let is_plain = style == ScalarStyle::Plain;
                    let value = if is_plain { scalar::resolve(&text) } else { Value::Text(text) };
                    self.put(anchor, Node { is_plain, ..Node::new(place, value) })?;
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
                            let first = there.key.unwrap_or(place);
                            self.wrong.push(twice(&written(&path), &name, first, place));
                            *there = node.clone();
                            self.doubtful.push([path, vec![Step::Key(name)]].concat());
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
    fn path(&self) -> Vec<Step> {
        let above = &self.open[..self.open.len().saturating_sub(1)];
        let steps = above.iter().map(|open| match (&open.key, &open.node.value) {
            (Some((name, _)), _) => Step::Key(name.clone()),
            (None, Value::List(list)) => Step::Index(list.len()),
            (None, _) => Step::Key(String::new()),
        });
        steps.collect()
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
            return Place::new(self.lines.len(), column, 0);
        }
        let width = if span.end.line() == line {
            span.end.col().saturating_sub(start)
        } else if span.is_empty() {
            0
        } else {
            let text = self.lines.get(line.saturating_sub(1)).map_or("", |line| line.trim_end());
            text.chars().count().saturating_sub(start)
        };
        Place::new(line, start + 1, width)
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
