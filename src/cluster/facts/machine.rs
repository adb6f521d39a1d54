//! The machine itself: system, clock, the user there, processes, sshd.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Operating system, processor, kernel, memory. Sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Host name.
    pub hostname: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
    /// As `uname -m` says: `x86_64`, `aarch64`.
    pub architecture: String,
    /// As `uname -r` says.
    pub kernel: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// Home folder of the user that sparkctl logs in as.
    pub home: String,
    /// `MemTotal`.
    pub memory_total: u64,
    /// `MemAvailable`.
    pub memory_available: u64,
    /// `MemFree`: on unified memory, what CUDA calls free. The page cache counts as used there.
    pub memory_free: Option<u64>,
    /// `Cached`: the page cache, and shared memory in it.
    pub memory_cached: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    /// `CmaTotal`; more free than in all is the sign of a kernel whose RDMA registration fails.
    pub cma_total: Option<u64>,
    pub cma_free: Option<u64>,
    /// Version of the machine's own firmware (UEFI): `5.36_0ACUM018`.
    pub firmware: Option<String>,
    /// Who made the machine, as its firmware says: `NVIDIA`.
    pub vendor: Option<String>,
    /// Its product name: `NVIDIA_DGX_Spark`.
    pub product: Option<String>,
    pub cpu: Option<Cpu>,
    pub uptime_seconds: Option<u64>,
    /// Whether systemd runs the machine.
    pub systemd: Option<bool>,
    /// Whether an `earlyoom` process runs.
    pub earlyoom: Option<bool>,
    /// `Europe/Berlin`.
    pub timezone: Option<String>,
    /// Whether the clock is kept by a time server, as `timedatectl` says.
    pub clock_synchronised: Option<bool>,
    /// Whether an update waits for a reboot (`/run/reboot-required`).
    pub reboot_required: Option<bool>,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Names of its kinds of cores, as `lscpu` says: `Cortex-X925` and `Cortex-A725` on GB10.
    pub models: Vec<String>,
    /// Logical processors that are online.
    pub cores: u32,
}

/// The node's clock against the clock of the machine that asked. The node read its clock as the first
/// and as the last thing between the question and the answer, so the bounds are as narrow as the
/// network is quick, however long the gathering took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The operator's clock before the question left.
    pub asked: Timestamp,
    /// The node's clock when the question had come.
    pub begun: Timestamp,
    /// The node's clock when the answer left.
    pub ended: Timestamp,
    /// The operator's clock when the answer was there.
    pub answered: Timestamp,
}

impl Clock {
    /// How far the node's clock is ahead of the operator's: at least, and at most. Negative: behind.
    pub fn ahead(&self) -> (SignedDuration, SignedDuration) {
        (self.ended.duration_since(self.answered), self.begun.duration_since(self.asked))
    }

    /// How far it is ahead of another node's clock that was asked by the same operator: at least, at most.
    pub fn ahead_of(&self, other: &Self) -> (SignedDuration, SignedDuration) {
        let (mine, theirs) = (self.ahead(), other.ahead());
        (mine.0.saturating_sub(theirs.1), mine.1.saturating_sub(theirs.0))
    }
}

/// The user that sparkctl logs in as.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct User {
    pub name: Option<String>,
    pub uid: Option<u32>,
    /// Names of the groups that the session has; a group given since the login is not among them.
    pub groups: Option<Vec<String>>,
    /// Whether `sudo` asks for no password.
    pub sudo: Option<bool>,
    /// Login shell.
    pub shell: Option<String>,
    /// The first line that a login without a terminal prints before anything was asked: a noisy `~/.bashrc`.
    pub greeting: Option<String>,
    /// Whether the user's services run without a login.
    pub lingering: Option<bool>,
    /// How much memory the session may lock. A container has its own limit.
    pub memlock: Option<Limit>,
}

/// A limit of a resource, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Unlimited,
    Bytes(u64),
}

/// A process that looks like an engine. Its arguments are left out: they may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    pub uid: u32,
    /// The kernel's name of it, at most 15 characters: `VLLM::EngineCor`.
    pub name: String,
    /// What it looks like: `vllm`, `sglang`, `ray`, `ollama`, `llama.cpp`, `tensorrt-llm`.
    pub engine: String,
    /// Seconds since it was started.
    pub seconds: u64,
    /// The container that it runs in; `None` outside of any, or where that cannot be seen.
    pub container: Option<String>,
}

/// What the files of sshd say; `None` where they say nothing, and sshd's default holds. `Match` blocks are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sshd {
    /// Sessions over one connection; by default 10.
    pub max_sessions: Option<u32>,
    /// `10:30:100` by default: connections under way before some are dropped, the rate, and the end.
    pub max_startups: Option<String>,
    /// `yes` by default, or `no`, `local`, `remote`.
    pub tcp_forwarding: Option<String>,
    /// The same for Unix sockets, which Docker is reached by.
    pub stream_local_forwarding: Option<String>,
    /// `yes` switches every forwarding off.
    pub disable_forwarding: Option<String>,
}
