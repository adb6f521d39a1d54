//! Waiting until a group is ready: every rank's container runs, the ranks found each other, the model is listed, and one
//! real completion came back. Each of these rungs is told as it is reached. `/health` proves nothing: it answers 200 with
//! a dead rank.
//!
//! It ends at once when any rank's container ends, and when nothing at all moves ([`crate::pulse`]): the silent hang is
//! what people lose their nights over. Then it is seen once what the ranks are at. Whatever the reason, the last lines of
//! each rank are told.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ladder::Ladder;
use super::{Hosts, StepError, door, looks};
use crate::delivery::redact::Redactor;
use crate::delivery::store::redactor;
use crate::diagnose::{Stuck, only_waits};
use crate::engine::figures::EngineFigures;
use crate::engine::milestones::{Milestone, StartStage};
use crate::engine::{self, Engine};
use crate::event::{Event, Events, Progress, Rung};
use crate::host::{Host, HostError, HttpAnswer};
use crate::plan::render::people;
use crate::plan::{Endpoint, ReadySpec, StageKind};
use crate::profile::{Launch, NodeName};
use crate::pulse::{Look, Pulse, Verdict};

/// How often containers and endpoint are looked at.
const PACE: Duration = Duration::from_millis(500);
/// How long the log of an ended rank may still come in.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Last lines of a rank that are kept for a failure.
const LAST_LINES: usize = 20;

/// Why a group did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("rank {rank} on {node} ended ({how}) before the engine was ready")]
    Ended { node: NodeName, rank: usize, how: String },
    #[error("the container of rank {rank} on {node} is gone")]
    Gone { node: NodeName, rank: usize },
    #[error("nothing has moved for {}: no rank wrote a line or did anything, and {waiting}", people(*silence))]
    Stalled { silence: Duration, waiting: String, stuck: Vec<Option<Stuck>> },
    #[error("not ready after {}: {waiting}", people(*limit))]
    Late { limit: Duration, waiting: String, stuck: Vec<Option<Stuck>> },
    #[error("the endpoint lists {listed:?}, not `{wanted}`")]
    WrongModel { listed: Vec<String>, wanted: String },
    #[error("the endpoint refused a completion: HTTP {status}: {body}")]
    Refused { status: u16, body: String },
}

impl NotReady {
    /// What was seen of a rank when nothing moved.
    pub fn stuck(&self, rank: usize) -> Option<&Stuck> {
        match self {
            Self::Stalled { stuck, .. } | Self::Late { stuck, .. } => stuck.get(rank)?.as_ref(),
            _ => None,
        }
    }
}

/// What was measured of a start.
pub(super) struct Started {
    /// The time that the first completion took.
    pub first: Duration,
    /// What the engine said of itself.
    pub engine: EngineFigures,
}

/// A rank that is waited for.
pub(super) struct Member<'a> {
    pub node: &'a NodeName,
    pub container: &'a String,
    pub host: &'a dyn Host,
}

/// What is seen of the ranks.
pub(super) enum Seen {
    Line(usize, String),
    /// The log of an ended container has no more lines.
    LogEnd(usize),
    Look(usize, Look),
}

