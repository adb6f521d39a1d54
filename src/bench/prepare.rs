//! Ahead of the load: what the server takes, and how it counts tokens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Connection};
use super::load::BenchError;
use super::prompts::{Text, sample};
use super::request::{Ask, Talk};
use super::result::{FailureKind, Note, Request, RequestFailure};
use super::workload::Order;

/// For what is asked ahead.
const LIMIT: Duration = Duration::from_secs(30);
/// Where the server counts nothing: English has about four letters a token.
const TOKENS_PER_CHAR: f64 = 0.25;
/// What mark, task and chat template have, where that cannot be learnt. Tokens.
const OVERHEAD: f64 = 40.0;
/// Paragraphs of the longer sample.
const LONGER: usize = 5;

/// What requests need to be made.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The model's name in requests.
    pub model: String,
    pub takes: Takes,
    pub text: Text,
    pub notes: Vec<Note>,
}

/// Fields of a request that are not everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    pub ignore_eos: bool,
    pub min_tokens: bool,
    /// `stream_options.include_usage`.
    pub usage: bool,
}

/// From what is wanted most to what every server takes.
const TRIES: [Takes; 4] = [
    Takes { ignore_eos: true, min_tokens: true, usage: true },
    Takes { ignore_eos: true, min_tokens: false, usage: true },
    Takes { ignore_eos: false, min_tokens: false, usage: true },
    Takes { ignore_eos: false, min_tokens: false, usage: false },
];

/// The models that the endpoint lists. The error is words.
pub async fn models(client: &Client) -> Result<Vec<String>, String> {
    let (status, body) =
        client.ask(&mut None, "/v1/models", None, LIMIT).await.map_err(|failure| failure.message)?;
    if status != 200 {
        return Err(format!("HTTP {status}: {}", super::piece::error_words(&body)));
    }
    let body: Value =
        serde_json::from_slice(&body).map_err(|error| format!("its list of models is no JSON: {error}"))?;
    let listed = body["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
    Ok(listed.map(str::to_owned).collect())
}

/// Asks what has to be known ahead of any load.
pub async fn prepare(
    client: &Client,
    order: &Order,
    model: &str,
    mark: &str,
    end: Instant,
) -> Result<Ready, BenchError> {
    let text = Text::by_length(TOKENS_PER_CHAR, OVERHEAD);
    let mut ready = Ready { model: model.to_owned(), takes: TRIES[0], text, notes: Vec::new() };
    let mut connection = None;
    // Marks as long as those of the runs.
    let first = takes(client, order, &mut ready, &format!("{mark}-s-0"), end, &mut connection).await?;
    ready.notes.extend(refused(ready.takes, order));
    if order.workload.prompts.is_empty() || order.workload.prefix_tokens > 0 {
        let longer = probe(client, order, &ready, &format!("{mark}-l-0"), LONGER, end, &mut connection).await;
        ready.text = learn(client, model, first.input_tokens, longer.input_tokens, &mut connection).await;
        if first.input_tokens.is_none() {
            ready.notes.push(note(
                "lengths-guessed",
                "the server told no `usage`: lengths are guessed, 4 letters a token",
            ));
        }
    }
    Ok(ready)
}

fn note(id: &str, message: &str) -> Note {
    Note { id: id.to_owned(), message: message.to_owned() }
}

/// Finds the fields that the server takes; returns the first request that it did not refuse.
async fn takes(
    client: &Client,
    order: &Order,
    ready: &mut Ready,
    mark: &str,
    end: Instant,
    connection: &mut Option<Connection>,
) -> Result<Request, BenchError> {
    let mut refusal = String::new();
    for takes in TRIES {
        ready.takes = takes;
        let answered = probe(client, order, ready, mark, 1, end, connection).await;
        match &answered.failure {
            Some(RequestFailure { kind: FailureKind::Status, message }) => {
                // The first refusal is of what was wanted; what a server says of less is no better.
                if refusal.is_empty() {
                    refusal.clone_from(message);
                }
                if !(message.starts_with("HTTP 400") || message.starts_with("HTTP 422")) {
                    break;
                }
            }
            Some(RequestFailure {
                kind: FailureKind::Connect | FailureKind::Stalled | FailureKind::Cut | FailureKind::Unfinished,
                message,
            }) => {
                return Err(BenchError::NoAnswer(message.clone()));
            }
            _ => return Ok(answered),
        }
    }
    Err(BenchError::Refused(refusal))
}

/// What was refused, in so far as it would have been sent.
fn refused(takes: Takes, order: &Order) -> Option<Note> {
    let fixed = order.workload.output.is_some();
    let fields = [
        (fixed && !takes.ignore_eos, "ignore_eos"),
        (fixed && !takes.min_tokens, "min_tokens"),
        (!takes.usage, "stream_options"),
    ];
    let refused: Vec<_> =
        fields.iter().filter(|(refused, _)| *refused).map(|(_, name)| format!("`{name}`")).collect();
    let list = refused.join(", ");
    (!refused.is_empty()).then(|| Note {
        id: "fields-refused".to_owned(),
        message: format!(
            "the server refused {list} (HTTP 400), so that answers may be shorter than asked for"
        ),
    })
}

/// A request of the first paragraphs, for two tokens.
async fn probe(
    client: &Client,
    order: &Order,
    ready: &Ready,
    mark: &str,
    paragraphs: usize,
    end: Instant,
    connection: &mut Option<Connection>,
) -> Request {
    let endpoint = order.workload.endpoint;
    let body = Talk::new(endpoint, ready, None).say(&sample(mark, paragraphs), Some(2));
    let ask = Ask { client, limits: &order.limits, endpoint, keep: false, end };
    ask.ask(&body, Instant::now(), connection).await.request
}

/// How the server counts: by `/tokenize` where it has that (vLLM), else by the prompts of the two samples.
async fn learn(
    client: &Client,
    model: &str,
    short: Option<u32>,
    long: Option<u32>,
    connection: &mut Option<Connection>,
) -> Text {
    let Some(short) = short.map(f64::from) else { return Text::by_length(TOKENS_PER_CHAR, OVERHEAD) };
    if let Some(counts) = tokenize(client, model, connection).await
        && let Some(text) = Text::by_count(&counts, 0.0)
    {
        let overhead = short - text.tokens_of_first(1);
        return text.overhead(overhead);
    }
    let chars = |paragraphs| Text::by_length(1.0, 0.0).tokens_of_first(paragraphs);
    let Some(long) = long.map(f64::from).filter(|long| *long > short) else {
        return Text::by_length((short / (chars(1) + 100.0)).max(0.01), OVERHEAD);
    };
    let slope = (long - short) / (chars(LONGER) - chars(1));
    Text::by_length(slope, short - slope * chars(1))
}

/// Tokens of each paragraph; `None` where the server does not tell.
async fn tokenize(client: &Client, model: &str, connection: &mut Option<Connection>) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for paragraph in Text::paragraphs() {
        let body = json!({ "model": model, "prompt": paragraph, "add_special_tokens": false });
        let (status, answer) =
            client.ask(connection, "/tokenize", Some(body.to_string().into()), LIMIT).await.ok()?;
        let answer: Value = serde_json::from_slice(&answer).ok()?;
        let count = answer["count"].as_u64().filter(|_| status == 200)?;
        counts.push(u32::try_from(count).ok()?);
    }
    Some(counts)
}
