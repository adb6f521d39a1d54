//! sparkctl
pub mod profile;
