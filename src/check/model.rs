//! The model's folder on each node: whether it is there, whole, readable, and the same everywhere.

use super::{Finding, Seen};
use crate::cluster::facts::{ModelContent, ModelFolder, ModelOrigin, NodeFacts};
use crate::plan::render::size;
use crate::profile::Profile;

/// The folder itself, without which nothing can be started.
pub(super) fn needed(seen: &Seen, findings: &mut Vec<Finding>) {
    let path = &seen.profile.model.path;
    for facts in seen.facts() {
        if let Some(first) = facts.model.as_ref().and_then(|model| model.unreadable.first()) {
            findings.push(Finding::error(
                "model-unreadable",
                Some(&facts.node),
                format!("`{path}` cannot be read in full: {first}"),
                "let the user read it: sudo chown -R USER FOLDER, or chmod -R a+rX FOLDER",
            ));
        }
    }
    if let Some(head) = seen.head() {
        let nowhere = seen.facts().all(|facts| facts.model.is_none());
        let source = seen.profile.model.source.as_deref().filter(|_| nowhere);
        findings.extend(absent(path, source, head.facts));
    }
}

/// Why the head's folder is no model. `source`: where it can be fetched from, if no node has it.
fn absent(path: &str, source: Option<&str>, head: &NodeFacts) -> Option<Finding> {
    let (message, hint) = match &head.model {
        None if head.gap("model").is_some() => (
            format!("`{path}` does not answer: its file system hangs"),
            "look at it by hand: timeout 5 ls; a network file system's server may be gone".to_owned(),
        ),
        None => (
            format!("there is no folder `{path}`"),
            match source {
                Some(source) => {
                    format!("`sparkctl fetch PROFILE` brings {source} there; or correct `model.path`")
                }
                None => "correct `model.path`, or put the model there".to_owned(),
            },
        ),
        Some(model) if !model.dangling.is_empty() => (
            format!("`{path}` has links that lead nowhere: {}", model.dangling.join(", ")),
            "fetch the model again".to_owned(),
        ),
        Some(model) if !model.outside.is_empty() => (
            format!(
                "`{path}` has {} links to files outside of it, and its container would not have those: {}",
                model.outside.len(),
                model.outside[0]
            ),
            format!("copy it as plain files, and name that folder: cp -rL {path} NEW_FOLDER"),
        ),
        Some(model) if model.file("config.json").is_none() => (
            format!("`{path}` has no config.json, so it is not a model's folder"),
            "correct `model.path`".to_owned(),
        ),
        Some(_) => return None,
    };
    Some(Finding::error("model-absent", Some(&head.node), message, &hint).at("model.path"))
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    let Some(head) = seen.head() else { return };
    let Some(model) = &head.facts.model else { return };
    tokenizer(head.facts, model, findings);
    for member in &seen.nodes {
        let Some(folder) = &member.facts.model else { continue };
        if member.rank > 0 {
            differs(member.facts, folder, head.facts, model, findings);
        }
        let Some(content) = &folder.content else { continue };
        // What differs from the head's is copied anew, so only the head's files have to be whole.
        if member.rank == 0 {
            shards(member.facts, content, findings);
            problems(member.facts, content, findings);
            if let Some(origin) = &content.origin {
                findings.extend(other_revision(seen.profile, member.facts, origin));
            }
        }
        incomplete(member.facts, content, findings);
        owner(member.facts, content, member.rank > 0 && !has_all(folder, model), findings);
    }
}

fn has_all(folder: &ModelFolder, of: &ModelFolder) -> bool {
    of.files.iter().all(|file| folder.file(&file.path).is_some_and(|there| there.is_like(file)))
}

/// The first few names, and how many more there are.
fn few<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const FEW: usize = 3;
    let names: Vec<_> = names.into_iter().collect();
    let shown = names.iter().take(FEW).copied().collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{shown} and {} more", names.len() - FEW) } else { shown }
}

fn shards(facts: &NodeFacts, content: &ModelContent, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    let missing = content.missing_shards();
    if !missing.is_empty() {
        findings.push(
            Finding::error(
                "model-shards",
                node,
                format!("the index names files that are not there: {}", few(missing)),
                "fetch the model again: `hf download` goes on where it was cut",
            )
            .at("model.path"),
        );
    }
    for file in &content.safetensors {
        if let Some(expected) = file.expected.filter(|expected| *expected != file.size) {
            findings.push(
                Finding::error(
                    "model-truncated",
                    node,
                    format!(
                        "{} has {}, and its header promises {}",
                        file.path,
                        bytes(file.size, expected),
                        bytes(expected, file.size)
                    ),
                    "remove this file and fetch it again",
                )
                .at("model.path"),
            );
        }
    }
}

/// A size that is told next to another: in full where both would read the same.
fn bytes(one: u64, other: u64) -> String {
    if size(one) == size(other) { format!("{one} bytes") } else { size(one) }
}

fn problems(facts: &NodeFacts, content: &ModelContent, findings: &mut Vec<Finding>) {
    for (file, why) in &content.problems {
        let matters = file == "config.json" || file.contains(".safetensors");
        let found = if matters { Finding::error } else { Finding::warning };
        let hint = "fetch this file again; one of a few hundred bytes is a pointer of Git LFS (git lfs pull)";
        findings
            .push(found("model-damaged", Some(&facts.node), format!("{file}: {why}"), hint).at("model.path"));
    }
}

fn incomplete(facts: &NodeFacts, content: &ModelContent, findings: &mut Vec<Finding>) {
    if !content.incomplete.is_empty() {
        let names = few(content.incomplete.iter().map(String::as_str));
        findings.push(
            Finding::warning(
                "model-incomplete",
                Some(&facts.node),
                format!("a download was left unfinished: {names}"),
                "let `hf download` end, or remove these files where the model is whole",
            )
            .at("model.path"),
        );
    }
}

