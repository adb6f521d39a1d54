//! `--set PATH=VALUE`: one field of a profile, from the command line.
//!
//! A path is written as in messages: `engine.memory_fraction`, `cluster.nodes[1].host`; an element of a list may be
//! chosen by its name (`cluster.nodes[spark2].fabric`), a key with a dot in it by brackets (`engine.env[A.B]`). The
//! value is YAML: a scalar, or a list or a section in brackets. It replaces whatever is there. That a key is none of
//! the profile's is found later, as in a file.

use super::fit::{EXTENDS, Known};
use super::report::Mistake;
use super::source::{Place, Sources};
use super::tree::{Node, Step, Value, written};
use super::{reader, words};

/// One step of a path, and where it stands in the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    word: String,
    in_brackets: bool,
    place: Place,
}

/// Puts the value of one `--set` into the tree; what is wrong with it is noted.
pub(super) fn set(tree: &mut Node, argument: &str, sources: &mut Sources, known: &mut Known) {
    let source = sources.argument(argument);
    if let Err(mistake) = try_set(tree, argument, source, known) {
        known.mistakes.push(mistake.moved_to(source));
    }
}

fn try_set(tree: &mut Node, argument: &str, source: usize, known: &mut Known) -> Result<(), Box<Mistake>> {
    let (parts, at) = parts(argument)?;
    let mut value = value(argument, at)?;
    value.move_to(source);
    let (mut node, mut path) = (tree, Vec::new());
    for part in &parts {
        let step = step(node, part, &path)?;
        path.push(step.clone());
        node = match (&mut node.value, step) {
            (Value::List(list), Step::Index(index)) => &mut list[index],
            (Value::Map(map), Step::Key(key)) => {
                let index = map.iter().position(|(name, _)| *name == key).unwrap_or_else(|| {
                    map.push((key, Node::new(part.place.moved_to(source), Value::Null)));
                    map.len() - 1
                });
                &mut map[index].1
            }
            _ => return Err(no_keys(part, &path)),
        };
        node.key = Some(part.place.moved_to(source));
    }
    value.key = node.key;
    *node = value;
    // What was there twice is there once now.
    known.doubtful.retain(|doubtful| !doubtful.starts_with(&path));
    Ok(())
}

/// The step from `node` that `part` means.
fn step(node: &mut Node, part: &Part, path: &[Step]) -> Result<Step, Box<Mistake>> {
    let here = written(path);
    match &mut node.value {
        Value::Map(_) => {}
        Value::List(list) if part.in_brackets => return element(list, part, &here).map(Step::Index),
        Value::List(_) => {
            let help = format!("choose an element, e.g. `{here}[0]`");
            return Err(Mistake::new(&here, format!("`{here}` is a list")).at(part.place).help(help).into());
        }
        // A section that nobody wrote.
        Value::Null => node.value = Value::Map(Vec::new()),
        _ => return Err(no_keys(part, path)),
    }
    if path.is_empty() && part.word == EXTENDS {
        let mistake = Mistake::new(EXTENDS, "`extends` cannot be set").at(part.place);
        return Err(mistake.help("write it into a file").into());
    }
    Ok(Step::Key(part.word.clone()))
}

fn no_keys(part: &Part, path: &[Step]) -> Box<Mistake> {
    let here = written(path);
    Mistake::new(&here, format!("`{here}` is a single value, and nothing is below it")).at(part.place).into()
}

/// An element of a list, by its number or its name.
fn element(list: &[Node], part: &Part, here: &str) -> Result<usize, Box<Mistake>> {
    let name = |node: &Node| match node.get("name").map(|name| &name.value) {
        Some(Value::Text(name)) => Some(name.clone()),
        _ => None,
    };
    let number: Option<usize> = part.word.parse().ok();
    if let Some(index) = number.filter(|index| *index < list.len()) {
        return Ok(index);
    }
    if let Some(index) = list.iter().position(|node| name(node).as_ref() == Some(&part.word)) {
        return Ok(index);
    }
    let names: Vec<String> = list.iter().filter_map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = match number {
        Some(number) => format!("`{here}` has no element {number}"),
        None => format!("`{here}` has no element that is called `{}`", part.word),
    };
    let help = match words::nearest(&part.word, &names) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if list.is_empty() => Some(format!("`{here}` is empty: set it whole")),
        None if list.len() == 1 => Some("it has one, 0".to_owned()),
        None => Some(format!("it has {}, from 0 to {}", list.len(), list.len() - 1)),
    };
    Err(Mistake::new(here, message).at(part.place).help_if(help).into())
}

