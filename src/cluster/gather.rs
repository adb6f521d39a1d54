//! stub
use super::facts::NodeFacts;
use crate::host::{Host, HostError};
use crate::profile::DeploymentName;
pub struct Request {
    pub deployment: DeploymentName,
    pub model_path: String,
}
pub async fn gather(host: &dyn Host, _request: &Request) -> Result<NodeFacts, HostError> {
    let _ = host;
    unreachable!()
}
