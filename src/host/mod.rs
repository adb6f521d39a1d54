//! Hosts: every effect on a machine goes through the [`Host`] trait.
//!
//! Three exist: a machine reached over SSH, this machine, and a machine in memory with scripted
//! faults ([`FakeHost`]). A host knows no engine, no plan and no profile. Its operations are the
//! ones that a node offers anyhow: run a script, ask the Docker Engine, speak HTTP to a port.

pub mod command;
mod connect;
mod docker;
pub mod fake;
mod http;
mod keyed;
mod local;
mod process;
mod reach;
mod ssh;
mod ssh_words;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::bench::load::Progress;
use crate::bench::result::{Report, Subject};
use crate::bench::workload::Order;
use crate::cluster::facts::{Container, Docker, Image, NoDocker};
use crate::container::ContainerSpec;
use crate::delivery::Secret;
use crate::profile::NodeName;

pub use connect::{connect, connect_to};
pub use fake::{FakeCluster, FakeHost};
pub use keyed::Keyed;
pub use local::LocalHost;
pub use ssh::{SshHost, SshOptions};

/// A script for `sh`, as data. It travels over standard input to an explicit `sh`, so that neither
/// the login shell nor its configuration matters; `args` are its positional parameters and `input`
/// is what it reads from standard input.
#[derive(Clone)]
pub struct Script {
    /// What the script does, for errors, logs and the fake.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// `$1`, `$2`, ...: visible in the node's process list, so never secret.
    pub args: Vec<String>,
    /// Standard input; may hold secrets.
    pub input: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
}

impl Script {
    /// A script with arguments, no input, and a minute's time.
    pub fn new(
        name: &'static str,
        text: &'static str,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { name, text, args, input: Vec::new(), timeout: Duration::from_secs(60) }
    }

    /// The same with standard input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// The same with another limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "script {} {:?} ({} bytes of input)", self.name, self.args, self.input.len())
    }
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; `None` where a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What the login shell's configuration printed ahead of the script's output; not part of that.
    pub noise: String,
}

/// A script under way. Dropping it ends the script: its standard input closes, and every script
/// that runs long watches for that.
pub struct Running {
    /// Lines of standard output as they come (`\r` ends a line too); closed at its end.
    pub lines: mpsc::Receiver<String>,
    /// Completes when the script has ended; `Output::stdout` is empty, as its lines went to `lines`.
    pub end: tokio::task::JoinHandle<Result<Output, HostError>>,
}

/// A container that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContainer {
    pub name: String,
    /// What the node's engine calls the image: a reference or an ID.
    pub image: String,
    pub labels: std::collections::BTreeMap<String, String>,
    pub spec: ContainerSpec,
}

/// Where requests go: a port of one of the node's own addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    pub address: Ipv4Addr,
    pub port: u16,
    /// What a request shows in its header.
    pub key: Option<Secret>,
}

impl From<&Door> for SocketAddrV4 {
    fn from(door: &Door) -> Self {
        Self::new(door.address, door.port)
    }
}

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Every effect on a machine. Operations on containers take names or IDs.
#[async_trait]
pub trait Host: Send + Sync {
    /// The node.
    fn node(&self) -> &NodeName;

    /// Runs a script to its end. A non-zero exit is an [`Output`], not an error.
    async fn run(&self, script: Script) -> Result<Output, HostError>;

    /// Starts a script whose output is wanted while it runs.
    async fn start(&self, script: Script) -> Result<Running, HostError>;

