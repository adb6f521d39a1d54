//! Verifying: the endpoint is asked questions with known answers. That it answers says little; a
//! broken kernel, a wrong parser or a wrong template answer as well, and wrongly.

use std::time::Duration;

use serde_json::{Value, json};

use super::StepError;
use crate::event::{Event, Events, Rung};
use crate::host::Host;
use crate::plan::{Endpoint, StageKind};
use crate::profile::Verify;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Most tokens of an answer: enough for a model that thinks at length about a sum.
const MOST_TOKENS: u64 = 2048;

const CHAT: &str = "/v1/chat/completions";
const CAPITAL: &str = "What is the capital of France? Answer with one word.";
const SUM: &str = "What is 17 + 25? Answer with the number only.";
/// How raw tool calls begin, of the families that engines have parsers for.
const RAW_CALLS: [&str; 7] = [
    "<tool_call>",
    "<|tool",
    "[TOOL_CALLS]",
    "<function",
    "<minimax:tool_call>",
    "<|python_tag|>",
    "to=functions.",
];

/// An answer that is not right.
#[derive(Debug, thiserror::Error)]
#[error("asked {question:?}, the model answered {answer:?}: {why}")]
pub struct WrongAnswer {
    pub question: String,
    /// The first 300 characters.
    pub answer: String,
    pub why: String,
    pub hint: Option<&'static str>,
}

/// Asks what `verify` wants asked; returns what was proven.
pub(super) async fn verify(
    head: &dyn Host,
    endpoint: &Endpoint,
    verify: &Verify,
    events: &Events,
    stage: StageKind,
) -> Result<Vec<String>, StepError> {
    let most = most_tokens(head, endpoint).await;
    let mut proven = Vec::new();
    let mut prove = async |rung: Rung| {
        proven.push(rung.to_string());
        events.tell(Event::Reached { stage, rung, detail: None }).await;
    };
    if verify.chat {
        chat(head, endpoint, most, CAPITAL, "paris").await?;
        chat(head, endpoint, most, SUM, "42").await?;
        prove(Rung::Chat).await;
    }
    if verify.reasoning {
        reasoning(head, endpoint, most).await?;
        prove(Rung::Reasoning).await;
    }
    if verify.tools {
        tools(head, endpoint, most).await?;
        prove(Rung::ToolCall).await;
    }
    if verify.stream {
        stream(head, endpoint, most).await?;
        prove(Rung::Stream).await;
    }
    Ok(proven)
}

/// Half of the context, where the endpoint tells its length and it is short.
async fn most_tokens(head: &dyn Host, endpoint: &Endpoint) -> u64 {
    let Ok(answer) = head.http(endpoint.port, "/v1/models", None, LIMIT).await else { return MOST_TOKENS };
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let context =
        body["data"].as_array().into_iter().flatten().find(|model| model["id"] == endpoint.model.as_str());
    context
        .and_then(|model| model["max_model_len"].as_u64())
        .map_or(MOST_TOKENS, |length| MOST_TOKENS.min(length / 2))
}

async fn chat(
    head: &dyn Host,
    endpoint: &Endpoint,
    most: u64,
    question: &str,
    wanted: &str,
) -> Result<(), StepError> {
    let choice = ask(head, endpoint, most, question, None).await?;
    let content = text(&choice, "content");
    let fault = |why: String, hint| wrong(question, &choice, why, hint);
    if content.contains("<think>") || content.contains("</think>") {
        let hint = Some("set `engine.reasoning_parser` to the parser of this model");
        // Without a parser the thought is in the answer by design; the answer is what comes after it.
        let answer = content.rsplit("</think>").next().unwrap_or_default();
        if !answer.to_lowercase().contains(wanted) {
            return Err(fault(format!("`{wanted}` is not in it, and its reasoning is"), hint));
        }
        return Ok(());
    }
    if content.to_lowercase().contains(wanted) {
        return Ok(());
    }
    if choice["finish_reason"] == "length" {
        return Err(fault(format!("it was cut off after {most} tokens, before the answer"), None));
    }
    Err(fault(
        format!("`{wanted}` is not in it"),
        Some("the weights, the quantisation or the chat template may be wrong for this engine"),
    ))
}

