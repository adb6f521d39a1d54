//! Checks on a healthy pair of Sparks, and on the same pair with one fault each: every fault is found, with its node and a
//! remedy, and a healthy pair has none.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use desk::{Command, Desk, operator};
use jiff::SignedDuration;
use sparkctl::check::{self, CHECKS, Finding, Selection, Severity};
use sparkctl::cluster::facts::{
    Disk, ForeignFile, GpuProcess, Limit, Listener, ModelContent, ModelFolder, NoDocker, Safetensors,
    ShardIndex, Smi, Software,
};
use sparkctl::event::RunOutcome;
use sparkctl::fabric::Reach;
use sparkctl::host::fake::{FakeContainer, Machine, SEED_MODEL};
use sparkctl::operation::{self, Examined};
use sparkctl::profile::NodeName;
use sparkctl::report::check::Report;

const HEAD: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 12);
const WORKER: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 13);

async fn examined(desk: &Desk, measure: bool) -> Examined {
    operation::check(&desk.profile, &desk.delivery, &desk.hosts(), &operator(), measure).await
}

/// A fault: what is done to the pair, the finding that tells it, its node, its severity, and a word of the remedy.
type Fault = (fn(&Desk), &'static str, Option<&'static str>, Severity, &'static str);

fn on(desk: &Desk, node: &str, change: impl FnOnce(&mut Machine)) {
    desk.cluster.machine(node, change);
}

fn head(desk: &Desk, change: impl FnOnce(&mut Machine)) {
    on(desk, "spark1", change);
}

fn worker(desk: &Desk, change: impl FnOnce(&mut Machine)) {
    on(desk, "spark2", change);
}

fn folder(machine: &mut Machine) -> &mut ModelFolder {
    machine.folders.entry(SEED_MODEL.to_owned()).or_default()
}

fn content(machine: &mut Machine) -> &mut ModelContent {
    folder(machine).content.get_or_insert_default()
}

/// What the image has in it.
fn packages(desk: &Desk, packages: &[(&str, &str)]) {
    let packages = packages.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
    let software = Software { python: "3.12.3".to_owned(), packages: packages.collect() };
    head(desk, |m| m.software.values_mut().for_each(|there| *there = software.clone()));
}

fn sshd(machine: &mut Machine) -> &mut sparkctl::cluster::facts::Sshd {
    machine.sshd.as_mut().unwrap()
}

fn listener(port: u16) -> Listener {
    Listener { port, address: "0.0.0.0".to_owned(), ..Listener::default() }
}

const E: Severity = Severity::Error;
const W: Severity = Severity::Warning;
const N: Severity = Severity::Note;

const FAULTS: &[Fault] = &[
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
    // The model.
    (|d| head(d, |m| m.folders.clear()), "model-absent", Some("spark1"), E, "correct `model.path`"),
    (
        |d| head(d, |m| folder(m).dangling.push("tokenizer.json".into())),
        "model-absent",
        Some("spark1"),
        E,
        "fetch the model again",
    ),
    (
        |d| head(d, |m| folder(m).unreadable.push("Permission denied".into())),
        "model-unreadable",
        Some("spark1"),
        E,
        "chown",
    ),
    (
        |d| {
            let index = ShardIndex {
                shards: vec!["model-00007-of-00032.safetensors".into()],
                ..ShardIndex::default()
            };
            head(d, |m| content(m).index = Some(index));
        },
        "model-shards",
        Some("spark1"),
        E,
        "hf download",
    ),
    (
        |d| {
            let path = "model-00002-of-00032.safetensors".to_owned();
            let cut =
                Safetensors { path, size: 900, expected: Some(3_718_000_000), ..Safetensors::default() };
            head(d, |m| content(m).safetensors.push(cut));
        },
        "model-truncated",
        Some("spark1"),
        E,
        "fetch it again",
    ),
    (
        |d| {
            let why = "it is too short for a header".to_owned();
            head(d, |m| drop(content(m).problems.insert("model-00001-of-00032.safetensors".into(), why)));
        },
        "model-damaged",
        Some("spark1"),
        E,
        "Git LFS",
    ),
    (
        |d| head(d, |m| content(m).incomplete.push(".cache/huggingface/download/x.incomplete".into())),
        "model-incomplete",
        Some("spark1"),
        W,
        "hf download",
    ),
    (
        |d| {
            let foreign = ForeignFile { path: "config.json".into(), uid: 0, readable: true, writable: false };
            worker(d, |m| content(m).foreign.push(foreign));
        },
        "model-owner",
        Some("spark2"),
        E,
        "chown",
    ),
    (
        |d| {
            let foreign =
                ForeignFile { path: "config.json".into(), uid: 0, readable: false, writable: false };
            head(d, |m| content(m).foreign.push(foreign));
        },
        "model-unreadable",
        Some("spark1"),
        E,
        "chown",
    ),
    (
        |d| head(d, |m| folder(m).files.retain(|file| !file.path.starts_with("tokenizer"))),
        "model-tokenizer",
        Some("spark1"),
        W,
        "tokenizer files",
    ),
    (
        |d| {
            let mut other = d.cluster.machine("spark1", |m| folder(m).clone());
            other.files[0].size += 1;
            worker(d, |m| drop(m.folders.insert(SEED_MODEL.into(), other)));
        },
        "model-differs",
        Some("spark2"),
        W,
        "copies the head's over it",
    ),
    (
        |d| worker(d, |m| m.model_disk = Disk { total: 200, free: 100 }),
        "disk-model",
        Some("spark2"),
        E,
        "free some space",
    ),
    // The image.
    (|d| head(d, |m| m.images.clear()), "image-absent", None, E, "docker pull"),
    (
        |d| head(d, |m| m.images[0].architecture = "amd64".into()),
        "image-architecture",
        Some("spark2"),
        E,
        "node's architecture",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("NCCL_IB_DISABLE".into(), "1".into()))),
        "image-env",
        None,
        W,
        "engine.env",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("GLOO_SOCKET_IFNAME".into(), "eth0".into()))),
        "image-env",
        None,
        N,
        "nothing to do",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("CUDA_VERSION".into(), "14.0".into()))),
        "image-cuda",
        Some("spark2"),
        W,
        "update the driver",
    ),
    // The engine in the image.
    (
        |d| packages(d, &[("sglang", "0.5.5"), ("torch", "2.9.0")]),
        "engine-absent",
        None,
        W,
        "the engine that the image has",
    ),
    (|d| packages(d, &[("vllm", "0.33.0")]), "engine-ray", None, E, "launch: native"),
    (|d| packages(d, &[("vllm", "0.10.1"), ("ray", "2.48.0")]), "engine-version", None, W, "newer image"),
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
];

