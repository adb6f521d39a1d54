//! `unlock`: frees what a dead operation holds; one that lives is left alone.

use clap::Args;
use futures_util::future::join_all;
use serde_json::json;

use super::{Global, Output, known, print, session};
use crate::error::{CommandError, Exit};
use crate::host::HostError;
use crate::release::lock::{self, Unlocked};
use crate::report;

/// Frees the nodes' lock where its holder gives no sign of life; a lock ends by itself, so this is hardly ever needed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sparkctl unlock qwen35-122b")]
pub struct UnlockArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
}

/// `sparkctl unlock`.
pub async fn run(args: UnlockArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let hosts = session::connect_all(&profile, global).await?;
    let all = join_all(hosts.values().map(|host| lock::unlock(host.as_ref()))).await;
    let all: Vec<_> =
        all.into_iter().collect::<Result<_, HostError>>().map_err(|e| session::unreachable(&[e]))?;
    let held = all.iter().any(|unlocked| matches!(unlocked, Unlocked::Held(_)));
    let told = hosts.keys().zip(&all);
    match global.output {
        Output::Json => {
            let nodes = told.map(|(node, unlocked)| {
                let (lock, holder) = match unlocked {
                    Unlocked::Free => ("free", None),
                    Unlocked::Held(holder) => ("held", Some(holder)),
                    Unlocked::Freed(holder) => ("freed", Some(holder)),
                };
                json!({ "node": node, "lock": lock, "holder": holder })
            });
            let nodes: Vec<_> = nodes.collect();
            print(&format!("{}\n", report::json::document(json!({ "nodes": nodes }))));
        }
        Output::Text => {
            for (node, unlocked) in told {
                print(&match unlocked {
                    Unlocked::Free => format!("{node}: nobody holds the lock\n"),
                    Unlocked::Held(holder) => {
                        format!("{node}: held by {holder}; it lives and was left alone\n")
                    }
                    Unlocked::Freed(holder) => format!("{node}: freed; it was held by {holder}\n"),
                });
            }
        }
    }
    Ok(if held { Exit::Locked } else { Exit::Done })
}
