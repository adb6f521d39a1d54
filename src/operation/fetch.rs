//! `fetch`: the model from the Hub to the head. Nothing that serves is touched, so no lock is taken.

use std::time::Duration;

use super::unreachable_outcome;
use crate::event::{Event, Events, Failure, Progress, RunOutcome};
use crate::execute::Cancel;
use crate::host::Host;
use crate::model::hub::Fetch;
use crate::plan::StageKind;
use crate::plan::render::{people, size};
use crate::profile::{DeploymentName, NodeName};
use crate::transfer::{FetchError, FetchReport, FetchTold, fetch as fetch_model};

/// Fetches a deployment's model on `host`. The outcome is told as the last event, too.
pub async fn fetch(
    deployment: &DeploymentName,
    host: &dyn Host,
    fetch: &Fetch,
    events: &Events,
    cancel: &Cancel,
) -> RunOutcome {
    let stage = StageKind::Fetch;
    events.tell(Event::StageStarted { stage }).await;
    let (words, mut told) = tokio::sync::mpsc::unbounded_channel();
    let node = host.node().clone();
    let telling = async {
        while let Some(text) = told.recv().await {
            events.tell(Event::Told { stage, node: node.clone(), text }).await;
        }
    };
    let work = async {
        let mut total = 0;
        let mut tell = |what: FetchTold| match what {
            FetchTold::Bytes(done) => events.progress(stage, host.node(), Progress::Bytes { done, total }),
            FetchTold::Words(text) => drop(words.send(text)),
            FetchTold::Chosen(chosen) => {
                total = chosen.bytes;
                for text in beginning(fetch, &chosen) {
                    drop(words.send(text));
                }
            }
        };
        let done = tokio::select! {
            biased;
            () = cancel.wish() => None,
            done = fetch_model(host, fetch, &mut tell) => Some(done),
        };
        drop(words);
        done
    };
    let outcome = match tokio::join!(work, telling).0 {
        None => RunOutcome::Interrupted { state: "what came is kept: fetch again to go on".to_owned() },
        Some(Ok(report)) => finished(fetch, &node, report, events).await,
        Some(Err(error)) => failed(&node, error, events).await,
    };
    let deployment = deployment.clone();
    events.tell(Event::Finished { deployment, outcome: outcome.clone() }).await;
    outcome
}

/// What is to be said ahead of the bytes.
fn beginning(fetch: &Fetch, chosen: &crate::transfer::Chosen) -> Vec<String> {
    let mut lines = vec![format!(
        "hf:{} at {}: {} files, {}",
        fetch.repository,
        chosen.commit,
        chosen.files,
        size(chosen.bytes)
    )];
    if chosen.left_out.files > 0 {
        let (files, bytes) = (chosen.left_out.files, size(chosen.left_out.bytes));
        lines.push(format!(
            "left out: {files} of its files, {bytes}: not wanted, or the same weights in another form"
        ));
    }
    if let Some(before) = &chosen.before {
        lines.push(format!(
            "it takes the place of commit {before}; files that differ are replaced as they come"
        ));
    }
    if chosen.there > 0 && chosen.there < chosen.bytes {
        lines.push(format!("{} are there already", size(chosen.there)));
    }
    lines
}

async fn finished(fetch: &Fetch, node: &NodeName, report: FetchReport, events: &Events) -> RunOutcome {
    let stage = StageKind::Fetch;
    let took = Duration::from_secs_f64(report.seconds);
    let detail = if report.received == 0 {
        "all was there, verified".to_owned()
    } else {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people"
        )]
        let rate = (report.received as f64 / report.seconds.max(0.001)) as u64;
        let came = size(report.received);
        format!("{came} to {node} in {} ({}/s), all verified", people(took), size(rate))
    };
    events.tell(Event::StageDone { stage, detail: Some(detail), took }).await;
    let tell = async |text| events.tell(Event::Told { stage, node: node.clone(), text }).await;
    if !report.further.is_empty() {
        let shown = report.further.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = report.further_count.saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        tell(format!("not of the model, and left where they are: {shown}{more}")).await;
    }
    let commit = report.chosen.commit;
    if !fetch.pinned {
        tell(format!("to have the same files next time: source: hf:{}@{commit}", fetch.repository)).await;
    }
    RunOutcome::Fetched {
        node: node.clone(),
        source: format!("hf:{}", fetch.repository),
        commit,
        path: fetch.path.clone(),
        files: report.chosen.files,
        bytes: report.chosen.bytes,
        received: report.received,
    }
}

async fn failed(node: &NodeName, error: FetchError, events: &Events) -> RunOutcome {
    let (chain, hints, outcome) = match error {
        FetchError::Refused { why, hint, begun, .. } => {
            let chain = vec![format!("fetch failed on {node}"), why];
            (chain, hint.into_iter().collect(), RunOutcome::NotFetched { begun })
        }
        FetchError::Host(error) => {
            return unreachable_outcome(&[error], "what came is kept: fetch again to go on");
        }
    };
    let failure =
        Failure { stage: StageKind::Fetch, node: Some(node.clone()), chain, diagnosis: None, hints };
    events.tell(Event::Failed { failure: Box::new(failure) }).await;
    outcome
}
