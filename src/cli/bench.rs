//! `bench`: load on an endpoint, and what it bore.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use futures_util::future::join_all;

use super::change::usage;
use super::{Global, Output, known, session};
use crate::bench::load::{self, BenchError, Target};
use crate::bench::metrics::Goodput;
use crate::bench::result::{Load, Report, Subject};
use crate::bench::workload::{Endpoint, Length, Limits, Order, Workload};
use crate::bench::{Client, models, notes, prompts};
use crate::cluster::facts::{Depth, NodeFacts};
use crate::cluster::gather::{Request, gather};
use crate::delivery::secret::Secret;
use crate::error::{CommandError, Exit, in_full};
use crate::execute::{Hosts, door};
use crate::host::Host;
use crate::plan::{self, planner};
use crate::profile::Profile;
use crate::report;

/// Puts load on a deployment's endpoint, or on any OpenAI-compatible one, and measures it. Tokens are the server's own
/// count; the words (TTFT, TPOT, ITL, E2EL) mean what `vllm bench serve` means by them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl bench qwen35-122b --concurrency 1,4,16\n  \
    sparkctl bench --url http://127.0.0.1:8000 --rate 2,4 --duration 60 --goodput ttft:500,tpot:50")]
pub struct BenchArgs {
    /// A deployment's name, or a profile's file; left out, the only one known here.
    name: Option<String>,
    /// Any endpoint instead of a deployment's: `http://HOST:PORT`, with or without `/v1`.
    #[arg(long, conflicts_with = "name")]
    url: Option<String>,
    /// The model's name in requests; left out, the one that the endpoint lists.
    #[arg(long, requires = "url")]
    model: Option<String>,
    /// A file with the API key; without one it is `OPENAI_API_KEY`, where that is set.
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
    /// Requests at any time, one load each.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Vec<u32>,
    /// Requests that begin each second, one load each.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = positive)]
    rate: Vec<f64>,
    /// How even the gaps at a rate are: 1 is Poisson, less comes in bursts, more is more even, `inf` is constant.
    #[arg(long, value_name = "SHAPE", default_value = "1", value_parser = shape, requires = "rate")]
    burstiness: f64,
    /// At a rate, at most so many requests at once.
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrency: Option<u32>,
    /// Tokens of each prompt: `1024`, or `512-2048` for any length between.
    #[arg(long, value_name = "N|N-N", conflicts_with = "prompts")]
    input_tokens: Option<Length>,
    /// Tokens of each answer, likewise. With --prompts and without it, as many as the model likes.
    #[arg(long, value_name = "N|N-N")]
    output_tokens: Option<Length>,
    /// Requests of each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests: Option<u32>,
    /// Begins no request after so many seconds of a run; those under way are waited for.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// Ends the whole bench after so many seconds; requests under way are cut.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = positive)]
    time_limit: f64,
    /// Gives a request up when the server sends nothing for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = positive)]
    stall: f64,
    /// Which endpoint is asked.
    #[arg(long, value_enum, default_value_t = EndpointArg::Chat)]
    endpoint: EndpointArg,
    /// Prompts from a file: `ShareGPT`'s JSON, or a line each of `{"prompt": ..}` or `{"messages": ..}`.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Tokens that all prompts of a run have in common ahead of their own, as a long system prompt would be.
    #[arg(long, value_name = "N", default_value_t = 0)]
    prefix_tokens: u32,
    /// Questions of a conversation; each carries what was said before it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// The same seed sends the same lengths, texts and gaps.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Runs at each load.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Requests ahead of each load that do not count; left out, as many as the load has at once.
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// Limits in milliseconds that make a request a good one: `ttft:200,tpot:50,e2el:10000`.
    #[arg(long, value_name = "FIGURE:MS,..", value_parser = goodput)]
    goodput: Option<Goodput>,
    /// Writes the result, every request of it, to this file.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    told: super::bench_told::Told,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EndpointArg {
    Chat,
    Completions,
}

