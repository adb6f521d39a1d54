//! What can be wrong with `engine`. What an engine itself refuses stands in its file in [`crate::engine`].

use super::{Problems, delivered, no_value};
use crate::engine::{self, Unfit};
use crate::profile::{Engine, EnvValue, Launch, Profile, SecretSource};

pub(super) fn check(profile: &Profile, problems: &mut Problems) {
    let engine = &profile.engine;
    let unfit = engine::engine(engine.kind).unfit(profile);
    let engine_says = |field: &str, problems: &mut Problems| {
        for Unfit { field, message, hint } in unfit.iter().filter(|unfit| unfit.field.starts_with(field)) {
            problems.add(format!("engine.{field}"), message, hint);
        }
    };
    engine_says("launch", problems);
    parallel(engine, profile.cluster.nodes.len(), problems);
    engine_says("data_parallel", problems);
    numbers(engine, problems);
    for (field, word) in [("quantization", &engine.quantization), ("kv_cache_type", &engine.kv_cache_type)] {
        if let Some(word) = word {
            value(field, word, "a word of the engine", problems);
        }
        engine_says(field, problems);
    }
    if let Some(speculative) = &engine.speculative {
        value("speculative.method", &speculative.method, "a method", problems);
        if speculative.tokens == 0 {
            let hint = "leave `speculative` out for none";
            problems.add("engine.speculative.tokens", "`tokens` has to be at least 1", hint);
        }
        if let Some(model) = &speculative.model {
            value("speculative.model", model, "a path", problems);
        }
        engine_says("speculative", problems);
    }
    if let Some(template) = &engine.chat_template {
        value("chat_template", template, "a path", problems);
    }
    lora(engine, problems);
    for (kind, most) in &engine.multimodal {
        if *most > 9999 {
            let kind = serde_json::to_string(kind).unwrap_or_default();
            let path = format!("engine.multimodal.{}", kind.trim_matches('"'));
            problems.add(path, format!("`{most}` in one request is more than any engine takes"), "");
        }
    }
    engine_says("lora", problems);
    engine_says("multimodal", problems);
    for (field, parser) in
        [("reasoning_parser", &engine.reasoning_parser), ("tool_parser", &engine.tool_parser)]
    {
        if let Some(parser) = parser {
            value(field, parser, "a parser's name", problems);
        }
    }
    delivered::before(engine, problems);
    args(profile, problems);
    env(engine, problems);
    delivered::secret_names(engine, problems);
}

/// Adapters: each `NAME=PATH` of a flag.
fn lora(engine: &Engine, problems: &mut Problems) {
    let Some(lora) = &engine.lora else { return };
    if lora.adapters.is_empty() {
        problems.add("engine.lora.adapters", "there are no adapters", "leave `lora` out for none");
    }
    if lora.max_rank == Some(0) {
        problems.add("engine.lora.max_rank", "`max_rank` has to be at least 1", "");
    }
    for (index, adapter) in lora.adapters.iter().enumerate() {
        let at = |field: &str| format!("lora.adapters[{index}].{field}");
        value(&at("name"), &adapter.name, "an adapter's name", problems);
        value(&at("path"), &adapter.path, "a path", problems);
        if adapter.name.contains(['=', ',']) {
            let message = format!("`{}` cannot be an adapter's name: it has `=` or `,` in it", adapter.name);
            problems.add(format!("engine.{}", at("name")), message, "");
        }
        if lora.adapters[..index].iter().any(|other| other.name == adapter.name) {
            let message = format!("two adapters are called `{}`", adapter.name);
            problems.add(format!("engine.{}", at("name")), message, "");
        }
    }
}

/// A text that becomes the value of a flag.
fn value(field: &str, text: &str, what: &str, problems: &mut Problems) {
    if let Some(why) = no_value(text) {
        problems.add(format!("engine.{field}"), format!("`{text}` cannot be {what}: {why}"), "");
    }
}

fn numbers(engine: &Engine, problems: &mut Problems) {
    if engine.context_length == Some(0) {
        problems.add(
            "engine.context_length",
            "`context_length` has to be at least 1",
            "leave it out for the model's own",
        );
    }
    if let Some(fraction) = engine.memory_fraction
        && !(fraction > 0.0 && fraction <= 1.0)
    {
        let message = format!("`memory_fraction` has to be more than 0 and at most 1, not {fraction}");
        let hint = if fraction > 1.0 && fraction <= 100.0 {
            format!("write `{}` for {fraction} %", fraction / 100.0)
        } else {
            String::new()
        };
        problems.add("engine.memory_fraction", message, &hint);
    }
    if engine.max_requests == Some(0) {
        let hint = "leave it out for the engine's default";
        problems.add("engine.max_requests", "`max_requests` has to be at least 1", hint);
    }
}

