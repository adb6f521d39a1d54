//! The Docker Engine of a node, over whatever socket leads there. The only module that knows the
//! client crate; what an engine answers becomes facts in [`facts`], what goes wrong [`Trouble`].

mod facts;
mod logs;

use std::path::Path;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerUpdateBody, DeviceMapping, DeviceRequest, HostConfig, HostConfigLogConfig,
    Mount, MountType, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use bollard::query_parameters as query;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use super::reach::Reach;
use super::{HostError, NewContainer, Script, innermost};
use crate::cluster::facts::{Container, Docker, Image, NoDocker};
use crate::profile::NodeName;

/// Where the engine listens.
pub(super) use crate::cluster::facts::DOCKER_SOCKET as SOCKET;
/// How long an ordinary request may take; creating a container may unpack an image.
const PATIENCE: Duration = Duration::from_secs(120);
/// Requests at once, where many of a kind are made.
const AT_ONCE: usize = 3;

/// A connection to an engine.
#[derive(Debug)]
pub struct Engine {
    api: bollard::Docker,
}

/// What went wrong with a request.
#[derive(Debug)]
pub enum Trouble {
    /// The engine said no, in its own words.
    Refused(String),
    /// It did not answer in time.
    Slow(Duration),
    /// There was no answer.
    Unreachable(String),
}

impl Engine {
    /// Connects by a socket of this machine, and agrees on a version with the engine.
    pub(super) async fn connect(node: &NodeName, socket: &Path) -> Result<Self, HostError> {
        let absent = |why| HostError::DockerAbsent { node: node.clone(), why: NoDocker::Failing { why } };
        let path = socket.to_str().ok_or_else(|| absent("the path of its socket is not text".to_owned()))?;
        let connect = async {
            let version = bollard::API_DEFAULT_VERSION;
            bollard::Docker::connect_with_unix(path, PATIENCE.as_secs(), version)?.negotiate_version().await
        };
        let api = connect.await.map_err(|error| match trouble(error, PATIENCE) {
            Trouble::Refused(why) | Trouble::Unreachable(why) => absent(why),
            Trouble::Slow(limit) => absent(format!("no answer within {} s", limit.as_secs())),
        })?;
        Ok(Self { api })
    }
}

/// Finds out, without asking the engine, whether this user can use it.
pub(super) async fn probe<R: Reach>(host: &R) -> Result<(), HostError> {
    let script = Script::new("docker-socket", include_str!("docker-socket.sh"), [""; 0]);
    let output = host.run_script(script).await?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let node = host.name().clone();
    let (word, user) = answer.split_once(' ').unwrap_or((&answer, ""));
    let why = match word {
        "usable" => return Ok(()),
        "forbidden" => NoDocker::Forbidden { user: user.to_owned() },
        "stopped" => NoDocker::Stopped,
        "absent" => NoDocker::Absent,
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            NoDocker::Failing { why: format!("looking for {SOCKET} failed: {}", said.trim()) }
        }
    };
    Err(HostError::DockerAbsent { node, why })
}

fn trouble(error: Error, limit: Duration) -> Trouble {
    match error {
        Error::DockerResponseServerError { message, .. } => Trouble::Refused(message.trim().to_owned()),
        Error::DockerStreamError { error } => Trouble::Refused(error),
        Error::RequestTimeoutError => Trouble::Slow(limit),
        error => Trouble::Unreachable(innermost(&error).to_string()),
    }
}

fn ordinary(error: Error) -> Trouble {
    trouble(error, PATIENCE)
}

/// `None` for "there is no such thing".
fn absent_as_none<T>(result: Result<T, Error>) -> Result<Option<T>, Trouble> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(ordinary(error)),
    }
}

pub(super) async fn describe(engine: &Engine) -> Result<Docker, Trouble> {
    let (info, version) = tokio::try_join!(engine.api.info(), engine.api.version()).map_err(ordinary)?;
    Ok(facts::docker(info, version))
}

