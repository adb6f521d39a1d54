//! What nothing needs any more of what sparkctl has put on nodes, as data: a pure function of facts and inventories.
//!
//! Needed is what a release needs that can still be rolled back to: the one that runs, the last
//! few that were deployed, and the newest. What another deployment's record on the node names, or a
//! container there uses, stays as well. Only things of sparkctl's own are named here: its kept
//! images by its own tag, its records, files, secrets and volume, what its cut copies left; weights
//! only where that was asked for. A record goes last, so that one that was cut in between says what
//! is left to do. Left out: what another user's deployments need, whose records cannot be read.

mod render;
pub mod store;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::check::Finding;
use crate::cluster::facts::{Container, Image, NodeFacts};
use crate::container::ImageContent;
use crate::delivery::kept::{Kept, KeptKind};
use crate::plan::layers_shared;
use crate::profile::{NodeName, Profile};
use crate::release::{Outcome, Release, ReleaseNumber};

pub use render::{asked, result, text};

/// What is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many of the last releases that were deployed.
    pub releases: usize,
    /// Whether weights that no release needs go as well.
    pub weights: bool,
}

/// What of sparkctl's lies on a node, of all deployments of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// By deployment and name of the release's folder.
    pub records: BTreeMap<String, BTreeMap<String, Record>>,
    /// Folders that cut copies left in model folders, and their bytes; none that was written to lately.
    pub partial: BTreeMap<String, u64>,
    /// Plain folders of models that the deployment's records name, and their bytes.
    pub models: BTreeMap<String, u64>,
    /// Names of all volumes.
    pub volumes: Vec<String>,
}

/// A release's folder, and what its record needs; nothing known of a record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub bytes: u64,
    pub image: Option<String>,
    pub model: Option<String>,
}

/// What goes, and what stays for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prune {
    /// Releases that can still be rolled back to, or that run.
    pub kept: Vec<ReleaseNumber>,
    /// What goes from each node, in the order of the profile's nodes; a node that nothing goes from is not there.
    pub nodes: Vec<(NodeName, Vec<Item>)>,
}

/// One thing that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    pub kind: Kind,
    /// What identifies it on the node.
    pub name: Vec<String>,
    /// Bytes that this frees, about.
    pub bytes: u64,
}

/// Kinds of things, in the order in which they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What a cut copy left in a model's folder.
    Partial,
    /// Sparkctl's own name of an image, and the image with it where it has no other.
    Image,
    /// A placed file.
    Files,
    /// A release's file of secrets.
    Secrets,
    /// The volume of compiled kernels.
    Volume,
    /// A model's folder.
    Weights,
    /// A release's record, with its logs.
    Release,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Image => "image",
            Self::Files => "files",
            Self::Secrets => "secrets",
            Self::Volume => "volume",
            Self::Weights => "weights",
            Self::Release => "release",
        }
    }
}

impl Prune {
    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// What goes. `facts` and `inventories` are in the order of the profile's nodes. A record that cannot be read is an
/// error: what it needs is not known.
pub fn plan(
    profile: &Profile,
    retention: Retention,
    facts: &[NodeFacts],
    inventories: &[Inventory],
) -> Result<Prune, Finding> {
    readable(profile, facts, inventories)?;
    let releases = Releases::new(profile, retention, facts);
    let mut nodes = Vec::new();
    for (facts, inventory) in facts.iter().zip(inventories) {
        let mut items = partial(inventory);
        items.extend(images(&releases, facts, inventory));
        items.extend(kept(&releases, facts));
        items.extend(volume(profile, facts, inventory));
        if retention.weights {
            items.extend(weights(&releases, facts, inventory));
        }
        items.extend(records(&releases, inventory));
        items.sort_by_key(|item| item.kind);
        if !items.is_empty() {
            nodes.push((facts.node.clone(), items));
        }
    }
    Ok(Prune { kept: releases.needed.iter().rev().copied().collect(), nodes })
}

/// The releases of the deployment, and which of them stay.
struct Releases<'a> {
    profile: &'a Profile,
    all: BTreeMap<ReleaseNumber, &'a Release>,
    /// Those that can be rolled back to, that run, and the newest.
    needed: BTreeSet<ReleaseNumber>,
    /// The oldest whose record stays; what failed since then may still be looked at.
    oldest: ReleaseNumber,
    /// The image that the profile names now: it may have been pushed for the next deploy.
    wanted: Option<&'a ImageContent>,
}

