//! `deploy`, `push`, `rollback` and `stop`: the commands that change nodes. One run: connect, listen for
//! signals, do the operation, report it, keep its record.

use async_trait::async_trait;
use clap::Args;
use jiff::Timestamp;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

use super::{Global, Output, check, known, session};
use crate::config::{Loaded, Places};
use crate::delivery::Delivery;
use crate::error::{CommandError, Exit, in_full};
use crate::event::{Event, Events, RunOutcome, WeakEvents};
use crate::execute::{Cancel, Hosts};
use crate::hooks;
use crate::host::HostError;
use crate::operation::{Operation, Reconnect, Target};
use crate::plan::planner::{Operator, SyncWishes};
use crate::profile::{NodeName, Profile};
use crate::release::ReleaseNumber;
use crate::release::journal::Journal;
use crate::release::lock::Claim;
use crate::report::{Sink, audit::Audit, json::Json, report, terminal::Terminal};

/// Plans, moves bytes, switches, proves, records; on failure the release before comes back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl deploy profiles/qwen35-122b.yaml")]
pub struct DeployArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    #[command(flatten)]
    checks: check::Skip,
    #[command(flatten)]
    lock: LockArgs,
}

/// What to do while another operation is at work on the nodes.
#[derive(Debug, Args)]
struct LockArgs {
    /// Waits while another operation is at work on the nodes, at most so long (90s, 5m; a day where no limit is named);
    /// without this, that is refused at once.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "24h",
          value_parser = crate::profile::duration_from_words)]
    wait: Option<Duration>,
}

impl LockArgs {
    fn claim(&self) -> Claim {
        let claim = Claim { wait: self.wait.unwrap_or_default(), ..Claim::new() };
        match std::env::var(hooks::TOKEN) {
            Ok(token) if !token.is_empty() => Claim { token, ..claim },
            _ => claim,
        }
    }
}

/// The weights to all nodes, alone, verified by hash: what runs is not touched.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sparkctl sync profiles/qwen35-122b.yaml\n  sparkctl sync --verify profiles/qwen35-122b.yaml"
)]
pub struct SyncArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// Hashes every file anew on every node: finds bytes that changed on a disk while the file's time did not.
    #[arg(long)]
    verify: bool,
    /// Removes files from the other nodes that the head's folder does not have.
    #[arg(long)]
    delete_extra: bool,
    #[command(flatten)]
    lock: LockArgs,
}

/// The image to all nodes, alone: what runs is not touched.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl push profiles/qwen35-122b.yaml")]
pub struct PushArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    #[command(flatten)]
    lock: LockArgs,
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
    #[command(flatten)]
    lock: LockArgs,
}

/// Ends the whole group of ranks; the logs are kept.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl stop qwen35-122b")]
pub struct StopArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
    #[command(flatten)]
    lock: LockArgs,
}

enum What {
    Deploy(Delivery, Vec<String>),
    Push(Delivery),
    Rollback(Target),
    Stop,
    Sync(SyncWishes),
}

/// `sparkctl deploy`.
pub async fn deploy(args: DeployArgs, global: &Global) -> Result<Exit, CommandError> {
    let skip = args.checks.skipped()?;
    let loaded = known::load(&args.profile)?;
    let delivery = known::read(&loaded).await?;
    let Loaded { profile, places } = loaded;
    run(&profile, Some(places), "deploy", What::Deploy(delivery, skip), &args.lock.claim(), global).await
}

/// `sparkctl sync`.
pub async fn sync(args: SyncArgs, global: &Global) -> Result<Exit, CommandError> {
    let Loaded { profile, places } = known::load(&args.profile)?;
    let wishes = SyncWishes { verify: args.verify, delete_extra: args.delete_extra };
    run(&profile, Some(places), "sync", What::Sync(wishes), &args.lock.claim(), global).await
}

/// `sparkctl push`.
pub async fn push(args: PushArgs, global: &Global) -> Result<Exit, CommandError> {
    let loaded = known::load(&args.profile)?;
    let delivery = known::read_without_values(&loaded).await?;
    let Loaded { profile, places } = loaded;
    run(&profile, Some(places), "push", What::Push(delivery), &args.lock.claim(), global).await
}

/// `sparkctl rollback`.
pub async fn rollback(args: RollbackArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let target = args.to.map_or(Target::Before, Target::Number);
    run(&profile, None, "rollback", What::Rollback(target), &args.lock.claim(), global).await
}

