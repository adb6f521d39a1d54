//! The status of a deployment, rank by rank, from what the nodes answered just now. The judgement is
//! pure; the questions beyond facts (endpoint, which ranks the head has) are asked by [`ask`].
//!
//! What could not be asked is `unknown`, never `down`.

mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jiff::Timestamp;
use serde::Serialize;

use crate::check::Finding;
use crate::cluster::facts::{Container, ContainerState, Depth, Gpu, NodeFacts, Smi};
use crate::cluster::gather;
use crate::container::container_name;
use crate::engine::figures::EngineFigures;
use crate::engine::{RANKS_FILE, RAY_PORT};
use crate::error::Exit;
use crate::event::Rung;
use crate::execute::readiness::{self, Models};
use crate::execute::{Hosts, door, environment};
use crate::host::{Host, HostError, Script};
use crate::operation;
use crate::plan::{Endpoint, planner};
use crate::profile::{Launch, Node, NodeName, Profile};
use crate::release::journal::unfinished;
use crate::release::{Outcome, ReleaseNumber};

pub use load::Load;

/// How long the endpoint may take for one token before it counts as not answering.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// What a deployment is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every rank runs, and the endpoint completed a request just now.
    Serving,
    /// Every rank runs; the endpoint does not listen yet, or the deploy of the release has not ended.
    Starting,
    /// Something that should be there is not.
    Degraded,
    /// No rank runs.
    Stopped,
    /// Not every node could be asked.
    Unknown,
}

/// A deployment as it is.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    pub deployment: String,
    pub health: Health,
    pub release: Option<ReleaseNumber>,
    pub endpoint: String,
    pub ranks: Vec<RankStatus>,
    /// Which ranks the head has; `None` for a single node, or where that could not be asked.
    pub group: Option<GroupStatus>,
    pub load: Option<Load>,
    /// How far it is on the way to an answer; `None` where not every rank runs, or its nodes could not be asked.
    pub rung: Option<Rung>,
    /// What the engine said of its start.
    pub engine: EngineFigures,
    /// The last probe: seconds of a one-token completion, or why there was none.
    pub probe: Option<Result<f64, String>>,
    /// What is wrong, and what to do, in words.
    pub problems: Vec<Problem>,
    /// What serves all the same, and may not be as it should; and an operation that was cut off.
    pub warnings: Vec<Problem>,
    /// The operation that is at work on the head just now: who, with what, since when, at which step.
    pub operation: Option<String>,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub message: String,
    pub hint: Option<String>,
}

/// One rank.
#[derive(Debug, Clone, Serialize)]
pub struct RankStatus {
    pub rank: usize,
    pub node: NodeName,
    pub role: &'static str,
    pub fabric: Ipv4Addr,
    /// `None` where the node could not be asked.
    pub container: Option<Option<ContainerState>>,
    /// Why the node could not be asked.
    pub unknown: Option<String>,
    /// Bytes of the node: used and in all.
    pub memory: Option<(u64, u64)>,
    pub gpu: Option<Gpu>,
}

/// What the head counts: Ray its live nodes, a native launch the ranks whose scripts are connected to the head's, which
/// they are as long as their engines run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupStatus {
    pub launch: Launch,
    pub alive: BTreeSet<Ipv4Addr>,
    pub wanted: BTreeSet<Ipv4Addr>,
}

impl Status {
    /// Whether everything is as it should be.
    pub fn is_well(&self) -> bool {
        self.health == Health::Serving && self.problems.is_empty()
    }

    /// The exit status that tells this.
    pub fn exit(&self) -> Exit {
        match self.health {
            Health::Serving if self.is_well() => Exit::Done,
            Health::Unknown => Exit::Unreachable,
            _ => Exit::Unhealthy,
        }
    }
}

