//! The image: its architecture, its CUDA, and variables in it that steer engine or network.

use super::{Finding, Seen, content};
use crate::cluster::facts::{Image, NodeFacts};
use crate::container::ImageContent;
use crate::engine::env;
use crate::profile::Profile;

/// An image of another architecture than the nodes that will run it.
pub fn architecture(content: &ImageContent, facts: &[NodeFacts]) -> Vec<Finding> {
    let Some(image) = facts.iter().find_map(|facts| facts.image(content)) else { return Vec::new() };
    // Nodes that differ are told of as such: no image would do.
    if facts.iter().any(|node| node.system.architecture != facts[0].system.architecture) {
        return Vec::new();
    }
    let as_docker_says = |uname: &str| match uname {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    };
    facts
        .iter()
        .filter(|facts| as_docker_says(&facts.system.architecture) != image.architecture)
        .map(|facts| {
            Finding::error(
                "image-architecture",
                Some(&facts.node),
                format!("the image is for {}, the node is {}", image.architecture, facts.system.architecture),
                "pull or build the image for the node's architecture",
            )
        })
        .collect()
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    let Some(content) = content(seen.profile, seen.facts()) else { return };
    let Some(image) = seen.facts().find_map(|facts| facts.image(content)) else { return };
    baked(seen, image, findings);
    cuda(seen, image, findings);
}

/// Beginnings of variables that steer how ranks find one another, or what they do with a GPU.
const STEER: &[&str] = &[
    "NCCL_",
    "GLOO_",
    "TP_SOCKET_",
    "UCX_NET",
    "OMPI_MCA_",
    "MASTER_",
    "RAY_ADDRESS",
    "VLLM_HOST_IP",
    "VLLM_PORT",
    "SGLANG_HOST_IP",
    "CUDA_VISIBLE_",
    "NVIDIA_VISIBLE_",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// Those that every image of the field sets to what is right, or that only say where something lies.
const HARMLESS: &[&str] = &["NCCL_VERSION", "NCCL_DEBUG", "NVIDIA_VISIBLE_DEVICES=all"];

/// Variables that steer. Those that sparkctl or the profile sets anyhow do nothing, and are only noted.
fn baked(seen: &Seen, image: &Image, findings: &mut Vec<Finding>) {
    let profile: &Profile = seen.profile;
    let steers = |name: &str| STEER.iter().any(|beginning| name.starts_with(beginning));
    let harmless = |name: &str, value: &str| {
        HARMLESS.iter().any(|known| *known == name || *known == format!("{name}={value}"))
    };
    // This one is set only where there is a RoCE device.
    let has_devices = |member: &super::Member| {
        member.facts.interface_of(member.node.fabric).is_some_and(|interface| !interface.rdma.is_empty())
    };
    let overridden = |name: &str| {
        let ours = env::reserved(&profile.engine, name).is_some();
        profile.engine.env.contains_key(name)
            || (ours && (name != "NCCL_IB_HCA" || seen.nodes.iter().all(has_devices)))
    };
    let here = image.env.iter().filter(|(name, value)| steers(name) && !harmless(name, value));
    let (idle, acting): (Vec<_>, Vec<_>) = here.partition(|(name, _)| overridden(name));
    let told = |variables: Vec<(&String, &String)>| {
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    };
    if !acting.is_empty() {
        findings.push(
            Finding::warning(
                "image-env",
                None,
                format!("the image sets {}", told(acting)),
                "set them in `engine.env` to what is right here, or take an image without them",
            )
            .at("image.reference"),
        );
    }
    if !idle.is_empty() {
        findings.push(
            Finding::note(
                "image-env",
                None,
                format!("the image sets {}, and what sparkctl or the profile sets holds", told(idle)),
                "nothing to do: the containers' own values are not the image's",
            )
            .at("image.reference"),
        );
    }
}

fn cuda(seen: &Seen, image: &Image, findings: &mut Vec<Finding>) {
    let Some(wanted) = image.env.get("CUDA_VERSION") else { return };
    let major = |version: &str| version.split('.').next()?.parse::<u32>().ok();
    for facts in seen.facts() {
        let Some(can) = &facts.nvidia.cuda else { continue };
        if major(wanted) > major(can) {
            findings.push(
                Finding::warning(
                    "image-cuda",
                    Some(&facts.node),
                    format!("the image is of CUDA {wanted}, the driver can do {can}"),
                    "update the driver, or take an image of the driver's CUDA",
                )
                .at("image.reference"),
            );
        }
    }
}
