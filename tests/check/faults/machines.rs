//! Faults of the way in, of Docker, of the machines and of their GPUs.

use jiff::SignedDuration;
use sparkctl::cluster::facts::{Disk, GpuProcess, Limit, NoDocker, Smi};
use sparkctl::host::fake::{FakeContainer, ReleaseFolder};

use super::{E, Fault, N, W, folder, head, sshd, worker};

pub const MACHINES: &[Fault] = &[
    // The way in.
    (|d| worker(d, |m| sshd(m).max_sessions = Some(1)), "ssh-sessions", Some("spark2"), E, "MaxSessions 10"),
    (|d| worker(d, |m| sshd(m).max_sessions = Some(5)), "ssh-sessions", Some("spark2"), W, "MaxSessions 10"),
    (
        |d| head(d, |m| sshd(m).max_startups = Some("1:30:60".into())),
        "ssh-startups",
        Some("spark1"),
        W,
        "10:30:100",
    ),
    (
        |d| head(d, |m| sshd(m).tcp_forwarding = Some("no".into())),
        "ssh-forwarding",
        Some("spark1"),
        E,
        "AllowTcpForwarding yes",
    ),
    (
        |d| {
            worker(d, |m| {
                sshd(m).disable_forwarding = Some("yes".into());
                let why = "sshd did not connect us to the socket: it forbids forwarding".to_owned();
                m.no_docker = Some(NoDocker::Failing { why });
            });
        },
        "ssh-forwarding",
        Some("spark2"),
        E,
        "remove `DisableForwarding`",
    ),
    (|d| worker(d, |m| m.user.shell = Some("/usr/bin/fish".into())), "ssh-shell", Some("spark2"), N, "chsh"),
    (
        |d| head(d, |m| m.user.greeting = Some("Welcome!".into())),
        "ssh-noise",
        Some("spark1"),
        N,
        "not interactive",
    ),
    // Docker.
    (
        |d| worker(d, |m| m.no_docker = Some(NoDocker::Absent)),
        "docker-absent",
        Some("spark2"),
        E,
        "install Docker",
    ),
    (
        |d| worker(d, |m| m.no_docker = Some(NoDocker::Stopped)),
        "docker-stopped",
        Some("spark2"),
        E,
        "systemctl enable --now",
    ),
    (
        |d| head(d, |m| m.no_docker = Some(NoDocker::Forbidden { user: "aurora".into() })),
        "docker-forbidden",
        Some("spark1"),
        E,
        "usermod -aG docker aurora",
    ),
    (
        |d| head(d, |m| m.no_docker = Some(NoDocker::Failing { why: "it hangs".into() })),
        "docker-failing",
        Some("spark1"),
        E,
        "journalctl",
    ),
    (|d| worker(d, |m| m.docker.rootless = Some(true)), "docker-rootless", Some("spark2"), W, "usermod"),
    (
        |d| {
            worker(d, |m| {
                m.docker.version = "28.2.2".into();
                m.toolkit.as_mut().unwrap().mode = Some("cdi".into());
            });
        },
        "docker-cdi",
        Some("spark2"),
        E,
        "mode=auto",
    ),
    (
        |d| head(d, |m| m.toolkit.as_mut().unwrap().mode = Some("cdi".into())),
        "docker-cdi",
        Some("spark1"),
        E,
        "nvidia-ctk cdi generate",
    ),
    (
        |d| worker(d, |m| m.docker.cgroup_version = Some("1".into())),
        "docker-cgroup-version",
        Some("spark2"),
        N,
        "version 2",
    ),
    (
        |d| worker(d, |m| m.docker.disk = Some(Disk { total: 50_000_000_000, free: 36_000_000_000 })),
        "disk-image",
        Some("spark2"),
        E,
        "docker system df",
    ),
    (
        |d| head(d, |m| m.docker.disk = Some(Disk { total: 50_000_000_000, free: 1_000_000_000 })),
        "disk-low",
        Some("spark1"),
        W,
        "docker system df",
    ),
    (
        |d| {
            head(d, |m| m.docker.cgroup_driver = Some("cgroupfs".into()));
            worker(d, |m| m.toolkit.as_mut().unwrap().mode = Some("legacy".into()));
        },
        "docker-cgroup",
        Some("spark2"),
        N,
        "cgroupfs",
    ),
    // The machines.
    (
        |d| worker(d, |m| m.system.architecture = "x86_64".into()),
        "architecture",
        Some("spark2"),
        E,
        "one kind",
    ),
    (|d| worker(d, |m| drop(m.tools.remove("rsync"))), "tool-absent", Some("spark2"), E, "apt install rsync"),
    (
        |d| worker(d, |m| drop(m.tools.insert("rsync".into(), "3.0.9".into()))),
        "tool-old",
        Some("spark2"),
        E,
        "apt install rsync",
    ),
    (
        |d| worker(d, |m| m.clock_ahead = SignedDuration::from_secs(40)),
        "clock-skew",
        Some("spark2"),
        W,
        "timedatectl",
    ),
    (
        |d| worker(d, |m| m.clock_ahead = SignedDuration::from_secs(-9)),
        "clock-skew",
        Some("spark2"),
        W,
        "timedatectl",
    ),
    (
        |d| worker(d, |m| m.system.clock_synchronised = Some(false)),
        "clock-unsynchronised",
        Some("spark2"),
        N,
        "set-ntp",
    ),
    (
        |d| {
            head(d, |m| {
                m.system.cma_total = Some(134_217_728);
                m.system.cma_free = Some(30_000_000_000);
            });
        },
        "kernel-cma",
        Some("spark1"),
        W,
        "kho=off",
    ),
    (|d| head(d, |m| m.system.earlyoom = Some(true)), "earlyoom", Some("spark1"), W, "systemctl disable"),
    (|d| worker(d, |m| m.system.swap_free = Some(1_000_000_000)), "swap-used", Some("spark2"), W, "swapoff"),
    (
        |d| worker(d, |m| m.system.reboot_required = Some(true)),
        "reboot-required",
        Some("spark2"),
        N,
        "reboot",
    ),
    (
        |d| {
            worker(d, |m| {
                m.docker.rootless = Some(true);
                m.user.memlock = Some(Limit::Bytes(8 << 20));
            });
        },
        "memlock",
        Some("spark2"),
        W,
        "memlock unlimited",
    ),
    (|d| worker(d, |m| folder(m).partial = 5_000_000_000), "leftovers", Some("spark2"), N, "goes on"),
    (
        |d| {
            let twin = d.cluster.machine("spark1", |m| m.system.clone());
            worker(d, |m| (m.system.boot_id, m.system.hostname) = (twin.boot_id, twin.hostname));
        },
        "same-machine",
        Some("spark2"),
        E,
        "a `host` of its own",
    ),
    (
        |d| {
            let place = ("qwen35-122b".to_owned(), "0001".to_owned());
            let record = Some(b"{ \"format\": 99 }".to_vec());
            worker(d, |m| {
                drop(m.releases.insert(place, ReleaseFolder { record, ..ReleaseFolder::default() }))
            });
        },
        "release-unreadable",
        Some("spark2"),
        W,
        "newer sparkctl",
    ),
    // GPUs.
    (|d| worker(d, |m| m.gpus.clear()), "gpu-absent", Some("spark2"), E, "nvidia-smi"),
    (
        |d| {
            worker(d, |m| {
                m.gpus.clear();
                let said = "Failed to initialize NVML: Driver/library version mismatch".to_owned();
                m.nvidia.smi = Smi::Failing { said };
            });
        },
        "gpu-driver",
        Some("spark2"),
        E,
        "reboot",
    ),
    (
        |d| {
            worker(d, |m| {
                m.gpus.clear();
                m.nvidia.smi = Smi::TimedOut { seconds: 10 };
            });
        },
        "gpu-driver",
        Some("spark2"),
        E,
        "xid",
    ),
    (|d| worker(d, |m| m.nvidia.module = Some("570.1".into())), "gpu-driver", Some("spark2"), E, "reboot"),
    (|d| worker(d, |m| m.toolkit = None), "toolkit-absent", Some("spark2"), E, "nvidia-container-toolkit"),
    (
        |d| {
            head(d, |m| {
                drop(m.containers.insert("old".into(), FakeContainer::foreign("old", "sglang:spark", true)));
            });
        },
        "gpu-taken",
        Some("spark1"),
        E,
        "docker stop old",
    ),
    (
        |d| {
            let process =
                GpuProcess { pid: 77, name: "python3".into(), memory: Some(90 << 30), container: None };
            worker(d, |m| m.nvidia.processes = Some(vec![process]));
        },
        "gpu-taken",
        Some("spark2"),
        E,
        "kill 77",
    ),
    (
        |d| {
            let mut idle = FakeContainer::foreign("idle", "sglang:spark", true);
            idle.container.state.running = false;
            head(d, |m| drop(m.containers.insert("idle".into(), idle)));
        },
        "gpu-claimed",
        Some("spark1"),
        W,
        "--restart no idle",
    ),
    (
        |d| head(d, |m| m.gpus[0].throttled = Some(vec!["hw_slowdown".into()])),
        "gpu-slow",
        Some("spark1"),
        W,
        "cooling",
    ),
    (
        |d| {
            worker(d, |m| {
                m.gpus[0].utilisation = Some(96);
                m.gpus[0].clock = Some(850);
            });
        },
        "gpu-slow",
        Some("spark2"),
        W,
        "unplug it",
    ),
    (
        |d| head(d, |m| m.gpus[0].persistence = Some(false)),
        "gpu-persistence",
        Some("spark1"),
        N,
        "persistenced",
    ),
    (
        |d| {
            let unit = "/etc/systemd/system/multi-user.target.wants/cap.service".to_owned();
            let line = "ExecStart=/usr/bin/nvidia-smi -lgc 200,2150".to_owned();
            worker(d, |m| m.nvidia.caps = vec![(unit, line)]);
        },
        "gpu-capped",
        Some("spark2"),
        N,
        "nvidia-smi -rgc",
    ),
    (
        |d| {
            head(d, |m| {
                m.gpus[0].power_limit = Some(400.0);
                m.gpus[0].power_default = Some(700.0);
            });
        },
        "gpu-capped",
        Some("spark1"),
        N,
        "nvidia-smi -pl 700",
    ),
];
