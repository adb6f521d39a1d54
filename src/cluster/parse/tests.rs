mod damage;

use super::gpu::gpu;
use super::*;
use crate::cluster::facts::{
    Cpu, Gid, GidKind, GpuProcess, InterfaceAddress, InterfaceKind, Limit, ModelForm, Smi,
};

const SPARK: &str = include_str!("../../../tests/data/machines/dgx-spark/gather.txt");
const DISCRETE: &str = include_str!("../../../tests/data/machines/ubuntu-discrete/gather.txt");
const NO_GPU: &str = include_str!("../../../tests/data/machines/no-gpu/gather.txt");
const CDI: &str = include_str!("../../../tests/data/machines/cdi/gather.txt");
const GERMAN: &str = include_str!("../../../tests/data/machines/german/gather.txt");
const DRIVER_UPDATED: &str = include_str!("../../../tests/data/machines/driver-updated/gather.txt");
const HANGING: &str = include_str!("../../../tests/data/machines/hanging/gather.txt");
const RIG: &str = include_str!("../../../tests/data/machines/rig-node/gather.txt");
const BARE: &str = include_str!("../../../tests/data/machines/debian-bare/gather.txt");
const ALL: [&str; 9] = [SPARK, DISCRETE, NO_GPU, CDI, GERMAN, DRIVER_UPDATED, HANGING, RIG, BARE];

/// Output of the script, in which `␀` stands for NUL.
fn read(text: &str) -> Result<Seen, String> {
    parse(Some(&"demo".parse().unwrap()), text.replace('␀', "\0").as_bytes())
}

fn ip(text: &str) -> std::net::Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn the_machine_of_a_spark() {
    let seen = read(SPARK).unwrap();
    let system = &seen.system;
    assert_eq!(system.os, "Ubuntu 24.04.5 LTS");
    assert_eq!(
        (system.vendor.as_deref(), system.product.as_deref()),
        (Some("NVIDIA"), Some("NVIDIA_DGX_Spark"))
    );
    assert_eq!(
        system.cpu,
        Some(Cpu { models: ["Cortex-X925", "Cortex-A725"].map(str::to_owned).into(), cores: 20 })
    );
    assert_eq!(system.memory_total, 130_596_184_064);
    assert_eq!(system.memory_free, Some(92_274_688 * 1024));
    assert_eq!(system.memory_cached, Some(27_262_976 * 1024), "not SwapCached");
    assert_eq!(system.swap_free, Some(17_179_865_088));
    assert!(system.cma_free < system.cma_total);
    assert_eq!(system.uptime_seconds, Some(119_652));
    assert_eq!(
        (system.systemd, system.earlyoom, system.reboot_required),
        (Some(true), Some(false), Some(false))
    );
    assert_eq!((system.timezone.as_deref(), system.clock_synchronised), (Some("Europe/Berlin"), Some(true)));
    let (begun, ended) = seen.clock.unwrap();
    assert_eq!(begun.to_string(), "2026-11-30T19:09:48.647919443Z");
    assert_eq!(ended.subsec_nanosecond(), 120_000_007);
    let user = User {
        name: Some("spark".to_owned()),
        uid: Some(1000),
        groups: Some(["spark", "adm", "sudo", "docker"].map(str::to_owned).into()),
        sudo: Some(false),
        shell: Some("/bin/bash".to_owned()),
        greeting: None,
        lingering: Some(false),
        memlock: Some(Limit::Bytes(15_941_888 * 1024)),
    };
    assert_eq!(seen.user, user);
    let processes: Vec<_> = seen.processes.as_ref().unwrap().iter().collect();
    assert_eq!((processes[0].engine.as_str(), processes[0].container.as_deref()), ("ollama", None));
    assert_eq!((processes[2].name.as_str(), processes[2].seconds), ("VLLM::EngineCor", 3590));
    assert!(processes[2].container.as_deref().unwrap().starts_with("677283ad"));
    let toolkit = seen.toolkit.unwrap();
    assert_eq!((toolkit.version.as_deref(), toolkit.mode.as_deref()), (Some("1.18.0"), Some("auto")));
    assert_eq!(seen.tools["rsync"], "3.2.7");
    assert_eq!(seen.gaps, []);
    // The file that is included says it first, and `Match` blocks are for others.
    let sshd = seen.sshd.unwrap();
    assert_eq!((sshd.max_sessions, sshd.max_startups.as_deref()), (Some(20), Some("10:30:60")));
    assert_eq!((sshd.tcp_forwarding.as_deref(), sshd.stream_local_forwarding), (Some("yes"), None));
}

