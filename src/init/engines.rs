//! How an engine is recognised in what others made: images and command lines. Pure.

use crate::cluster::facts::Image;
use crate::profile::EngineKind;

/// The engine that an image has: as what it begins with says, else its names, else its variables, else its labels.
pub fn of_image(image: &Image) -> Option<EngineKind> {
    of_words(image.entrypoint.iter().chain(&image.command))
        .or_else(|| of_words(&image.references))
        .or_else(|| of_words(image.env.keys()))
        .or_else(|| of_words(image.labels.values()))
}

/// The engine that any of the words names. SGLang first: its images often have parts of vLLM.
pub fn of_words<'a>(words: impl IntoIterator<Item = &'a String>) -> Option<EngineKind> {
    let words: Vec<_> = words.into_iter().map(|word| word.to_lowercase()).collect();
    let named = |name: &str| words.iter().any(|word| word.contains(name));
    if named("sglang") { Some(EngineKind::Sglang) } else { named("vllm").then_some(EngineKind::Vllm) }
}

/// Flags whose values are worth telling and never secret, and the profile's field for each.
const TELLING: &[(&str, &str)] = &[
    ("--max-model-len", "engine.context_length"),
    ("--context-length", "engine.context_length"),
    ("--gpu-memory-utilization", "engine.memory_fraction"),
    ("--mem-fraction-static", "engine.memory_fraction"),
    ("--max-num-seqs", "engine.max_requests"),
    ("--max-running-requests", "engine.max_requests"),
    ("--kv-cache-dtype", "engine.kv_cache_type"),
    ("--quantization", "engine.quantization"),
    ("--reasoning-parser", "engine.reasoning_parser"),
    ("--tool-call-parser", "engine.tool_parser"),
    ("--served-model-name", "serve.name"),
    ("--port", "serve.port"),
];

/// What a command line says in the words of a profile. The words of a shell's `-c` count one by one.
pub fn says(argv: &[String]) -> Vec<(&'static str, String)> {
    let words: Vec<&str> = argv.iter().flat_map(|argument| argument.split_whitespace()).collect();
    let mut says: Vec<(&'static str, String)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (*word, words.get(index + 1).copied()),
        };
        let flag = flag.replace('_', "-");
        let Some((_, field)) = TELLING.iter().find(|(name, _)| *name == flag) else { continue };
        let Some(value) = value.filter(|value| is_plain(value)) else { continue };
        if says.iter().all(|(known, _)| known != field) {
            says.push((field, value.to_owned()));
        }
    }
    says.sort();
    says
}

/// A name or a number, and nothing that could be more.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !value.is_empty() && value.len() <= 64 && !value.starts_with('-') && value.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_in_the_words_of_a_profile() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let cases: &[(&str, &[(&str, &str)])] = &[
            (
                "vllm|serve|/model|--max-model-len|32768|--port=8000|--api-key|sk-secret",
                &[("engine.context_length", "32768"), ("serve.port", "8000")],
            ),
            (
                "bash|-c|vllm serve /model --gpu_memory_utilization 0.8 --tool-call-parser hermes",
                &[("engine.memory_fraction", "0.8"), ("engine.tool_parser", "hermes")],
            ),
            ("python3|-m|sglang.launch_server|--reasoning-parser|--port|30000", &[("serve.port", "30000")]),
            ("vllm|serve|--served-model-name|$(cat /secret)|--port", &[]),
        ];
        for (argv, expected) in cases {
            let said = says(&words(argv));
            let said: Vec<_> = said.iter().map(|(field, value)| (*field, value.as_str())).collect();
            assert_eq!(said, *expected, "{argv}");
        }
    }

    #[test]
    fn the_engine_of_an_image() {
        let cases = [
            ("nvcr.io/nvidia/vllm:25.10-py3", "nvidia_entrypoint.sh", "", Some(EngineKind::Vllm)),
            ("lmsysorg/sglang:spark", "bash", "a build of vllm", Some(EngineKind::Sglang)),
            ("mine:1", "vllm", "stands for vLLM and SGLang", Some(EngineKind::Vllm)),
            ("mine:1", "bash", "vLLM and more", Some(EngineKind::Vllm)),
            ("ubuntu:24.04", "bash", "", None),
        ];
        for (name, command, label, kind) in cases {
            let mut image = crate::init::test_nodes::image(name, command);
            image.labels.insert("description".to_owned(), label.to_owned());
            assert_eq!(of_image(&image), kind, "{name} {command} {label}");
        }
        assert_eq!(of_words(&["vllm".to_owned(), "sglang".to_owned()]), Some(EngineKind::Sglang));
    }
}
