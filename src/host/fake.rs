//! Machines in memory: a [`Host`] whose node is data. For tests, and to see a deploy without a node.
//!
//! What a node would do is done in earnest: bytes move, names of images move, containers run and
//! end, the head of a group answers once all its ranks run. Every call is counted and logged, and a
//! fault can be put at any of them. Left out: time that bytes take, Docker's restarts, and whatever
//! a plan does not depend on.

mod bench;
mod cluster;
mod engine;
mod gather;
mod kept;
mod leftovers;
mod links;
mod machine;
mod recorded;
mod scripts;
mod seed;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Door, Host, HostError, HttpAnswer, NewContainer, Output, Running, Script};
use crate::bench::load::Progress;
use crate::bench::result::{Report, Subject};
use crate::bench::workload::Order;
use crate::cluster::facts::{Container, Docker, Image};
use crate::profile::NodeName;

pub use cluster::{Behaviour, Effect, FakeCluster, Fault, Moment};
pub use engine::Served;
pub use links::FakeLink;
pub use machine::{FakeContainer, Machine, ReleaseFolder, content};
pub use seed::{SEED_IMAGE, SEED_MODEL, seed_content};

use cluster::State;

/// How often a log that is followed is looked at.
const PACE: Duration = Duration::from_millis(500);

/// A machine of a [`FakeCluster`], as a host.
#[derive(Clone)]
pub struct FakeHost {
    node: NodeName,
    cluster: FakeCluster,
}

impl FakeCluster {
    /// The host of a node.
    pub fn host(&self, node: &NodeName) -> FakeHost {
        FakeHost { node: node.clone(), cluster: self.clone() }
    }

    /// What answers at a port of a node, if anything does.
    pub fn served(&self, node: &str, port: u16) -> Option<Served> {
        let node = node.parse().ok()?;
        self.state().served(&node, port)
    }

    /// All nodes boot: what ran has ended, and comes back where its restart policy says so; with `always` also what
    /// somebody had stopped.
    pub fn reboot(&self) {
        let mut state = self.state();
        let mut again = Vec::new();
        for (node, machine) in &mut state.machines {
            for container in machine.containers.values_mut() {
                let ran = container.container.state.running;
                if ran {
                    container.end(137);
                }
                let restart = container.container.restart.as_str();
                if restart == "always" || (ran && restart == "unless-stopped") {
                    again.push((node.clone(), container.container.name.clone()));
                }
            }
        }
        for (node, name) in again {
            state.start(&node, &name);
        }
    }
}

impl FakeHost {
    async fn docker_effect<T>(
        &self,
        what: &str,
        name: &str,
        changes: bool,
        act: impl FnOnce(&mut State, &NodeName) -> Result<T, String>,
    ) -> Result<T, HostError> {
        let refused = |why: &str| HostError::Docker {
            node: self.node.clone(),
            what: what.to_owned(),
            why: why.to_owned(),
        };
        let called = format!("{what} {name}").trim_end().to_owned();
        let act = |state: &mut State| match state.machine(&self.node).no_docker.clone() {
            Some(why) => Err(HostError::DockerAbsent { node: self.node.clone(), why }),
            None => act(state, &self.node).map_err(|why| refused(&why)),
        };
        self.cluster.effect(&self.node, called, changes, refused, act).await
    }

    async fn on_container<T>(
        &self,
        what: &str,
        name: &str,
        act: impl FnOnce(&mut FakeContainer) -> Result<T, String>,
    ) -> Result<T, HostError> {
        let act = |state: &mut State, node: &NodeName| match state.machine(node).container(name) {
            Some(container) => act(container),
            None => Err(format!("No such container: {name}")),
        };
        self.docker_effect(what, name, true, act).await
    }

    fn timed_out(&self, what: &str) -> HostError {
        HostError::Timeout { node: self.node.clone(), what: what.to_owned(), limit: Duration::from_secs(60) }
    }
}

