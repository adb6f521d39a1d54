//! From a recipe that was read to a profile: every part in its place.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::cluster::parse::served::is_secret;
use crate::engine::MODEL_TARGET;
use crate::profile::{
    Bench, Cluster, Conflicts, DeploymentName, Engine, EngineKind, EnvValue, FormatVersion, Hooks, Image,
    ImageReference, Listen, Node, OnFailure, Port, Profile, Ready, SecretSource, Serve, Transfer, Verify,
};

use super::command::{self, Call};
use super::draft::Draft;
use super::mods::{self, Beside};
use super::recipe::{Format, Placed, Recipe};
use super::report::{Refused, Report};
use super::{Imported, Wanted, flags, model, repair, shell, speculative, template, topology};

/// Makes the profile.
pub(super) fn build(
    recipe: Recipe,
    file_name: &str,
    wanted: &Wanted,
    beside: &dyn Beside,
    mut report: Report,
) -> Result<Imported, Refused> {
    let report = &mut report;
    engine_of_runtime(&recipe)?;
    let mut values = values(&recipe);
    let variables: BTreeMap<_, _> =
        recipe.env.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect();
    let call = call(&recipe, &values, &variables, report)?;
    let all = flags::flags(call.kind, &call.words);
    let mut draft = Draft::gather(call.kind, all, report);
    let topology = topology::choose(call.kind, &recipe, &draft, report);
    let chosen = model::choose(&recipe, &draft, &wanted.models, report)?;
    let speculative = speculative::take(&mut draft, &chosen.model.path, report);
    let (cluster, stand_ins) = cluster(wanted, topology.nodes(), report)?;
    values.insert("launch.num_nodes".to_owned(), topology.nodes().to_string());
    let env = environment(&recipe, &call, &values, report);
    let mut ahead = mods::ahead(&recipe, &values, beside, report);
    ahead.before.extend(call.before);
    ahead.before.iter_mut().flatten().for_each(|word| *word = template::shown(word));
    let text = |value: Option<Placed>| value.map(|value| value.text);
    let served = draft.served.take().or_else(|| recipe.default("served_model_name").cloned());
    let served = served.filter(|name| !name.text.trim().is_empty());
    let profile = Profile {
        version: FormatVersion,
        name: wanted.name.clone().map_or_else(|| name(&recipe, file_name), Ok)?,
        cluster,
        image: Image { reference: image(&recipe, call.kind, report)?, build: None },
        engine: Engine {
            kind: call.kind,
            launch: topology.launch,
            tensor_parallel: topology.tensor,
            pipeline_parallel: topology.pipeline,
            data_parallel: topology.data,
            expert_parallel: draft.experts,
            context_length: draft.context,
            memory_fraction: draft.memory,
            max_requests: draft.requests,
            quantization: text(draft.quantization.take()),
            kv_cache_type: text(draft.kv_cache.take()),
            prefix_caching: draft.prefix,
            speculative,
            trust_remote_code: draft.trust_remote_code,
            chat_template: text(draft.chat_template.take()),
            lora: None,
            multimodal: BTreeMap::new(),
            reasoning_parser: text(draft.reasoning.take()),
            tool_parser: text(draft.tool.take()),
            before: ahead.before,
            args: draft.args.iter().flat_map(flags::Flag::words).collect(),
            env: env.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect(),
        },
        files: ahead.files,
        serve: Serve {
            port: port(&recipe, &draft, call.kind, report)?,
            name: Some(served.map_or(chosen.name, |name| {
                name.text.split_whitespace().next().unwrap_or_default().to_owned()
            })),
            listen: Listen::default(),
            // As the recipe's own server is.
            open: true,
            api_key: None,
        },
        model: chosen.model,
        ready: patience(&recipe),
        verify: verify(&draft, report),
        bench: Bench::default(),
        on_failure: OnFailure::default(),
        conflicts: Conflicts::default(),
        hooks: Hooks::default(),
    };
    let lines = env.into_iter().map(|(name, (_, line))| (name, line)).collect();
    let profile = repair::repair(profile, draft.args, &lines, report)?;
    if !profile.engine.before.is_empty() {
        report.ask("read `engine.before`: these commands of the recipe run in your containers, with all that is mounted there");
    }
    report.sort();
    Ok(Imported {
        profile,
        format: recipe.format,
        description: recipe.description,
        stand_ins,
        report: std::mem::take(report),
    })
}

