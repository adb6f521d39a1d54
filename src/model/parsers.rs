//! Which parsers an engine needs for a model: of reasoning and of tool calls; and whether it can guess tokens by itself.
//!
//! The architecture decides, and where it does not (one architecture, several ways to write a tool call) the name does.
//! Names are the engines' own: a test holds every one of them against the lists that the engines register. Sources:
//! vLLM's documentation ("Tool Calling", "Reasoning Outputs") with `vllm/reasoning` and `vllm/tool_parsers`; SGLang's
//! `reasoning_parser.py` and `function_call_parser.py`; model cards where those name no model.

use serde::Serialize;

use super::Shape;
use crate::profile::EngineKind;

/// The parsers of one engine for a model; `None`: the model has no such thing, or the engine no parser for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parsers {
    pub reasoning: Option<&'static str>,
    pub tools: Option<&'static str>,
}

/// A family of models that write alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Family {
    /// What people call it.
    pub name: &'static str,
    pub vllm: Parsers,
    pub sglang: Parsers,
}

impl Family {
    /// The parsers of `engine`.
    pub fn parsers(&self, engine: EngineKind) -> Parsers {
        match engine {
            EngineKind::Vllm => self.vllm,
            EngineKind::Sglang => self.sglang,
        }
    }
}

/// The family of a model, by its configuration and its name (a path's last part or a source will do); `None` where
/// it is not known here.
pub fn family(shape: &Shape, name: &str) -> Option<&'static Family> {
    let name = name.to_lowercase();
    let types = [shape.architecture.as_deref(), shape.model_type.as_deref()];
    ROWS.iter()
        .find(|row| {
            let known = types.iter().flatten().any(|own| row.types.contains(own));
            known && (row.words.is_empty() || row.words.iter().any(|word| name.contains(word)))
        })
        .map(|row| &row.family)
}

/// The method of speculative decoding with the model's own further layers, in the profile's word; `None` where it has
/// none.
pub fn own_drafts(shape: &Shape) -> Option<&'static str> {
    (shape.draft_layers > 0).then_some("mtp")
}

/// All families, once for each way to be told apart.
pub fn families() -> impl Iterator<Item = &'static Family> {
    ROWS.iter().map(|row| &row.family)
}

/// How a family is told: by architecture or model type, and by a word in the name where `words` has any.
struct Row {
    types: &'static [&'static str],
    words: &'static [&'static str],
    family: Family,
}

