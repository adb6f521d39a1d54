//! A budget for people: a table with bars, and what follows from it.

use std::fmt::Write;

use super::budget::{Budget, Verdict};
use super::{ABSURD, Measured, gib};
use crate::profile::NodeName;

/// Characters of a bar that stands for all of a GPU's memory.
const WIDTH: u64 = 48;

/// The budgets of a profile's nodes. Nodes whose budgets are equal, but for what is free now, stand together.
pub fn text(name: &str, context: u64, nodes: &[(NodeName, Budget)]) -> String {
    let mut text = String::new();
    let mut left: Vec<&(NodeName, Budget)> = nodes.iter().collect();
    while let Some((first, budget)) = left.first().copied() {
        let (same, other) = left.into_iter().partition::<Vec<_>, _>(|(_, each)| each.is_like(budget));
        left = other;
        let names: Vec<_> = same.iter().map(|(node, _)| node.as_str()).collect();
        let place = if same.len() == 1 { first.to_string() } else { format!("each of {}", names.join(", ")) };
        let _ = writeln!(text, "{name} on {place}: {}", verdict(budget));
        text.push('\n');
        table(&mut text, context, budget);
        text.push('\n');
        consequences(&mut text, context, budget);
        largest_fractions(&mut text, &same);
        for note in &budget.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        if !left.is_empty() {
            text.push('\n');
        }
    }
    text
}

/// One line on whether it fits.
pub fn verdict(budget: &Budget) -> String {
    match budget.verdict {
        Verdict::Fits { spare } => format!("fits, with {} to spare", gib(spare)),
        Verdict::Unsure { lacking } => {
            format!(
                "may not fit: {} too much if activations, graphs and NCCL take what {}",
                gib(lacking),
                by(budget)
            )
        }
        Verdict::TooBig { lacking } => format!("does not fit: {} too much", gib(lacking)),
        Verdict::TooLong { limit } => {
            format!(
                "does not start: `engine.context_length` is more than the {limit} tokens that the model is made for"
            )
        }
        Verdict::NotEstimated => "not estimated".to_owned(),
    }
}

/// Who says what activations, graphs and NCCL take.
pub fn by(budget: &Budget) -> String {
    match budget.measured.filter(|measured| measured.beside.is_some()) {
        Some(measured) => format!("they took in release {}", measured.release),
        None => "is allowed for them".to_owned(),
    }
}

fn table(text: &mut String, context: u64, budget: &Budget) {
    let total = budget.memory.total;
    let bar = |bytes: u64| {
        let length =
            u64::try_from(u128::from(bytes.min(total)) * u128::from(WIDTH) / u128::from(total.max(1)));
        "█".repeat(usize::try_from(length.unwrap_or(0)).unwrap_or(0))
    };
    let mut row = |what: &str, bytes: Option<u64>| {
        let line = match bytes {
            Some(bytes) => format!("  {what:<34} {:>12}  {}", gib(bytes), bar(bytes)),
            None => format!("  {what:<34} {:>12}", "?"),
        };
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let allowance = budget.allowance;
    match budget.measured {
        Some(measured) => row(&format!("weights (measured by release {})", measured.release), budget.weights),
        None => row("weights", budget.weights),
    }
    if let Some(Measured { release, beside: Some(beside), .. }) = budget.measured {
        row(&format!("besides (measured by release {release})"), Some(beside));
    } else {
        row("activations (allowance)", Some(allowance.activations));
        row("CUDA graphs (allowance)", Some(allowance.graphs));
        row("CUDA and NCCL (allowance)", Some(allowance.communication));
    }
    row(&format!("cache of one request of {context}"), budget.request);
    if let Verdict::Fits { spare } = budget.verdict {
        row("for further requests", Some(spare));
    }
    row(&format!("may be taken ({} of the memory)", budget.fraction), Some(budget.limit));
    row("memory of the GPU", Some(total));
    if let Some(measured) = budget.measured {
        let estimated = budget.weights_estimated.map_or("not known".to_owned(), gib);
        let besides = measured.beside.map_or(String::new(), |_| {
            format!(", activations, graphs, CUDA and NCCL {}", gib(allowance.sum()))
        });
        let _ = writeln!(text, "\n  estimated were: weights {estimated}{besides}");
    }
}

fn consequences(text: &mut String, context: u64, budget: &Budget) {
    let mut line = |what: String| {
        let _ = writeln!(text, "  {what}");
    };
    if let (Some(token), Some(request)) = (budget.per_token, budget.per_request) {
        let besides = if request == 0 {
            String::new()
        } else {
            format!(", and by {} with each request", small(request))
        };
        line(format!("the cache grows by {} with each token{besides}", small(token)));
    }
    // Nothing follows from no cache at all.
    let cache = budget.cache.filter(|cache| *cache > 0);
    if let (Some(cache), Some(tokens)) = (cache, budget.tokens) {
        line(format!("{} of cache hold {tokens} tokens", gib(cache)));
    }
    if let Some(concurrency) = budget.concurrency.filter(|_| cache.is_some()) {
        line(format!("requests of {context} tokens at once: {}.{:02}", concurrency / 100, concurrency % 100));
    }
    let contexts: Vec<_> = budget
        .longest
        .iter()
        .map(|longest| match longest.requests {
            1 => format!("{} for one request", longest.context),
            requests => format!("{} for {requests}", longest.context),
        })
        .collect();
    if cache.is_some() && !contexts.is_empty() {
        line(format!("longest context: {}", contexts.join(", ")));
    }
}

/// The largest fraction that the engine's check at its start lets pass, on each node where it was asked.
fn largest_fractions(text: &mut String, nodes: &[&(NodeName, Budget)]) {
    let told: Vec<_> = nodes
        .iter()
        .filter_map(|(node, budget)| {
            let [now, dropped] = budget.largest_fraction?;
            let without = if dropped > now {
                format!(" ({} without the page cache)", two(dropped))
            } else {
                String::new()
            };
            Some(format!("{} on {node}{without}", two(now)))
        })
        .collect();
    if !told.is_empty() {
        let _ = writeln!(text, "  largest `engine.memory_fraction` that may start now: {}", told.join(", "));
    }
}

fn two(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Bytes in the unit that shows them best.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub fn small(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        ABSURD.. => gib(bytes),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
