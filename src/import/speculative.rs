//! Speculative decoding: the field of a profile where it says all, the engine's own flags where it does not. What
//! SGLang is told of it is always its own flags: it counts tokens otherwise for each method.

use serde_json::{Map, Value};

use crate::engine::MODEL_TARGET;
use crate::profile::Speculative;

use super::draft::Draft;
use super::flags::{Flag, Meaning};
use super::model::is_hub;
use super::report::Report;
use super::shell::Word;

/// The field; what it cannot say becomes arguments of `draft`. `folder` is where the weights are.
pub(super) fn take(draft: &mut Draft, folder: &str, report: &mut Report) -> Option<Speculative> {
    for flag in draft.args.iter_mut().filter(|flag| flag.meaning == Some(Meaning::DraftModel)) {
        if let Some(word) = flag.values.first_mut().filter(|word| is_hub(&word.text)) {
            word.text = beside(&word.text, None, flag.line, folder, report);
        }
    }
    let mut all = std::mem::take(&mut draft.speculative);
    let line = draft.speculative_line;
    if let Some(model) =
        all.get("model").and_then(Value::as_str).filter(|model| is_hub(model)).map(str::to_owned)
    {
        let revision = all.shift_remove("revision");
        let path = beside(&model, revision.as_ref().and_then(Value::as_str), line, folder, report);
        all.insert("model".to_owned(), path.into());
    }
    if all.is_empty() {
        return None;
    }
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
    draft.args.push(argument(&all, line));
    None
}

/// A draft model of the Hub has to be where the container sees it: in the model's own folder.
fn beside(model: &str, revision: Option<&str>, line: usize, folder: &str, report: &mut Report) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let revision = revision.map_or(String::new(), |revision| format!(" at revision `{revision}`"));
    report.ask(format!(
        "line {line}: the draft model `{model}`{revision} has to be in the model's folder, as `{folder}/{name}`: put \
         it there, since only that folder is in the container"
    ));
    format!("{MODEL_TARGET}/{name}")
}

fn argument(all: &Map<String, Value>, line: usize) -> Flag {
    Flag {
        name: "--speculative-config".to_owned(),
        line,
        values: vec![Word { text: Value::Object(all.clone()).to_string(), line, shell: None }],
        joined: false,
        meaning: None,
    }
}
