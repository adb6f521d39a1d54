//! Which layers of an image another node has already, and what an archive calls them. Pure.
//!
//! A classic store counts a layer only upon the same layers below it, so what may be left out is the
//! longest run from the bottom that any one image there begins with. A containerd store would load
//! less than it needs without a word and could not pass the image on: it gets all.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::cluster::facts::{Image, ImageStore};
use crate::container::hex;

/// What of an image has to go to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Layers that stay at home.
    pub left_out: usize,
    /// What archives call these.
    pub names: Vec<String>,
    /// Bytes of the others.
    pub bytes: u64,
}

/// What a node lacks of `image` that keeps these images.
pub(super) fn lacking(image: &Image, store: Option<ImageStore>, images: &[Image]) -> Part {
    let there = match store {
        Some(ImageStore::Classic) => images.iter().map(|other| shared(image, other)).max().unwrap_or(0),
        Some(ImageStore::Containerd) | None => 0,
    };
    let (below, above) = image.layers.split_at(there);
    // One that comes again further up is in the archive once, or as a link to the lower.
    let needed: BTreeSet<_> = above.iter().map(|layer| &layer.diff_id).collect();
    let free = |at: &usize| !needed.contains(&below[*at].diff_id);
    let free: Vec<_> = (0..there).filter(free).collect();
    let chain = chain(image);
    let names = free.iter().flat_map(|at| {
        let digest = image.layers[*at].diff_id.trim_start_matches("sha256:");
        let legacy = chain.get(*at).map(|id| format!("{id}/layer.tar"));
        std::iter::once(format!("blobs/sha256/{digest}")).chain(legacy)
    });
    let of_these: u64 = free.iter().map(|at| image.layers[*at].size).sum();
    Part { left_out: free.len(), names: names.collect(), bytes: size(image).saturating_sub(of_these) }
}

/// Bytes of a whole image: of its layers, where the engine tells them; a containerd store counts each twice.
pub(super) fn size(image: &Image) -> u64 {
    match image.layers.iter().map(|layer| layer.size).sum() {
        0 => image.size,
        layers => layers,
    }
}

/// How many of the lowest layers two images share.
pub fn shared(one: &Image, other: &Image) -> usize {
    one.layers.iter().zip(&other.layers).take_while(|(a, b)| a.diff_id == b.diff_id).count()
}

/// The names that engines before 25 give to the folders of an image's layers, but for the highest, whose name is of
/// the image's configuration as well.
fn chain(image: &Image) -> Vec<String> {
    const NOTHING: &str = r#"{"Hostname":"","Domainname":"","User":"","AttachStdin":false,"AttachStdout":false,"AttachStderr":false,"Tty":false,"OpenStdin":false,"StdinOnce":false,"Env":null,"Cmd":null,"Image":"","Volumes":null,"WorkingDir":"","Entrypoint":null,"OnBuild":null,"Labels":null}"#;
    let mut names: Vec<String> = Vec::new();
    let mut below = String::new();
    for layer in image.layers.iter().take(image.layers.len().saturating_sub(1)) {
        below = if below.is_empty() {
            layer.diff_id.clone()
        } else {
            format!("sha256:{}", hex(&Sha256::digest(format!("{below} {}", layer.diff_id))))
        };
        let parent =
            names.last().map_or_else(String::new, |parent| format!(r#","parent":"sha256:{parent}""#));
        let document = format!(
            r#"{{"container_config":{NOTHING},"created":"1970-01-01T00:00:00Z","layer_id":"{below}"{parent}}}"#
        );
        names.push(hex(&Sha256::digest(document)));
    }
    names
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
