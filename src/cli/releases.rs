//! `releases`: the history of a deployment, from the records on the nodes.

use clap::Args;

use super::{Global, Output, known, print, session};
use crate::error::{CommandError, Exit};
use crate::plan::planner;
use crate::release::Release;
use crate::report;

/// History: number, when, who, which image, outcome.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl releases qwen35-122b")]
pub struct ReleasesArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

/// `sparkctl releases`.
pub async fn run(args: ReleasesArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let facts = session::look(&profile, global).await?;
    let mut releases: Vec<Release> = Vec::new();
    for release in facts.iter().flat_map(|facts| &facts.releases) {
        if !releases.iter().any(|known| known.number == release.number) {
            releases.push(release.clone());
        }
    }
    releases.sort_by_key(|release| release.number);
    let running = planner::running(&profile.name, &facts);
    match global.output {
        Output::Json => {
            let content =
                serde_json::json!({ "deployment": profile.name, "running": running, "releases": releases });
            print(&format!("{}\n", report::json::document(content)));
        }
        Output::Text if releases.is_empty() => print(&format!("{}: no release yet\n", profile.name)),
        Output::Text => print(&report::status::releases(&releases, running, global.verbose > 0)),
    }
    for words in releases.iter().filter_map(Release::newer_words) {
        tracing::warn!("{words}; it is left as it is");
    }
    for why in facts.iter().flat_map(|facts| &facts.unreadable_releases) {
        tracing::warn!("a release record cannot be read: {why}");
    }
    Ok(Exit::Done)
}
