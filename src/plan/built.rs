//! The image that a profile builds: its name, made of all that goes into it. Pure.

use sha2::{Digest, Sha256};

use crate::cluster::facts::NodeFacts;
use crate::container::hex;
use crate::delivery::Delivery;
use crate::profile::{ImageReference, Profile};

/// The profile with the built image's whole name as its image; `None` where nothing is built. An argument that names an
/// image of the head stands for that image's content: when its tag moves on, the image is built again.
pub fn with_tag(profile: &Profile, delivery: &Delivery, head: &NodeFacts) -> Option<Profile> {
    let build = profile.image.build.as_ref()?;
    let folder = delivery.context.as_ref()?;
    let mut inputs = Sha256::new();
    inputs.update(folder.sha256());
    for (name, value) in &build.args {
        let image = value.parse::<ImageReference>().ok().and_then(|name| head.image_named(&name.with_tag()));
        let content = image.map_or("", |image| image.content.0.as_str());
        // Lengths, so that no two lists of arguments read alike.
        for part in [name.as_str(), value.as_str(), content] {
            inputs.update(part.len().to_le_bytes());
            inputs.update(part);
        }
    }
    let tag: String = hex(&inputs.finalize()).chars().take(16).collect();
    let mut profile = profile.clone();
    let name = format!("{}:{tag}", profile.image.reference);
    profile.image.reference = name.parse().ok()?;
    Some(profile)
}

/// Whether the head has the image already.
pub fn is_there(built: &Profile, head: &NodeFacts) -> bool {
    head.image_named(built.image.reference.as_str()).is_some()
}
