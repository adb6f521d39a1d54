//! Plans for people: text of a plan, and of what differs between two specifications. Pure.

use std::fmt::Write;
use std::time::Duration;

use super::{Action, BenchSpec, Plan, ReadySpec, Stage, StageKind};
use crate::container::Rank;
use crate::delivery::kept::KeptKind;
use crate::engine::env::Told;
use crate::engine::prelude;
use crate::profile::{Launch, NodeName, Verify};
use crate::release::Foreign;

/// The plan in a screenful; with `verbose` also every rank's command line and environment.
pub fn text(plan: &Plan, verbose: bool) -> String {
    let mut out = title(plan);
    if plan.is_empty() {
        let running =
            plan.running.map_or_else(|| "nothing runs".to_owned(), |n| format!("release {n} runs as wanted"));
        let _ = writeln!(out, "\n  nothing to do: {running}");
        return out;
    }
    out.push('\n');
    for stage in &plan.stages {
        for (i, line) in lines(plan, stage).into_iter().enumerate() {
            let label = if i == 0 { stage.kind.to_string() } else { String::new() };
            let _ = writeln!(out, "  {label:<9} {line}");
        }
    }
    let against =
        plan.against.map_or(String::new(), |number| format!(" from release {number}, the last that served"));
    if !plan.differences.is_empty() && (plan.running.is_some() || plan.against.is_some()) {
        let _ = writeln!(out, "\n  what differs{against}");
        for difference in &plan.differences {
            let _ = writeln!(out, "    {difference}");
        }
    }
    if let (true, Some(seconds), Some(running)) = (plan.interrupts(), plan.last_start_seconds, plan.running) {
        let about = people(Duration::from_secs_f64(seconds));
        let _ = writeln!(out, "\n  Outage about {about} (the start of release {running} took that long).");
    } else if plan.release.is_none() {
        out.push_str("\n  Nothing serves afterwards, until the next deploy or rollback.\n");
    } else if plan.interrupts() && plan.running.is_some() {
        out.push_str("\n  There is an outage from stop to ready, as long as the engine's start takes.\n");
    }
    if verbose {
        out.push_str(&ranks(plan));
    }
    out
}

fn title(plan: &Plan) -> String {
    let nodes: Vec<_> = plan
        .nodes
        .iter()
        .enumerate()
        .map(|(i, n)| if i == 0 { format!("{n} (head)") } else { n.to_string() })
        .collect();
    let way = match (plan.running, plan.release) {
        (Some(from), Some(to)) if from != to => format!("release {from} (runs) → {to}"),
        (Some(from), Some(_)) => format!("release {from} (runs)"),
        (None, Some(to)) => format!("→ release {to}"),
        (Some(from), None) => format!("release {from} (runs) → stopped"),
        (None, None) => String::new(),
    };
    let title = format!("{} → {}   {way}\n", plan.deployment, nodes.join(", ")).replace("   \n", "\n");
    plan.engine.iter().fold(title, |title, engine| format!("{title}{engine}\n"))
}

