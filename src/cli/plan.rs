//! `plan`: what `deploy` would do. Changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Global, Output, change, check, known, print, session};
use crate::check::{Finding, Severity};
use crate::cluster::facts::NodeFacts;
use crate::cluster::recorded;
use crate::config::Loaded;
use crate::error::{CommandError, Exit};
use crate::fabric::Links;
use crate::operation;
use crate::plan::{planner, render};
use crate::profile::Profile;
use crate::report::{json, terminal};

/// What `deploy` would do: steps per node, bytes to move, what differs. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl plan -v profiles/qwen35-122b.yaml")]
pub struct PlanArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// Answers with exit status 10 where there is something to do.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    checks: check::Skip,
    /// Plans against recorded facts, as `sparkctl facts` prints them, and connects to nothing.
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
}

/// `sparkctl plan`.
pub async fn run(args: PlanArgs, global: &Global) -> Result<Exit, CommandError> {
    let loaded = known::load(&args.profile)?;
    let delivery = match args.facts {
        Some(_) => known::read_without_values(&loaded).await?,
        None => known::read(&loaded).await?,
    };
    let Loaded { profile, places } = loaded;
    let operator = change::operator(args.checks.skipped()?);
    let mut not_compared = None;
    let (facts, fabric) = if let Some(file) = &args.facts {
        let mut facts = read_facts(file, &profile)?;
        not_compared = operation::take_secrets_as_same(&mut facts).filter(|_| !delivery.secrets.is_empty());
        (facts, Links::default())
    } else {
        let hosts = session::connect_all(&profile, global).await?;
        let unreachable = |errors: Vec<_>| session::unreachable(&errors);
        let mut facts = operation::look(&profile, &hosts).await.map_err(unreachable)?;
        operation::compare(&profile, &delivery, &hosts, &mut facts).await.map_err(unreachable)?;
        let fabric = operation::probe(&profile, &hosts, &facts, None).await;
        (facts, fabric)
    };
    let mut planned =
        planner::deploy(&profile, &delivery, &facts, &fabric, &operator).map_err(|refused| {
            let lines = terminal::finding_lines(&refused.0, Some(&places)).join("\n");
            CommandError::new(Exit::Refused, lines).details(&refused.0)
        })?;
    planned.warnings.extend(not_compared);
    match global.output {
        Output::Json => {
            let content = serde_json::json!({ "plan": planned.plan, "warnings": planned.warnings });
            print(&format!("{}\n", json::document(content)));
        }
        Output::Text => {
            let told = |finding: &Finding| finding.severity > Severity::Note || global.verbose > 0;
            let told: Vec<_> = planned.warnings.into_iter().filter(told).collect();
            for line in terminal::finding_lines(&told, Some(&places)) {
                print(&format!("{line}\n"));
            }
            print(&render::text(&planned.plan, global.verbose > 0));
        }
    }
    Ok(if args.exit_code && !planned.plan.is_empty() { Exit::Pending } else { Exit::Done })
}

/// Recorded facts, as if they had just been seen on the profile's nodes.
fn read_facts(file: &Path, profile: &Profile) -> Result<Vec<NodeFacts>, CommandError> {
    let wrong = |why: String| {
        let message = format!("error: cannot plan against {}: {why}", file.display());
        CommandError::new(Exit::Usage, message).hint("record facts by `sparkctl facts PROFILE > FILE`")
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let nodes: Vec<_> = profile.cluster.nodes.iter().map(|node| node.name.clone()).collect();
    let facts = recorded::read(&text, &nodes).map_err(wrong)?;
    let with_docker = facts.into_iter().map(operation::with_docker);
    with_docker.collect::<Result<_, _>>().map_err(|error| session::unreachable(&[error]))
}