async fn reasoning(head: &dyn Host, endpoint: &Endpoint, most: u64) -> Result<(), StepError> {
    let question = SUM;
    let choice = ask(head, endpoint, most, question, None).await?;
    let hint = Some("set `engine.reasoning_parser` to the parser of this model");
    // vLLM to 0.11 and SGLang say `reasoning_content`, newer vLLM `reasoning`.
    let thought = [text(&choice, "reasoning"), text(&choice, "reasoning_content")].concat();
    if ["<think>", "</think>"].iter().any(|mark| text(&choice, "content").contains(mark)) {
        return Err(wrong(question, &choice, "the reasoning is in the answer".to_owned(), hint));
    }
    if thought.is_empty() {
        return Err(wrong(question, &choice, "there is no reasoning beside the answer".to_owned(), hint));
    }
    Ok(())
}

async fn tools(head: &dyn Host, endpoint: &Endpoint, most: u64) -> Result<(), StepError> {
    let question = "What is the weather in Paris?";
    let tool = json!({ "type": "function", "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": {
            "type": "object",
            "properties": { "city": { "type": "string", "description": "City name" } },
            "required": ["city"],
        },
    }});
    let choice = ask(head, endpoint, most, question, Some(tool)).await?;
    let call = &choice["message"]["tool_calls"][0]["function"];
    let hint = Some("set `engine.tool_parser` to the parser of this model");
    let fault = |why: &str| Err(wrong(question, &choice, why.to_owned(), hint));
    if call.is_null() {
        let content = text(&choice, "content");
        let raw = RAW_CALLS.iter().any(|mark| content.contains(mark));
        return fault(if raw { "the tool call is raw markup in the answer" } else { "no tool was called" });
    }
    if call["name"] != "get_weather" {
        return fault("another tool was called than the one there is");
    }
    let arguments: Option<Value> =
        call["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
    match arguments.as_ref().and_then(|arguments| arguments["city"].as_str()) {
        Some(city) if city.to_lowercase().contains("paris") => {}
        Some(_) => return fault("the tool was called for another city"),
        None => return fault("the arguments of the tool call are not JSON with a `city`"),
    }
    if choice["finish_reason"] != "tool_calls" {
        return fault("finish_reason is not `tool_calls`");
    }
    Ok(())
}

/// An answer comes in pieces, with its end, and at last with the number of its tokens: what a chat window and every count
/// of tokens rest on.
async fn stream(head: &dyn Host, endpoint: &Endpoint, most: u64) -> Result<(), StepError> {
    let mut body = request(endpoint, most, CAPITAL);
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    let answer = head.http(endpoint.port, CHAT, Some(&body), LIMIT).await?;
    let raw = String::from_utf8_lossy(&answer.body);
    let why = match answer.status {
        200 => stream_fault(&raw, "paris"),
        status => Some(format!("HTTP {status}")),
    };
    let Some(why) = why else { return Ok(()) };
    // Its end says most.
    let skipped = raw.chars().count().saturating_sub(300);
    let question = format!("{CAPITAL} (as a stream)");
    Err(WrongAnswer { question, answer: raw.chars().skip(skipped).collect(), why, hint: None }.into())
}

