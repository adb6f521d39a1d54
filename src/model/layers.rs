//! The layers of a model, by what each keeps of the tokens before: attention of one kind or another, a state, nothing.

use serde_json::Value;

use super::Mixer;
use super::config::{Fields, MOST_LAYERS};

/// The layers in their order; what cannot be told goes to `unknown`.
pub(super) fn read(fields: &Fields<'_>, unknown: &mut Vec<String>) -> Vec<Mixer> {
    let kinds = kinds(fields, unknown);
    let layers: Vec<Mixer> = kinds.iter().map(|kind| mixer(kind, fields)).collect();
    let mut strange: Vec<_> = layers
        .iter()
        .filter_map(|layer| match layer {
            Mixer::Unknown { what } => Some(what.as_str()),
            _ => None,
        })
        .collect();
    strange.sort_unstable();
    strange.dedup();
    unknown.extend(strange.into_iter().map(|what| format!("the size of a layer's cache: {what}")));
    layers
}

/// Kinds of layers, in words of their own for what the many families write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Full,
    Windowed,
    Linear,
    Mamba,
    Nothing,
    Strange(String),
}

fn kinds(fields: &Fields<'_>, unknown: &mut Vec<String>) -> Vec<Kind> {
    // Nemotron-H: a letter a layer.
    if let Some(pattern) =
        fields.text("hybrid_override_pattern").filter(|text| text.len() as u64 <= MOST_LAYERS)
    {
        return pattern.chars().map(letter).collect();
    }
    let listed = ["layer_types", "layers_block_type", "attn_layer_types"]
        .iter()
        .find_map(|key| fields.get(key)?.as_array().map(|list| list.iter().map(word).collect::<Vec<_>>()));
    if let Some(listed) = listed.filter(|list| !list.is_empty() && list.len() as u64 <= MOST_LAYERS) {
        return listed;
    }
    let Some(count) = fields.number(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"]) else {
        unknown.push("`num_hidden_layers` is not there".to_owned());
        return Vec::new();
    };
    if count > MOST_LAYERS {
        unknown.push(format!("`num_hidden_layers` is {count}, more than any model has"));
        return Vec::new();
    }
    if let Some(strange) = strange(fields) {
        return vec![Kind::Strange(strange); usize::try_from(count).unwrap_or(0)];
    }
    (0..count).map(|index| by_rule(index, fields)).collect()
}

/// Families whose cache follows no rule that is known here.
fn strange(fields: &Fields<'_>) -> Option<String> {
    const KEYS: &[&str] =
        &["linear_attn_config", "compress_ratios", "hybrid_attention_ratio", "conv_L_cache"];
    let family = fields.model_type();
    if family == "deepseek_v4" {
        return Some(format!("attention of `{family}` compresses by a rule of its own"));
    }
    let list = fields.get("attn_type_list").and_then(Value::as_array);
    if list.is_some_and(|list| list.iter().any(|kind| kind.as_u64() == Some(0))) {
        return Some("`attn_type_list` has lightning attention".to_owned());
    }
    KEYS.iter().find(|key| fields.get(key).is_some()).map(|key| format!("`{key}` of `{family}`"))
}

/// Layer `index` of a model that lists no layers.
fn by_rule(index: u64, fields: &Fields<'_>) -> Kind {
    if let Some(interval) = fields.number(&["full_attention_interval"]) {
        return if (index + 1).is_multiple_of(interval) { Kind::Full } else { Kind::Linear };
    }
    if fields.number(&["sliding_window"]).is_none() || fields.flag("use_sliding_window") == Some(false) {
        return Kind::Full;
    }
    // Gemma 2 and 3 number their full layers.
    if let Some(pattern) = fields.number(&["sliding_window_pattern"]) {
        return if (index + 1).is_multiple_of(pattern) { Kind::Full } else { Kind::Windowed };
    }
    match fields.model_type() {
        "gemma2" => {
            if index.is_multiple_of(2) {
                Kind::Windowed
            } else {
                Kind::Full
            }
        }
        "gemma3" | "gemma3_text" => {
            if (index + 1).is_multiple_of(6) {
                Kind::Full
            } else {
                Kind::Windowed
            }
        }
        // Qwen 2 has full layers first, and windows only above `max_window_layers`.
        _ => match fields.count(&["max_window_layers"]) {
            Some(first) if index < first => Kind::Full,
            _ => Kind::Windowed,
        },
    }
}

