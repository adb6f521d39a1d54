//! The words of engines by version: parsers, quantisations, types of the KV cache. Pure.
//!
//! A plugin may add words, and a build its own, so an unknown word is told and never refused.

use super::{EngineKind, Ruled, Version, ruled};
use crate::profile::Profile;

/// Releases of vLLM whose words were read.
const READ: [Version; 4] = [Version(0, 11, 2), Version(0, 13, 0), Version(0, 20, 2), Version(0, 33, 0)];

/// Words, space between them; the first of [`READ`] that has them, and the first that has them no more.
type Row = (usize, usize, &'static str);
const STAY: usize = READ.len();

const REASONING: &[Row] = &[
    (
        0,
        STAY,
        "deepseek_r1 deepseek_v3 ernie45 glm45 granite hunyuan_a13b kimi_k2 minimax_m2 minimax_m2_append_think mistral \
         olmo3 openai_gptoss qwen3 seed_oss step3",
    ),
    (1, STAY, "holo2"),
    (2, STAY, "deepseek_v4 gemma4 hy_v3 mimo nemotron_v3 step3p5"),
    (
        3,
        STAY,
        "beam cohere_command3 cohere_command4 deepseek_v41 glm47 granite_thinking_parser hf hy_v4 inkling k2_horizon \
         kimi_k3 ling3 minicpmv minimax_m3 muse muse_glimmer plamo3 poolside_v1 step5",
    ),
];

const TOOLS: &[Row] = &[
    (
        0,
        STAY,
        "deepseek_v3 deepseek_v31 ernie45 glm45 granite granite-20b-fc hermes hunyuan_a13b internlm jamba kimi_k2 \
         llama3_json llama4_json llama4_pythonic longcat minimax_m2 mistral olmo3 openai phi4_mini_json pythonic \
         qwen3_coder qwen3_xml seed_oss step3 xlam",
    ),
    (0, 3, "minimax"),
    (1, STAY, "deepseek_v32 gigachat3"),
    (2, STAY, "deepseek_v4 functiongemma gemma4 glm47 granite4 hy_v3 mimo step3p5"),
    (
        3,
        STAY,
        "apertus beam cohere_command3 cohere_command4 deepseek_v41 dots hf hy_v4 inkling k2_horizon kimi_k3 lfm2 ling3 \
         minicpm5 minimax_m3 muse muse_glimmer plamo3 poolside_v1 qwen3_json step5",
    ),
];

const QUANTIZATION: &[Row] = &[
    (
        0,
        STAY,
        "awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 gptq_marlin awq_marlin gptq compressed-tensors experts_int8 \
         quark moe_wna16 torchao inc mxfp4",
    ),
    (
        0,
        2,
        "deepspeedfp tpu_int8 ptpc_fp8 bitblas gptq_marlin_24 gptq_bitblas hqq ipex auto-round rtn petit_nvfp4",
    ),
    (0, 3, "gguf bitsandbytes"),
    (1, 3, "cpu_awq"),
    (
        2,
        STAY,
        "modelopt_mxfp8 modelopt_mixed humming gpt_oss_mxfp4 deepseek_v4_fp8 online fp8_per_tensor fp8_per_block \
         int8_per_channel_weight_only mxfp8",
    ),
    (3, STAY, "auto_awq auto_gptq fp8_per_channel nvfp4_per_token"),
];

const CACHE: &[Row] = &[
    (0, STAY, "auto bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla"),
    (
        2,
        STAY,
        "float16 turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc int8_per_token_head \
         fp8_per_token_head nvfp4",
    ),
    (3, STAY, "nvfp4_ds_mla ultraquant_4bit int4_per_token_head nvfp4_4over6"),
];

/// The main ones of `SGLang` 0.5.23: a word that is not here may still be one.
const SGLANG_REASONING: &str = "deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 glm45 gpt-oss kimi kimi_k2 kimi_k3 qwen3 qwen3-thinking minimax \
     minimax-append-think minimax-m3 mistral nemotron_3 gemma4 step3 step3p5 mimo hunyuan ling3 interns1 \
     granite_thinking_parser apertus2509 cohere_command4 poolside_v1";
const SGLANG_TOOLS: &str = "deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 glm glm45 glm47 gpt-oss kimi_k2 kimi_k3 llama3 mistral \
     pythonic qwen qwen25 qwen3_coder minimax-m2 minimax-m3 hermes gemma4 mimo step3 step3p5 interns1 hunyuan lfm2 \
     minicpm5 gigachat3 gigachat35 cohere_command4";

/// Whether a release has a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Has {
    Yes,
    No,
    /// It lies between two releases that were read, or after the last one.
    Unknown,
}

pub(super) fn has(rows: &[Row], word: &str, version: Version) -> Has {
    let Some((first, gone, _)) = rows.iter().find(|(.., words)| words.split(' ').any(|known| known == word))
    else {
        return if version <= READ[READ.len() - 1] { Has::No } else { Has::Unknown };
    };
    let before = first.checked_sub(1).map(|index| READ[index]);
    if version >= READ[*first] {
        match READ.get(*gone) {
            Some(gone) if version >= *gone => Has::No,
            Some(_) if version > READ[gone - 1] => Has::Unknown,
            _ => Has::Yes,
        }
    } else if before.is_some_and(|before| version <= before) {
        Has::No
    } else {
        Has::Unknown
    }
}

/// A field, its word, the words of vLLM and of `SGLang`, and whether a plugin may bring more.
type Field<'a> = (&'a str, Option<&'a String>, &'a [Row], &'a str, bool);

/// Words of the profile that this version does not know.
pub(super) fn check(profile: &Profile, version: Version) -> Vec<Ruled> {
    let engine = &profile.engine;
    let plugin = |flag: &str| engine.args.iter().any(|arg| arg.starts_with(flag));
    let fields: [Field; 4] = [
        (
            "reasoning_parser",
            engine.reasoning_parser.as_ref(),
            REASONING,
            SGLANG_REASONING,
            plugin("--reasoning-parser-plugin"),
        ),
        ("tool_parser", engine.tool_parser.as_ref(), TOOLS, SGLANG_TOOLS, plugin("--tool-parser-plugin")),
        ("quantization", engine.quantization.as_ref(), QUANTIZATION, "", false),
        ("kv_cache_type", engine.kv_cache_type.as_ref(), CACHE, "", false),
    ];
    let mut found = Vec::new();
    for (field, word, rows, of_sglang, has_plugin) in fields {
        let Some(word) = word.filter(|_| !has_plugin) else { continue };
        let known: Vec<&str> = match engine.kind {
            EngineKind::Vllm if has(rows, word, version) == Has::No => {
                let all = rows.iter().flat_map(|(.., words)| words.split(' '));
                all.filter(|known| has(rows, known, version) != Has::No).collect()
            }
            EngineKind::Sglang if !of_sglang.split(' ').any(|known| known == word) => {
                // The list is not whole: only a slip of the pen is told.
                of_sglang.split(' ').filter(|known| strsim::damerau_levenshtein(known, word) < 3).collect()
            }
            EngineKind::Vllm | EngineKind::Sglang => continue,
        };
        let near = known.iter().min_by_key(|known| strsim::damerau_levenshtein(known, word));
        let near = near.filter(|near| strsim::jaro_winkler(near, word) > 0.8);
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if engine.kind == EngineKind::Sglang => continue,
            None => {
                "its own list is in its error at the start; a plugin or a build may have added it".to_owned()
            }
        };
        let message = format!("{} {version} knows no `{word}`", engine.kind);
        found.push(ruled("engine-word", false, &format!("engine.{field}"), message, hint));
    }
    found
}
