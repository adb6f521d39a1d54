//! What goes, and what became of it, for people.

use std::fmt::Write;

use super::store::Removed;
use super::{Item, Kind, Prune};
use crate::plan::render::size;
use crate::profile::DeploymentName;
use crate::release::ReleaseNumber;

/// What goes, node by node, with the bytes.
pub fn text(deployment: &DeploymentName, prune: &Prune) -> String {
    let kept: Vec<_> = prune.kept.iter().map(ReleaseNumber::to_string).collect();
    let kept = match kept.len() {
        0 => "there is no release".to_owned(),
        1 => format!("release {} is kept", kept[0]),
        _ => format!("releases {} are kept", kept.join(", ")),
    };
    let mut out = format!("{deployment}: {kept}\n");
    if prune.is_empty() {
        out.push_str("\n  nothing to remove\n");
    }
    for (node, items) in &prune.nodes {
        let _ = writeln!(out, "\n  {node}   {}", size(bytes(items)));
        for item in items.iter().filter(|item| !gathered(item.kind)) {
            let _ =
                writeln!(out, "    {:<9} {}   {}", item.kind.word(), item.name.join(" "), size(item.bytes));
        }
        for (kind, word) in
            [(Kind::Files, "placed file"), (Kind::Secrets, "file of secrets"), (Kind::Release, "")]
        {
            let of: Vec<_> = items.iter().filter(|item| item.kind == kind).collect();
            let freed = size(of.iter().map(|item| item.bytes).sum::<u64>());
            let _ = match (kind, of.len()) {
                (_, 0) => Ok(()),
                (Kind::Release, _) => {
                    let numbers: Vec<_> = of
                        .iter()
                        .filter_map(|item| Some(item.name.last()?.trim_start_matches('0')))
                        .collect();
                    writeln!(out, "    {:<9} {}, records and logs   {freed}", kind.word(), numbers.join(", "))
                }
                (Kind::Secrets, count) => writeln!(out, "    {:<9} {count} {word}{}", kind.word(), s(count)),
                (_, count) => writeln!(out, "    {:<9} {count} {word}{}   {freed}", kind.word(), s(count)),
            };
        }
    }
    out
}

/// Kinds whose things are many and small, and told together.
fn gathered(kind: Kind) -> bool {
    matches!(kind, Kind::Files | Kind::Secrets | Kind::Release)
}

fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn bytes(items: &[Item]) -> u64 {
    items.iter().map(|item| item.bytes).sum()
}

/// The question ahead of it.
pub fn asked(prune: &Prune) -> String {
    let freed: u64 = prune.nodes.iter().map(|(_, items)| bytes(items)).sum();
    let count = prune.nodes.len();
    format!("remove this, {} on {count} node{}? [y/N] ", size(freed), s(count))
}

/// What became of it.
pub fn result(deployment: &DeploymentName, removed: &[Removed]) -> String {
    let gone = removed.iter().filter(|removed| removed.why.is_none());
    let freed: u64 = gone.clone().map(|removed| removed.item.bytes).sum();
    let mut out = String::new();
    for removed in removed {
        let Some(why) = &removed.why else { continue };
        let Removed { node, item, .. } = removed;
        let _ = writeln!(out, "  {node}: {} {} stays: {why}", item.kind.word(), item.name.join(" "));
    }
    let _ =
        writeln!(out, "{deployment}: removed {} of {} things, {}", gone.count(), removed.len(), size(freed));
    out
}
