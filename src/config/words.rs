//! What is wrong with a value, in people's words.

use super::tree::{Node, Value, section_words};
use super::value::Wrong;

/// The message and the help for a value that is not of its type.
pub(super) fn value(wrong: &Wrong, node: &Node) -> (String, Option<String>) {
    match wrong {
        Wrong::Choice { known } => choice(known, node),
        Wrong::Type { expected } => {
            let expected = expected_words(expected);
            (format!("expected {expected}, found {}", found(node)), remedy(expected, node))
        }
        Wrong::Range { expected } => {
            let range = if expected.contains("u32") {
                "from 0 to 4294967295".to_owned()
            } else if expected.starts_with('u') {
                "that is not negative".to_owned()
            } else {
                format!("({expected})")
            };
            (format!("expected a whole number {range}, found {}", bare(node)), None)
        }
        Wrong::Other(text) if text == "invalid IPv4 address syntax" => address(node),
        Wrong::Other(text) => (text.clone(), None),
        // Not about a value; the reader has its own words for them.
        Wrong::UnknownKey { key, known } => unknown_key(key, "", known),
        Wrong::MissingKey(key) => (missing_keys(&[key], ""), None),
    }
}

/// The message and the help for a key that `section` doesn't have.
pub(super) fn unknown_key(key: &str, section: &str, known: &[&str]) -> (String, Option<String>) {
    let message = format!("unknown key `{key}` {}", section_words(section));
    let help = if key == "<<" {
        "YAML 1.2 has no merge keys: write the keys out, or use an alias for a whole value".to_owned()
    } else {
        match nearest(key, known).or_else(|| nearest_part(key, known)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if section.is_empty() => format!("the keys at the top level are {}", listed(known, "and")),
            None => format!("the keys of `{section}` are {}", listed(known, "and")),
        }
    };
    (message, Some(help))
}

/// The message for keys that have to be in `section` and are not.
pub(super) fn missing_keys(keys: &[&str], section: &str) -> String {
    let word = if keys.len() == 1 { "key" } else { "keys" };
    format!("missing {word} {} {}", listed(keys, "and"), section_words(section))
}

/// `` `a`, `b` and `c` ``.
fn listed(words: &[&str], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((end, begin)) if !begin.is_empty() => format!("{} {last} {end}", begin.join(", ")),
        _ => quoted.concat(),
    }
}

fn choice(known: &[&str], node: &Node) -> (String, Option<String>) {
    let message = format!("expected {}, found {}", listed(known, "or"), found(node));
    let near = match &node.value {
        Value::Text(text) => nearest(text, known).map(|near| format!("did you mean `{near}`?")),
        _ => None,
    };
    (message, near)
}

fn address(node: &Node) -> (String, Option<String>) {
    let Value::Text(text) = &node.value else {
        return (format!("expected an IPv4 address, found {}", found(node)), None);
    };
    let help = match text.split_once('/') {
        Some((address, _)) if address.parse::<std::net::Ipv4Addr>().is_ok() => {
            format!("write the address without the length of its network: `{address}`")
        }
        _ => "write it like `192.168.200.12`".to_owned(),
    };
    (format!("`{text}` is not an IPv4 address"), Some(help))
}

/// What a type calls itself, in words that fit behind "expected".
fn expected_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "text",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list",
        "IPv4 address" => "an IPv4 address",
        "a map" => "a section with keys",
        _ if expected.starts_with("struct ") => "a section with keys",
        _ => expected,
    }
}

/// What stands in the file.
fn found(node: &Node) -> String {
    match &node.value {
        Value::Null | Value::StandIn(_) => "nothing".to_owned(),
        Value::Bool(_) => format!("the truth value {}", bare(node)),
        Value::Int(_) => format!("the whole number {}", bare(node)),
        Value::Float(..) => format!("the number {}", bare(node)),
        Value::Text(_) => format!("the text {}", bare(node)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a section with keys".to_owned(),
    }
}

/// A scalar as it is written, in backticks.
fn bare(node: &Node) -> String {
    match &node.value {
        Value::Bool(is) => format!("`{is}`"),
        Value::Int(whole) => format!("`{whole}`"),
        Value::Text(text) if text.chars().count() > 60 => {
            format!("`{}...`", text.chars().take(57).collect::<String>())
        }
        Value::Text(text) | Value::Float(_, text) => format!("`{text}`"),
        _ => found(node),
    }
}

/// What to write instead, where one can know it.
fn remedy(expected: &str, node: &Node) -> Option<String> {
    let text = match &node.value {
        Value::Bool(is) => is.to_string(),
        Value::Int(whole) => whole.to_string(),
        Value::Float(_, text) | Value::Text(text) => text.clone(),
        Value::Null => {
            return Some(match expected {
                "a section with keys" => {
                    "indent the section's keys below it, or write `{}` if it has none".to_owned()
                }
                "a list" => "write its elements below it, or `[]` if it has none".to_owned(),
                _ => "write the value behind the `:`".to_owned(),
            });
        }
        _ => return None,
    };
    let is_text = matches!(node.value, Value::Text(_));
    if !node.variables.is_empty() {
        // What is written is not the value: only quotes make a difference to it.
        let is_number = is_text && text.parse::<f64>().is_ok() && expected.ends_with("number");
        return match expected {
            _ if expected.starts_with("text") => Some("put it in quotes, so that it stays text".to_owned()),
            _ if is_number => Some("take the quotes away: what is in quotes stays text".to_owned()),
            _ => None,
        };
    }
    match expected {
        _ if expected.starts_with("text") => Some(format!("put it in quotes: `\"{text}\"`")),
        "a list" => Some(format!("write it as a list: `[{text}]`")),
        "`true` or `false`" if matches!(text.to_lowercase().as_str(), "yes" | "on" | "y" | "true" | "1") => {
            Some("write `true`".to_owned())
        }
        "`true` or `false`" if matches!(text.to_lowercase().as_str(), "no" | "off" | "n" | "false" | "0") => {
            Some("write `false`".to_owned())
        }
        "a whole number" if is_text && text.parse::<u64>().is_ok() => {
            Some(format!("without quotes: `{text}`"))
        }
        "a number" if is_text && text.parse::<f64>().is_ok() => Some(format!("without quotes: `{text}`")),
        "a number" if is_text => {
            let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
            Some(format!("write `{}`", percent / 100.0))
        }
        _ if expected.starts_with("a duration") && !is_text => {
            Some(format!("say the unit too: `{text}s` for seconds, `m` for minutes, `h` for hours"))
        }
        _ => None,
    }
}

/// The word of `known` that was meant by `word`, if one is near enough.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word: String = word.chars().take(60).collect::<String>().to_lowercase().replace(['-', ' '], "_");
    known
        .iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(&word, known), *known))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// The one word of `known` that has a part (`memory` of `memory_fraction`) that was meant by `word`.
fn nearest_part<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let mut near = known.iter().filter(|known| {
        let mut parts = known.split('_').filter(|part| part.len() > 2 && part.len() < known.len());
        parts.any(|part| strsim::normalized_damerau_levenshtein(word, part) >= 0.8)
    });
    near.next().copied().filter(|_| near.next().is_none())
}
