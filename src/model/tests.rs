//! Configurations of the field, read; and every parser's name, held against the engines' own lists.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::parsers::{families, family, own_drafts};
use super::{Dtype, Mixer, Scheme, Shape, config, tensors};
use crate::profile::EngineKind;

fn shape(name: &str) -> Shape {
    let path = format!("{}/tests/data/models/{name}/config.json", env!("CARGO_MANIFEST_DIR"));
    config::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn read(value: &Value) -> Shape {
    config::read(&value.to_string()).unwrap()
}

/// The layers in short: how many of which kind.
fn layers(shape: &Shape) -> String {
    let mut runs: Vec<(String, u32)> = Vec::new();
    for layer in &shape.layers {
        let word = match layer {
            Mixer::Attention { kv_heads, key, window: None, .. } => format!("full {kv_heads}x{key}"),
            Mixer::Attention { kv_heads, key, window: Some(window), .. } => {
                format!("{window} {kv_heads}x{key}")
            }
            Mixer::Latent { rank, rope, index } => {
                format!("latent {rank}+{rope}{}", if index.is_some() { " sparse" } else { "" })
            }
            Mixer::Linear { key_heads, value_heads, .. } => format!("linear {key_heads}/{value_heads}"),
            Mixer::Mamba { heads, state, .. } => format!("mamba {heads}x{state}"),
            Mixer::Nothing => "-".to_owned(),
            Mixer::Unknown { .. } => "?".to_owned(),
        };
        match runs.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => runs.push((word, 1)),
        }
    }
    runs.iter().map(|(word, count)| format!("{count}: {word}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_layers_of_the_field() {
    #[rustfmt::skip]
    let cases = [
        ("llama-3.3-70b-fp8", "80: full 8x128"),
        ("qwen3-coder-30b-a3b-fp8", "48: full 4x128"),
        ("mixtral-8x7b", "32: full 8x128"),
        ("minimax-m2", "62: full 8x128"),
        ("gpt-oss-120b", "18: 128 8x64, 18: full 8x64"),
        ("gemma-4-26b-a4b", "25: 1024 8x256, 5: full 2x512"),
        ("glm-4.7-flash", "47: latent 512+64"),
        ("deepseek-v3.2", "61: latent 512+64 sparse"),
        ("deepseek-v4-flash", "43: ?"),
        ("qwen3.5-122b-a10b-fp8", "36: linear 16/64, 12: full 2x256"),
        ("qwen3.5-35b-a3b", "30: linear 16/32, 10: full 2x256"),
        ("qwen3-coder-next-fp8", "36: linear 16/32, 12: full 2x256"),
        ("nemotron-3-nano-nvfp4", "23: mamba 64x128, 23: -, 6: full 2x128"),
        ("nemotron-3-super-nvfp4", "40: mamba 128x128, 40: -, 8: full 2x128"),
    ];
    for (name, expected) in cases {
        assert_eq!(layers(&shape(name)), expected, "{name}");
    }
}

#[test]
fn other_ways_to_write_layers() {
    let base = |more: Value| {
        let mut config = json!({ "num_hidden_layers": 6, "num_attention_heads": 8, "hidden_size": 1024, "num_key_value_heads": 2 });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        layers(&read(&config))
    };
    #[rustfmt::skip]
    let cases = [
        (json!({}), "6: full 2x128"),
        (json!({ "sliding_window": 4096, "model_type": "mistral" }), "6: 4096 2x128"),
        (json!({ "sliding_window": 4096, "use_sliding_window": false }), "6: full 2x128"),
        (json!({ "sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 4 }), "4: full 2x128, 2: 4096 2x128"),
        (json!({ "sliding_window": 512, "sliding_window_pattern": 3 }), "4: 512 2x128, 2: full 2x128"),
        (json!({ "sliding_window": 512, "model_type": "gemma2" }), "3: 512 2x128, 3: full 2x128"),
        (json!({ "multi_query": true, "num_key_value_heads": null }), "6: full 1x128"),
        (json!({ "num_key_value_heads": null }), "6: full 8x128"),
        (json!({ "layer_types": ["full_attention", "strange"] }), "1: full 2x128, 1: ?"),
        (json!({ "hybrid_override_pattern": "M-*" }), "1: ?, 1: -, 1: full 2x128"),
        (json!({ "attn_type_list": [0, 1, 0, 1, 0, 1] }), "6: ?"),
    ];
    for (more, expected) in cases {
        assert_eq!(base(more.clone()), expected, "{more}");
    }
}

#[test]
fn the_rest_of_a_configuration() {
    let shape = shape("qwen3.5-122b-a10b-fp8");
    assert_eq!(shape.architecture.as_deref(), Some("Qwen3_5MoeForConditionalGeneration"));
    assert_eq!(shape.model_type.as_deref(), Some("qwen3_5_moe"));
    assert_eq!(
        (shape.attention_heads, shape.hidden, shape.vocabulary),
        (Some(32), Some(3072), Some(248_320))
    );
    assert_eq!((shape.context, shape.dtype), (Some(262_144), Some(Dtype::Bfloat16)));
    assert_eq!(shape.state_dtype, Some(Dtype::Float32));
    let experts = shape.experts.as_ref().unwrap();
    assert_eq!((experts.count, experts.active, experts.intermediate), (256, Some(8), Some(1024)));
    let quantization = shape.quantization.as_ref().unwrap();
    assert_eq!((quantization.scheme, quantization.block), (Scheme::Fp8, Some((128, 128))));
    assert_eq!((shape.draft_layers, shape.multimodal, &shape.unknown[..]), (1, true, &[][..]));
    assert_eq!(shape.kv_heads(), Some(2));
}

#[test]
fn quantisations() {
    #[rustfmt::skip]
    let cases = [
        (json!({ "quant_method": "mxfp4" }), Scheme::Mxfp4, false),
        (json!({ "quant_method": "awq", "bits": 4 }), Scheme::Int4, false),
        (json!({ "quant_method": "gptq", "bits": 8 }), Scheme::Int8, false),
        (json!({ "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8" }), Scheme::Nvfp4, true),
        (json!({ "quant_method": "modelopt", "quant_algo": "FP8" }), Scheme::Fp8, false),
        (json!({ "quant_method": "compressed-tensors", "config_groups": { "group_0": { "weights": { "num_bits": 4, "type": "int" } } } }), Scheme::Int4, false),
        (json!({ "quant_method": "compressed-tensors", "kv_cache_scheme": { "num_bits": 8 }, "config_groups": { "group_0": { "weights": { "num_bits": 8, "type": "float" } } } }), Scheme::Fp8, true),
        (json!({ "quant_method": "exl3" }), Scheme::Other, false),
    ];
    for (quantization, scheme, fp8_cache) in cases {
        let read = read(&json!({ "quantization_config": quantization })).quantization.unwrap();
        assert_eq!((read.scheme, read.fp8_cache), (scheme, fp8_cache), "{quantization}");
    }
    assert_eq!(read(&json!({ "quantization_config": {} })).quantization, None);
}

#[test]
fn rope_scaling_makes_the_context_longer() {
    #[rustfmt::skip]
    let cases = [
        (json!({}), 40_960),
        (json!({ "rope_scaling": { "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768 } }), 131_072),
        (json!({ "rope_parameters": { "rope_type": "linear", "factor": 2 } }), 81_920),
        (json!({ "rope_scaling": { "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192 } }), 40_960),
        (json!({ "rope_scaling": { "type": "mrope" }, "model_max_length": 65_536 }), 65_536),
    ];
    for (mut config, expected) in cases {
        config["max_position_embeddings"] = json!(40_960);
        assert_eq!(read(&config).context, Some(expected), "{config}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let shape = read(&json!({}));
    for what in
        ["num_hidden_layers", "architectures", "num_attention_heads", "hidden_size", "vocab_size", "dtype"]
    {
        assert!(shape.unknown.iter().any(|line| line.contains(what)), "{what}: {:?}", shape.unknown);
    }
    assert!(!shape.known_layers());
    assert!(config::read("[]").unwrap_err().to_string().contains("not an object"));
    assert!(config::read("{").unwrap_err().to_string().starts_with("config.json is not JSON: "));
}

#[test]
fn headers_and_indexes() {
    let header = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}}"#;
    let weights = tensors::Weights::of_tensors(tensors::header(header).unwrap());
    assert_eq!((weights.total, weights.tensors.len(), weights.tensors[0].dimensions), (16, 2, 2));
    for bad in ["[]", "", r#"{"a": {}}"#, r#"{"a": {"data_offsets": [5, 1]}}"#] {
        tensors::header(bad).unwrap_err();
    }
    assert_eq!(tensors::index_total(r#"{"metadata": {"total_size": 42}}"#), Some(42));
    assert_eq!(tensors::index_total(r#"{"metadata": {"total_size": 42.0}}"#), Some(42));
    assert_eq!(tensors::index_total(r#"{"metadata": {}}"#), None);
}

/// Names that vLLM registers: `vllm/reasoning/__init__.py` and `vllm/tool_parsers/__init__.py`, read at 0064cc9.
const VLLM_REASONING: &str = "cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 ernie45 gemma4 glm45 glm47 \
    granite holo2 hunyuan_a13b hy_v3 inkling kimi_k2 kimi_k3 mimo minimax_m2 minimax_m2_append_think minimax_m3 mistral \
    nemotron_v3 olmo3 openai_gptoss poolside_v1 qwen3 seed_oss solar_open2 step3 step3p5";
const VLLM_TOOLS: &str = "apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 ernie45 \
    functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hunyuan_a13b hy_v3 inkling internlm \
    jamba kimi_k2 kimi_k3 lfm2 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral \
    olmo3 openai phi4_mini_json poolside_v1 pythonic qwen3_coder qwen3_xml seed_oss solar_open2 step3 step3p5 xlam";
/// Names that SGLang registers: `DetectorMap` of `parser/reasoning_parser.py` at 002e9bf, and `ToolCallParserEnum` of
/// `function_call/function_call_parser.py` at 00828e5.
const SGLANG_REASONING: &str = "apertus2509 cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss hunyuan \
    inkling interns1 kimi kimi_k2 kimi_k3 mimo minimax minimax-append-think minimax-m3 mistral nemotron_3 poolside_v1 qwen3 \
    qwen3-thinking step3 step3p5 telechat4";
const SGLANG_TOOLS: &str = "apertus2509 cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 dots gemma4 gigachat3 \
    gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3 mimo \
    minicpm5 minimax-m2 minimax-m3 mistral muse poolside_v1 pythonic qwen qwen25 qwen3_coder spark25 step3 step3p5 trinity";

#[test]
fn every_parser_is_one_that_its_engine_has() {
    let names = |text: &'static str| text.split_whitespace().collect::<BTreeSet<_>>();
    let known = [
        (EngineKind::Vllm, names(VLLM_REASONING), names(VLLM_TOOLS)),
        (EngineKind::Sglang, names(SGLANG_REASONING), names(SGLANG_TOOLS)),
    ];
    for family in families() {
        for (engine, reasoning, tools) in &known {
            let parsers = family.parsers(*engine);
            if let Some(name) = parsers.reasoning {
                assert!(
                    reasoning.contains(name),
                    "{engine:?} has no reasoning parser `{name}` ({})",
                    family.name
                );
            }
            if let Some(name) = parsers.tools {
                assert!(tools.contains(name), "{engine:?} has no tool parser `{name}` ({})", family.name);
            }
        }
    }
}

#[test]
fn families_are_told_by_architecture_and_name() {
    #[rustfmt::skip]
    let cases = [
        ("qwen3-coder-30b-a3b-fp8", "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "Qwen3-Coder"),
        ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", "Qwen3"),
        ("qwen3-30b-a3b", "/models/Qwen3-30B-A3B-Instruct-2507", "Qwen3 Instruct"),
        ("qwen3-30b-a3b", "Qwen3-30B-A3B-Thinking-2507", "Qwen3 Thinking"),
        ("qwen3-coder-next-fp8", "Qwen/Qwen3-Coder-Next-FP8", "Qwen3-Coder-Next"),
        ("qwen3.5-122b-a10b-fp8", "anything", "Qwen3.5"),
        ("glm-4.7-flash", "zai-org/GLM-4.7-Flash", "GLM-4.7-Flash"),
        ("gpt-oss-120b", "openai/gpt-oss-120b", "gpt-oss"),
        ("minimax-m2", "MiniMaxAI/MiniMax-M2.5", "MiniMax-M2"),
        ("deepseek-v4-flash", "deepseek-ai/DeepSeek-V4-Flash", "DeepSeek-V4"),
        ("nemotron-3-super-nvfp4", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "Nemotron 3"),
        ("llama-3.3-70b-fp8", "nvidia/Llama-3.3-70B-Instruct-FP8", "Llama 3"),
        ("llama-3.3-70b-fp8", "NousResearch/Hermes-3-Llama-3.1-70B", "Hermes"),
    ];
    for (config, name, expected) in cases {
        assert_eq!(family(&shape(config), name).map(|family| family.name), Some(expected), "{name}");
    }
    // Many use Llama's architecture; a name that says nothing gives nothing.
    assert_eq!(family(&shape("llama-3.1-8b"), "my-own-model"), None);
    assert_eq!(family(&Shape::default(), "Qwen3"), None);
}

#[test]
fn drafts_of_ones_own() {
    let cases = [
        ("qwen3.5-122b-a10b-fp8", true),
        ("glm-4.7-flash", true),
        ("minimax-m2", false),
        ("gpt-oss-120b", false),
    ];
    for (name, has) in cases {
        assert_eq!(own_drafts(&shape(name)), has.then_some("mtp"), "{name}");
    }
}

/// Any JSON, with the keys that are looked for more often than chance would have it.
fn any_json() -> impl Strategy<Value = Value> {
    const KEYS: &[&str] = &[
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_size",
        "layer_types",
        "hybrid_override_pattern",
        "full_attention_interval",
        "sliding_window",
        "sliding_window_pattern",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "text_config",
        "quantization_config",
        "architectures",
        "model_type",
        "dtype",
        "num_experts",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
        "mamba_num_heads",
        "mamba_head_dim",
        "ssm_state_size",
        "n_groups",
        "conv_kernel",
        "index_topk",
        "index_head_dim",
        "max_position_embeddings",
        "vocab_size",
        "num_nextn_predict_layers",
        "v_head_dim",
        "moe_intermediate_size",
        "quant_method",
        "weight_block_size",
        "config_groups",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..100_u64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[M*E-]{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "full_attention",
            "sliding_attention",
            "linear_attention",
            "mamba",
            "mxfp4",
            "bfloat16"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 64, 40, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(prop::sample::select(KEYS), inner, 0..40).prop_map(|map| {
                Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        let _ = config::read(&text);
        let _ = tensors::header(&text);
        let _ = tensors::index_total(&text);
    }

    /// Whatever is read can be computed with, too, at any cut.
    #[test]
    fn any_json_is_read_and_computed_with(
        value in any_json(), tensor in 1..9_u64, pipeline in 1..9_u64, drafts in 0..5_u64, sglang: bool,
    ) {
        use crate::memory::{Asked, CacheType, Memory, budget};
        let Ok(shape) = config::read(&value.to_string()) else { return Ok(()) };
        let asked = Asked {
            engine: if sglang { EngineKind::Sglang } else { EngineKind::Vllm },
            tensor, pipeline, expert_parallel: false, fraction: 0.8, context: shape.context.unwrap_or(4096), limit: shape.context.unwrap_or(4096),
            requests: 256, batched: 8192, cache: CacheType::Sixteen, cache_bytes: None, state: Dtype::Float32,
            conv: Dtype::Bfloat16, prefix_caching: true, draft_tokens: drafts, own_drafts: drafts > 0, graphs: true,
            assumed: Vec::new(),
        };
        let budget = budget(&shape, Some(&tensors::Weights::of_bytes(1 << 36)), &asked, Memory::spark());
        prop_assert!(budget.limit <= budget.memory.total);
        let _ = family(&shape, "Qwen3");
    }
}