/// Asks every node, the endpoint and the head's group. `unreachable` are the nodes that could not be connected to.
pub async fn ask(profile: &Profile, hosts: &Hosts, unreachable: &[(NodeName, String)]) -> Status {
    let request = gather::Request::of(profile, Depth::Status);
    let looks = profile.cluster.nodes.iter().map(|node| async {
        let seen = match hosts.get(&node.name) {
            Some(host) => gather::gather(host.as_ref(), &request)
                .await
                .and_then(operation::with_docker)
                .map_err(|error| reason(&error)),
            None => Err(unreachable
                .iter()
                .find(|(name, _)| name == &node.name)
                .map_or_else(String::new, |(_, why)| why.clone())),
        };
        (node.name.clone(), seen)
    });
    let seen: Seen = join_all(looks).await.into_iter().collect();
    let facts: Vec<NodeFacts> =
        profile.cluster.nodes.iter().filter_map(|node| seen[&node.name].as_ref().ok().cloned()).collect();
    // What runs may be of another profile than the one at hand: its own record says where it answers.
    let running = planner::running(&profile.name, &facts);
    let recorded = running.and_then(|number| planner::release_numbered(number, &facts));
    let served = recorded.as_ref().map_or(profile, |release| &release.profile);
    let endpoint = recorded.as_ref().map_or_else(|| Endpoint::of(served), Endpoint::of_release);
    let head = hosts.get(&served.head().name);
    let (probe, load, group) = match head {
        Some(head) if running.is_some() => {
            // Without its key the endpoint says itself that it lacks.
            let keyed = door::of(head.as_ref(), &endpoint).await;
            let head = keyed.as_ref().map_or(head.as_ref(), |keyed| keyed as &dyn Host);
            // The load is asked first: the probe is a request, too.
            let load = load::ask(head, &endpoint).await;
            let (probe, group) = tokio::join!(probe(head, &endpoint), group(head, served));
            (Some(probe), load, group)
        }
        _ => (None, None, None),
    };
    let ranks = recorded.iter().flat_map(|release| &release.ranks).cloned().collect::<Vec<_>>();
    let differences = environment::differences(&profile.name, &ranks, hosts).await;
    let told = |finding: Finding| Problem {
        message: finding.node.map_or(String::new(), |node| format!("{node}: ")) + &finding.message,
        hint: finding.hint,
    };
    let head = facts.iter().find(|facts| facts.node == profile.head().name);
    let cut = head.and_then(|head| cut_off(profile, head));
    let warnings = cut.into_iter().chain(differences.into_iter().map(told)).collect();
    let operation = head.and_then(|head| head.holder.as_ref()).map(|holder| holder.words.clone());
    Status { warnings, operation, ..judge(served, &seen, running, probe, load, group) }
}

/// An operation whose end is not in the head's journal, though nobody is at it any more.
fn cut_off(profile: &Profile, head: &NodeFacts) -> Option<Problem> {
    let at_work = head.holder.as_ref().map(|holder| holder.family.as_str());
    let found = unfinished(&head.journal, at_work)?;
    let message = found.words(head.clock.map(|clock| clock.ended));
    Some(Problem { message, hint: Some(found.hint(&profile.name)) })
}

fn reason(error: &HostError) -> String {
    crate::error::in_full(error)
}

/// Why the endpoint completes no request.
struct Mute {
    /// Whether anything listens at its port.
    listens: bool,
    /// How far it is, if it answers at all.
    reached: Option<Rung>,
    why: String,
}

async fn probe(head: &dyn Host, endpoint: &Endpoint) -> Result<f64, Mute> {
    let began = Instant::now();
    let why = match readiness::complete(head, endpoint, PROBE_LIMIT).await {
        Ok(answer) if answer.status == 200 => return Ok(began.elapsed().as_secs_f64()),
        Ok(answer) => {
            let body: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
            format!("HTTP {}: {body}", answer.status)
        }
        Err(error @ HostError::NotListening { .. }) => {
            return Err(Mute { listens: false, reached: None, why: reason(&error) });
        }
        Err(error) => reason(&error),
    };
    let reached = match readiness::models(head, endpoint).await {
        Models::Listed(names) if names.contains(&endpoint.model) => Some(Rung::Listed),
        Models::Listed(_) | Models::Untold => Some(Rung::Http),
        Models::Silent => None,
    };
    Err(Mute { listens: true, reached, why })
}

