//! Bench: load on an endpoint, and figures that can be trusted and compared.
//!
//! The words are those of `vllm bench serve`: TTFT, TPOT, ITL, E2EL. Tokens are counted from the server's own `usage`,
//! never from the pieces of a stream.

mod answer;
mod arrival;
mod client;
pub mod compare;
mod counters;
pub mod figure;
pub mod gate;
pub mod load;
pub mod metrics;
pub mod noise;
pub mod notes;
pub mod page;
mod piece;
pub mod plot;
mod prepare;
pub mod prompts;
mod request;
pub mod result;
pub mod sketch;
mod sse;
pub mod summary;
pub mod table;
pub mod vllm_result;
pub mod workload;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use prepare::models;

#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod test_reports;