/// Waits; what was measured on the way is returned.
pub(super) async fn await_ready(
    ready: &ReadySpec,
    hosts: &Hosts,
    events: &Events,
    stage: StageKind,
) -> Result<Started, StepError> {
    let (tell, mut seen) = mpsc::channel(1024);
    let mut followers = tokio::task::JoinSet::new();
    let mut group = Vec::new();
    let pulse = Pulse::new(ready.containers.len(), ready.launch == Launch::Ray, ready.stall);
    for (rank, (node, container)) in ready.containers.iter().enumerate() {
        let host =
            hosts.get(node).ok_or_else(|| StepError::Unexpected(format!("{node} is not of the cluster")))?;
        group.push(Member { node, container, host: host.as_ref() });
        followers.spawn(follow(host.clone(), container.clone(), rank, tell.clone()));
        if let Some(fabric) = ready.fabric.get(rank) {
            followers.spawn(looks::go_on(
                host.clone(),
                [container.clone(), fabric.to_string(), pulse.pace().as_secs().to_string()],
                rank,
                ready.timeout,
                tell.clone(),
            ));
        }
    }
    // Asked for now, as the node may be lost when they are needed. Without them no line is told.
    let redactors = join_all(group.iter().map(|member| redactor(member.host, &ready.deployment))).await;
    let ladder = Ladder::new(events, stage, group.len());
    let mut course = Course {
        ladder: &ladder,
        engine: engine::engine(ready.engine),
        ready,
        stage,
        events,
        began: Instant::now(),
        pulse,
        waiting: "nothing yet".to_owned(),
        joined: group.len() < 2,
        ranks: redactors.into_iter().map(|redactor| Rank::new(redactor.ok())).collect(),
    };
    let done = course.run(&group, &mut seen).await;
    if let Err(StepError::NotReady(why)) = &done
        && let NotReady::Ended { rank, .. } = why
    {
        course.read_to_the_end(&group, *rank, &mut seen).await;
    }
    if done.is_ok() {
        door::refuses_strangers(group[0].host, &ready.endpoint).await?;
    }
    if done.is_err() {
        course.tell_last_lines(&group).await;
    }
    done
}

/// Sends the lines of a rank's log on. A log that cannot be followed is no failure of the engine: its state is watched
/// as well.
async fn follow(host: std::sync::Arc<dyn Host>, container: String, rank: usize, tell: mpsc::Sender<Seen>) {
    let Ok(mut log) = host.container_log(&container, None, true).await else { return };
    while let Some(line) = log.recv().await {
        if tell.send(Seen::Line(rank, line)).await.is_err() {
            return;
        }
    }
    tell.send(Seen::LogEnd(rank)).await.ok();
}

/// A start on its way.
struct Course<'a> {
    ladder: &'a Ladder<'a>,
    engine: &'static dyn Engine,
    ready: &'a ReadySpec,
    stage: StageKind,
    events: &'a Events,
    began: Instant,
    pulse: Pulse,
    /// The last that a rank told.
    waiting: String,
    /// Whether the ranks found each other.
    joined: bool,
    ranks: Vec<Rank>,
}

/// What is known of a rank.
struct Rank {
    told: Option<Milestone>,
    figures: EngineFigures,
    last: VecDeque<String>,
    redactor: Option<Redactor>,
}

impl Rank {
    fn new(redactor: Option<Redactor>) -> Self {
        Self { told: None, figures: EngineFigures::default(), last: VecDeque::new(), redactor }
    }
}

