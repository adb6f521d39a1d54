//! Where each value of a profile comes from: kept beside the profile, so that what is found out later of a field, on
//! the nodes too, can be shown at its place.

use serde::Serialize;

use super::fit;
use super::report::ConfigError;
use super::source::{Label, Place, Sources};
use super::tree::{Node, Step};
use crate::profile::{Problem, Profile};

/// A profile, and where its values stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub profile: Profile,
    pub places: Places,
}

/// Where the values of a profile stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    pub(super) sources: Sources,
    pub(super) tree: Node,
}

/// Where one value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Origin {
    /// A file, at a line.
    File { file: String, line: usize },
    /// Variables of the environment, named in a file at a line, or in an argument.
    Environment { variables: Vec<String>, file: String, line: Option<usize> },
    /// An argument of the command line.
    Set,
    /// Nobody wrote it.
    Default,
}

impl Places {
    /// The place of the field at `path`, with its line and carets, and through which files it came in; at the section
    /// where the field was left out. None where that is nowhere.
    pub fn frame(&self, path: &str) -> Option<String> {
        let node = self.tree.find(path);
        let place = node.shown();
        if std::ptr::eq(node, &raw const self.tree) || place == Place::NONE {
            return None;
        }
        let mut out = String::new();
        let label = Label { place, note: "", mark: '^' };
        self.sources.frame(Some(place), &[label], &mut out).ok()?;
        Some(out)
    }

    /// What was found wrong with fields after the profile was read, each at its place.
    pub fn error(&self, problems: Vec<Problem>) -> ConfigError {
        let mistakes = problems.into_iter().map(|problem| fit::placed(problem, &self.tree)).collect();
        ConfigError::new(self.sources.clone(), mistakes)
    }

    /// Where the value at `path` comes from.
    pub(super) fn origin(&self, path: &[Step]) -> Origin {
        let Some(node) = self.tree.at(path).filter(|node| node.place != Place::NONE) else {
            return Origin::Default;
        };
        let source = node.place.source;
        let (file, line) = (self.sources.name(source).to_owned(), node.place.line);
        let is_argument = self.sources.is_argument(source);
        if !node.variables.is_empty() {
            let line = (!is_argument).then_some(line);
            Origin::Environment { variables: node.variables.clone(), file, line }
        } else if is_argument {
            Origin::Set
        } else {
            Origin::File { file, line }
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment { variables, file, line } => {
                let named: Vec<_> = variables.iter().map(|name| format!("${{{name}}}")).collect();
                write!(f, "{}, {file}", named.join(", "))?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            Self::Set => f.write_str("--set"),
            Self::Default => f.write_str("default"),
        }
    }
}
