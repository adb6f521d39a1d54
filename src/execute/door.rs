//! The way to an endpoint: at the address that it listens on, with the key that lies on its head. So whoever asks it, for
//! readiness, for proof, for status, needs no key of the operator's, and always shows the one of the release that runs.

use std::time::Duration;

use super::StepError;
use crate::bench::load::Progress;
use crate::bench::result::{Report, Subject};
use crate::bench::workload::Order;
use crate::delivery::{secret, store};
use crate::host::{Door, Host, HostError, Keyed};
use crate::plan::Endpoint;

/// The head as `endpoint` is to be asked.
pub async fn of<'a>(head: &'a dyn Host, endpoint: &Endpoint) -> Result<Keyed<'a>, HostError> {
    let mut door = Door { address: endpoint.address, port: endpoint.port, key: None };
    if let Some((kept, name)) = &endpoint.key {
        let content = store::take(head, kept).await?;
        let values = secret::read_files(&String::from_utf8_lossy(content.bytes()));
        door.key = values.into_iter().find(|(variable, _)| variable == name).map(|(_, key)| key);
    }
    Ok(Keyed { host: head, door })
}

/// Puts load on an endpoint, with its key.
pub async fn measure(
    head: &dyn Host,
    endpoint: &Endpoint,
    order: &Order,
    subject: &Subject,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, HostError> {
    let door = of(head, endpoint).await?.door;
    head.measure(&door, order, subject, progress).await
}

/// An endpoint with a key has to refuse a request without it, and one with another.
pub(super) async fn refuses_strangers(head: &dyn Host, endpoint: &Endpoint) -> Result<(), StepError> {
    if endpoint.key.is_none() {
        return Ok(());
    }
    let other = secret::Secret::from("sparkctl-is-not-the-key".to_owned());
    for (key, what) in [(None, "without its key"), (Some(other), "with a wrong key")] {
        let door = Door { address: endpoint.address, port: endpoint.port, key };
        let answer = head.http_at(&door, "/v1/models", None, Duration::from_secs(20)).await?;
        if !matches!(answer.status, 401 | 403) {
            return Err(StepError::Unexpected(format!(
                "the endpoint answers a request {what} with HTTP {}, and should refuse it",
                answer.status
            )));
        }
    }
    Ok(())
}
