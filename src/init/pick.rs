//! Which model and which image the profile names: what a person asked for, or the only one there is. Pure.
//!
//! Of several none is taken: they are told, the ones that run now first.

use serde::Serialize;

use super::survey;
use crate::cluster::facts::{FoundModel, ModelForm, NodeFacts};
use crate::profile::{EngineKind, NodeName};

/// Something that a person has to do before a deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToDo {
    pub what: String,
    /// The command for it, to be copied.
    pub command: Option<String>,
}

impl ToDo {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), command: None }
    }

    pub(super) fn by(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { what: what.into(), command: Some(command.into()) }
    }
}

/// A model that lies on nodes, at one path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// As it lies on the first of `nodes`.
    #[serde(flatten)]
    pub found: FoundModel,
    /// Nodes that have all of it; of one that is nowhere complete, nodes that have some of it.
    pub nodes: Vec<NodeName>,
    /// The container that serves it now.
    pub runs_in: Option<String>,
}

/// The model that the profile names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelChoice {
    /// `model.path`; `None`: nothing is taken.
    pub path: Option<String>,
    /// `model.source`.
    pub source: Option<String>,
    /// A node and the folder on it where the model's files can be read.
    pub lies: Option<(NodeName, String)>,
    /// What it is called: the last part of its name.
    pub name: Option<String>,
    /// Why this one, or why none.
    pub because: String,
    /// What has to be done before a deploy; in words for people.
    pub to_do: Vec<ToDo>,
    /// What else could be named.
    pub candidates: Vec<Candidate>,
}

/// All models on the nodes: complete ones first, what runs before the rest, then the largest.
pub fn candidates(facts: &[NodeFacts]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for node in facts {
        for found in node.models.iter().flat_map(|scan| &scan.models) {
            match all.iter_mut().find(|candidate| candidate.found.path == found.path) {
                None => all.push(Candidate {
                    found: found.clone(),
                    nodes: vec![node.node.clone()],
                    runs_in: runs_in(found, facts),
                }),
                Some(known) if known.found.complete == found.complete => known.nodes.push(node.node.clone()),
                Some(known) if found.complete => {
                    (known.found, known.nodes) = (found.clone(), vec![node.node.clone()]);
                }
                Some(_) => {}
            }
        }
    }
    all.sort_by(|one, other| {
        let order = |c: &Candidate| {
            (!c.found.complete, c.runs_in.is_none(), std::cmp::Reverse(c.found.bytes), c.found.path.clone())
        };
        order(one).cmp(&order(other))
    });
    all
}

/// The container that serves a model now.
fn runs_in(found: &FoundModel, facts: &[NodeFacts]) -> Option<String> {
    let containers =
        facts.iter().flat_map(|node| &node.containers).filter(|container| container.state.running);
    let mut serving = containers.filter(|container| {
        survey::model_of(container).is_some_and(|model| {
            let in_cache =
                model == found.path || found.path.starts_with(&format!("{}/", model.trim_end_matches('/')));
            in_cache || found.repo.as_ref().is_some_and(|repo| repo.eq_ignore_ascii_case(&model))
        })
    });
    serving.next().map(|container| container.name.clone())
}

/// What a person names as a model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted<'a> {
    /// A folder's path.
    path: Option<&'a str>,
    /// `OWNER/NAME` on the Hub.
    repo: Option<&'a str>,
    revision: Option<&'a str>,
    name: &'a str,
}

impl<'a> Wanted<'a> {
    fn read(text: &'a str) -> Self {
        let text = text.trim_end_matches('/');
        let name = |text: &'a str| text.rsplit('/').next().unwrap_or(text);
        if text.starts_with('/') {
            return Self { path: Some(text), repo: None, revision: None, name: name(text) };
        }
        let beginnings = ["hf:", "https://", "huggingface.co/", "hf.co/"];
        let text = beginnings.iter().fold(text, |text, begin| text.strip_prefix(begin).unwrap_or(text));
        let (text, revision) = match text.split_once('@') {
            Some((text, revision)) => (text, Some(revision)),
            None => (text, None),
        };
        let repo = (text.matches('/').count() == 1).then_some(text);
        Self { path: None, repo, revision, name: name(text) }
    }

    fn is(&self, candidate: &Candidate) -> bool {
        let found = &candidate.found;
        if let Some(path) = self.path {
            return found.path == path || found.path.starts_with(&format!("{path}/"));
        }
        let revision = self
            .revision
            .is_none_or(|wanted| found.revision.as_ref().is_none_or(|revision| revision.starts_with(wanted)));
        let folder = found.path.rsplit('/').next().unwrap_or_default();
        let named = match (self.repo, &found.repo) {
            (Some(wanted), Some(repo)) => wanted.eq_ignore_ascii_case(repo),
            (None, Some(repo)) => {
                repo.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case(self.name))
            }
            (_, None) => folder.eq_ignore_ascii_case(self.name),
        };
        named && revision
    }
}

