//! `config.json` to a [`Shape`]. Any text is answered: a file that is not JSON with an error, everything else with
//! what could be read and, in words, what could not.

use serde_json::{Map, Value};

use super::{Dtype, Experts, Shape, layers, quantization};

/// Why a text is not a model's configuration at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("config.json is not JSON: {0}")]
    NotJson(String),
    #[error("config.json is not an object, so it is not a model's configuration")]
    NotAnObject,
}

/// More layers than any model has; a larger number is a mistake in the file and would only cost memory here.
pub(super) const MOST_LAYERS: u64 = 10_000;

/// Larger than any dimension of a model; a larger number is taken for none.
const MOST: u64 = 1 << 26;

/// Reads a model's `config.json`.
pub fn read(text: &str) -> Result<Shape, Unreadable> {
    let value: Value = serde_json::from_str(text).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let Value::Object(whole) = value else { return Err(Unreadable::NotAnObject) };
    Ok(shape(&whole))
}

/// The two levels of a configuration: the language part of a multimodal model stands in an object of its own, and
/// some fields only beside it.
pub(super) struct Fields<'a> {
    inner: &'a Map<String, Value>,
    whole: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// A field of the language part.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.inner.get(key).filter(|value| !value.is_null())
    }

    /// The first of `keys` that is a positive number.
    pub(super) fn number(&self, keys: &[&str]) -> Option<u64> {
        self.count(keys).filter(|number| *number > 0)
    }

    /// The first of `keys` that is a number, also zero.
    pub(super) fn count(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|key| self.get(key)?.as_u64().filter(|number| *number <= MOST))
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// A field of the language part, else one beside it.
    fn anywhere(&self, key: &str) -> Option<&'a Value> {
        self.get(key).or_else(|| self.whole.get(key)).filter(|value| !value.is_null())
    }

    /// `model_type` of the language part.
    pub(super) fn model_type(&self) -> &'a str {
        self.text("model_type").or_else(|| self.whole.get("model_type")?.as_str()).unwrap_or_default()
    }
}

fn shape(whole: &Map<String, Value>) -> Shape {
    const INNER: &[&str] = &["text_config", "llm_config", "language_config", "thinker_config"];
    let mut inner = whole;
    // Speech models nest twice: the thinker, and in it the text.
    for _ in 0..2 {
        match INNER.iter().find_map(|key| inner.get(*key)?.as_object()) {
            Some(deeper) => inner = deeper,
            None => break,
        }
    }
    let fields = Fields { inner, whole };
    let mut unknown = Vec::new();
    let layers = layers::read(&fields, &mut unknown);
    let dtype = ["dtype", "torch_dtype"].iter().find_map(|key| Dtype::named(fields.anywhere(key)?.as_str()?));
    let quantized = fields.anywhere("quantization_config").or_else(|| fields.anywhere("compression_config"));
    let shape = Shape {
        architecture: architecture(whole).map(str::to_owned),
        model_type: whole.get("model_type").and_then(Value::as_str).map(str::to_owned),
        layers,
        attention_heads: fields.number(&["num_attention_heads", "n_head", "num_heads"]),
        hidden: fields.number(&["hidden_size", "n_embd", "d_model"]),
        intermediate: fields.number(&["intermediate_size", "n_inner", "ffn_hidden_size"]),
        experts: experts(&fields),
        vocabulary: fields.number(&["vocab_size"]),
        context: context(&fields),
        dtype,
        state_dtype: ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]
            .iter()
            .find_map(|key| Dtype::named(fields.text(key)?)),
        quantization: quantized.and_then(quantization::read),
        draft_layers: draft_layers(&fields),
        multimodal: ["vision_config", "audio_config", "vision_tower"]
            .iter()
            .any(|key| whole.contains_key(*key)),
        unknown,
    };
    said(shape)
}

/// Adds to `unknown` what nothing can be computed without.
fn said(mut shape: Shape) -> Shape {
    let missing = [
        (shape.architecture.is_none(), "`architectures`"),
        (shape.attention_heads.is_none(), "`num_attention_heads`"),
        (shape.hidden.is_none(), "`hidden_size`"),
        (shape.vocabulary.is_none(), "`vocab_size`"),
        (shape.context.is_none(), "`max_position_embeddings`"),
        (shape.dtype.is_none(), "`dtype`"),
    ];
    for (_, what) in missing.into_iter().filter(|(missing, _)| *missing) {
        shape.unknown.push(format!("{what} is not there"));
    }
    shape
}

/// The longest context: the positions, those that `rope_scaling` stretches them to, or the tokenizer's own limit where
/// it stands here; engines take any of them. `llama3` and `longrope` have stretched the positions already.
fn context(fields: &Fields<'_>) -> Option<u64> {
    let positions =
        fields.number(&["max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"])?;
    let scaled = ["rope_scaling", "rope_parameters"].iter().filter_map(|key| {
        let scaling = fields.get(key)?.as_object()?;
        let kind = ["rope_type", "type"].iter().find_map(|key| scaling.get(*key)?.as_str());
        let factor = scaling.get("factor")?.as_f64().filter(|factor| (1.0..1e4).contains(factor))?;
        let own = scaling.get("original_max_position_embeddings").and_then(Value::as_u64);
        let from = own.filter(|own| *own <= MOST).unwrap_or(positions);
        (!matches!(kind, Some("llama3" | "longrope" | "su"))).then(|| stretched(from, factor))
    });
    scaled.chain(fields.number(&["model_max_length"])).chain([positions]).max()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 2^26 positions times 10,000, and not negative"
)]
fn stretched(positions: u64, factor: f64) -> u64 {
    (positions as f64 * factor) as u64
}

fn architecture(whole: &Map<String, Value>) -> Option<&str> {
    whole.get("architectures")?.as_array()?.first()?.as_str()
}

fn experts(fields: &Fields<'_>) -> Option<Experts> {
    let count =
        fields.number(&["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"])?;
    Some(Experts {
        count,
        active: fields.number(&["num_experts_per_tok", "experts_per_token", "moe_top_k", "top_k_experts"]),
        intermediate: fields.number(&[
            "moe_intermediate_size",
            "expert_intermediate_size",
            "intermediate_size",
        ]),
    })
}

/// Layers of multi-token prediction. `num_mtp_modules` of M2 does not count: the weights are not published.
fn draft_layers(fields: &Fields<'_>) -> u64 {
    fields
        .number(&["num_nextn_predict_layers", "mtp_num_hidden_layers", "n_predict"])
        .filter(|layers| *layers <= MOST_LAYERS)
        .unwrap_or(0)
}
