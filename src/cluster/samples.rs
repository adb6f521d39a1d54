//! Recorded facts of `tests/data/facts`, for tests of the library.

use super::facts::NodeFacts;

/// The nodes of a recorded cluster: `spark-pair`, `spark-ring`, `spark-switch`, `x86-discrete`.
pub fn sample(name: &str) -> Vec<NodeFacts> {
    let file = format!("{}/tests/data/facts/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}
