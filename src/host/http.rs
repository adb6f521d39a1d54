//! HTTP to a port of a node: directly where the node is this machine, else through a local socket
//! that is forwarded there. The only module that knows the HTTP crate.

use std::fmt;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{HttpAnswer, innermost};
use crate::delivery::Secret;

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nothing listens at the port.
    Refused,
    /// All else, in words.
    Other(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Other(why) => why,
        })
    }
}

/// A client for one port.
#[derive(Debug, Clone)]
pub struct Client {
    client: reqwest::Client,
    base: String,
}

impl Client {
    /// For a port of an address of this machine; with `socket`, whatever listens on that socket.
    pub fn new(address: SocketAddrV4, socket: Option<&Path>) -> Result<Self, String> {
        // A forwarded connection may have died on the far side unseen: never use one twice.
        let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let builder = builder.redirect(reqwest::redirect::Policy::none());
        let builder = match socket {
            Some(path) => builder.unix_socket(path),
            None => builder,
        };
        let client = builder.build().map_err(|error| reason(&error))?;
        Ok(Self { client, base: format!("http://{address}") })
    }

    /// GET, or POST of JSON where there is a body.
    pub async fn ask(
        &self,
        path: &str,
        body: Option<&Value>,
        key: Option<&Secret>,
        timeout: Duration,
    ) -> Result<HttpAnswer, NoAnswer> {
        let url = format!("{}{path}", self.base);
        let request = match body {
            Some(json) => self.client.post(url).json(json),
            None => self.client.get(url),
        };
        let request = match key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        };
        let words = |error: reqwest::Error| {
            if error.is_timeout() {
                return NoAnswer::Other(format!("no answer within {:.1} s", timeout.as_secs_f64()));
            }
            let io = innermost(&error).downcast_ref::<std::io::Error>();
            match io.map(std::io::Error::kind) {
                Some(std::io::ErrorKind::ConnectionRefused) => NoAnswer::Refused,
                _ => NoAnswer::Other(reason(&error)),
            }
        };
        let response = request.timeout(timeout).send().await.map_err(words)?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(words)?.to_vec();
        Ok(HttpAnswer { status, body })
    }
}

/// Whether the engine at `url` (up to and with `/v1`) is the one that `known` leads to: both tell the same moment at which
/// their process began. An engine that does not tell it is not known to be the same.
pub async fn same_process(url: &str, known: &Client) -> bool {
    let limit = Duration::from_secs(5);
    let Ok(there) = known.ask("/metrics", None, None, limit).await else { return false };
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let Ok(client) = builder.connect_timeout(limit).timeout(limit).build() else { return false };
    let root = url.strip_suffix("/v1").unwrap_or(url);
    let Ok(answer) = client.get(format!("{root}/metrics")).send().await else { return false };
    let Ok(here) = answer.bytes().await else { return false };
    let began = process_began(&there.body);
    began.is_some() && began == process_began(&here)
}

/// Of a page for Prometheus.
fn process_began(page: &[u8]) -> Option<String> {
    let page = String::from_utf8_lossy(page);
    page.lines()
        .find_map(|line| line.strip_prefix("process_start_time_seconds "))
        .map(|at| at.trim().to_owned())
}

/// The innermost reason: the outer ones only say that a request failed.
fn reason(error: &reqwest::Error) -> String {
    let text = innermost(error).to_string();
    match text.split_once(" (os error") {
        Some((plain, _)) => plain.to_lowercase(),
        None => text,
    }
}