#[test]
fn the_network_of_a_spark() {
    use InterfaceKind::{Bridge, Ethernet, Loopback, Tunnel, Wireless};
    let seen = read(SPARK).unwrap();
    let interface = |name: &str| seen.interfaces.iter().find(|interface| interface.name == name).unwrap();
    let check = |name: &str,
                 kind,
                 up,
                 enabled,
                 speed,
                 driver: Option<&str>,
                 port: Option<&str>,
                 pci: Option<&str>| {
        let seen = interface(name);
        assert_eq!((seen.kind, seen.up, seen.enabled, seen.speed), (kind, up, enabled, speed), "{name}");
        let said = (seen.driver.as_deref(), seen.phys_port_name.as_deref(), seen.pci.as_deref());
        assert_eq!(said, (driver, port, pci), "{name}");
    };
    let mlx = Some("mlx5_core");
    check("lo", Loopback, true, true, None, None, None, None);
    check("enP7s7", Ethernet, true, true, Some(1000), Some("r8127"), None, Some("0007:01:00.0"));
    check("enp1s0f0np0", Ethernet, true, true, Some(200_000), mlx, Some("p0"), Some("0000:01:00.0"));
    check("enP2p1s0f0np0", Ethernet, true, true, Some(200_000), mlx, Some("p0"), Some("0002:01:00.0"));
    check("enp1s0f1np1", Ethernet, false, true, None, mlx, Some("p1"), Some("0000:01:00.1"));
    check("wlP9s9", Wireless, true, true, None, Some("mt7925e"), None, Some("0009:01:00.0"));
    check("docker0", Bridge, false, true, None, None, None, None);
    check("tailscale0", Tunnel, true, true, Some(10_000), None, None, None);
    let fabric = interface("enp1s0f0np0");
    assert_eq!(fabric.rdma, ["rocep1s0f0"]);
    assert_eq!(fabric.phys_switch_id, interface("enP2p1s0f0np0").phys_switch_id, "two halves of one card");
    assert_eq!(fabric.addresses, [InterfaceAddress { address: ip("192.168.200.12"), prefix: 24 }]);
    assert_eq!((fabric.mtu, fabric.mac.as_deref()), (9000, Some("3c:6d:66:01:a2:10")));
    assert!(seen.infiniband);

    let routes = seen.routes.unwrap();
    assert!(routes.iter().all(|route| route.destination != "10.9.0.0/16"), "what is unreachable is no route");
    let defaults: Vec<_> = routes.iter().filter(|route| route.is_default()).collect();
    let told: Vec<_> = defaults.iter().map(|route| (route.interface.as_str(), route.metric)).collect();
    assert_eq!(told, [("enP7s7", 100), ("wlP9s9", 600)]);
    assert_eq!((defaults[0].gateway, defaults[0].source), (Some(ip("10.1.230.1")), Some(ip("10.1.230.180"))));

    let peers: Vec<_> = seen
        .peers
        .iter()
        .map(|peer| {
            (peer.answers, peer.interface.as_deref().unwrap(), peer.round_trip_us, peer.whole_packets)
        })
        .collect();
    let wanted = [
        (true, "lo", Some(31), Some(true)),
        (true, "enp1s0f0np0", Some(213), Some(false)),
        (false, "enp1s0f0np0", None, None),
        (false, "enP7s7", None, None),
    ];
    assert_eq!(peers, wanted);
    assert_eq!(seen.peers[1].source, Some(ip("192.168.200.12")));
    assert_eq!((seen.peers[1].gateway, seen.peers[3].gateway), (None, Some(ip("10.1.230.1"))));

    let listener = |port| seen.listeners.iter().find(|listener| listener.port == port).unwrap();
    assert_eq!(listener(53).address, "127.0.0.53");
    assert_eq!((listener(22).pid, listener(22).container.as_deref()), (None, None));
    assert_eq!((listener(11434).pid, listener(11434).container.as_deref()), (Some(2001), None));
    assert!(listener(8000).container.as_deref().unwrap().starts_with("677283ad"));
}