impl<'a> Releases<'a> {
    fn new(profile: &'a Profile, retention: Retention, facts: &'a [NodeFacts]) -> Self {
        let all: BTreeMap<_, _> =
            facts.iter().flat_map(|facts| &facts.releases).map(|release| (release.number, release)).collect();
        let deployed = all.values().rev().filter(|release| release.outcome == Outcome::Deployed);
        let mut needed: BTreeSet<_> =
            deployed.map(|release| release.number).take(retention.releases).collect();
        let oldest = needed.first().copied().unwrap_or(ReleaseNumber(0));
        needed.extend(facts.iter().flat_map(|facts| facts.ours(&profile.name)).map(|(_, ours)| ours.release));
        needed.extend(all.keys().next_back());
        let reference = profile.image.reference.with_tag();
        let wanted = facts.iter().find_map(|facts| facts.image_named(&reference)).map(|image| &image.content);
        Self { profile, all, needed, oldest, wanted }
    }

    fn stays(&self, number: ReleaseNumber) -> bool {
        number >= self.oldest || self.needed.contains(&number)
    }

    fn to_come_back(&self) -> impl Iterator<Item = &&'a Release> {
        self.all.values().filter(|release| self.needed.contains(&release.number))
    }

    fn gone_by(&self) -> impl Iterator<Item = &&'a Release> {
        self.all.values().filter(|release| !self.needed.contains(&release.number))
    }
}

fn readable(profile: &Profile, facts: &[NodeFacts], inventories: &[Inventory]) -> Result<(), Finding> {
    for (facts, inventory) in facts.iter().zip(inventories) {
        let ours = facts.unreadable_releases.first().map(|why| format!("{}: {why}", profile.name));
        let others = inventory.records.iter().filter(|(name, _)| **name != *profile.name.as_str());
        let mut others = others.flat_map(|(name, records)| records.iter().map(move |record| (name, record)));
        let other = others.find(|(_, (_, record))| record.image.is_none() || record.model.is_none());
        let other = other.map(|(name, (number, _))| format!("{name}: {number}"));
        if let Some(record) = ours.or(other) {
            return Err(Finding::error(
                "record-unreadable",
                Some(&facts.node),
                format!("a release's record cannot be read ({record}), so what it needs is not known"),
                "mend it, or move its folder out of ~/.local/state/sparkctl",
            ));
        }
    }
    Ok(())
}

fn partial(inventory: &Inventory) -> Vec<Item> {
    let item = |(path, bytes): (&String, &u64)| Item {
        kind: Kind::Partial,
        name: vec![path.clone()],
        bytes: *bytes,
    };
    inventory.partial.iter().map(item).collect()
}

/// Images of releases that cannot be rolled back to any more, by sparkctl's name for them.
fn images(releases: &Releases, facts: &NodeFacts, inventory: &Inventory) -> Vec<Item> {
    let needed: BTreeSet<_> = releases.to_come_back().map(|release| &release.image.content).collect();
    let others = inventory.records.iter().filter(|(name, _)| **name != *releases.profile.name.as_str());
    let others: BTreeSet<_> =
        others.flat_map(|(_, records)| records.values()).filter_map(|record| record.image.as_ref()).collect();
    let old: BTreeSet<_> = releases.gone_by().map(|release| &release.image.content).collect();
    let goes = |image: &&Image| {
        old.contains(&image.content)
            && image.references.contains(&image.content.kept_as())
            && !needed.contains(&image.content)
            && !others.contains(&image.content.0)
            && releases.wanted != Some(&image.content)
            && !facts.containers.iter().any(|container| is_of(container, image))
    };
    let going: Vec<_> = facts.images.iter().filter(goes).collect();
    let ends = |image: &Image| image.references.len() == 1;
    let leaves: BTreeSet<_> = going.iter().filter(|image| ends(image)).map(|image| &image.id).collect();
    let mut stay: Vec<_> = facts.images.iter().filter(|image| !leaves.contains(&image.id)).collect();
    let mut items = Vec::new();
    for image in going {
        let bytes = match (ends(image), image.layers.as_slice()) {
            (false, _) => 0,
            (true, []) => image.size,
            (true, layers) => {
                let shared = stay.iter().map(|other| layers_shared(image, other)).max().unwrap_or(0);
                layers[shared..].iter().map(|layer| layer.size).sum()
            }
        };
        // Layers that two of them share are freed once.
        stay.push(image);
        items.push(Item { kind: Kind::Image, name: vec![image.content.kept_as()], bytes });
    }
    items
}

