//! `logs`: the logs of all ranks, merged by time, labelled; also of containers that are gone.

use clap::Args;
use tokio::sync::mpsc;

use super::{Global, Output, known, print, session};
use crate::container::container_name;
use crate::delivery::redact::Redactor;
use crate::delivery::store::redactor;
use crate::error::{CommandError, Exit};
use crate::operation;
use crate::release::{ReleaseNumber, store};
use crate::report::json;

/// All ranks, merged by time, labelled; also of containers that are gone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl logs -f\n  sparkctl logs qwen35-122b --release 7")]
pub struct LogsArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
    /// Goes on with what is written from now on.
    #[arg(short, long, conflicts_with = "release")]
    follow: bool,
    /// The kept logs of a release that does not run any more.
    #[arg(long, value_name = "N")]
    release: Option<ReleaseNumber>,
    /// Only the last lines of each rank.
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,
}

/// `sparkctl logs`.
pub async fn run(args: LogsArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let hosts = session::connect_all(&profile, global).await?;
    let failed = |error| session::unreachable(&[error]);
    // Where nothing runs, what is wanted is the log of what ran last.
    let mut release = args.release;
    if release.is_none() && !args.follow {
        let facts =
            operation::look(&profile, &hosts).await.map_err(|errors| session::unreachable(&errors))?;
        if facts.iter().all(|facts| facts.ours(&profile.name).next().is_none()) {
            release = facts.iter().filter_map(|facts| facts.highest_release).max();
        }
    }
    let shown = |label: &str, line: &str| match global.output {
        Output::Text => print(&format!("{label}  {line}\n")),
        Output::Json => {
            let (node, rank) = label.split_once(' ').unwrap_or((label, ""));
            let line =
                serde_json::json!({ "format": json::FORMAT, "node": node, "rank": rank, "line": line });
            print(&format!("{line}\n"));
        }
    };
    let mut merged: Vec<(String, String)> = Vec::new();
    let mut following = Vec::new();
    for (rank, node) in (0..).zip(&profile.cluster.nodes) {
        let host = hosts[&node.name].as_ref();
        let label = format!("{} {rank}", node.name);
        let redactor = redactor(host, &profile.name).await.map_err(failed)?;
        if let Some(number) = release {
            let logs = store::read_logs(host, &profile.name, number).await.map_err(failed)?;
            for (_, text) in logs.into_iter().filter(|(of, _)| *of == rank) {
                merged.extend(last(&text, args.tail, &redactor).map(|line| (label.clone(), line)));
            }
            continue;
        }
        let name = container_name(&profile.name, rank);
        if host.container(&name).await.map_err(failed)?.is_none() {
            shown(&label, "(no container here; the logs of earlier releases: sparkctl logs --release N)");
            continue;
        }
        let mut log = host.container_log(&name, args.tail, args.follow).await.map_err(failed)?;
        if args.follow {
            following.push((label, redactor, log));
            continue;
        }
        while let Some(line) = log.recv().await {
            merged.push((label.clone(), redactor.redact(&line).into_owned()));
        }
    }
    // Every line begins with Docker's time stamp, so text sorts by time.
    merged.sort_by(|(_, a), (_, b)| stamp(a).cmp(stamp(b)));
    for (label, line) in &merged {
        shown(label, line);
    }
    if args.release.is_some() && merged.is_empty() {
        let message =
            format!("error: no log of release {} is kept on the nodes", args.release.map_or(0, |n| n.0));
        return Err(CommandError::new(Exit::Usage, message).hint("sparkctl releases"));
    }
    follow(following, shown).await;
    Ok(Exit::Done)
}

/// The last lines of a kept log. It may have been kept before a secret was known, so they are taken out here too.
fn last<'a>(text: &'a str, tail: Option<u32>, redactor: &'a Redactor) -> impl Iterator<Item = String> + 'a {
    let skipped = tail.map_or(0, |tail| text.lines().count().saturating_sub(tail as usize));
    text.lines().skip(skipped).map(|line| redactor.redact(line).into_owned())
}

fn stamp(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Prints lines as they come, until every container has ended.
async fn follow(logs: Vec<(String, Redactor, mpsc::Receiver<String>)>, shown: impl Fn(&str, &str)) {
    let (sender, mut lines) = mpsc::channel(256);
    for (label, redactor, mut log) in logs {
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(line) = log.recv().await {
                let line = redactor.redact(&line).into_owned();
                if sender.send((label.clone(), line)).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    while let Some((label, line)) = lines.recv().await {
        shown(&label, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Secret;

    #[test]
    fn kept_lines_have_no_secrets() {
        let redactor = Redactor::of([("HF_TOKEN".to_owned(), Secret::from("hf_12345678".to_owned()))]);
        let lines = |tail| last("1 a\n2 hf_12345678\n3 b\n", tail, &redactor).collect::<Vec<_>>();
        assert_eq!(lines(None), ["1 a", "2 ‹secret HF_TOKEN›", "3 b"]);
        assert_eq!(lines(Some(2)), ["2 ‹secret HF_TOKEN›", "3 b"]);
    }
}
