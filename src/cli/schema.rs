//! `schema`: the JSON Schema of a profile, for editors. Asks no node.

use clap::Args;

use super::print;
use crate::config;
use crate::error::Exit;

/// The JSON Schema of a profile, with the documentation of every field, for editors.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl schema > profile.schema.json")]
pub struct SchemaArgs {}

/// `sparkctl schema`; the same with `--output json`, as it is JSON already.
pub fn run(SchemaArgs {}: &SchemaArgs) -> Exit {
    print(&format!("{:#}\n", config::schema()));
    Exit::Done
}
