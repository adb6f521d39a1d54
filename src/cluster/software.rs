//! Which software an image has: asked of the image itself on a node that has it, by a short run without GPU and network.
//!
//! Labels and variables are not trusted: an image inherits `org.opencontainers.image.version` from its base, and NVIDIA's
//! say their own version, not the engine's. The container of that run is removed at once, as its log says nothing that is
//! not in the answer. A node remembers the answer by the image's content, so the next look starts nothing. An image that
//! cannot be asked is a gap in the facts, never an error.

use std::time::Duration;

use crate::cluster::facts::{Gap, Image, Missing, NodeFacts, Software};
use crate::execute::Hosts;
use crate::host::{Host, Script};
use crate::profile::Profile;

/// How long it may take: a cold image is read from disk.
const LIMIT: Duration = Duration::from_secs(150);
/// What it is called where it could not be had.
const WHAT: &str = "image-software";

/// Adds to the facts what the profile's image has, on every node that has the image.
pub async fn add(profile: &Profile, hosts: &Hosts, facts: &mut [NodeFacts]) {
    let reference = profile.image.reference.with_tag();
    let there = |facts: &NodeFacts| {
        let image = facts.image_named(&reference)?;
        Some((facts.node.clone(), image.content.clone(), image.id.clone()))
    };
    let Some((node, content, id)) = facts.iter().find_map(there) else { return };
    let Some(host) = hosts.get(&node) else { return };
    match ask(host.as_ref(), &content.0, &id).await {
        Ok(software) => {
            let same = |image: &&mut Image| image.content == content;
            for image in facts.iter_mut().flat_map(|facts| &mut facts.images).filter(same) {
                image.software = Some(software.clone());
            }
        }
        Err(why) => {
            let gap = Gap { what: WHAT.to_owned(), why: Missing::Failed(why) };
            facts
                .iter_mut()
                .filter(|facts| facts.node == node)
                .for_each(|facts| facts.gaps.push(gap.clone()));
        }
    }
}

async fn ask(host: &dyn Host, content: &str, image: &str) -> Result<Software, String> {
    let script = Script::new(WHAT, include_str!("software.sh"), [content, image]).timeout(LIMIT);
    let output = host.run(script).await.map_err(|error| crate::error::in_full(&error))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.code != Some(0) {
        return Err(if said.is_empty() { "the image has no Python that answers".to_owned() } else { said });
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("what it says makes no sense: {error}"))
}
