//! What differs between a machine over SSH and this machine: how a process begins, how the Docker
//! Engine's socket and a port are reached, and whether the way there still holds. All else is one
//! implementation of [`Host`], here.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use super::docker::{self, Engine, Trouble};
use super::http::{Client, NoAnswer};
use super::{Door, Host, HostError, HttpAnswer, NewContainer, Output, Running, Script};
use crate::bench;
use crate::bench::load::{Progress, Target};
use crate::bench::result::{Note, Report, Subject};
use crate::bench::workload::Order;
use crate::cluster::facts::{Container, Docker, Image, NoDocker};
use crate::error::in_full;
use crate::profile::NodeName;

/// The ways into a machine.
#[async_trait]
pub trait Reach: Send + Sync {
    fn name(&self) -> &NodeName;
    async fn run_script(&self, script: Script) -> Result<Output, HostError>;
    async fn start_script(&self, script: Script) -> Result<Running, HostError>;
    /// The Docker Engine, connected at the first call.
    async fn engine(&self) -> Result<&Engine, HostError>;
    /// A socket of this machine that leads to a port of one of the machine's addresses; none where that is this machine's.
    async fn socket(&self, address: SocketAddrV4) -> Result<Option<PathBuf>, HostError>;
    /// A client for a port of one of the machine's addresses.
    async fn port(&self, address: SocketAddrV4) -> Result<Client, HostError>;
    /// Fails where the connection to the machine is gone.
    async fn alive(&self, what: &str) -> Result<(), HostError>;
    /// A mark in what is known of ways to sockets, for [`Reach::way_blocked`].
    fn mark(&self) -> u64;
    /// Why a way to a socket of the machine failed since `mark`, where that is known.
    fn way_blocked(&self, mark: u64) -> Option<NoAnswer>;
}

/// A machine that can be reached: a [`Host`].
#[derive(Debug)]
pub struct Machine<R>(pub(super) R);

/// Makes a Docker request, and turns its trouble into the error that tells it.
async fn told<R: Reach, T>(
    host: &R,
    what: &str,
    request: impl Future<Output = Result<Result<T, Trouble>, HostError>>,
) -> Result<T, HostError> {
    let mark = host.mark();
    let node = host.name().clone();
    match request.await? {
        Ok(value) => Ok(value),
        Err(Trouble::Refused(why)) => Err(HostError::Docker { node, what: what.to_owned(), why }),
        Err(Trouble::Slow(limit)) => {
            host.alive(what).await?;
            Err(HostError::Timeout { node, what: what.to_owned(), limit })
        }
        Err(Trouble::Unreachable(why)) => {
            host.alive(what).await?;
            // Stopped in between, most likely: the probe says so with a hint.
            docker::probe(host).await?;
            let why = host.way_blocked(mark).map_or(why, |blocked| blocked.to_string());
            Err(HostError::DockerAbsent { node, why: NoDocker::Failing { why } })
        }
    }
}

#[async_trait]
impl<R: Reach> Host for Machine<R> {
    fn node(&self) -> &NodeName {
        self.0.name()
    }

    async fn run(&self, script: Script) -> Result<Output, HostError> {
        self.0.run_script(script).await
    }

    async fn start(&self, script: Script) -> Result<Running, HostError> {
        self.0.start_script(script).await
    }

    async fn docker(&self) -> Result<Docker, HostError> {
        told(&self.0, "describe itself", async { Ok(docker::describe(self.0.engine().await?).await) }).await
    }

