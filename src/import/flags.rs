//! What the flags of the engines mean for a profile, and the words of a command as flags with their values.

use crate::profile::EngineKind;

use super::shell::Word;

/// What a flag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Model,
    ServedName,
    Port,
    Tensor,
    Pipeline,
    Data,
    /// Experts are spread: the flag alone says so.
    Experts,
    /// Over how many GPUs experts are spread.
    ExpertSize,
    Context,
    Memory,
    Requests,
    Quantization,
    KvCache,
    /// Whether prompts that begin alike share their cache.
    Prefix(bool),
    TrustRemoteCode,
    ChatTemplate,
    Reasoning,
    Tool,
    /// Speculative decoding as JSON.
    Speculative,
    SpecMethod,
    SpecTokens,
    SpecModel,
    /// The draft model, where the rest of speculative decoding stays the engine's own words.
    DraftModel,
    Revision,
    /// `ray` or another way to spread over the nodes.
    Backend,
    /// Sparkctl says it itself, for this reason.
    Ours(&'static str),
    /// It cannot be, for this reason.
    Cannot(&'static str),
}

impl Meaning {
    /// Whether a profile has it, so that of two only one can be.
    pub(super) fn is_field(self) -> bool {
        !matches!(self, Self::Ours(_) | Self::Cannot(_) | Self::DraftModel)
    }

    /// Whether the flag stands alone.
    fn is_switch(self) -> bool {
        matches!(self, Self::Experts | Self::Prefix(_) | Self::TrustRemoteCode)
    }
}

const NODES: &str = "sparkctl numbers the nodes in the order of `cluster.nodes`";
const HOST: &str = "the endpoint is on the first of `cluster.nodes`";
const WEIGHTS: &str = "the weights are in `model.path`";
const KEY: &str = "a key is no text of a file: set `serve.api_key` in place of `open: true`";

/// Names without `--` in front and with `-` for `_`; short ones as they are written.
type Row = (&'static [&'static str], Meaning);

const BOTH: &[Row] = &[
    (&["model"], Meaning::Model),
    (&["served-model-name"], Meaning::ServedName),
    (&["port"], Meaning::Port),
    (&["host"], Meaning::Ours(HOST)),
    (&["quantization"], Meaning::Quantization),
    (&["kv-cache-dtype"], Meaning::KvCache),
    (&["trust-remote-code"], Meaning::TrustRemoteCode),
    (&["chat-template"], Meaning::ChatTemplate),
    (&["reasoning-parser"], Meaning::Reasoning),
    (&["tool-call-parser"], Meaning::Tool),
    (&["revision"], Meaning::Revision),
    (&["nnodes", "node-rank"], Meaning::Ours(NODES)),
    (&["download-dir"], Meaning::Ours(WEIGHTS)),
    (&["api-key"], Meaning::Cannot(KEY)),
];

const VLLM: &[Row] = &[
    (&["tensor-parallel-size", "tensor-parallel", "-tp"], Meaning::Tensor),
    (&["pipeline-parallel-size", "pipeline-parallel", "-pp"], Meaning::Pipeline),
    (&["data-parallel-size", "data-parallel", "-dp"], Meaning::Data),
    (&["enable-expert-parallel", "-ep"], Meaning::Experts),
    (&["max-model-len"], Meaning::Context),
    (&["gpu-memory-utilization"], Meaning::Memory),
    (&["max-num-seqs"], Meaning::Requests),
    (&["-q"], Meaning::Quantization),
    (&["enable-prefix-caching"], Meaning::Prefix(true)),
    (&["no-enable-prefix-caching"], Meaning::Prefix(false)),
    (&["speculative-config", "-sc"], Meaning::Speculative),
    (&["spec-method", "speculative-config.method"], Meaning::SpecMethod),
    (&["spec-tokens", "speculative-config.num-speculative-tokens"], Meaning::SpecTokens),
    (&["spec-model", "speculative-config.model"], Meaning::SpecModel),
    (&["distributed-executor-backend"], Meaning::Backend),
    (&["enable-auto-tool-choice"], Meaning::Ours("it is on where `engine.tool_parser` is set")),
    (&["master-addr", "master-port", "headless", "-n", "-r"], Meaning::Ours(NODES)),
    (
        &[
            "data-parallel-address",
            "data-parallel-rpc-port",
            "data-parallel-start-rank",
            "data-parallel-rank",
            "data-parallel-size-local",
            "data-parallel-backend",
        ],
        Meaning::Ours(NODES),
    ),
];