fn positive(text: &str) -> Result<f64, String> {
    let number =
        text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e9);
    number.ok_or_else(|| "write a number above 0".to_owned())
}

fn shape(text: &str) -> Result<f64, String> {
    if text == "inf" { Ok(f64::INFINITY) } else { positive(text) }
}

fn goodput(text: &str) -> Result<Goodput, String> {
    let mut limits = Goodput::default();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once(':').ok_or_else(|| format!("`{part}` is not FIGURE:MS"))?;
        let field = match name {
            "ttft" => &mut limits.ttft_ms,
            "tpot" => &mut limits.tpot_ms,
            "e2el" => &mut limits.e2el_ms,
            _ => return Err(format!("`{name}` is none of ttft, tpot, e2el")),
        };
        *field = Some(positive(value)?);
    }
    if limits.any() { Ok(limits) } else { Err("write at least one FIGURE:MS".to_owned()) }
}

/// `sparkctl bench`.
pub async fn run(args: BenchArgs, global: &Global) -> Result<Exit, CommandError> {
    // Before anything is asked of anybody.
    let given = args.prompts.as_deref().map(read_prompts).transpose()?;
    args.told.make_folder()?;
    for file in args.save.iter().cloned().chain(args.told.files()) {
        writable(&file)?;
    }
    let found = find(&args, global).await?;
    let order = order(&args, given, found.profile.as_ref());
    let then = match &args.told.compare {
        Some(with) => Some(with.find(found.profile.as_ref(), &found.hosts, found.subject.release).await?),
        None => None,
    };
    let orders = match &then {
        Some(then) => then.orders(order)?,
        None => vec![order],
    };
    let before = found.look().await;
    let shown = global.output == Output::Text && !global.quiet;
    let mut result = measure(&orders, &found, shown).await?;
    let after = found.look().await;
    result.notes.extend(notes::clocks(&before, &after));
    if let Some(file) = &args.save {
        write(file, &serde_json::to_vec(&result).expect("a report is always JSON"))?;
    }
    let goodput = args.goodput.unwrap_or_default();
    let kept = args.told.tell(&result, &goodput, then.as_ref(), global)?;
    let answered = result.points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.requests);
    // Where nothing was answered, nothing was measured.
    let answered = answered.into_iter().any(|request| request.failure.is_none());
    Ok(if kept && answered { Exit::Done } else { Exit::Unhealthy })
}

/// One order after another, as one report.
async fn measure(orders: &[Order], found: &Found, shown: bool) -> Result<Report, CommandError> {
    let began = Instant::now();
    let mut whole: Option<Report> = None;
    for order in orders {
        let mut order = order.clone();
        order.limits.total = order.limits.total.saturating_sub(began.elapsed());
        let order = &order;
        let mut screen = report::bench::Screen::new(order, shown);
        let mut told = |progress| screen.tell(progress);
        let measured = match &found.way {
            Way::Url(target) => {
                let measured = load::run(order, target, &mut told).await;
                measured.map_err(|error| failed(&error, &target.subject.url))
            }
            Way::Head(head, endpoint) => {
                let measured = door::measure(head.as_ref(), endpoint, order, &found.subject, &mut told).await;
                measured.map_err(|error| {
                    let message =
                        format!("error: {} cannot be measured: {}", found.subject.url, in_full(&error));
                    CommandError::new(Exit::Unhealthy, message)
                        .hint("`sparkctl status` tells whether it serves")
                })
            }
        };
        screen.end();
        let report = measured?;
        match &mut whole {
            None => whole = Some(report),
            Some(whole) => whole.join(report),
        }
    }
    whole.ok_or_else(|| usage("there is no load to measure"))
}

/// What is to be measured, and the nodes it runs on, where they are known.
struct Found {
    subject: Subject,
    way: Way,
    profile: Option<Profile>,
    hosts: Hosts,
}

