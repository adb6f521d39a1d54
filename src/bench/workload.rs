//! What is sent: how long prompts and answers are, and of what they are made; and how much of it. Pure.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::prompts::Conversation;
use super::result::Load;

/// Which endpoint is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Endpoint {
    #[default]
    Chat,
    Completions,
}

impl Endpoint {
    /// Its path below `/v1`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
        }
    }
}

/// A length in tokens: fixed, or any between two with equal chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    pub least: u32,
    pub most: u32,
}

impl Length {
    /// Always the same.
    pub fn fixed(tokens: u32) -> Self {
        Self { least: tokens, most: tokens }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.least)
        } else {
            write!(f, "{}-{}", self.least, self.most)
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|tokens| *tokens > 0);
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (number(least), number(most)) {
            (Some(least), Some(most)) if least <= most => Ok(Self { least, most }),
            _ => Err("write a number of tokens, or two with `-` between them: `1024`, `512-2048`".to_owned()),
        }
    }
}

/// What requests are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub endpoint: Endpoint,
    /// Tokens of each new part of a prompt; with prompts from a file the file says.
    pub input: Length,
    /// Tokens of each answer; `None` only with prompts from a file: as many as the model likes.
    pub output: Option<Length>,
    /// Tokens that all prompts of a run have in common, ahead of what is their own.
    pub prefix_tokens: u32,
    /// Questions of a conversation; each carries all that was said before it.
    pub turns: u32,
    /// Prompts from a file, taken in turn; empty: built-in text.
    pub prompts: Vec<Conversation>,
    /// Where they are from, for people.
    pub prompts_name: Option<String>,
    /// Of lengths, texts and arrivals: the same seed sends the same but for what keeps the prefix cache out.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::Chat,
            input: Length::fixed(1024),
            output: Some(Length::fixed(256)),
            prefix_tokens: 0,
            turns: 1,
            prompts: Vec::new(),
            prompts_name: None,
            seed: 0,
        }
    }
}

impl fmt::Display for Workload {
    /// Words that tell it from another: two reports compare only where these are equal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = match self.endpoint {
            Endpoint::Chat => "chat",
            Endpoint::Completions => "completions",
        };
        match &self.prompts_name {
            Some(name) => write!(f, "{endpoint}, prompts of {name}")?,
            None => write!(f, "{endpoint}, {} tokens in", self.input)?,
        }
        if self.prefix_tokens > 0 {
            write!(f, " after {} in common", self.prefix_tokens)?;
        }
        if let Some(output) = &self.output {
            write!(f, ", {output} out")?;
        }
        if self.turns > 1 {
            write!(f, ", {} turns", self.turns)?;
        }
        if self.seed != 0 {
            write!(f, ", seed {}", self.seed)?;
        }
        Ok(())
    }
}

/// A whole bench: a workload, at which loads, how often and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub workload: Workload,
    /// In this order.
    pub loads: Vec<Load>,
    /// Requests of a run; `None`: as many as the load needs to be seen, or as `duration` has room for.
    pub requests: Option<u32>,
    /// After so long a run begins no request any more; those under way are waited for.
    pub duration: Option<Duration>,
    /// Runs at each load.
    pub repeat: u32,
    /// Requests ahead of each load's first run that do not count; `None`: as many as the load has at once.
    pub warmup: Option<u32>,
    pub limits: Limits,
}

impl Order {
    /// Requests of a run at a load; `None`: until the time for it is over.
    pub fn requests_of(&self, load: &Load) -> Option<u32> {
        if self.requests.is_some() || self.duration.is_some() {
            return self.requests;
        }
        Some(match load {
            Load::Concurrency(at_once) => at_once.saturating_mul(4).max(8),
            Load::Rate { per_second, .. } => whole_number(per_second * 30.0).clamp(20, 2000),
        })
    }

    /// Requests ahead of a load's first run.
    pub fn warmup_of(&self, load: &Load) -> u32 {
        self.warmup.unwrap_or(match load {
            Load::Concurrency(requests) => *requests,
            Load::Rate { max_concurrency, .. } => max_concurrency.unwrap_or(4).min(4),
        })
    }
}

/// The nearest count that is not below.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is out of range becomes the nearest"
)]
pub(super) fn whole_number(value: f64) -> u32 {
    value.ceil() as u32
}

/// What is waited for, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// Without a byte from the server. The first token of a long prompt may take minutes.
    pub stall: Duration,
    /// For all waits of one request that a server asks for by 429 or 503.
    pub retry: Duration,
    /// For the whole bench; what is under way then is cut.
    pub total: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(300),
            retry: Duration::from_secs(60),
            total: Duration::from_secs(3600),
        }
    }
}
