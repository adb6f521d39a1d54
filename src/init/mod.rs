//! From machines to a profile: what is on the nodes, which addresses are the fabric, and the profile that follows.
//!
//! All here is pure: `cli/init.rs` connects, gathers and writes.

pub mod fabric;
#[cfg(test)]
mod test_nodes;
