//! One event of a streamed answer: what it carries, read without more of it than a bench needs. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// What an event says.
#[derive(Debug, Default, PartialEq)]
pub struct Piece<'a> {
    /// A choice: what carries tokens. The last one may be of `usage` alone and have none.
    pub choice: bool,
    /// What of the answer is in it, thought or spoken.
    pub text: Cow<'a, str>,
    /// A tool call, or a part of one.
    pub tool: bool,
    /// The answer ends here.
    pub finished: bool,
    pub usage: Option<Usage>,
    /// The server's words.
    pub error: Option<String>,
}

/// Tokens as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u32>,
}

impl Usage {
    /// Tokens of the prompt that the prefix cache had, where the server tells.
    pub fn cached_tokens(&self) -> Option<u32> {
        self.prompt_tokens_details?.cached_tokens
    }
}

/// A text that is borrowed where nothing in it is escaped; within an `Option` serde borrows no `Cow` by itself.
#[derive(Default, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
    /// An older vLLM tells of errors without `error`.
    #[serde(borrow, default)]
    object: Option<Text<'a>>,
    #[serde(borrow, default)]
    message: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(default)]
    finish_reason: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Text<'a>>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

/// Whether the data is the mark behind the last event.
pub fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

/// What the events of one stream have in common around their text. Most differ in nothing else, and are then told by
/// comparing bytes, which takes a tenth of the time of reading JSON.
#[derive(Debug, Default)]
pub struct Pattern {
    /// Up to and with the quote ahead of the text.
    before: Vec<u8>,
    /// From the quote behind it.
    after: Vec<u8>,
}

impl Pattern {
    /// Reads the data of the next event: the same as [`read`] says of it, in less time.
    pub fn read<'a>(&mut self, data: &'a [u8]) -> Result<Piece<'a>, String> {
        if let Some(text) = self.text(data) {
            return Ok(Piece { choice: true, text: Cow::Borrowed(text), ..Piece::default() });
        }
        let piece = read(data)?;
        self.learn(data, &piece);
        Ok(piece)
    }

    /// The text of an event that has all but its text in common with the one that was learnt.
    pub(super) fn text<'a>(&self, data: &'a [u8]) -> Option<&'a str> {
        if self.before.is_empty() {
            return None;
        }
        let text = data.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // Otherwise the text may end earlier, or mean something else than it says.
        let plain =
            !text.is_empty() && text.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\');
        if plain { std::str::from_utf8(text).ok() } else { None }
    }

    /// Learns from an event that carries a text as it stands, and nothing else.
    fn learn(&mut self, data: &[u8], piece: &Piece<'_>) {
        let alone = !piece.finished && !piece.tool && piece.usage.is_none() && piece.error.is_none();
        let Cow::Borrowed(text) = piece.text else { return };
        let at = text.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        if alone && !text.is_empty() && data.get(at..at + text.len()) == Some(text.as_bytes()) {
            self.before = data[..at].to_vec();
            self.after = data[at + text.len()..].to_vec();
        }
    }
}

/// Reads the data of one event. The error is words.
pub fn read(data: &[u8]) -> Result<Piece<'_>, String> {
    let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|error| {
        let begin: String = String::from_utf8_lossy(data).chars().take(80).collect();
        format!("`{begin}` is no event of this API: {error}")
    })?;
    let mut piece =
        Piece { usage: chunk.usage, error: chunk.error.as_ref().and_then(words), ..Piece::default() };
    if chunk.object.is_some_and(|object| object.0 == "error") && piece.error.is_none() {
        piece.error = Some(
            chunk.message.map_or_else(|| "an error without words".to_owned(), |text| text.0.into_owned()),
        );
    }
    let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) else { return Ok(piece) };
    piece.choice = true;
    piece.finished = choice.finish_reason.is_some();
    let delta = choice.delta.unwrap_or_default();
    piece.tool = delta.tool_calls.is_some_and(|calls| !calls.is_empty());
    let texts = [choice.text, delta.content, delta.reasoning, delta.reasoning_content];
    piece.text =
        texts.into_iter().flatten().map(|text| text.0).find(|text| !text.is_empty()).unwrap_or_default();
    Ok(piece)
}

/// The words of an error: a text, an object with a `message`, or whatever it is. `null` is none.
fn words(error: &Value) -> Option<String> {
    match error {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(
            other.get("message").and_then(Value::as_str).map_or_else(|| other.to_string(), str::to_owned),
        ),
    }
}

/// The words of an error's body, of whatever form; at most 300 characters.
pub fn error_words(body: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(body).ok().and_then(|body| {
        let inner = body.get("error").and_then(words);
        let flat = || ["message", "detail"].iter().find_map(|key| body.get(*key)).and_then(words);
        inner.or_else(flat)
    });
    let text = told.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(300).collect()
}