#[test]
fn the_rdma_ports_of_a_spark() {
    let seen = read(SPARK).unwrap();
    let names: Vec<_> = seen.rdma_devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["roceP2p1s0f0", "roceP2p1s0f1", "rocep1s0f0", "rocep1s0f1"]);
    let device = &seen.rdma_devices[2];
    assert_eq!(device.pci.as_deref(), Some("0000:01:00.0"));
    let port = &device.ports[0];
    assert!(port.is_active());
    assert_eq!(
        (port.physical.as_deref(), port.rate, port.link_layer.as_deref()),
        (Some("LinkUp"), Some(200), Some("Ethernet"))
    );
    let gid = Gid {
        index: 3,
        gid: "::ffff:192.168.200.12".parse().unwrap(),
        kind: Some(GidKind::RoceV2),
        interface: Some("enp1s0f0np0".to_owned()),
    };
    assert_eq!((port.gids.len(), &port.gids[3]), (4, &gid));
    assert_eq!(port.roce_v2_index(ip("192.168.200.12")), Some(3));
    assert_eq!(port.roce_v2_index(ip("192.168.201.12")), None);
    let down = &seen.rdma_devices[3].ports[0];
    assert_eq!((down.is_active(), down.state.as_deref()), (false, Some("DOWN")));
    // NCCL's index is where the entry is, not how many come before it.
    let (moved, _) = rdma::devices(
        "",
        "/sys/class/infiniband/x/ports/1/gids/5:0000:0000:0000:0000:0000:ffff:0a00:0001\n\
         /sys/class/infiniband/x/ports/1/gid_attrs/types/5:RoCE v2\n\
         /sys/class/infiniband/x/ports/1/gids/2:0000:0000:0000:0000:0000:0000:0000:0000\n",
        "",
    );
    assert_eq!(moved[0].ports[0].roce_v2_index(ip("10.0.0.1")), Some(5));
    assert_eq!(moved[0].ports[0].gids.len(), 1, "an empty entry is none");
}

#[test]
fn rdma_devices_are_found_either_way() {
    let (devices, files) = rdma::devices("rocep1s0f0 enp1s0f0np0\nmlx5_2 enp1s0f0np0\n", "", "");
    assert_eq!((files["enp1s0f0np0"].len(), devices.len()), (2, 2));
    let (devices, tool) = rdma::devices("", "", "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\nnonsense\n");
    assert_eq!(tool["enp1s0f0np0"].first().unwrap(), "rocep1s0f0");
    assert_eq!(devices[0].name, "rocep1s0f0");
}

#[test]
fn the_gpu_of_a_spark() {
    let seen = read(SPARK).unwrap();
    let gpu = Gpu {
        name: "NVIDIA GB10".to_owned(),
        driver: "580.142".to_owned(),
        memory_total: None,
        memory_used: None,
        utilisation: Some(0),
        temperature: Some(41),
        power: Some(11.17),
        power_limit: None,
        clock: Some(2398),
        clock_max: Some(3003),
        throttled: Some(Vec::new()),
        persistence: Some(true),
        uuid: Some("GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5".to_owned()),
        pci: Some("0000000F:01:00.0".to_owned()),
        ..Gpu::default()
    };
    assert_eq!(seen.gpus, [gpu]);
    let nvidia = seen.nvidia;
    assert_eq!((nvidia.smi, nvidia.module.as_deref()), (Smi::Working, Some("580.142")));
    assert_eq!((nvidia.library.as_deref(), nvidia.cuda.as_deref()), (Some("580.142"), Some("13.0")));
    let processes = nvidia.processes.unwrap();
    assert_eq!((processes[0].pid, processes[0].memory), (4177, Some(98_304 << 20)));
    assert!(processes[0].container.is_some());
}

