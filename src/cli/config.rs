//! `config`: the effective profile, and where each of its values comes from. Asks no node.

use clap::Args;

use super::{Global, Output, known, print};
use crate::config;
use crate::error::{CommandError, Exit};
use crate::report::json;

/// The effective profile: files that it extends, `--set`, the environment and defaults in one.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  sparkctl config profiles/qwen35-122b.yaml --set engine.memory_fraction=0.75 --origins"
)]
pub struct ConfigArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// Says behind each value where it comes from: a line of a file, `--set`, a variable, or a default.
    #[arg(long)]
    origins: bool,
}

/// `sparkctl config`.
pub fn run(args: &ConfigArgs, global: &Global) -> Result<Exit, CommandError> {
    let loaded = known::load(&args.profile)?;
    match global.output {
        Output::Json => print(&format!("{}\n", json::document(config::document(&loaded, args.origins)))),
        Output::Text => print(&config::yaml(&loaded, args.origins)),
    }
    Ok(Exit::Done)
}