/// Another model than `model.source` names, or another commit of it. A name of a branch or tag is only compared where
/// the Hub's cache knows its commit.
fn other_revision(profile: &Profile, facts: &NodeFacts, origin: &ModelOrigin) -> Option<Finding> {
    /// As few digits of a commit as Git prints.
    const SHORT: usize = 7;
    let short = |commit: &String| commit.chars().take(12).collect::<String>();
    let are: Vec<_> = origin.revisions.iter().map(short).collect();
    let are = are.join(" and ");
    let wanted = profile.model.source.as_deref().and_then(|source| source.strip_prefix("hf:"));
    let (repo, revision) = wanted.map_or((None, None), |wanted| match wanted.split_once('@') {
        Some((repo, revision)) => (Some(repo), Some(revision)),
        None => (Some(wanted), None),
    });
    let fetch = |revision: &str| {
        let revision = if revision.is_empty() { String::new() } else { format!(" --revision {revision}") };
        format!(
            "fetch what is wanted: hf download {}{revision}; or correct `model.source`",
            repo.unwrap_or("OWNER/NAME")
        )
    };
    let error = |message: String| {
        let hint = fetch(revision.unwrap_or_default());
        Some(Finding::error("model-revision", Some(&facts.node), message, &hint).at("model.source"))
    };
    let by = &origin.told_by;
    if let (Some(repo), Some(is)) = (repo, &origin.repo)
        && !repo.eq_ignore_ascii_case(is)
    {
        return error(format!(
            "`{}` is {is}, as {by} says, and `model.source` names {repo}",
            profile.model.path
        ));
    }
    if let Some(revision) = revision {
        let is_commit = revision.len() >= SHORT && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = origin.refs.get(revision).cloned().or(is_commit.then(|| revision.to_ascii_lowercase()));
        if let Some(commit) = commit
            && origin.revisions.iter().any(|is| !is.starts_with(&commit))
        {
            let named = if origin.refs.contains_key(revision) {
                format!(" ({})", short(&commit))
            } else {
                String::new()
            };
            return error(format!(
                "the files are of revision {are}, as {by} says, and `model.source` names {revision}{named}"
            ));
        }
    }
    (origin.revisions.len() > 1).then(|| {
        let message = format!("the files are of several revisions, {are}, as {by} says");
        let hint = fetch(revision.unwrap_or_default());
        Finding::warning("model-revision", Some(&facts.node), message, &hint).at("model.path")
    })
}

/// Files of other users. Where weights are to be copied, the user has to write.
fn owner(facts: &NodeFacts, content: &ModelContent, receives: bool, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    let named = |path: &str| if path.is_empty() { "the folder itself".to_owned() } else { path.to_owned() };
    if let Some(file) = content.foreign.iter().find(|file| !file.readable) {
        findings.push(
            Finding::error(
                "model-unreadable",
                node,
                format!("{} is of user {} and cannot be read", named(&file.path), file.uid),
                "sudo chown -R USER FOLDER, or chmod -R a+rX FOLDER",
            )
            .at("model.path"),
        );
    }
    let locked: Vec<_> = content.foreign.iter().filter(|file| !file.writable).collect();
    let Some(first) = locked.first() else { return };
    let owner = if first.uid == 0 { "root".to_owned() } else { format!("user {}", first.uid) };
    let message = match locked.len() {
        1 => format!("{} is of {owner} and cannot be written", named(&first.path)),
        count => {
            format!("{} and {} more are of {owner} and cannot be written", named(&first.path), count - 1)
        }
    };
    let found = if receives { Finding::error } else { Finding::note };
    findings.push(found("model-owner", node, message, "sudo chown -R USER FOLDER").at("model.path"));
}

/// Names of which one is enough for a tokenizer.
const TOKENIZERS: &[&str] = &["tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"];

fn tokenizer(facts: &NodeFacts, model: &ModelFolder, findings: &mut Vec<Finding>) {
    let is = |path: &str| {
        TOKENIZERS.contains(&path) || path.ends_with(".tiktoken") || path.starts_with("tokenizer.model")
    };
    let whole = model.file("config.json").is_some() && model.dangling.is_empty();
    if whole && !model.files.iter().any(|file| is(&file.path)) {
        findings.push(
            Finding::warning(
                "model-tokenizer",
                Some(&facts.node),
                "the folder has no tokenizer".to_owned(),
                "fetch the model's tokenizer files as well: `hf download` takes all of them",
            )
            .at("model.path"),
        );
    }
}

/// Another model, or another revision, where the head's is to be copied to.
fn differs(
    facts: &NodeFacts,
    own: &ModelFolder,
    head: &NodeFacts,
    wanted: &ModelFolder,
    findings: &mut Vec<Finding>,
) {
    let clashing =
        wanted.files.iter().filter(|file| own.file(&file.path).is_some_and(|there| there.size != file.size));
    let clashing: Vec<_> = clashing.map(|file| file.path.as_str()).collect();
    let config = |folder: &ModelFolder| folder.content.as_ref().and_then(|content| content.config.clone());
    let other_config = config(own).zip(config(wanted)).is_some_and(|(own, wanted)| own != wanted);
    if clashing.is_empty() && !other_config {
        return;
    }
    let what = if clashing.is_empty() { "config.json".to_owned() } else { few(clashing) };
    findings.push(
        Finding::warning(
            "model-differs",
            Some(&facts.node),
            format!("has another model or revision there than {}: {what}", head.node),
            "a deploy copies the head's over it; keep the other one elsewhere where it is still needed",
        )
        .at("model.path"),
    );
}