#[tokio::test(start_paused = true)]
async fn every_seeded_fault_is_found_and_nothing_is_changed() {
    assert!(FAULTS.len() >= 40);
    let mut missed = Vec::new();
    for (spoil, id, node, severity, remedy) in FAULTS {
        let desk = Desk::seed();
        spoil(&desk);
        desk.cluster.forget_effects();
        let found = examined(&desk, false).await.findings;
        let is = |finding: &&Finding| {
            finding.id == *id
                && finding.severity == *severity
                && finding.node.as_ref().map(NodeName::as_str) == *node
                && finding.hint.as_ref().is_some_and(|hint| hint.contains(remedy))
        };
        if !found.iter().any(|finding| is(&finding)) {
            missed.push(format!("{id} on {node:?} ({remedy}): {found:#?}"));
        }
        for finding in &found {
            let known = check::of(finding.id).unwrap_or_else(|| panic!("{} is in no table", finding.id));
            assert!(
                finding.severity <= known.worst,
                "{finding}: {} is told of a {}",
                finding.severity,
                known.worst
            );
        }
        assert!(
            !desk.cluster.effects().iter().any(|effect| effect.changes),
            "{id}: a check changed something"
        );
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A deploy begins with the same checks: what is an error refuses it before anything is changed.
#[tokio::test(start_paused = true)]
async fn an_error_refuses_a_deploy() {
    for (spoil, id, _, severity, _) in FAULTS {
        let desk = Desk::seed();
        spoil(&desk);
        if *severity != E
            || desk
                .cluster
                .nodes()
                .iter()
                .any(|node| desk.cluster.machine(node.as_str(), |m| m.no_docker.is_some()))
        {
            continue;
        }
        desk.cluster.forget_effects();
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        assert!(matches!(run.outcome, Some(RunOutcome::Refused { .. })), "{id}: {:?}", run.outcome);
    }
}

fn wrong(findings: &[Finding]) -> Vec<String> {
    let wrong = findings.iter().filter(|finding| finding.severity > Severity::Note);
    wrong.map(|finding| format!("{}: {finding}", finding.severity)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_healthy_pair_has_nothing_wrong() {
    let desk = Desk::seed();
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
    assert_eq!(wrong(&examined(&desk, true).await.findings), Vec::<String>::new());
    // Nor while it serves.
    desk.deployed().await;
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
}

/// What speed a link has is only known where it was measured.
#[tokio::test(start_paused = true)]
async fn a_slow_link_is_found_by_measuring() {
    let desk = Desk::seed();
    desk.cluster.link(HEAD, WORKER, |link| link.bytes_per_second = 1_600_000_000);
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
    let found = examined(&desk, true).await.findings;
    assert!(found.iter().any(|finding| finding.id == "fabric-slow" && finding.severity == E), "{found:#?}");
}

/// One node that cannot be asked leaves the other to be examined.
#[tokio::test(start_paused = true)]
async fn the_other_nodes_are_examined_all_the_same() {
    let desk = Desk::seed();
    desk.cluster.set_reachable("spark1", false);
    worker(&desk, |m| m.gpus.clear());
    let found = examined(&desk, false).await.findings;
    let told: Vec<_> =
        found.iter().map(|finding| (finding.id, finding.node.as_ref().unwrap().as_str())).collect();
    assert!(told.contains(&("ssh-unasked", "spark1")), "{told:?}");
    assert!(told.contains(&("gpu-absent", "spark2")), "{told:?}");
    // Whatever was asked for: a node of which nothing is known is never passed over in silence.
    let only = Selection::new(&["gpu".to_owned()], &[]).unwrap();
    let findings: Vec<_> = found.into_iter().filter(|finding| only.tells(finding)).collect();
    assert_eq!(findings.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["ssh-unasked", "gpu-absent"]);
    let profile = desk.profile.clone();
    let asked = vec!["spark2".parse().unwrap()];
    let report = Report { profile, findings, parity: Vec::new(), selection: only, asked, measured: false };
    let text = report.text(true, None);
    assert!(text.contains("✗ gpu      gpu-absent") && text.contains("· gpu-slow "), "{text}");
    assert!(text.ends_with("8 checks, 2 errors\n"), "{text}");
}

/// What the engine's version and the model's own config.json say of fields of the profile.
#[tokio::test(start_paused = true)]
async fn what_the_engine_would_refuse_is_told_at_its_field() {
    type Edit = fn(&mut sparkctl::profile::Engine);
    let edits: &[(Edit, &str, Severity, &str, &str)] = &[
        (
            |e| e.args = vec!["--swap-space".into(), "4".into()],
            "engine-flag",
            E,
            "engine.args[0]",
            "leave it out",
        ),
        (
            |e| e.tool_parser = Some("qwen3_coda".into()),
            "engine-word",
            W,
            "engine.tool_parser",
            "qwen3_coder",
        ),
    ];
    for (edit, id, severity, path, hint) in edits {
        let mut desk = Desk::seed();
        edit(&mut desk.profile.engine);
        let found = examined(&desk, false).await.findings;
        let found: Vec<_> = found.into_iter().filter(|finding| finding.id == *id).collect();
        let [finding] = found.as_slice() else { panic!("{id}: {found:?}") };
        assert_eq!((finding.severity, finding.path.as_deref()), (*severity, Some(*path)), "{finding:?}");
        assert!(finding.hint.as_ref().unwrap().contains(hint), "{finding:?}");
    }
}

/// A skipped error refuses nothing, and the release says what was skipped.
#[tokio::test(start_paused = true)]
async fn a_skipped_check_lets_a_deploy_go_on() {
    let desk = Desk::seed();
    head(&desk, |m| m.system.earlyoom = Some(true));
    worker(&desk, |m| m.docker.version = "28.2.2".into());
    worker(&desk, |m| m.toolkit.as_mut().unwrap().mode = Some("cdi".into()));
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Refused { .. })), "{:?}", run.outcome);
    let mut operator = operator();
    operator.skip = vec!["docker-cdi".to_owned()];
    let run = desk.run_as(Command::Deploy, &operator).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    assert_eq!(facts[1].releases[0].skipped, ["docker-cdi"]);
}

#[test]
fn why_a_node_does_not_let_us_in() {
    let check = |why: &str, id: &str, remedy: &str| {
        let found = check::refused(&"spark1".parse().unwrap(), "10.1.2.3", why);
        assert_eq!((found.id, found.severity), (id, E), "{why}");
        assert!(found.hint.as_ref().unwrap().contains(remedy), "{found:?}");
    };
    check(
        "it does not let us in (ssh: u@h: Permission denied (publickey).)",
        "ssh-auth",
        "ssh-copy-id 10.1.2.3",
    );
    check(
        "its ED25519 host key is not the one in `/home/u/.ssh/known_hosts:12`",
        "ssh-host-key",
        "ssh-keygen -R 10.1.2.3",
    );
    check("its host key is not known yet", "ssh-host-key", "log in once");
    check("it does not answer (ssh: timed out)", "ssh-unreachable", "ssh 10.1.2.3 true");
    let sessions = check::unasked(
        &"spark1".parse().unwrap(),
        "sshd refused a further session (`MaxSessions` in sshd_config)",
    );
    assert_eq!(sessions.id, "ssh-sessions");
}

#[test]
fn which_checks_are_wanted() {
    let new = |only: &[&str], skip: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(only), &owned(skip))
    };
    let all = new(&[], &[]).unwrap();
    assert_eq!(all.count(), CHECKS.len());
    let fabric = new(&["fabric"], &["rails"]).unwrap();
    assert!(fabric.wants("fabric-mtu") && !fabric.wants("rails") && !fabric.wants("port-taken"));
    assert_eq!(new(&[], &["port-take"]).unwrap_err().near, Some("port-taken"));
    assert_eq!(new(&["xyzzyxyzzy"], &[]).unwrap_err().near, None);
}

#[test]
fn the_table_is_in_order() {
    let mut ids = BTreeSet::new();
    for check in CHECKS {
        assert!(ids.insert(check.id), "{} is there twice", check.id);
        assert!(!check.expected.is_empty() && !check.why.is_empty(), "{}", check.id);
        assert!(!check.vital || check.worst == E, "{} is vital and no error", check.id);
    }
    // Topics come in one piece each.
    let mut topics: Vec<_> = CHECKS.iter().map(|check| check.topic).collect();
    topics.dedup();
    assert_eq!(topics.iter().collect::<BTreeSet<_>>().len(), topics.len(), "{topics:?}");
}

#[test]
fn the_document_has_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/checks.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, check::document()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        check::document(),
        "UPDATE_DOCS=1 cargo test --test check"
    );
}