#[test]
fn discrete_gpus() {
    let seen = read(DISCRETE).unwrap();
    let figures: Vec<_> =
        seen.gpus.iter().map(|gpu| (gpu.memory_total, gpu.memory_used, gpu.power_limit)).collect();
    let total = Some(49_140 << 20);
    assert_eq!(figures, [(total, Some(3 << 20), Some(300.0)), (total, Some(45_681 << 20), Some(300.0))]);
    assert_eq!(seen.gpus[0].throttled.as_ref().unwrap(), &["sw_power_cap"]);
    assert_eq!(seen.gpus[1].throttled.as_ref().unwrap(), &["sw_power_cap", "sw_thermal_slowdown"]);
    assert_eq!(seen.gpus[1].persistence, Some(false));
    let process =
        |pid, name: &str, memory| GpuProcess { pid, name: name.to_owned(), memory, container: None };
    let wanted =
        [process(812_345, "[Not Found]", Some(45_678 << 20)), process(812_346, "python3, --odd, name", None)];
    assert_eq!(seen.nvidia.processes.unwrap(), wanted);
    assert_eq!((seen.infiniband, seen.rdma_devices.len(), seen.peers.len()), (false, 0, 0));
    assert_eq!(seen.user.memlock, Some(Limit::Unlimited));
    assert_eq!(
        (seen.user.sudo, seen.system.earlyoom, seen.system.reboot_required),
        (Some(true), Some(true), Some(true))
    );
    assert_eq!(seen.interfaces[3].kind, InterfaceKind::Virtual, "an end of a container's pair");
    assert_eq!(seen.toolkit.unwrap().mode.as_deref(), Some("legacy"));
    assert_eq!((seen.sshd, seen.model, seen.models), (None, None, None));
    assert_eq!(seen.processes, Some(Vec::new()), "there are none, which is not that it is not known");
}

#[test]
fn graphics_processors() {
    let check = |line: &str, wanted: Option<(&str, Option<u64>, Option<u8>)>| {
        let gpu = gpu(line);
        let seen = gpu.as_ref().map(|gpu| (gpu.name.as_str(), gpu.memory_total, gpu.temperature));
        assert_eq!(seen, wanted, "{line}");
    };
    check(
        "NVIDIA A100-SXM4-80GB, 550.1, 81920, 12, 3, 40",
        Some(("NVIDIA A100-SXM4-80GB", Some(81920 << 20), Some(40))),
    );
    check("Odd, name, 550.1, 81920, 12, 3, [N/A]", Some(("Odd, name", Some(81920 << 20), None)));
    check("NVIDIA GB10, 580.1, [N/A], [N/A], [N/A], [N/A]", Some(("NVIDIA GB10", None, None)));
    check("No devices were found", None);
    check("", None);
}

#[test]
fn a_driver_that_does_not_answer() {
    let check = |text: &str, wanted: Smi| assert_eq!(read(text).unwrap().nvidia.smi, wanted);
    let failing = |said: &str| Smi::Failing { said: said.to_owned() };
    check(NO_GPU, Smi::Absent);
    check(HANGING, Smi::TimedOut { seconds: 20 });
    check(BARE, failing("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."));
    let said = "Failed to initialize NVML: Driver/library version mismatch NVML library version: 580.126";
    check(DRIVER_UPDATED, failing(said));
    let nvidia = read(DRIVER_UPDATED).unwrap().nvidia;
    assert!(nvidia.version_mismatch());
    assert_eq!((nvidia.module.as_deref(), nvidia.library.as_deref()), (Some("580.95.05"), Some("580.126")));
    assert_eq!((nvidia.cuda, nvidia.processes), (None, None));
    assert!(!read(SPARK).unwrap().nvidia.version_mismatch());
}

