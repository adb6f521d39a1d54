//! Which bytes have to move before a group can start, and from where. Pure.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::render::size;
use super::{Action, Rail, Step, fanout};
use crate::check::Finding;
use crate::cluster::facts::{Image, ImageStore, ModelFile, ModelFolder, NodeFacts};
use crate::container::hex;
use crate::fabric;
use crate::profile::Profile;
use crate::release::{RecordedImage, Release};

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

/// Identity of a model's files by their content: path and SHA-256 of each; `None` where one is not known.
pub fn weights_content(files: &[ModelFile]) -> Option<String> {
    let mut files: Vec<_> = files.iter().collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\0{}\n", file.path, file.sha256.as_ref()?));
    }
    Some(hex(&hash.finalize()))
}

/// Whether a release was served from these files: by their content where that was known then and is now; else nobody
/// touched them since.
pub fn is_of(release: &Release, files: &[ModelFile]) -> bool {
    match (&release.weights_content, weights_content(files)) {
        (Some(then), Some(now)) => *then == now,
        _ => release.weights == weights_digest(files),
    }
}

/// Files of the model that workers lack: from the head where one of them lacks some, else also from those that have them. A
/// file is there when its hash was seen on both nodes and is the same; with `verify` no file is known to be there.
pub(super) fn weights(
    profile: &Profile,
    facts: &[NodeFacts],
    weights: &ModelFolder,
    verify: bool,
    findings: &mut Vec<Finding>,
) -> Vec<Step> {
    let nodes = &profile.cluster.nodes;
    let addresses: Vec<_> = nodes.iter().map(|node| node.fabric).collect();
    let rails = fabric::rails(&addresses, facts);
    let there =
        |to: usize, file: &ModelFile| facts[to].model.as_ref().and_then(|model| model.file(&file.path));
    // The same by size and time is the same, most likely, and of another size it is surely not.
    let alike = |to: usize, files: &[ModelFile]| -> u64 {
        let alike = files.iter().filter(|file| there(to, file).is_some_and(|there| there.is_like(file)));
        alike.map(|file| file.size).sum()
    };
    let mut lacking = vec![Vec::new(); nodes.len()];
    for (to, lacks) in lacking.iter_mut().enumerate().skip(1) {
        let is_there =
            |file: &&ModelFile| !verify && there(to, file).is_some_and(|there| there.is_surely(file));
        *lacks = weights.files.iter().filter(|file| !is_there(file)).cloned().collect();
        let bytes = lacks.iter().map(|file| file.size).sum::<u64>() - alike(to, lacks);
        // What a cut transfer left is there already, and counts as taken space as well.
        let partial = facts[to].model.as_ref().map_or(0, |model| model.partial);
        if let Some(disk) = facts[to].model_disk
            && disk.free + partial < bytes
        {
            findings.push(Finding::error(
                "disk-model",
                Some(&nodes[to].name),
                format!(
                    "{} are to be copied to `{}`, {} are free there",
                    size(bytes),
                    profile.model.path,
                    size(disk.free)
                ),
                "free some space on that file system",
            ));
        }
    }
    let copy = |Copy { from, to, files }| {
        let compare = alike(to, &files);
        let rails = rails[from].iter().zip(&rails[to]).map(|(from, to)| Rail { from: *from, to: *to });
        Step {
            node: nodes[to].name.clone(),
            action: Action::CopyWeights {
                from: nodes[from].name.clone(),
                rails: rails.collect(),
                transfer: profile.cluster.transfer,
                path: profile.model.path.clone(),
                bytes: files.iter().map(|file| file.size).sum::<u64>() - compare,
                files,
                compare,
                verify,
                model: weights.files.clone(),
            },
        }
    };
    copies(lacking).into_iter().map(copy).collect()
}

/// Files that come to a node from another, by their places in the profile.
struct Copy {
    from: usize,
    to: usize,
    files: Vec<ModelFile>,
}

/// What each node takes from whom, by what it lacks: where several do, in parts, and not all of them from the head. Their
/// order is the one in which each node sends and takes them.
fn copies(lacking: Vec<Vec<ModelFile>>) -> Vec<Copy> {
    let lack = lacking.iter().filter(|files| !files.is_empty()).count();
    if lack < 2 {
        let one = lacking.into_iter().enumerate().filter(|(_, files)| !files.is_empty());
        return one.map(|(to, files)| Copy { from: 0, to, files }).collect();
    }
    let all: Vec<_> = lacking.iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
    let lacking: Vec<BTreeSet<_>> = lacking.iter().map(|files| files.iter().collect()).collect();
    let sizes: Vec<_> = all.iter().map(|file| file.size).collect();
    let parts = fanout::parts(&sizes, (sizes.iter().sum::<u64>() / PARTS).max(LEAST_PART));
    let (all, lacking, parts) = (&all, &lacking, &parts);
    let wanted = |to: usize, part: usize| {
        parts[part].iter().map(|file| all[*file]).filter(move |file| lacking[to].contains(file))
    };
    let has: Vec<Vec<_>> = (0..lacking.len())
        .map(|to| (0..parts.len()).map(|part| wanted(to, part).next().is_none()).collect())
        .collect();
    let bytes: Vec<_> = parts.iter().map(|part| part.iter().map(|file| sizes[*file]).sum()).collect();
    let passages = fanout::schedule(&has, &bytes, 1);
    let copy = |passage: fanout::Passage| {
        let files = wanted(passage.to, passage.part).cloned().collect();
        Copy { from: passage.from, to: passage.to, files }
    };
    passages.into_iter().map(copy).collect()
}

/// Files on each worker that the head's folder does not have.
pub(super) fn extra<'a>(facts: &'a [NodeFacts], weights: &ModelFolder) -> Vec<(&'a NodeFacts, Vec<String>)> {
    let workers = facts.iter().skip(1).filter_map(|facts| Some((facts, facts.model.as_ref()?)));
    let extra = workers.map(|(facts, model)| {
        let files = model.files.iter().filter(|file| weights.file(&file.path).is_none());
        (facts, files.map(|file| file.path.clone()).collect::<Vec<_>>())
    });
    extra.filter(|(_, files)| !files.is_empty()).collect()
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
