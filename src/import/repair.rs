//! Takes out of a new profile what no profile may have, and tells it: the last step of an import.

use std::collections::BTreeMap;

use crate::profile::{Problem, Profile, validate};

use super::flags::Flag;
use super::report::{Refused, Report};

/// More problems than this are none of a recipe's.
const MOST: usize = 500;

/// The profile without what is wrong with it. `args` are the engine's arguments as flags with their lines.
pub(super) fn repair(
    mut profile: Profile,
    mut args: Vec<Flag>,
    env: &BTreeMap<String, usize>,
    report: &mut Report,
) -> Result<Profile, Refused> {
    for _ in 0..MOST {
        let problems = validate(&profile);
        let Some(problem) = problems.first() else { return Ok(profile) };
        if !take_out(&mut profile, &mut args, env, problem, report) {
            return Err(refused(problem));
        }
        profile.engine.args = args.iter().flat_map(Flag::words).collect();
    }
    Err(Refused::new(0, "the recipe has too much in it that no profile may have"))
}

fn refused(problem: &Problem) -> Refused {
    let refused = Refused::new(0, format!("{}: {}", problem.path, problem.message));
    match &problem.hint {
        Some(hint) => refused.hint(hint.clone()),
        None => refused,
    }
}

/// Takes out what `problem` is about; false where the profile cannot do without it.
fn take_out(
    profile: &mut Profile,
    args: &mut Vec<Flag>,
    env: &BTreeMap<String, usize>,
    problem: &Problem,
    report: &mut Report,
) -> bool {
    let why = match &problem.hint {
        Some(hint) => format!("{}: {hint}", problem.message),
        None => problem.message.clone(),
    };
    let path = problem.path.as_str();
    if let Some(index) = index(path, "engine.args") {
        let Some(at) = flag_at(args, index) else { return false };
        let flag = args.remove(at);
        tell(flag.line, flag.written(), problem, why, report);
        return true;
    }
    if let Some(name) = path.strip_prefix("engine.env.") {
        let Some(value) = profile.engine.env.remove(name) else { return false };
        let what = format!("env: {name}={}", value.text().unwrap_or("(a secret)"));
        tell(env.get(name).copied().unwrap_or(0), what, problem, why, report);
        return true;
    }
    if let Some(index) = index(path, "files") {
        if index >= profile.files.len() {
            return false;
        }
        let file = profile.files.remove(index);
        report.lose(0, format!("{} in {}", file.source, file.target), why);
        return true;
    }
    if let Some(index) = index(path, "engine.before") {
        if index >= profile.engine.before.len() {
            return false;
        }
        let command = profile.engine.before.remove(index);
        report.lose(0, command.join(" "), why);
        return true;
    }
    let engine = &mut profile.engine;
    let name = path.rsplit('.').next().unwrap_or(path);
    let lost = match name {
        "context_length" => engine.context_length.take().map(|value| value.to_string()),
        "memory_fraction" => engine.memory_fraction.take().map(|value| value.to_string()),
        "max_requests" => engine.max_requests.take().map(|value| value.to_string()),
        "quantization" => engine.quantization.take(),
        "kv_cache_type" => engine.kv_cache_type.take(),
        "prefix_caching" => engine.prefix_caching.take().map(|value| value.to_string()),
        "chat_template" => engine.chat_template.take(),
        "reasoning_parser" => engine.reasoning_parser.take(),
        "tool_parser" => engine.tool_parser.take(),
        "expert_parallel" => std::mem::take(&mut engine.expert_parallel).then(|| "true".to_owned()),
        "trust_remote_code" => std::mem::take(&mut engine.trust_remote_code).then(|| "true".to_owned()),
        _ if path.starts_with("engine.speculative") => engine
            .speculative
            .take()
            .map(|speculative| format!("{} with {} tokens", speculative.method, speculative.tokens)),
        _ if path == "serve.name" => profile.serve.name.take(),
        _ => None,
    };
    match lost {
        Some(value) => {
            report.lose(0, format!("{}: {value}", path.rsplit('.').next().unwrap_or(path)), why);
            true
        }
        None => false,
    }
}

/// What sparkctl does by itself is not needed; all else is lost.
fn tell(line: usize, what: String, problem: &Problem, why: String, report: &mut Report) {
    match problem.hint.as_deref().and_then(|hint| hint.strip_prefix("leave it out: ")) {
        Some(ours) if problem.message.contains("sparkctl sets") => report.spare(line, what, ours),
        _ => report.lose(line, what, why),
    }
}

/// `5` of `engine.args[5]` and of `engine.args[5].more`.
fn index(path: &str, list: &str) -> Option<usize> {
    path.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?.0.parse().ok()
}

/// The flag that has the word at `index`.
fn flag_at(args: &[Flag], index: usize) -> Option<usize> {
    let mut first = 0;
    args.iter().position(|flag| {
        first += flag.words().len();
        index < first
    })
}
