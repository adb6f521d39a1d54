//! The engine's flags, gathered into the fields of a profile; what is no field stays an argument.

use serde_json::{Map, Value};

use crate::engine::MODEL_TARGET;
use crate::profile::EngineKind;

use super::flags::{self, Flag, Meaning};
use super::model::is_hub;
use super::recipe::Placed;
use super::report::Report;
use super::template::UNKNOWN;

/// What the command says, not yet a profile.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) model: Option<Placed>,
    pub(super) served: Option<Placed>,
    pub(super) port: Option<Placed>,
    pub(super) tensor: Option<u32>,
    pub(super) pipeline: Option<u32>,
    pub(super) data: Option<u32>,
    pub(super) experts: bool,
    pub(super) context: Option<u32>,
    pub(super) memory: Option<f64>,
    pub(super) requests: Option<u32>,
    pub(super) quantization: Option<Placed>,
    pub(super) kv_cache: Option<Placed>,
    pub(super) prefix: Option<bool>,
    pub(super) trust_remote_code: bool,
    pub(super) chat_template: Option<Placed>,
    pub(super) reasoning: Option<Placed>,
    pub(super) tool: Option<Placed>,
    pub(super) revision: Option<Placed>,
    pub(super) backend: Option<Placed>,
    /// Speculative decoding, under the names that vLLM gives its JSON.
    pub(super) speculative: Map<String, Value>,
    pub(super) speculative_line: usize,
    /// What is passed on, with its lines.
    pub(super) args: Vec<Flag>,
}

impl Draft {
    /// Gathers `flags`; each is a field, an argument, or in the report.
    pub(super) fn gather(kind: EngineKind, all: Vec<Flag>, report: &mut Report) -> Self {
        let mut draft = Self::default();
        let partitions = kind == EngineKind::Sglang
            && all.iter().any(|flag| flag.name.replace('_', "-") == "--enable-dp-attention");
        let mut seen: Vec<(Meaning, usize, String)> = Vec::new();
        for flag in all {
            if let Some(meaning) = flag.meaning.filter(|meaning| meaning.is_field()) {
                let written = flag.written();
                // Both switches of a thing say the same thing.
                let same = |other: &Meaning| {
                    *other == meaning || matches!((other, meaning), (Meaning::Prefix(_), Meaning::Prefix(_)))
                };
                for (_, line, before) in seen.extract_if(.., |(other, _, _)| same(other)) {
                    if before != written {
                        report.spare(line, before, "it is given again, and the last counts");
                    }
                }
                seen.push((meaning, flag.line, written));
            }
            if flag.name.is_empty() {
                draft.positional(&flag, report);
            } else if let Some(why) = no_value(&flag) {
                report.lose(flag.line, flag.written(), why);
            } else if partitions && flag.meaning == Some(Meaning::Data) {
                // With attention by data, the size cuts the tensor ranks up and asks for no more of them.
                draft.args.push(flag);
            } else if let Some(meaning) = flag.meaning {
                draft.take(kind, flag, meaning, report);
            } else {
                of_the_hub(&flag, report);
                draft.args.push(flag);
            }
        }
        draft
    }

    fn positional(&mut self, loose: &Flag, report: &mut Report) {
        for (index, word) in loose.values.iter().enumerate() {
            if index == 0 {
                self.model = Some(Placed { text: word.text.clone(), line: word.line });
            } else {
                report.lose(word.line, &word.text, "it stands behind the model, and belongs to no flag");
            }
        }
    }