/// How it is reached.
enum Way {
    /// As any client would.
    Url(Target),
    /// As its head can be: it may listen where this machine cannot go, and its key lies there.
    Head(Arc<dyn Host>, plan::Endpoint),
}

impl Found {
    /// Facts of the nodes with their clocks. A node that cannot be asked is left out: the bench does not need it.
    async fn look(&self) -> Vec<NodeFacts> {
        let Some(profile) = &self.profile else { return Vec::new() };
        let request = Request::of(profile, Depth::Check);
        let looks = self.hosts.values().map(|host| gather(host.as_ref(), &request));
        join_all(looks).await.into_iter().flatten().collect()
    }
}

async fn find(args: &BenchArgs, global: &Global) -> Result<Found, CommandError> {
    let Some(url) = &args.url else { return deployment(args, global).await };
    let url = normal(url);
    let subject = Subject { url, model: String::new(), deployment: None, release: None };
    let mut target = Target { subject, socket: None, key: key(args)? };
    target.subject.model = match &args.model {
        Some(model) => model.clone(),
        None => only_model(&target).await?,
    };
    Ok(Found { subject: target.subject.clone(), way: Way::Url(target), profile: None, hosts: Hosts::new() })
}

/// The endpoint of what runs, which may be of another profile than the one at hand.
async fn deployment(args: &BenchArgs, global: &Global) -> Result<Found, CommandError> {
    let profile = known::find(args.name.as_deref())?;
    let hosts = session::connect_all(&profile, global).await?;
    let request = Request::of(&profile, Depth::Status);
    let facts = join_all(hosts.values().map(|host| gather(host.as_ref(), &request))).await;
    let facts: Vec<NodeFacts> = facts.into_iter().flatten().collect();
    let Some(release) = planner::running(&profile.name, &facts) else {
        let message = format!("error: {} does not run", profile.name);
        return Err(
            CommandError::new(Exit::Unhealthy, message).hint("deploy it, or give an endpoint with --url")
        );
    };
    let Some(record) = planner::release_numbered(release, &facts) else {
        let message =
            format!("error: release {release} of {} runs, and no node has its record", profile.name);
        return Err(CommandError::new(Exit::Unhealthy, message).hint("deploy it again, or give --url"));
    };
    let endpoint = plan::Endpoint::of_release(&record);
    let served = record.profile;
    let subject = Subject {
        url: served.endpoint(),
        model: served.served_name().to_owned(),
        deployment: Some(served.name.clone()),
        release: Some(release),
    };
    let head = hosts.get(&served.head().name).cloned().ok_or_else(|| {
        let message =
            format!("error: release {release} is served by {}, which the profile lacks", served.head().name);
        CommandError::new(Exit::Usage, message)
    })?;
    Ok(Found { subject, way: Way::Head(head, endpoint), profile: Some(served), hosts })
}

/// An endpoint's address up to and with `/v1`, however it was given.
fn normal(url: &str) -> String {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let url = url.trim_end_matches('/');
    let url =
        ["/chat/completions", "/completions"].iter().find_map(|end| url.strip_suffix(end)).unwrap_or(url);
    if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
}

fn key(args: &BenchArgs) -> Result<Option<Secret>, CommandError> {
    let key = match &args.api_key_file {
        Some(file) => Some(read(file)?),
        None => std::env::var("OPENAI_API_KEY").ok(),
    };
    Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::from))
}

fn read(file: &Path) -> Result<String, CommandError> {
    fs::read_to_string(file).map_err(|error| usage(&format!("cannot read {}: {error}", file.display())))
}

async fn only_model(target: &Target) -> Result<String, CommandError> {
    let url = &target.subject.url;
    let client = Client::new(target, Limits::default().connect).map_err(|error| failed(&error, url))?;
    let listed = models(&client).await.map_err(|why| {
        CommandError::new(Exit::Unreachable, format!("error: {url} does not list its models: {why}"))
            .hint("name the model with --model, if the endpoint has no such list")
    })?;
    match listed.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(usage(&format!("{url} lists no model")).hint("name one with --model")),
        several => Err(usage(&format!("{url} lists several models"))
            .hint(format!("name one with --model: {}", several.join(", ")))),
    }
}

