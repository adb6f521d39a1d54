//! What lies in sparkctl's folder on a node for containers to read: where, under which name. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Delivery, LocalFile};
use crate::cluster::facts::NodeFacts;
use crate::container::{Mount, Rank};
use crate::engine::prelude::SECRETS_TARGET;
use crate::profile::DeploymentName;
use crate::release::ReleaseNumber;

/// A file in sparkctl's folder on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kept {
    pub deployment: DeploymentName,
    pub kind: KeptKind,
    /// SHA-256 of a placed file; of secrets the release that they were brought for.
    pub id: String,
}

/// What a kept file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptKind {
    /// One of the profile's `files`; for everybody to read, as a container's user may be anybody.
    Files,
    /// The values of the profile's secrets; for its owner alone, and for root, as which engines run.
    Secrets,
}

impl KeptKind {
    /// The folder's name.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Secrets => "secrets",
        }
    }
}

/// What of it was seen on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptFacts {
    /// Bytes of the placed files, by their SHA-256.
    pub files: BTreeMap<String, u64>,
    /// Files of secrets by their name: the variables, and whether each holds the value that is to be delivered now;
    /// `None` where nobody compared.
    pub secrets: BTreeMap<String, BTreeMap<String, Option<bool>>>,
}

impl Kept {
    /// Absolute path on a node.
    pub fn path(&self, home: &str) -> String {
        format!("{}{}/{}", folder(home, &self.deployment), self.kind.folder(), self.id)
    }

    /// What is mounted from `source`, if it is something kept.
    pub fn mounted(source: &str, home: &str, deployment: &DeploymentName) -> Option<Self> {
        let (kind, id) = source.strip_prefix(&folder(home, deployment))?.split_once('/')?;
        let kind = [KeptKind::Files, KeptKind::Secrets].into_iter().find(|known| known.folder() == kind)?;
        Some(Self { deployment: deployment.clone(), kind, id: id.to_owned() })
    }

    /// Whether a node has it.
    pub fn is_in(&self, facts: &KeptFacts) -> bool {
        match self.kind {
            KeptKind::Files => facts.files.contains_key(&self.id),
            KeptKind::Secrets => facts.secrets.contains_key(&self.id),
        }
    }
}

impl KeptFacts {
    /// Reads what `gather.sh` prints: `files SHA256 SIZE`, `secrets FILE NAME`.
    pub fn parse(text: &str) -> Self {
        let mut seen = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["files", sha256, size] => {
                    if let Ok(size) = size.parse() {
                        seen.files.insert(sha256.to_owned(), size);
                    }
                }
                ["secrets", file, name] => {
                    seen.secrets.entry(file.to_owned()).or_default().insert(name.to_owned(), None);
                }
                _ => {}
            }
        }
        seen
    }
}

fn folder(home: &str, deployment: &DeploymentName) -> String {
    format!("{}/.local/state/sparkctl/{deployment}/", home.trim_end_matches('/'))
}

/// Mounts what is delivered into every rank's container. A file lies under its content's digest, so another content is
/// another specification; secrets under a name that is kept as long as no value changes.
pub fn mount(
    ranks: &mut [Rank],
    deployment: &DeploymentName,
    delivery: &Delivery,
    facts: &[NodeFacts],
    new: ReleaseNumber,
) {
    let kept = |kind, id| Kept { deployment: deployment.clone(), kind, id };
    let secrets = (!delivery.secrets.is_empty())
        .then(|| kept(KeptKind::Secrets, secrets_id(deployment, delivery, facts, new)));
    for rank in ranks {
        let Some(facts) = facts.iter().find(|facts| facts.node == rank.node) else { continue };
        let mut read_only = |kept: &Kept, target: &str| {
            let source = kept.path(&facts.system.home);
            rank.spec.mounts.push(Mount { source, target: target.to_owned(), read_only: true });
        };
        for LocalFile { target, content } in &delivery.files {
            read_only(&kept(KeptKind::Files, content.sha256()), target);
        }
        if let Some(secrets) = &secrets {
            read_only(secrets, SECRETS_TARGET);
        }
    }
}

/// The name of a file of secrets that holds just these values wherever it lies: the one that the running group has,
/// else the newest; else a new one.
fn secrets_id(
    deployment: &DeploymentName,
    delivery: &Delivery,
    facts: &[NodeFacts],
    new: ReleaseNumber,
) -> String {
    let wanted: BTreeMap<_, _> =
        delivery.secrets.names().into_iter().map(|name| (name, Some(true))).collect();
    let all = || facts.iter().flat_map(|facts| facts.kept.secrets.keys());
    let holds =
        |id: &&String| facts.iter().filter_map(|f| f.kept.secrets.get(*id)).all(|there| *there == wanted);
    let runs = |id: &&String| {
        facts.iter().any(|facts| {
            let releases = facts.ours(deployment).filter(|(container, _)| container.state.running);
            let releases =
                releases.filter_map(|(_, ours)| facts.releases.iter().find(|r| r.number == ours.release));
            let mut mounts = releases.flat_map(|r| &r.ranks).flat_map(|rank| &rank.spec.mounts);
            mounts.any(|mount| {
                mount.target == SECRETS_TARGET && mount.source.rsplit('/').next() == Some(id.as_str())
            })
        })
    };
    if let Some(id) = all().filter(holds).max_by_key(|id| (runs(id), (*id).clone())) {
        return id.clone();
    }
    // A deploy that was killed before its record was written may have left this name with other values.
    let named =
        |attempt: u32| if attempt == 0 { format!("{:04}", new.0) } else { format!("{:04}-{attempt}", new.0) };
    (0..=u32::MAX).map(named).find(|id| !all().any(|there| there == id)).expect("there is no end of numbers")
}
