//! What was observed on the nodes: types, parsing of command output (pure), and gathering.

pub mod facts;
pub mod gather;
pub mod parse;
pub mod recorded;
#[cfg(test)]
pub(crate) mod samples;
pub mod software;
