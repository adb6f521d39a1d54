//! This machine as a node: the same scripts by processes of its own, the same Docker requests by
//! its own socket, and no SSH.

use std::path::Path;
use std::process::Stdio;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::command::compose;
use super::docker::{self, Engine};
use super::http::Client;
use super::process::{self, Job, Process};
use super::reach::Reach;
use super::{HostError, Output, Running, Script};
use crate::profile::NodeName;

/// The machine that sparkctl runs on.
#[derive(Debug)]
pub struct LocalHost {
    node: NodeName,
    engine: OnceCell<Engine>,
}

impl LocalHost {
    /// This machine, as node `node`.
    pub fn new(node: NodeName) -> Self {
        Self { node, engine: OnceCell::new() }
    }

    fn spawn(&self, script: Script) -> Result<(Job, Vec<u8>, Child), HostError> {
        let marker = process::marker();
        let composed = compose(&script, &marker);
        let child = Command::new("sh")
            .args(["-c", &composed.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| HostError::Failed {
                node: self.node.clone(),
                what: "`sh`".to_owned(),
                why: error.to_string(),
            })?;
        let job = Job { node: self.node.clone(), name: script.name, marker, timeout: script.timeout };
        Ok((job, composed.stdin, child))
    }
}

#[async_trait]
impl Reach for LocalHost {
    fn name(&self) -> &NodeName {
        &self.node
    }

    async fn run_script(&self, script: Script) -> Result<Output, HostError> {
        let (job, input, child) = self.spawn(script)?;
        process::run(job, input, ends(&self.node, child)).await
    }

    async fn start_script(&self, script: Script) -> Result<Running, HostError> {
        let (job, input, child) = self.spawn(script)?;
        Ok(process::start(job, input, ends(&self.node, child)))
    }

    async fn engine(&self) -> Result<&Engine, HostError> {
        let connect = async {
            docker::probe(self).await?;
            Engine::connect(&self.node, Path::new(docker::SOCKET)).await
        };
        self.engine.get_or_try_init(|| connect).await
    }

    async fn port(&self, port: u16) -> Result<Client, HostError> {
        Client::new(port, None).map_err(|why| HostError::Http { node: self.node.clone(), port, why })
    }

    async fn alive(&self, _what: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn mark(&self) -> u64 {
        0
    }

    fn way_blocked(&self, _mark: u64) -> Option<String> {
        None
    }
}

/// The ends of a child, as both ways to follow one want them.
fn ends(
    node: &NodeName,
    mut child: Child,
) -> Process<
    tokio::process::ChildStdin,
    tokio::process::ChildStdout,
    tokio::process::ChildStderr,
    impl Future<Output = Result<Option<i32>, HostError>> + Send + 'static,
> {
    let node = node.clone();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let wait = async move {
        let status = child.wait().await.map_err(|error| HostError::Failed {
            node,
            what: "waiting for a script".to_owned(),
            why: error.to_string(),
        })?;
        Ok(status.code())
    };
    Process {
        stdin: stdin.expect("standard input was piped"),
        stdout: stdout.expect("standard output was piped"),
        stderr: stderr.expect("standard error was piped"),
        wait,
    }
}