const SGLANG: &[Row] = &[
    (&["model-path"], Meaning::Model),
    (&["tp-size", "tp", "tensor-parallel-size"], Meaning::Tensor),
    (&["pp-size", "pp", "pipeline-parallel-size"], Meaning::Pipeline),
    (&["dp-size", "dp", "data-parallel-size"], Meaning::Data),
    (&["ep-size", "ep", "expert-parallel-size"], Meaning::ExpertSize),
    (&["context-length"], Meaning::Context),
    (&["mem-fraction-static"], Meaning::Memory),
    (&["max-running-requests"], Meaning::Requests),
    (&["disable-radix-cache"], Meaning::Prefix(false)),
    (&["speculative-draft-model-path", "speculative-draft-model"], Meaning::DraftModel),
    (
        &["speculative-draft-model-revision"],
        Meaning::Ours("the draft model is the one that is put into the model's folder"),
    ),
    (&["dist-init-addr", "nccl-init-addr", "nccl-port"], Meaning::Ours(NODES)),
];

/// What a flag of `kind` means; nothing where it is passed on as it is.
pub(super) fn meaning(kind: EngineKind, flag: &str) -> Option<Meaning> {
    let name = match flag.strip_prefix("--") {
        Some(long) => long.replace('_', "-"),
        None => flag.to_owned(),
    };
    let own = match kind {
        EngineKind::Vllm => VLLM,
        EngineKind::Sglang => SGLANG,
    };
    let mut rows = own.iter().chain(BOTH);
    rows.find(|(names, _)| names.contains(&name.as_str())).map(|(_, meaning)| *meaning)
}

/// A flag with what stands behind it, up to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    /// As it is written, without `=value`; empty for words ahead of all flags.
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) values: Vec<Word>,
    /// Whether the first value is joined by `=`.
    pub(super) joined: bool,
    pub(super) meaning: Option<Meaning>,
}

impl Flag {
    /// As it stands in the command.
    pub(super) fn written(&self) -> String {
        let values: Vec<&str> = self.values.iter().map(|word| word.text.as_str()).collect();
        match (self.joined, values.split_first()) {
            (true, Some((first, rest))) => {
                [&[format!("{}={first}", self.name).as_str()], rest].concat().join(" ")
            }
            _ => [&[self.name.as_str()], values.as_slice()].concat().join(" ").trim().to_owned(),
        }
    }

    /// The words that an engine is given for it.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.values.iter().map(|word| word.text.clone()).collect();
        match words.first_mut() {
            Some(first) if self.joined => *first = format!("{}={first}", self.name),
            _ => words.insert(0, self.name.clone()),
        }
        words
    }
}

/// The words behind an engine's name as flags; words that belong to none come first, under an empty name.
pub(super) fn flags(kind: EngineKind, words: &[Word]) -> Vec<Flag> {
    let mut loose = Flag { name: String::new(), line: 0, values: Vec::new(), joined: false, meaning: None };
    let mut flags: Vec<Flag> = Vec::new();
    for word in words {
        if is_flag(&word.text) {
            let (name, value) = match word.text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.text.as_str(), None),
            };
            let values = value.map(|value| Word { text: value.to_owned(), ..word.clone() });
            flags.push(Flag {
                name: name.to_owned(),
                line: word.line,
                joined: values.is_some(),
                values: values.into_iter().collect(),
                meaning: meaning(kind, name),
            });
            continue;
        }
        match flags.last_mut() {
            None => loose.values.push(word.clone()),
            // A switch takes nothing, so the word is the engine's own: the model, as a rule.
            Some(flag) if flag.meaning.is_some_and(Meaning::is_switch) => match truth(&word.text) {
                Some(_) if flag.values.is_empty() => flag.values.push(word.clone()),
                _ => loose.values.push(word.clone()),
            },
            Some(flag) => flag.values.push(word.clone()),
        }
    }
    loose.line = loose.values.first().map_or(0, |word| word.line);
    flags.insert(0, loose);
    flags
}

