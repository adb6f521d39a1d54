//! Whether a model fits: what the GPU memory of one rank has to hold, against what a node has. Pure.
//!
//! [`asked`] is what a profile asks for; [`weights`] and [`cache`] compute what one rank of it holds, as the engines do
//! (`docs/memory.md` has the formulas and their sources); [`measured`] is what a release that served took instead;
//! [`budget`] puts them together; [`render`] shows it. What the model's files do not say is not estimated, and that is
//! said.

pub mod asked;
pub mod budget;
pub mod cache;
pub mod measured;
pub mod render;
pub mod seen;
#[cfg(test)]
mod tests;
pub mod weights;

pub use asked::{Asked, CacheType, lifts_limit};
pub use budget::{Budget, Memory, Verdict, budget};
pub use measured::Measured;

/// Bytes of a GiB.
pub const GIB: u64 = 1 << 30;

/// What CUDA sees of a DGX Spark's 128 GB: 121.69 GiB, from start-up messages of vLLM in many reports.
pub const SPARK: u64 = 130_663_642_398;

/// 8 PiB: more than any rank has; sums of absurd settings end somewhere above, and their figures say nothing.
pub const ABSURD: u64 = 1 << 53;

/// Bytes as GiB with two digits, as the engines print them.
pub fn gib(bytes: u64) -> String {
    if bytes >= ABSURD {
        return "over 8 PiB".to_owned();
    }
    format!("{:.2} GiB", as_gib(bytes))
}

/// Bytes as a number of GiB.
#[expect(clippy::cast_precision_loss, reason = "for people to read; exact to a byte up to 8 PiB")]
pub fn as_gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

/// `part` of `bytes`, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a memory size: not negative, and far below 2^53"
)]
pub(crate) fn part(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part.clamp(0.0, 1.0)) as u64
}
