//! The profile of a recipe as a file for people: the fields that say something, under a head that tells where it came
//! from and what was not carried over.

use std::fmt::Write;

use super::{Imported, Item};
use crate::init::write::schema_line;
use crate::profile::{EngineKind, EnvValue, Launch, Profile, Ready, SecretSource, Verify};

/// Columns of a comment.
const WIDTH: usize = 112;

/// The whole file. `source` is the recipe as it was named; `schema` is where an editor finds the schema.
pub fn yaml(imported: &Imported, source: &str, schema: &str) -> String {
    let mut out = format!("{}\n", schema_line(schema));
    if let Some(description) = &imported.description {
        comment(&mut out, "# ", "# ", description);
        out.push_str("#\n");
    }
    let made = format!("Made by `sparkctl import` from {source} ({}).", imported.format.name());
    comment(&mut out, "# ", "# ", &made);
    let report = &imported.report;
    head(&mut out, "To do before it is deployed:", report.to_do.iter().map(String::clone));
    head(&mut out, "Not carried over:", report.not_carried.iter().map(written));
    head(&mut out, "Not needed:", report.not_needed.iter().map(written));
    out.push('\n');
    profile(&mut out, imported);
    out
}

/// `line 12: --x y: why`.
pub fn written(item: &Item) -> String {
    let what = item.what.split_whitespace().collect::<Vec<_>>().join(" ");
    match item.line {
        Some(line) => format!("line {line}: `{what}`: {}", item.why),
        None => format!("`{what}`: {}", item.why),
    }
}

fn head(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        comment(out, "# ", "# ", title);
        lines.for_each(|line| comment(out, "#   - ", "#     ", &line));
    }
}

/// A comment, cut into lines at white space; nothing that would end it.
fn comment(out: &mut String, first: &str, next: &str, text: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + word.chars().count() >= WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            next.clone_into(&mut line);
        }
        line.extend([word, " "]);
        is_empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[expect(clippy::too_many_lines, reason = "one row a field")]