    async fn images(&self) -> Result<Vec<Image>, HostError> {
        told(&self.0, "list its images", async { Ok(docker::images(self.0.engine().await?).await) }).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, HostError> {
        let request = async { Ok(docker::image(self.0.engine().await?, name).await) };
        told(&self.0, &format!("inspect image `{name}`"), request).await
    }

    async fn containers(&self) -> Result<Vec<Container>, HostError> {
        told(&self.0, "list its containers", async { Ok(docker::containers(self.0.engine().await?).await) })
            .await
    }

    async fn container(&self, name: &str) -> Result<Option<Container>, HostError> {
        let request = async { Ok(docker::container(self.0.engine().await?, name).await) };
        told(&self.0, &format!("inspect container `{name}`"), request).await
    }

    async fn tag_image(&self, image: &str, reference: &str) -> Result<(), HostError> {
        let request = async { Ok(docker::tag(self.0.engine().await?, image, reference).await) };
        told(&self.0, &format!("tag image `{image}` as `{reference}`"), request).await
    }

    async fn create_container(&self, new: &NewContainer) -> Result<(), HostError> {
        let request = async { Ok(docker::create(self.0.engine().await?, new).await) };
        told(&self.0, &format!("create container `{}`", new.name), request).await
    }

    async fn start_container(&self, name: &str) -> Result<(), HostError> {
        let request = async { Ok(docker::start(self.0.engine().await?, name).await) };
        told(&self.0, &format!("start container `{name}`"), request).await
    }

    async fn stop_container(&self, name: &str, grace: Duration) -> Result<(), HostError> {
        let request = async { Ok(docker::stop(self.0.engine().await?, name, grace).await) };
        told(&self.0, &format!("stop container `{name}`"), request).await
    }

    async fn remove_container(&self, name: &str) -> Result<(), HostError> {
        let request = async { Ok(docker::remove(self.0.engine().await?, name).await) };
        told(&self.0, &format!("remove container `{name}`"), request).await
    }

    async fn set_restart(&self, name: &str, policy: &str) -> Result<(), HostError> {
        let request = async { Ok(docker::set_restart(self.0.engine().await?, name, policy).await) };
        told(&self.0, &format!("set the restart policy of container `{name}`"), request).await
    }

    async fn container_log(
        &self,
        name: &str,
        tail: Option<u32>,
        follow: bool,
    ) -> Result<mpsc::Receiver<String>, HostError> {
        let request = async { Ok(docker::log(self.0.engine().await?, name, tail, follow).await) };
        told(&self.0, &format!("give the log of container `{name}`"), request).await
    }

    async fn measure(
        &self,
        door: &Door,
        order: &Order,
        subject: &Subject,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, HostError> {
        // An address may lead to another machine from here than on the node: without proof that the same process answers
        // at both, neither key nor load goes there.
        let socket = match self.0.socket(door.into()).await? {
            Some(socket) => {
                let known = self.0.port(door.into()).await?;
                (!super::http::same_process(&subject.url, &known).await).then_some(socket)
            }
            None => None,
        };
        let through = socket.is_some();
        let mark = self.0.mark();
        let target = Target { subject: subject.clone(), socket, key: door.key.clone() };
        let report = bench::load::run(order, &target, progress).await;
        let broke = report.as_ref().map_or(true, Report::lost_connections);
        if broke && through {
            self.0.alive("measure").await?;
            if let Some(blocked) = self.0.way_blocked(mark) {
                let (node, port) = (self.0.name().clone(), door.port);
                return Err(HostError::Http { node, port, why: blocked.to_string() });
            }
        }
        let mut report = report.map_err(|error| HostError::Failed {
            node: self.0.name().clone(),
            what: "the benchmark".to_owned(),
            why: in_full(&error),
        })?;
        if through {
            report.notes.push(Note {
                id: "through-ssh".to_owned(),
                message: format!(
                    "{} is not known to lead to the same engine from here: all went through ssh, which takes its time",
                    subject.url
                ),
            });
        }
        Ok(report)
    }

    async fn http_at(
        &self,
        door: &Door,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<HttpAnswer, HostError> {
        let port = door.port;
        let client = self.0.port(SocketAddrV4::new(door.address, port)).await?;
        let mark = self.0.mark();
        match client.ask(path, body, door.key.as_ref(), timeout).await {
            Ok(answer) => Ok(answer),
            Err(why) => {
                self.0.alive(&format!("ask port {port}")).await?;
                let node = self.0.name().clone();
                Err(match self.0.way_blocked(mark).unwrap_or(why) {
                    NoAnswer::Refused => HostError::NotListening { node, port },
                    NoAnswer::Other(why) => HostError::Http { node, port, why },
                })
            }
        }
    }
}
