//! `bench`: load on an endpoint, and what it bore.

use clap::Args;

use super::Global;
use super::change::usage;
use crate::error::{CommandError, Exit};

/// Puts load on a deployment's endpoint, or on any of an OpenAI-compatible server, and measures.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl bench qwen35-122b --concurrency 1,4,16")]
pub struct BenchArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

/// `sparkctl bench`.
pub async fn run(args: BenchArgs, _global: &Global) -> Result<Exit, CommandError> {
    std::future::ready(Err(usage(&format!("{:?} cannot be measured yet", args.name)))).await
}
