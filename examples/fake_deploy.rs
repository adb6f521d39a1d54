//! A deploy on two machines in memory: the plan, the run as a terminal shows it, and the plan after.
//!
//! `cargo run --example fake_deploy`; with `--broken` the engine of a change crashes, and the release
//! before comes back.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use sparkctl::config;
use sparkctl::delivery::Delivery;
use sparkctl::event::{Events, RunOutcome};
use sparkctl::execute::{Cancel, Hosts};
use sparkctl::fabric::Links;
use sparkctl::host::fake::Behaviour;
use sparkctl::host::{FakeCluster, Host};
use sparkctl::operation::{self, Operation};
use sparkctl::plan::planner::{self, Operator};
use sparkctl::plan::render;
use sparkctl::profile::Profile;
use sparkctl::release::journal::Journal;
use sparkctl::release::lock::Claim;
use sparkctl::report::{report, terminal::Terminal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/qwen35-122b.yaml");
    let mut profile = config::load(&file, &config::Given::NOTHING)?.profile;
    let cluster = FakeCluster::seed();
    deploy(&profile, &cluster).await?;
    if std::env::args().any(|argument| argument == "--broken") {
        cluster.behave(2, Behaviour::CrashAtStart(1));
        profile.engine.context_length = Some(65_536);
        deploy(&profile, &cluster).await?;
    }
    Ok(())
}

/// Plans, deploys, and plans again.
async fn deploy(profile: &Profile, cluster: &FakeCluster) -> Result<RunOutcome, Box<dyn std::error::Error>> {
    let host = |node| Arc::new(cluster.host(node)) as Arc<dyn Host>;
    let nodes = profile.cluster.nodes.iter();
    let hosts: Hosts = nodes.map(|node| (node.name.clone(), host(&node.name))).collect();
    let operator = Operator {
        who: "example".to_owned(),
        now: "2026-03-01T09:00:00Z".parse()?,
        skip: Vec::new(),
        token: String::new(),
    };
    show_plan(profile, &hosts, &operator).await?;

    let (events, receiver) = Events::channel();
    let terminal = Terminal::new(false, false, false, None, None);
    let reporting = tokio::spawn(report(receiver, vec![Box::new(terminal)]));
    let (_switch, cancel) = Cancel::new();
    let operation = Operation {
        profile,
        hosts: &hosts,
        operator: &operator,
        events: &events,
        cancel: &cancel,
        reconnect: &hosts,
        claim: &Claim::new(),
        journal: &Journal::default(),
    };
    let outcome = operation.deploy(&Delivery::default()).await;
    drop(events);
    reporting.await?;

    show_plan(profile, &hosts, &operator).await?;
    Ok(outcome)
}

async fn show_plan(
    profile: &Profile,
    hosts: &Hosts,
    operator: &Operator,
) -> Result<(), Box<dyn std::error::Error>> {
    let facts = operation::look(profile, hosts).await.map_err(|errors| errors[0].to_string())?;
    let planned = planner::deploy(profile, &Delivery::default(), &facts, &Links::default(), operator)?;
    writeln!(std::io::stdout(), "{}", render::text(&planned.plan, false))?;
    Ok(())
}
