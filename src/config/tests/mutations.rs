//! Two hundred good profiles with one mistake each: every one is told at the line of the mistake, and nothing else is.
//!
//! The mutations know the language's layout, not the program: which line they touched is their own knowledge.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

use super::*;

/// A `key: value` with a single value, in a block or in braces.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[{,] ?|^ *(?:- )?)(?<key>[a-z_]+): (?<value>"[^"]*"|[^\s"\[\]{},#][^\[\]{},#]*?)(?<end> *(?:[,}#]|$))"#).unwrap()
});

const WHOLE: &[&str] = &[
    "version",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_length",
    "max_requests",
    "tokens",
    "port",
    "input_tokens",
    "output_tokens",
];
const TRUTH: &[&str] =
    &["chat", "reasoning", "tools", "expert_parallel", "prefix_caching", "trust_remote_code"];
const CHOICE: &[&str] = &["kind", "launch", "on_failure", "conflicts"];
const REQUIRED: &[&str] =
    &["version", "name", "path", "reference", "kind", "tensor_parallel", "port", "host", "fabric"];

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.roll(all.len())])
    }
}

#[derive(Debug, Clone, Copy)]
struct Field<'a> {
    /// From 0.
    line: usize,
    key: &'a str,
    value: &'a str,
    /// Bytes of its line: where the key, the value and what belongs to it begin and end.
    at: (usize, usize, usize),
}

/// A good profile that is to be spoilt.
struct Good<'a> {
    lines: Vec<&'a str>,
    fields: Vec<Field<'a>>,
}

/// The text with a mistake, and the line that has to be named; none where the file as a whole lacks something.
type Spoilt = Option<(String, Option<usize>)>;

impl<'a> Good<'a> {
    fn new(text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().collect();
        let mut fields = Vec::new();
        for (line, text) in lines.iter().enumerate().filter(|(_, text)| !text.trim_start().starts_with('#')) {
            let mut from = 0;
            while let Some(found) = FIELD.captures_at(text, from) {
                let (key, value) = (found.name("key").unwrap(), found.name("value").unwrap());
                let at = (key.start(), value.start(), value.end());
                fields.push(Field { line, key: key.as_str(), value: value.as_str(), at });
                from = value.end();
            }
        }
        Self { lines, fields }
    }

    fn any(&self, dice: &mut Dice, wanted: impl Fn(&Field<'_>) -> bool) -> Option<Field<'a>> {
        let fitting: Vec<_> = self.fields.iter().filter(|field| wanted(field)).copied().collect();
        dice.pick(&fitting)
    }

    #[expect(clippy::unnecessary_wraps, reason = "what every mutation answers")]
    fn with_line(&self, line: usize, text: &str) -> Spoilt {
        let mut lines = self.lines.clone();
        lines[line] = text;
        Some((lines.join("\n") + "\n", Some(line + 1)))
    }

    fn with_key(&self, field: Field<'_>, key: &str) -> Spoilt {
        let text = self.lines[field.line];
        let (begin, end) = (field.at.0, field.at.0 + field.key.len());
        self.with_line(field.line, &format!("{}{key}{}", &text[..begin], &text[end..]))
    }

    fn with_value(&self, field: Field<'_>, value: &str) -> Spoilt {
        let text = self.lines[field.line];
        self.with_line(field.line, &format!("{}{value}{}", &text[..field.at.1], &text[field.at.2..]))
    }

    fn indent(&self, line: usize) -> usize {
        let text = self.lines[line];
        text.len() - text.trim_start_matches([' ', '-']).len()
    }

    /// Whether a line is a key of a block with its value, and nothing else.
    fn is_alone(&self, field: &Field<'_>) -> bool {
        let text = self.lines[field.line];
        text.trim_start().starts_with(field.key) && !text[..field.at.0].contains('-')
    }

    /// The line of the section that a line is in; none at the top level.
    fn section(&self, line: usize) -> Option<usize> {
        let indent = self.indent(line);
        let is_above = |above: &usize| {
            let text = self.lines[*above];
            let is_text = !text.trim().is_empty() && !text.trim_start().starts_with('#');
            is_text
                && (self.indent(*above) < indent
                    || text.trim_start().starts_with("- ") && self.indent(*above) == indent)
        };
        (0..line).rev().find(is_above)
    }
}

fn misspelt_key(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| field.key.len() > 3)?;
    let mut letters: Vec<char> = field.key.chars().collect();
    let at = dice.roll(letters.len() - 1);
    if letters[at] == letters[at + 1] {
        letters.remove(at);
    } else {
        letters.swap(at, at + 1);
    }
    good.with_key(field, &letters.into_iter().collect::<String>())
}

fn unknown_key(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| good.is_alone(field))?;
    let key = dice.pick(&["zzz", "colour", "gpu_model", "replicas"])?;
    let mut lines = good.lines.clone();
    let line = format!("{}{key}: 1", " ".repeat(good.indent(field.line)));
    lines.insert(field.line, &line);
    Some((lines.join("\n") + "\n", Some(field.line + 1)))
}

