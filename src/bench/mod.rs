//! Bench: load on an endpoint, and figures that can be trusted and compared.
//!
//! The words are those of `vllm bench serve`: TTFT, TPOT, ITL, E2EL. Tokens are counted from the server's own `usage`,
//! never from the pieces of a stream.

mod answer;
mod arrival;
mod client;
mod counters;
pub mod load;
pub mod metrics;
pub mod notes;
mod piece;
mod prepare;
pub mod prompts;
mod request;
pub mod result;
mod sse;
pub mod workload;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use prepare::models;
