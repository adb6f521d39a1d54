//! Bench: load on an endpoint, and figures that can be trusted and compared.
//!
//! The words are those of `vllm bench serve`: TTFT, TPOT, ITL, E2EL. Tokens are counted from the server's own `usage`,
//! never from the pieces of a stream.

pub mod compare;
pub mod figure;
pub mod gate;
pub mod load;
pub mod metrics;
pub mod noise;
pub mod prompts;
pub mod result;
pub mod summary;
pub mod workload;
