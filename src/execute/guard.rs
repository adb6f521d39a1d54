//! Giving the nodes their guards, and the last word to them.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::step::{Done, new_container};
use super::{Hosts, Reconnect, StepError};
use crate::event::{Event, Events};
use crate::guard::store::{self, Armed, State};
use crate::guard::{Guard, absent};
use crate::host::{HostError, create_body};
use crate::profile::{DeploymentName, NodeName};
use crate::release::ReleaseNumber;

/// How long connections made anew are tried for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(5);

/// Gives every node its guard. Where one cannot have any, none keeps its own, and that is told.
pub(super) async fn arm(hosts: &Hosts, guard: &Guard, events: &Events) -> Result<Done, StepError> {
    let release = guard.before.as_ref().map(|before| before.release);
    let all = hosts.iter().map(|(node, host)| {
        let bring = guard.ranks_of(node).filter_map(|rank| {
            let new = new_container(&guard.deployment, release?, rank);
            let body = create_body(&new);
            Some((new.name, body))
        });
        let data = guard.data(bring);
        async move { (node, store::arm(host.as_ref(), guard, &data).await) }
    });
    let (mut lacking, mut ways, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (node, armed) in join_all(all).await {
        match armed {
            Ok(Armed::Not(why)) => lacking.push((node, why)),
            Ok(armed) => ways.push((node, armed)),
            Err(error) => errors.push(error),
        }
    }
    if let Some(error) = several(errors) {
        return Err(error);
    }
    if !lacking.is_empty() {
        for (node, why) in &lacking {
            events.tell(Event::Warning { finding: absent(node, why) }).await;
        }
        // Half of a group that goes back would take the other half's peers away.
        store::settle(hosts, &guard.deployment).await?;
        let detail = Some("the nodes restore nothing by themselves".to_owned());
        return Ok(Done { detail, ..Done::default() });
    }
    let as_what = |(node, armed): &(&NodeName, Armed)| {
        let way = match armed {
            Armed::System => "a unit of the system",
            Armed::User { now: false } => "a unit of the user",
            _ => "a unit of the user, who lingers from now on",
        };
        format!("{node}: {way}")
    };
    let detail = Some(ways.iter().map(as_what).collect::<Vec<_>>().join("; "));
    Ok(Done { changed: true, detail, ..Done::default() })
}

/// Ends every guard over connections made anew: who cannot come in any more is to be gone back from. First all are asked,
/// then all are told at once, so that no time is left in which one has heard it and another has not.
pub(super) async fn confirm(
    fresh: &dyn Reconnect,
    deployment: &DeploymentName,
    release: ReleaseNumber,
) -> Result<Done, StepError> {
    let began = Instant::now();
    loop {
        let errors = match fresh.reconnect().await {
            Err(errors) => errors,
            Ok(hosts) => match last_word(&hosts, deployment, release).await {
                Ok(done) => return Ok(done),
                Err(Refusal::Acted(nodes)) => {
                    let nodes: Vec<_> = nodes.iter().map(NodeName::as_str).collect();
                    let why =
                        format!("{} went back by itself: nothing was heard for too long", nodes.join(", "));
                    return Err(StepError::Unexpected(why));
                }
                Err(Refusal::Hosts(errors)) => errors,
            },
        };
        if began.elapsed() >= PATIENCE {
            let why = StepError::Unexpected("no fresh connection to the nodes was to be had".to_owned());
            return Err(several(errors).unwrap_or(why));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

enum Refusal {
    Acted(Vec<NodeName>),
    Hosts(Vec<HostError>),
}

async fn last_word(
    hosts: &Hosts,
    deployment: &DeploymentName,
    release: ReleaseNumber,
) -> Result<Done, Refusal> {
    let asked = hosts.values().map(|host| store::beat(host.as_ref(), deployment, release));
    states(hosts, join_all(asked).await)?;
    let told = hosts.values().map(|host| store::end(host.as_ref(), deployment, Some(release)));
    let ended = states(hosts, join_all(told).await)?;
    Ok(Done { changed: ended.contains(&State::Ended), ..Done::default() })
}

/// What all are at, unless one does not answer, or has acted.
fn states(hosts: &Hosts, answers: Vec<Result<State, HostError>>) -> Result<Vec<State>, Refusal> {
    let (mut states, mut errors, mut acted) = (Vec::new(), Vec::new(), Vec::new());
    for (node, answer) in hosts.keys().zip(answers) {
        match answer {
            Ok(State::Acting | State::Acted) => acted.push(node.clone()),
            Ok(state) => states.push(state),
            Err(error) => errors.push(error),
        }
    }
    match (acted.is_empty(), errors.is_empty()) {
        (false, _) => Err(Refusal::Acted(acted)),
        (true, false) => Err(Refusal::Hosts(errors)),
        (true, true) => Ok(states),
    }
}

fn several(mut errors: Vec<HostError>) -> Option<StepError> {
    if errors.len() > 1 { Some(StepError::Several(errors)) } else { errors.pop().map(StepError::Host) }
}
