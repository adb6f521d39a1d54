//! Faults of the fabric and of ports, and nodes that differ.

use sparkctl::fabric::Reach;
use sparkctl::host::fake::FakeContainer;

use super::{E, Fault, HEAD, N, W, WORKER, head, listener, worker};

pub const FABRIC: &[Fault] = &[
    // The fabric.
    (|d| worker(d, |m| m.interfaces[2].addresses.clear()), "fabric-address", Some("spark2"), E, "netplan"),
    (|d| worker(d, |m| m.interfaces[2].up = false), "fabric-down", Some("spark2"), E, "check the cable"),
    (|d| worker(d, |m| m.interfaces[2].mtu = 1500), "fabric-mtu", None, W, "same MTU"),
    (|d| worker(d, |m| m.interfaces[2].speed = Some(40_000)), "fabric-speed", None, W, "ethtool"),
    (|d| worker(d, |m| m.lost_peers = vec![HEAD]), "fabric-unreachable", Some("spark2"), E, "cable"),
    (
        |d| d.cluster.link(HEAD, WORKER, |l| l.reach = Reach::TimedOut),
        "fabric-unreachable",
        Some("spark1"),
        E,
        "firewall",
    ),
    (
        |d| d.cluster.link(HEAD, WORKER, |l| l.mtu = Some(1500)),
        "fabric-mtu-path",
        Some("spark1"),
        E,
        "MTU of 9000",
    ),
    (
        |d| d.cluster.link(HEAD, WORKER, |l| l.interface = Some("enP7s7".into())),
        "fabric-route",
        Some("spark1"),
        E,
        "ip route get",
    ),
    (
        |d| worker(d, |m| m.rdma_devices[0].ports[0].state = Some("DOWN".into())),
        "rdma-inactive",
        Some("spark2"),
        E,
        "cable",
    ),
    (
        |d| worker(d, |m| m.rdma_devices[0].ports[0].gids.clear()),
        "gid-absent",
        Some("spark2"),
        E,
        "ip link set",
    ),
    // Ports and names.
    (|d| head(d, |m| m.listeners.push(listener(30000))), "port-taken", Some("spark1"), E, "`serve.port`"),
    (
        |d| {
            let name = "sparkctl-qwen35-122b-1";
            worker(d, |m| {
                drop(m.containers.insert(name.into(), FakeContainer::foreign(name, "nginx:1", false)));
            });
        },
        "name-taken",
        Some("spark2"),
        E,
        "docker rename",
    ),
    // What should be alike.
    (
        |d| worker(d, |m| m.system.kernel = "6.17.0-1018-nvidia".into()),
        "parity-kernel",
        None,
        N,
        "one kernel",
    ),
    (
        |d| {
            worker(d, |m| {
                m.gpus[0].driver = "570.1".into();
                m.nvidia.module = Some("570.1".into());
            });
        },
        "parity-driver",
        None,
        W,
        "one driver",
    ),
    (|d| worker(d, |m| m.gpus[0].name = "NVIDIA H200".into()), "parity-gpu", None, W, "same GPUs"),
    (|d| worker(d, |m| m.docker.version = "27.0.1".into()), "parity-docker", None, N, "one version"),
    (|d| worker(d, |m| m.system.memory_total = 64_000_000_000), "parity-memory", None, W, "smallest"),
    (
        |d| worker(d, |m| m.gpus[0].vbios = Some("9A.0B.19.00.01".into())),
        "parity-firmware",
        None,
        W,
        "fwupdmgr",
    ),
    (
        |d| head(d, |m| m.system.firmware = Some("5.36_0ACUM009".into())),
        "parity-firmware",
        None,
        W,
        "fwupdmgr",
    ),
    (
        |d| worker(d, |m| m.rdma_devices[0].firmware = Some("28.43.1014".into())),
        "parity-firmware",
        None,
        W,
        "fwupdmgr",
    ),
];
