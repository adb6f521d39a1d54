//! Prompts: from a file, or cut from a built-in text to a length in the server's own tokens. Pure.
//!
//! The text is language, so that speculative decoding is measured on what it is for. Each prompt begins with a mark of its
//! own, or the prefix cache would have it from the request before.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;

use super::workload::{Length, Workload};

/// Sixty paragraphs about nothing in particular.
const PROSE: &str = include_str!("prose.txt");
/// What is asked about the text; long answers follow from it.
const TASK: &str = "\n\nTell in your own words, and at length, what each of these paragraphs says.";
/// What is asked in the later turns of a conversation.
const NEXT: &str = "Now go on with this:\n\n";

/// What one client says, turn by turn; what the model answers comes between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Ahead of the first turn, in the role `system`.
    pub system: Option<String>,
    pub turns: Vec<String>,
}

/// A conversation that is to be held, and how long the answers shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub system: Option<String>,
    /// What is said, and the tokens of the answer, where they are asked for.
    pub turns: Vec<(String, Option<u32>)>,
}

/// The built-in text, and how many tokens the server makes of it.
#[derive(Debug, Clone)]
pub struct Text {
    paragraphs: Vec<(&'static str, f64)>,
    /// Tokens that a request has beyond its text: mark, task, and the chat template.
    overhead: f64,
}

impl Text {
    /// The paragraphs, to be counted.
    pub fn paragraphs() -> impl Iterator<Item = &'static str> {
        PROSE.trim_end().split("\n\n")
    }

    /// With a number of tokens for every character, and what a request has beyond its text.
    pub fn by_length(tokens_per_char: f64, overhead: f64) -> Self {
        let counted = Self::paragraphs().map(|text| (text, float(text.len() + 2) * tokens_per_char));
        Self { paragraphs: counted.collect(), overhead: overhead.max(0.0) }
    }

    /// With each paragraph's own count; `None` unless there is one for each.
    pub fn by_count(counts: &[u32], overhead: f64) -> Option<Self> {
        let all: Vec<_> = Self::paragraphs().collect();
        // The break between two paragraphs is a token, nearly always.
        let counted = all.iter().zip(counts).map(|(text, count)| (*text, f64::from(*count) + 1.0));
        let paragraphs: Vec<_> = counted.collect();
        (all.len() == counts.len()).then_some(Self { paragraphs, overhead: overhead.max(0.0) })
    }

    /// Tokens of a text made of the first `count` paragraphs, as this counts them.
    pub fn tokens_of_first(&self, count: usize) -> f64 {
        self.paragraphs.iter().take(count).map(|(_, tokens)| tokens).sum()
    }

    /// The same with another overhead.
    #[must_use]
    pub fn overhead(self, overhead: f64) -> Self {
        Self { overhead: overhead.max(0.0), ..self }
    }

    /// A text of so many tokens: paragraphs in random order, the last one cut behind a word.
    fn cut(&self, tokens: f64, random: &mut SmallRng) -> String {
        let mut left = tokens;
        let mut text = String::new();
        let mut order: Vec<usize> = Vec::new();
        while left > 0.0 {
            if order.is_empty() {
                order = (0..self.paragraphs.len()).collect();
            }
            let (paragraph, count) = self.paragraphs[order.swap_remove(random.random_range(0..order.len()))];
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            if count <= left {
                text.push_str(paragraph);
            } else {
                text.push_str(begin(paragraph, left / count));
            }
            left -= count;
        }
        text
    }
}

/// The begin of a paragraph, as long as that part of it, cut at the nearest end of a word.
fn begin(paragraph: &str, part: f64) -> &str {
    let wanted = float(paragraph.len()) * part;
    let ends = paragraph.match_indices(' ').map(|(at, _)| at).chain([0, paragraph.len()]);
    let far = |end: usize| (float(end) - wanted).abs();
    let nearest = ends.min_by(|a, b| far(*a).total_cmp(&far(*b)));
    &paragraph[..nearest.unwrap_or(0)]
}

/// Makes the conversations of one run.
#[derive(Debug, Clone)]
pub struct Prompts<'a> {
    pub workload: &'a Workload,
    pub text: &'a Text,
    /// In front of all that is sent in this run: no other run, of this bench or another, has it.
    pub mark: &'a str,
}