const fn row(
    types: &'static [&'static str],
    words: &'static [&'static str],
    name: &'static str,
    vllm: [&'static str; 2],
    sglang: [&'static str; 2],
) -> Row {
    Row { types, words, family: Family { name, vllm: parsers(vllm), sglang: parsers(sglang) } }
}

/// Reasoning and tools; an empty name stands for none.
const fn parsers(names: [&'static str; 2]) -> Parsers {
    const fn some(name: &'static str) -> Option<&'static str> {
        if name.is_empty() { None } else { Some(name) }
    }
    Parsers { reasoning: some(names[0]), tools: some(names[1]) }
}

const QWEN3: &[&str] = &["Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "qwen3", "qwen3_moe"];
const QWEN3_NEXT: &[&str] = &["Qwen3NextForCausalLM", "qwen3_next"];
const QWEN2: &[&str] = &["Qwen2ForCausalLM", "qwen2"];
const GLM4_MOE: &[&str] = &["Glm4MoeForCausalLM", "glm4_moe"];
const DEEPSEEK_V3: &[&str] = &["DeepseekV3ForCausalLM", "deepseek_v3"];
const LLAMA: &[&str] = &["LlamaForCausalLM", "llama"];

/// The first that fits counts: rows with words stand before the row of the same types without.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    row(QWEN3, &["coder"], "Qwen3-Coder", ["", "qwen3_coder"], ["", "qwen3_coder"]),
    row(QWEN3, &["instruct-2507"], "Qwen3 Instruct", ["", "hermes"], ["", "qwen"]),
    row(QWEN3, &["thinking"], "Qwen3 Thinking", ["qwen3", "hermes"], ["qwen3-thinking", "qwen"]),
    row(QWEN3, &[], "Qwen3", ["qwen3", "hermes"], ["qwen3", "qwen"]),
    row(QWEN3_NEXT, &["coder"], "Qwen3-Coder-Next", ["", "qwen3_coder"], ["", "qwen3_coder"]),
    row(QWEN3_NEXT, &["instruct"], "Qwen3-Next Instruct", ["", "hermes"], ["", "qwen"]),
    row(QWEN3_NEXT, &[], "Qwen3-Next Thinking", ["qwen3", "hermes"], ["qwen3-thinking", "qwen"]),
    row(
        &["Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5ForCausalLM",
          "Qwen3_5MoeForCausalLM", "qwen3_5", "qwen3_5_moe"],
        &[], "Qwen3.5", ["qwen3", "qwen3_coder"], ["qwen3", "qwen3_coder"],
    ),
    row(QWEN2, &["qwq"], "QwQ", ["deepseek_r1", "hermes"], ["deepseek-r1", "qwen"]),
    row(QWEN2, &["r1-distill"], "DeepSeek-R1 distilled", ["deepseek_r1", ""], ["deepseek-r1", ""]),
    row(QWEN2, &["qwen"], "Qwen2.5", ["", "hermes"], ["", "qwen"]),
    row(GLM4_MOE, &["4.7", "4-7"], "GLM-4.7", ["glm45", "glm47"], ["glm45", "glm47"]),
    row(GLM4_MOE, &[], "GLM-4.5", ["glm45", "glm45"], ["glm45", "glm"]),
    row(&["Glm4MoeLiteForCausalLM", "glm4_moe_lite"], &[], "GLM-4.7-Flash", ["glm45", "glm47"], ["glm45", "glm47"]),
    row(&["GlmMoeDsaForCausalLM", "glm_moe_dsa"], &[], "GLM-5", ["glm45", "glm47"], ["glm45", "glm47"]),
    // Kimi-K2 has DeepSeek's architecture, and a model type of its own.
    row(&["kimi_k2"], &["thinking"], "Kimi-K2 Thinking", ["kimi_k2", "kimi_k2"], ["kimi_k2", "kimi_k2"]),
    row(&["kimi_k2"], &[], "Kimi-K2", ["", "kimi_k2"], ["", "kimi_k2"]),
    row(&["KimiK25ForConditionalGeneration", "kimi_k25"], &[], "Kimi-K2.5", ["kimi_k2", "kimi_k2"], ["kimi_k2", "kimi_k2"]),
    row(DEEPSEEK_V3, &["kimi"], "Kimi-K2", ["", "kimi_k2"], ["", "kimi_k2"]),
    row(DEEPSEEK_V3, &["r1"], "DeepSeek-R1", ["deepseek_r1", "deepseek_v3"], ["deepseek-r1", "deepseekv3"]),
    row(DEEPSEEK_V3, &["v3.1"], "DeepSeek-V3.1", ["deepseek_v3", "deepseek_v31"], ["deepseek-v3", "deepseekv31"]),
    row(DEEPSEEK_V3, &[], "DeepSeek-V3", ["", "deepseek_v3"], ["", "deepseekv3"]),
    row(&["DeepseekV32ForCausalLM", "deepseek_v32"], &[], "DeepSeek-V3.2", ["deepseek_v3", "deepseek_v32"], ["deepseek-v3", "deepseekv32"]),
    row(&["DeepseekV4ForCausalLM", "deepseek_v4"], &[], "DeepSeek-V4", ["deepseek_v4", "deepseek_v4"], ["deepseek-v4", "deepseekv4"]),
    row(&["GptOssForCausalLM", "gpt_oss"], &[], "gpt-oss", ["openai_gptoss", "openai"], ["gpt-oss", "gpt-oss"]),
    row(&["MiniMaxM2ForCausalLM", "minimax_m2"], &[], "MiniMax-M2", ["minimax_m2", "minimax_m2"], ["minimax", "minimax-m2"]),
    row(LLAMA, &["r1-distill"], "DeepSeek-R1 distilled", ["deepseek_r1", ""], ["deepseek-r1", ""]),
    row(LLAMA, &["hermes"], "Hermes", ["", "hermes"], ["", "hermes"]),
    // The architecture is shared by many; only Meta's own are written like this.
    row(LLAMA, &["llama-3", "llama3"], "Llama 3", ["", "llama3_json"], ["", "llama3"]),
    row(&["Llama4ForConditionalGeneration", "llama4"], &[], "Llama 4", ["", "llama4_pythonic"], ["", "pythonic"]),
    row(&["MistralForCausalLM", "Mistral3ForConditionalGeneration", "MistralLarge3ForCausalLM", "mistral", "mistral3"],
        &["magistral", "reasoning"], "Magistral", ["mistral", "mistral"], ["mistral", "mistral"]),
    row(&["MistralForCausalLM", "MixtralForCausalLM", "Mistral3ForConditionalGeneration", "MistralLarge3ForCausalLM",
          "mistral", "mixtral", "mistral3"],
        &["mistral", "mixtral", "devstral", "codestral"], "Mistral", ["", "mistral"], ["", "mistral"]),
    row(&["NemotronHForCausalLM", "nemotron_h"], &["nemotron-3", "nemotron-cascade-2"], "Nemotron 3",
        ["nemotron_v3", "qwen3_coder"], ["nemotron_3", "qwen3_coder"]),
    row(&["Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "gemma4"], &[], "Gemma 4", ["gemma4", "gemma4"], ["gemma4", "gemma4"]),
    row(&["Gemma3ForCausalLM", "gemma3_text"], &["functiongemma"], "FunctionGemma", ["", "functiongemma"], ["", ""]),
    row(&["Gemma3ForConditionalGeneration", "Gemma3ForCausalLM", "gemma3", "gemma3_text"], &[], "Gemma 3", ["", "pythonic"], ["", "pythonic"]),
    row(&["SeedOssForCausalLM", "seed_oss"], &[], "Seed-OSS", ["seed_oss", "seed_oss"], ["", ""]),
    row(&["Olmo3ForCausalLM", "olmo3"], &[], "OLMo 3", ["olmo3", "olmo3"], ["", ""]),
    row(&["GraniteMoeHybridForCausalLM", "granitemoehybrid"], &[], "Granite 4", ["", "granite4"], ["", ""]),
    row(&["HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"], &[], "Hunyuan-A13B", ["hunyuan_a13b", "hunyuan_a13b"], ["hunyuan", "hunyuan"]),
    row(&["Ernie4_5_MoeForCausalLM", "ernie4_5_moe"], &["thinking"], "ERNIE-4.5 Thinking", ["ernie45", "ernie45"], ["", ""]),
];