/// All images; one that goes away in between is left out.
pub(super) async fn images(engine: &Engine) -> Result<Vec<Image>, Trouble> {
    let list = engine.api.list_images(None::<query::ListImagesOptions>).await.map_err(ordinary)?;
    let inspect = |id: String| async move {
        let Some(image) = absent_as_none(engine.api.inspect_image(&id).await)? else { return Ok(None) };
        // What its layers weigh is worth knowing, and no reason to fail.
        let history = engine.api.image_history(&id).await.unwrap_or_default();
        let sizes: Vec<_> = history.into_iter().map(|step| step.size).collect();
        Ok(Some(facts::image(image, &sizes)))
    };
    let found = stream::iter(list).map(|summary| inspect(summary.id)).buffered(AT_ONCE);
    let found: Vec<_> = found.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

pub(super) async fn image(engine: &Engine, name: &str) -> Result<Option<Image>, Trouble> {
    let answer = absent_as_none(engine.api.inspect_image(name).await)?;
    Ok(answer.map(|image| facts::image(image, &[])))
}

/// All containers; one that goes away in between is left out.
pub(super) async fn containers(engine: &Engine) -> Result<Vec<Container>, Trouble> {
    let options = query::ListContainersOptionsBuilder::new().all(true).build();
    let list = engine.api.list_containers(Some(options)).await.map_err(ordinary)?;
    let ids = list.into_iter().filter_map(|summary| summary.id);
    let inspect = |id: String| async move { container(engine, &id).await };
    let found: Vec<_> = stream::iter(ids).map(inspect).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

pub(super) async fn container(engine: &Engine, name: &str) -> Result<Option<Container>, Trouble> {
    let answer = engine.api.inspect_container(name, None::<query::InspectContainerOptions>).await;
    Ok(absent_as_none(answer)?.map(facts::container))
}

pub(super) async fn tag(engine: &Engine, image: &str, reference: &str) -> Result<(), Trouble> {
    let last = reference.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match reference[last..].split_once(':') {
        Some((name, tag)) => (format!("{}{name}", &reference[..last]), tag),
        None => (reference.to_owned(), "latest"),
    };
    let options = query::TagImageOptionsBuilder::new().repo(&repository).tag(tag).build();
    engine.api.tag_image(image, Some(options)).await.map_err(ordinary)
}

pub(super) async fn create(engine: &Engine, new: &NewContainer) -> Result<(), Trouble> {
    let options = query::CreateContainerOptionsBuilder::new().name(&new.name).build();
    engine.api.create_container(Some(options), body(new)).await.map_err(ordinary)?;
    Ok(())
}

/// The request that makes a container. The engine itself turns a folder of devices into its files.
fn body(new: &NewContainer) -> ContainerCreateBody {
    let spec = &new.spec;
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let mounts = spec.mounts.iter().map(|mount| Mount {
        typ: Some(if mount.source.starts_with('/') { MountType::BIND } else { MountType::VOLUME }),
        source: Some(mount.source.clone()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        ..Mount::default()
    });
    let devices = spec.devices.iter().map(|path| DeviceMapping {
        path_on_host: Some(path.clone()),
        path_in_container: Some(path.clone()),
        cgroup_permissions: Some("rwm".to_owned()),
    });
    let gpus = spec.gpus.then(|| DeviceRequest {
        count: Some(-1),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    });
    let ulimits = spec.ulimits.iter().map(|(name, limit)| ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(*limit),
        hard: Some(*limit),
    });
    let log = [("max-size", "100m"), ("max-file", "3")];
    let host = HostConfig {
        network_mode: Some("host".to_owned()),
        ipc_mode: Some("host".to_owned()),
        init: Some(true),
        mounts: Some(mounts.collect()),
        devices: Some(devices.collect()),
        device_requests: gpus.map(|request| vec![request]),
        cap_add: some(spec.capabilities.clone()),
        ulimits: Some(ulimits.collect()),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(log.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
        }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(new.image.clone()),
        entrypoint: some(spec.argv.iter().take(1).cloned().collect()),
        cmd: some(spec.argv.iter().skip(1).cloned().collect()),
        env: some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(new.labels.clone().into_iter().collect()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

pub(super) async fn start(engine: &Engine, name: &str) -> Result<(), Trouble> {
    engine.api.start_container(name, None::<query::StartContainerOptions>).await.map_err(ordinary)
}

pub(super) async fn stop(engine: &Engine, name: &str, grace: Duration) -> Result<(), Trouble> {
    let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
    let options = query::StopContainerOptionsBuilder::new().t(seconds).build();
    let limit = grace + PATIENCE;
    let api = engine.api.clone().with_timeout(limit);
    api.stop_container(name, Some(options)).await.map_err(|error| trouble(error, limit))
}

/// Never forces: a running container is the engine's refusal.
pub(super) async fn remove(engine: &Engine, name: &str) -> Result<(), Trouble> {
    let options = query::RemoveContainerOptionsBuilder::new().v(true).build();
    engine.api.remove_container(name, Some(options)).await.map_err(ordinary)
}

pub(super) async fn set_restart(engine: &Engine, name: &str, policy: &str) -> Result<(), Trouble> {
    let wrong = || Trouble::Refused(format!("`{policy}` is no restart policy"));
    let policy = restart_policy(policy).ok_or_else(wrong)?;
    let body = ContainerUpdateBody { restart_policy: Some(policy), ..ContainerUpdateBody::default() };
    engine.api.update_container(name, body).await.map_err(ordinary)
}

/// A restart policy as Docker's command line spells it.
fn restart_policy(text: &str) -> Option<RestartPolicy> {
    let (name, tries) = text.split_once(':').map_or((text, None), |(name, tries)| (name, Some(tries)));
    let tries: Option<i64> = tries.map(str::parse).transpose().ok()?;
    let name = match (name, tries) {
        ("no", None) => RestartPolicyNameEnum::NO,
        ("always", None) => RestartPolicyNameEnum::ALWAYS,
        ("unless-stopped", None) => RestartPolicyNameEnum::UNLESS_STOPPED,
        ("on-failure", _) => RestartPolicyNameEnum::ON_FAILURE,
        _ => return None,
    };
    Some(RestartPolicy { name: Some(name), maximum_retry_count: tries })
}

pub(super) async fn log(
    engine: &Engine,
    name: &str,
    tail: Option<u32>,
    follow: bool,
) -> Result<mpsc::Receiver<String>, Trouble> {
    // The log's own first answer may be hours away: know now whether there is such a container.
    engine.api.inspect_container(name, None::<query::InspectContainerOptions>).await.map_err(ordinary)?;
    let tail = tail.map_or_else(|| "all".to_owned(), |count| count.to_string());
    let options = query::LogsOptionsBuilder::new()
        .stdout(true)
        .stderr(true)
        .timestamps(true)
        .follow(follow)
        .tail(&tail)
        .build();
    let api = engine.api.clone();
    let name = name.to_owned();
    let (sender, receiver) = mpsc::channel(1024);
    tokio::spawn(async move {
        let frames = api.logs(&name, Some(options));
        tokio::select! {
            () = logs::pass_on(frames, &sender) => {}
            () = sender.closed() => {}
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::container::{self, ContainerSpec, ImageContent};

    /// What is told of a container is what it can be given again.
    #[test]
    fn a_restart_policy_is_set_as_it_is_told() {
        for (name, tries, text) in [
            ("no", 0, "no"),
            ("always", 0, "always"),
            ("unless-stopped", 0, "unless-stopped"),
            ("on-failure", 0, "on-failure"),
            ("on-failure", 3, "on-failure:3"),
        ] {
            let policy = serde_json::json!({ "Name": name, "MaximumRetryCount": tries });
            let answer =
                serde_json::json!({ "HostConfig": { "RestartPolicy": policy, "AutoRemove": tries == 3 } });
            let seen = facts::container(serde_json::from_value(answer).unwrap());
            assert_eq!((seen.restart.as_str(), seen.auto_remove), (text, tries == 3));
            let set = restart_policy(text).unwrap();
            assert_eq!(set.name.unwrap().to_string(), name);
            assert_eq!(set.maximum_retry_count, (tries > 0).then_some(tries));
        }
        assert!(
            ["", "sometimes", "always:3", "on-failure:x"].iter().all(|text| restart_policy(text).is_none())
        );
    }

    #[test]
    fn a_container_is_made_as_specified() {
        let spec = ContainerSpec {
            image: ImageContent("c0ffee".to_owned()),
            argv: ["vllm", "serve", "--port", "8000"].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("A".to_owned(), "b=c".to_owned())]),
            mounts: vec![
                container::Mount { source: "/m".to_owned(), target: "/model".to_owned(), read_only: true },
                container::Mount {
                    source: "cache".to_owned(),
                    target: "/root/.cache".to_owned(),
                    read_only: false,
                },
            ],
            devices: vec!["/dev/infiniband".to_owned()],
            gpus: true,
            capabilities: vec!["IPC_LOCK".to_owned()],
            ulimits: BTreeMap::from([("memlock".to_owned(), -1)]),
        };
        let new = NewContainer {
            name: "n".to_owned(),
            image: "i".to_owned(),
            labels: BTreeMap::from([("l".to_owned(), "1".to_owned())]),
            spec,
        };
        let json = serde_json::to_value(body(&new)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "Image": "i", "Entrypoint": ["vllm"], "Cmd": ["serve", "--port", "8000"],
                "Env": ["A=b=c"], "Labels": {"l": "1"},
                "HostConfig": {
                    "NetworkMode": "host", "IpcMode": "host", "Init": true,
                    "Mounts": [
                        {"Type": "bind", "Source": "/m", "Target": "/model", "ReadOnly": true},
                        {"Type": "volume", "Source": "cache", "Target": "/root/.cache", "ReadOnly": false},
                    ],
                    "Devices": [{"PathOnHost": "/dev/infiniband", "PathInContainer": "/dev/infiniband", "CgroupPermissions": "rwm"}],
                    "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}],
                    "CapAdd": ["IPC_LOCK"], "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
                    "RestartPolicy": {"Name": "no"},
                    "LogConfig": {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "3"}},
                },
            })
        );
    }
}
