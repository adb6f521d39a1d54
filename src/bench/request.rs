//! One request: its body, the asking, and the waits that a busy server asks for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::answer::Answer;
use super::client::{Client, Connection, Sent};
use super::piece::Usage;
use super::prepare::Ready;
use super::result::{FailureKind, Request, RequestFailure};
use super::workload::{Endpoint, Limits};

/// Between two tries, where the server says nothing better.
const AGAIN: Duration = Duration::from_secs(1);

/// A conversation as it goes on.
pub struct Talk<'a> {
    endpoint: Endpoint,
    ready: &'a Ready,
    messages: Vec<Value>,
}

impl<'a> Talk<'a> {
    pub fn new(endpoint: Endpoint, ready: &'a Ready, system: Option<&str>) -> Self {
        let messages = system.map(|system| json!({ "role": "system", "content": system }));
        Self { endpoint, ready, messages: messages.into_iter().collect() }
    }

    /// Says something; returns the body of the request for an answer of so many tokens.
    pub fn say(&mut self, said: &str, tokens: Option<u32>) -> Bytes {
        self.messages.push(json!({ "role": "user", "content": said }));
        let takes = self.ready.takes;
        let mut body = json!({ "model": self.ready.model, "stream": true, "temperature": 0 });
        if takes.usage {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if let Some(tokens) = tokens {
            body["max_tokens"] = json!(tokens);
            if takes.ignore_eos {
                body["ignore_eos"] = json!(true);
            }
            if takes.min_tokens {
                body["min_tokens"] = json!(tokens);
            }
        }
        match self.endpoint {
            Endpoint::Chat => body["messages"] = json!(self.messages),
            Endpoint::Completions => {
                let all = self.messages.iter().filter_map(|message| message["content"].as_str());
                body["prompt"] = json!(all.collect::<Vec<_>>().join("\n\n"));
            }
        }
        Bytes::from(body.to_string())
    }

    /// What the model said.
    pub fn heard(&mut self, text: &str) {
        self.messages.push(json!({ "role": "assistant", "content": text }));
    }
}

/// What became of a request.
#[derive(Debug)]
pub struct Asked {
    pub request: Request,
    pub text: Option<String>,
    pub usage: Option<Usage>,
}

/// How requests are asked.
pub struct Ask<'a> {
    pub client: &'a Client,
    pub limits: &'a Limits,
    pub endpoint: Endpoint,
    /// Whether the text of the answer is wanted.
    pub keep: bool,
    /// The end of the whole bench.
    pub end: Instant,
}

impl Ask<'_> {
    /// Asks. Latencies count from `begun`, waits for a busy server included: a user waits as well.
    pub async fn ask(&self, body: &Bytes, begun: Instant, connection: &mut Option<Connection>) -> Asked {
        let mut retries = 0;
        let patience = begun + self.limits.retry;
        loop {
            let mut answer = Answer::new(self.endpoint, self.keep);
            let sent = self.client.stream(connection, body, &mut answer, begun, self.limits, self.end).await;
            let at = begun.elapsed().as_secs_f64();
            let failure = match sent {
                Sent::Streamed(cut) => {
                    let (request, text, usage) = answer.end(at, cut);
                    return Asked { request: Request { retries, ..request }, text, usage };
                }
                Sent::Failed(failure) => failure,
                Sent::Busy { status, after, said } => {
                    let again = Instant::now() + after.unwrap_or(AGAIN).max(Duration::from_millis(10));
                    if again < patience && again < self.end {
                        retries += 1;
                        sleep_until(again.into()).await;
                        continue;
                    }
                    let wait = after.map_or(String::new(), |wait| format!(", which asks to wait {wait:?}"));
                    let message = format!("HTTP {status}{wait}, after {retries} retries: {said}");
                    RequestFailure { kind: FailureKind::Status, message }
                }
            };
            let (request, ..) = answer.end(at, None);
            let request = Request { seconds: at, failure: Some(failure), retries, ..request };
            return Asked { request, text: None, usage: None };
        }
    }
}