    /// The Docker Engine itself.
    async fn docker(&self) -> Result<Docker, HostError>;
    /// All images.
    async fn images(&self) -> Result<Vec<Image>, HostError>;
    /// One image by a name or its ID, without what its layers weigh; `None` where there is none.
    async fn image(&self, name: &str) -> Result<Option<Image>, HostError>;
    /// All containers, running or not.
    async fn containers(&self) -> Result<Vec<Container>, HostError>;
    /// One container, or `None` where there is none of that name.
    async fn container(&self, name: &str) -> Result<Option<Container>, HostError>;
    /// Gives an image a further name.
    async fn tag_image(&self, image: &str, reference: &str) -> Result<(), HostError>;
    /// Makes a container, restart policy `no`; it does not run yet.
    async fn create_container(&self, new: &NewContainer) -> Result<(), HostError>;
    async fn start_container(&self, name: &str) -> Result<(), HostError>;
    /// Stops a container: SIGTERM, then SIGKILL after `grace`. One that does not run is left alone.
    async fn stop_container(&self, name: &str, grace: Duration) -> Result<(), HostError>;
    /// Removes a stopped container.
    async fn remove_container(&self, name: &str) -> Result<(), HostError>;
    /// Sets the restart policy, as Docker's command line spells it: `no`, `unless-stopped`, `on-failure:3`.
    async fn set_restart(&self, name: &str, policy: &str) -> Result<(), HostError>;
    /// The last `tail` lines of a container's log (all where `None`), each with Docker's time stamp
    /// in front; with `follow`, on and on until the container ends or the receiver is dropped.
    async fn container_log(
        &self,
        name: &str,
        tail: Option<u32>,
        follow: bool,
    ) -> Result<mpsc::Receiver<String>, HostError>;

    /// Puts load on an endpoint of the node, and measures from this machine: at `subject.url` where that is
    /// known to lead to the same process, else through a socket that is forwarded to the node, which the report then notes. Failed
    /// requests are part of the report; an error is only that nothing could be measured.
    async fn measure(
        &self,
        door: &Door,
        order: &Order,
        subject: &Subject,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, HostError>;

    /// An HTTP request to a port of the node's own loopback: GET without a body, else POST of JSON.
    async fn http(
        &self,
        port: u16,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<HttpAnswer, HostError> {
        self.http_at(&Door { address: Ipv4Addr::LOCALHOST, port, key: None }, path, body, timeout).await
    }

    /// The same at one of the node's own addresses, and with a key where it needs one.
    async fn http_at(
        &self,
        door: &Door,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<HttpAnswer, HostError>;
}

/// What went wrong on a host, and of what kind. Displays without its source.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The node cannot be reached, or does not let us in.
    #[error("cannot connect to {node} (`{host}`): {why}")]
    Connect { node: NodeName, host: String, why: String },
    /// The connection was there and went away.
    #[error("lost the connection to {node} while it was asked to {what}")]
    Lost {
        node: NodeName,
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The Docker Engine is absent, does not answer, or does not let us in.
    #[error("Docker on {node} cannot be used: {why}")]
    DockerAbsent { node: NodeName, why: NoDocker },
    /// The Docker Engine refused.
    #[error("Docker on {node} could not {what}: {why}")]
    Docker { node: NodeName, what: String, why: String },
    /// It took too long.
    #[error("{node} did not {what} within {} s", limit.as_secs())]
    Timeout { node: NodeName, what: String, limit: Duration },
    /// Nothing listens at a port yet, or any more.
    #[error("nothing listens at port {port} of {node}: connection refused")]
    NotListening { node: NodeName, port: u16 },
    /// A request got no HTTP answer.
    #[error("no HTTP answer from port {port} of {node}: {why}")]
    Http { node: NodeName, port: u16, why: String },
    /// A script or tool did what it should not.
    #[error("{what} failed on {node}: {why}")]
    Failed { node: NodeName, what: String, why: String },
}

impl HostError {
    /// The node that it is about.
    pub fn node(&self) -> &NodeName {
        match self {
            Self::Connect { node, .. }
            | Self::Lost { node, .. }
            | Self::DockerAbsent { node, .. }
            | Self::Docker { node, .. }
            | Self::Timeout { node, .. }
            | Self::NotListening { node, .. }
            | Self::Http { node, .. }
            | Self::Failed { node, .. } => node,
        }
    }

    /// What to do about it, where there is something to say beyond the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Connect { host, .. } => Some(format!("try it by hand: ssh {host} true")),
            Self::DockerAbsent { why, .. } => why.hint(),
            _ => None,
        }
    }
}

/// The first cause of an error: what a client crate wraps around it only says that a request failed.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
