//! Which kind of host a node of the profile is.

use std::sync::Arc;

use super::{Host, HostError, LocalHost, SshHost, SshOptions};
use crate::profile::Node;

/// Connects to a node: over SSH, or not at all where it is this machine.
pub async fn connect(
    node: &Node,
    user: Option<&str>,
    options: &SshOptions,
) -> Result<Arc<dyn Host>, HostError> {
    if node.is_local() {
        return Ok(Arc::new(LocalHost::new(node.name.clone())));
    }
    Ok(Arc::new(SshHost::connect(node.name.clone(), &node.host, user, options).await?))
}
