//! This machine as a node: the same scripts by processes of its own, the same Docker requests by
//! its own socket, and no SSH.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Stdio;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::command::compose;
use super::docker::{self, Engine};
use super::http::{Client, NoAnswer};
use super::process::{self, Job, Process};
use super::reach::{Machine, Reach};
use super::{HostError, Output, Running, Script};
use crate::profile::NodeName;

/// The machine that sparkctl runs on.
pub type LocalHost = Machine<Local>;

/// How this machine is reached.
#[derive(Debug)]
pub struct Local {
    node: NodeName,
    engine: OnceCell<Engine>,
}

impl LocalHost {
    /// This machine, as node `node`.
    pub fn new(node: NodeName) -> Self {
        Self(Local { node, engine: OnceCell::new() })
    }
}

impl Local {
    fn spawn(&self, script: &Script) -> Result<(Job, Vec<u8>, Child), HostError> {
        let marker = process::marker();
        let composed = compose(script, &marker);
        let child = Command::new("sh")
            .args(["-c", &composed.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // Ctrl-C is for sparkctl, which then goes back in order; it must not end what that needs.
            .process_group(0)
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
impl Reach for Local {
    fn name(&self) -> &NodeName {
        &self.node
    }

    async fn run_script(&self, script: Script) -> Result<Output, HostError> {
        let (job, input, child) = self.spawn(&script)?;
        process::run(job, input, ends(&self.node, child)).await
    }

    async fn start_script(&self, script: Script) -> Result<Running, HostError> {
        let (job, input, child) = self.spawn(&script)?;
        Ok(process::start(job, input, ends(&self.node, child)))
    }

    async fn engine(&self) -> Result<&Engine, HostError> {
        let connect = async {
            docker::probe(self).await?;
            Engine::connect(&self.node, Path::new(docker::SOCKET)).await
        };
        self.engine.get_or_try_init(|| connect).await
    }

    async fn socket(&self, _address: SocketAddrV4) -> Result<Option<std::path::PathBuf>, HostError> {
        Ok(None)
    }

    async fn port(&self, address: SocketAddrV4) -> Result<Client, HostError> {
        let failed = |why| HostError::Http { node: self.node.clone(), port: address.port(), why };
        Client::new(address, None).map_err(failed)
    }

    async fn alive(&self, _what: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn mark(&self) -> u64 {
        0
    }

    fn way_blocked(&self, _mark: u64) -> Option<NoAnswer> {
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::host::Host;

    fn host() -> LocalHost {
        LocalHost::new("here".parse().unwrap())
    }

    #[tokio::test]
    async fn a_script_runs_to_its_end() {
        let script = Script::new("test", "cat; echo \"$1\" >&2; exit 3", ["a  b"]).input("in");
        let output = host().run(script).await.unwrap();
        assert_eq!(
            (output.code, &output.stdout[..], &output.stderr[..]),
            (Some(3), &b"in"[..], &b"a  b\n"[..])
        );
        let output = host().run(Script::new("test", "kill -9 $$", [""; 0])).await.unwrap();
        assert_eq!(output.code, None);
    }

    #[tokio::test]
    async fn a_script_that_takes_too_long_is_given_up() {
        let begun = Instant::now();
        let script = Script::new("test", "exec sleep 30", [""; 0]).timeout(Duration::from_millis(200));
        let error = host().run(script).await.unwrap_err();
        assert!(matches!(error, HostError::Timeout { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn large_input_and_output_pass_each_other() {
        let data = vec![b'x'; 3_000_000];
        let output = host().run(Script::new("test", "cat", [""; 0]).input(data.clone())).await.unwrap();
        assert!(output.stdout == data);
        let output = host().run(Script::new("test", "exit 0", [""; 0]).input(data)).await.unwrap();
        assert_eq!(output.code, Some(0), "input that nobody reads is no failure");
    }

    #[tokio::test]
    async fn lines_come_while_a_script_runs() {
        let text = "read -r line; printf '%s\\r50%%\\r\\n' \"$line\"; cat; echo end; echo why >&2; exit 1";
        let mut running = host().start(Script::new("test", text, [""; 0]).input("0%\n")).await.unwrap();
        assert_eq!(running.lines.recv().await.as_deref(), Some("0%"));
        assert_eq!(running.lines.recv().await.as_deref(), Some("50%"));
        assert!(!running.end.is_finished(), "its input is still open");
        // Not wanted any more: its input closes, and it ends by itself.
        drop(running.lines);
        let output = running.end.await.unwrap().unwrap();
        assert_eq!((output.code, &output.stderr[..]), (Some(1), &b"why\n"[..]));
    }

    #[tokio::test]
    async fn a_refused_port_is_no_answer() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = host().http(port, "/health", None, Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("nothing listens at port {port} of here: connection refused"));
    }
}
