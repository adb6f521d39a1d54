//! A script under way, wherever it runs: feeds its standard input, gathers what it prints, knows
//! how it ended. Shared by SSH and the local host, which only differ in how a process begins.

use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::command::{AfterMarker, Lines};
use super::{HostError, Output, Running};
use crate::profile::NodeName;

/// How long a script may take to clean up once its standard input has closed.
const CLEAN_UP: Duration = Duration::from_secs(20);
/// How much of the standard error of a long script is kept.
const STDERR_KEPT: usize = 64 * 1024;

/// The ends of a process that has begun.
pub(super) struct Process<I, O, E, W> {
    pub stdin: I,
    pub stdout: O,
    pub stderr: E,
    /// Waits for its end and gives the exit status; `None` where a signal ended it. Dropping it
    /// gives the process up.
    pub wait: W,
}

/// What the process is called, and its limits.
pub(super) struct Job {
    pub node: NodeName,
    pub name: &'static str,
    pub marker: String,
    pub timeout: Duration,
}

impl Job {
    fn timed_out(&self) -> HostError {
        HostError::Timeout {
            node: self.node.clone(),
            what: format!("finish `{}`", self.name),
            limit: self.timeout,
        }
    }

    /// No marker: the shell never came to the script.
    fn checked(
        &self,
        mut output: Output,
        stdout: &AfterMarker,
        stderr: &AfterMarker,
    ) -> Result<Output, HostError> {
        let Some(noise) = stdout.noise() else { return Ok(output) };
        output.stderr.extend_from_slice(stderr.noise().unwrap_or_default().as_bytes());
        let told = format!("{noise} {}", String::from_utf8_lossy(&output.stderr));
        let told = told.trim();
        let told = if told.is_empty() { "it said nothing" } else { told };
        let code = output.code.map_or("a signal".to_owned(), |code| code.to_string());
        Err(HostError::Failed {
            node: self.node.clone(),
            what: format!("`{}`", self.name),
            why: format!("the login shell did not start `sh` (it ended with {code}): {told}"),
        })
    }
}

/// A line that nothing else prints. Unpredictable enough to keep apart, not a secret.
pub(super) fn marker() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("sparkctl-{:016x}{:016x}", random(), random())
}

/// Runs a process to its end; standard input closes after `input`.
pub(super) async fn run<I, O, E, W>(
    job: Job,
    input: Vec<u8>,
    process: Process<I, O, E, W>,
) -> Result<Output, HostError>
where
    I: AsyncWrite + Unpin,
    O: AsyncRead + Unpin,
    E: AsyncRead + Unpin,
    W: Future<Output = Result<Option<i32>, HostError>>,
{
    let Process { mut stdin, mut stdout, mut stderr, wait } = process;
    let all = async {
        let feed = async {
            // A script that ends without reading everything is no failure.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
            drop(stdin);
        };
        let mut raw = (Vec::new(), Vec::new());
        let ((), _, _) = tokio::join!(feed, stdout.read_to_end(&mut raw.0), stderr.read_to_end(&mut raw.1));
        let code = wait.await?;
        let (mut out, mut err) = (AfterMarker::new(&job.marker), AfterMarker::new(&job.marker));
        let (stdout, stderr) = (out.push(&raw.0), err.push(&raw.1));
        let output = Output { code, stdout, stderr, noise: out.ahead().to_owned() };
        job.checked(output, &out, &err)
    };
    match tokio::time::timeout(job.timeout, all).await {
        Ok(result) => result,
        Err(_) => Err(job.timed_out()),
    }
}

/// Lets a process run; standard input stays open until the receiver of its lines is dropped.
pub(super) fn start<I, O, E, W>(job: Job, input: Vec<u8>, process: Process<I, O, E, W>) -> Running
where
    I: AsyncWrite + Unpin + Send + 'static,
    O: AsyncRead + Unpin + Send + 'static,
    E: AsyncRead + Unpin + Send + 'static,
    W: Future<Output = Result<Option<i32>, HostError>> + Send + 'static,
{
    let (sender, lines) = mpsc::channel(256);
    let end = tokio::spawn(async move {
        match tokio::time::timeout(job.timeout, follow(&job, input, process, sender)).await {
            Ok(result) => result,
            Err(_) => Err(job.timed_out()),
        }
    });
    Running { lines, end }
}

async fn follow<I, O, E, W>(
    job: &Job,
    input: Vec<u8>,
    process: Process<I, O, E, W>,
    sender: mpsc::Sender<String>,
) -> Result<Output, HostError>
where
    I: AsyncWrite + Unpin,
    O: AsyncRead + Unpin,
    E: AsyncRead + Unpin,
    W: Future<Output = Result<Option<i32>, HostError>>,
{
    let Process { mut stdin, mut stdout, mut stderr, wait } = process;
    let (mut out, mut err) = (AfterMarker::new(&job.marker), AfterMarker::new(&job.marker));
    let mut raw_err = Vec::new();
    let unwanted = sender.clone();
    let feed = async {
        tokio::select! {
            () = async { let _ = stdin.write_all(&input).await; let _ = stdin.flush().await; unwanted.closed().await } => {}
            () = unwanted.closed() => {}
        }
        let _ = stdin.shutdown().await;
        drop(stdin);
        tokio::time::sleep(CLEAN_UP).await;
    };
    let watch = async {
        let read_out = async {
            let (mut buffer, mut lines) = (vec![0; 16 * 1024], Lines::default());
            while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
                for line in lines.push(&out.push(&buffer[..count])) {
                    // Nobody listens: read on, so that the script can end by itself.
                    let _ = sender.send(line).await;
                }
            }
            if let Some(line) = lines.finish() {
                let _ = sender.send(line).await;
            }
            // The channel closes when standard output does.
            drop(sender);
        };
        let read_err = async {
            let mut buffer = vec![0; 4 * 1024];
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                raw_err.extend(err.push(&buffer[..count]));
                let surplus = raw_err.len().saturating_sub(STDERR_KEPT);
                raw_err.drain(..surplus);
            }
        };
        tokio::join!(read_out, read_err);
        wait.await
    };
    let code = tokio::select! {
        code = watch => code?,
        () = feed => return Err(HostError::Timeout {
            node: job.node.clone(),
            what: format!("end `{}`", job.name),
            limit: CLEAN_UP,
        }),
    };
    job.checked(
        Output { code, stdout: Vec::new(), stderr: raw_err, noise: out.ahead().to_owned() },
        &out,
        &err,
    )
}
