//! `deploy`, `push`, `rollback` and `stop`: the commands that change nodes. One run: connect, listen for
//! signals, do the operation, report it, keep its record.

use async_trait::async_trait;
use clap::Args;
use jiff::Timestamp;
use std::io::IsTerminal;
use tokio::signal::unix::{SignalKind, signal};

use super::{Global, Output, check, known, session};
use crate::config::{Loaded, Places};
use crate::delivery::Delivery;
use crate::error::{CommandError, Exit, in_full};
use crate::event::{Event, Events, RunOutcome};
use crate::execute::{Cancel, Hosts};
use crate::host::HostError;
use crate::operation::{Operation, Reconnect, Target};
use crate::plan::planner::Operator;
use crate::profile::Profile;
use crate::release::ReleaseNumber;
use crate::report::{Sink, audit::Audit, json::Json, report, terminal::Terminal};

/// Plans, moves bytes, switches, proves, records; on failure the release before comes back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl deploy profiles/qwen35-122b.yaml")]
pub struct DeployArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    #[command(flatten)]
    checks: check::Skip,
}

/// The image to all nodes, alone: what runs is not touched.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl push profiles/qwen35-122b.yaml")]
pub struct PushArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
}

/// Back to an earlier release: the same image content, arguments, environment and weights.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl rollback\n  sparkctl rollback qwen35-122b --to 7")]
pub struct RollbackArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
    /// The release to go back to; left out, the one deployed before the one that runs.
    #[arg(long, value_name = "N")]
    to: Option<ReleaseNumber>,
}

/// Ends the whole group of ranks; the logs are kept.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl stop qwen35-122b")]
pub struct StopArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

enum What {
    Deploy(Delivery, Vec<String>),
    Push,
    Rollback(Target),
    Stop,
}

/// `sparkctl deploy`.
pub async fn deploy(args: DeployArgs, global: &Global) -> Result<Exit, CommandError> {
    let skip = args.checks.skipped()?;
    let loaded = known::load(&args.profile)?;
    let delivery = known::read(&loaded).await?;
    let Loaded { profile, places } = loaded;
    run(&profile, Some(places), "deploy", What::Deploy(delivery, skip), global).await
}

/// `sparkctl push`.
pub async fn push(args: PushArgs, global: &Global) -> Result<Exit, CommandError> {
    let Loaded { profile, places } = known::load(&args.profile)?;
    run(&profile, Some(places), "push", What::Push, global).await
}

/// `sparkctl rollback`.
pub async fn rollback(args: RollbackArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let target = args.to.map_or(Target::Before, Target::Number);
    run(&profile, None, "rollback", What::Rollback(target), global).await
}

/// `sparkctl stop`.
pub async fn stop(args: StopArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    run(&profile, None, "stop", What::Stop, global).await
}

/// A mistake in how sparkctl was called.
pub(super) fn usage(message: &str) -> CommandError {
    CommandError::new(Exit::Usage, format!("error: {message}"))
}

/// Who runs sparkctl, and when.
pub(super) fn operator(skip: Vec<String>) -> Operator {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| {
        let named = std::process::Command::new("id").arg("-un").output();
        let name = named.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        name.ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    });
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Operator { who: format!("{user}@{}", machine.trim()), now: Timestamp::now(), skip }
}