#[test]
fn what_hangs_is_told_and_the_rest_is_there() {
    let seen = read(HANGING).unwrap();
    let gaps: Vec<_> = seen.gaps.iter().map(|gap| (gap.what.as_str(), gap.why.clone())).collect();
    let timed_out = |what, seconds| (what, Missing::TimedOut(seconds));
    let wanted = [
        timed_out("timedatectl", 5),
        timed_out("docker-disk", 10),
        timed_out("model", 10),
        timed_out("gpu-details", 10),
        timed_out("nvidia-smi", 20),
    ];
    assert_eq!(gaps, wanted);
    assert_eq!((seen.docker_disk, seen.model, seen.gpus.len()), (None, None, 0));
    assert_eq!(seen.system.timezone.as_deref(), Some("America/New_York"), "from /etc/localtime");
    assert_eq!(seen.system.clock_synchronised, None);
    assert_eq!((seen.interfaces.len(), seen.listeners.len()), (4, 2));
}

#[test]
fn a_section_goes_on_behind_what_hung() {
    let text = HANGING;
    assert!(text.contains("\n=== sparkctl user ===\nname="), "the user's section begins with the name");
    let hung = "\n=== sparkctl user ===\n\n=== sparkctl gap user-name ===\ntimed-out 5\n\n=== sparkctl user ===\nname=";
    let split = text.replacen("\n=== sparkctl user ===\nname=", hung, 1);
    let (whole, split) = (read(HANGING).unwrap(), read(&split).unwrap());
    assert_eq!(split.user, whole.user);
    assert_eq!(split.gaps.len(), whole.gaps.len() + 1);
}

#[test]
fn what_a_foreign_language_says_is_not_known() {
    let seen = read(GERMAN).unwrap();
    assert_eq!((seen.system.hostname.as_str(), seen.system.home.as_str()), ("büro-gpu", "/home/jürgen"));
    assert_eq!((seen.system.systemd, seen.system.earlyoom, seen.user.lingering), (None, None, None));
    assert_eq!((seen.user.sudo, seen.user.memlock, seen.system.uptime_seconds), (None, None, None));
    assert_eq!(seen.peers[0].round_trip_us, None, "0,213 is not 0");
    assert_eq!((seen.system.product, seen.nvidia.cuda), (None, None));
    let why = |what| seen.gaps.iter().find(|gap| gap.what == what).map(|gap| gap.why.clone());
    let failed = |said: &str| Some(Missing::Failed(said.to_owned()));
    assert_eq!(why("routes"), failed("Option \"-j\" ist unbekannt, versuchen Sie \"ip -help\"."));
    assert_eq!(why("processes"), failed("`ps` gave no list of processes: ps: unbekannte Option"));
    assert_eq!((seen.routes, seen.processes), (None, None));
    assert_eq!(seen.docker_disk, Some(Disk { total: 1_888_556_142_592, free: 712_964_571_136 }));
    assert_eq!(seen.tools["rsync"], "3.2.7");
}

#[test]
fn cdi() {
    let toolkit = read(CDI).unwrap().toolkit.unwrap();
    assert_eq!(toolkit.mode.as_deref(), Some("cdi"));
    assert_eq!(toolkit.cdi_files, ["/etc/cdi/nvidia.yaml", "/run/cdi/nvidia.yaml"]);
    assert_eq!(read(NO_GPU).unwrap().toolkit, None);
}

#[test]
fn a_model_and_what_is_in_its_files() {
    let model = read(SPARK).unwrap().model.unwrap();
    let content = model.content.as_ref().unwrap();
    assert!(content.config.as_ref().unwrap().contains("Qwen3_5MoeForConditionalGeneration"));
    let whole: Vec<_> = content.safetensors.iter().map(|file| (file.size, file.is_whole())).collect();
    assert_eq!(whole, [(700, true), (300, false)], "the second is cut");
    assert_eq!(content.missing_shards(), Vec::<&str>::new());
    assert_eq!(content.bytes_by_type(), BTreeMap::from([("BF16", 100), ("F8_E4M3", 900)]));
    assert_eq!(content.bytes_by_part()["mtp.layers.0"], 500);
    assert_eq!((content.incomplete.len(), content.foreign[0].uid), (1, 0));
    assert!(model.file("generation_config.json").is_some());

    let model = read(RIG).unwrap().model.unwrap();
    let names: Vec<_> = model.files.iter().map(|file| (file.path.as_str(), file.size)).collect();
    let wanted =
        [("a.safetensors", 3_000_000), ("config.json", 3), ("link.json", 5), ("with space/ü.txt", 2)];
    assert_eq!(names, wanted);
    assert_eq!((model.files[0].mtime, model.content.as_ref()), (1_796_054_416, None));
    assert_eq!(model.dangling, ["dangling.bin"]);

    // Captured: the rig's small model.
    let content = read(NO_GPU).unwrap().model.unwrap().content.unwrap();
    assert_eq!(content.index.as_ref().unwrap().total_size, Some(5_510_656));
    assert_eq!(content.bytes_by_type(), BTreeMap::from([("BF16", 5_510_656)]));
    assert!(content.safetensors.iter().all(super::super::facts::Safetensors::is_whole));
}

