//! sparkctl puts a large language model on a few GPU machines reached over SSH, and keeps it there.
//!
//! The whole program is one pipeline, and nothing flows back in it:
//!
//! ```text
//! Profile (intent) + Facts (observed) -> Plan (data) -> execute through Host -> Events -> screen, JSON, Release
//! ```
//!
//! The modules, in the order in which they are best read. The crate is a library only so that its
//! binary and tests can share it; its interface makes no promises.

pub mod bench;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod container;
pub mod delivery;
pub mod diagnose;
pub mod engine;
pub mod error;
pub mod event;
pub mod execute;
pub mod fabric;
pub mod guard;
pub mod hooks;
pub mod host;
pub mod import;
pub mod init;
pub mod memory;
pub mod model;
pub mod operation;
pub mod plan;
pub mod profile;
pub mod prune;
pub mod pulse;
pub mod release;
pub mod report;
pub mod status;
pub mod transfer;
