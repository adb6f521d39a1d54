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
pub mod page;
pub mod plot;
pub mod prompts;
pub mod result;
pub mod sketch;
pub mod summary;
pub mod table;
pub mod vllm_result;
pub mod workload;

#[cfg(test)]
mod test_reports;
#[cfg(test)]
mod tests;