/// A truth value as engines take it.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

/// A flag, and not a negative number.
pub(super) fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_ascii_alphabetic()))
}

/// The flag that both tools make of a key of `defaults` where a recipe has no command; a truth value is a switch.
pub(super) fn of_default(kind: EngineKind, key: &str) -> String {
    let name = match (kind, key) {
        (EngineKind::Vllm, "tensor_parallel") => "tensor-parallel-size",
        (EngineKind::Vllm, "pipeline_parallel") => "pipeline-parallel-size",
        (EngineKind::Vllm, "data_parallel") => "data-parallel-size",
        (EngineKind::Sglang, "tensor_parallel") => "tp-size",
        (EngineKind::Sglang, "pipeline_parallel") => "pp-size",
        (EngineKind::Sglang, "data_parallel") => "dp-size",
        (EngineKind::Sglang, "gpu_memory_utilization") => "mem-fraction-static",
        (EngineKind::Sglang, "max_model_len") => "context-length",
        (EngineKind::Sglang, "max_num_seqs") => "max-running-requests",
        (EngineKind::Sglang, "chunked_prefill") => "chunked-prefill-size",
        _ => return format!("--{}", key.replace('_', "-")),
    };
    format!("--{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: EngineKind, line: &str, expected: &[(&str, &[&str], Option<Meaning>)]) {
        let words: Vec<Word> =
            line.split(' ').map(|text| Word { text: text.to_owned(), line: 1, shell: None }).collect();
        let found = flags(kind, &words);
        let found: Vec<_> = found
            .iter()
            .map(|flag| {
                let values: Vec<_> = flag.values.iter().map(|word| word.text.as_str()).collect();
                (flag.name.as_str(), values, flag.meaning)
            })
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(name, values, m)| (*name, values.to_vec(), *m)).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn words_become_flags() {
        check(
            EngineKind::Vllm,
            "org/m --port=1 -tp 2 --max_model_len -1 --cuda-sizes 1 2 4",
            &[
                ("", &["org/m"], None),
                ("--port", &["1"], Some(Meaning::Port)),
                ("-tp", &["2"], Some(Meaning::Tensor)),
                ("--max_model_len", &["-1"], Some(Meaning::Context)),
                ("--cuda-sizes", &["1", "2", "4"], None),
            ],
        );
        check(
            EngineKind::Vllm,
            "--trust-remote-code org/m --enable-prefix-caching True --x.y=z",
            &[
                ("", &["org/m"], None),
                ("--trust-remote-code", &[], Some(Meaning::TrustRemoteCode)),
                ("--enable-prefix-caching", &["True"], Some(Meaning::Prefix(true))),
                ("--x.y", &["z"], None),
            ],
        );
        check(
            EngineKind::Sglang,
            "--tp 2 --tp-size 2 --max-model-len 5",
            &[
                ("", &[], None),
                ("--tp", &["2"], Some(Meaning::Tensor)),
                ("--tp-size", &["2"], Some(Meaning::Tensor)),
                ("--max-model-len", &["5"], None),
            ],
        );
    }

    #[test]
    fn flags_are_written_as_they_were() {
        for line in ["--a=1", "--a=1 2", "--a 1 2", "-x", "--a={\"b\":1}"] {
            let words: Vec<Word> =
                line.split(' ').map(|text| Word { text: text.to_owned(), line: 1, shell: None }).collect();
            let flag = &flags(EngineKind::Vllm, &words)[1];
            assert_eq!(flag.written(), line);
            assert_eq!(flag.words().join(" "), line);
        }
    }
}
