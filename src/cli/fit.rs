//! `fit`: whether the model fits the nodes. Changes nothing.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::change::usage;
use super::{Global, Output, known, print, session};
use crate::error::{CommandError, Exit};
use crate::memory::{Asked, Budget, GIB, Memory, Verdict, budget, render, seen};
use crate::model::tensors::{Weights, header, index_total};
use crate::model::{Shape, config, parsers};
use crate::profile::{NodeName, Profile};
use crate::report::json;

/// The memory budget of a profile: whether the model fits, the longest context, how many requests at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl fit profiles/qwen35-122b.yaml\n  \
    sparkctl fit my.yaml --model ~/models/GLM-4.7-Flash --memory 121.69")]
pub struct FitArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// A folder of this machine with the model, or a config.json alone; no node is asked then.
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// Size of all weights, in GiB, where PATH has only a config.json.
    #[arg(long, value_name = "GIB", requires = "model", value_parser = size)]
    weights: Option<u64>,
    /// Memory of each node's GPU, in GiB; left out, that of a DGX Spark.
    #[arg(long, value_name = "GIB", requires = "model", value_parser = size)]
    memory: Option<u64>,
}

/// GiB to bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked"
)]
fn size(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(gib) if (0.001..1e6).contains(&gib) => Ok((gib * GIB as f64) as u64),
        _ => Err("it has to be a number of GiB, e.g. 121.69".to_owned()),
    }
}

/// `sparkctl fit`.
pub async fn run(args: FitArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::load(&args.profile)?.profile;
    let (shape, budgets) = if let Some(path) = &args.model {
        offline(&profile, path, args.weights, args.memory)?
    } else {
        let facts = session::look(&profile, global).await?;
        seen::budgets(&profile, &facts).map_err(|why| {
            CommandError::new(Exit::Refused, format!("error: {why}"))
                .hint("put the model there, or ask without nodes: `sparkctl fit PROFILE --model PATH`")
        })?
    };
    if budgets.is_empty() {
        return Err(CommandError::new(
            Exit::Refused,
            "error: no node has a GPU, so there is nothing to fit into".to_owned(),
        )
        .hint("name the memory: `sparkctl fit PROFILE --model PATH --memory GIB`"));
    }
    let asked = Asked::of(&profile, &shape);
    let advice = advice(&profile, &shape);
    match global.output {
        Output::Json => {
            let nodes: Vec<_> = budgets
                .iter()
                .map(|(node, budget)| serde_json::json!({ "node": node, "budget": budget }))
                .collect();
            let content = serde_json::json!({ "fit": {
                "deployment": profile.name, "asked": asked, "model": shape, "nodes": nodes, "advice": advice,
            } });
            print(&format!("{}\n", json::document(content)));
        }
        Output::Text => {
            print(&render::text(profile.name.as_str(), asked.context, &budgets));
            for line in &advice {
                print(&format!("  note: {line}\n"));
            }
        }
    }
    let fails = |budget: &Budget| matches!(budget.verdict, Verdict::TooBig { .. } | Verdict::TooLong { .. });
    Ok(if budgets.iter().any(|(_, budget)| fails(budget)) { Exit::Refused } else { Exit::Done })
}

/// What the profile could say better for this model.
fn advice(profile: &Profile, shape: &Shape) -> Vec<String> {
    let engine = &profile.engine;
    let name = profile.model.source.as_deref().unwrap_or(&profile.model.path);
    let mut lines = Vec::new();
    if let Some(family) = parsers::family(shape, name) {
        let right = family.parsers(engine.kind);
        let pairs = [
            ("reasoning_parser", &engine.reasoning_parser, right.reasoning),
            ("tool_parser", &engine.tool_parser, right.tools),
        ];
        for (field, written, right) in pairs {
            match (written.as_deref(), right) {
                (written, Some(right)) if written != Some(right) => {
                    lines.push(format!("for {} `engine.{field}` is usually {right}", family.name));
                }
                (Some(written), None) => {
                    lines.push(format!(
                        "for {} `engine.{field}` is usually left out, and here it is {written}",
                        family.name
                    ));
                }
                _ => {}
            }
        }
    }
    if let (None, Some(method)) = (&engine.speculative, parsers::own_drafts(shape)) {
        lines.push(format!(
            "the model can guess tokens by itself: `engine.speculative: {{ method: {method}, tokens: 1 }}`"
        ));
    }
    lines
}

type Fitted = (Shape, Vec<(NodeName, Budget)>);

/// The budget of a model on this machine's disk, for nodes that are not asked.
fn offline(
    profile: &Profile,
    path: &Path,
    weights: Option<u64>,
    memory: Option<u64>,
) -> Result<Fitted, CommandError> {
    let is_folder = path.is_dir();
    let file = if is_folder { path.join("config.json") } else { path.to_owned() };
    let text = fs::read_to_string(&file)
        .map_err(|error| usage(&format!("cannot read {}: {error}", file.display())))?;
    let shape = config::read(&text).map_err(|error| usage(&format!("{}: {error}", file.display())))?;
    if shape.architecture.is_none() && shape.model_type.is_none() && shape.layers.is_empty() {
        return Err(usage(&format!(
            "{} is no model's config.json: it has neither `architectures` nor `model_type` nor layers",
            file.display()
        )));
    }
    let found = if is_folder { on_disk(path) } else { None };
    let weights = weights.map(Weights::of_bytes).or(found);
    let memory = memory.map_or_else(Memory::spark, |total| Memory { total, ..Memory::spark() });
    let asked = Asked::of(profile, &shape);
    let budget = budget(&shape, weights.as_ref(), &asked, memory);
    let nodes = profile.cluster.nodes.iter().map(|node| (node.name.clone(), budget.clone())).collect();
    Ok((shape, nodes))
}

/// The weights in a folder: by the headers of the safetensors files, else by the index.
fn on_disk(folder: &Path) -> Option<Weights> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut tensors = Vec::new();
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "safetensors")) {
        match read_header(&file).and_then(|text| header(&text)) {
            Ok(found) => tensors.extend(found),
            Err(why) => tracing::warn!("{}: {why}", file.display()),
        }
    }
    if !tensors.is_empty() {
        return Some(Weights::of_tensors(tensors));
    }
    let index = fs::read_to_string(folder.join("model.safetensors.index.json")).ok()?;
    index_total(&index).map(Weights::of_bytes)
}

/// The header of a safetensors file: eight bytes of its length, then so many bytes of JSON.
fn read_header(file: &Path) -> Result<String, String> {
    /// The format's own limit.
    const MOST: u64 = 100_000_000;
    let read = || -> std::io::Result<Option<String>> {
        let mut file = fs::File::open(file)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut text = String::new();
        if length > MOST || file.take(length).read_to_string(&mut text)? as u64 != length {
            return Ok(None);
        }
        Ok(Some(text))
    };
    read().map_err(|error| error.to_string())?.ok_or_else(|| "its header is cut or not a header".to_owned())
}
