//! `releases`: the history of a deployment, from the records on the nodes.

use std::collections::BTreeMap;

use clap::Args;

use super::{Global, Output, known, print, session};
use crate::cluster::facts::NodeFacts;
use crate::error::{CommandError, Exit};
use crate::operation;
use crate::plan::planner;
use crate::release::{Outcome, Release};
use crate::report;

/// History: number, when, who, which image, outcome, and whether it can still be rolled back to.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl releases qwen35-122b")]
pub struct ReleasesArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

/// `sparkctl releases`.
pub async fn run(args: ReleasesArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let hosts = session::connect_all(&profile, global).await?;
    let unreachable = |errors: Vec<_>| session::unreachable(&errors);
    let facts = operation::look(&profile, &hosts).await.map_err(unreachable)?;
    let mut releases: Vec<Release> = Vec::new();
    for release in facts.iter().flat_map(|facts| &facts.releases) {
        if !releases.iter().any(|known| known.number == release.number) {
            releases.push(release.clone());
        }
    }
    releases.sort_by_key(|release| release.number);
    let running = planner::running(&profile.name, &facts);
    let mut back = BTreeMap::new();
    let mut seen: BTreeMap<String, Vec<NodeFacts>> = BTreeMap::new();
    let served = |release: &&Release| release.outcome == Outcome::Deployed && Some(release.number) != running;
    for release in releases.iter().filter(served) {
        // Releases may be of several models, and each wants a look of its own.
        let path = &release.profile.model.path;
        if !seen.contains_key(path) {
            let looked = operation::look_for(release, &profile, &hosts, facts.clone()).await;
            seen.insert(path.clone(), looked.map_err(unreachable)?);
        }
        back.insert(release.number, operation::in_the_way_back(release, &seen[path]));
    }
    match global.output {
        Output::Json => {
            let rollback: Vec<_> = back
                .iter()
                .map(|(release, findings)| {
                    serde_json::json!({ "release": release, "possible": findings.is_empty(), "findings": findings })
                })
                .collect();
            let content = serde_json::json!({
                "deployment": profile.name, "running": running, "releases": releases, "rollback": rollback
            });
            print(&format!("{}\n", report::json::document(content)));
        }
        Output::Text if releases.is_empty() => print(&format!("{}: no release yet\n", profile.name)),
        Output::Text => print(&report::status::releases(&releases, running, &back, global.verbose > 0)),
    }
    for why in facts.iter().flat_map(|facts| &facts.unreadable_releases) {
        tracing::warn!("a release record cannot be read: {why}");
    }
    Ok(Exit::Done)
}