/// A line for what a stage does on each node; steps that are alike on all nodes share one.
fn lines(plan: &Plan, stage: &Stage) -> Vec<String> {
    let all = || {
        let mut nodes: Vec<_> = stage.steps.iter().map(|step| step.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.join(", ")
    };
    match stage.kind {
        StageKind::Begin => {
            // Of a release that is not new only what is stopped for it is.
            let number = stage.steps.iter().find_map(|step| match &step.action {
                Action::WriteRelease { release } => Some(release.number),
                _ => None,
            });
            match number.or(plan.release) {
                Some(number) => vec![format!("record release {number} on {}", all())],
                None => stage.steps.iter().map(|step| act(&step.node, &step.action)).collect(),
            }
        }
        StageKind::Ready => {
            let gather = stage.steps.iter().find_map(|step| match &step.action {
                Action::AwaitReady { ready } => gathering(ready),
                _ => None,
            });
            vec![format!(
                "{}the model is listed, one completion comes back",
                gather.map_or_else(String::new, |gather| format!("{gather}, "))
            )]
        }
        StageKind::Weights => copies(stage),
        StageKind::Record if plan.release.is_none() => vec![format!("forget what was stopped, on {}", all())],
        StageKind::Record => vec![format!("restart with the node, record the outcome on {}", all())],
        _ => stage.steps.iter().map(|step| act(&step.node, &step.action)).collect(),
    }
}

/// A line for each node that weights come to, however many parts they come in.
fn copies(stage: &Stage) -> Vec<String> {
    let mut to: Vec<(&NodeName, Vec<&NodeName>, usize, u64, u64)> = Vec::new();
    let mut others = Vec::new();
    for step in &stage.steps {
        let Action::CopyWeights { from, files, bytes, compare, .. } = &step.action else {
            others.push(act(&step.node, &step.action));
            continue;
        };
        let at = to.iter().position(|(node, ..)| *node == &step.node).unwrap_or_else(|| {
            to.push((&step.node, Vec::new(), 0, 0, 0));
            to.len() - 1
        });
        let (_, sources, count, sum, compared) = &mut to[at];
        *compared += compare;
        if !sources.contains(&from) {
            sources.push(from);
        }
        *count += files.len();
        *sum += bytes;
    }
    to.sort_by_key(|(node, ..)| *node);
    let lines = to.into_iter().map(|(node, sources, count, sum, compared)| {
        let sources: Vec<_> = sources.into_iter().map(NodeName::as_str).collect();
        format!("{} → {node}   {}", sources.join(", "), coming(count, sum, compared))
    });
    lines.chain(others).collect()
}

/// Files that come, with the bytes that have to, and those that are only to be compared.
fn coming(count: usize, bytes: u64, compare: u64) -> String {
    let files = format!("{count} {}", plural(count, "file"));
    match (bytes, compare) {
        (_, 0) => format!("{files}, {}", size(bytes)),
        (0, _) => format!("{files}, {} to verify", size(compare)),
        _ => format!("{files}, {}, and {} to verify", size(bytes), size(compare)),
    }
}

/// How the ranks come together; nothing for a single one.
fn gathering(ready: &ReadySpec) -> Option<String> {
    let ranks = ready.containers.len();
    match ready.launch {
        _ if ranks < 2 => None,
        Launch::Ray => Some(format!("{ranks} nodes gather on Ray")),
        Launch::Native => {
            Some(format!("{ranks} ranks gather, then start {} by its own launch", ready.engine))
        }
    }
}

/// What a step does, in a line.
pub fn act(node: &NodeName, action: &Action) -> String {
    match action {
        Action::CopyWeights { from, files, bytes, compare, .. } => {
            format!("{from} → {node}   {}", coming(files.len(), *bytes, *compare))
        }
        Action::RemoveFiles { files, .. } => {
            let count = files.len();
            format!(
                "{node}   remove {count} {} that the model does not have: {}",
                plural(count, "file"),
                files.join(", ")
            )
        }
        Action::CopyImage { to, layers, left_out, bytes, .. } => {
            let to: Vec<_> = to.iter().map(|taker| taker.node.as_str()).collect();
            let part = match (layers, left_out) {
                (0, _) => String::new(),
                (_, 0) => format!("{layers} {}, ", plural(*layers, "layer")),
                _ => format!("{} of {layers} layers, ", layers - left_out),
            };
            format!("{node} → {}   {part}{}", to.join(", "), size(*bytes))
        }
        Action::KeepImage { content, .. } => format!("{node}   keep {content}"),
        Action::PutFile { target, bytes, .. } => format!("{node}   {target}, {}", size(*bytes)),
        Action::PutSecrets { names, .. } => {
            format!("{node}   {} {}", plural(names.len(), "secret"), names.join(", "))
        }
        Action::CopyKept { from, kept, target } => match kept.kind {
            KeptKind::Files => format!("{from} → {node}   {target}"),
            KeptKind::Secrets => format!("{from} → {node}   secrets"),
        },
        Action::WriteRelease { release } => format!("{node}   record release {}", release.number),
        Action::Retire { container, release, .. } => {
            format!("{node}   {container} (release {release}), its log is kept")
        }
        Action::WriteEnded { ended, .. } => {
            let nodes: Vec<_> = ended.iter().map(|ended| ended.node.as_str()).collect();
            let nodes = if nodes.is_empty() { "no node".to_owned() } else { nodes.join(", ") };
            format!("{node}   remember what must not run any more on {nodes}")
        }
        Action::StopForeign { foreign } => {
            format!("{node}   {}, which is not sparkctl's; it does not come back with the node", was(foreign))
        }
        Action::ReturnForeign { foreign } => {
            format!("{node}   {} runs again, restart policy {}", foreign.name, foreign.restart)
        }
        Action::DropCache { whole: false, .. } => {
            format!("{node}   drop the page cache of the model's files")
        }
        Action::DropCache { whole: true, .. } => {
            format!("{node}   drop the page cache, by sudo all of it")
        }
        Action::Start { rank, .. } => format!("{node}   rank {} ({})", rank.rank, rank.role()),
        Action::AwaitReady { ready } => format!("{node}   port {} answers", ready.endpoint.port),
        Action::Verify { verify, .. } => {
            let Verify { chat, reasoning, tools, stream } = *verify;
            let asked = [("chat", chat), ("reasoning", reasoning), ("tools", tools), ("stream", stream)];
            let asked: Vec<_> = asked.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
            if asked.is_empty() { "nothing is asked".to_owned() } else { asked.join(", ") }
        }
        Action::Bench { bench } => bench_words(bench),
        Action::RunHook { hook, .. } => format!("on this machine: {}", words(&hook.command)),
        Action::KeepRunning { container } => format!("{node}   {container} restarts with the node"),
    }
}

/// What a container of other people's was, as a person knows it.
pub fn was(foreign: &Foreign) -> String {
    let mut words = vec![format!("image {}", foreign.image)];
    words.extend(foreign.since.map(|since| format!("since {}", since.strftime("%Y-%m-%d %H:%M UTC"))));
    words.extend(foreign.serves.as_ref().map(|model| format!("serves {model}")));
    format!("{} ({})", foreign.name, words.join(", "))
}

fn bench_words(bench: &BenchSpec) -> String {
    let loads: Vec<_> = bench.how.concurrency.iter().map(|load| format!("c{load}")).collect();
    let limits: Vec<_> = bench.gate.0.iter().map(ToString::to_string).collect();
    let gate = if limits.is_empty() { String::new() } else { format!(", has to keep {}", limits.join(", ")) };
    let (input, output) = (bench.how.input_tokens, bench.how.output_tokens);
    format!("{} with {input} tokens in, {output} out{gate}", loads.join(", "))
}

fn ranks(plan: &Plan) -> String {
    let mut out = String::new();
    for step in plan.stages.iter().flat_map(|stage| &stage.steps) {
        let Action::Start { rank, .. } = &step.action else { continue };
        let _ = writeln!(out, "\n  rank {} on {} ({})", rank.rank, rank.node, rank.role());
        let _ = writeln!(out, "    image   {}", rank.spec.image);
        let (ahead, argv) = prelude::split(&rank.spec.argv);
        for (i, command) in ahead.before.iter().enumerate() {
            let _ = writeln!(out, "    {:<7} {}", if i == 0 { "before" } else { "" }, words(command));
        }
        let _ = writeln!(out, "    argv    {}", words(argv));
        for (i, (name, value)) in rank.spec.env.iter().enumerate() {
            let _ = writeln!(out, "    {:<7} {name}={value}", if i == 0 { "env" } else { "" });
        }
        for (i, mount) in rank.spec.mounts.iter().enumerate() {
            let way = if mount.read_only { "read-only" } else { "read-write" };
            let _ = writeln!(
                out,
                "    {:<7} {} at {} ({way})",
                if i == 0 { "mounts" } else { "" },
                mount.source,
                mount.target
            );
        }
        for device in &rank.spec.devices {
            let _ = writeln!(out, "    device  {device}");
        }
    }
    out
}

/// A rank's environment, and where each value comes from.
pub fn environment(rank: &Rank, told: &[Told]) -> String {
    let mut out = format!("\n  environment of rank {} on {} ({})\n", rank.rank, rank.node, rank.role());
    let width = told
        .iter()
        .map(|row| row.name.len() + row.value.len() + 1)
        .filter(|width| *width <= 60)
        .max()
        .unwrap_or(0);
    for row in told {
        let pair = format!("{}={}", row.name, row.value);
        let _ = writeln!(out, "    {pair:width$}  {}", row.from);
    }
    out
}

/// A command in a line.
pub(super) fn words(argv: &[String]) -> String {
    argv.iter().map(|argument| shown(argument)).collect::<Vec<_>>().join(" ")
}

/// An argument in a line: a launch script is told by its first words.
pub(super) fn shown(argument: &str) -> String {
    match argument.lines().next() {
        Some(first) if argument.contains('\n') => {
            format!("‹script: {} …›", first.trim_matches(['"', ' ', '.']))
        }
        _ if argument.contains([' ', '"', '{']) => format!("'{argument}'"),
        _ => argument.to_owned(),
    }
}

/// A length of time for people: `6 min 31 s`.
pub fn people(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Bytes for people, in powers of ten.
pub fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with two or three digits")]
    let value = bytes as f64;
    let (value, unit) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (value / 1e3, "kB"),
        1_000_000..1_000_000_000 => (value / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (value / 1e9, "GB"),
        _ => (value / 1e12, "TB"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}
