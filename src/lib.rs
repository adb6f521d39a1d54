//! sparkctl
pub mod config;
pub mod profile;