/// A runtime that is neither of the two engines is told before its command is looked at.
fn engine_of_runtime(recipe: &Recipe) -> Result<(), Refused> {
    match &recipe.runtime {
        Some(runtime) if !runtime.text.contains("vllm") && runtime.text != "sglang" => {
            let message = format!("the recipe's engine is `{}`, and sparkctl has none such", runtime.text);
            Err(Refused::new(runtime.line, message).hint("sparkctl serves with vLLM and SGLang"))
        }
        _ => Ok(()),
    }
}

/// What placeholders stand for.
fn values(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut own = |key: &str, value: &Option<Placed>| {
        if let Some(value) = value {
            values.insert(key.to_owned(), value.text.clone());
        }
    };
    own("model", &recipe.model);
    own("model_revision", &recipe.revision);
    own("container", &recipe.container);
    own("resolved_model_path", &recipe.model_path);
    for (key, value) in &recipe.defaults {
        values.insert(key.clone(), value.text.clone());
        values.insert(format!("config.{key}"), value.text.clone());
    }
    values.insert("launch.model_path".to_owned(), MODEL_TARGET.to_owned());
    values.insert(
        "launch.model_revision".to_owned(),
        values.get("model_revision").cloned().unwrap_or_default(),
    );
    values
}

/// The engine's command; where the recipe has none, the one that sparkrun makes of the defaults.
fn call(
    recipe: &Recipe,
    values: &BTreeMap<String, String>,
    variables: &BTreeMap<String, String>,
    report: &mut Report,
) -> Result<Call, Refused> {
    if let Some(command) = &recipe.command {
        let script = template::fill(&command.text, values, recipe.format);
        let call = command::find(&script, command.line, variables, report)?;
        unused(recipe, report);
        return Ok(call);
    }
    let kind = match &recipe.runtime {
        Some(runtime) if runtime.text == "sglang" => EngineKind::Sglang,
        Some(_) => EngineKind::Vllm,
        None => return Err(Refused::new(0, "the recipe has neither a `command` nor a `runtime`")),
    };
    let mut words = Vec::new();
    for (key, value) in &recipe.defaults {
        let word = |text: String| shell::Word { text, line: value.line, shell: None };
        let flag = flags::of_default(kind, key);
        match value.text.as_str() {
            "True" => words.push(word(flag)),
            "False" if key.starts_with("enable_") && kind == EngineKind::Vllm => {
                words.push(word(flag.replacen("--", "--no-", 1)));
            }
            "False" | "" => {
                report.spare(value.line, format!("defaults.{key}"), "it is off where nothing is said");
            }
            text => {
                words.push(word(flag));
                words.push(word(template::fill(text, values, recipe.format)));
            }
        }
    }
    Ok(Call { kind, words, env: Vec::new(), before: Vec::new() })
}

/// Defaults that no placeholder asks for have no effect, and may have been meant to.
fn unused(recipe: &Recipe, report: &mut Report) {
    // Sparkrun reads these itself.
    const READ: &[&str] =
        &["tensor_parallel", "pipeline_parallel", "data_parallel", "served_model_name", "port", "host"];
    let asks = |text: &str, key: &str| {
        text.contains(&format!("{{{key}}}"))
            || text.contains(&format!("{{{key}:"))
            || text.contains(&format!("config.{key}}}"))
    };
    let texts = || {
        let command = recipe.command.iter().map(|command| &command.text);
        let defaults = recipe.defaults.iter().map(|(_, value)| &value.text);
        command.chain(defaults).chain(recipe.env.iter().map(|(_, value)| &value.text))
    };
    for (key, value) in &recipe.defaults {
        if !READ.contains(&key.as_str()) && !texts().any(|text| asks(text, key)) {
            let what = format!("defaults.{key}: {}", value.text);
            report.spare(value.line, what, "the command does not use it");
        }
    }
}

