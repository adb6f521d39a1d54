//! Reads a profile from a YAML file and says all that is wrong with it, each with its place.
//!
//! The only door to YAML. What a profile may hold is decided by the types in [`crate::profile`]; this
//! module has no list of fields. It reads the file into a tree that knows its places, fits the tree to the
//! types, and where that fails notes the mistake, mends the tree (renames or drops an unknown key, puts a
//! stand-in for a missing or a wrong value) and tries again, so that one run shows every mistake. Only a
//! profile whose types are all right is asked for mistakes of meaning ([`crate::profile::validate`]).
//!
//! Left out: looking for files; values from the environment; one file that extends another.

pub mod any;
mod report;
mod scalar;
mod syntax;
mod tree;
mod value;
mod words;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

pub use report::{ConfigError, Mistake};

use crate::profile::{Problem, Profile, validate};
use report::Place;
use tree::{Node, Step, Value};
use value::Wrong;

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 20;
/// After so many mistakes of type the rest is left for the next run.
const MOST_MISTAKES: usize = 200;

/// Reads the profile in the file at `path`.
///
/// # Errors
///
/// Everything that is wrong with the file.
pub fn load(path: &Path) -> Result<Profile, ConfigError> {
    let name = path.display().to_string();
    let whole_file = |message: String, help: Option<&str>| {
        ConfigError::new(&name, "", vec![Mistake::new("", message).help_if(help)])
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| whole_file(format!("cannot read the file: {}", said(&error)), None))?;
    if bytes.len() > LONGEST {
        let message = format!("the file is larger than {} KiB, and no profile is", LONGEST / 1024);
        return Err(whole_file(message, Some("is it the right file?")));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(&name, text),
        Err(error) => Err(not_utf8(&name, &bytes, error.valid_up_to())),
    }
}

/// Reads the profile in `text`; `file_name` is what messages call it.
///
/// # Errors
///
/// Everything that is wrong with the text.
pub fn parse(file_name: &str, text: &str) -> Result<Profile, ConfigError> {
    // Some editors begin a file with a byte order mark; it is no part of the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read(text).map_err(|mistakes| ConfigError::new(file_name, text, mistakes))
}

fn read(text: &str) -> Result<Profile, Vec<Mistake>> {
    if text.len() > LONGEST {
        return Err(vec![Mistake::new("", format!("the text is larger than {} KiB", LONGEST / 1024))]);
    }
    let (tree, mut mistakes) = tree::read(text).map_err(|mistake| vec![*mistake])?;
    let tree = match tree {
        None => {
            let empty = Mistake::new("", "the file is empty: nothing but white space and comments");
            return Err(vec![empty.help("`profiles/` and `examples/` have some to begin with")]);
        }
        Some(tree) if matches!(tree.value, Value::Map(_)) => tree,
        Some(tree) => {
            let wrong = Mistake::new("", "a profile has to be keys with values, such as `version: 1`");
            mistakes.push(wrong.at(tree.place));
            return Err(mistakes);
        }
    };
    match fit::<Profile>(tree.clone()) {
        Ok(profile) if mistakes.is_empty() => {
            let problems = validate(&profile);
            if problems.is_empty() {
                return Ok(profile);
            }
            Err(problems.into_iter().map(|problem| placed(problem, &tree)).collect())
        }
        Ok(_) => Err(mistakes),
        Err(more) => {
            mistakes.extend(more);
            Err(mistakes)
        }
    }
}

/// Fits the tree to the type, over and over, until no mistake is left that has not been noted.
fn fit<T: DeserializeOwned>(mut tree: Node) -> Result<T, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut missing: Vec<Missing> = Vec::new();
    let mut result = None;
    for _ in 0..MOST_MISTAKES {
        match serde_path_to_error::deserialize::<_, T>(&tree) {
            Ok(value) => {
                result = Some(value);
                break;
            }
            Err(error) => {
                let path = steps(error.path());
                let wrong = error.into_inner();
                if !mend(&mut tree, path.clone(), wrong.clone(), &mut mistakes, &mut missing) {
                    if mistakes.is_empty() && missing.is_empty() {
                        let (message, _) = words::value(&wrong, &Node::stand_in());
                        mistakes.push(Mistake::new(tree::written(&path), message));
                    }
                    break;
                }
            }
        }
    }
    mistakes.extend(missing.into_iter().map(|missing| {
        let message = words::missing_keys(&missing.keys, &missing.section);
        Mistake::new(missing.section, message).at(missing.place)
    }));
    match result {
        Some(value) if mistakes.is_empty() => Ok(value),
        _ => Err(mistakes),
    }
}