/// What is wrong with a stream of server-sent events, if anything is.
fn stream_fault(raw: &str, wanted: &str) -> Option<String> {
    let pieces: Vec<_> = raw.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
    let Some(("[DONE]", pieces)) = pieces.split_last().map(|(last, before)| (*last, before)) else {
        return Some("the stream has no end (`[DONE]`)".to_owned());
    };
    let mut said = String::new();
    let (mut finished, mut tokens) = (false, 0);
    for piece in pieces {
        let Ok(piece) = serde_json::from_str::<Value>(piece) else {
            return Some("a piece of the stream is not JSON".to_owned());
        };
        said.push_str(piece["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        finished |= piece["choices"][0]["finish_reason"].is_string();
        tokens = piece["usage"]["completion_tokens"].as_u64().unwrap_or(tokens);
    }
    match tokens {
        _ if !said.to_lowercase().contains(wanted) => Some(format!("`{wanted}` is not in it")),
        _ if !finished => Some("no piece of it says why the answer ended".to_owned()),
        0 => Some("it does not say how many tokens the answer had (`usage`)".to_owned()),
        _ => None,
    }
}

/// The first choice of a chat completion.
async fn ask(
    head: &dyn Host,
    endpoint: &Endpoint,
    most: u64,
    question: &str,
    tool: Option<Value>,
) -> Result<Value, StepError> {
    let mut body = request(endpoint, most, question);
    if let Some(tool) = tool {
        body["tools"] = json!([tool]);
        body["tool_choice"] = json!("auto");
    }
    let answer = head.http(endpoint.port, CHAT, Some(&body), LIMIT).await?;
    let raw = || String::from_utf8_lossy(&answer.body).chars().take(300).collect::<String>();
    let refused = |why: String| WrongAnswer { question: question.to_owned(), answer: raw(), why, hint: None };
    if answer.status != 200 {
        return Err(refused(format!("HTTP {}", answer.status)).into());
    }
    let body: Value =
        serde_json::from_slice(&answer.body).map_err(|error| refused(format!("not JSON: {error}")))?;
    match body["choices"][0].clone() {
        Value::Null => Err(refused("no choice in it".to_owned()).into()),
        choice => Ok(choice),
    }
}

fn request(endpoint: &Endpoint, most: u64, question: &str) -> Value {
    json!({
        "model": endpoint.model,
        "messages": [{ "role": "user", "content": question }],
        "max_tokens": most,
        "temperature": 0,
    })
}

/// A text field of the message, trimmed: vLLM leaves line breaks around both answer and reasoning.
fn text(choice: &Value, field: &str) -> String {
    choice["message"][field].as_str().unwrap_or_default().trim().to_owned()
}

fn wrong(question: &str, choice: &Value, why: String, hint: Option<&'static str>) -> StepError {
    let answer = choice["message"].to_string().chars().take(300).collect();
    WrongAnswer { question: question.to_owned(), answer, why, hint }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_an_answer_an_end_and_a_count() {
        const PARIS: &str = r#"{"choices":[{"delta":{"content":"Par"}}]}
{"choices":[{"delta":{"content":"is"},"finish_reason":"stop"}]}
{"choices":[],"usage":{"completion_tokens":2}}
[DONE]"#;
        let check = |pieces: &str, wanted: Option<&str>| {
            let raw = format!("data: {}\n\n", pieces.replace('\n', "\n\ndata: "));
            let fault = stream_fault(&raw, "paris");
            assert_eq!(fault.is_some(), wanted.is_some(), "{fault:?}: {pieces}");
            assert!(fault.unwrap_or_default().contains(wanted.unwrap_or_default()), "{pieces}");
        };
        check(PARIS, None);
        // The usage may come with every piece, and null before the last.
        check(&PARIS.replacen("}]}\n", "}],\"usage\":null}\n", 1), None);
        check(PARIS.trim_end_matches("\n[DONE]"), Some("no end"));
        check("", Some("no end"));
        check(&PARIS.replace("Par", "Lond"), Some("`paris` is not in it"));
        check(
            &PARIS.replace("\"finish_reason\":\"stop\"", "\"finish_reason\":null"),
            Some("why the answer ended"),
        );
        check(&PARIS.replace("\"completion_tokens\":2", "\"completion_tokens\":0"), Some("`usage`"));
        check(&PARIS.replace("\n{\"choices\":[],\"usage\":{\"completion_tokens\":2}}", ""), Some("`usage`"));
        check(&PARIS.replacen('{', "", 1), Some("not JSON"));
    }
}
