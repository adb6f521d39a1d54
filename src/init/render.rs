//! What `init` saw and did, for people. Pure.

use std::fmt::Write;

use jiff::Timestamp;

use super::draft::Draft;
use super::fabric::{Choice, End};
use super::pick::{ImageChoice, ModelChoice, ToDo};
use super::survey::{MemorySeen, NodeSurvey, Runs};
use crate::cluster::facts::{FoundModel, ModelForm};
use crate::memory::as_gib;
use crate::plan::render::size;
use crate::profile::EngineKind;
use crate::status::since;

/// Rows of a list that are shown; the rest is counted.
const MOST: usize = 15;

/// The nodes, one after another.
pub fn nodes(nodes: &[NodeSurvey], now: Timestamp) -> String {
    let mut out = String::new();
    for node in nodes {
        let host = if node.host == node.name.as_str() { String::new() } else { format!(" ({})", node.host) };
        let _ = writeln!(out, "{}{host}   {}", node.name, node.machine.join(", "));
        let gpus = if node.gpus.is_empty() {
            vec!["none that nvidia-smi tells".to_owned()]
        } else {
            node.gpus.clone()
        };
        rows(&mut out, "gpu", &gpus);
        rows(&mut out, "memory", &[memory(node.memory)]);
        if let Some(why) = &node.docker {
            rows(&mut out, "docker", &[format!("cannot be used: {why}")]);
        }
        let nothing = || vec!["nothing".to_owned()];
        let running: Vec<_> = node.runs.iter().flat_map(|runs| run(runs, now)).collect();
        rows(&mut out, "runs", &if running.is_empty() { nothing() } else { running });
        let mut models = aligned(node.models.iter().map(model).collect());
        if node.models_cut {
            models.push("(the search took too long and was ended: name folders by --models)".to_owned());
        }
        rows(&mut out, "models", &if models.is_empty() { nothing() } else { models });
        if node.docker.is_none() {
            let images: Vec<_> = node
                .images
                .iter()
                .map(|image| [image.reference.clone(), size(image.size), word(image.kind).to_owned()])
                .collect();
            let images =
                if images.is_empty() { vec!["none with an engine".to_owned()] } else { aligned(images) };
            rows(&mut out, "images", &images);
        }
        out.push('\n');
    }
    out
}

/// The fabric that was chosen, or why none was; and what else there is.
pub fn fabric(choice: &Choice) -> String {
    let mut out = String::new();
    match (&choice.chosen, &choice.refusal) {
        (Some(chosen), _) => {
            let subnet = chosen.subnet.map_or_else(|| "addresses".to_owned(), |subnet| subnet.to_string());
            let _ = writeln!(out, "fabric     {subnet}: {}", chosen.because);
            rows(&mut out, "", &aligned(chosen.ends.iter().map(end).collect()));
        }
        (None, Some(refusal)) => {
            let _ = writeln!(out, "fabric     not chosen: {}", refusal.message);
        }
        (None, None) => {}
    }
    let others: Vec<_> = choice
        .others
        .iter()
        .map(|other| {
            let against: Vec<_> = other.against.iter().map(ToString::to_string).collect();
            let places: Vec<_> = other.ends.iter().map(|end| end.interface.as_str()).collect();
            [other.subnet.to_string(), distinct(&places).join(", "), against.join("; ")]
        })
        .filter(|[_, _, against]| !against.is_empty())
        .collect();
    rows(&mut out, "not", &aligned(others));
    for warning in &choice.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    out
}

/// Model and image.
pub fn picks(model: &ModelChoice, image: &ImageChoice) -> String {
    let said = |what: Option<&str>, because: &str| match what {
        Some(what) => format!("{what}: {because}"),
        None => format!("not chosen: {because}"),
    };
    format!(
        "model      {}\nimage      {}\n",
        said(model.path.as_deref(), &model.because),
        said(image.reference.as_deref(), &image.because)
    )
}