/// Picks the model: the one that is `wanted`, else the only complete one.
pub fn model(facts: &[NodeFacts], wanted: Option<&str>) -> ModelChoice {
    let candidates = candidates(facts);
    let Some(text) = wanted else {
        let complete: Vec<_> = candidates
            .iter()
            .filter(|c| c.found.complete && c.found.readable && !has_folder(c, &candidates))
            .collect();
        return match complete.as_slice() {
            [only] => taken(only, "it is the only complete model on the nodes", facts, &candidates),
            [] => open("no complete model lies on the nodes", candidates),
            several => open(&format!("{} complete models lie on the nodes", several.len()), candidates),
        };
    };
    let wanted = Wanted::read(text);
    let mut named: Vec<_> = candidates.iter().filter(|candidate| wanted.is(candidate)).collect();
    // A folder of plain files is the simpler place; on the head the model need not be moved.
    let on_head = |c: &Candidate| c.nodes.first() == facts.first().map(|node| &node.node);
    named.sort_by_key(|c| (!c.found.complete, is_cache(c.found.form), !on_head(c)));
    match named.first() {
        Some(best) => {
            let because = match named.len() {
                1 => "named by --model".to_owned(),
                several => format!("named by --model; the first of {several} places where it lies"),
            };
            let mut choice = taken(best, &because, facts, &candidates);
            if choice.source.is_none() {
                choice.source = wanted.repo.map(|repo| source(repo, wanted.revision));
            }
            choice
        }
        None => absent(&wanted, facts, candidates),
    }
}

/// Whether a model in a Hub's cache lies in a folder of plain files as well: then that one is meant.
fn has_folder(candidate: &Candidate, all: &[Candidate]) -> bool {
    let name = candidate.found.repo.as_deref().and_then(|repo| repo.rsplit('/').next());
    let is_folder = |other: &&Candidate| other.found.complete && !is_cache(other.found.form);
    let named = |other: &Candidate| other.found.path.rsplit('/').next() == name;
    is_cache(candidate.found.form) && all.iter().filter(is_folder).any(named)
}

fn open(why: &str, candidates: Vec<Candidate>) -> ModelChoice {
    ModelChoice { because: why.to_owned(), candidates, ..ModelChoice::default() }
}

fn is_cache(form: ModelForm) -> bool {
    matches!(form, ModelForm::HubCache | ModelForm::HubNotes)
}

fn source(repo: &str, revision: Option<&str>) -> String {
    revision.map_or_else(|| format!("hf:{repo}"), |revision| format!("hf:{repo}@{revision}"))
}

fn taken(candidate: &Candidate, because: &str, facts: &[NodeFacts], all: &[Candidate]) -> ModelChoice {
    let found = &candidate.found;
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let name = found.repo.as_deref().map_or_else(|| last(&found.path), last);
    let head = &facts[0].node;
    let lies_on = candidate.nodes.iter().find(|node| *node == head).unwrap_or(&candidate.nodes[0]);
    let mut to_do = Vec::new();
    if !found.complete {
        let lacks = found.lacks.first().map_or(String::new(), |lack| format!(" ({lack})"));
        to_do.push(ToDo::new(format!(
            "the model in {} on {lies_on} is not complete{lacks}: fetch it again",
            found.path
        )));
    }
    if !found.readable {
        to_do.push(ToDo::by(
            format!("this user cannot read all of {} on {lies_on}", found.path),
            format!("sudo chown -R $USER {}", found.path),
        ));
    }
    // A cache that has notes of the model and no snapshot of it has no folder to serve from.
    let path = match found.form {
        ModelForm::HubNotes => format!("{}/{name}", models_folder(facts)),
        _ => found.path.clone(),
    };
    if lies_on != head {
        to_do.push(ToDo::new(format!(
            "the model is on {lies_on} and not on {head}, the head, which gives it to the others: name {lies_on} first, \
             or copy it"
        )));
    }
    ModelChoice {
        path: Some(path),
        source: found.repo.as_ref().map(|repo| source(repo, found.revision.as_deref())),
        lies: Some((lies_on.clone(), found.path.clone())),
        name: Some(name),
        because: because.to_owned(),
        to_do,
        candidates: all.to_vec(),
    }
}

