//! `prune`: removes from the nodes what no release needs that can still be rolled back to.

use std::io::{self, BufRead, IsTerminal, Write};
use std::num::NonZeroUsize;

use clap::Args;

use super::change::{self, usage};
use super::{Global, Output, known, print, session};
use crate::error::{CommandError, Exit};
use crate::event::Events;
use crate::operation;
use crate::plan::planner::Operator;
use crate::profile::Profile;
use crate::prune::{self, Prune, Retention};
use crate::release::lock::{self, Claim, Lock, LockError};
use crate::report::{json, terminal};

/// Removes kept images, records, logs, files and secrets of old releases, and what cut copies left. Shows first what, and
/// how much it frees.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sparkctl prune\n  sparkctl prune qwen35-122b --keep 2 --weights --dry-run"
)]
pub struct PruneArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
    /// How many of the last deployed releases to keep, beside the one that runs.
    #[arg(long, value_name = "N", default_value = "5")]
    keep: NonZeroUsize,
    /// Removes weights as well that no release of any deployment needs.
    #[arg(long)]
    weights: bool,
    /// Shows what would go, and removes nothing.
    #[arg(long)]
    dry_run: bool,
    /// Does not ask.
    #[arg(short, long)]
    yes: bool,
}

/// `sparkctl prune`.
pub async fn run(args: PruneArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let retention = Retention { releases: args.keep.get(), weights: args.weights };
    let hosts = session::connect_all(&profile, global).await?;
    let unreachable = |errors: Vec<_>| session::unreachable(&errors);
    let _lock = if args.dry_run { None } else { Some(locked(&profile, &hosts).await?) };
    let facts = operation::look(&profile, &hosts).await.map_err(unreachable)?;
    let inventories = prune::store::look(&profile, &hosts, &facts).await.map_err(unreachable)?;
    let pruned = prune::plan(&profile, retention, &facts, &inventories).map_err(|finding| {
        let findings = [finding];
        let lines = terminal::finding_lines(&findings, None).join("\n");
        CommandError::new(Exit::Refused, lines).details(&findings)
    })?;
    let shown = prune::text(&profile.name, &pruned);
    if args.dry_run || pruned.is_empty() {
        match global.output {
            Output::Json => print(&document(&pruned, &[])),
            Output::Text => print(&shown),
        }
        return Ok(Exit::Done);
    }
    if !args.yes && !agreed(global, &shown, &pruned)? {
        return Ok(Exit::Done);
    }
    if args.yes && global.output == Output::Text && !global.quiet {
        print(&shown);
    }
    let removed = prune::store::remove(&pruned, &hosts).await;
    match global.output {
        Output::Json => print(&document(&pruned, &removed)),
        Output::Text => print(&prune::result(&profile.name, &removed)),
    }
    Ok(if removed.iter().all(|removed| removed.why.is_none()) { Exit::Done } else { Exit::Down })
}

async fn locked(profile: &Profile, hosts: &crate::execute::Hosts) -> Result<Lock, CommandError> {
    let Operator { who, now, .. } = change::operator(Vec::new());
    let holder = format!("{who}, `prune` of `{}`, since {now:.0}", profile.name);
    // Nobody is told how far it is but who asks for the lock.
    let (events, _) = Events::channel();
    let claim = Claim::new();
    let lock = lock::acquire(hosts, &profile.head().name, &profile.name, &holder, &claim, &events).await;
    lock.map_err(|error| match error {
        LockError::Host(error) => session::unreachable(&[error]),
        held @ LockError::Held { .. } => CommandError::new(Exit::Locked, format!("error: {held}")),
    })
}

fn agreed(global: &Global, shown: &str, pruned: &Prune) -> Result<bool, CommandError> {
    if global.output == Output::Json || !io::stdin().is_terminal() {
        let error = usage("nobody can be asked here whether to remove what nothing needs");
        return Err(error.hint("see what it is by --dry-run, then say --yes"));
    }
    let failed = |error: io::Error| CommandError::new(Exit::Usage, format!("error: cannot ask: {error}"));
    let mut err = io::stderr().lock();
    write!(err, "{shown}\n{}", prune::asked(pruned)).and_then(|()| err.flush()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn document(pruned: &Prune, removed: &[prune::store::Removed]) -> String {
    let nodes: Vec<_> = pruned
        .nodes
        .iter()
        .map(|(node, items)| serde_json::json!({ "node": node, "items": items }))
        .collect();
    let content = serde_json::json!({ "kept": pruned.kept, "nodes": nodes, "removed": removed });
    format!("{}\n", json::document(content))
}