/// What was written, and what comes next.
pub fn written(draft: &Draft, file: &str, schema: Option<&str>) -> String {
    let mut out = String::from("\n");
    for warning in &draft.settings.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    let schema = schema.map_or(String::new(), |schema| format!(", and {schema} for your editor"));
    let _ = writeln!(out, "wrote {file}{schema}");
    if !draft.to_do.is_empty() {
        out.push_str("\nbefore a deploy:\n");
        for ToDo { what, command } in &draft.to_do {
            let _ = writeln!(out, "  - {what}");
            if let Some(command) = command {
                let _ = writeln!(out, "        {command}");
            }
        }
    }
    let _ = writeln!(out, "\nnext:\n  sparkctl check {file}\n  sparkctl deploy {file}");
    out
}

/// A title in front of the first row.
fn rows(out: &mut String, title: &str, rows: &[String]) {
    for (index, row) in rows.iter().take(MOST).enumerate() {
        let title = if index == 0 { title } else { "" };
        let _ = writeln!(out, "{}", format!("  {title:8} {row}").trim_end());
    }
    if rows.len() > MOST {
        let _ = writeln!(out, "  {:8} ... and {} more", "", rows.len() - MOST);
    }
}

/// Rows whose columns begin below each other.
fn aligned<const N: usize>(rows: Vec<[String; N]>) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..N).map(width).collect();
    let line = |row: [String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.into_iter().map(line).collect()
}

fn distinct<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(word) {
            all.push(word);
        }
    }
    all
}

fn end(end: &End) -> [String; 4] {
    let speed = end.speed.map_or(String::new(), |speed| format!("{} Gb/s", speed / 1000));
    [end.node.to_string(), end.address.to_string(), end.to_string(), speed]
}

fn memory(memory: MemorySeen) -> String {
    let cached = memory.free.map(|free| memory.available.saturating_sub(free)).filter(|cached| *cached > 0);
    let cached = cached.map_or(String::new(), |cached| format!(", {:.1} of it page cache", as_gib(cached)));
    format!("{:.1} of {:.1} GiB free{cached}", as_gib(memory.available), as_gib(memory.total))
}

/// A few rows: what it is, the model, the image.
fn run(runs: &Runs, now: Timestamp) -> Vec<String> {
    let mut words = vec![match (&runs.deployment, runs.container) {
        (Some(deployment), _) => format!("deployment `{deployment}` (container `{}`)", runs.name),
        (None, true) => format!("container `{}`", runs.name),
        (None, false) => runs.name.clone(),
    }];
    if !runs.running {
        words.push("does not run, and comes back with the node".to_owned());
    } else if let Some(Ok(then)) = runs.since.map(Timestamp::from_second) {
        words.push(format!("for {}", since(now, then)));
    }
    words.extend(runs.restart.as_ref().map(|policy| format!("restart policy {policy}")));
    words.extend(runs.ports.iter().map(|port| format!("port {port}")));
    words.extend(runs.gpu_memory.map(|bytes| format!("{:.1} GiB of GPU memory", as_gib(bytes))));
    let mut rows = vec![words.join(", ")];
    rows.extend(runs.model.as_ref().map(|model| format!("  model {model}")));
    rows.extend(runs.image.as_ref().map(|image| format!("  image {image}")));
    rows
}

fn model(model: &FoundModel) -> [String; 4] {
    let form = match model.form {
        ModelForm::Plain => "folder",
        ModelForm::LocalFolder => "folder of the Hub",
        ModelForm::HubCache => "Hub cache",
        ModelForm::HubNotes => "Hub cache without files",
    };
    let revision = model.revision.as_deref().map(|revision| revision.get(..12).unwrap_or(revision));
    let form = revision.map_or_else(|| form.to_owned(), |revision| format!("{form}, revision {revision}"));
    let state = match (model.complete, model.lacks.first()) {
        (true, _) if !model.readable => "complete; not readable by this user".to_owned(),
        (true, _) => "complete".to_owned(),
        (false, Some(lack)) => format!("not complete: {lack}"),
        (false, None) => "not complete".to_owned(),
    };
    [model.path.clone(), size(model.bytes), form, state]
}

fn word(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm => "vLLM",
        EngineKind::Sglang => "SGLang",
    }
}
