//! From machines to a profile: what is on the nodes, which addresses are the fabric, and the profile that follows.
//!
//! [`look`] asks the machines; all else is pure: [`survey`] is what to tell of a node, [`fabric`] chooses the addresses,
//! [`pick`] model and image, [`settings`] what the engine is told, [`draft`] makes the profile of it, and [`write`] the
//! file. Nothing is taken silently: of several none is, unless a person names it.

pub mod draft;
mod engines;
pub mod fabric;
pub mod look;
pub mod pick;
pub mod render;
pub mod settings;
pub mod survey;
#[cfg(test)]
mod test_nodes;
#[cfg(test)]
mod tests;
pub mod write;
