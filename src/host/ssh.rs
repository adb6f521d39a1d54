//! A machine over SSH: one OpenSSH master a node, and everything through it.
//!
//! The user's own `ssh` does the work, so their configuration, agent, keys and jump hosts hold.
//! Scripts are sessions of the master; the Docker Engine's socket and HTTP ports are forwarded to
//! sockets in a private folder. sshd counts sessions (`MaxSessions`, 10), not forwards, so only
//! sessions are limited here, to [`SESSIONS`].
//!
//! **Nothing stays behind.** The master ends by itself [`IDLE`] after its last client, and this
//! process holds one client connection (the lease) that asks nothing. However sparkctl ends, also
//! by SIGKILL, the kernel closes the lease and the scripts' connections; scripts see the end of
//! their standard input, and the master goes. Only an empty folder of sockets is left then; the next
//! connection sweeps it away.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use openssh::{ControlPersist, ForwardType, KnownHosts, Session, SessionBuilder, Stdio};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::{Mutex, OnceCell, OwnedSemaphorePermit, Semaphore};

use super::command::compose;
use super::docker::{self, Engine};
use super::http::{Client, NoAnswer};
use super::process::{self, Job, Process};
use super::reach::{Machine, Reach};
use super::ssh_words;
use super::{HostError, Output, Running, Script};
use crate::cluster::facts::NoDocker;
use crate::profile::NodeName;

/// Sessions at once: two of sshd's ten stay free.
const SESSIONS: usize = 8;
/// Seconds that the master outlives its last client.
const IDLE: NonZeroUsize = NonZeroUsize::new(5).expect("five is not zero");
/// How long reaching the host may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long connecting may take in all, with jump hosts and authentication.
const LOGIN: Duration = Duration::from_secs(45);
/// How often a silent connection is tried; three misses end it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Longest path of a Unix socket on every system, less what `ssh` and the crate add to the folder's.
const LONGEST_FOLDER: usize = 103 - "/.ssh-connectionXXXXXX/master.XXXXXXXXXXXXXXXX".len();

/// How `ssh` is called.
#[derive(Debug, Clone, Default)]
pub struct SshOptions {
    /// Another configuration file: `ssh -F`.
    pub config_file: Option<PathBuf>,
}

/// A machine over SSH.
pub type SshHost = Machine<Ssh>;

/// How a machine over SSH is reached.
#[derive(Debug)]
pub struct Ssh {
    node: NodeName,
    sessions: Arc<Semaphore>,
    engine: OnceCell<Engine>,
    ways: Mutex<HashMap<SocketAddrV4, (PathBuf, Client)>>,
    // The order of the fields is the order in which they go.
    session: Arc<Session>,
    _lease: UnixStream,
    folder: TempDir,
}

impl SshHost {
    /// Connects. Never asks for anything: no password, no passphrase, no unknown host key.
    pub async fn connect(
        node: NodeName,
        host: &str,
        user: Option<&str>,
        options: &SshOptions,
    ) -> Result<Self, HostError> {
        let login = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        let failed = |why: String| HostError::Connect { node: node.clone(), host: login.clone(), why };
        if host.is_empty() || host.starts_with('-') {
            return Err(failed("this is no name of a host".to_owned()));
        }
        let folder =
            private_folder().map_err(|error| failed(format!("no folder for its sockets: {error}")))?;
        let mut builder = SessionBuilder::default();
        builder
            .known_hosts_check(KnownHosts::Strict)
            .connect_timeout(CONNECT)
            .server_alive_interval(KEEP_ALIVE)
            .control_directory(folder.path())
            .control_persist(ControlPersist::IdleFor(IDLE));
        if let Some(user) = user {
            builder.user(user.to_owned());
        }
        if let Some(file) = &options.config_file {
            builder.config_file(file);
        }
        let session = match tokio::time::timeout(LOGIN, builder.connect_mux(host)).await {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return Err(failed(ssh_words::connect(&error, host))),
            Err(_) => return Err(failed(format!("no login within {} s", LOGIN.as_secs()))),
        };
        let lease = UnixStream::connect(session.control_socket())
            .await
            .map_err(|error| failed(format!("`ssh` ended right after the login: {error}")))?;
        Ok(Self(Ssh {
            node,
            sessions: Arc::new(Semaphore::new(SESSIONS)),
            engine: OnceCell::new(),
            ways: Mutex::new(HashMap::new()),
            session: Arc::new(session),
            _lease: lease,
            folder,
        }))
    }
}

