//! Which placed files and secrets have to be brought to which node, and from where. Pure.
//!
//! What a group needs stands in its containers' mounts, of a new release as of a recorded one.

use super::{Action, Step};
use crate::check::Finding;
use crate::cluster::facts::NodeFacts;
use crate::container::Mount;
use crate::delivery::Delivery;
use crate::delivery::kept::{Kept, KeptKind};
use crate::release::Release;

/// The steps for nodes that lack something: from the operator's machine where it has the content, else from another
/// node. What is nowhere any more is a finding.
pub(super) fn steps(
    release: &Release,
    facts: &[NodeFacts],
    delivery: &Delivery,
    findings: &mut Vec<Finding>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for rank in &release.ranks {
        let Some(facts_here) = facts.iter().find(|facts| facts.node == rank.node) else { continue };
        for mount in &rank.spec.mounts {
            let on =
                |facts: &NodeFacts| Kept::mounted(&mount.source, &facts.system.home, &release.deployment);
            let Some(kept) = on(facts_here).filter(|kept| !kept.is_in(&facts_here.kept)) else { continue };
            match bring(&kept, mount, facts, delivery) {
                Some(action) => steps.push(Step { node: rank.node.clone(), action }),
                None => findings.push(Finding::error(
                    if kept.kind == KeptKind::Files { "file-absent" } else { "secrets-absent" },
                    Some(&rank.node),
                    format!("{} of release {} is on no node any more", named(&kept, mount), release.number),
                    "deploy anew from the profile: the release cannot come back without it",
                )),
            }
        }
    }
    steps
}

fn named(kept: &Kept, mount: &Mount) -> String {
    match kept.kind {
        KeptKind::Files => format!("the file `{}`", mount.target),
        KeptKind::Secrets => "the file of secrets".to_owned(),
    }
}

fn bring(kept: &Kept, mount: &Mount, facts: &[NodeFacts], delivery: &Delivery) -> Option<Action> {
    let (kept, target) = (kept.clone(), mount.target.clone());
    if kept.kind == KeptKind::Secrets && !delivery.secrets.is_empty() {
        let names = delivery.secrets.names();
        return Some(Action::PutSecrets { kept, names, content: delivery.secrets.file() });
    }
    if let Some(file) =
        delivery.files.iter().find(|file| kept.kind == KeptKind::Files && file.content.sha256() == kept.id)
    {
        return Some(Action::PutFile {
            kept,
            target,
            bytes: file.content.size(),
            content: file.content.clone(),
        });
    }
    let from = facts.iter().find(|facts| kept.is_in(&facts.kept))?.node.clone();
    Some(Action::CopyKept { from, kept, target })
}
