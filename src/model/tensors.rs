//! The weights by name and size: from safetensors headers, or from the index that goes with them.
//!
//! A safetensors file begins with eight bytes of length and a JSON object that gives each tensor its type, shape and
//! place; `model.safetensors.index.json` names the file of each tensor and the sum of all. Reading the bytes of the
//! tensors themselves is never needed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Number of dimensions.
    pub dimensions: usize,
}

/// What is known of a checkpoint's size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Bytes of all tensors.
    pub total: u64,
    /// Bytes of those that are only there to guess further tokens, as far as their names tell (`mtp.`).
    #[serde(default)]
    pub drafts: u64,
    /// Each tensor, where the headers were read; empty where only the sum is known.
    pub tensors: Vec<Tensor>,
}

impl Weights {
    /// Only the sum is known.
    pub fn of_bytes(total: u64) -> Self {
        Self { total, ..Self::default() }
    }

    /// All that the headers of a checkpoint's files say together.
    pub fn of_tensors(tensors: Vec<Tensor>) -> Self {
        let sum = |tensors: &mut dyn Iterator<Item = &Tensor>| {
            tensors.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.bytes))
        };
        let total = sum(&mut tensors.iter());
        let drafts = sum(&mut tensors.iter().filter(|tensor| only_guesses(&tensor.name)));
        Self { total, drafts, tensors }
    }
}

/// Whether a tensor, or a part of a model, is only there to guess further tokens, by its name.
pub fn only_guesses(name: &str) -> bool {
    name.split('.').any(|part| part == "mtp")
}

/// The tensors in the header of one safetensors file; an error says what is wrong with it.
pub fn header(text: &str) -> Result<Vec<Tensor>, String> {
    let header: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("the header is not a JSON object: {error}"))?;
    header
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, entry)| {
            let numbers = |key: &str| entry.get(key).and_then(Value::as_array);
            let offsets: Vec<u64> = numbers("data_offsets")
                .map(|list| list.iter().filter_map(Value::as_u64).collect())
                .unwrap_or_default();
            let bytes = match offsets[..] {
                [begin, end] if begin <= end => end - begin,
                _ => return Err(format!("tensor `{name}` has no `data_offsets` that make sense")),
            };
            Ok(Tensor { name: name.clone(), bytes, dimensions: numbers("shape").map_or(0, Vec::len) })
        })
        .collect()
}

/// `metadata.total_size` of `model.safetensors.index.json`: the bytes of all tensors.
pub fn index_total(text: &str) -> Option<u64> {
    let index: Value = serde_json::from_str(text).ok()?;
    let total = index.get("metadata")?.get("total_size")?;
    // Some tools write it as a float.
    total.as_u64().or_else(|| {
        let total = total.as_f64().filter(|total| total.fract() == 0.0 && (0.0..9e15).contains(total))?;
        format!("{total:.0}").parse().ok()
    })
}
