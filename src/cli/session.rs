//! Connecting to all nodes of a profile at once.

use std::sync::Arc;

use futures_util::future::join_all;

use super::Global;
use crate::cluster::facts::NodeFacts;
use crate::error::{CommandError, Exit, in_full};
use crate::execute::Hosts;
use crate::host::{self, Host, HostError, SshOptions};
use crate::operation;
use crate::profile::{NodeName, Profile};

/// Hosts of the nodes that could be connected to, and why the others could not.
pub async fn connect(profile: &Profile, global: &Global) -> (Hosts, Vec<(NodeName, HostError)>) {
    let options = SshOptions { config_file: global.ssh_config.clone() };
    let user = profile.cluster.user.as_deref();
    let all = profile
        .cluster
        .nodes
        .iter()
        .map(|node| async { (node.name.clone(), host::connect(node, user, &options).await) });
    let (mut hosts, mut errors) = (Hosts::new(), Vec::new());
    for (node, result) in join_all(all).await {
        match result {
            Ok(host) => {
                let host: Arc<dyn Host> = host;
                hosts.insert(node, host);
            }
            Err(error) => errors.push((node, error)),
        }
    }
    (hosts, errors)
}

/// Connects to the head alone.
pub async fn connect_head(profile: &Profile, global: &Global) -> Result<Arc<dyn Host>, HostError> {
    let options = SshOptions { config_file: global.ssh_config.clone() };
    host::connect(profile.head(), profile.cluster.user.as_deref(), &options).await
}

/// The error of nodes that could not be reached or asked.
pub fn unreachable(errors: &[HostError]) -> CommandError {
    let messages: Vec<_> = errors.iter().map(|error| format!("error: {}", in_full(error))).collect();
    let hints = errors.iter().filter_map(HostError::hint).collect();
    CommandError { hints, ..CommandError::new(Exit::Unreachable, messages.join("\n")) }
}

/// Connects to every node; any that cannot be reached is an error.
pub async fn connect_all(profile: &Profile, global: &Global) -> Result<Hosts, CommandError> {
    let (hosts, errors) = connect(profile, global).await;
    let errors: Vec<_> = errors.into_iter().map(|(_, error)| error).collect();
    if errors.is_empty() { Ok(hosts) } else { Err(unreachable(&errors)) }
}

/// Looks at every node; any that cannot be asked is an error.
pub async fn look(profile: &Profile, global: &Global) -> Result<Vec<NodeFacts>, CommandError> {
    let hosts = connect_all(profile, global).await?;
    operation::look(profile, &hosts).await.map_err(|errors| unreachable(&errors))
}
