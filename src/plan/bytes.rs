//! Which bytes have to move before a group can start, and from where. Pure.

use sha2::{Digest, Sha256};

use super::layers::{self, Part};
use super::render::size;
use super::{Action, Step, Taker};
use crate::check::Finding;
use crate::cluster::facts::{ModelFile, ModelFolder, NodeFacts};
use crate::container::hex;
use crate::profile::Profile;
use crate::release::RecordedImage;

/// Identity of a model's files without reading them: path, size and modification time of each.
pub fn weights_digest(files: &[ModelFile]) -> String {
    let mut files: Vec<_> = files.iter().collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\0{}\0{}\n", file.path, file.size, file.mtime));
    }
    hex(&hash.finalize())
}

/// Files of the model that workers lack, from the head.
pub(super) fn weights(
    profile: &Profile,
    facts: &[NodeFacts],
    weights: &ModelFolder,
    findings: &mut Vec<Finding>,
) -> Vec<Step> {
    let head = &profile.cluster.nodes[0];
    let mut steps = Vec::new();
    for (node, facts) in profile.cluster.nodes.iter().zip(facts).skip(1) {
        let have = facts.model.as_ref().map_or(&[][..], |model| &model.files);
        let missing: Vec<_> = weights.files.iter().filter(|file| !have.contains(file)).cloned().collect();
        if missing.is_empty() {
            continue;
        }
        let bytes = missing.iter().map(|file| file.size).sum();
        // What a cut transfer left is there already, and counts as taken space as well.
        let partial = facts.model.as_ref().map_or(0, |model| model.partial);
        if let Some(disk) = facts.model_disk
            && disk.free + partial < bytes
        {
            findings.push(Finding::error(
                "disk-model",
                Some(&node.name),
                format!(
                    "{} are to be copied to `{}`, {} are free there",
                    size(bytes),
                    profile.model.path,
                    size(disk.free)
                ),
                "free some space on that file system",
            ));
        }
        steps.push(Step {
            node: node.name.clone(),
            action: Action::CopyWeights {
                from: head.name.clone(),
                from_address: head.fabric,
                to_address: node.fabric,
                path: profile.model.path.clone(),
                files: missing,
                bytes,
            },
        });
    }
    steps
}

/// The image for the nodes that lack it, from the first that has it; and sparkctl's own name for it everywhere. Nodes
/// that lack the same of it share a step.
pub(super) fn image(
    profile: &Profile,
    image: &RecordedImage,
    facts: &[NodeFacts],
    findings: &mut Vec<Finding>,
) -> Vec<Step> {
    let holder = |i: &usize| facts[*i].image(&image.content);
    let Some(source) = (0..facts.len()).find(|i| holder(i).is_some()) else { return Vec::new() };
    let source_image = holder(&source).expect("the source has the image");
    let nodes = &profile.cluster.nodes;
    let mut copies: Vec<(Part, Vec<Taker>)> = Vec::new();
    let mut steps = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        match holder(&i) {
            Some(there) if there.references.contains(&image.content.kept_as()) => {}
            Some(there) => steps.push(Step {
                node: node.name.clone(),
                action: Action::KeepImage { image: there.id.clone(), content: image.content.clone() },
            }),
            None => {
                let part = layers::lacking(
                    source_image,
                    facts[i].engine().map(|docker| docker.store),
                    &facts[i].images,
                );
                findings.extend(room_for_image(part.bytes, &facts[i]));
                let taker = Taker { node: node.name.clone(), address: node.fabric };
                match copies.iter_mut().find(|(same, _)| *same == part) {
                    Some((_, takers)) => takers.push(taker),
                    None => copies.push((part, vec![taker])),
                }
            }
        }
    }
    steps.extend(copies.into_iter().map(|(part, to)| Step {
        node: nodes[source].name.clone(),
        action: Action::CopyImage {
            from_address: nodes[source].fabric,
            to,
            image: source_image.id.clone(),
            content: image.content.clone(),
            layers: source_image.layers.len(),
            left_out: part.left_out,
            names: part.names,
            bytes: part.bytes,
        },
    }));
    steps
}

/// What is missing at Docker's data root for layers to come. The classic store keeps the archive
/// beside the unpacked layers for a moment, the containerd store blobs and snapshots for good.
fn room_for_image(bytes: u64, target: &NodeFacts) -> Option<Finding> {
    let needed = 2 * bytes;
    let docker = target.engine()?;
    let free = docker.disk?.free;
    (free < needed).then(|| {
        Finding::error(
            "disk-image",
            Some(&target.node),
            format!(
                "the image needs {} at `{}` while it is loaded, {} are free there",
                size(needed),
                docker.root,
                size(free)
            ),
            "free some space: `docker system df` shows what takes it",
        )
    })
}
