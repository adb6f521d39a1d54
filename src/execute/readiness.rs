//! Waiting until a group is ready: every rank's container runs, the model is listed, and one real
//! completion came back. `/health` proves nothing: it answers 200 with a dead rank.
//!
//! It ends at once when any rank's container ends, and when nothing at all has moved for the
//! profile's `ready.stall`: the silent hang is what people lose their nights over.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Hosts, StepError, door};
use crate::engine;
use crate::event::{Events, Progress};
use crate::host::Host;
use crate::plan::render::people;
use crate::plan::{Endpoint, ReadySpec, StageKind};
use crate::profile::NodeName;

/// How often containers and endpoint are looked at.
const PACE: Duration = Duration::from_millis(500);

/// Why a group did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("rank {rank} on {node} ended ({how}) before the engine was ready")]
    Ended { node: NodeName, rank: usize, how: String },
    #[error("the container of rank {rank} on {node} is gone")]
    Gone { node: NodeName, rank: usize },
    #[error("nothing has moved for {}: no rank wrote a line, and {waiting}", people(*silence))]
    Stalled { silence: Duration, waiting: String },
    #[error("not ready after {}: {waiting}", people(*limit))]
    Late { limit: Duration, waiting: String },
    #[error("the endpoint lists {listed:?}, not `{wanted}`")]
    WrongModel { listed: Vec<String>, wanted: String },
    #[error("the endpoint refused a completion: HTTP {status}: {body}")]
    Refused { status: u16, body: String },
}

/// Waits; the time that the first completion took is returned.
pub(super) async fn await_ready(
    ready: &ReadySpec,
    hosts: &Hosts,
    events: &Events,
    stage: StageKind,
) -> Result<Duration, StepError> {
    let (lines, mut said) = mpsc::channel::<(usize, String)>(1024);
    let mut followers = tokio::task::JoinSet::new();
    let mut group = Vec::new();
    for (rank, (node, container)) in ready.containers.iter().enumerate() {
        let host =
            hosts.get(node).ok_or_else(|| StepError::Unexpected(format!("{node} is not of the cluster")))?;
        group.push((node, container, host.as_ref()));
        let (host, container, lines) = (host.clone(), container.clone(), lines.clone());
        followers.spawn(async move {
            // A log that cannot be followed is no failure of the engine: its state is watched as well.
            let Ok(mut log) = host.container_log(&container, None, true).await else { return };
            while let Some(line) = log.recv().await {
                if lines.send((rank, line)).await.is_err() {
                    return;
                }
            }
        });
    }
    let engine = engine::engine(ready.engine);
    let watch = watch(&group);
    let head = door::of(group[0].2, &ready.endpoint).await?;
    let probe = probe(&head, &ready.endpoint);
    tokio::pin!(watch, probe);

    let began = Instant::now();
    let mut moved = Instant::now();
    let mut reached: BTreeMap<usize, engine::milestones::StartStage> = BTreeMap::new();
    let mut waiting = "nothing yet";
    let mut tick = tokio::time::interval(PACE);
    loop {
        tokio::select! {
            ended = &mut watch => return Err(ended),
            outcome = &mut probe => match outcome {
                Probe::Done(first) => return Ok(first),
                Probe::Failed(why) => return Err(why.into()),
            },
            Some((rank, line)) = said.recv() => {
                moved = Instant::now();
                if let Some(milestone) = engine.milestone(&line) {
                    let best = reached.entry(rank).or_insert(milestone.stage);
                    // Stages are a partial order: a later line of an earlier stage says nothing new.
                    if milestone.stage >= *best {
                        *best = milestone.stage;
                        waiting = milestone.stage.words();
                        let progress = Progress::Engine {
                            stage: milestone.stage.words().to_owned(),
                            figure: milestone.figure,
                            fraction: milestone.fraction,
                        };
                        events.progress(stage, group[rank].0, progress);
                    }
                }
            }
            _ = tick.tick() => {
                let last = || format!("the last that a rank told was `{waiting}`");
                if moved.elapsed() > ready.stall {
                    return Err(NotReady::Stalled { silence: moved.elapsed(), waiting: last() }.into());
                }
                if began.elapsed() > ready.timeout {
                    return Err(NotReady::Late { limit: ready.timeout, waiting: last() }.into());
                }
            }
        }
    }
}

/// Completes when a rank's container does not run any more, or its node cannot be asked.
async fn watch(group: &[(&NodeName, &String, &dyn Host)]) -> StepError {
    loop {
        for (rank, (node, container, host)) in group.iter().enumerate() {
            let state = match host.container(container).await {
                Ok(Some(container)) => container.state,
                Ok(None) => return NotReady::Gone { node: (*node).clone(), rank }.into(),
                Err(error) => return error.into(),
            };
            if !state.running {
                let how = match (state.oom_killed, state.exit_code, state.error.as_str()) {
                    (true, _, _) => "out of memory: the kernel killed it".to_owned(),
                    (false, 137, _) => "exit status 137: killed".to_owned(),
                    (false, code, "") => format!("exit status {code}"),
                    (false, _, error) => error.to_owned(),
                };
                return NotReady::Ended { node: (*node).clone(), rank, how }.into();
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

enum Probe {
    Done(Duration),
    Failed(NotReady),
}

/// Asks the endpoint until it completes a request, or refuses one for good.
async fn probe(head: &dyn Host, endpoint: &Endpoint) -> Probe {
    loop {
        tokio::time::sleep(PACE).await;
        match listed(head, endpoint).await {
            None => continue,
            Some(names) if names.contains(&endpoint.model) => {}
            Some(listed) => {
                return Probe::Failed(NotReady::WrongModel { listed, wanted: endpoint.model.clone() });
            }
        }
        let began = Instant::now();
        // The first request may compile kernels for minutes: it is not hurried, the stall limit is.
        let limit = Duration::from_secs(3600);
        match complete(head, endpoint, limit).await {
            Ok(answer) if answer.status == 200 => return Probe::Done(began.elapsed()),
            // 5xx while the engine dies is told better by the rank that ends.
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => {
                let body = String::from_utf8_lossy(&answer.body).chars().take(300).collect();
                return Probe::Failed(NotReady::Refused { status: answer.status, body });
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The models that the endpoint lists; `None` while it does not answer.
pub async fn listed(head: &dyn Host, endpoint: &Endpoint) -> Option<Vec<String>> {
    let answer = head.http(endpoint.port, "/v1/models", None, Duration::from_secs(10)).await.ok()?;
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let names = body["data"].as_array()?.iter().filter_map(|model| model["id"].as_str());
    (answer.status == 200).then(|| names.map(str::to_owned).collect())
}

/// One completion of one token.
pub async fn complete(
    head: &dyn Host,
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<crate::host::HttpAnswer, crate::host::HostError> {
    let body = json!({ "model": endpoint.model, "prompt": "Hello", "max_tokens": 1, "temperature": 0 });
    head.http(endpoint.port, "/v1/completions", Some(&body), limit).await
}
