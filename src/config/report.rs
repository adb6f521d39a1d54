//! What is wrong with a profile, shown as a compiler would: the message, the place in the text where the value really
//! stands, help.

use std::fmt::{self, Write};

use serde::Serialize;

use super::source::{Label, Place, Sources, one_line};

/// How many mistakes are shown; the count at the end has them all.
const MOST_SHOWN: usize = 50;

/// One thing that is wrong with a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file where it stands, as it was named; `--set` for the command line.
    pub file: String,
    /// The field, e.g. `cluster.nodes[1].fabric`; empty where it is about the file or its top level.
    pub path: String,
    /// The line, from 1; none where it is about the whole file.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// What it is about.
    #[serde(skip)]
    place: Option<Place>,
    /// What is underlined.
    #[serde(skip)]
    labels: Vec<Label>,
    /// What else is to be known.
    #[serde(skip)]
    note: Option<String>,
}

impl Mistake {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        let (path, message) = (one_line(&path.into()), one_line(&message.into()));
        Self {
            file: String::new(),
            path,
            line: None,
            column: None,
            message,
            help: None,
            place: None,
            labels: Vec::new(),
            note: None,
        }
    }

    /// At `place`, which is underlined.
    pub(super) fn at(mut self, place: Place) -> Self {
        if place != Place::NONE {
            self.place = Some(place);
            self.labels.push(Label { place, note: "", mark: '^' });
        }
        self
    }

    /// With a second place, of the same source, that explains the first.
    pub(super) fn also(mut self, place: Place, note: &'static str) -> Self {
        self.labels.push(Label { place, note, mark: '-' });
        self.labels.sort_by_key(|label| (label.place.line, label.place.column));
        self
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        self.help_if(Some(help))
    }

    pub(super) fn help_if(mut self, help: Option<impl Into<String>>) -> Self {
        self.help = help.map(|help| one_line(&help.into()));
        self
    }

    pub(super) fn note_if(mut self, note: Option<impl Into<String>>) -> Self {
        self.note = note.map(|note| one_line(&note.into()));
        self
    }

    /// Whether it is about a place in a text.
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// The same mistake in another source than the first.
    pub(super) fn moved_to(mut self, source: usize) -> Self {
        self.place = self.place.map(|place| place.moved_to(source));
        for label in &mut self.labels {
            label.place = label.place.moved_to(source);
        }
        self
    }
}

/// All that is wrong with one profile; its `Display` is the whole report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    sources: Sources,
    mistakes: Vec<Mistake>,
}

impl ConfigError {
    pub(super) fn new(sources: Sources, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.place.map(|place| (place.source, place.line, place.column)));
        for mistake in &mut mistakes {
            let source = mistake.place.map_or(0, |place| place.source);
            sources.name(source).clone_into(&mut mistake.file);
            mistake.line = mistake.place.map(|place| place.line);
            mistake.column = mistake.place.map(|place| place.column);
        }
        Self { sources, mistakes }
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        self.sources.name(0)
    }

    /// What is wrong: of the named file first, then of the others, each by line.
    pub fn problems(&self) -> &[Mistake] {
        &self.mistakes
    }

    fn show(&self, mistake: &Mistake) -> Result<String, fmt::Error> {
        let mut out = format!("error: {}\n", mistake.message);
        let gutter = self.sources.frame(mistake.place, &mistake.labels, &mut out)?.0;
        if let Some(note) = &mistake.note {
            writeln!(out, "{:gutter$} = note: {note}", "")?;
        }
        if let Some(help) = &mistake.help {
            writeln!(out, "{:gutter$} = help: {help}", "")?;
        }
        Ok(out)
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in self.mistakes.iter().take(MOST_SHOWN) {
            writeln!(f, "{}", self.show(mistake)?)?;
        }
        let (count, file) = (self.mistakes.len(), self.file());
        match count {
            1 => write!(f, "{file}: 1 error"),
            _ if count > MOST_SHOWN => write!(f, "{file}: {count} errors, the first {MOST_SHOWN} are shown"),
            _ => write!(f, "{file}: {count} errors"),
        }
    }
}
