//! Verifying: the endpoint is asked questions with known answers. That it answers says little; a
//! broken kernel, a wrong parser or a wrong template answer as well, and wrongly.

use std::time::Duration;

use serde_json::{Value, json};

use super::StepError;
use crate::host::Host;
use crate::plan::Endpoint;
use crate::profile::Verify;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Most tokens of an answer: enough for a model that thinks at length about a sum.
const MOST_TOKENS: u64 = 2048;

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
) -> Result<Vec<String>, StepError> {
    let most = most_tokens(head, endpoint).await;
    let mut proven = Vec::new();
    if verify.chat {
        chat(head, endpoint, most, "What is the capital of France? Answer with one word.", "paris").await?;
        chat(head, endpoint, most, "What is 17 + 25? Answer with the number only.", "42").await?;
        proven.push("chat".to_owned());
    }
    if verify.reasoning {
        reasoning(head, endpoint, most).await?;
        proven.push("reasoning".to_owned());
    }
    if verify.tools {
        tools(head, endpoint, most).await?;
        proven.push("tool call".to_owned());
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
    let question = "What is 17 + 25? Answer with the number only.";
    let choice = ask(head, endpoint, most, question, None).await?;
    let hint = Some("set `engine.reasoning_parser` to the parser of this model");
    // vLLM to 0.11 and SGLang say `reasoning_content`, newer vLLM `reasoning`.
    let thought = [text(&choice, "reasoning"), text(&choice, "reasoning_content")].concat();
    if text(&choice, "content").contains("<think>") {
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
        let raw =
            ["<tool_call>", "<|tool", "[TOOL_CALLS]", "<function"].iter().any(|mark| content.contains(mark));
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

/// The first choice of a chat completion.
async fn ask(
    head: &dyn Host,
    endpoint: &Endpoint,
    most: u64,
    question: &str,
    tool: Option<Value>,
) -> Result<Value, StepError> {
    let mut body = json!({
        "model": endpoint.model,
        "messages": [{ "role": "user", "content": question }],
        "max_tokens": most,
        "temperature": 0,
    });
    if let Some(tool) = tool {
        body["tools"] = json!([tool]);
        body["tool_choice"] = json!("auto");
    }
    let answer = head.http(endpoint.port, "/v1/chat/completions", Some(&body), LIMIT).await?;
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

/// A text field of the message, trimmed: vLLM leaves line breaks around both answer and reasoning.
fn text(choice: &Value, field: &str) -> String {
    choice["message"][field].as_str().unwrap_or_default().trim().to_owned()
}

fn wrong(question: &str, choice: &Value, why: String, hint: Option<&'static str>) -> StepError {
    let answer = choice["message"].to_string().chars().take(300).collect();
    WrongAnswer { question: question.to_owned(), answer, why, hint }.into()
}