fn cluster(wanted: &Wanted, nodes: u32, report: &mut Report) -> Result<(Cluster, bool), Refused> {
    let count = usize::try_from(nodes).unwrap_or(usize::MAX);
    if let Some(cluster) = &wanted.cluster {
        if cluster.nodes.len() < count {
            let message =
                format!("the recipe needs {nodes} nodes, and the cluster has {}", cluster.nodes.len());
            return Err(Refused::new(0, message).hint("name a profile with as many nodes in `--cluster`"));
        }
        let nodes = cluster.nodes[..count].to_vec();
        return Ok((Cluster { nodes, ..cluster.clone() }, false));
    }
    let Ok(most) = u8::try_from(nodes).map(u32::from) else {
        return Err(Refused::new(
            0,
            format!("the recipe spreads over {nodes} GPUs, and no cluster here has as many"),
        ));
    };
    report.ask(match most {
        1 => "set SPARK1_HOST and SPARK1_FABRIC to the node's ssh name and fabric address, or write them into `cluster`".to_owned(),
        _ => format!(
            "set SPARK1_HOST, SPARK1_FABRIC and so on to SPARK{most}_FABRIC to the nodes' ssh names and fabric addresses, or write them into `cluster`"
        ),
    });
    // Addresses that RFC 5737 keeps for examples: they never leave this machine.
    let node = |number: u8| Node {
        name: format!("spark{number}").parse().expect("it is a node's name"),
        host: format!("spark{number}"),
        fabric: Ipv4Addr::new(192, 0, 2, number),
    };
    let last = u8::try_from(most).unwrap_or(u8::MAX);
    Ok((Cluster { user: None, nodes: (1..=last).map(node).collect(), transfer: Transfer::default() }, true))
}

/// Secrets that a recipe may ask for.
const OF_THE_HUB: &[&str] = &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Whether a value is a key, a token, a password: by its variable's name, and as no switch, number or path is.
fn looks_secret(name: &str, text: &str) -> bool {
    is_secret(name) && text.len() >= 8 && !text.contains('/') && text.parse::<f64>().is_err()
}

/// The variables with their lines; what sparkctl sets itself is taken out later.
fn environment(
    recipe: &Recipe,
    call: &Call,
    values: &BTreeMap<String, String>,
    report: &mut Report,
) -> BTreeMap<String, (EnvValue, usize)> {
    let mut all = BTreeMap::new();
    for (name, value) in recipe.env.iter().chain(&call.env) {
        let line = value.line;
        let text = template::fill(&value.text, values, Format::Sparkrun);
        let what = format!("env: {name}={text}");
        if text.contains(template::UNKNOWN[0]) {
            report.lose(line, what, "what it stands for is known only to sparkrun");
        } else if text == format!("${{{name}}}") && OF_THE_HUB.contains(&name.as_str()) {
            report
                .ask(format!("line {line}: `{name}` is taken from the environment of sparkctl, as a secret"));
            all.insert(name.clone(), (EnvValue::Secret(SecretSource::Env(name.clone())), line));
        } else if text.contains("${") || text.starts_with('$') {
            // A recipe of others gets no variable of this machine by naming it.
            let why = "its value comes from somewhere else: write it into `engine.env`, or `{ env: NAME }` for a secret";
            report.lose(line, what, why);
        } else if looks_secret(name, &text) {
            // Nor is somebody's key copied into another file.
            report.ask(format!(
                "line {line}: the value of `{name}` looks like a secret and was not copied: set `{name}` in the environment of sparkctl"
            ));
            all.insert(name.clone(), (EnvValue::Secret(SecretSource::Env(name.clone())), line));
        } else {
            if text.contains("/huggingface/hub/models--") {
                report.ask(format!(
                    "line {line}: `{name}` names a folder of the Hub's cache; the weights are in `{MODEL_TARGET}`"
                ));
            }
            all.insert(name.clone(), (EnvValue::Text(text), line));
        }
    }
    all
}

