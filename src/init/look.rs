//! Looking at machines of which nothing is known yet: all facts, then who answers whom, then the model's files. The only
//! part of `init` that touches a host. Reads, changes nothing.

use std::sync::Arc;

use futures_util::future::join_all;

use super::fabric::{self, Wanted};
use crate::cluster::facts::{Depth, ModelContent, NodeFacts};
use crate::cluster::gather::{Request, gather};
use crate::host::{Host, HostError};

/// All that can be asked of each machine; models are looked for in the usual places and in `folders`.
pub async fn machines(hosts: &[Arc<dyn Host>], folders: &[String]) -> Vec<Result<NodeFacts, HostError>> {
    let request = Request { scan: Some(folders.to_vec()), ..Request::machine() };
    join_all(hosts.iter().map(|host| gather(host.as_ref(), &request))).await
}

/// Asks every machine for the addresses of the others, and puts the answers into the facts.
pub async fn peers(
    hosts: &[Arc<dyn Host>],
    facts: &mut [NodeFacts],
    wanted: Option<&Wanted>,
) -> Result<(), Vec<HostError>> {
    let addresses = fabric::to_ask(facts, wanted);
    if addresses.is_empty() {
        return Ok(());
    }
    let request = Request { depth: Depth::Status, scan: None, ..Request::machine() }.peers(addresses);
    let answers = join_all(hosts.iter().map(|host| gather(host.as_ref(), &request))).await;
    let mut errors = Vec::new();
    for (facts, answer) in facts.iter_mut().zip(answers) {
        match answer {
            Ok(answer) => facts.peers = answer.peers,
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What is in a model's files; `None` where the folder is not there, or cannot be read.
pub async fn content(host: &dyn Host, folder: &str) -> Result<Option<ModelContent>, HostError> {
    let model_path = Some(folder.to_owned());
    let request = Request { depth: Depth::Plan, model_path, scan: None, ..Request::machine() };
    Ok(gather(host, &request).await?.model.and_then(|model| model.content))
}
