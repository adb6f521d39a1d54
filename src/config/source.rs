//! The texts that values come from (a profile's file, those it extends, `--set` arguments), and how a stretch of one
//! is shown: its place, the line itself, carets.
//!
//! Plain text without colour. Nothing of a file reaches the terminal raw: control characters are replaced, and long
//! lines are cut to the part around the place.

use std::fmt::{self, Write};

/// How many characters of a line are shown.
const WIDEST: usize = 120;

/// A stretch of one line of a source; line and column count from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Which of the [`Sources`].
    pub(super) source: usize,
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

impl Place {
    /// For what is in no text.
    pub(super) const NONE: Self = Self::new(0, 0, 0);

    /// In the first source; [`Place::moved_to`] another.
    pub(super) const fn new(line: usize, column: usize, width: usize) -> Self {
        Self { source: 0, line, column, width }
    }

    pub(super) fn moved_to(self, source: usize) -> Self {
        if self == Self::NONE { self } else { Self { source, ..self } }
    }
}

/// A place and how it is marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) place: Place,
    pub(super) note: &'static str,
    pub(super) mark: char,
}

/// One text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    /// What messages call it.
    name: String,
    /// Where it lies, as it was named.
    path: String,
    text: String,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A file that the person named.
    File,
    /// A file that is named at this place.
    Extended(Place),
    /// An argument of the command line.
    Argument,
}

/// All texts that one profile is made of; the first is the file that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// With the file that was named.
    pub(super) fn new(name: &str, text: &str) -> Self {
        let (text, path) = (text.to_owned(), name.to_owned());
        Self(vec![Source { name: one_line(name), path, text, origin: Origin::File }])
    }

    /// Adds a file that is named at `place`.
    pub(super) fn extended(&mut self, name: &str, text: &str, place: Place) -> usize {
        let (text, path) = (text.to_owned(), name.to_owned());
        self.add(Source { name: one_line(name), path, text, origin: Origin::Extended(place) })
    }

    /// Adds what stood behind a `--set`.
    pub(super) fn argument(&mut self, text: &str) -> usize {
        let (text, path) = (text.to_owned(), String::new());
        self.add(Source { name: "--set".to_owned(), path, text, origin: Origin::Argument })
    }

    fn add(&mut self, source: Source) -> usize {
        self.0.push(source);
        self.0.len() - 1
    }

    /// What messages call a source.
    pub(super) fn name(&self, source: usize) -> &str {
        &self.0[source].name
    }

    /// Whether a source is an argument of the command line, where a line says nothing.
    pub(super) fn is_argument(&self, source: usize) -> bool {
        self.0[source].origin == Origin::Argument
    }

    /// The place (or only the file, where `at` is none), the lines of the labels with their marks, and through
    /// which files the source came in.
    pub(super) fn frame(
        &self,
        at: Option<Place>,
        labels: &[Label],
        out: &mut String,
    ) -> Result<Gutter, fmt::Error> {
        let source = at.map_or(0, |place| place.source);
        let Source { name, text, origin, .. } = &self.0[source];
        let lines = lines(text);
        let highest = labels.iter().map(|label| label.place.line).max().unwrap_or(0);
        let gutter = if *origin == Origin::Argument { 1 } else { highest.to_string().len() };
        match at {
            Some(place) if *origin != Origin::Argument => {
                writeln!(out, "{:gutter$}--> {name}:{}:{}", "", place.line, place.column)?;
            }
            _ => writeln!(out, "{:gutter$}--> {name}", "")?,
        }
        let mut last = None;
        for Label { place, note, mark } in labels {
            match last {
                None => writeln!(out, "{:gutter$} |", "")?,
                Some(line) if place.line > line + 1 => writeln!(out, "{:gutter$} ...", "")?,
                Some(_) => {}
            }
            let (text, before, width) = cut(lines.get(place.line.saturating_sub(1)).unwrap_or(&""), *place);
            if last != Some(place.line) {
                let number = if *origin == Origin::Argument { String::new() } else { place.line.to_string() };
                writeln!(out, "{number:>gutter$} | {text}")?;
            }
            let marks = mark.to_string().repeat(width);
            writeln!(out, "{}", format!("{:gutter$} | {:before$}{marks} {note}", "", "").trim_end())?;
            last = Some(place.line);
        }
        let mut origin = *origin;
        while let Origin::Extended(by) = origin {
            writeln!(out, "{:gutter$} = extended by {}:{}", "", self.name(by.source), by.line)?;
            origin = self.0[by.source].origin;
        }
        Ok(Gutter(gutter))
    }
}

/// How far notes below a frame are indented.
pub(super) struct Gutter(pub(super) usize);

/// The lines of `text`, as YAML counts them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(['\n', '\r']) {
        lines.push(&rest[..end]);
        let long = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + long..];
    }
    lines.push(rest);
    lines
}

/// The part of a line to show, how far into it the marks begin, and how many there are.
fn cut(line: &str, place: Place) -> (String, usize, usize) {
    let shown: Vec<char> = line.trim_end().chars().map(|c| if hides(c) { ' ' } else { c }).collect();
    let begin = place.column.saturating_sub(1).min(shown.len());
    let from = if shown.len() > WIDEST { begin.saturating_sub(WIDEST / 3) } else { 0 };
    let to = shown.len().min(from + WIDEST);
    let (left, right) = (if from > 0 { "..." } else { "" }, if to < shown.len() { "..." } else { "" });
    let text = format!("{left}{}{right}", shown[from..to].iter().collect::<String>());
    let width = place.width.min(to.saturating_sub(begin)).max(1);
    (text, begin - from + left.len(), width)
}

/// Characters that would move the cursor, the carets, or the reader's mind.
pub(super) fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `text` for a message: one line, nothing hidden, not too long.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == 400 {
            line.push_str("...");
            break;
        }
        if hides(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}