#[async_trait]
impl Host for FakeHost {
    fn node(&self) -> &NodeName {
        &self.node
    }

    async fn run(&self, script: Script) -> Result<Output, HostError> {
        // A sign of life comes with time, not with the operation: it is no effect to put a fault at.
        if script.name == "refresh-lock" {
            return Ok(Output {
                code: Some(0),
                stdout: Vec::new(),
                stderr: Vec::new(),
                noise: String::new(),
            });
        }
        let error = |_: &str| self.timed_out(script.name);
        let act = |state: &mut State| Ok(scripts::run(state, &self.node, &script));
        let changes = scripts::changes(script.name);
        self.cluster.effect(&self.node, script.name.to_owned(), changes, error, act).await
    }

    async fn start(&self, script: Script) -> Result<Running, HostError> {
        let name = script.name;
        // As above: what is looked at again and again is no effect.
        if name == "look" {
            return Ok(scripts::look(self, &script));
        }
        let error = |_: &str| self.timed_out(name);
        let act = |state: &mut State| Ok(scripts::start(self, state, script));
        self.cluster.effect(&self.node, name.to_owned(), scripts::changes(name), error, act).await
    }

    async fn docker(&self) -> Result<Docker, HostError> {
        let act = |state: &mut State, node: &NodeName| {
            Ok(Docker { disk: None, ..state.machine(node).docker.clone() })
        };
        self.docker_effect("docker", "", false, act).await
    }

    async fn images(&self) -> Result<Vec<Image>, HostError> {
        let act = |state: &mut State, node: &NodeName| Ok(state.machine(node).images.clone());
        self.docker_effect("images", "", false, act).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, HostError> {
        let act = |state: &mut State, node: &NodeName| Ok(state.machine(node).image(name).cloned());
        self.docker_effect("image", name, false, act).await
    }

    async fn containers(&self) -> Result<Vec<Container>, HostError> {
        let act = |state: &mut State, node: &NodeName| {
            Ok(state.machine(node).containers.values().map(|c| c.container.clone()).collect())
        };
        self.docker_effect("containers", "", false, act).await
    }

    async fn container(&self, name: &str) -> Result<Option<Container>, HostError> {
        let act = |state: &mut State, node: &NodeName| {
            Ok(state.machine(node).container(name).map(|found| found.container.clone()))
        };
        self.docker_effect("container", name, false, act).await
    }

    async fn tag_image(&self, image: &str, reference: &str) -> Result<(), HostError> {
        let act = |state: &mut State, node: &NodeName| {
            let machine = state.machine(node);
            let found = machine.image(image).cloned().ok_or(format!("No such image: {image}"))?;
            machine.put_image(&found.content, reference, &found.architecture, found.size);
            Ok(())
        };
        self.docker_effect("tag-image", image, true, act).await
    }

    async fn create_container(&self, new: &NewContainer) -> Result<(), HostError> {
        let act = |state: &mut State, node: &NodeName| {
            state.next_id += 1;
            let id = format!("{:064x}", state.next_id);
            let machine = state.machine(node);
            if machine.image(&new.image).is_none() {
                return Err(format!("No such image: {}", new.image));
            }
            if machine.containers.contains_key(&new.name) {
                return Err(format!("Conflict. The container name \"/{}\" is already in use", new.name));
            }
            if let Some(source) = machine.lacks(&new.spec) {
                return Err(format!(
                    "invalid mount config for type \"bind\": bind source path does not exist: {source}"
                ));
            }
            machine.containers.insert(new.name.clone(), FakeContainer::created(new, id));
            Ok(())
        };
        self.docker_effect("create-container", &new.name, true, act).await
    }

    async fn start_container(&self, name: &str) -> Result<(), HostError> {
        let act = |state: &mut State, node: &NodeName| {
            if state.machine(node).container(name).is_none() {
                return Err(format!("No such container: {name}"));
            }
            state.start(node, name);
            Ok(())
        };
        self.docker_effect("start-container", name, true, act).await
    }

    async fn stop_container(&self, name: &str, _grace: Duration) -> Result<(), HostError> {
        let stop = |container: &mut FakeContainer| {
            if container.container.state.running {
                container.say("INFO: Shutting down");
                container.end(0);
            }
            Ok(())
        };
        self.on_container("stop-container", name, stop).await
    }

    async fn remove_container(&self, name: &str) -> Result<(), HostError> {
        let act = |state: &mut State, node: &NodeName| {
            let machine = state.machine(node);
            let found = machine.container(name).ok_or(format!("No such container: {name}"))?;
            if found.container.state.running {
                return Err("container is running: stop the container before removing".to_owned());
            }
            let name = found.container.name.clone();
            machine.containers.remove(&name);
            Ok(())
        };
        self.docker_effect("remove-container", name, true, act).await
    }

    async fn set_restart(&self, name: &str, policy: &str) -> Result<(), HostError> {
        let set = |container: &mut FakeContainer| {
            policy.clone_into(&mut container.container.restart);
            Ok(())
        };
        self.on_container("set-restart", name, set).await
    }

    async fn container_log(
        &self,
        name: &str,
        tail: Option<u32>,
        follow: bool,
    ) -> Result<mpsc::Receiver<String>, HostError> {
        let act = |state: &mut State, node: &NodeName| match state.machine(node).container(name) {
            Some(container) => Ok(container.log.clone()),
            None => Err(format!("No such container: {name}")),
        };
        let log = self.docker_effect("container-log", name, false, act).await?;
        let first = tail.map_or(0, |tail| log.len().saturating_sub(tail as usize));
        let (lines, receiver) = mpsc::channel(16);
        let (host, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let mut told = first;
            loop {
                let (log, runs) = host.log(&name);
                for line in log.iter().skip(told) {
                    if lines.send(line.clone()).await.is_err() {
                        return;
                    }
                }
                told = told.max(log.len());
                if !follow || !runs {
                    return;
                }
                tokio::select! {
                    () = lines.closed() => return,
                    () = host.cluster.unreachable(&host.node) => return,
                    () = tokio::time::sleep(PACE) => {}
                }
            }
        });
        Ok(receiver)
    }