impl Prompts<'_> {
    /// The conversation at this place of a run. The same seed and place give the same, but for the mark.
    pub fn script(&self, place: u64) -> Script {
        let workload = self.workload;
        let mut random = random(workload.seed, place);
        let own = format!("Request {}-{place}.", self.mark);
        let front = if workload.prefix_tokens > 0 {
            // The same for all of the run.
            let prefix =
                self.text.cut(f64::from(workload.prefix_tokens), &mut self::random(workload.seed, u64::MAX));
            format!("Run {}.\n\n{prefix}\n\n{own}", self.mark)
        } else {
            own
        };
        let answer = |random: &mut SmallRng| workload.output.as_ref().map(|length| pick(*length, random));
        if !workload.prompts.is_empty() {
            let count = workload.prompts.len() as u64;
            let given = &workload.prompts[usize::try_from(place % count).unwrap_or(0)];
            let most = usize::try_from(workload.turns).unwrap_or(usize::MAX).max(1);
            let mut turns: Vec<_> =
                given.turns.iter().take(most).map(|turn| (turn.clone(), answer(&mut random))).collect();
            let system = given.system.as_ref().map(|system| format!("{front}\n\n{system}"));
            if system.is_none()
                && let Some((first, _)) = turns.first_mut()
            {
                *first = format!("{front}\n\n{first}");
            }
            return Script { system, turns };
        }
        let mut turns = Vec::new();
        for turn in 0..workload.turns.max(1) {
            let wanted = f64::from(pick(workload.input, &mut random));
            let said = if turn == 0 {
                let text = self.text.cut((wanted - self.text.overhead).max(1.0), &mut random);
                format!("{front}\n\n{text}{TASK}")
            } else {
                format!("{NEXT}{}", self.text.cut((wanted - 6.0).max(1.0), &mut random))
            };
            turns.push((said, answer(&mut random)));
        }
        Script { system: None, turns }
    }
}

/// A text of the first `count` paragraphs, dressed as a prompt: by its tokens the server's way of counting is learnt.
pub fn sample(mark: &str, count: usize) -> String {
    let text: Vec<_> = Text::paragraphs().take(count).collect();
    format!("Request {mark}-0.\n\n{}{TASK}", text.join("\n\n"))
}

fn random(seed: u64, place: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn pick(length: Length, random: &mut SmallRng) -> u32 {
    random.random_range(length.least..=length.most.max(length.least))
}

#[expect(clippy::cast_precision_loss, reason = "a text is far shorter than 2^52 bytes")]
fn float(length: usize) -> f64 {
    length as f64
}

/// One entry of a file.
#[derive(Deserialize)]
struct Entry {
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    /// As `ShareGPT` has them.
    conversations: Option<Vec<Said>>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    from: String,
    value: String,
}

/// Conversations of a file: `ShareGPT`'s JSON list, or a JSON document a line with `prompt`, `messages` or `conversations`.
/// What models said in them is left out. The error is words, with the place.
pub fn read(text: &str) -> Result<Vec<Conversation>, String> {
    let mut all = Vec::new();
    if text.trim_start().starts_with('[') {
        let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (index, entry) in entries.into_iter().enumerate() {
            all.extend(conversation(entry).map_err(|why| format!("entry {}: {why}", index + 1))?);
        }
    } else {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = |why: String| format!("line {}: {why}", index + 1);
            let entry: Entry = serde_json::from_str(line).map_err(|error| place(error.to_string()))?;
            all.extend(conversation(entry).map_err(place)?);
        }
    }
    if all.is_empty() { Err("there is no prompt in it".to_owned()) } else { Ok(all) }
}

/// What the user of an entry says; `None` where that is nothing.
fn conversation(entry: Entry) -> Result<Option<Conversation>, String> {
    let mut found = Conversation { system: None, turns: Vec::new() };
    match entry {
        Entry { prompt: Some(prompt), .. } => found.turns.push(prompt),
        Entry { messages: Some(messages), .. } => {
            for message in messages {
                match message.role.as_str() {
                    "system" | "developer" => found.system = message.content,
                    "user" => found.turns.extend(message.content),
                    _ => {}
                }
            }
        }
        Entry { conversations: Some(said), .. } => {
            for said in said {
                match said.from.as_str() {
                    "system" => found.system = Some(said.value),
                    "human" | "user" => found.turns.push(said.value),
                    _ => {}
                }
            }
        }
        _ => return Err("neither `prompt`, `messages` nor `conversations`".to_owned()),
    }
    found.turns.retain(|turn| !turn.trim().is_empty());
    Ok((!found.turns.is_empty()).then_some(found))
}
