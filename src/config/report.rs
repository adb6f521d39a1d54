//! What is wrong with a file, shown as a compiler would: the place, the line itself, carets, help.
//!
//! Plain text without colour. Nothing of the file reaches the terminal raw: control characters are replaced,
//! and long lines are cut to the part around the place.

use std::fmt::{self, Write};

use serde::Serialize;

/// How many characters of a line are shown.
const WIDEST: usize = 120;
/// How many mistakes are shown; the count at the end has them all.
const MOST_SHOWN: usize = 50;

/// A stretch of one line; line and column count from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

impl Place {
    /// For what is not in the file.
    pub(super) const NONE: Self = Self { line: 0, column: 0, width: 0 };
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
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
    /// What is underlined.
    #[serde(skip)]
    labels: Vec<Label>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    place: Place,
    note: &'static str,
    mark: char,
}

impl Mistake {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        let (path, message) = (one_line(&path.into()), one_line(&message.into()));
        Self { path, line: None, column: None, message, help: None, labels: Vec::new() }
    }

    /// At `place`, which is underlined.
    pub(super) fn at(mut self, place: Place) -> Self {
        if place != Place::NONE {
            self.line = Some(place.line);
            self.column = Some(place.column);
            self.labels.push(Label { place, note: "", mark: '^' });
        }
        self
    }

    /// With a second place that explains the first.
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
}

/// All that is wrong with one file; its `Display` is the whole report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: String,
    text: String,
    mistakes: Vec<Mistake>,
}

impl ConfigError {
    pub(super) fn new(file: &str, text: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        Self { file: one_line(file), text: text.to_owned(), mistakes }
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is wrong, by line.
    pub fn problems(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = lines(&self.text);
        for mistake in self.mistakes.iter().take(MOST_SHOWN) {
            writeln!(f, "{}", snippet(&self.file, &lines, mistake)?)?;
        }
        let (count, file) = (self.mistakes.len(), &self.file);
        match count {
            1 => write!(f, "{file}: 1 error"),
            _ if count > MOST_SHOWN => write!(f, "{file}: {count} errors, the first {MOST_SHOWN} are shown"),
            _ => write!(f, "{file}: {count} errors"),
        }
    }
}

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

fn snippet(file: &str, lines: &[&str], mistake: &Mistake) -> Result<String, fmt::Error> {
    let mut out = format!("error: {}\n", mistake.message);
    let gutter = mistake.labels.iter().map(|label| label.place.line).max().unwrap_or(0).to_string().len();
    match (mistake.line, mistake.column) {
        (Some(line), Some(column)) => writeln!(out, "{:gutter$}--> {file}:{line}:{column}", "")?,
        _ => writeln!(out, "{:gutter$}--> {file}", "")?,
    }
    let mut last = None;
    for label in &mistake.labels {
        let place = label.place;
        match last {
            None => writeln!(out, "{:gutter$} |", "")?,
            Some(line) if place.line > line + 1 => writeln!(out, "{:gutter$} ...", "")?,
            Some(_) => {}
        }
        let (text, before, width) = cut(lines.get(place.line.saturating_sub(1)).unwrap_or(&""), place);
        if last != Some(place.line) {
            writeln!(out, "{:>gutter$} | {text}", place.line)?;
        }
        let marks = label.mark.to_string().repeat(width);
        writeln!(out, "{}", format!("{:gutter$} | {:before$}{marks} {}", "", "", label.note).trim_end())?;
        last = Some(place.line);
    }
    if let Some(help) = &mistake.help {
        writeln!(out, "{:gutter$} = help: {help}", "")?;
    }
    Ok(out)
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
fn hides(c: char) -> bool {
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