/// The ranks that the head has, asked in its container.
async fn group(head: &dyn Host, profile: &Profile) -> Option<GroupStatus> {
    if profile.cluster.nodes.len() < 2 {
        return None;
    }
    let name = container_name(&profile.name, 0);
    let launch = profile.engine.launch();
    let script = match launch {
        Launch::Ray => {
            let address = format!("{}:{}", profile.head().fabric, RAY_PORT);
            Script::new("ray-nodes", include_str!("engine/ray_nodes.sh"), [name, address])
        }
        Launch::Native => {
            Script::new("native-ranks", include_str!("engine/native_ranks.sh"), [name, RANKS_FILE.to_owned()])
        }
    };
    let output = head
        .run(script.timeout(Duration::from_secs(30)))
        .await
        .ok()
        .filter(|output| output.code == Some(0))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(GroupStatus {
        launch,
        alive: text.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        wanted: profile.cluster.nodes.iter().map(|node| node.fabric).collect(),
    })
}

/// What each node answered, or why it could not be asked.
type Seen = BTreeMap<NodeName, Result<NodeFacts, String>>;

/// What the answers amount to. Pure. The nodes are those of `profile`, which is the running release's own.
fn judge(
    profile: &Profile,
    seen: &Seen,
    release: Option<ReleaseNumber>,
    probe: Option<Result<f64, Mute>>,
    load: Option<Load>,
    group: Option<GroupStatus>,
) -> Status {
    let mut problems = Vec::new();
    let mut lost = false;
    let restart = format!("sparkctl deploy PROFILE, or sparkctl rollback {}", profile.name);
    let mut ranks = Vec::new();
    let not_asked = Err("the profile at hand does not name it".to_owned());
    for (rank, node) in profile.cluster.nodes.iter().enumerate() {
        let seen = seen.get(&node.name).unwrap_or(&not_asked);
        let role = if rank == 0 { "head" } else { "worker" };
        let name = u32::try_from(rank).map(|rank| container_name(&profile.name, rank)).unwrap_or_default();
        let container = seen.as_ref().ok().map(|facts| {
            facts
                .ours(&profile.name)
                .find(|(container, _)| container.name == name)
                .map(|(container, _)| container.clone())
        });
        let place = format!("rank {rank} ({})", node.name);
        match seen {
            Ok(facts) => {
                problems.extend(fabric_problems(node, facts));
                problems.extend(lost_gpu(&place, &name, facts));
            }
            Err(why) => problems.push(Problem {
                message: format!("{place} cannot be asked: {why}"),
                hint: Some(format!("switch {} on, or mend the way to it", node.name)),
            }),
        }
        if let (Some(_), Some(container)) = (release, &container)
            && let Some(what) = container_problem(container.as_ref())
        {
            lost = true;
            problems.push(Problem { message: format!("{place} {what}"), hint: Some(restart.clone()) });
        }
        ranks.push(RankStatus {
            rank,
            node: node.name.clone(),
            role,
            fabric: node.fabric,
            container: container.map(|container| container.map(|container| container.state)),
            unknown: seen.as_ref().err().cloned(),
            memory: seen.as_ref().ok().map(|facts| {
                (
                    facts.system.memory_total.saturating_sub(facts.system.memory_available),
                    facts.system.memory_total,
                )
            }),
            gpu: seen.as_ref().ok().and_then(|facts| facts.gpus.first().cloned()),
        });
    }
    let records = seen.values().flatten().flat_map(|facts| &facts.releases);
    let record = records.into_iter().find(|record| Some(record.number) == release);
    let outcome = record.map(|record| &record.outcome);
    let never_ready = outcome == Some(&Outcome::Begun);
    problems.extend(record_problem(outcome, &restart));
    if let Some(Err(mute)) = &probe {
        problems.push(Problem {
            message: format!("the endpoint does not complete a request: {}", mute.why),
            hint: None,
        });
    }
    if let Some(group) = &group {
        let missing: Vec<_> = group.wanted.difference(&group.alive).map(ToString::to_string).collect();
        let missing = missing.join(", ");
        if !missing.is_empty() {
            let message = match group.launch {
                Launch::Ray => format!("Ray does not count {missing}"),
                Launch::Native => format!("the head has no rank at {missing}"),
            };
            problems.push(Problem { message, hint: None });
        }
    }
    let unknown = ranks.iter().any(|rank| rank.unknown.is_some());
    let all_run = ranks.iter().all(|rank| matches!(&rank.container, Some(Some(state)) if state.running));
    let health = match (release, &probe) {
        (Some(_), Some(Ok(_))) if all_run && problems.is_empty() => Health::Serving,
        (Some(_), _) if all_run && never_ready => Health::Starting,
        // An engine that ended ends its container: one that runs and does not listen is on its way.
        (Some(_), Some(Err(mute))) if all_run && !mute.listens => Health::Starting,
        (Some(_), _) if unknown && !lost => Health::Unknown,
        (Some(_), _) => Health::Degraded,
        (None, _) if unknown => Health::Unknown,
        (None, _) => Health::Stopped,
    };
    let rung = furthest(probe.as_ref(), group.as_ref(), all_run);
    let engine = record.map(|record| record.figures.engine.clone()).unwrap_or_default();
    let probe = probe.map(|probe| probe.map_err(|mute| mute.why));
    Status {
        deployment: profile.name.to_string(),
        health,
        release,
        endpoint: profile.endpoint(),
        ranks,
        group,
        load,
        rung: rung.filter(|_| release.is_some()),
        engine,
        probe,
        problems,
        warnings: Vec::new(),
        operation: None,
    }
}

