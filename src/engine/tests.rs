//! Command lines and environments of the ranks, for the profile that the project began with.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::profile::{EnvValue, SecretSource};

const PROFILE: &str = include_str!("../../profiles/qwen35-122b.yaml");

fn profile() -> Profile {
    crate::config::parse("qwen35-122b.yaml", PROFILE).unwrap()
}

/// Two nodes whose interfaces and devices are named differently.
fn members() -> Vec<Member> {
    let member = |node: &str, last, interface: &str, rdma: &str| Member {
        node: node.parse().unwrap(),
        address: Ipv4Addr::new(192, 168, 200, last),
        interface: interface.to_owned(),
        rdma: vec![rdma.to_owned()],
        infiniband: true,
        gpus: true,
    };
    vec![
        member("spark1", 12, "enp1s0f0np0", "rocep1s0f0"),
        member("spark2", 13, "enP2p1s0f1np1", "roceP2p1s0f1"),
    ]
}

fn specs(profile: &Profile, members: &[Member]) -> Vec<crate::container::ContainerSpec> {
    let image = ImageContent("0123".repeat(16));
    ranks(profile, &image, members).into_iter().map(|rank| rank.spec).collect()
}

/// A command line without its launch script.
fn words(argv: &[String]) -> String {
    let words = argv.iter().map(|word| if word.contains('\n') { "SCRIPT" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

const SERVE: &str = "vllm serve /model --served-model-name qwen3.5-122b --host 0.0.0.0 --port 30000 \
    --tensor-parallel-size 2 --distributed-executor-backend ray --max-model-len 32768 \
    --gpu-memory-utilization 0.8 --reasoning-parser qwen3 --tool-call-parser qwen3_coder --enable-auto-tool-choice";

#[test]
fn the_head_brings_ray_up_and_becomes_the_engine() {
    let head = &specs(&profile(), &members())[0];
    let ray = "ray start --head --port=6379 --include-dashboard=false --disable-usage-stats \
        --node-ip-address=192.168.200.12 --num-gpus=1 --object-store-memory=536870912";
    let wanted = format!("python3 -u -c SCRIPT 192.168.200.12,192.168.200.13 -- {ray} -- {SERVE}");
    assert_eq!(words(&head.argv), wanted);
}

#[test]
fn a_worker_joins_at_its_own_address() {
    let worker = &specs(&profile(), &members())[1];
    assert_eq!(
        words(&worker.argv),
        "python3 -u -c SCRIPT 192.168.200.12 6379 -- ray start --address=192.168.200.12:6379 --block \
         --node-ip-address=192.168.200.13 --num-gpus=1 --object-store-memory=536870912"
    );
}

#[test]
fn one_node_needs_no_ray() {
    let mut profile = profile();
    profile.cluster.nodes.truncate(1);
    profile.engine.tensor_parallel = 1;
    let specs = specs(&profile, &members()[..1]);
    let [only] = &specs[..] else { panic!("{} ranks", specs.len()) };
    let wanted = SERVE
        .replace("--tensor-parallel-size 2 --distributed-executor-backend ray", "--tensor-parallel-size 1");
    assert_eq!(words(&only.argv), wanted);
}

/// What is left out of the profile is left to the engine.
#[test]
fn flags_follow_the_profile() {
    type Case = (fn(&mut Profile), &'static [&'static str], &'static [&'static str]);
    let cases: &[Case] = &[
        (|p| p.engine.context_length = Some(65_536), &["--max-model-len 65536"], &["32768"]),
        (|p| p.engine.context_length = None, &[], &["--max-model-len"]),
        (|p| p.engine.memory_fraction = Some(0.75), &["--gpu-memory-utilization 0.75"], &["0.8"]),
        (|p| p.engine.memory_fraction = None, &[], &["--gpu-memory-utilization"]),
        (|p| p.engine.reasoning_parser = None, &["--tool-call-parser"], &["--reasoning-parser"]),
        (|p| p.engine.tool_parser = None, &[], &["--tool-call-parser", "--enable-auto-tool-choice"]),
        (|p| p.serve.name = None, &["--served-model-name qwen35-122b "], &[]),
        (|p| p.engine.args = vec!["--max-num-seqs".into(), "8".into()], &["--max-num-seqs 8"], &[]),
    ];
    for (change, there, not_there) in cases {
        let mut profile = profile();
        change(&mut profile);
        let argv = words(&specs(&profile, &members())[0].argv);
        for flag in *there {
            assert!(argv.contains(flag), "`{flag}` is not in `{argv}`");
        }
        for flag in *not_there {
            assert!(!argv.contains(flag), "`{flag}` is in `{argv}`");
        }
    }
}

#[test]
fn no_flag_stands_twice() {
    for spec in specs(&profile(), &members()) {
        for command in spec.argv.split(|word| word == "--") {
            let flags: Vec<_> = command
                .iter()
                .filter(|word| word.starts_with("--"))
                .map(|word| word.split('=').next().unwrap_or(word))
                .collect();
            let once: BTreeSet<_> = flags.iter().collect();
            assert_eq!(flags.len(), once.len(), "{flags:?}");
        }
    }
}

/// Each flag that is set is one that a profile may not repeat.
#[test]
fn every_flag_that_is_set_is_reserved() {
    let argv = specs(&profile(), &members())[0].argv.clone();
    let serve = argv.rsplit(|word| word == "--").next().unwrap();
    let reserved: BTreeSet<_> =
        reserved_args(EngineKind::Vllm).iter().flat_map(|reserved| reserved.names).copied().collect();
    for flag in serve.iter().filter(|word| word.starts_with("--")) {
        assert!(reserved.contains(flag.as_str()), "a profile may repeat `{flag}`");
    }
}

#[test]
fn each_rank_has_its_own_node_in_its_environment() {
    let own = |address: &str, interface: &str, rdma: &str| {
        let all = [
            ("VLLM_HOST_IP", address),
            ("MASTER_ADDR", "192.168.200.12"),
            ("NCCL_SOCKET_IFNAME", interface),
            ("GLOO_SOCKET_IFNAME", interface),
            ("TP_SOCKET_IFNAME", interface),
            ("UCX_NET_DEVICES", interface),
            ("OMPI_MCA_btl_tcp_if_include", interface),
            ("NCCL_IB_HCA", rdma),
            ("NCCL_IGNORE_CPU_AFFINITY", "1"),
            ("RAY_memory_monitor_refresh_ms", "0"),
            ("RAY_USAGE_STATS_ENABLED", "0"),
            ("RAY_COLOR_PREFIX", "0"),
            ("RAY_DEDUP_LOGS", "0"),
            ("PYTHONUNBUFFERED", "1"),
            ("HF_HUB_OFFLINE", "1"),
            ("VLLM_NO_USAGE_STATS", "1"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect::<BTreeMap<_, _>>()
    };
    let specs = specs(&profile(), &members());
    assert_eq!(specs[0].env, own("192.168.200.12", "enp1s0f0np0", "rocep1s0f0"));
    assert_eq!(specs[1].env, own("192.168.200.13", "enP2p1s0f1np1", "roceP2p1s0f1"));
    for name in specs[0].env.keys() {
        assert!(env::reserved(name).is_some(), "a profile may set {name}");
    }
}

#[test]
fn the_profiles_variables_are_kept_and_unset_ones_stay_unset() {
    let mut profile = profile();
    profile.engine.env.insert("VLLM_USE_DEEP_GEMM".to_owned(), EnvValue::Text("0".to_owned()));
    let token = EnvValue::Secret(SecretSource::Env("HF_TOKEN".to_owned()));
    profile.engine.env.insert("HF_TOKEN".to_owned(), token);
    let mut members = members();
    members[1].rdma.clear();
    let specs = specs(&profile, &members);
    for spec in &specs {
        assert_eq!(spec.env["VLLM_USE_DEEP_GEMM"], "0");
        assert!(!spec.env.contains_key("HF_TOKEN"), "what is planned and recorded has no place for a secret");
    }
    assert!(specs[0].env.contains_key("NCCL_IB_HCA"));
    assert!(!specs[1].env.contains_key("NCCL_IB_HCA"), "an empty value is not the same as none");
}

#[test]
fn devices_follow_the_node() {
    let mut members = members();
    members[1].infiniband = false;
    members[1].gpus = false;
    let specs = specs(&profile(), &members);
    assert_eq!((specs[0].devices.as_slice(), specs[0].gpus), (&["/dev/infiniband".to_owned()][..], true));
    assert_eq!((specs[1].devices.as_slice(), specs[1].gpus), (&[][..], false));
    for spec in specs {
        assert_eq!(spec.mounts[0].source, "/home/aurora/models/Qwen3.5-122B-A10B-FP8");
        assert!(spec.mounts[0].read_only);
        assert_eq!(spec.capabilities, ["IPC_LOCK"]);
        assert_eq!(spec.ulimits["memlock"], -1);
    }
}
