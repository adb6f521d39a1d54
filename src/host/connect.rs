//! Which kind of host a node of the profile is.

use std::sync::Arc;

use super::{Host, HostError, LocalHost, SshHost, SshOptions};
use crate::profile::{LOCAL, Node, NodeName};

/// Connects to a node of a profile: over SSH, or not at all where it is this machine.
pub async fn connect(
    node: &Node,
    user: Option<&str>,
    options: &SshOptions,
) -> Result<Arc<dyn Host>, HostError> {
    connect_to(&node.name, &node.host, user, options).await
}

/// The same for a machine that no profile has yet. `host` is as a profile would write it.
pub async fn connect_to(
    name: &NodeName,
    host: &str,
    user: Option<&str>,
    options: &SshOptions,
) -> Result<Arc<dyn Host>, HostError> {
    if host == LOCAL {
        return Ok(Arc::new(LocalHost::new(name.clone())));
    }
    Ok(Arc::new(SshHost::connect(name.clone(), host, user, options).await?))
}