fn letter(letter: char) -> Kind {
    match letter {
        'M' => Kind::Mamba,
        '*' => Kind::Full,
        '-' | 'E' | 'O' => Kind::Nothing,
        other => Kind::Strange(format!("`{other}` in `hybrid_override_pattern`")),
    }
}

fn word(kind: &Value) -> Kind {
    match kind.as_str().unwrap_or_default() {
        "full_attention" | "attention" | "global_attention" | "global" => Kind::Full,
        "sliding_attention" | "local_attention" | "chunked_attention" | "sliding" | "local" => Kind::Windowed,
        "linear_attention" => Kind::Linear,
        "mamba" | "mamba2" => Kind::Mamba,
        "moe" | "mlp" => Kind::Nothing,
        _ => Kind::Strange(format!("a layer of type {kind}")),
    }
}

fn mixer(kind: &Kind, fields: &Fields<'_>) -> Mixer {
    let found = match kind {
        Kind::Nothing => Some(Mixer::Nothing),
        Kind::Strange(what) => return Mixer::Unknown { what: what.clone() },
        Kind::Linear => linear(fields),
        Kind::Mamba => mamba(fields),
        Kind::Full => latent(fields).or_else(|| attention(fields, false)),
        Kind::Windowed => attention(fields, true),
    };
    found.unwrap_or_else(|| Mixer::Unknown {
        what: match kind {
            Kind::Linear => "linear attention without its dimensions (`linear_*`)",
            Kind::Mamba => "Mamba without its dimensions (`mamba_*`)",
            Kind::Windowed => "attention without its heads or its window",
            _ => "attention without its heads",
        }
        .to_owned(),
    })
}

/// MLA keeps the latent vector and the rotary part of the key, once for all heads.
fn latent(fields: &Fields<'_>) -> Option<Mixer> {
    let rank = fields.number(&["kv_lora_rank"])?;
    let rope = fields.number(&["qk_rope_head_dim"])?;
    let index = fields.number(&["index_topk"]).and_then(|_| fields.number(&["index_head_dim"]));
    Some(Mixer::Latent { rank, rope, index })
}

fn attention(fields: &Fields<'_>, windowed: bool) -> Option<Mixer> {
    let heads = fields.number(&["num_attention_heads", "n_head", "num_heads"]);
    let hidden = fields.number(&["hidden_size", "n_embd", "d_model"]);
    let one = (fields.flag("multi_query") == Some(true)).then_some(1);
    let mut kv_heads = fields.number(&["num_key_value_heads", "num_kv_heads", "multi_query_group_num"]);
    let mut key = fields.number(&["head_dim", "attention_head_dim", "kv_channels"]);
    // Gemma 4: the few full layers have heads of their own.
    if !windowed {
        kv_heads = fields.number(&["num_global_key_value_heads"]).or(kv_heads);
        key = fields.number(&["global_head_dim"]).or(key);
    }
    let kv_heads = kv_heads.or(one).or(heads)?;
    let key = key.or_else(|| hidden?.checked_div(heads?)).filter(|key| *key > 0)?;
    let window = if windowed {
        Some(fields.number(&["sliding_window", "attention_chunk_size", "sliding_window_size"])?)
    } else {
        None
    };
    Some(Mixer::Attention { kv_heads, key, value: fields.number(&["v_head_dim"]).unwrap_or(key), window })
}

fn linear(fields: &Fields<'_>) -> Option<Mixer> {
    Some(Mixer::Linear {
        key_heads: fields.number(&["linear_num_key_heads"])?,
        value_heads: fields.number(&["linear_num_value_heads"])?,
        key: fields.number(&["linear_key_head_dim"])?,
        value: fields.number(&["linear_value_head_dim"])?,
        kernel: fields.number(&["linear_conv_kernel_dim"])?,
    })
}

fn mamba(fields: &Fields<'_>) -> Option<Mixer> {
    Some(Mixer::Mamba {
        heads: fields.number(&["mamba_num_heads", "mamba_n_heads"])?,
        head: fields.number(&["mamba_head_dim", "mamba_d_head"])?,
        state: fields.number(&["ssm_state_size", "mamba_d_state"])?,
        groups: fields.number(&["n_groups", "mamba_n_groups"])?,
        kernel: fields.number(&["conv_kernel", "mamba_d_conv"])?,
    })
}
