//! One profile that extends another: `extends: cluster.yaml`, relative to the file that says so.
//!
//! The files are merged: sections key by key, with the extending file over the one that it extends; lists and single
//! values are replaced whole. A file that is extended need not be a whole profile.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::fit::{EXTENDS, Known};
use super::report::{ConfigError, Mistake};
use super::source::{self, Place, Sources};
use super::tree::{Node, Step, Value};
use super::variables::{self, Environment};
use super::{reader, words};
use crate::error::system_words;
use crate::profile::is_env_value;

/// The longest file that is read, in bytes.
pub(super) const LONGEST: usize = 1 << 20;
/// Files in one chain.
const MOST_FILES: usize = 8;

/// A profile's file and all that it extends, as one tree.
pub(super) struct Merged {
    pub(super) sources: Sources,
    /// The folder of each source.
    pub(super) folders: Vec<PathBuf>,
    pub(super) tree: Node,
    pub(super) known: Known,
}

/// Reads the text of the file at `path`.
///
/// # Errors
///
/// It cannot be read, or is no text.
pub(super) fn text(path: &Path) -> Result<String, ConfigError> {
    let name = path.display().to_string();
    match bytes(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            not_utf8(&name, error.as_bytes(), valid)
        }),
        Err((message, help)) => {
            let mistake = Mistake::new("", message).help_if(help);
            Err(ConfigError::new(Sources::new(&name, ""), vec![mistake]))
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, (String, Option<&'static str>)> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| (format!("cannot read the file: {}", system_words(&error)), None))?;
    if bytes.len() > LONGEST {
        let message = format!("the file is larger than {} KiB, and no profile is", LONGEST / 1024);
        return Err((message, Some("is it the right file?")));
    }
    Ok(bytes)
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> ConfigError {
    let text = String::from_utf8_lossy(bytes);
    let lines = source::lines(std::str::from_utf8(&bytes[..valid]).unwrap_or(""));
    let column = lines.last().map_or(0, |line| line.chars().count());
    let place = Place::new(lines.len(), column + 1, 1);
    let mistake = Mistake::new("", "the file is not UTF-8 text").at(place).help("save it as UTF-8");
    ConfigError::new(Sources::new(name, &text), vec![mistake])
}

/// Reads `text`, which is called `name`, and the files that it extends.
///
/// # Errors
///
/// The text itself cannot be read. That another file cannot is noted in what is known of the tree.
pub(super) fn read(name: &str, text: &str, environment: Environment<'_>) -> Result<Merged, ConfigError> {
    // Some editors begin a file with a byte order mark; it is no part of the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut chain = Chain {
        sources: Sources::new(name, text),
        files: vec![PathBuf::from(name)],
        known: Known { mistakes: Vec::new(), doubtful: Vec::new(), whole: true },
        environment,
    };
    let mut trees = Vec::new();
    match chain.read(0, text) {
        Ok(tree) => trees.push(tree),
        Err(mistake) => {
            chain.known.mistakes.push(*mistake);
            return Err(ConfigError::new(chain.sources, chain.known.mistakes));
        }
    }
    while let Some((file, place)) = trees.last_mut().and_then(|tree| chain.extended(tree)) {
        match chain.next(&file, place) {
            Ok(tree) => trees.push(tree),
            Err(mistake) => {
                chain.known.whole = false;
                chain.known.mistakes.push(*mistake);
                break;
            }
        }
    }
    let mut trees = trees.into_iter().rev();
    let farthest = trees.next().unwrap_or_else(|| Node::new(Place::NONE, Value::Map(Vec::new())));
    let tree = trees.fold(farthest, |base, over| merge(base, over, &mut Vec::new()));
    let folder = |file: &PathBuf| file.parent().unwrap_or(Path::new("")).to_owned();
    let folders = chain.files.iter().map(folder).collect();
    Ok(Merged { sources: chain.sources, folders, tree, known: chain.known })
}

struct Chain<'a> {
    sources: Sources,
    /// The path of each of the sources.
    files: Vec<PathBuf>,
    known: Known,
    environment: Environment<'a>,
}

