//! Which bytes have to move before a group can start, and from where. Pure.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::render::size;
use super::{Action, Step, fanout};
use crate::check::Finding;
use crate::cluster::facts::{Image, ImageStore, ModelFile, ModelFolder, NodeFacts};
use crate::container::hex;
use crate::profile::{Node, NodeName, Profile};
use crate::release::RecordedImage;

/// Parts that a model is passed on in, at most: more of them keep all nodes busy, and each costs a moment to begin.
const PARTS: u64 = 16;
/// Bytes below which a part is not worth a beginning of its own.
const LEAST_PART: u64 = 256_000_000;

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

/// Files of the model that workers lack: from the head where one node lacks some, else also from those that have them.
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
    onward(&profile.cluster.nodes, steps)
}

/// The same copies where several nodes lack files: in parts, and not all of them from the head. The order of the steps is
/// the one in which each node sends and takes them.
fn onward(nodes: &[Node], steps: Vec<Step>) -> Vec<Step> {
    if steps.len() < 2 {
        return steps;
    }
    let mut path = "";
    let mut lacking: BTreeMap<&NodeName, BTreeSet<&ModelFile>> = BTreeMap::new();
    for step in &steps {
        if let Action::CopyWeights { path: of, files, .. } = &step.action {
            path = of;
            lacking.entry(&step.node).or_default().extend(files);
        }
    }
    let files: Vec<_> = lacking.values().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let sizes: Vec<_> = files.iter().map(|file| file.size).collect();
    let parts = fanout::parts(&sizes, (sizes.iter().sum::<u64>() / PARTS).max(LEAST_PART));
    let lacks =
        |node: &Node, file: usize| lacking.get(&node.name).is_some_and(|some| some.contains(files[file]));
    let has: Vec<Vec<bool>> = nodes
        .iter()
        .map(|node| parts.iter().map(|part| !part.iter().any(|file| lacks(node, *file))).collect())
        .collect();
    let bytes: Vec<_> = parts.iter().map(|part| part.iter().map(|file| sizes[*file]).sum()).collect();
    let passages = fanout::schedule(&has, &bytes, 1);
    let step = |passage: fanout::Passage| {
        let (from, to) = (&nodes[passage.from], &nodes[passage.to]);
        let wanted = parts[passage.part].iter().filter(|file| lacks(to, **file));
        let wanted: Vec<ModelFile> = wanted.map(|file| files[*file].clone()).collect();
        Step {
            node: to.name.clone(),
            action: Action::CopyWeights {
                from: from.name.clone(),
                from_address: from.fabric,
                to_address: to.fabric,
                path: path.to_owned(),
                bytes: wanted.iter().map(|file| file.size).sum(),
                files: wanted,
            },
        }
    };
    passages.into_iter().map(step).collect()
}

/// The image for the nodes that lack it, from the first that has it; and sparkctl's own name for it everywhere.
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
    let mut steps = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let action = match holder(&i) {
            Some(there) if there.references.contains(&image.content.kept_as()) => continue,
            Some(there) => Action::KeepImage { image: there.id.clone(), content: image.content.clone() },
            None => {
                let store = facts[source].engine().map_or(ImageStore::Classic, |docker| docker.store);
                findings.extend(room_for_image(source_image, store, &facts[i]));
                Action::CopyImage {
                    from: nodes[source].name.clone(),
                    from_address: nodes[source].fabric,
                    to_address: node.fabric,
                    image: source_image.id.clone(),
                    content: image.content.clone(),
                    bytes: source_image.size,
                }
            }
        };
        steps.push(Step { node: node.name.clone(), action });
    }
    steps
}

/// What is missing at Docker's data root for an image to come. The classic store keeps the archive
/// beside the unpacked layers for a moment, the containerd store blobs and snapshots for good; and
/// that is what it reports as an image's size.
fn room_for_image(image: &Image, store: ImageStore, target: &NodeFacts) -> Option<Finding> {
    let needed = match store {
        ImageStore::Classic => 2 * image.size,
        ImageStore::Containerd => image.size,
    };
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
