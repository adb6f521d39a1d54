//! Streams, figures and prompts by themselves, and the whole load against a server with every fault.

mod faults;
mod figures;
mod prompts;
mod server;
mod streams;