fn profile(out: &mut String, imported: &Imported) {
    let profile = &imported.profile;
    let engine = &profile.engine;
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line("version: 1".to_owned());
    line(format!("name: {}", scalar(profile.name.as_str())));
    line("cluster:".to_owned());
    if let Some(user) = &profile.cluster.user {
        line(format!("  user: {}", scalar(user)));
    }
    line("  nodes: # the first is the head".to_owned());
    for (index, node) in profile.cluster.nodes.iter().enumerate() {
        let number = index + 1;
        let (host, fabric) = if imported.stand_ins {
            (format!("\"${{SPARK{number}_HOST}}\""), format!("\"${{SPARK{number}_FABRIC}}\""))
        } else {
            (scalar(&node.host), node.fabric.to_string())
        };
        line(format!("    - {{ name: {}, host: {host}, fabric: {fabric} }}", scalar(node.name.as_str())));
    }
    line("model:".to_owned());
    line(format!("  path: {}", scalar(&profile.model.path)));
    if let Some(source) = &profile.model.source {
        line(format!("  source: {}", scalar(source)));
    }
    line("image:".to_owned());
    line(format!("  reference: {}", scalar(profile.image.reference.as_str())));
    line("engine:".to_owned());
    let kind = match engine.kind {
        EngineKind::Vllm => "vllm",
        EngineKind::Sglang => "sglang",
    };
    line(format!("  kind: {kind}"));
    match engine.launch {
        Some(Launch::Ray) => line("  launch: ray".to_owned()),
        Some(Launch::Native) => line("  launch: native".to_owned()),
        None => {}
    }
    line(format!("  tensor_parallel: {}", engine.tensor_parallel));
    let fields = [
        ("pipeline_parallel", (engine.pipeline_parallel > 1).then(|| engine.pipeline_parallel.to_string())),
        ("data_parallel", (engine.data_parallel > 1).then(|| engine.data_parallel.to_string())),
        ("expert_parallel", engine.expert_parallel.then(|| "true".to_owned())),
        ("context_length", engine.context_length.map(|value| value.to_string())),
        ("memory_fraction", engine.memory_fraction.map(|value| format!("{value:?}"))),
        ("max_requests", engine.max_requests.map(|value| value.to_string())),
        ("quantization", engine.quantization.as_deref().map(scalar)),
        ("kv_cache_type", engine.kv_cache_type.as_deref().map(scalar)),
        ("prefix_caching", engine.prefix_caching.map(|value| value.to_string())),
        ("trust_remote_code", engine.trust_remote_code.then(|| "true".to_owned())),
        ("chat_template", engine.chat_template.as_deref().map(scalar)),
        ("reasoning_parser", engine.reasoning_parser.as_deref().map(scalar)),
        ("tool_parser", engine.tool_parser.as_deref().map(scalar)),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            line(format!("  {field}: {value}"));
        }
    }
    if let Some(speculative) = &engine.speculative {
        line("  speculative:".to_owned());
        line(format!("    method: {}", scalar(&speculative.method)));
        line(format!("    tokens: {}", speculative.tokens));
        if let Some(model) = &speculative.model {
            line(format!("    model: {}", scalar(model)));
        }
    }
    if !engine.before.is_empty() {
        line("  before: # in each container, ahead of the engine".to_owned());
        for command in &engine.before {
            let words: Vec<_> = command.iter().map(|word| scalar(word)).collect();
            line(format!("    - [{}]", words.join(", ")));
        }
    }
    if !engine.args.is_empty() {
        line("  args: [".to_owned());
        // A flag a line, with its values.
        let mut rows: Vec<Vec<String>> = Vec::new();
        for arg in &engine.args {
            match rows.last_mut() {
                Some(row) if !super::flags::is_flag(arg) => row.push(scalar(arg)),
                _ => rows.push(vec![scalar(arg)]),
            }
        }
        for row in rows {
            line(format!("    {},", row.join(", ")));
        }
        // Less indented it would be no YAML.
        line("    ]".to_owned());
    }
    if !engine.env.is_empty() {
        line("  env:".to_owned());
        for (name, value) in &engine.env {
            let value = match value {
                EnvValue::Text(text) => scalar(text),
                EnvValue::Secret(SecretSource::Env(variable)) => format!("{{ env: {} }}", scalar(variable)),
                EnvValue::Secret(SecretSource::File(path)) => format!("{{ file: {} }}", scalar(path)),
                EnvValue::Secret(SecretSource::Command(words)) => {
                    let words: Vec<_> = words.iter().map(|word| scalar(word)).collect();
                    format!("{{ command: [{}] }}", words.join(", "))
                }
            };
            line(format!("    {}: {value}", scalar(name)));
        }
    }
    if !profile.files.is_empty() {
        line("files:".to_owned());
        for file in &profile.files {
            line(format!("  - {{ source: {}, target: {} }}", scalar(&file.source), scalar(&file.target)));
        }
    }
    let name =
        profile.serve.name.as_deref().map_or(String::new(), |name| format!(", name: {}", scalar(name)));
    line(format!("serve: {{ port: {}{name} }}", profile.serve.port));
    checks(&mut line, profile);
}

/// How it is proved, where that is not as ever.
fn checks(line: &mut dyn FnMut(String), profile: &Profile) {
    if profile.ready != Ready::default() {
        let minutes = profile.ready.timeout.as_secs().div_ceil(60);
        line(format!("ready: {{ timeout: {minutes}m }}"));
    }
    if profile.verify != Verify::default() {
        let Verify { chat, reasoning, tools, stream } = profile.verify;
        line(format!("verify: {{ chat: {chat}, reasoning: {reasoning}, tools: {tools}, stream: {stream} }}"));
    }
}

/// Text as YAML reads it back as the same text, and as a profile takes it for itself and not for a variable.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./@+-=".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        || (text.starts_with("--") && text.len() > 2);
    let other = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_word
        && text.chars().all(|c| plain(c) || c == ':')
        && !text.ends_with(':')
        && !other.contains(&text.to_lowercase().as_str())
    {
        return text.to_owned();
    }
    let text = literal(text);
    if text.contains('"') && !text.contains('\'') && text.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Text with every `$` that a profile would act on doubled.
fn literal(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' && matches!(rest.peek(), Some('$' | '{')) {
            out.push('$');
        }
    }
    out
}