/// How far a group is on the way to an answer.
fn furthest(probe: Option<&Result<f64, Mute>>, group: Option<&GroupStatus>, all_run: bool) -> Option<Rung> {
    match probe {
        Some(Ok(_)) => Some(Rung::Token),
        Some(Err(Mute { reached: Some(reached), .. })) => Some(*reached),
        _ if group.is_some_and(|group| group.wanted.is_subset(&group.alive)) => Some(Rung::Joined),
        _ => all_run.then_some(Rung::Up),
    }
}

/// What is wrong with the record of the release that runs.
fn record_problem(outcome: Option<&Outcome>, restart: &str) -> Option<Problem> {
    match outcome {
        Some(Outcome::Begun) => Some(Problem {
            message: "its deploy has not ended: it is under way, or was cut short".to_owned(),
            hint: Some("sparkctl deploy PROFILE continues one that was cut short".to_owned()),
        }),
        Some(Outcome::Failed(why)) => {
            Some(Problem { message: format!("it was never proven: {why}"), hint: Some(restart.to_owned()) })
        }
        Some(Outcome::Deployed) | None => None,
    }
}

/// Which nodes do not answer this one over the fabric.
fn fabric_problems(node: &Node, facts: &NodeFacts) -> Vec<Problem> {
    let problem = |lost: Ipv4Addr| Problem {
        message: format!("{lost} does not answer {} over the fabric", node.name),
        hint: Some("check the cable and `ip link` at both ends of the fabric".to_owned()),
    };
    facts.lost_peers().map(problem).collect()
}

/// A running container that cannot open the GPU any more, which a `systemctl daemon-reload` does to it: it serves until
/// it next opens a device.
fn lost_gpu(place: &str, container: &str, facts: &NodeFacts) -> Option<Problem> {
    let said = facts.nvidia.lost.get(container).filter(|_| facts.nvidia.smi == Smi::Working)?;
    Some(Problem {
        message: format!("{place} lost the GPU: `nvidia-smi` in its container says \"{said}\""),
        hint: Some("sparkctl stop, then deploy: the container gets the GPU when it starts".to_owned()),
    })
}

/// What is wrong with the container of a rank whose node was asked.
fn container_problem(container: Option<&Container>) -> Option<String> {
    match container {
        None => Some("has no container".to_owned()),
        Some(container) if !container.state.running => Some(format!("ended: {}", ended(&container.state))),
        Some(_) => None,
    }
}

/// How a container ended, for people.
pub fn ended(state: &ContainerState) -> String {
    let how = state.ending();
    match state.finished {
        Some(at) => format!("{how}, at {}", at.strftime("%Y-%m-%d %H:%M:%S UTC")),
        None => how,
    }
}

/// Since when, for people.
pub fn since(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    crate::plan::render::people(Duration::from_secs(seconds.unsigned_abs()))
}
