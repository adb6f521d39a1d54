//! `check`: everything that would make a deploy fail, or go badly, with what to do. Changes nothing.

use std::collections::BTreeSet;
use std::io::Write as _;

use clap::Args;

use super::change::{self, usage};
use super::{Global, Output, known, print, session};
use crate::check::{self, CHECKS, Finding, Selection, Severity};
use crate::config::Loaded;
use crate::error::{CommandError, Exit, in_full};
use crate::fabric::{Measured, Tell};
use crate::host::HostError;
use crate::operation::{self, Examined};
use crate::profile::{NodeName, Profile};
use crate::report::check::{Report, measured_line};
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
        if let Some(near) = unknown.near {
            error.hint(format!("did you mean `{near}`?"))
        } else {
            let topics: BTreeSet<_> = CHECKS.iter().map(|check| check.topic).collect();
            let topics: Vec<_> = topics.into_iter().collect();
            error.hint(format!("docs/checks.md has all of them; topics are {}", topics.join(", ")))
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
    let operator = change::operator(Vec::new());
    // Eight nodes take most of a minute.
    let tells = global.output == Output::Text && !global.quiet;
    let tell = |measured: &Measured| {
        if tells {
            let _ = writeln!(std::io::stderr(), "{}", measured_line(measured));
        }
    };
    let measure: Option<Tell<'_>> = if args.measure { Some(&tell) } else { None };
    let Examined { facts, findings } =
        operation::check(&profile, &delivery, &hosts, &operator, measure).await;
    let refused = errors.iter().map(|(node, error)| refused(&profile, node, error));
    let findings = refused.chain(findings).filter(|finding| selection.tells(finding)).collect();
    let parity = check::parity_table(&profile, &facts);
    let asked = facts.into_iter().map(|facts| facts.node).collect();
    let report = Report { profile, findings, parity, selection, asked, measured: args.measure };
    match global.output {
        Output::Json => print(&format!("{}\n", json::document(report.json()))),
        Output::Text => print(&report.text(global.verbose > 0, Some(&places))),
    }
    Ok(exit(&report.findings))
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

fn refused(profile: &Profile, node: &NodeName, error: &HostError) -> Finding {
    let known = profile.cluster.nodes.iter().find(|known| &known.name == node);
    let host = known.map_or(node.as_str(), |known| known.host.as_str());
    match error {
        HostError::Connect { why, .. } => check::refused(node, host, why),
        other => check::unasked(node, &in_full(other)),
    }
}