/// The keys that one section lacks.
struct Missing {
    section: String,
    place: Place,
    keys: Vec<&'static str>,
}

/// Notes what is wrong at `path` and changes the tree so that it isn't there the next time. False where
/// that cannot be done: the mistake is then about a stand-in, and not the person's.
fn mend(
    tree: &mut Node,
    mut path: Vec<Step>,
    wrong: Wrong,
    mistakes: &mut Vec<Mistake>,
    missing: &mut Vec<Missing>,
) -> bool {
    match wrong {
        Wrong::UnknownKey { key, known } => {
            // The path of an unknown key ends with the key itself.
            path.pop();
            let Some(Node { value: Value::Map(map), .. }) = tree.at(&path) else { return false };
            let Some(index) = map.iter().position(|(name, _)| *name == key) else { return false };
            let place = map[index].1.key.unwrap_or(map[index].1.place);
            let section = tree::written(&path);
            let (message, help) = words::unknown_key(&key, &section, known);
            match words::nearest(&key, known).filter(|near| map.iter().all(|(name, _)| name != near)) {
                // So that the right key isn't missing, and what is in it is looked at.
                Some(near) => near.clone_into(&mut map[index].0),
                None => drop(map.remove(index)),
            }
            path.push(Step::Key(key));
            mistakes.push(Mistake::new(tree::written(&path), message).at(place).help_if(help));
        }
        Wrong::MissingKey(key) => {
            let is_root = path.is_empty();
            let Some(node) = tree.at(&path) else { return false };
            let place = if is_root { Place::NONE } else { node.key.unwrap_or(node.place) };
            let Value::Map(map) = &mut node.value else { return false };
            map.push((key.to_owned(), Node::stand_in()));
            let section = tree::written(&path);
            match missing.iter_mut().find(|missing| missing.section == section) {
                Some(missing) => missing.keys.push(key),
                None => missing.push(Missing { section, place, keys: vec![key] }),
            }
        }
        wrong => {
            let Some(node) = tree.at(&path) else { return false };
            if node.value == Value::StandIn {
                return false;
            }
            let (message, help) = words::value(&wrong, node);
            mistakes.push(Mistake::new(tree::written(&path), message).at(node.shown()).help_if(help));
            node.value = Value::StandIn;
        }
    }
    true
}

fn steps(path: &serde_path_to_error::Path) -> Vec<Step> {
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// A problem of meaning, at its field; at the section where the field is left out.
fn placed(problem: Problem, tree: &Node) -> Mistake {
    let node = tree.find(&problem.path);
    let place = match node.key {
        Some(key) if problem.is_in_key => key,
        _ => node.shown(),
    };
    let is_root = std::ptr::eq(node, tree);
    Mistake::new(problem.path, problem.message)
        .at(if is_root { Place::NONE } else { place })
        .help_if(problem.hint)
}

/// What the system says, without its number.
fn said(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> ConfigError {
    let text = String::from_utf8_lossy(bytes);
    let before = report::lines(std::str::from_utf8(&bytes[..valid]).unwrap_or("")).len();
    let column = report::lines(std::str::from_utf8(&bytes[..valid]).unwrap_or(""))
        .last()
        .map_or(0, |line| line.chars().count());
    let place = Place { line: before, column: column + 1, width: 1 };
    let mistake = Mistake::new("", "the file is not UTF-8 text").at(place).help("save it as UTF-8");
    ConfigError::new(name, &text, vec![mistake])
}

#[cfg(test)]
mod tests;
