//! A node whose endpoint is asked at its own address, and with a key: any other host, but for [`Host::http`]. Whoever is
//! handed one asks as ever, and needs to know neither.

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

/// A host, and the door that every request goes to.
pub struct Keyed<'a> {
    pub host: &'a dyn Host,
    pub door: Door,
}

#[async_trait]
impl Host for Keyed<'_> {
    fn node(&self) -> &NodeName {
        self.host.node()
    }

    async fn measure(
        &self,
        door: &Door,
        order: &Order,
        subject: &Subject,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, HostError> {
        self.host.measure(door, order, subject, progress).await
    }

    async fn run(&self, script: Script) -> Result<Output, HostError> {
        self.host.run(script).await
    }

    async fn start(&self, script: Script) -> Result<Running, HostError> {
        self.host.start(script).await
    }

    async fn docker(&self) -> Result<Docker, HostError> {
        self.host.docker().await
    }

    async fn images(&self) -> Result<Vec<Image>, HostError> {
        self.host.images().await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, HostError> {
        self.host.image(name).await
    }

    async fn containers(&self) -> Result<Vec<Container>, HostError> {
        self.host.containers().await
    }

    async fn container(&self, name: &str) -> Result<Option<Container>, HostError> {
        self.host.container(name).await
    }

    async fn tag_image(&self, image: &str, reference: &str) -> Result<(), HostError> {
        self.host.tag_image(image, reference).await
    }

    async fn create_container(&self, new: &NewContainer) -> Result<(), HostError> {
        self.host.create_container(new).await
    }

    async fn start_container(&self, name: &str) -> Result<(), HostError> {
        self.host.start_container(name).await
    }

    async fn stop_container(&self, name: &str, grace: Duration) -> Result<(), HostError> {
        self.host.stop_container(name, grace).await
    }

    async fn remove_container(&self, name: &str) -> Result<(), HostError> {
        self.host.remove_container(name).await
    }

    async fn set_restart(&self, name: &str, policy: &str) -> Result<(), HostError> {
        self.host.set_restart(name, policy).await
    }

    async fn container_log(
        &self,
        name: &str,
        tail: Option<u32>,
        follow: bool,
    ) -> Result<mpsc::Receiver<String>, HostError> {
        self.host.container_log(name, tail, follow).await
    }

    async fn http(
        &self,
        port: u16,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<HttpAnswer, HostError> {
        self.host.http_at(&Door { port, ..self.door.clone() }, path, body, timeout).await
    }

    async fn http_at(
        &self,
        door: &Door,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<HttpAnswer, HostError> {
        self.host.http_at(door, path, body, timeout).await
    }
}