impl Chain<'_> {
    /// The tree of one text: a map, with places in `source`.
    fn read(&mut self, source: usize, text: &str) -> Result<Node, Box<Mistake>> {
        if text.len() > LONGEST {
            return Err(Mistake::new("", format!("the text is larger than {} KiB", LONGEST / 1024)).into());
        }
        let read = reader::read(text).map_err(|mistake| mistake.moved_to(source))?;
        self.known.mistakes.extend(read.wrong.into_iter().map(|mistake| mistake.moved_to(source)));
        self.known.doubtful.extend(read.doubtful);
        match read.root {
            None => Err(Mistake::new("", "the file is empty: nothing but white space and comments")
                .help("`profiles/` and `examples/` have some to begin with")
                .into()),
            Some(mut tree) if matches!(tree.value, Value::Map(_)) => {
                tree.move_to(source);
                Ok(tree)
            }
            Some(tree) => {
                let wrong = Mistake::new("", "a profile has to be keys with values, such as `version: 1`");
                Err(wrong.at(tree.place).moved_to(source).into())
            }
        }
    }

    /// Takes `extends` out of a tree: the file, and where it is named.
    fn extended(&mut self, tree: &mut Node) -> Option<(String, Place)> {
        let Value::Map(map) = &mut tree.value else { return None };
        let index = map.iter().position(|(key, _)| key == EXTENDS).or_else(|| {
            let near = map.iter().position(|(key, _)| words::nearest(key, &[EXTENDS]).is_some())?;
            let (key, node) = &map[near];
            let (message, help) = words::unknown_key(key, "", &[EXTENDS]);
            let mistake = Mistake::new(key, message).at(node.key.unwrap_or(node.place));
            self.known.mistakes.push(mistake.help_if(help));
            Some(near)
        })?;
        let (_, mut node) = map.remove(index);
        let path = [Step::Key(EXTENDS.to_owned())];
        variables::substitute(&mut node, &mut path.to_vec(), self.environment, &mut self.known.mistakes);
        match &node.value {
            Value::Text(file) if !file.is_empty() => return Some((file.clone(), node.place)),
            Value::StandIn(_) => {}
            _ => {
                let mistake = Mistake::new(EXTENDS, "expected the path of one file").at(node.shown());
                self.known.mistakes.push(mistake.help("write `extends: cluster.yaml`"));
            }
        }
        self.known.whole = false;
        None
    }

    /// Reads the file that is named at `place`.
    fn next(&mut self, file: &str, place: Place) -> Result<Node, Box<Mistake>> {
        let path = self.files[place.source].parent().unwrap_or(Path::new("")).join(file);
        let name = path.display().to_string();
        let wrong = |message: String| Mistake::new(EXTENDS, message).at(place);
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let same =
            |other: &PathBuf| *other == path || real(other).is_some_and(|other| real(&path) == Some(other));
        if self.files.iter().any(same) {
            let mut names: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
            names.push(name);
            return Err(wrong(format!("a file cannot extend itself: {}", names.join(" -> "))).into());
        }
        if self.files.len() >= MOST_FILES {
            return Err(wrong(format!("more than {MOST_FILES} files extend each other")).into());
        }
        let bytes =
            bytes(&path).map_err(|(message, help)| wrong(format!("`{name}`: {message}")).help_if(help))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong(format!("`{name}` is not UTF-8 text")))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let source = self.sources.extended(&name, text, place);
        self.files.push(path);
        self.read(source, text).map_err(|mistake| {
            if mistake.has_place() { mistake } else { wrong(format!("`{name}`: {}", mistake.message)).into() }
        })
    }
}

/// `over` with what only `base` has.
fn merge(base: Node, over: Node, path: &mut Vec<String>) -> Node {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_one_value = is_env_value(&names);
    match (base.value, over.value) {
        (Value::Map(mut merged), Value::Map(over_map)) if !is_one_value => {
            for (key, node) in over_map {
                match merged.iter_mut().find(|(name, _)| *name == key) {
                    Some((_, below)) => {
                        path.push(key);
                        let base = std::mem::replace(below, Node::stand_in());
                        *below = merge(base, node, path);
                        path.pop();
                    }
                    None => merged.push((key, node)),
                }
            }
            Node { value: Value::Map(merged), ..over }
        }
        (_, value) => Node { value, ..over },
    }
}
