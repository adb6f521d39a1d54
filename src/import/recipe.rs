//! A recipe's file as what its keys mean; what has no place in a profile goes into the report at once.
//!
//! Strict about what it understands, and never against a key that it does not know. Left out: the command, which
//! is a text here.

use crate::config::any::{Any, AnyValue};

use super::report::{Refused, Report};

/// Whose recipe it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `recipe_version: "1"`: spark-vllm-docker and its forks.
    SparkVllmDocker,
    /// Everything else: sparkrun.
    Sparkrun,
}

impl Format {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::SparkVllmDocker => "spark-vllm-docker recipe, version 1",
            Self::Sparkrun => "sparkrun recipe, version 2",
        }
    }
}

/// A text and the line that it begins in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Placed {
    pub(super) text: String,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) format: Format,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) model: Option<Placed>,
    pub(super) revision: Option<Placed>,
    /// Where sparkrun was told that the weights are.
    pub(super) model_path: Option<Placed>,
    pub(super) runtime: Option<Placed>,
    pub(super) container: Option<Placed>,
    pub(super) defaults: Vec<(String, Placed)>,
    pub(super) env: Vec<(String, Placed)>,
    pub(super) command: Option<Placed>,
    pub(super) mods: Vec<Placed>,
    pub(super) pre_exec: Vec<Any>,
    pub(super) min_nodes: Option<u32>,
    pub(super) max_nodes: Option<u32>,
    /// How long the engine may take, in seconds.
    pub(super) patience: Option<u64>,
}