impl Course<'_> {
    async fn run(
        &mut self,
        group: &[Member<'_>],
        seen: &mut mpsc::Receiver<Seen>,
    ) -> Result<Started, StepError> {
        let (ready, ladder) = (self.ready, self.ladder);
        let watch = watch(group, ladder);
        let head = door::of(group[0].host, &ready.endpoint).await?;
        let probe = probe(&head, &ready.endpoint, ladder);
        tokio::pin!(watch, probe);
        let mut tick = tokio::time::interval(PACE);
        loop {
            tokio::select! {
                ended = &mut watch => return Err(ended),
                outcome = &mut probe => return match outcome {
                    Ok(first) => Ok(Started { first, engine: self.figures() }),
                    Err(why) => Err(why.into()),
                },
                Some(seen) = seen.recv() => match seen {
                    Seen::Line(rank, line) => self.read(group, rank, line).await,
                    Seen::LogEnd(_) => {}
                    Seen::Look(rank, look) => self.pulse.looked(rank, self.began.elapsed(), look),
                },
                _ = tick.tick() => {
                    let last = || format!("the last that a rank told was `{}`", self.waiting);
                    if let Verdict::Hung(silence) = self.pulse.judge(self.began.elapsed()) {
                        let (waiting, stuck) = (last(), self.examine(group, silence).await);
                        return Err(NotReady::Stalled { silence, waiting, stuck }.into());
                    }
                    if self.began.elapsed() > self.ready.timeout {
                        let (limit, waiting) = (self.ready.timeout, last());
                        let stuck = self.examine(group, Duration::ZERO).await;
                        return Err(NotReady::Late { limit, waiting, stuck }.into());
                    }
                }
            }
        }
    }

    /// Takes in what an ended rank still had to say: that it ended is known before its last lines are here.
    async fn read_to_the_end(&mut self, group: &[Member<'_>], ended: usize, seen: &mut mpsc::Receiver<Seen>) {
        let until = Instant::now() + LAST_WORDS;
        while let Ok(Some(seen)) = tokio::time::timeout_at(until, seen.recv()).await {
            match seen {
                Seen::Line(rank, line) => self.read(group, rank, line).await,
                Seen::LogEnd(rank) if rank == ended => return,
                Seen::LogEnd(_) | Seen::Look(..) => {}
            }
        }
    }

    /// Takes in a line of a rank's log.
    async fn read(&mut self, group: &[Member<'_>], rank: usize, line: String) {
        if !only_waits(&line) {
            self.pulse.said(rank, self.began.elapsed());
        }
        let known = &mut self.ranks[rank];
        known.figures.take(&line);
        let milestone = self.engine.milestone(&line);
        if known.last.len() == LAST_LINES {
            known.last.pop_front();
        }
        known.last.push_back(line);
        let Some(milestone) = milestone else { return };
        self.pulse.reached(rank, milestone.stage);
        if !self.joined && has_joined(&milestone) {
            self.joined = true;
            let detail = milestone.figure.clone().map(|figure| self.join_words(&figure));
            self.ladder.reach(Rung::Joined, detail).await;
        }
        // Stages are a partial order: a later line of an earlier stage says nothing new, nor does one without a figure.
        let known = &mut self.ranks[rank];
        let new = known.told.as_ref().is_none_or(|told| {
            milestone.stage > told.stage
                || (milestone.stage == told.stage && milestone.figure.is_some() && milestone != *told)
        });
        if new {
            self.waiting = match &milestone.figure {
                Some(figure) => format!("{} {figure}", milestone.stage),
                None => milestone.stage.to_string(),
            };
            let progress = Progress::Engine {
                stage: milestone.stage.words().to_owned(),
                figure: milestone.figure.clone(),
                fraction: milestone.fraction,
            };
            self.events.progress(self.stage, group[rank].node, progress);
            known.told = Some(milestone);
        }
    }

    /// The scripts that stand before the engines count a rank only at its own fabric address.
    fn join_words(&self, figure: &str) -> String {
        let how = match self.ready.launch {
            Launch::Ray => "Ray",
            Launch::Native => "native",
        };
        let addresses: Vec<_> = self.ready.fabric.iter().map(ToString::to_string).collect();
        format!("{how} {figure}, at {}", addresses.join(", "))
    }

    fn figures(&self) -> EngineFigures {
        self.ranks.iter().map(|rank| &rank.figures).fold(EngineFigures::default(), EngineFigures::with)
    }

    /// Sees once what every rank is at.
    async fn examine(&self, group: &[Member<'_>], silence: Duration) -> Vec<Option<Stuck>> {
        let all =
            group.iter().zip(&self.ready.fabric).enumerate().map(|(rank, (member, fabric))| async move {
                let seen = looks::evidence(member.host, member.container).await?;
                let redactor = self.ranks[rank].redactor.as_ref();
                Some(Stuck {
                    silence,
                    stage: self.pulse.stage_of(rank),
                    fabric: *fabric,
                    addresses: seen.addresses,
                    connecting: seen.connecting,
                    stacks: redactor
                        .map_or_else(String::new, |known| known.redact(&seen.stacks).into_owned()),
                })
            });
        let all = join_all(all).await;
        for (rank, (member, stuck)) in group.iter().zip(&all).enumerate() {
            if let Some(stuck) = stuck {
                let (node, stuck) = (member.node.clone(), stuck.clone());
                self.events.tell(Event::Stuck { node, rank, stuck }).await;
            }
        }
        all
    }

    async fn tell_last_lines(&self, group: &[Member<'_>]) {
        for (rank, (member, known)) in group.iter().zip(&self.ranks).enumerate() {
            let Some(redactor) = &known.redactor else { continue };
            let lines = known.last.iter().map(|line| redactor.redact(line).into_owned()).collect();
            let (node, reached) = (member.node.clone(), self.pulse.stage_of(rank));
            self.events.tell(Event::LastLines { node, rank, reached, lines }).await;
        }
    }
}

/// Whether a milestone says that the ranks are together.
fn has_joined(milestone: &Milestone) -> bool {
    let whole = milestone.fraction.is_some_and(|fraction| fraction >= 1.0);
    milestone.stage >= StartStage::GroupsReady || (milestone.stage == StartStage::Gathering && whole)
}

/// Completes when a rank's container does not run any more, or its node cannot be asked.
async fn watch(group: &[Member<'_>], ladder: &Ladder<'_>) -> StepError {
    loop {
        for (rank, Member { node, container, host }) in group.iter().enumerate() {
            let state = match host.container(container).await {
                Ok(Some(container)) => container.state,
                Ok(None) => return NotReady::Gone { node: (*node).clone(), rank }.into(),
                Err(error) => return error.into(),
            };
            if !state.running {
                return NotReady::Ended { node: (*node).clone(), rank, how: state.ending() }.into();
            }
        }
        ladder.reach(Rung::Up, None).await;
        tokio::time::sleep(PACE).await;
    }
}

/// Asks the endpoint until it completes a request, or refuses one for good.
async fn probe(head: &dyn Host, endpoint: &Endpoint, ladder: &Ladder<'_>) -> Result<Duration, NotReady> {
    loop {
        tokio::time::sleep(PACE).await;
        match models(head, endpoint).await {
            Models::Silent => continue,
            Models::Untold => {
                ladder.reach(Rung::Http, Some(format!("port {}", endpoint.port))).await;
                continue;
            }
            Models::Listed(names) => {
                ladder.reach(Rung::Http, Some(format!("port {}", endpoint.port))).await;
                if !names.contains(&endpoint.model) {
                    return Err(NotReady::WrongModel { listed: names, wanted: endpoint.model.clone() });
                }
                ladder.reach(Rung::Listed, Some(endpoint.model.clone())).await;
            }
        }
        let began = Instant::now();
        // The first request may compile kernels for minutes: it is not hurried, the stall limit is.
        let limit = Duration::from_secs(3600);
        match complete(head, endpoint, limit).await {
            Ok(answer) if answer.status == 200 => {
                ladder.reach(Rung::Token, Some(people(began.elapsed()))).await;
                return Ok(began.elapsed());
            }
            // 5xx while the engine dies is told better by the rank that ends.
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => {
                let body = String::from_utf8_lossy(&answer.body).chars().take(300).collect();
                return Err(NotReady::Refused { status: answer.status, body });
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// What the endpoint says of its models.
pub enum Models {
    /// There is no answer.
    Silent,
    /// It answers, and lists none.
    Untold,
    /// These.
    Listed(Vec<String>),
}

/// The models that the endpoint lists.
pub async fn models(head: &dyn Host, endpoint: &Endpoint) -> Models {
    let Ok(answer) = head.http(endpoint.port, "/v1/models", None, Duration::from_secs(10)).await else {
        return Models::Silent;
    };
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match body["data"].as_array() {
        Some(models) if answer.status == 200 => {
            let names = models.iter().filter_map(|model| model["id"].as_str());
            Models::Listed(names.map(str::to_owned).collect())
        }
        _ => Models::Untold,
    }
}

/// One completion of one token.
pub async fn complete(
    head: &dyn Host,
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<HttpAnswer, HostError> {
    let body = json!({ "model": endpoint.model, "prompt": "Hello", "max_tokens": 1, "temperature": 0 });
    head.http(endpoint.port, "/v1/completions", Some(&body), limit).await
}
