//! Mistakes of YAML's own grammar, in words that say what to mend.
//!
//! The parser's messages name its inner states; the ones that people really meet are reworded here, and
//! the rest are passed on with their place.

use saphyr_parser::ScanError;

use super::report::Mistake;
use super::source::Place;

/// A quote that is not closed, and what to do.
const QUOTE: (&str, &str) = ("a quote is opened here and not closed", "close the quote on the same line");

/// The mistake behind `error`, with a place in one of `lines`. `opened` is the bracket that the parser was
/// in.
pub(super) fn mistake(error: &ScanError, opened: Option<Place>, lines: &[&str]) -> Mistake {
    let (line, column) = within(error.marker().line(), error.marker().col() + 1, lines);
    if let Some(place) = tab_near(line, lines) {
        return Mistake::new("", "a tab is used for indentation, and YAML takes only spaces")
            .at(place)
            .help("replace the tab by spaces");
    }
    if let Some((place, bracket)) = not_closed(line, lines) {
        if matches!(bracket, '"' | '\'') {
            return Mistake::new("", QUOTE.0).at(place).help(QUOTE.1);
        }
        let closing = if bracket == '[' { ']' } else { '}' };
        return Mistake::new("", format!("a `{bracket}` is opened here and not closed")).at(place).help(
            format!("look for a missing `{closing}`; put text that has one of `[]{{}}` in it in quotes"),
        );
    }
    let place = Place::new(line, column, 1);
    let info = error.info();
    let has = |words: &[&str]| words.iter().any(|word| info.contains(word));
    if has(&["mapping values are not allowed", "simple key expect", "did not find expected"])
        && let Some(place) = colon_without_space(line, lines)
    {
        return Mistake::new("", "a `:` after a key needs a space behind it")
            .at(place)
            .help("write `key: value`");
    }
    let (message, help) = if has(&["quoted scalar, found unexpected", "indentation in quoted"]) {
        QUOTE
    } else if has(&["unknown anchor"]) {
        ("this alias refers to no anchor above it", "put text that begins with `*` in quotes")
    } else if has(&["unexpected character"]) {
        ("text without quotes cannot begin with this character", "put the text in quotes")
    } else if has(&["comment intercepting"]) {
        (
            "the text before this comment would go on in the next line",
            "check the indentation of the next line",
        )
    } else if has(&["unprintable"]) {
        ("a control character is not allowed in YAML", "take the character out")
    } else if let Some(opened) = opened {
        return Mistake::new("", "a list in `[]` or a section in `{}` is not closed before this place")
            .at(place)
            .also(opened, "opened here")
            .help("look for a missing `]`, `}` or `,`; put text that has one of them in it in quotes");
    } else if has(&["mapping values are not allowed"]) {
        (
            "a `:` is not expected here",
            "check the indentation of this line; put text that has `: ` in it in quotes",
        )
    } else if has(&["misplaced bracket"]) {
        ("this bracket closes nothing", "take it out, or put the text in quotes")
    } else if has(&["block mapping, did not find", "block collection, did not find", "invalid indentation"]) {
        ("the indentation of this line fits nothing above it", "indent it like the line that it belongs with")
    } else if has(&["simple key expect"]) {
        ("a key is not followed by a `:`", "write `key: value`")
    } else {
        return Mistake::new("", format!("not valid YAML: {info}")).at(place);
    };
    Mistake::new("", message).at(place).help(help)
}

/// The end of the last line that has something on it, where the parser stopped behind it.
fn within(line: usize, column: usize, lines: &[&str]) -> (usize, usize) {
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(1, |index| index + 1);
    if line > last {
        (last, lines.get(last - 1).map_or(1, |line| line.trim_end().chars().count().max(1)))
    } else {
        (line.max(1), column)
    }
}

/// A tab in the indentation of the line where the parser stopped, or of the one behind it, which it had
/// looked at.
fn tab_near(line: usize, lines: &[&str]) -> Option<Place> {
    (line..=line + 1).find_map(|line| {
        let text = lines.get(line - 1)?;
        let tab = text.find('\t')?;
        let indents = text[..tab].bytes().all(|b| b == b' ') && !text.trim().is_empty();
        indents.then_some(Place::new(line, tab + 1, 1))
    })
}

/// `key:value` in the line where the parser stopped, or in the one with text before it, with which it was taken for one
/// text.
fn colon_without_space(line: usize, lines: &[&str]) -> Option<Place> {
    let has_text = |text: &str| !text.trim().is_empty() && !text.trim_start().starts_with('#');
    let near = (1..=line).rev().filter(|line| lines.get(line - 1).is_some_and(|text| has_text(text)));
    near.take(2).find_map(|line| {
        let text = lines.get(line - 1)?;
        let bare = text.trim_start().trim_start_matches("- ");
        let indent = text.len() - bare.len();
        let colon = bare.find(':')?;
        let is_key = colon > 0 && bare[..colon].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let behind = bare[colon + 1..].chars().next()?;
        (is_key && !behind.is_whitespace() && behind != ':' && !bare[colon..].starts_with("://"))
            .then_some(Place::new(line, text[..indent].chars().count() + 1, colon + 1))
    })
}

/// A bracket or a quote that is still open where a line begins that stands no deeper than the bracket's own, up to the line where
/// the parser stopped or the one behind it.
fn not_closed(line: usize, lines: &[&str]) -> Option<(Place, char)> {
    let mut open: Vec<(Place, char, usize)> = Vec::new();
    let mut quote: Option<(Place, char, usize)> = None;
    for (number, text) in (1..=line + 1).zip(lines) {
        let bare = text.trim_start();
        let indent = text.len() - bare.len();
        let is_comment = quote.is_none() && bare.starts_with('#');
        if let Some((place, sign, deep)) = quote.as_ref().or(open.first())
            && indent <= *deep
            && !bare.is_empty()
            && !is_comment
            && !bare.starts_with([']', '}'])
        {
            return Some((*place, *sign));
        }
        // What a value may stand behind.
        let mut may_open = true;
        let mut before = ' ';
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            let here = (Place::new(number, at + 1, 1), c, indent);
            match (c, quote.map(|(_, sign, _)| sign)) {
                ('\\', Some('"')) => drop(chars.next()),
                ('\'', Some('\'')) if chars.next_if(|(_, next)| *next == '\'').is_some() => {}
                (_, Some(closing)) if c == closing => quote = None,
                ('#', None) if before == ' ' => break,
                ('"' | '\'', None) if may_open => quote = Some(here),
                ('[' | '{', None) if may_open || !open.is_empty() => open.push(here),
                (']' | '}', None) => match open.pop() {
                    Some((place, bracket, _)) if (bracket == '[') != (c == ']') => {
                        return Some((place, bracket));
                    }
                    _ => {}
                },
                _ => {}
            }
            may_open = match c {
                ' ' => may_open || matches!(before, ':' | '-'),
                '[' | '{' | ',' => !open.is_empty(),
                _ => false,
            };
            before = c;
        }
    }
    None
}
