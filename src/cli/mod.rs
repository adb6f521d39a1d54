//! The command line: a file a command, with its arguments and the glue to what does the work.

mod bench;
mod bench_told;
mod change;
mod check;
mod config;
mod facts;
mod fetch;
mod fit;
mod import;
mod init;
mod known;
mod logs;
mod new_file;
mod plan;
mod prune;
mod releases;
mod schema;
mod session;
mod ssh_hosts;
mod status;
mod unlock;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use crate::error::{CommandError, Exit};

/// Puts a large language model on a few GPU machines reached over SSH, and keeps it there.
#[derive(Debug, Parser)]
#[command(name = "sparkctl", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
struct Global {
    /// What is printed on standard output: for people, or JSON (lines, for a command that takes long).
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Tells more; twice also what sparkctl itself does.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Tells only failures and the outcome.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Another ssh configuration than `~/.ssh/config`.
    #[arg(long, global = true, value_name = "FILE", env = "SPARKCTL_SSH_CONFIG")]
    ssh_config: Option<PathBuf>,
}

/// For whom output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    #[command(hide = true)]
    Facts(facts::FactsArgs),
    Fit(fit::FitArgs),
    Deploy(change::DeployArgs),
    Fetch(fetch::FetchArgs),
    Sync(change::SyncArgs),
    Push(change::PushArgs),
    Status(status::StatusArgs),
    Bench(Box<bench::BenchArgs>),
    Rollback(change::RollbackArgs),
    Releases(releases::ReleasesArgs),
    Stop(change::StopArgs),
    Prune(prune::PruneArgs),
    Logs(logs::LogsArgs),
    Unlock(unlock::UnlockArgs),
    Import(import::ImportArgs),
    Config(config::ConfigArgs),
    Schema(schema::SchemaArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.global.verbose {
        0 | 1 => "warn",
        _ => "sparkctl=debug",
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("SPARKCTL_LOG").unwrap_or_else(|_| level.into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return fail(&cli.global, &CommandError::new(Exit::Bug, format!("cannot start: {error}")));
        }
    };
    let result = match missing(&cli.global) {
        Some(error) => Err(error),
        None => runtime.block_on(run(cli.command, &cli.global)),
    };
    // What still runs in the background (a log that is followed) is not waited for.
    runtime.shutdown_background();
    match result.and_then(|exit| lost().map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(error) => fail(&cli.global, &error),
    }
}

/// Without the ssh configuration that was named, `ssh` would fail in a way that looks like a node's fault. It takes the
/// word `none` for no configuration.
fn missing(global: &Global) -> Option<CommandError> {
    let file = global.ssh_config.as_ref().filter(|file| !file.exists() && file.as_os_str() != "none")?;
    let error =
        CommandError::new(Exit::Usage, format!("error: there is no ssh configuration {}", file.display()));
    Some(error.hint("correct --ssh-config, or SPARKCTL_SSH_CONFIG"))
}

async fn run(command: Command, global: &Global) -> Result<Exit, CommandError> {
    match command {
        Command::Init(args) => init::run(args, global).await,
        Command::Check(args) => check::run(args, global).await,
        Command::Plan(args) => plan::run(args, global).await,
        Command::Facts(args) => facts::run(args, global).await,
        Command::Fit(args) => fit::run(args, global).await,
        Command::Deploy(args) => change::deploy(args, global).await,
        Command::Fetch(args) => fetch::run(args, global).await,
        Command::Sync(args) => change::sync(args, global).await,
        Command::Push(args) => change::push(args, global).await,
        Command::Status(args) => status::run(args, global).await,
        Command::Bench(args) => bench::run(*args, global).await,
        Command::Rollback(args) => change::rollback(args, global).await,
        Command::Releases(args) => releases::run(args, global).await,
        Command::Stop(args) => change::stop(args, global).await,
        Command::Prune(args) => prune::run(args, global).await,
        Command::Logs(args) => logs::run(args, global).await,
        Command::Unlock(args) => unlock::run(args, global).await,
        Command::Import(args) => import::run(args, global),
        Command::Config(args) => config::run(&args, global),
        Command::Schema(args) => Ok(schema::run(&args)),
    }
}

/// Prints an error: as JSON on standard output where that was asked for, for people on standard error.
fn fail(global: &Global, error: &CommandError) -> ExitCode {
    if global.output == Output::Json {
        // One line, also where lines of events were asked for.
        let content = serde_json::json!({
            "format": crate::report::json::FORMAT,
            "error": error.message, "hints": error.hints, "exit": error.exit as u8, "details": error.details,
        });
        let _ = writeln!(std::io::stdout(), "{content}");
    } else {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{}", error.message);
        for hint in &error.hints {
            let _ = writeln!(err, "hint:  {hint}");
        }
    }
    error.exit.into()
}

/// Why an answer could not be written, where one could not.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// Writes an answer to standard output. A reader that went away is no error; what is lost otherwise, on a disk that is
/// full, is told at the end, since half an answer looks like a whole one.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = write!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// The error of an answer that was not written in full.
fn lost() -> Option<CommandError> {
    LOST.get().map(|error| {
        CommandError::new(Exit::Bug, format!("error: the answer could not be written: {error}"))
            .hint("see that there is room, and ask again: what was written is not whole")
    })
}
