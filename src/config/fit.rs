//! Fits the tree to the types of the profile, and says everything that doesn't fit.
//!
//! Where it fails it notes the mistake, mends the tree (renames or drops an unknown key, puts a stand-in for a
//! missing or a wrong value) and tries again, so that one run shows every mistake of type. What is wrong beyond types
//! ([`validate`]) is then said of what the person wrote: a problem is kept where it is the same whatever stands in for
//! what could not be read, and is at a field that could be.

use serde_path_to_error::Segment;

use super::report::Mistake;
use super::source::Place;
use super::tree::{self, Node, Step, Value, Variant};
use super::value::Wrong;
use super::words;
use crate::profile::{Cluster, Problem, Profile, validate};

/// After so many mistakes of type the rest is left for the next run.
const MOST_MISTAKES: usize = 200;
/// The section that other files may lend their nodes by.
const CLUSTER: &str = "cluster";
/// The key that is the language's own, and none of the profile's.
pub(super) const EXTENDS: &str = "extends";

/// What is known of a tree before it is fitted.
pub(super) struct Known {
    /// What is wrong with it already.
    pub(super) mistakes: Vec<Mistake>,
    /// Values that are not to be trusted, as there are two of them.
    pub(super) doubtful: Vec<Vec<Step>>,
    /// Whether all of the profile is there; where a file could not be read nothing is said of what is missing.
    pub(super) whole: bool,
}

/// Fits the tree to the profile.
///
/// # Errors
///
/// Everything that is wrong with it.
pub(super) fn fit(tree: &Node, known: Known) -> Result<Profile, Vec<Mistake>> {
    let mut fitting = Fitting {
        tree: tree.clone(),
        mistakes: known.mistakes,
        missing: Vec::new(),
        dropped: Vec::new(),
        whole: known.whole,
    };
    let fitted = fitting.types();
    let is_whole = fitting.mistakes.is_empty() && fitting.missing.is_empty() && known.whole;
    let problems = match fitted {
        Some(profile) if is_whole => {
            let problems = validate(&profile);
            if problems.is_empty() {
                return Ok(profile);
            }
            problems
        }
        Some(_) if known.whole => fitting.certain(&known.doubtful),
        _ => Vec::new(),
    };
    let placed: Vec<_> = problems.into_iter().map(|problem| placed(problem, &fitting.tree)).collect();
    fitting.mistakes.extend(placed);
    Err(fitting.said())
}

/// Fits one section of the tree, the cluster, whatever else is there or not.
///
/// # Errors
///
/// Everything that is wrong with that section.
pub(super) fn cluster(tree: &Node, known: Known) -> Result<Cluster, Vec<Mistake>> {
    let mut tree = tree.clone();
    if let Value::Map(map) = &mut tree.value {
        map.retain(|(key, _)| key == CLUSTER);
    }
    let mut fitting = Fitting {
        tree,
        mistakes: known.mistakes,
        missing: Vec::new(),
        dropped: Vec::new(),
        whole: known.whole,
    };
    let fitted = fitting.types();
    // The other sections are not asked for.
    fitting.missing.iter_mut().filter(|missing| missing.section.is_empty()).for_each(|missing| {
        missing.keys.retain(|key| *key == CLUSTER);
    });
    fitting.missing.retain(|missing| !missing.keys.is_empty());
    match fitted {
        Some(profile) if fitting.mistakes.is_empty() && fitting.missing.is_empty() => Ok(profile.cluster),
        _ => Err(fitting.said()),
    }
}

/// The keys that one section lacks.
struct Missing {
    section: String,
    place: Place,
    keys: Vec<&'static str>,
}

struct Fitting {
    tree: Node,
    mistakes: Vec<Mistake>,
    missing: Vec<Missing>,
    /// Sections that had a key that nobody knows: what it was to say is lost.
    dropped: Vec<String>,
    whole: bool,
}

impl Fitting {
    /// The profile, over and over, until no mistake is left that has not been noted.
    fn types(&mut self) -> Option<Profile> {
        for _ in 0..MOST_MISTAKES {
            let error = match serde_path_to_error::deserialize::<_, Profile>(&self.tree) {
                Ok(profile) => return Some(profile),
                Err(error) => error,
            };
            let path = steps(error.path());
            let wrong = error.into_inner();
            if !self.mend(path.clone(), wrong.clone()) {
                if self.mistakes.is_empty() && self.missing.is_empty() {
                    let (message, _) = words::value(&wrong, &Node::stand_in());
                    self.mistakes.push(Mistake::new(tree::written(&path), message));
                }
                return None;
            }
        }
        None
    }