#[test]
fn models_elsewhere() {
    let scan = read(SPARK).unwrap().models.unwrap();
    let told: Vec<_> = scan.models.iter().map(|m| (m.form, m.repo.as_deref(), m.complete, m.uid)).collect();
    let wanted =
        [(ModelForm::HubCache, Some("Qwen/Qwen3-8B"), true, 1000), (ModelForm::LocalFolder, None, false, 0)];
    assert_eq!(told, wanted);
    assert_eq!((scan.unreadable["/models"].as_str(), scan.cut), ("Permission denied", false));
    let without_python =
        SPARK.replace("=== sparkctl models ===\n{", "=== sparkctl models ===\n\n=== sparkctl x ===\n{");
    let seen = read(&without_python).unwrap();
    assert_eq!((seen.models, seen.gaps[0].why.clone()), (None, Missing::NoCommand));
}

#[test]
fn records_of_releases() {
    let seen = read(RIG).unwrap();
    assert_eq!(seen.highest_release, Some(ReleaseNumber(8)));
    assert_eq!(seen.releases, []);
    assert_eq!(
        seen.unreadable_releases,
        [
            "releases/0007: cat: /home/spark/.local/state/sparkctl/demo/releases/0007/release.json: No such file or directory",
            "releases/0008: it was written by a newer sparkctl (format 2; this one reads up to 1): missing field `deployment`",
        ]
    );
}

#[test]
fn a_bare_machine() {
    let seen = read(BARE).unwrap();
    assert_eq!(seen.system.os, "Debian GNU/Linux 12 (bookworm)");
    assert_eq!(seen.interfaces.len(), 2);
    assert!(!seen.interfaces[1].up && seen.interfaces[1].enabled, "no carrier");
    assert_eq!(seen.interfaces[1].addresses.len(), 2);
    assert_eq!((seen.gpus.len(), seen.infiniband, seen.tools.len()), (0, false, 0));
    assert_eq!((seen.model, seen.docker_disk), (None, None));
    assert_eq!(seen.model_disk, Some(Disk { total: 20_957_446_144, free: 1_832_873_984 }));
    assert_eq!((seen.highest_release, seen.clock, seen.system.cpu), (None, None, None));
}

#[test]
fn a_folder_that_cannot_be_read_is_a_fact() {
    let text = RIG.replace("model-problems ===\n", "model-problems ===\nfind: x: Permission denied\n");
    assert_eq!(read(&text).unwrap().model.unwrap().unreadable, ["find: x: Permission denied"]);
}

#[test]
fn what_is_wrong_is_said() {
    let check = |text: &str, wanted: &str| {
        let why = read(text).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    };
    check("", "the answer was cut off after `the beginning`");
    check(&RIG[..RIG.len() / 2], "the answer was cut off after `");
    check(&RIG.replace("=== sparkctl releases ===", ""), "the answer lacks `releases`");
    check(
        &BARE.replace("[{\"ifindex\":1", "Option \"-j\" is unknown, try \"ip -help\".\n[{\"ifindex\":1"),
        "`ip -j addr` (package iproute2) gave no list of addresses",
    );
    check(
        &BARE.replace("listeners ===\n", "listeners ===\nsh: 1: ss: not found\nss failed\n"),
        "ss: not found",
    );
    check(&RIG.replace("config.json", "con\nfig.json"), "has a line break in it");
}
