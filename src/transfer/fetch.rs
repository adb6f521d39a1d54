//! A model from a Hub to a node: the node downloads, not the operator's machine.
//!
//! What comes is verified before it has its name, and continues at the byte where a run before was cut. A token travels
//! over standard input alone, and the script sends it to the Hub alone.

use std::time::Instant;

use serde::Deserialize;
use serde_json::json;

use super::ends::{NO_LIMIT, ended};
use super::python;
use crate::delivery::Secret;
use crate::host::{Host, HostError, Script};
use crate::model::hub::Fetch;
use crate::profile::NodeName;

/// What a fetch says while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchTold {
    Chosen(Chosen),
    /// Bytes that are there, of all that are to be.
    Bytes(u64),
    /// Something for people.
    Words(String),
}

/// What is to be there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Chosen {
    /// 40 hexadecimal digits.
    pub commit: String,
    pub files: u64,
    pub bytes: u64,
    /// Bytes of them that are there: verified before, or part of a file that was cut.
    pub there: u64,
    /// Files of the repository that are not wanted.
    pub left_out: LeftOut,
    /// The commit of the model that is replaced.
    pub before: Option<String>,
}

/// Files that are not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LeftOut {
    pub files: u64,
    pub bytes: u64,
}

/// What a fetch did.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchReport {
    pub chosen: Chosen,
    /// Bytes that came.
    pub received: u64,
    /// Files in the folder that are not the model's: the first of them, and how many there are.
    pub further: Vec<String>,
    pub further_count: u64,
    pub seconds: f64,
}

/// Why a model did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The Hub, the network or the disk said no.
    #[error("{why}")]
    Refused {
        node: NodeName,
        why: String,
        hint: Option<String>,
        /// Whether files had begun to come: they are kept, and the next fetch goes on.
        begun: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Chosen(Chosen),
    Bytes(u64),
    Told(String),
    Finished(Finished),
    Failed { why: String, hint: Option<String> },
}

#[derive(Deserialize)]
struct Finished {
    received: u64,
    further: Vec<String>,
    further_count: u64,
}

/// Fetches a model on `host`.
pub async fn fetch(
    host: &dyn Host,
    fetch: &Fetch,
    tell: &mut (dyn FnMut(FetchTold) + Send),
) -> Result<FetchReport, FetchError> {
    let started = Instant::now();
    let text = python!("fetch/hub.py", "fetch/files.py", "fetch/fetch.py");
    let script = Script::new("fetch-model", text, [&fetch.path]).input(input(fetch)).timeout(NO_LIMIT);
    let mut running = host.start(script).await?;
    let (mut chosen, mut finished, mut refused) = (None, None, None);
    while let Some(line) = running.lines.recv().await {
        match serde_json::from_str(&line) {
            Ok(Line::Chosen(told)) => {
                chosen = Some(told.clone());
                tell(FetchTold::Chosen(told));
            }
            Ok(Line::Bytes(bytes)) => tell(FetchTold::Bytes(bytes)),
            Ok(Line::Told(words)) => tell(FetchTold::Words(words)),
            Ok(Line::Finished(told)) => finished = Some(told),
            Ok(Line::Failed { why, hint }) => refused = Some((why, hint)),
            Err(_) => tracing::debug!("fetch-model on {} said `{line}`", host.node()),
        }
    }
    let begun = chosen.is_some();
    let refuse = |why, hint| FetchError::Refused { node: host.node().clone(), why, hint, begun };
    match (ended(running).await?, refused, chosen, finished) {
        (None, None, Some(chosen), Some(finished)) => Ok(FetchReport {
            chosen,
            received: finished.received,
            further: finished.further,
            further_count: finished.further_count,
            seconds: started.elapsed().as_secs_f64(),
        }),
        (_, Some((why, hint)), ..) => Err(refuse(why, hint)),
        (words, ..) => {
            Err(refuse(words.unwrap_or_else(|| "the download ended without a word".to_owned()), None))
        }
    }
}

/// What the script reads: the one place where the token is shown.
fn input(fetch: &Fetch) -> String {
    let asked = json!({
        "repository": fetch.repository,
        "revision": fetch.revision,
        "snapshot": fetch.snapshot,
        "endpoint": fetch.access.endpoint,
        "token": fetch.access.token.as_ref().map(Secret::reveal),
        "include": fetch.include,
        "exclude": fetch.exclude,
        "connections": fetch.connections,
    });
    format!("{asked}\n")
}
