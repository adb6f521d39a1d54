//! Which model a recipe serves, and where its weights are.

use super::draft::Draft;
use super::recipe::{Placed, Recipe};
use super::report::{Refused, Report};
use crate::profile::Model;

/// The model's folder and source, and the name that clients know it by where the recipe says none.
pub(super) struct Chosen {
    pub(super) model: Model,
    pub(super) name: String,
}

/// Decides between what the recipe names and what its command serves. `models` is the folder of all models.
pub(super) fn choose(
    recipe: &Recipe,
    draft: &Draft,
    models: &str,
    report: &mut Report,
) -> Result<Chosen, Refused> {
    let named = recipe.model.as_ref().filter(|model| model.text != "local");
    let served = draft.model.as_ref();
    let line = served.or(named).map_or(0, |model| model.line);
    for model in [named, served].into_iter().flatten() {
        let lower = format!("{}:", model.text.to_lowercase());
        if lower.ends_with(".gguf:") || lower.contains("-gguf:") {
            let message =
                format!("`{}` is weights in the GGUF format, and sparkctl has no engine for it", model.text);
            return Err(Refused::new(model.line, message).hint("take a recipe with weights in safetensors"));
        }
    }
    let model = match (named, served) {
        (Some(named), Some(served)) if is_path(served) && !is_path(named) => {
            let is_resolved = recipe.model_path.as_ref().is_some_and(|path| path.text == served.text);
            if !is_resolved {
                let why =
                    format!("sparkctl serves the weights of `{}` themselves, from `model.path`", named.text);
                report.lose(served.line, &served.text, why);
            }
            named
        }
        (Some(named), Some(served)) if is_path(served) || is_hub(&served.text) => {
            if named.text != served.text {
                report.lose(named.line, format!("model: {}", named.text), "the command serves another");
            }
            served
        }
        (Some(named), Some(served)) => {
            report.lose(served.line, &served.text, format!("the weights are those of `{}`", named.text));
            named
        }
        (None, Some(model)) | (Some(model), None) => model,
        (None, None) => return Err(Refused::new(0, "the recipe names no model")),
    };
    if !is_path(model) && !is_hub(&model.text) {
        let message = format!("`{}` is neither a model of the Hub nor an absolute path", model.text);
        return Err(Refused::new(line, message));
    }
    Ok(place(recipe, draft, model, models, report))
}

fn place(recipe: &Recipe, draft: &Draft, model: &Placed, models: &str, report: &mut Report) -> Chosen {
    let last = model.text.trim_end_matches('/').rsplit('/').next().unwrap_or("model");
    if is_path(model) {
        report.ask(
            "`model.path` is the path that the recipe has; in its container it may be another folder than on the nodes",
        );
        let model = Model { path: model.text.clone(), source: None };
        return Chosen { name: last.to_owned(), model };
    }
    let revision = draft.revision.as_ref().or(recipe.revision.as_ref());
    let revision = revision.filter(|revision| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_one = revision
            .text
            .split('/')
            .all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(plain));
        if !is_one {
            report.lose(revision.line, &revision.text, "it is no revision");
        }
        is_one
    });
    let source = match revision {
        Some(revision) => format!("hf:{}@{}", model.text, revision.text),
        None => format!("hf:{}", model.text),
    };
    let path = match &recipe.model_path {
        Some(path) if is_path(path) => path.text.clone(),
        _ => {
            report.ask(format!(
                "the weights are taken to be in `{models}/{last}` on every node, or at first on one of them"
            ));
            format!("{models}/{last}")
        }
    };
    Chosen { model: Model { path, source: Some(source) }, name: model.text.clone() }
}

fn is_path(model: &Placed) -> bool {
    model.text.starts_with('/')
}

/// `OWNER/NAME`.
pub(super) fn is_hub(text: &str) -> bool {
    let word = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split_once('/').is_some_and(|(owner, name)| word(owner) && word(name))
}
