//! What an import tells besides the profile: what was lost, what is not needed, what a person still has to do.

use serde::Serialize;

use super::template::shown;

/// A part of a recipe, and why it is not in the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The line in the recipe; none where it comes from another file or from none.
    pub line: Option<usize>,
    /// The part, as it stands in the recipe.
    pub what: String,
    /// Why, in one line.
    pub why: String,
}

/// All that is to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What had a meaning and is lost.
    pub not_carried: Vec<Item>,
    /// What sparkctl does by itself, or what only describes.
    pub not_needed: Vec<Item>,
    /// What a person has to do, or should know, before the profile is deployed.
    pub to_do: Vec<String>,
}

impl Report {
    pub(super) fn lose(&mut self, line: usize, what: impl Into<String>, why: impl Into<String>) {
        self.not_carried.push(item(line, &what.into(), &why.into()));
    }

    pub(super) fn spare(&mut self, line: usize, what: impl Into<String>, why: impl Into<String>) {
        self.not_needed.push(item(line, &what.into(), &why.into()));
    }

    pub(super) fn ask(&mut self, what: impl Into<String>) {
        let what = shown(&what.into());
        if !self.to_do.contains(&what) {
            self.to_do.push(what);
        }
    }
}

impl Report {
    /// In the order of the recipe; parts of other files last.
    pub(super) fn sort(&mut self) {
        for items in [&mut self.not_carried, &mut self.not_needed] {
            items.sort_by_key(|item| item.line.unwrap_or(usize::MAX));
        }
    }
}

fn item(line: usize, what: &str, why: &str) -> Item {
    Item { line: (line > 0).then_some(line), what: shown(what), why: shown(why) }
}

/// Why no profile can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The line in the recipe, where there is one to show.
    pub line: Option<usize>,
    pub message: String,
    /// What to do, where something can be done.
    pub hint: Option<String>,
}

impl Refused {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line: (line > 0).then_some(line), message: shown(&message.into()), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