/// Each part of the model is computed by one GPU, and each node has one.
fn parallel(engine: &Engine, nodes: usize, problems: &mut Problems) {
    let sizes = [
        ("tensor_parallel", engine.tensor_parallel),
        ("pipeline_parallel", engine.pipeline_parallel),
        ("data_parallel", engine.data_parallel),
    ];
    let zeros: Vec<_> = sizes.iter().filter(|(_, size)| *size == 0).collect();
    for (field, _) in &zeros {
        problems.add(format!("engine.{field}"), format!("`{field}` has to be at least 1"), "");
    }
    let gpus = nodes as u64;
    let parts = engine.parts();
    if !zeros.is_empty() || gpus == 0 || parts == gpus {
        return;
    }
    let there_are =
        if gpus == 1 { "1 node with one GPU".to_owned() } else { format!("{gpus} nodes with one GPU each") };
    let factors: Vec<_> = sizes
        .iter()
        .filter(|(field, size)| *size > 1 || *field == "tensor_parallel")
        .map(|(field, size)| format!("`{field}` {size}"))
        .collect();
    let alone = factors.len() == 1;
    let product = if alone { String::new() } else { format!(", together {parts},") };
    let (set, message, otherwise) = if parts > gpus {
        let larger =
            format!("{}{product} is larger than the GPUs there are: {there_are}", factors.join(" times "));
        (format!("set it to {gpus}"), larger, "add nodes".to_owned())
    } else {
        let idle = gpus - parts;
        let word = if idle == 1 { "node" } else { "nodes" };
        let idle_ones =
            format!("{}{product} would leave {idle} {word} idle: {there_are}", factors.join(" times "));
        (format!("set it to {gpus}"), idle_ones, format!("take {idle} {word} out"))
    };
    let set = if alone { set } else { format!("make their product {gpus}") };
    problems.add("engine.tensor_parallel", message, &format!("{set}, or {otherwise}"));
}

fn args(profile: &Profile, problems: &mut Problems) {
    let engine = &profile.engine;
    let on_workers = engine.launch() == Launch::Native && profile.cluster.nodes.len() > 1;
    for (index, arg) in engine.args.iter().enumerate() {
        let path = format!("engine.args[{index}]");
        let end = arg.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(arg.len());
        let (flag, rest) = arg.split_at(end);
        if arg.contains('\0') {
            problems.add(path, "a NUL character cannot be in it", "");
        } else if arg.trim().is_empty() {
            problems.add(path, "the argument is empty", "take it out of the list");
        } else if let Some(reserved) = engine::reserved_arg(engine, flag) {
            problems.add(path, format!("sparkctl sets `{flag}` itself"), reserved.instead);
        } else if on_workers && matches!(flag, "--api-server-count" | "-asc") {
            let message = format!("`{flag}` does not go with nodes that have no endpoint");
            problems.add(path, message, "leave it out, or write `launch: ray`");
        } else if is_flag(flag) && rest.starts_with(char::is_whitespace) {
            let value = rest.trim().trim_matches('\'');
            let quote = if value.contains('"') { '\'' } else { '"' };
            let hint = format!("write two: `{quote}{flag}{quote}` and `{quote}{value}{quote}`");
            problems.add(path, format!("`{arg}` is one argument with a space in it, and no flag is"), &hint);
        }
    }
}

/// Whether a word is a flag, and not a value that begins with `-`, such as a number.
fn is_flag(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    name.len() < word.len()
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Why `name` cannot be a variable of a container. Dots and dashes are let through: programs read such names, shells do
/// not.
pub(super) fn no_variable(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.contains('=') {
        Some("it has `=` in it")
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("it has white space or a control character in it")
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        Some("it begins with a digit")
    } else {
        None
    }
}

fn env(engine: &Engine, problems: &mut Problems) {
    for (name, value) in &engine.env {
        let path = format!("engine.env.{name}");
        if let Some(why) = no_variable(name) {
            let message = format!("`{name}` cannot be a variable's name: {why}");
            problems.add_in_key(path, message, "write `NAME: \"value\"`");
        } else if let Some(instead) = engine::env::reserved(engine, name) {
            problems.add_in_key(path, format!("sparkctl sets `{name}` itself"), instead);
        } else {
            match value {
                EnvValue::Text(text) if text.contains('\0') => {
                    problems.add(path, "a NUL character cannot be in it", "");
                }
                EnvValue::Text(_) => {}
                EnvValue::Secret(source) => secret(source, &path, problems),
            }
        }
    }
}

pub(super) fn secret(source: &SecretSource, path: &str, problems: &mut Problems) {
    match source {
        SecretSource::Env(name) if name.is_empty() || name.contains(['=', '\0']) => {
            let message = format!("`{name}` cannot be a variable's name: it is empty or has `=` in it");
            problems.add(format!("{path}.env"), message, "write the name alone, e.g. `{ env: HF_TOKEN }`");
        }
        SecretSource::File(file) if file.is_empty() || file.contains('\0') => {
            let message =
                format!("`{file}` cannot be a file's path: it is empty or has a NUL character in it");
            problems.add(format!("{path}.file"), message, "");
        }
        SecretSource::Command(words) => match words.first() {
            None => problems.add(
                format!("{path}.command"),
                "there is no command in it",
                "write its words, e.g. `[pass, show, hf]`",
            ),
            Some(program) if program.is_empty() => {
                problems.add(format!("{path}.command[0]"), "the command's name is empty", "");
            }
            Some(_) => {
                for (index, _) in words.iter().enumerate().filter(|(_, word)| word.contains('\0')) {
                    problems.add(format!("{path}.command[{index}]"), "a NUL character cannot be in it", "");
                }
            }
        },
        SecretSource::Env(_) | SecretSource::File(_) => {}
    }
}