impl Ssh {
    async fn spawn(&self, script: Script) -> Result<(Job, Vec<u8>, Child), HostError> {
        let marker = process::marker();
        let composed = compose(&script, &marker);
        let permit = Arc::clone(&self.sessions).acquire_owned().await.expect("the semaphore is never closed");
        let mut command = Arc::clone(&self.session).arc_raw_command(composed.command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = match command.spawn().await {
            Ok(child) => child,
            Err(error) => {
                self.alive(script.name).await?;
                return Err(HostError::Failed {
                    node: self.node.clone(),
                    what: format!("`{}`", script.name),
                    why: ssh_words::session(&error),
                });
            }
        };
        let job = Job { node: self.node.clone(), name: script.name, marker, timeout: script.timeout };
        let child = Child { process: child, permit, node: self.node.clone(), name: script.name };
        Ok((job, composed.stdin, child))
    }

    /// Forwards a socket of the private folder to the node.
    async fn forward(&self, socket: &Path, to: openssh::Socket<'_>) -> Result<(), openssh::Error> {
        let from = openssh::Socket::UnixSocket { path: socket.into() };
        self.session.request_port_forward(ForwardType::Local, from, to).await
    }

    /// Where the master writes; it tells there why a forward was refused.
    fn log(&self) -> PathBuf {
        self.session.control_socket().with_file_name("log")
    }

    /// A socket of this machine that leads there, made at the first call, and a client for it.
    async fn way(&self, address: SocketAddrV4) -> Result<(PathBuf, Client), HostError> {
        let port = address.port();
        let mut ways = self.ways.lock().await;
        if let Some(way) = ways.get(&address) {
            return Ok(way.clone());
        }
        let failed = |why| HostError::Http { node: self.node.clone(), port, why };
        // The path of a socket may have 107 characters: no address in full.
        let socket = self.folder.path().join(format!("{port}-{}", ways.len()));
        if let Err(error) = self.forward(&socket, std::net::SocketAddr::V4(address).into()).await {
            self.alive(&format!("ask port {port}")).await?;
            return Err(failed(ssh_words::session(&error)));
        }
        let client = Client::new(address, Some(&socket)).map_err(failed)?;
        let way = (socket, client);
        ways.insert(address, way.clone());
        Ok(way)
    }
}

#[async_trait]
impl Reach for Ssh {
    fn name(&self) -> &NodeName {
        &self.node
    }

    async fn run_script(&self, script: Script) -> Result<Output, HostError> {
        let (job, input, child) = self.spawn(script).await?;
        process::run(job, input, child.ends()).await
    }

    async fn start_script(&self, script: Script) -> Result<Running, HostError> {
        let (job, input, child) = self.spawn(script).await?;
        Ok(process::start(job, input, child.ends()))
    }

    async fn engine(&self) -> Result<&Engine, HostError> {
        let connect = async {
            // A forward to a socket that is not there "succeeds", and then resets.
            docker::probe(self).await?;
            let socket = self.folder.path().join("docker");
            let absent =
                |why| HostError::DockerAbsent { node: self.node.clone(), why: NoDocker::Failing { why } };
            if !socket.exists() {
                let to = openssh::Socket::UnixSocket { path: Path::new(docker::SOCKET).into() };
                self.forward(&socket, to).await.map_err(|error| absent(ssh_words::session(&error)))?;
            }
            let mark = self.mark();
            match Engine::connect(&self.node, &socket).await {
                Ok(engine) => Ok(engine),
                Err(error) => {
                    self.alive("talk to its Docker Engine").await?;
                    Err(self.way_blocked(mark).map_or(error, |blocked| absent(blocked.to_string())))
                }
            }
        };
        self.engine.get_or_try_init(|| connect).await
    }