impl Recipe {
    pub(super) fn default(&self, key: &str) -> Option<&Placed> {
        self.defaults.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// Reads the tree of a recipe.
pub(super) fn read(tree: &Any, report: &mut Report) -> Result<Recipe, Refused> {
    not_a_recipe(tree)?;
    let version = tree.get("recipe_version").and_then(scalar);
    let format = if version.as_deref() == Some("1") { Format::SparkVllmDocker } else { Format::Sparkrun };
    if let Some(version) = version.filter(|version| !["1", "2"].contains(&version.as_str())) {
        report.ask(format!("the recipe says version `{version}`; it was read as version 2"));
    }
    let mut recipe = Recipe {
        format,
        name: None,
        description: None,
        model: None,
        revision: None,
        model_path: None,
        runtime: None,
        container: None,
        defaults: Vec::new(),
        env: Vec::new(),
        command: None,
        mods: Vec::new(),
        pre_exec: Vec::new(),
        min_nodes: None,
        max_nodes: None,
        patience: None,
    };
    for (key, value) in tree.entries() {
        take(&mut recipe, key, value, report);
    }
    Ok(recipe)
}

fn not_a_recipe(tree: &Any) -> Result<(), Refused> {
    let has = |key: &str| tree.get(key).is_some();
    let what = if !matches!(tree.value, AnyValue::Map(_)) {
        "it is not keys with values"
    } else if has("registries") {
        "it lists registries of recipes"
    } else if has("framework") && !has("model") {
        "it describes a benchmark"
    } else if !["command", "runtime", "container", "recipe_version"].iter().any(|key| has(key)) {
        "it has none of `command`, `runtime` and `container`"
    } else {
        return Ok(());
    };
    Err(Refused::new(tree.line, format!("this is not a recipe: {what}")))
}

/// What a key means.
#[expect(clippy::too_many_lines, reason = "one row a key")]
fn take(recipe: &mut Recipe, key: &str, value: &Any, report: &mut Report) {
    let line = value.line;
    let text = || scalar(value).filter(|text| !text.is_empty()).map(|text| Placed { text, line });
    if value.value == AnyValue::Null || is_empty(value) {
        return;
    }
    match key {
        "name" => recipe.name = text().map(|name| name.text),
        "description" => recipe.description = text().map(|description| description.text),
        "model" => recipe.model = text(),
        "model_revision" | "revision" => recipe.revision = text(),
        "runtime" => recipe.runtime = text(),
        "container" => recipe.container = text(),
        "command" => {
            recipe.command = text();
            if recipe.command.is_none() {
                report.lose(line, "command", "it is not text");
            }
        }
        "min_nodes" => recipe.min_nodes = count(value),
        "max_nodes" => recipe.max_nodes = count(value),
        "solo_only" if is_true(value) => recipe.max_nodes = Some(1),
        "cluster_only" if is_true(value) => recipe.min_nodes = recipe.min_nodes.max(Some(2)),
        "metadata" => {
            let description = value.get("description").and_then(scalar);
            recipe.description = recipe.description.take().or(description);
        }
        "solo_only"
        | "cluster_only"
        | "recipe_version"
        | "maintainer"
        | "tags"
        | "sparkrun_version"
        | "min_sparkrun_version"
        | "runtime_version"
        | "capabilities"
        | "unsupported_capabilities" => {}
        "mode" => match value.text() {
            Some("solo") => recipe.max_nodes = Some(1),
            Some("cluster") => recipe.min_nodes = recipe.min_nodes.max(Some(2)),
            _ => {}
        },
        "defaults" => recipe.defaults = pairs(value, "defaults", report),
        "env" => recipe.env = pairs(value, "env", report),
        "mods" => {
            for element in value.elements() {
                match scalar(element) {
                    Some(text) => recipe.mods.push(Placed { text, line: element.line }),
                    None => report.lose(element.line, "mods", "it is not the name of a mod"),
                }
            }
        }
        "pre_exec" => recipe.pre_exec = value.elements().to_vec(),
        "readiness" => {
            let seconds = |key| value.get(key).and_then(scalar).and_then(|text| text.parse::<u64>().ok());
            let both = [seconds("port_timeout_s"), seconds("health_timeout_s")];
            recipe.patience = both.iter().any(Option::is_some).then(|| both.iter().flatten().sum());
            for (key, value) in value.entries() {
                if !["port_timeout_s", "health_timeout_s"].contains(&key.as_str()) {
                    let why = "sparkctl asks for a completion, and then what `verify` says";
                    report.lose(value.line, format!("readiness.{key}"), why);
                }
            }
        }
        "executor_config" => executor(value, report),
        "cluster_config" => {
            for (key, value) in value.entries() {
                match (key.as_str(), scalar(value)) {
                    ("resolved_model_path", Some(text)) => {
                        recipe.model_path = Some(Placed { text, line: value.line });
                    }
                    _ => report.spare(
                        value.line,
                        format!("cluster_config.{key}"),
                        "the nodes are `cluster.nodes`",
                    ),
                }
            }
        }
        "build_args" | "builder" | "builder_config" => {
            let words: Vec<_> = value.elements().iter().filter_map(scalar).collect();
            let what = match scalar(value) {
                Some(text) => format!("{key}: {text}"),
                None => format!("{key}: {}", words.join(" ")),
            };
            report.lose(line, what.trim_end_matches([':', ' ']), "sparkctl builds no images");
        }
        "runtime_cache" => report.spare(line, key, "compiled kernels are kept on each node in a volume"),
        "distribution_config" => {
            report.spare(line, key, "sparkctl brings the model's folder and the image to every node");
        }
        "containers" => report.lose(line, key, "every node runs the same image"),
        "benchmark" => {
            report.lose(line, key, "sparkctl measures by `bench`, which the profile has by default");
        }
        "post_exec" | "post_commands" | "stop_after_post" => {
            report.lose(line, key, "sparkctl runs nothing after the engine is ready");
        }
        "overrides" => {
            report.lose(line, key, "a profile has no conditions: only what always holds was taken");
        }
        "executor" if value.text() == Some("docker") => {}
        "executor" | "scheduler" | "layout" => {
            report.lose(
                line,
                format!("{key}{}", scalar(value).map_or(String::new(), |text| format!(": {text}"))),
                "engines run in Docker, one rank a node in the order of `cluster.nodes`",
            );
        }
        _ => report.lose(line, key, "it is not a key of recipes that is known here"),
    }
}

/// What sparkrun tells Docker.
fn executor(config: &Any, report: &mut Report) {
    for (key, value) in config.entries() {
        let words: Vec<String> = match &value.value {
            AnyValue::List(list) => list.iter().filter_map(scalar).collect(),
            AnyValue::Map(map) => map
                .iter()
                .map(|(key, value)| format!("{key}={}", scalar(value).unwrap_or_default()))
                .collect(),
            _ => scalar(value).into_iter().collect(),
        };
        let what = format!("executor_config.{key}: {}", words.join(", "));
        let what = what.trim_end_matches([':', ' ']);
        let all = |known: &[&str]| words.iter().all(|word| known.iter().any(|known| word.starts_with(known)));
        let ours = match key.as_str() {
            "entrypoint" | "shm_size" | "ipc" | "network" | "network_mode" | "auto_remove"
            | "restart_policy" | "gpus" => true,
            "cap_add" => all(&["IPC_LOCK"]),
            "ulimit" | "ulimits" => all(&["memlock", "stack"]),
            "devices" => all(&["/dev/infiniband"]),
            "privileged" => words == ["False"],
            "user" => words == ["root"] || words == ["0"],
            _ => false,
        };
        if ours {
            report.spare(value.line, what, "containers start as sparkctl needs them");
        } else if key == "volumes" {
            report.lose(
                value.line,
                what,
                "a container has the model, the cache and `files`, and no other folder of its node",
            );
        } else {
            report.lose(value.line, what, "sparkctl does not set this for containers");
        }
    }
}

/// The scalars of a map; the keys that hold something else are told. A map or a list that stands for JSON becomes it.
fn pairs(map: &Any, section: &str, report: &mut Report) -> Vec<(String, Placed)> {
    if !matches!(map.value, AnyValue::Map(_)) {
        report.lose(map.line, section, "it is not keys with values");
    }
    let mut pairs = Vec::new();
    for (key, value) in map.entries() {
        let line = value.line;
        match scalar(value) {
            Some(text) => pairs.push((key.clone(), Placed { text, line })),
            None if value.value == AnyValue::Null => {
                pairs.push((key.clone(), Placed { text: String::new(), line }));
            }
            None => pairs.push((key.clone(), Placed { text: json(value).to_string(), line })),
        }
    }
    pairs
}

/// A scalar as Python's `str` writes it, for that is what both tools put into a command.
pub(super) fn scalar(value: &Any) -> Option<String> {
    match &value.value {
        AnyValue::Bool(is) => Some(if *is { "True" } else { "False" }.to_owned()),
        AnyValue::Whole(whole) => Some(whole.to_string()),
        AnyValue::Float(number) => Some(format!("{number:?}")),
        AnyValue::Text(text) => Some(text.trim().to_owned()),
        AnyValue::Null | AnyValue::List(_) | AnyValue::Map(_) => None,
    }
}

fn json(value: &Any) -> serde_json::Value {
    match &value.value {
        AnyValue::Null => serde_json::Value::Null,
        AnyValue::Bool(is) => (*is).into(),
        AnyValue::Whole(whole) => i64::try_from(*whole).map_or_else(|_| whole.to_string().into(), Into::into),
        AnyValue::Float(number) => (*number).into(),
        AnyValue::Text(text) => text.clone().into(),
        AnyValue::List(list) => list.iter().map(json).collect(),
        AnyValue::Map(map) => {
            serde_json::Value::Object(map.iter().map(|(key, value)| (key.clone(), json(value))).collect())
        }
    }
}

fn is_empty(value: &Any) -> bool {
    match &value.value {
        AnyValue::List(list) => list.is_empty(),
        AnyValue::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// Also the words that YAML 1.1 takes for true.
pub(super) fn is_true(value: &Any) -> bool {
    match &value.value {
        AnyValue::Bool(is) => *is,
        AnyValue::Text(text) => ["true", "yes", "on", "1"].contains(&text.to_lowercase().as_str()),
        AnyValue::Whole(whole) => *whole != 0,
        _ => false,
    }
}

fn count(value: &Any) -> Option<u32> {
    scalar(value)?.parse().ok().filter(|count| *count > 0)
}