    fn take(&mut self, kind: EngineKind, flag: Flag, meaning: Meaning, report: &mut Report) {
        let line = flag.line;
        let written = flag.written();
        match meaning {
            Meaning::Ours(why) => return report.spare(line, written, why),
            Meaning::Cannot(why) => return report.lose(line, flag.name, why),
            Meaning::Experts => return self.experts = truth(&flag),
            Meaning::Prefix(on) => return self.prefix = Some(on == truth(&flag)),
            Meaning::TrustRemoteCode => return self.trust_remote_code = truth(&flag),
            _ => {}
        }
        let Some(word) = flag.values.first() else {
            return report.lose(line, written, "the value is missing");
        };
        let value = Placed { text: word.text.trim().to_owned(), line };
        for more in &flag.values[1..] {
            let why = if meaning == Meaning::ServedName {
                "a profile has one name for the model"
            } else {
                "it belongs to no flag"
            };
            report.lose(more.line, &more.text, why);
        }
        let text = value.text.as_str();
        let fits = match meaning {
            Meaning::Model => put(&mut self.model, value),
            Meaning::ServedName => put(&mut self.served, value),
            Meaning::Port => put(&mut self.port, value),
            Meaning::Tensor => number(&mut self.tensor, text),
            Meaning::Pipeline => number(&mut self.pipeline, text),
            Meaning::Data if kind == EngineKind::Sglang => {
                if text != "1" {
                    report.lose(line, &written, "SGLang has no copies of a model over several nodes");
                }
                true
            }
            Meaning::Data => number(&mut self.data, text),
            Meaning::ExpertSize => whole(text).map(|size| self.experts = size > 1).is_some(),
            Meaning::Context => {
                let own = ["auto", "-1"].contains(&text);
                if own {
                    report.spare(line, &written, "left out, it is what the engine makes of the model");
                }
                own || number(&mut self.context, text)
            }
            Meaning::Memory => {
                let part = text.parse().ok().filter(|part: &f64| *part > 0.0 && *part <= 1.0);
                self.memory = part.or(self.memory);
                part.is_some()
            }
            Meaning::Requests => number(&mut self.requests, text),
            Meaning::Quantization => put(&mut self.quantization, value),
            Meaning::KvCache if text == "auto" => {
                report.spare(line, &written, "it is what the engine does where nothing is said");
                true
            }
            Meaning::KvCache => put(&mut self.kv_cache, value),
            Meaning::ChatTemplate => put(&mut self.chat_template, value),
            Meaning::Reasoning => put(&mut self.reasoning, value),
            Meaning::Tool => put(&mut self.tool, value),
            Meaning::Revision => put(&mut self.revision, value),
            Meaning::Backend => put(&mut self.backend, value),
            Meaning::Speculative => {
                self.speculative_line = line;
                let json = serde_json::from_str::<Map<String, Value>>(text);
                json.map(|json| self.speculative.extend(json)).is_ok()
            }
            Meaning::SpecMethod => self.speculate(line, "method", text.into()),
            Meaning::SpecTokens => match whole(text) {
                Some(tokens) => self.speculate(line, "num_speculative_tokens", tokens.into()),
                None => false,
            },
            Meaning::SpecModel => self.speculate(line, "model", text.into()),
            Meaning::DraftModel => false,
            Meaning::Ours(_)
            | Meaning::Cannot(_)
            | Meaning::Experts
            | Meaning::Prefix(_)
            | Meaning::TrustRemoteCode => true,
        };
        if !fits {
            self.args.push(flag);
        }
    }

    fn speculate(&mut self, line: usize, key: &str, value: Value) -> bool {
        self.speculative_line = line;
        self.speculative.insert(key.to_owned(), value);
        true
    }
}

fn put(field: &mut Option<Placed>, value: Placed) -> bool {
    *field = Some(value);
    true
}

fn number(field: &mut Option<u32>, text: &str) -> bool {
    let number = whole(text).filter(|number| *number > 0);
    *field = number.or(*field);
    number.is_some()
}

/// A whole number as engines take it: `32768`, `262_144`, `32k` (thousands), `1M` (powers of two).
fn whole(text: &str) -> Option<u32> {
    let text = text.replace('_', "");
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1000.0),
        (at, 'm') => (&text[..at], 1_000_000.0),
        (at, 'K') => (&text[..at], 1024.0),
        (at, 'M') => (&text[..at], 1_048_576.0),
        _ => return text.parse().ok(),
    };
    let number = digits.parse::<f64>().ok()? * unit;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked on the same line")]
    (number >= 1.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
}

/// What an engine would fetch, and cannot: its containers ask no Hub.
fn of_the_hub(flag: &Flag, report: &mut Report) {
    const FETCHED: &[&str] = &["--tokenizer", "--tokenizer-path", "--hf-config-path"];
    let name = flag.name.replace('_', "-");
    let is_of_the_hub = flag.values.first().is_some_and(|value| is_hub(&value.text));
    if is_of_the_hub && FETCHED.contains(&name.as_str()) {
        report.ask(format!(
            "line {}: `{}` is of the Hub, and containers do not ask it: put it into the model's folder, and name it \
             as `{MODEL_TARGET}/...`",
            flag.line,
            flag.written()
        ));
    }
}

fn truth(flag: &Flag) -> bool {
    flag.values.first().and_then(|word| flags::truth(&word.text)).unwrap_or(true)
}

/// Why a flag has no value that could be carried.
fn no_value(flag: &Flag) -> Option<String> {
    flag.values.iter().find_map(|word| {
        if let Some(shell) = &word.shell {
            return Some(format!("`{shell}` is known only in the container: write the whole value"));
        }
        let (_, name) = word.text.split_once(UNKNOWN[0])?;
        let name = name.split(UNKNOWN[1]).next().unwrap_or(name);
        Some(format!("`{{{name}}}` has no value in `defaults`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_engines_take_them() {
        for (text, number) in [
            ("32768", Some(32_768)),
            ("262_144", Some(262_144)),
            ("32k", Some(32_000)),
            ("1M", Some(1_048_576)),
            ("1.5K", Some(1536)),
            ("auto", None),
            ("", None),
            ("k", None),
            ("-1", None),
            ("9999999999", None),
            ("1e99k", None),
        ] {
            assert_eq!(whole(text), number, "{text}");
        }
    }
}