    async fn socket(&self, address: SocketAddrV4) -> Result<Option<PathBuf>, HostError> {
        Ok(Some(self.way(address).await?.0))
    }

    async fn port(&self, address: SocketAddrV4) -> Result<Client, HostError> {
        Ok(self.way(address).await?.1)
    }
    async fn alive(&self, what: &str) -> Result<(), HostError> {
        self.session.check().await.map_err(|error| HostError::Lost {
            node: self.node.clone(),
            what: what.to_owned(),
            source: Box::new(error),
        })
    }

    fn mark(&self) -> u64 {
        std::fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    fn way_blocked(&self, mark: u64) -> Option<NoAnswer> {
        let log = std::fs::read(self.log()).ok()?;
        let new = log.get(usize::try_from(mark).ok()?..)?;
        ssh_words::forward(&String::from_utf8_lossy(new))
    }
}

/// A remote process, its place among the sessions, and whose it is.
struct Child {
    process: openssh::Child<Arc<Session>>,
    permit: OwnedSemaphorePermit,
    node: NodeName,
    name: &'static str,
}

impl Child {
    fn ends(
        mut self,
    ) -> Process<
        openssh::ChildStdin,
        openssh::ChildStdout,
        openssh::ChildStderr,
        impl Future<Output = Result<Option<i32>, HostError>> + Send + 'static,
    > {
        let (stdin, stdout, stderr) =
            (self.process.stdin().take(), self.process.stdout().take(), self.process.stderr().take());
        let wait = async move {
            let session = self.process.session();
            let result = self.process.wait().await;
            drop(self.permit);
            match result {
                Ok(status) => Ok(status.code()),
                // The crate turns this exit status into an error of its own.
                Err(openssh::Error::Remote(_)) => Ok(Some(127)),
                // A signal, or the connection went: the protocol does not tell them apart.
                Err(error) => match session.check().await {
                    Ok(()) => Ok(None),
                    Err(_) => Err(HostError::Lost {
                        node: self.node,
                        what: format!("run `{}`", self.name),
                        source: Box::new(error),
                    }),
                },
            }
        };
        Process {
            stdin: stdin.expect("standard input was piped"),
            stdout: stdout.expect("standard output was piped"),
            stderr: stderr.expect("standard error was piped"),
            wait,
        }
    }
}

/// What the private folders are called.
const PREFIX: &str = "sparkctl-ssh-";

/// Removes the folders of processes that were killed: those with no master left in them.
fn sweep(parent: &Path) {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries(parent) {
        let age =
            entry.metadata().and_then(|data| data.modified()).map(|time| time.elapsed().unwrap_or_default());
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || age.is_ok_and(|age| age < LOGIN * 2) {
            continue;
        }
        let connects = |path: &Path| std::os::unix::net::UnixStream::connect(path.join("master")).is_ok();
        if !entries(&entry.path()).any(|inner| connects(&inner.path())) {
            // Another user's folder cannot be looked into, nor removed.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder that only this user may enter, with a path short enough for the sockets in it.
fn private_folder() -> std::io::Result<TempDir> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let candidates = [runtime, Some(std::env::temp_dir()), Some(PathBuf::from("/tmp"))];
    let mut last = None;
    for parent in candidates.into_iter().flatten() {
        if parent.as_os_str().len() + PREFIX.len() + "/XXXXXX".len() > LONGEST_FOLDER || !parent.is_absolute()
        {
            continue;
        }
        sweep(&parent);
        // `tempfile` makes folders with mode 0700.
        match tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent) {
            Ok(folder) => return Ok(folder),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("all paths are too long")))
}
