//! `check`: everything that would make a deploy fail, or go badly, with what to do. Changes nothing.

use std::collections::BTreeSet;

use clap::Args;

use super::change::{self, usage};
use super::{Global, Output, known, print, session};
use crate::check::{self, CHECKS, Finding, Selection, Severity};
use crate::config::Loaded;
use crate::delivery::Delivery;
use crate::error::{CommandError, Exit, in_full};
use crate::execute::Hosts;
use crate::host::HostError;
use crate::operation;
use crate::plan::planner;
use crate::profile::{NodeName, Profile};
use crate::report::check::Report;
use crate::report::json;

/// Every check ahead of a deploy, each with what was seen, how to mend it, and why it matters. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl check profiles/qwen35-122b.yaml\n  \
    sparkctl check my.yaml --only fabric --measure\n  sparkctl check my.yaml --skip port-taken")]
pub struct CheckArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// Only this check, or all of a topic; may be repeated.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Not this check, or none of a topic; may be repeated.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// Also measures how fast bytes go from node to node over the fabric, some seconds a pair; the figure is remembered.
    #[arg(long)]
    measure: bool,
}

/// Checks that a deploy passes over.
#[derive(Debug, Args)]
pub struct Skip {
    /// Passes over this check, or all of a topic; may be repeated. The release's record names them.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
}

impl Skip {
    /// The ids. Those without which nothing can be deployed are no choice where they are named.
    pub fn skipped(&self) -> Result<Vec<String>, CommandError> {
        let selection = select(&[], &self.skip)?;
        let vital = self.skip.iter().find(|name| check::of(name).is_some_and(|check| check.vital));
        match vital {
            Some(id) => {
                Err(usage(&format!("`{id}` cannot be skipped: nothing can be deployed where it fails")))
            }
            None => Ok(selection.skipped()),
        }
    }
}

fn select(only: &[String], skip: &[String]) -> Result<Selection, CommandError> {
    Selection::new(only, skip).map_err(|unknown| {
        let error = usage(&unknown.to_string());
        match unknown.near {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => {
                let topics: BTreeSet<_> = CHECKS.iter().map(|check| check.topic).collect();
                let topics: Vec<_> = topics.into_iter().collect();
                error.hint(format!("docs/checks.md has all of them; topics are {}", topics.join(", ")))
            }
        }
    })
}

/// `sparkctl check`.
pub async fn run(args: CheckArgs, global: &Global) -> Result<Exit, CommandError> {
    let selection = select(&args.only, &args.skip)?;
    let loaded = known::load(&args.profile)?;
    let delivery = known::read(&loaded).await?;
    let Loaded { profile, places } = loaded;
    let (hosts, errors) = session::connect(&profile, global).await;
    let report = examine(&profile, &delivery, &hosts, &errors, args.measure).await;
    let report = Report { findings: wanted(report.findings, &selection), selection, ..report };
    match global.output {
        Output::Json => print(&format!("{}\n", json::document(report.json()))),
        Output::Text => print(&report.text(global.verbose > 0, Some(&places))),
    }
    Ok(exit(&report.findings))
}

fn wanted(findings: Vec<Finding>, selection: &Selection) -> Vec<Finding> {
    findings.into_iter().filter(|finding| selection.wants(finding.id)).collect()
}

/// 3 with an error; 7 where all that is wrong is that nodes cannot be reached.
fn exit(findings: &[Finding]) -> Exit {
    let errors = || findings.iter().filter(|finding| finding.severity == Severity::Error);
    let of_connecting =
        |finding: &Finding| matches!(finding.id, "ssh-auth" | "ssh-host-key" | "ssh-unreachable");
    match errors().count() {
        0 => Exit::Done,
        _ if errors().all(of_connecting) => Exit::Unreachable,
        _ => Exit::Refused,
    }
}

/// Asks all nodes that there are hosts of, and judges; `errors` are of the others.
async fn examine(
    profile: &Profile,
    delivery: &Delivery,
    hosts: &Hosts,
    errors: &[(NodeName, HostError)],
    measure: bool,
) -> Report {
    let (mut facts, unasked) = operation::examine(profile, hosts).await;
    let links = operation::probe(profile, hosts, &facts, measure).await;
    let all =
        facts.len() == profile.cluster.nodes.len() && facts.iter().all(|facts| facts.engine().is_some());
    let mut findings: Vec<_> = errors.iter().map(|(node, error)| refused(profile, node, error)).collect();
    findings.extend(unasked.iter().map(|error| check::unasked(error.node(), &in_full(error))));
    // A deploy finds the same, and what only a plan can find: so the plan is made and thrown away.
    let compared =
        if all { operation::compare(profile, delivery, hosts, &mut facts).await.is_ok() } else { false };
    findings.extend(if compared {
        match planner::deploy(profile, delivery, &facts, &links, &change::operator(Vec::new())) {
            Ok(planned) => planned.warnings,
            Err(refused) => refused.0,
        }
    } else {
        check::check(profile, &facts, &links)
    });
    let parity = check::parity_table(profile, &facts);
    Report { profile: profile.clone(), findings, parity, selection: Selection::default() }
}

fn refused(profile: &Profile, node: &NodeName, error: &HostError) -> Finding {
    let known = profile.cluster.nodes.iter().find(|known| &known.name == node);
    let host = known.map_or(node.as_str(), |known| known.host.as_str());
    match error {
        HostError::Connect { why, .. } => check::refused(node, host, why),
        other => check::unasked(node, &in_full(other)),
    }
}
