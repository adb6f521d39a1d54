//! End to end on the rig: the binary as its users run it, on nodes with real systemd, sshd, Docker and
//! rsync. `make test` brings the rig up; where it cannot be, these tests fail.
//!
//! The rig is one, so the tests take turns, and each begins from a clean one.

mod bench;
mod check;
mod delivered;
mod deploy;
mod engines;
mod fabric;
mod fetch;
mod hangs;
mod harness;
mod hosts;
mod images;
mod init;
mod kills;
mod launches;
mod real_vllm;
mod refusals;
mod restore;
mod weights;