fn read_prompts(file: &Path) -> Result<Vec<prompts::Conversation>, CommandError> {
    let wrong = |why: String| usage(&format!("{} has no prompts: {why}", file.display()));
    prompts::read(&read(file)?).map_err(wrong)
}

/// What the options ask for; what they leave open is as the profile has it.
fn order(args: &BenchArgs, given: Option<Vec<prompts::Conversation>>, profile: Option<&Profile>) -> Order {
    let defaults = profile.map(|profile| profile.bench.clone()).unwrap_or_default();
    let mut loads: Vec<_> = args.concurrency.iter().map(|requests| Load::Concurrency(*requests)).collect();
    let burstiness = args.burstiness.is_finite().then_some(args.burstiness);
    let max_concurrency = args.max_concurrency;
    loads.extend(args.rate.iter().map(|rate| Load::Rate { per_second: *rate, burstiness, max_concurrency }));
    if loads.is_empty() {
        loads = defaults.concurrency.iter().map(|requests| Load::Concurrency(*requests)).collect();
    }
    if loads.is_empty() {
        loads.push(Load::Concurrency(1));
    }
    // One that is named twice is measured once.
    let all = std::mem::take(&mut loads);
    for load in all {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let from_file = given.is_some();
    let name = args.prompts.as_ref().and_then(|file| file.file_name());
    let seconds = Duration::from_secs_f64;
    Order {
        workload: Workload {
            endpoint: match args.endpoint {
                EndpointArg::Chat => Endpoint::Chat,
                EndpointArg::Completions => Endpoint::Completions,
            },
            input: args.input_tokens.unwrap_or(Length::fixed(defaults.input_tokens)),
            output: args.output_tokens.or((!from_file).then(|| Length::fixed(defaults.output_tokens))),
            prefix_tokens: args.prefix_tokens,
            turns: args.turns,
            prompts: given.unwrap_or_default(),
            prompts_name: name.map(|name| name.to_string_lossy().into_owned()),
            seed: args.seed,
        },
        loads,
        requests: args.requests,
        duration: args.duration.map(seconds),
        repeat: args.repeat,
        warmup: args.warmup,
        limits: Limits { stall: seconds(args.stall), total: seconds(args.time_limit), ..Limits::default() },
    }
}

fn failed(error: &BenchError, url: &str) -> CommandError {
    let exit = match error {
        BenchError::Address(_) | BenchError::Encrypted(_) => Exit::Usage,
        BenchError::Refused(_) | BenchError::NoAnswer(_) => Exit::Unhealthy,
        BenchError::Begin(_) | BenchError::Lost => Exit::Bug,
    };
    let told = CommandError::new(exit, format!("error: {url} cannot be measured: {}", in_full(error)));
    match error {
        BenchError::Encrypted(_) => {
            told.hint("give the address of the engine itself, or of a tunnel to it, with http://")
        }
        BenchError::NoAnswer(_) => {
            told.hint("see that it serves, and that this machine may reach it: `curl` its /v1/models")
        }
        BenchError::Refused(_) => told
            .hint("see its message: the model's name, the key, or lengths beyond its context may be wrong"),
        _ => told,
    }
}

/// A bench takes long: that its result has no place is told ahead.
fn writable(file: &Path) -> Result<(), CommandError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let tried = tempfile::NamedTempFile::new_in(folder);
    tried.map(drop).map_err(|error| usage(&format!("cannot write to {}: {error}", folder.display())))
}

/// Whole or not at all.
pub(super) fn write(file: &Path, content: &[u8]) -> Result<(), CommandError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(content)?;
        new.persist(file)?;
        Ok(())
    };
    write().map_err(|error| {
        CommandError::new(Exit::Bug, format!("error: cannot write {}: {error}", file.display()))
    })
}