fn dropped_key(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let in_node =
        |field: &Field<'_>| good.section(field.line).is_some_and(|line| good.lines[line].contains("nodes:"));
    let field = good.any(dice, |field| {
        let of_serve = field.key == "name" && good.lines[field.line].contains("serve:");
        let text = good.lines[field.line];
        let is_dash = text.trim_start().starts_with("- ") && !text.contains('{');
        let is_optional_name = field.key == "name" && field.line > 3 && !in_node(field);
        REQUIRED.contains(&field.key) && !of_serve && !is_dash && !is_optional_name
    })?;
    let text = good.lines[field.line];
    if good.is_alone(&field) {
        let mut lines = good.lines.clone();
        lines.remove(field.line);
        let section = good.section(field.line).map(|line| line + 1);
        let is_last = section.is_some_and(|line| lines.get(line).is_none_or(|next| good_indent(next) == 0));
        return (!is_last).then(|| (lines.join("\n") + "\n", section));
    }
    let rest = text[field.at.2..].trim_start_matches([',', ' ']);
    let before = if rest.starts_with('}') {
        text[..field.at.0].trim_end_matches([',', ' '])
    } else {
        &text[..field.at.0]
    };
    good.with_line(field.line, &format!("{before}{}{rest}", if rest.starts_with('}') { " " } else { "" }))
}

fn good_indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn dropped_section(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let name = dice.pick(&["cluster:", "model:", "image:", "engine:", "serve:"])?;
    let first = good.lines.iter().position(|line| line.starts_with(name))?;
    let length = 1 + good.lines[first + 1..].iter().take_while(|line| line.starts_with(' ')).count();
    let mut lines = good.lines.clone();
    lines.drain(first..first + length);
    Some((lines.join("\n") + "\n", None))
}

fn wrong_type(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |_| true)?;
    let values: &[&str] = match field.key {
        key if WHOLE.contains(&key) => &["abc", "[1]", "{a: 1}", "1.5", "\"2\"", "true"],
        key if TRUTH.contains(&key) => &["yes", "1", "[true]", "\"true\""],
        "memory_fraction" => &["most", "80%", "[0.5]", "true"],
        key if CHOICE.contains(&key) => &["1", "[a]", "true"],
        "timeout" | "stall" => &["45", "45 min", "[1m]", "1.5h"],
        "concurrency" => return None,
        _ => &["1", "[a]", "{a: b}", "1.5", "true"],
    };
    good.with_value(field, dice.pick(values)?)
}

fn out_of_range(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good
        .any(dice, |field| [WHOLE, &["memory_fraction", "timeout", "stall"]].concat().contains(&field.key))?;
    let values: &[&str] = match field.key {
        "version" => &["0", "2"],
        "port" => &["0", "70000", "-1"],
        "tensor_parallel" => &["0", "-2", "4294967296"],
        "memory_fraction" => &["0", "1.01", "-0.5", "80", ".nan"],
        "timeout" | "stall" => &["0s", "0m"],
        "context_length" | "input_tokens" | "output_tokens" => &["0", "-1", "99999999999"],
        _ => return None,
    };
    good.with_value(field, dice.pick(values)?)
}

