//! GPUs, and NVIDIA's driver.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A GPU as `nvidia-smi` reports it. On unified memory (GB10) the memory figures are absent. The
/// figures of power and clocks are asked at depth `check` only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub name: String,
    /// Driver version.
    pub driver: String,
    /// Bytes.
    pub memory_total: Option<u64>,
    /// Bytes.
    pub memory_used: Option<u64>,
    /// Percent.
    pub utilisation: Option<u8>,
    /// Degrees Celsius.
    pub temperature: Option<u8>,
    /// Watts.
    pub power: Option<f64>,
    /// Watts; absent on GB10.
    pub power_limit: Option<f64>,
    /// The limit that the GPU comes with, in watts; absent on GB10.
    pub power_default: Option<f64>,
    /// MHz of the multiprocessors now.
    pub clock: Option<u32>,
    /// MHz that the GPU can do. A cap set by `nvidia-smi -lgc` does not show in it.
    pub clock_max: Option<u32>,
    /// Why the clocks are lower than they could be, in the driver's words: `sw_thermal_slowdown`. Empty: they are not.
    pub throttled: Option<Vec<String>>,
    /// Whether the driver stays loaded when nothing uses the GPU.
    pub persistence: Option<bool>,
    /// `GPU-` and a UUID.
    pub uuid: Option<String>,
    /// Address on the PCI bus, as the driver writes it: `0000000F:01:00.0`.
    pub pci: Option<String>,
    /// Version of its firmware (VBIOS).
    pub vbios: Option<String>,
}

/// NVIDIA's driver, and what its tool says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nvidia {
    /// How `nvidia-smi` fares.
    pub smi: Smi,
    /// Version of the kernel module that is loaded; `None` where none is.
    pub module: Option<String>,
    /// Version of the driver's library, as far as the tool says.
    pub library: Option<String>,
    /// The newest CUDA that the driver can do: `13.0`.
    pub cuda: Option<String>,
    /// Processes that hold the GPU, where the driver tells.
    pub processes: Option<Vec<GpuProcess>>,
    /// Running containers of the deployment in which `nvidia-smi` cannot open the GPU any more, and what it says there.
    pub lost: BTreeMap<String, String>,
    /// Lines of what runs at each boot (enabled units, `rc.local`, cron) that set a limit of clocks or power: file and line.
    pub caps: Vec<(String, String)>,
}

impl Nvidia {
    /// Whether the library was updated while an older module is still loaded: a reboot mends it.
    pub fn version_mismatch(&self) -> bool {
        matches!(&self.smi, Smi::Failing { said } if said.contains("version mismatch"))
    }
}

/// How `nvidia-smi` fares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smi {
    /// It is not installed.
    #[default]
    Absent,
    Working,
    /// It says this instead of a list of GPUs.
    Failing {
        said: String,
    },
    /// It gave no answer within these seconds.
    TimedOut {
        seconds: u64,
    },
}

/// A process that holds a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuProcess {
    pub pid: u32,
    /// The program, as far as this user may see it.
    pub name: String,
    /// Bytes.
    pub memory: Option<u64>,
    /// The container that it runs in; `None` outside of any, or where that cannot be seen.
    pub container: Option<String>,
}