/// Whether a container was made of this image, as far as its name for it tells; the engine knows better, and refuses.
fn is_of(container: &Container, image: &Image) -> bool {
    let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
    let named = container.image.strip_prefix("sha256:").unwrap_or(&container.image);
    let tagged = format!("{named}:latest");
    image.references.iter().any(|reference| reference == named || *reference == tagged)
        || (named.len() >= 12 && id.starts_with(named))
}

/// Placed files and secrets that no needed release mounts.
fn kept(releases: &Releases, facts: &NodeFacts) -> Vec<Item> {
    let deployment = &releases.profile.name;
    let mounts =
        releases.to_come_back().flat_map(|release| &release.ranks).flat_map(|rank| &rank.spec.mounts);
    // Nodes may have other homes: what counts is the name below sparkctl's folder.
    let needed: BTreeSet<(KeptKind, String)> = mounts
        .filter_map(|mount| {
            let home = mount.source.split("/.local/state/sparkctl/").next()?;
            Kept::mounted(&mount.source, home, deployment).map(|kept| (kept.kind, kept.id))
        })
        .collect();
    let item = |kind: Kind, id: &str, bytes: u64| Item {
        kind,
        name: vec![deployment.to_string(), id.to_owned()],
        bytes,
    };
    let files = facts.kept.files.iter().filter(|(id, _)| !needed.contains(&(KeptKind::Files, (*id).clone())));
    let secrets =
        facts.kept.secrets.keys().filter(|id| !needed.contains(&(KeptKind::Secrets, (*id).clone())));
    let files = files.map(|(id, bytes)| item(Kind::Files, id, *bytes));
    // How long secrets are is nobody's business.
    files.chain(secrets.map(|id| item(Kind::Secrets, id, 0))).collect()
}

/// The volume, where nothing of the deployment is left on the node.
fn volume(profile: &Profile, facts: &NodeFacts, inventory: &Inventory) -> Option<Item> {
    let name = format!("sparkctl-{}-cache", profile.name);
    let left =
        inventory.records.contains_key(profile.name.as_str()) || facts.ours(&profile.name).next().is_some();
    let stale = !left && inventory.volumes.contains(&name);
    stale.then(|| Item { kind: Kind::Volume, name: vec![name], bytes: 0 })
}

/// Model folders that only records name that go.
fn weights(releases: &Releases, facts: &NodeFacts, inventory: &Inventory) -> Vec<Item> {
    let own = releases.all.values().filter(|release| releases.stays(release.number));
    let own = own.map(|release| release.profile.model.path.as_str());
    let others = inventory.records.iter().filter(|(name, _)| **name != *releases.profile.name.as_str());
    let others =
        others.flat_map(|(_, records)| records.values()).filter_map(|record| record.model.as_deref());
    let mounted = facts.containers.iter().flat_map(|container| container.mounts.values()).map(String::as_str);
    let mut needed: Vec<_> = own.chain(others).chain(mounted).collect();
    needed.push(&releases.profile.model.path);
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let goes = |path: &str| {
        let named = releases.all.values().any(|release| release.profile.model.path == path);
        named && !needed.iter().any(|needed| within(needed, path) || within(path, needed))
    };
    let models = inventory.models.iter().filter(|(path, _)| goes(path));
    models
        .map(|(path, bytes)| Item { kind: Kind::Weights, name: vec![path.clone()], bytes: *bytes })
        .collect()
}

fn records(releases: &Releases, inventory: &Inventory) -> Vec<Item> {
    let deployment = releases.profile.name.as_str();
    let there = inventory.records.get(deployment).into_iter().flatten();
    let goes =
        there.filter(|(number, _)| number.parse().is_ok_and(|number| !releases.stays(ReleaseNumber(number))));
    goes.map(|(number, record)| Item {
        kind: Kind::Release,
        name: vec![deployment.to_owned(), number.clone()],
        bytes: record.bytes,
    })
    .collect()
}

#[cfg(test)]
mod tests;
