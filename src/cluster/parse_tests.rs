use proptest::prelude::*;

use super::*;

const SPARK: &str = include_str!("../../tests/data/gather/spark.txt");
const PLAIN: &str = include_str!("../../tests/data/gather/plain.txt");

/// Captured output, in which `␀` stands for NUL.
fn read(text: &str) -> Result<Seen, String> {
    parse(Some(&"demo".parse().unwrap()), text.replace('␀', "\0").as_bytes())
}

#[test]
fn a_spark() {
    let seen = read(SPARK).unwrap();
    assert_eq!(seen.system.os, "Ubuntu 24.04.3 LTS");
    assert_eq!(seen.system.home, "/home/spark");
    assert_eq!(seen.system.memory_available, 118_114_420 * 1024);
    let fabric = seen.interfaces.iter().find(|interface| interface.name == "enp1s0f0np0").unwrap();
    assert_eq!(fabric.rdma, ["rocep1s0f0"]);
    assert_eq!(
        fabric.addresses,
        [InterfaceAddress { address: "192.168.200.11".parse().unwrap(), prefix: 24 }]
    );
    assert_eq!((fabric.mtu, fabric.up), (9000, true));
    assert!(seen.infiniband);
    let gpu = Gpu {
        name: "NVIDIA GB10".to_owned(),
        driver: "580.142".to_owned(),
        memory_total: None,
        memory_used: None,
        utilisation: Some(0),
        temperature: Some(41),
        ..Gpu::default()
    };
    assert_eq!(seen.gpus, [gpu]);
    let listener = |port| seen.listeners.iter().find(|listener| listener.port == port).unwrap();
    assert_eq!(listener(22).address, "0.0.0.0");
    assert_eq!(listener(53).address, "127.0.0.53");
    assert_eq!(listener(30000).process.as_deref(), Some("sglang::sched"));
    assert_eq!(seen.tools["rsync"], "3.2.7");
    assert_eq!(seen.tools["python3"], "3.11.2");
    assert!(seen.docker_disk.unwrap().free > 0);
    let model = seen.model.unwrap();
    let names: Vec<_> = model.files.iter().map(|file| (file.path.as_str(), file.size)).collect();
    let wanted =
        [("a.safetensors", 3_000_000), ("config.json", 3), ("link.json", 5), ("with space/ü.txt", 2)];
    assert_eq!(names, wanted);
    assert_eq!(model.files[0].mtime, 1_796_054_416);
    assert_eq!(model.dangling, ["dangling.bin"]);
    assert_eq!(seen.highest_release, Some(ReleaseNumber(8)));
    assert_eq!(seen.releases, []);
    assert_eq!(
        seen.unreadable_releases,
        [
            "releases/0007: cat: /home/spark/.local/state/sparkctl/demo/releases/0007/release.json: No such file or directory",
            "releases/0008: it was written by a newer sparkctl (format 2; this one reads up to 1)",
        ]
    );
}

#[test]
fn a_plain_machine() {
    let seen = read(PLAIN).unwrap();
    assert_eq!(seen.system.os, "Debian GNU/Linux 12 (bookworm)");
    assert_eq!(seen.interfaces.len(), 2);
    assert!(!seen.interfaces[1].up, "no carrier");
    assert_eq!(seen.interfaces[1].addresses.len(), 2);
    assert_eq!((seen.gpus.len(), seen.infiniband, seen.tools.len()), (0, false, 0));
    assert_eq!((seen.model, seen.docker_disk), (None, None));
    assert_eq!(seen.model_disk, Some(Disk { total: 20_957_446_144, free: 1_832_873_984 }));
    assert_eq!(seen.highest_release, None);
}

#[test]
fn what_is_wrong_is_said() {
    let check = |text: &str, wanted: &str| {
        let why = read(text).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    };
    check("", "the answer was cut off after `the beginning`");
    check(&SPARK[..SPARK.len() / 2], "the answer was cut off after `");
    check(
        &PLAIN.replace("[{\"ifindex\":1", "Option \"-j\" is unknown, try \"ip -help\".\n[{\"ifindex\":1"),
        "`ip -j addr` (package iproute2) gave no list of addresses",
    );
    check(
        &PLAIN.replace("listeners ===\n", "listeners ===\nsh: 1: ss: not found\nss failed\n"),
        "ss: not found",
    );
    check(&SPARK.replace("config.json", "con\nfig.json"), "has a line break in it");
    check(
        &SPARK.replace("model-problems ===\n", "model-problems ===\nfind: x: Permission denied\n"),
        "the model's folder cannot be read in full: find: x: Permission denied",
    );
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
fn rdma_devices_are_found_either_way() {
    let files = rdma("rocep1s0f0 enp1s0f0np0\nmlx5_2 enp1s0f0np0\n", "");
    assert_eq!(files["enp1s0f0np0"].len(), 2);
    let tool = rdma("", "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\nnonsense\n");
    assert_eq!(tool["enp1s0f0np0"].first().unwrap(), "rocep1s0f0");
}

proptest! {
    #[test]
    fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = parse(Some(&"demo".parse().unwrap()), &bytes);
    }

    #[test]
    fn never_panics_on_damage(at in 0_usize..SPARK.len(), length in 0_usize..64, bytes in prop::collection::vec(any::<u8>(), 0..32)) {
        let mut text = SPARK.replace('␀', "\0").into_bytes();
        let end = (at + length).min(text.len());
        text.splice(at.min(end)..end, bytes);
        let _ = parse(Some(&"demo".parse().unwrap()), &text);
    }
}