    async fn measure(
        &self,
        door: &Door,
        order: &Order,
        subject: &Subject,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, HostError> {
        let error =
            |why: &str| HostError::Http { node: self.node.clone(), port: door.port, why: why.to_owned() };
        let act = |state: &mut State| {
            let served = state.served(&self.node, door.port);
            if served.as_ref().is_some_and(|served| served.behaviour == Behaviour::DiesUnderLoad) {
                let machine = state.machines.get_mut(&self.node).expect("it serves");
                machine.containers.values_mut().for_each(|container| container.broken = true);
            }
            Ok(served)
        };
        let served = self.cluster.effect(&self.node, "measure".to_owned(), false, error, act).await?;
        Ok(bench::report(order, subject, served.as_ref(), progress))
    }

    async fn http_at(
        &self,
        door: &Door,
        path: &str,
        body: Option<&Value>,
        _timeout: Duration,
    ) -> Result<HttpAnswer, HostError> {
        let port = door.port;
        let error = |why: &str| HostError::Http { node: self.node.clone(), port, why: why.to_owned() };
        let act = |state: &mut State| state.http(&self.node, door, path, body);
        self.cluster.effect(&self.node, format!("http {path}"), false, error, act).await
    }
}

impl FakeHost {
    /// A container's log so far, and whether there may be more.
    fn log(&self, name: &str) -> (Vec<String>, bool) {
        let mut state = self.cluster.state();
        let found = state.machine(&self.node).container(name);
        found.map_or((Vec::new(), false), |found| (found.log.clone(), found.container.state.running))
    }
}