/// `sparkctl stop`.
pub async fn stop(args: StopArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    run(&profile, None, "stop", What::Stop, &args.lock.claim(), global).await
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
    Operator { who: format!("{user}@{}", machine.trim()), now: Timestamp::now(), skip, token: String::new() }
}

async fn run(
    profile: &Profile,
    places: Option<Places>,
    command: &str,
    what: What,
    claim: &Claim,
    global: &Global,
) -> Result<Exit, CommandError> {
    let mut further: Vec<Box<dyn Sink>> = Vec::new();
    // A profile whose weights or image were copied is not yet what is deployed.
    if !matches!(what, What::Sync(_) | What::Push(_)) {
        further.push(Box::new(known::Remember::new(profile)?));
    }
    told(profile, places, command, further, global, async |events, cancel| {
        let connected = tokio::select! {
            biased;
            () = cancel.wish() => None,
            connected = session::connect(profile, global) => Some(connected),
        };
        let Some((hosts, errors)) = connected else {
            return interrupted(profile, events).await;
        };
        if errors.is_empty() {
            operate(profile, global, &hosts, what, claim, events, cancel).await
        } else {
            unreachable(profile, &errors, events).await
        }
    })
    .await
}

/// The outcome, and last event, of a run that somebody ended while it connected.
async fn interrupted(profile: &Profile, events: &Events) -> RunOutcome {
    let outcome = RunOutcome::Interrupted { state: "nothing was changed".to_owned() };
    events.tell(Event::Finished { deployment: profile.name.clone(), outcome: outcome.clone() }).await;
    outcome
}

/// The outcome, and last event, of a run that could not begin, as nodes could not be connected to.
pub(super) async fn unreachable(
    profile: &Profile,
    errors: &[(NodeName, HostError)],
    events: &Events,
) -> RunOutcome {
    let outcome = RunOutcome::Unreachable {
        errors: errors.iter().map(|(_, error)| in_full(error)).collect(),
        hints: errors.iter().filter_map(|(_, error)| error.hint()).collect(),
        state: "nothing was changed".to_owned(),
    };
    events.tell(Event::Finished { deployment: profile.name.clone(), outcome: outcome.clone() }).await;
    outcome
}

/// A run from its record's first line to its exit status: what `work` tells goes to the record, to `further`, and to whoever
/// looks on. `places` are those of the profile's fields, where it was read from a file just now.
pub(super) async fn told(
    profile: &Profile,
    places: Option<Places>,
    command: &str,
    further: Vec<Box<dyn Sink>>,
    global: &Global,
    work: impl AsyncFnOnce(&Events, &Cancel) -> RunOutcome,
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
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(audit)];
    sinks.extend(further);
    sinks.push(shown);
    let (events, receiver) = Events::channel();
    let reporting = tokio::spawn(report(receiver, sinks));

    let (switch, cancel) = Cancel::new();
    let signals = listen(switch, events.downgrade())?;
    let outcome = work(&events, &cancel).await;
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
    claim: &Claim,
    events: &Events,
    cancel: &Cancel,
) -> RunOutcome {
    let skip = if let What::Deploy(_, skip) = &what { skip.clone() } else { Vec::new() };
    let operator = Operator { token: claim.token.clone(), ..operator(skip) };
    let reconnect = &Again { profile, global };
    let journal = &Journal::default();
    let operation =
        Operation { profile, hosts, operator: &operator, events, cancel, reconnect, claim, journal };
    match what {
        What::Deploy(delivery, _) => operation.deploy(&delivery).await,
        What::Push(delivery) => operation.push(&delivery).await,
        What::Rollback(target) => operation.rollback(target).await,
        What::Stop => operation.stop().await,
        What::Sync(wishes) => operation.sync(wishes).await,
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
fn listen(switch: tokio::sync::watch::Sender<bool>, events: WeakEvents) -> Result<Signals, CommandError> {
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
                events.try_tell(Event::Interrupting { will: events.at().will() });
                let _ = switch.send(true);
            } else {
                use std::io::Write;
                let _ = writeln!(
                    std::io::stderr(),
                    "interrupted twice: {}; `sparkctl status` tells what runs, and the next deploy repairs",
                    events.at().left()
                );
                #[expect(clippy::exit, reason = "the second signal asks for an end at once")]
                std::process::exit(exit as i32);
            }
        }
    });
    Ok(Signals(terminated))
}