/// `places` are those of the profile's fields, where it was read from a file just now.
async fn run(
    profile: &Profile,
    places: Option<Places>,
    command: &str,
    what: What,
    global: &Global,
) -> Result<Exit, CommandError> {
    let folder = known::state()?.join(profile.name.as_str()).join("runs");
    let folder = folder.join(format!("{}-{command}", Timestamp::now().strftime("%Y%m%dT%H%M%S%3f")));
    let audit = Audit::create(folder.clone()).map_err(|error| {
        CommandError::new(
            Exit::Refused,
            format!("error: cannot write to {}: {error}; nothing was changed", folder.display()),
        )
    })?;
    let shown: Box<dyn Sink> = match global.output {
        Output::Json => Box::new(Json),
        Output::Text => {
            let live = std::io::stderr().is_terminal();
            let record = Some(audit.folder().to_owned());
            Box::new(Terminal::new(live, global.quiet, global.verbose > 0, record, places))
        }
    };
    let (events, receiver) = Events::channel();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(audit), shown];
    // A profile whose image was pushed is not yet what is deployed.
    if !matches!(what, What::Push) {
        sinks.insert(1, Box::new(known::Remember::new(profile)?));
    }
    let reporting = tokio::spawn(report(receiver, sinks));

    let (switch, cancel) = Cancel::new();
    let signals = listen(switch)?;
    let (hosts, errors) = session::connect(profile, global).await;
    let outcome = if errors.is_empty() {
        operate(profile, global, &hosts, what, &events, &cancel).await
    } else {
        let outcome = RunOutcome::Unreachable {
            errors: errors.iter().map(|(_, error)| in_full(error)).collect(),
            hints: errors.iter().filter_map(|(_, error)| error.hint()).collect(),
            state: "nothing was changed".to_owned(),
        };
        events.tell(Event::Finished { deployment: profile.name.clone(), outcome: outcome.clone() }).await;
        outcome
    };
    drop(events);
    // The report ends with its last sender; an outcome that nobody read would be a lie by omission.
    let _ = reporting.await;
    let terminated = signals.terminated();
    Ok(match outcome.exit() {
        Exit::Interrupted if terminated => Exit::Terminated,
        exit => exit,
    })
}

async fn operate(
    profile: &Profile,
    global: &Global,
    hosts: &Hosts,
    what: What,
    events: &Events,
    cancel: &Cancel,
) -> RunOutcome {
    let skip = if let What::Deploy(_, skip) = &what { skip.clone() } else { Vec::new() };
    let operator = operator(skip);
    let reconnect = &Again { profile, global };
    let operation = Operation { profile, hosts, operator: &operator, events, cancel, reconnect };
    match what {
        What::Deploy(delivery, _) => operation.deploy(&delivery).await,
        What::Push => operation.push().await,
        What::Rollback(target) => operation.rollback(target).await,
        What::Stop => operation.stop().await,
    }
}

/// Connects as the command did.
struct Again<'a> {
    profile: &'a Profile,
    global: &'a Global,
}

#[async_trait]
impl Reconnect for Again<'_> {
    async fn reconnect(&self) -> Result<Hosts, Vec<HostError>> {
        let (hosts, errors) = session::connect(self.profile, self.global).await;
        let errors: Vec<_> = errors.into_iter().map(|(_, error)| error).collect();
        if errors.is_empty() { Ok(hosts) } else { Err(errors) }
    }
}

/// What became of the signals.
struct Signals(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Signals {
    /// Whether the first signal was SIGTERM.
    fn terminated(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The first SIGINT, SIGTERM or SIGHUP wishes for an end; the second ends the program at once.
fn listen(switch: tokio::sync::watch::Sender<bool>) -> Result<Signals, CommandError> {
    let bug = |error: std::io::Error| {
        CommandError::new(Exit::Bug, format!("error: cannot listen for signals: {error}"))
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(bug)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(bug)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(bug)?;
    let terminated = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let first_was = terminated.clone();
    tokio::spawn(async move {
        let mut first = true;
        loop {
            let exit = tokio::select! {
                _ = interrupt.recv() => Exit::Interrupted,
                _ = terminate.recv() => Exit::Terminated,
                // The terminal is gone: go back in order, as somebody has to.
                _ = hang_up.recv() => Exit::Terminated,
            };
            if first {
                first = false;
                first_was.store(exit == Exit::Terminated, std::sync::atomic::Ordering::Relaxed);
                let _ = switch.send(true);
            } else {
                use std::io::Write;
                let _ = writeln!(
                    std::io::stderr(),
                    "interrupted twice: the nodes are left as they are; `sparkctl status` tells, and the next deploy repairs"
                );
                #[expect(clippy::exit, reason = "the second signal asks for an end at once")]
                std::process::exit(exit as i32);
            }
        }
    });
    Ok(Signals(terminated))
}