/// A model that was named and lies on no node.
fn absent(wanted: &Wanted<'_>, facts: &[NodeFacts], candidates: Vec<Candidate>) -> ModelChoice {
    let head = &facts[0].node;
    let path = wanted.path.map_or_else(|| format!("{}/{}", models_folder(facts), wanted.name), str::to_owned);
    let get = match (wanted.repo, wanted.path) {
        (Some(repo), _) => {
            let revision =
                wanted.revision.map_or(String::new(), |revision| format!(" --revision {revision}"));
            ToDo::by(
                format!("fetch the model on {head}"),
                format!("hf download {repo}{revision} --local-dir {path}"),
            )
        }
        (None, Some(_)) => ToDo::new(format!("put the model into {path} on {head}: it was not found there")),
        (None, None) => ToDo::new(format!(
            "put the model into {path} on {head}, or name it as OWNER/NAME: `{}` was found on no node",
            wanted.name
        )),
    };
    ModelChoice {
        source: wanted.repo.map(|repo| source(repo, wanted.revision)),
        // The scan does not see every folder: a path that was named is looked at all the same.
        lies: wanted.path.map(|path| (head.clone(), path.to_owned())),
        path: Some(path),
        name: Some(wanted.name.to_owned()),
        because: "named by --model; it lies on no node".to_owned(),
        to_do: vec![get],
        candidates,
    }
}

/// Where models lie on the head: beside the others, else `models` in the home folder.
fn models_folder(facts: &[NodeFacts]) -> String {
    let plain = facts[0].models.iter().flat_map(|scan| &scan.models).filter(|model| !is_cache(model.form));
    let mut parents: Vec<_> = plain
        .filter_map(|model| model.path.rsplit_once('/'))
        .map(|(parent, _)| parent)
        .filter(|p| !p.is_empty())
        .collect();
    parents.sort_unstable();
    let home = facts[0].system.home.as_str();
    let count = |parent: &str| parents.iter().filter(|other| **other == parent).count();
    let best = parents
        .iter()
        .max_by_key(|parent| (count(parent), parent.starts_with(home), std::cmp::Reverse(**parent)));
    best.map_or_else(|| format!("{home}/models"), |parent| (*parent).to_owned())
}

/// The image that the profile names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageChoice {
    /// `image.reference`; `None`: nothing is taken.
    pub reference: Option<String>,
    pub kind: EngineKind,
    pub because: String,
    pub to_do: Vec<ToDo>,
    pub candidates: Vec<ImageCandidate>,
}

/// An image with an engine, on nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageCandidate {
    pub reference: String,
    pub kind: EngineKind,
    pub nodes: Vec<NodeName>,
    /// The container that runs it now.
    pub runs_in: Option<String>,
}

/// Picks the image: the one that is `wanted`, else the only one with an engine.
pub fn image(facts: &[NodeFacts], wanted: Option<&str>) -> ImageChoice {
    let mut candidates: Vec<ImageCandidate> = Vec::new();
    for node in facts {
        for image in survey::images(node) {
            match candidates.iter_mut().find(|known| known.reference == image.reference) {
                Some(known) => known.nodes.push(node.node.clone()),
                None => candidates.push(ImageCandidate {
                    nodes: vec![node.node.clone()],
                    runs_in: image_runs_in(&image.reference, facts),
                    reference: image.reference,
                    kind: image.kind,
                }),
            }
        }
    }
    candidates.sort_by(|one, other| {
        (one.runs_in.is_none(), &one.reference).cmp(&(other.runs_in.is_none(), &other.reference))
    });
    let choice = |reference: Option<String>, kind, because: &str, to_do| ImageChoice {
        reference,
        kind,
        because: because.to_owned(),
        to_do,
        candidates: candidates.clone(),
    };
    let Some(reference) = wanted else {
        return match candidates.as_slice() {
            [only] => choice(
                Some(only.reference.clone()),
                only.kind,
                "it is the only image with an engine on the nodes",
                Vec::new(),
            ),
            [] => choice(None, EngineKind::Vllm, "no image with an engine is on the nodes", Vec::new()),
            [first, ..] => choice(
                None,
                first.kind,
                &format!("{} images with an engine are on the nodes", candidates.len()),
                Vec::new(),
            ),
        };
    };
    let there = facts.iter().find_map(|node| node.image_named(reference).map(|image| (node, image)));
    let named = super::engines::of_words([&reference.to_owned()]);
    let kind = named.or_else(|| super::engines::of_image(there?.1)).unwrap_or(EngineKind::Vllm);
    let to_do = match there {
        Some(_) => Vec::new(),
        None => vec![ToDo::by(
            format!("fetch the image on {}", facts[0].node),
            format!("docker pull {reference}"),
        )],
    };
    choice(Some(reference.to_owned()), kind, "named by --image", to_do)
}

fn image_runs_in(reference: &str, facts: &[NodeFacts]) -> Option<String> {
    let mut containers = facts.iter().flat_map(|node| &node.containers);
    containers.find(|c| c.state.running && c.image == reference).map(|container| container.name.clone())
}