fn duplicate_key(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |_| true)?;
    let text = good.lines[field.line];
    if good.is_alone(&field) {
        let mut lines = good.lines.clone();
        lines.insert(field.line, text);
        return Some((lines.join("\n") + "\n", Some(field.line + 2)));
    }
    let copy = &text[field.at.0..field.at.2];
    (text.contains('{'))
        .then(|| good.with_line(field.line, &text.replacen(copy, &format!("{copy}, {copy}"), 1)))?
}

fn bad_indentation(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    // Behind another single value of the same section, so that it can belong to nothing.
    let field = good.any(dice, |field| {
        let above = field.line.checked_sub(1).map(|line| good.lines[line]);
        let is_behind = above.is_some_and(|above| {
            FIELD.is_match(above)
                && !above.contains(['#', '{', '['])
                && good.indent(field.line - 1) == good.indent(field.line)
        });
        good.is_alone(field) && is_behind
    })?;
    good.with_line(field.line, &format!("{}{}", " ".repeat(1 + dice.roll(3)), good.lines[field.line]))
}

fn tab(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| good.is_alone(field) && good.indent(field.line) > 0)?;
    good.with_line(field.line, &format!("\t{}", good.lines[field.line].trim_start()))
}

fn unclosed_quote(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| !field.value.starts_with('"'))?;
    let quote = dice.pick(&["\"", "'"])?;
    good.with_value(field, &format!("{quote}{}", field.value))
}

fn unclosed_bracket(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let lines: Vec<_> = (0..good.lines.len())
        .filter(|line| {
            good.lines[*line].contains([']', '}']) && !good.lines[*line].trim_start().starts_with('#')
        })
        .collect();
    let line = dice.pick(&lines)?;
    let text = good.lines[line];
    let closing: Vec<_> = text.match_indices([']', '}']).map(|(at, _)| at).collect();
    let at = dice.pick(&closing)?;
    good.with_line(line, &format!("{}{}", &text[..at], &text[at + 1..]))
}

fn no_space(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| good.is_alone(field))?;
    let text = good.lines[field.line];
    good.with_line(field.line, &text.replacen(": ", ":", 1))
}

fn wrong_word(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| CHOICE.contains(&field.key))?;
    let cut = dice.roll(field.value.len());
    good.with_value(field, &format!("{}x{}", &field.value[..cut], &field.value[cut + 1..]))
}

fn twin_nodes(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let key = dice.pick(&["name", "host", "fabric"])?;
    let text = |line: usize| good.lines[line].trim_start();
    let of_node = |field: &&Field<'_>| {
        let begin =
            if text(field.line).starts_with("- ") { Some(field.line) } else { good.section(field.line) };
        field.key == key && begin.is_some_and(|line| text(line).starts_with("- "))
    };
    let mut nodes = good.fields.iter().filter(of_node);
    let (first, second) = (nodes.next()?, nodes.next()?);
    good.with_value(*second, first.value)
}

fn bad_address(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |field| field.key == "fabric")?;
    let bad = [
        "192.168.200",
        "192.168.200.12/24",
        "127.0.0.1",
        "300.1.1.1",
        "spark1",
        "0.0.0.0",
        "224.0.0.1",
        "fe80::1",
    ];
    good.with_value(field, dice.pick(&bad)?)
}

fn bad_text(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field =
        good.any(dice, |field| ["name", "host", "path", "reference", "source", "user"].contains(&field.key))?;
    let values: &[&str] = match field.key {
        "host" => &["localhost", "\"a b\"", "me@host", "\"host:22\"", "-oProxyCommand=x"],
        "path" => &["models/x", "~/models", "/", "/a/../b"],
        "reference" => &["\"a b\"", "\"\"", "-x"],
        "source" => &["Qwen/Qwen3", "hf:Qwen", "https://huggingface.co/Qwen/Qwen3"],
        _ => &["\"a b\"", "-x", "\"\""],
    };
    good.with_value(field, dice.pick(values)?)
}