fn image(recipe: &Recipe, kind: EngineKind, report: &mut Report) -> Result<ImageReference, Refused> {
    let Some(container) = &recipe.container else {
        let name = match kind {
            EngineKind::Vllm => "scitrera/dgx-spark-vllm:latest",
            EngineKind::Sglang => "scitrera/dgx-spark-sglang:latest",
        };
        report.ask(format!("the recipe names no image: `{name}` is the one that sparkrun takes then"));
        return name.parse().map_err(|error| Refused::new(0, error));
    };
    if !container.text.contains('/') {
        report.ask(format!(
            "the image `{}` is in no registry: build it, so that one of the nodes has it",
            container.text
        ));
    }
    container.text.parse().map_err(|error| Refused::new(container.line, error))
}

fn port(recipe: &Recipe, draft: &Draft, kind: EngineKind, report: &mut Report) -> Result<Port, Refused> {
    let otherwise = if kind == EngineKind::Sglang && recipe.default("port").is_none() { 30000 } else { 8000 };
    let told = draft.port.as_ref().or_else(|| recipe.default("port"));
    let port = told.and_then(|told| {
        let port = told.text.parse::<u64>().ok().and_then(|port| Port::try_from(port).ok());
        if port.is_none() {
            report.lose(
                told.line,
                format!("port {}", told.text),
                format!("it is no port; {otherwise} was taken"),
            );
        }
        port
    });
    port.map_or_else(|| Port::try_from(otherwise).map_err(|error| Refused::new(0, error)), Ok)
}

fn patience(recipe: &Recipe) -> Ready {
    let ready = Ready::default();
    // A day is more than any engine takes, and what is longer is a mistake.
    let told = Duration::from_secs(recipe.patience.unwrap_or(0).min(24 * 3600));
    Ready { timeout: ready.timeout.max(told), ..ready }
}

/// An engine that only embeds or scores answers no chat.
fn verify(draft: &Draft, report: &mut Report) -> Verify {
    let pools = draft.args.iter().any(|flag| {
        let value = flag.values.first().map_or("", |word| word.text.as_str());
        match flag.name.replace('_', "-").as_str() {
            "--runner" => value == "pooling",
            "--task" => ["embed", "embedding", "score", "classify", "reward"].contains(&value),
            "--is-embedding" => true,
            _ => false,
        }
    });
    if pools {
        report.ask(
            "the model embeds or scores and completes nothing, and sparkctl waits for a first completion: a deploy of it \
             cannot become ready in this version",
        );
    }
    Verify { chat: !pools, stream: !pools, ..Verify::default() }
}

/// The deployment's name: the file's, as far as it can be one; for `recipe.yaml` what the recipe calls itself.
fn name(recipe: &Recipe, file_name: &str) -> Result<DeploymentName, Refused> {
    let file = file_name.rsplit('/').next().unwrap_or(file_name);
    let stem = file.split(".yaml").next().unwrap_or(file).trim_end_matches(".yml");
    let told = match (stem, &recipe.name) {
        ("recipe" | "", Some(name)) => name.as_str(),
        _ => stem,
    };
    let plain: String = told
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let mut name: String = words.join("-").chars().take(48).collect();
    name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() {
        "imported".clone_into(&mut name);
    }
    name.parse().map_err(|error| Refused::new(0, error))
}
