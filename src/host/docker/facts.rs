//! From what an engine answers to facts. Pure.

use std::collections::BTreeSet;

use bollard::models::{
    ContainerConfig, ContainerInspectResponse, HostConfig, ImageInspect, SystemInfo, SystemVersion,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::cluster::facts::{Container, ContainerState, Docker, Image, ImageStore, Layer, Ours};
use crate::cluster::parse::served;
use crate::container::{self, ImageContent, hex};

pub(super) fn docker(info: SystemInfo, version: SystemVersion) -> Docker {
    let status = info.driver_status.unwrap_or_default();
    let containerd = status.iter().flatten().any(|word| word.starts_with("io.containerd.snapshotter"));
    Docker {
        version: info.server_version.unwrap_or_default(),
        store: if containerd { ImageStore::Containerd } else { ImageStore::Classic },
        root: info.docker_root_dir.unwrap_or_default(),
        disk: None,
        api: version.api_version,
        storage_driver: info.driver,
        cgroup_driver: info.cgroup_driver.map(|driver| driver.to_string()),
        cgroup_version: info.cgroup_version.map(|version| version.to_string()),
        // `io.containerd.runc.v2` is no runtime of its own, but another name for `runc`.
        runtimes: info.runtimes.map(|runtimes| {
            sorted_names(runtimes.into_keys().filter(|name| !name.starts_with("io.containerd.")))
        }),
        default_runtime: info.default_runtime.filter(|name| !name.is_empty()),
        cdi_folders: info.cdi_spec_dirs,
        cdi_devices: info.discovered_devices.map(|devices| {
            let cdi = devices.into_iter().filter(|device| device.source.as_deref() == Some("cdi"));
            sorted_names(cdi.filter_map(|device| device.id))
        }),
        rootless: info
            .security_options
            .map(|options| options.iter().any(|option| option.starts_with("name=rootless"))),
        live_restore: info.live_restore_enabled,
    }
}

/// `history` are the sizes of the image's steps, the last first; steps that changed no file have none.
pub(super) fn image(image: ImageInspect, history: &[i64]) -> Image {
    let content = content(&image);
    let layers = image.root_fs.as_ref().and_then(|fs| fs.layers.clone()).unwrap_or_default();
    let sizes = history.iter().filter_map(|size| u64::try_from(*size).ok()).filter(|size| *size > 0);
    let sizes = sizes.chain(std::iter::repeat(0));
    let mut layers: Vec<_> =
        layers.into_iter().rev().zip(sizes).map(|(diff_id, size)| Layer { diff_id, size }).collect();
    layers.reverse();
    let config = image.config.unwrap_or_default();
    let mut references = image.repo_tags.unwrap_or_default();
    references.retain(|name| !name.starts_with("<none>"));
    Image {
        id: image.id.unwrap_or_default(),
        references,
        content,
        layers,
        architecture: image.architecture.unwrap_or_default(),
        entrypoint: config.entrypoint.unwrap_or_default(),
        command: config.cmd.unwrap_or_default(),
        env: config.env.iter().flatten().map(|variable| readable(variable)).collect(),
        labels: config.labels.into_iter().flatten().collect(),
        created: moment(image.created.as_deref()),
        software: None,
        size: image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
    }
}

/// Digest over what makes an image run. Equal in every image store and engine version: only fields
/// go in that all of them report alike; what is absent, null or empty is one and the same.
fn content(image: &ImageInspect) -> ImageContent {
    let config = image.config.as_ref();
    let layers = image.root_fs.as_ref().and_then(|fs| fs.layers.clone());
    let document = json!({
        "Os": image.os,
        "Architecture": image.architecture,
        "Variant": image.variant,
        "Created": image.created,
        "Layers": layers,
        "Config": config.map(|config| json!({
            "User": config.user,
            "ExposedPorts": config.exposed_ports.as_deref().map(sorted),
            "Env": config.env,
            "Entrypoint": config.entrypoint,
            "Cmd": config.cmd,
            "Volumes": config.volumes.as_deref().map(sorted),
            "WorkingDir": config.working_dir,
            "Labels": config.labels,
            "StopSignal": config.stop_signal,
            "Healthcheck": config.healthcheck,
            "Shell": config.shell,
        })),
    });
    let text = canonical(document).unwrap_or_default().to_string();
    ImageContent(hex(&Sha256::digest(text)))
}

fn sorted(names: &[String]) -> BTreeSet<&String> {
    names.iter().collect()
}

/// Keys in order; null and empty values gone. Lists keep their order and all of their items.
fn canonical(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(entries) => {
            let mut entries: Vec<_> =
                entries.into_iter().filter_map(|(key, value)| Some((key, canonical(value)?))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            (!entries.is_empty()).then(|| Value::Object(Map::from_iter(entries)))
        }
        other => Some(other),
    }
}

pub(super) fn container(answer: ContainerInspectResponse) -> Container {
    let host = answer.host_config.unwrap_or_default();
    let config = answer.config.unwrap_or_default();
    let state = answer.state.unwrap_or_default();
    let policy = host.restart_policy.as_ref();
    let restart = policy.and_then(|policy| policy.name).map(|name| name.to_string());
    let tries = policy.and_then(|policy| policy.maximum_retry_count).filter(|tries| *tries > 0);
    let restart = match (restart.filter(|name| !name.is_empty()), tries) {
        (Some(name), Some(tries)) if name == "on-failure" => Some(format!("{name}:{tries}")),
        (restart, _) => restart,
    };
    let assigned = answer.network_settings.and_then(|settings| settings.ports);
    let bindings = host.port_bindings.iter().chain(&assigned).flatten();
    let argv: Vec<_> = config.entrypoint.iter().chain(&config.cmd).flatten().cloned().collect();
    let published: BTreeSet<u16> = bindings
        .filter(|(port, _)| port.ends_with("/tcp"))
        .flat_map(|(_, bindings)| bindings.iter().flatten())
        .filter_map(|binding| binding.host_port.as_ref()?.parse().ok())
        .filter(|port| *port != 0)
        .collect();
    Container {
        id: answer.id.unwrap_or_default(),
        name: answer.name.unwrap_or_default().trim_start_matches('/').to_owned(),
        state: ContainerState {
            status: state.status.map(|status| status.to_string()).unwrap_or_default(),
            running: state.running.unwrap_or_default(),
            exit_code: state.exit_code.unwrap_or_default(),
            oom_killed: state.oom_killed.unwrap_or_default(),
            started: moment(state.started_at.as_deref()),
            finished: moment(state.finished_at.as_deref()),
            error: state.error.unwrap_or_default(),
            health: state
                .health
                .and_then(|health| health.status)
                .map(|status| status.to_string())
                .filter(|status| !matches!(status.as_str(), "" | "none")),
        },
        restart: restart.unwrap_or_else(|| "no".to_owned()),
        restarts: answer.restart_count.and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        gpus: wants_gpus(&host, &config),
        published: published.into_iter().collect(),
        ours: ours(&config),
        image: config.image.unwrap_or_default(),
        model: served::model(&argv),
        argv: served::blotted(&argv),
        env_names: config.env.iter().flatten().map(|variable| variable_of(variable).0).collect(),
        host_network: host.network_mode.as_deref() == Some("host"),
        auto_remove: host.auto_remove.unwrap_or_default(),
        mounts: answer
            .mounts
            .into_iter()
            .flatten()
            .filter(|mount| mount.typ.as_deref() == Some("bind"))
            .filter_map(|mount| Some((mount.destination?, mount.source?)))
            .collect(),
    }
}

/// `NAME=VALUE`
fn variable_of(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

/// Likewise, as facts may be shown and recorded: an image may have a token baked in.
fn readable(text: &str) -> (String, String) {
    let (name, value) = variable_of(text);
    let value = served::blotted_value(&name, &value);
    (name, value)
}

fn sorted_names(names: impl Iterator<Item = String>) -> Vec<String> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Docker's zero time, of the year 1, is none.
fn moment(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok().filter(|moment| *moment > Timestamp::UNIX_EPOCH)
}

/// By a device request, the nvidia runtime, or a device file of the driver.
fn wants_gpus(host: &HostConfig, config: &ContainerConfig) -> bool {
    let requested = host.device_requests.iter().flatten().any(|request| {
        request.capabilities.iter().flatten().flatten().any(|word| word == "gpu" || word == "nvidia")
            || request.driver.as_deref() == Some("nvidia")
            || request.device_ids.iter().flatten().any(|id| id.starts_with("nvidia.com/gpu"))
    });
    let files = host
        .devices
        .iter()
        .flatten()
        .any(|device| device.path_on_host.as_ref().is_some_and(|path| path.starts_with("/dev/nvidia")));
    // A node may have this runtime as its default; it then gives nothing to a container that says so.
    let declined = config.env.iter().flatten().any(|variable| {
        matches!(variable.as_str(), "NVIDIA_VISIBLE_DEVICES=void" | "NVIDIA_VISIBLE_DEVICES=none")
    });
    requested || files || (host.runtime.as_deref() == Some("nvidia") && !declined)
}

fn ours(config: &ContainerConfig) -> Option<Ours> {
    let labels = config.labels.as_ref()?;
    labels.get(container::LABEL_FORMAT)?;
    Some(Ours {
        deployment: labels.get(container::LABEL_DEPLOYMENT)?.parse().ok()?,
        release: labels.get(container::LABEL_RELEASE)?.parse().ok()?,
        rank: labels.get(container::LABEL_RANK)?.parse().ok()?,
        spec: labels.get(container::LABEL_SPEC)?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIC: &str = include_str!("../../../tests/data/docker/image-20.10-classic.json");
    const CONTAINERD: &str = include_str!("../../../tests/data/docker/image-26.1-containerd.json");
    const FOREIGN: &str = include_str!("../../../tests/data/docker/container-20.10-foreign.json");

    const INFO: &str = include_str!("../../../tests/data/docker/info-20.10-classic.json");
    const INFO_CDI: &str = include_str!("../../../tests/data/docker/info-28.5-cdi.json");

    #[test]
    fn an_engine() {
        let read = |json: &str| {
            let version = SystemVersion { api_version: Some("1.51".to_owned()), ..SystemVersion::default() };
            docker(serde_json::from_str(json).unwrap(), version)
        };
        let plain = read(INFO);
        assert_eq!((plain.version.as_str(), plain.store), ("20.10.24+dfsg1", ImageStore::Classic));
        assert_eq!(plain.storage_driver.as_deref(), Some("fuse-overlayfs"));
        assert_eq!(
            (plain.cgroup_driver.as_deref(), plain.cgroup_version.as_deref()),
            (Some("cgroupfs"), Some("1"))
        );
        assert_eq!(
            (plain.runtimes, plain.default_runtime.as_deref()),
            (Some(vec!["runc".to_owned()]), Some("runc"))
        );
        assert_eq!((plain.rootless, plain.live_restore), (Some(false), Some(false)));
        assert_eq!((plain.cdi_folders, plain.cdi_devices), (None, None), "it knows no CDI");
        let cdi = read(INFO_CDI);
        assert_eq!((cdi.store, cdi.api.as_deref()), (ImageStore::Containerd, Some("1.51")));
        assert_eq!(cdi.runtimes.unwrap(), ["nvidia", "runc"]);
        assert_eq!(cdi.cdi_folders.unwrap(), ["/etc/cdi", "/var/run/cdi"]);
        assert_eq!(cdi.cdi_devices.unwrap(), ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]);
        assert_eq!((cdi.rootless, cdi.live_restore), (Some(true), Some(true)));
    }

    #[test]
    fn an_image_is_the_same_in_every_store() {
        let read = |json: &str| image(serde_json::from_str(json).unwrap(), &[0, 1, 0]);
        let (classic, containerd) = (read(CLASSIC), read(CONTAINERD));
        assert_ne!(classic.id, containerd.id);
        let sizes: Vec<_> = classic.layers.iter().map(|layer| layer.size).collect();
        assert_eq!((sizes.as_slice(), &classic.layers), (&[1][..], &containerd.layers));
        assert_eq!(classic.content, containerd.content);
        assert_eq!(classic.references, ["hosttest-id:1"]);
        assert_eq!((classic.architecture.as_str(), classic.size), ("amd64", 1));
        // Releases on disk name images by it: it must never change.
        assert_eq!(classic.content.0, "81998d0069371c7920c7532e8a559facfd7fd8d5be4b13ca3d8a85a1d2a84644");
        for change in [
            ("A=b", "A=c"),
            ("6f8c2786", "6f8c2787"),
            ("\"7\"", "\"8\""),
            ("2026-11-30T16:24:04", "2026-11-30T16:24:05"),
        ] {
            assert_ne!(read(&CLASSIC.replace(change.0, change.1)).content, classic.content, "{change:?}");
        }
        let baked = read(&CLASSIC.replace("\"A=b\"", "\"HF_TOKEN=hf_x\", \"NCCL_DEBUG=INFO\""));
        assert_eq!((baked.env["HF_TOKEN"].as_str(), baked.env["NCCL_DEBUG"].as_str()), ("***", "INFO"));
        let null = read(&CLASSIC.replace("\"Entrypoint\": null,", "\"Entrypoint\": [],"));
        assert_eq!(null.content, classic.content);
    }

    #[test]
    fn a_foreign_container() {
        let read = |json: &str| container(serde_json::from_str(json).unwrap());
        let seen = read(FOREIGN);
        assert_eq!((seen.name.as_str(), seen.restart.as_str()), ("hosttest-x", "unless-stopped"));
        assert_eq!(
            (seen.state.status.as_str(), seen.state.running, seen.state.exit_code),
            ("created", false, 127)
        );
        assert!(seen.state.error.contains("executable file not found"));
        assert_eq!((seen.state.started, seen.state.finished), (None, None));
        assert_eq!(seen.published, [8000, 9000]);
        assert!(seen.gpus);
        assert_eq!(seen.ours, None);
        assert_eq!(
            (seen.argv.as_slice(), seen.host_network),
            (["sh", "-c", "exit 3"].map(str::to_owned).as_slice(), false)
        );
        let engine = FOREIGN
            .replace("\"exit 3\"", "\"HF_TOKEN=hf_x vllm serve a/b --api-key k\"")
            .replace("\"Env\": null", "\"Env\": [\"HF_TOKEN=hf_x\", \"EMPTY=\"]")
            .replace("\"NetworkMode\": \"default\"", "\"NetworkMode\": \"host\"");
        let engine = read(&engine);
        assert_eq!(engine.argv[2], "HF_TOKEN=*** vllm serve a/b --api-key ***");
        assert_eq!((engine.model.as_deref(), engine.host_network), (Some("a/b"), true));
        assert_eq!(engine.env_names, ["HF_TOKEN", "EMPTY"], "and no values");
        let without = FOREIGN.replace("\"gpu\"", "\"other\"");
        assert!(!read(&without).gpus);
        assert!(read(&without.replace("\"Runtime\": \"runc\"", "\"Runtime\": \"nvidia\"")).gpus);
        let ours = FOREIGN.replace(
            "\"Labels\": {}",
            r#""Labels": {"sparkctl.format": "1", "sparkctl.deployment": "demo", "sparkctl.release": "3", "sparkctl.rank": "1", "sparkctl.spec": "ab"}"#,
        );
        let wanted = Ours {
            deployment: "demo".parse().unwrap(),
            release: "3".parse().unwrap(),
            rank: 1,
            spec: "ab".to_owned(),
        };
        assert_eq!(read(&ours).ours, Some(wanted));
    }
}
