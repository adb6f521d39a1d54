//! `status`: what runs, rank by rank, read from the nodes now.

use clap::Args;
use jiff::Timestamp;

use super::{Global, Output, known, print, session};
use crate::error::{CommandError, Exit, in_full};
use crate::report;
use crate::status::ask;

/// What runs, rank by rank, read from the nodes now: container, Ray membership, endpoint, memory.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl status qwen35-122b")]
pub struct StatusArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

/// `sparkctl status`.
pub async fn run(args: StatusArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let (hosts, errors) = session::connect(&profile, global).await;
    let unreachable: Vec<_> = errors.iter().map(|(node, error)| (node.clone(), in_full(error))).collect();
    let status = ask(&profile, &hosts, &unreachable).await;
    match global.output {
        Output::Json => print(&format!("{}\n", report::json::document(&status))),
        Output::Text => print(&report::status::status(&status, Timestamp::now(), global.verbose > 0)),
    }
    Ok(status.exit())
}
