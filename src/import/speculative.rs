//! Speculative decoding: the field of a profile where it says all, the engine's own flags where it does not.

use serde_json::{Map, Value};

use crate::engine::MODEL_TARGET;
use crate::profile::{EngineKind, Speculative};

use super::draft::Draft;
use super::flags::Flag;
use super::model::is_hub;
use super::report::Report;
use super::shell::Word;

/// The field; what it cannot say becomes arguments of `draft`. `folder` is where the weights are.
pub(super) fn take(
    kind: EngineKind,
    draft: &mut Draft,
    folder: &str,
    report: &mut Report,
) -> Option<Speculative> {
    let mut all = std::mem::take(&mut draft.speculative);
    if all.is_empty() {
        return None;
    }
    let line = draft.speculative_line;
    draft_model(&mut all, line, folder, report);
    let text = |key: &str| all.get(key).and_then(Value::as_str).map(str::to_owned);
    let tokens = all.get("num_speculative_tokens").and_then(Value::as_u64);
    let field = text("method")
        .zip(tokens.and_then(|tokens| tokens.try_into().ok()))
        .map(|(method, tokens)| Speculative { method, tokens, model: text("model") });
    let says_all =
        all.keys().all(|key| ["method", "num_speculative_tokens", "model"].contains(&key.as_str()));
    if field.is_some() && says_all {
        return field;
    }
    // An engine's own words say more than the field: they stay its own.
    draft.args.extend(arguments(kind, &all, line));
    None
}

/// A draft model of the Hub has to be where the container sees it: in the model's own folder.
fn draft_model(all: &mut Map<String, Value>, line: usize, folder: &str, report: &mut Report) {
    let Some(model) =
        all.get("model").and_then(Value::as_str).filter(|model| is_hub(model)).map(str::to_owned)
    else {
        return;
    };
    let name = model.rsplit('/').next().unwrap_or(&model);
    let revision = match all.shift_remove("revision").as_ref().and_then(Value::as_str) {
        Some(revision) => format!(" at revision `{revision}`"),
        None => String::new(),
    };
    report.ask(format!(
        "line {line}: the draft model `{model}`{revision} has to be in the model's folder, as `{folder}/{name}`: put it \
         there, since only that folder is in the container"
    ));
    all.insert("model".to_owned(), format!("{MODEL_TARGET}/{name}").into());
}

/// The engine's own flags for it.
fn arguments(kind: EngineKind, all: &Map<String, Value>, line: usize) -> Vec<Flag> {
    let flag = |name: &str, value: String| Flag {
        name: name.to_owned(),
        line,
        values: vec![Word { text: value, line, shell: None }],
        joined: false,
        meaning: None,
    };
    match kind {
        EngineKind::Vllm => vec![flag("--speculative-config", Value::Object(all.clone()).to_string())],
        EngineKind::Sglang => all
            .iter()
            .map(|(key, value)| {
                let name = match key.as_str() {
                    "method" => "--speculative-algorithm",
                    "model" => "--speculative-draft-model-path",
                    _ => "--speculative-num-draft-tokens",
                };
                flag(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
            .collect(),
    }
}