    /// Notes what is wrong at `path` and changes the tree so that it isn't there the next time. False where
    /// that cannot be done: the mistake is then about a stand-in, and not the person's.
    fn mend(&mut self, mut path: Vec<Step>, wrong: Wrong) -> bool {
        match wrong {
            Wrong::UnknownKey { key, known } => {
                // The path of an unknown key ends with the key itself.
                path.pop();
                let Some(Node { value: Value::Map(map), .. }) = self.tree.at_mut(&path) else { return false };
                let Some(index) = map.iter().position(|(name, _)| *name == key) else { return false };
                let place = map[index].1.key.unwrap_or(map[index].1.place);
                let section = tree::written(&path);
                let (message, help) = words::unknown_key(&key, &section, known);
                let near =
                    words::nearest(&key, known).filter(|near| map.iter().all(|(name, _)| name != near));
                if let Some(near) = near {
                    // So that the right key isn't missing, and what is in it is looked at.
                    near.clone_into(&mut map[index].0);
                } else {
                    map.remove(index);
                    self.dropped.push(section);
                }
                path.push(Step::Key(key));
                self.mistakes.push(Mistake::new(tree::written(&path), message).at(place).help_if(help));
            }
            Wrong::MissingKey(key) => {
                let is_root = path.is_empty();
                let Some(node) = self.tree.at_mut(&path) else { return false };
                let place = if is_root { Place::NONE } else { node.key.unwrap_or(node.place) };
                let Value::Map(map) = &mut node.value else { return false };
                map.push((key.to_owned(), Node::stand_in()));
                let section = tree::written(&path);
                match self.missing.iter_mut().find(|missing| missing.section == section) {
                    Some(missing) => missing.keys.push(key),
                    None => self.missing.push(Missing { section, place, keys: vec![key] }),
                }
            }
            wrong => {
                let Some(node) = self.tree.at_mut(&path) else { return false };
                if node.is_stand_in() {
                    return false;
                }
                let (message, help) = words::value(&wrong, node);
                let mistake = Mistake::new(tree::written(&path), message).at(node.shown()).help_if(help);
                self.mistakes.push(mistake.note_if(from_environment(node)));
                node.value = Value::StandIn(Variant::First);
            }
        }
        true
    }

    /// The problems that the profile has whatever stands in for what could not be read.
    fn certain(&self, doubtful: &[Vec<Step>]) -> Vec<Problem> {
        let mut tree = self.tree.clone();
        for path in doubtful {
            if let Some(node) = tree.at_mut(path) {
                node.value = Value::StandIn(Variant::First);
            }
        }
        let rest = [Variant::Second, Variant::Third].map(|variant| with_stand_ins(tree.clone(), variant));
        let Some(first) = with_stand_ins(tree.clone(), Variant::First) else { return Vec::new() };
        let certain = |problem: &Problem| {
            let node = tree.find(&problem.path);
            let always = || rest.iter().all(|other| other.as_ref().is_some_and(|all| all.contains(problem)));
            !node.is_stand_in()
                && !self.may_be_dropped(problem, std::ptr::eq(node, &raw const tree))
                && always()
        };
        first.into_iter().filter(certain).collect()
    }

    /// Whether a key that nobody knows may have been meant to prevent the problem.
    fn may_be_dropped(&self, problem: &Problem, is_absent: bool) -> bool {
        self.dropped.iter().any(|section| {
            if section.is_empty() {
                return is_absent;
            }
            let rest = problem.path.strip_prefix(section.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    fn said(self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes;
        if self.whole || mistakes.is_empty() {
            mistakes.extend(self.missing.into_iter().map(|missing| {
                let message = words::missing_keys(&missing.keys, &missing.section);
                Mistake::new(missing.section, message).at(missing.place)
            }));
        }
        mistakes
    }
}

/// All problems of the tree with this variant of every stand-in; with the first where another does not fit. None: the
/// tree fits in no way.
fn with_stand_ins(mut tree: Node, variant: Variant) -> Option<Vec<Problem>> {
    tree.vary(variant);
    for _ in 0..MOST_MISTAKES {
        let error = match serde_path_to_error::deserialize::<_, Profile>(&tree) {
            Ok(profile) => return Some(validate(&profile)),
            Err(error) => error,
        };
        match tree.at_mut(&steps(error.path())).map(|node| &mut node.value) {
            Some(Value::StandIn(variant)) if *variant != Variant::First => *variant = Variant::First,
            _ => return None,
        }
    }
    None
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
pub(super) fn placed(problem: Problem, tree: &Node) -> Mistake {
    let node = tree.find(&problem.path);
    let place = match node.key {
        Some(key) if problem.is_in_key => key,
        _ => node.shown(),
    };
    let is_root = std::ptr::eq(node, tree);
    Mistake::new(problem.path, problem.message)
        .at(if is_root { Place::NONE } else { place })
        .help_if(problem.hint)
        .note_if(from_environment(node))
}

/// Where a value comes from that does not stand in the file as it is.
fn from_environment(node: &Node) -> Option<String> {
    let names: Vec<_> = node.variables.iter().map(|name| format!("`${{{name}}}`")).collect();
    (!names.is_empty()).then(|| format!("{} is taken from the environment", names.join(", ")))
}