/// The parts of the path, and where the value begins, in characters.
fn parts(argument: &str) -> Result<(Vec<Part>, usize), Box<Mistake>> {
    let form = "write `--set PATH=VALUE`, e.g. `--set engine.memory_fraction=0.75`";
    let mut parts = Vec::new();
    let mut word = String::new();
    let mut opened: Option<usize> = None;
    let mut closed = false;
    for (at, c) in argument.chars().enumerate() {
        let length = word.chars().count();
        let part = |word: &mut String, in_brackets| {
            let place = Place::new(1, at - length + 1, length.max(1));
            Part { word: std::mem::take(word), in_brackets, place }
        };
        match (c, opened) {
            (']', Some(_)) => {
                parts.push(part(&mut word, true));
                (opened, closed) = (None, true);
            }
            ('.' | '[' | '=', None) => {
                if !word.is_empty() {
                    parts.push(part(&mut word, false));
                } else if !closed {
                    let mistake = Mistake::new("", "a key is missing here").at(Place::new(1, at + 1, 1));
                    return Err(mistake.help(form).into());
                }
                closed = false;
                match c {
                    '[' => opened = Some(at),
                    '=' => return Ok((parts, at + 1)),
                    _ => {}
                }
            }
            _ if closed => {
                let mistake = Mistake::new("", "a `.` or `=` is missing here").at(Place::new(1, at + 1, 1));
                return Err(mistake.help(form).into());
            }
            _ => word.push(c),
        }
    }
    let whole = Place::new(1, 1, argument.chars().count().max(1));
    Err(match opened {
        Some(at) => Mistake::new("", "a `[` is not closed").at(Place::new(1, at + 1, 1)),
        None => Mistake::new("", "no value is set").at(whole).help(form),
    }
    .into())
}

/// The value, which begins at a character of the argument.
fn value(argument: &str, at: usize) -> Result<Node, Box<Mistake>> {
    let text: String = argument.chars().skip(at).collect();
    // Behind spaces each place of the value is its place in the argument.
    let read = reader::read(&format!("{}{text}", " ".repeat(at)))?;
    if let Some(mistake) = read.wrong.into_iter().next() {
        return Err(mistake.into());
    }
    let nothing = || Node::new(Place::new(1, at + 1, 1), Value::Null);
    let node = read.root.unwrap_or_else(nothing);
    let is_block =
        matches!(node.value, Value::List(_) | Value::Map(_)) && !text.trim_start().starts_with(['[', '{']);
    if is_block {
        let help = "put a section in `{}`, a list in `[]`, and text that has `: ` in it in quotes";
        return Err(Mistake::new("", "a value is a scalar, or stands in brackets")
            .at(node.place)
            .help(help)
            .into());
    }
    Ok(if node.place.width == 0 { nothing() } else { node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

    #[test]
    fn paths() {
        for (argument, words) in [
            ("a=1", &["a"][..]),
            ("a.b.c=x=y", &["a", "b", "c"]),
            ("a[0].b=", &["a", "[0]", "b"]),
            ("a[x.y=z].b[1][2]=", &["a", "[x.y=z]", "b", "[1]", "[2]"]),
        ] {
            let (parts, at) = parts(argument).unwrap();
            let said: Vec<_> = parts
                .iter()
                .map(|part| if part.in_brackets { format!("[{}]", part.word) } else { part.word.clone() })
                .collect();
            assert_eq!(said, words, "{argument}");
            for part in &parts {
                let at = part.place.column - 1;
                assert_eq!(argument[at..at + part.place.width], part.word, "{argument}");
            }
            assert_eq!(&argument[at - 1..at], "=", "{argument}");
        }
        for (argument, column) in
            [("", 1), ("a", 1), ("=1", 1), ("a..b=1", 3), ("a[0", 2), ("a[0]b=1", 5), (".a=1", 1)]
        {
            let mistake = parts(argument).unwrap_err();
            let error = ConfigError::new(Sources::new("x", argument), vec![*mistake]);
            assert_eq!(error.problems()[0].column, Some(column), "{error}");
        }
    }
}