fn reserved(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let spoilt = dice.pick(&[
        "  args: [--port=8000]",
        "  args: [--enable-x, --host, \"0.0.0.0\"]",
        "  args: [\"--a b\"]",
        "  env: { NCCL_IB_HCA: x }",
        "  env: { NCCL_SOCKET_IFNAME: eth0 }",
        "  env: { A: 1 }",
        "  env: { T: { env: A, file: b } }",
    ])?;
    let key = spoilt.split_once(':')?.0;
    if let Some(line) = good.lines.iter().position(|line| line.starts_with(&format!("{key}:"))) {
        return good.with_line(line, spoilt);
    }
    let engine = good.lines.iter().position(|line| *line == "engine:")?;
    let mut lines = good.lines.clone();
    lines.insert(engine + 1, spoilt);
    Some((lines.join("\n") + "\n", Some(engine + 2)))
}

fn other_yaml(good: &Good<'_>, dice: &mut Dice) -> Spoilt {
    let field = good.any(dice, |_| true)?;
    let value = match dice.roll(4) {
        0 => "*nowhere".to_owned(),
        1 => format!("!!str {}", field.value),
        2 => "${SURELY_NOT_SET}".to_owned(),
        _ => "@x".to_owned(),
    };
    good.with_value(field, &value)
}

type Mutation = (&'static str, fn(&Good<'_>, &mut Dice) -> Spoilt);

const MUTATIONS: &[Mutation] = &[
    ("misspelt key", misspelt_key),
    ("unknown key", unknown_key),
    ("dropped key", dropped_key),
    ("dropped section", dropped_section),
    ("wrong type", wrong_type),
    ("out of range", out_of_range),
    ("duplicate key", duplicate_key),
    ("bad indentation", bad_indentation),
    ("tab", tab),
    ("unclosed quote", unclosed_quote),
    ("unclosed bracket", unclosed_bracket),
    ("no space", no_space),
    ("wrong word", wrong_word),
    ("twin nodes", twin_nodes),
    ("bad address", bad_address),
    ("bad text", bad_text),
    ("reserved", reserved),
    ("other YAML", other_yaml),
];

#[test]
fn two_hundred_mistakes_are_told_at_their_lines() {
    let profiles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut files: Vec<_> = std::fs::read_dir(profiles).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files.push(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/annotated.yaml"));
    let texts: Vec<_> = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let goods: Vec<_> = texts.iter().map(|text| Good::new(text)).collect();

    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut count, mut failed) = (0, String::new());
    let mut dice = Dice(20_261_130);
    for round in 0.. {
        if count == 200 {
            break;
        }
        assert!(round < 2000, "only {count} mistakes could be made: {done:?}");
        let (name, mutation) = MUTATIONS[round % MUTATIONS.len()];
        // The next profile that has what is to be spoilt.
        let first = dice.roll(goods.len());
        let mut all = (first..first + goods.len()).map(|which| which % goods.len());
        let Some((which, (text, line))) =
            all.find_map(|which| Some((which, mutation(&goods[which], &mut dice)?)))
        else {
            continue;
        };
        let good = &goods[which];
        let changed = || {
            let new = text.lines().zip(&good.lines).find(|(new, old)| new != *old);
            format!("{name}: {:?}, at line {line:?}", new.map(|(new, _)| new))
        };
        match parse(&files[which].display().to_string(), &text) {
            Ok(_) => writeln!(failed, "{}: taken for good", changed()).unwrap(),
            Err(error) if error.problems().len() != 1 || error.problems()[0].line != line => {
                writeln!(failed, "{}:\n{error}\n", changed()).unwrap();
            }
            Err(_) => {}
        }
        count += 1;
        *done.entry(name).or_default() += 1;
    }
    assert!(failed.is_empty(), "{failed}");
    for (name, _) in MUTATIONS {
        assert!(done.get(name).is_some_and(|count| *count >= 5), "few of `{name}` were made: {done:?}");
    }
}
