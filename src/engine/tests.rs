//! Command lines and environments of the ranks, for the profile that the project began with.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::profile::Speculative;
use crate::profile::{Adapter, EnvValue, Modality, SecretSource};

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
    let own = "VLLM_HOST_IP,NCCL_SOCKET_IFNAME,GLOO_SOCKET_IFNAME,TP_SOCKET_IFNAME,UCX_NET_DEVICES,\
        OMPI_MCA_btl_tcp_if_include,NCCL_IB_HCA";
    let wanted = format!("python3 -u -c SCRIPT 192.168.200.12,192.168.200.13 {own} -- {ray} -- {SERVE}");
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
fn adapters_limits_and_the_key_are_spelled_for_each_engine() {
    let mut profile = profile();
    let adapter = |name: &str| Adapter { name: name.to_owned(), path: format!("/model/{name}") };
    profile.engine.lora = Some(Lora { adapters: vec![adapter("sql"), adapter("chat")], max_rank: Some(32) });
    profile.engine.multimodal = [(Modality::Image, 4), (Modality::Video, 0)].into();
    profile.serve.listen = Listen::Fabric;
    profile.serve.api_key = Some(SecretSource::Env("KEY".to_owned()));
    let limits = r#"{"image":4,"video":0}"#;
    profile.engine.launch = Some(Launch::Native);
    let [head, worker] = &specs(&profile, &members())[..] else { panic!("two ranks") };
    let (head, worker) = (words(&head.argv), words(&worker.argv));
    assert!(head.contains("--host 192.168.200.12 "), "{head}");
    assert!(head.contains("--lora-modules sql=/model/sql chat=/model/chat"), "{head}");
    for rank in [&head, &worker] {
        assert!(rank.contains("--enable-lora --max-lora-rank 32"), "{rank}");
        assert!(rank.contains(&format!("--limit-mm-per-prompt {limits}")), "{rank}");
    }
    assert!(!worker.contains("--lora-modules"), "{worker}");

    profile.engine.kind = EngineKind::Sglang;
    let [head, worker] = &specs(&profile, &members())[..] else { panic!("two ranks") };
    let (head, worker) = (words(&head.argv), words(&worker.argv));
    assert!(head.contains("SCRIPT SPARKCTL_API_KEY sglang.launch_server --model-path /model"), "{head}");
    assert!(worker.contains("python3 -m sglang.launch_server --model-path /model"), "{worker}");
    assert!(worker.contains("--host 192.168.200.13 "), "{worker}");
    for rank in [&head, &worker] {
        assert!(
            rank.contains("--enable-lora --lora-paths sql=/model/sql chat=/model/chat --max-lora-rank 32"),
            "{rank}"
        );
        assert!(rank.contains(&format!("--limit-mm-data-per-request {limits}")), "{rank}");
        assert!(!rank.contains("--api-key"), "{rank}");
    }
}

/// Whoever reads a rank's environment sees who sets what, and what it hides.
#[test]
fn where_each_variable_comes_from() {
    let mut profile = profile();
    profile.engine.env.insert("NCCL_DEBUG".to_owned(), EnvValue::Text("INFO".to_owned()));
    profile.engine.env.insert("HF_TOKEN".to_owned(), EnvValue::Secret(SecretSource::Env("HF".to_owned())));
    let rank = &specs(&profile, &members())[1];
    let image = [("PATH", "/bin"), ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_DEBUG", "INFO")];
    let image = image.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let told = env::told(&profile, &rank.env, &image);
    let of = |name: &str| {
        let row = told.iter().find(|row| row.name == name).unwrap();
        format!("{} {}", row.value, row.from)
    };
    assert_eq!(of("PATH"), "/bin image");
    assert_eq!(of("NCCL_DEBUG"), "INFO profile");
    assert_eq!(of("HF_TOKEN"), "‹secret› profile, a secret");
    assert_eq!(of("VLLM_HOST_IP"), "192.168.200.13 sparkctl: the address that vLLM tells the other ranks");
    let hidden = of("NCCL_SOCKET_IFNAME");
    assert!(hidden.contains("sparkctl: ") && hidden.ends_with("(the image has eth0)"), "{hidden}");
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
    for spec in variants().iter().flat_map(|profile| specs(profile, &members())) {
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
    for profile in variants() {
        for spec in specs(&profile, &members()) {
            let command = spec.argv.rsplit(|word| word == "--").next().unwrap();
            if command[0] == "ray" {
                continue;
            }
            for flag in command.iter().filter(|word| word.starts_with("--")) {
                assert!(reserved_arg(&profile.engine, flag).is_some(), "a profile may repeat `{flag}`");
            }
        }
    }
}

/// Both engines and launches, with as many settings as there are.
fn variants() -> Vec<Profile> {
    [
        (EngineKind::Vllm, Launch::Ray),
        (EngineKind::Vllm, Launch::Native),
        (EngineKind::Sglang, Launch::Native),
    ]
    .into_iter()
    .flat_map(|(kind, launch)| {
        let mut bare = profile();
        (bare.engine.kind, bare.engine.launch) = (kind, Some(launch));
        let mut full = bare.clone();
        fill(&mut full);
        [bare, full]
    })
    .collect()
}

fn fill(profile: &mut Profile) {
    let engine = &mut profile.engine;
    (engine.tensor_parallel, engine.pipeline_parallel, engine.expert_parallel) = (1, 2, true);
    engine.max_requests = Some(16);
    engine.quantization = Some("awq".to_owned());
    engine.kv_cache_type = Some("fp8_e4m3".to_owned());
    engine.prefix_caching = Some(false);
    engine.speculative =
        Some(Speculative { method: "eagle3".to_owned(), tokens: 3, model: Some("/model/draft".to_owned()) });
    engine.trust_remote_code = true;
    engine.chat_template = Some("/sparkctl/chat.jinja".to_owned());
}

/// The engine's own command line, without the script before it.
fn command(profile: &Profile, rank: usize) -> String {
    let argv = argv(profile, &members(), rank);
    words(argv.rsplit(|word| word == "--").next().unwrap())
}

fn native() -> Profile {
    let mut profile = profile();
    profile.engine.launch = Some(Launch::Native);
    profile
}

fn sglang() -> Profile {
    let mut profile = profile();
    (profile.engine.kind, profile.engine.launch) = (EngineKind::Sglang, None);
    profile
}

/// The engine sees what a Hub's cache has of the model, as the snapshot's links lead there.
#[test]
fn a_model_in_a_hub_cache() {
    let mut profile = profile();
    for path in
        ["/srv/hub/models--Qwen--Tiny/snapshots/0123abcd", "/srv/hub/models--Qwen--Tiny/snapshots/0123abcd/"]
    {
        path.clone_into(&mut profile.model.path);
        for profile in [&profile, &Profile { engine: sglang().engine, ..profile.clone() }] {
            let specs = specs(profile, &members());
            assert!(specs.iter().all(|spec| spec.mounts[0].source == "/srv/hub/models--Qwen--Tiny"));
            assert!(specs.iter().all(|spec| spec.mounts[0].target == "/hub" && spec.mounts[0].read_only));
            let argv = words(&specs[0].argv);
            assert!(argv.contains(" /hub/snapshots/0123abcd --"), "{argv}");
        }
    }
    // Not such a place: the folder itself.
    for path in
        ["/srv/snapshots/0123abcd", "/srv/models--Qwen--Tiny/snapshots", "/models--a/snapshots/b/c", "/m"]
    {
        path.clone_into(&mut profile.model.path);
        let mount = &specs(&profile, &members())[0].mounts[0];
        assert_eq!((mount.source.as_str(), mount.target.as_str()), (path, "/model"));
    }
}

#[test]
fn a_native_launch_of_vllm() {
    let specs = specs(&native(), &members());
    let script = "python3 -u -c SCRIPT 192.168.200.12,192.168.200.13";
    let spread = "--tensor-parallel-size 2 --distributed-executor-backend mp --nnodes 2";
    let master = "--master-addr 192.168.200.12 --master-port 29501";
    let settings = "--max-model-len 32768 --gpu-memory-utilization 0.8 --reasoning-parser qwen3";
    assert_eq!(
        words(&specs[0].argv),
        format!(
            "{script} 0 29499 /tmp/sparkctl-ranks -- vllm serve /model --served-model-name qwen3.5-122b --host 0.0.0.0 --port 30000 \
             {spread} --node-rank 0 {master} {settings} --tool-call-parser qwen3_coder --enable-auto-tool-choice"
        )
    );
    // A worker has no endpoint: nothing that is about it.
    assert_eq!(
        words(&specs[1].argv),
        format!(
            "{script} 1 29499 /tmp/sparkctl-ranks -- vllm serve /model {spread} --node-rank 1 {master} --headless {settings}"
        )
    );
}

#[test]
fn sglang_has_one_command_for_all_ranks() {
    let specs = specs(&sglang(), &members());
    for (rank, spec) in specs.iter().enumerate() {
        assert_eq!(
            words(&spec.argv),
            format!(
                "python3 -u -c SCRIPT 192.168.200.12,192.168.200.13 {rank} 29499 /tmp/sparkctl-ranks -- python3 -m sglang.launch_server \
                 --model-path /model --served-model-name qwen3.5-122b --host 0.0.0.0 --port 30000 --tp-size 2 \
                 --nnodes 2 --node-rank {rank} --dist-init-addr 192.168.200.12:29501 --context-length 32768 \
                 --mem-fraction-static 0.8 --reasoning-parser qwen3 --tool-call-parser qwen3_coder --enable-metrics"
            )
        );
    }
}

#[test]
fn one_node_needs_no_launch() {
    for profile in [native(), sglang()] {
        let mut profile = profile;
        profile.cluster.nodes.truncate(1);
        profile.engine.tensor_parallel = 1;
        let specs = specs(&profile, &members()[..1]);
        let argv = words(&specs[0].argv);
        assert!(argv.starts_with("vllm serve /model ") || argv.starts_with("python3 -m sglang."), "{argv}");
        for flag in
            ["--nnodes", "--node-rank", "--dist-init-addr", "--master-addr", "--distributed-executor-backend"]
        {
            assert!(!argv.contains(flag), "`{flag}` is in `{argv}`");
        }
    }
}

/// Every setting as each engine spells it.
#[test]
fn settings_are_spelled_for_the_engine() {
    type Change = fn(&mut Settings);
    fn speculate(engine: &mut Settings, method: &str, model: Option<&str>) {
        let model = model.map(str::to_owned);
        engine.speculative = Some(Speculative { method: method.to_owned(), tokens: 3, model });
    }
    let cases: &[(Change, &str, &str)] = &[
        (|e| e.max_requests = Some(16), "--max-num-seqs 16", "--max-running-requests 16"),
        (|e| e.quantization = Some("awq".into()), "--quantization awq", "--quantization awq"),
        (
            |e| e.kv_cache_type = Some("fp8_e5m2".into()),
            "--kv-cache-dtype fp8_e5m2",
            "--kv-cache-dtype fp8_e5m2",
        ),
        (|e| e.prefix_caching = Some(true), "--enable-prefix-caching", ""),
        (|e| e.prefix_caching = Some(false), "--no-enable-prefix-caching", "--disable-radix-cache"),
        (|e| e.trust_remote_code = true, "--trust-remote-code", "--trust-remote-code"),
        (
            |e| e.chat_template = Some("/t.jinja".into()),
            "--chat-template /t.jinja",
            "--chat-template /t.jinja",
        ),
        (|e| e.expert_parallel = true, "--enable-expert-parallel", "--ep-size 2"),
        (
            |e| (e.tensor_parallel, e.pipeline_parallel) = (1, 2),
            "--tensor-parallel-size 1 --pipeline-parallel-size 2",
            "--tp-size 1 --pp-size 2",
        ),
        (
            |e| speculate(e, "mtp", None),
            r#"--speculative-config {"method":"mtp","num_speculative_tokens":3}"#,
            "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 \
             --speculative-num-draft-tokens 4",
        ),
        (
            |e| speculate(e, "eagle3", Some("/draft")),
            r#"--speculative-config {"method":"eagle3","num_speculative_tokens":3,"model":"/draft"}"#,
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path /draft --speculative-num-steps 3 \
             --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
        (
            |e| speculate(e, "ngram", None),
            r#"--speculative-config {"method":"ngram","num_speculative_tokens":3}"#,
            "--speculative-algorithm NGRAM --speculative-num-draft-tokens 3",
        ),
        (
            |e| speculate(e, "dspark", None),
            r#"--speculative-config {"method":"dspark","num_speculative_tokens":3}"#,
            "--speculative-algorithm DSPARK --speculative-num-draft-tokens 4",
        ),
    ];
    for (change, vllm, sg) in cases {
        for (mut profile, wanted) in [(profile(), vllm), (native(), vllm), (sglang(), sg)] {
            let before = command(&profile, 0);
            change(&mut profile.engine);
            let argv = command(&profile, 0);
            assert!(argv.contains(wanted), "`{wanted}` is not in `{argv}`");
            assert!(wanted.is_empty() || !before.contains(wanted), "`{wanted}` was there before");
            assert!(!wanted.is_empty() || before == argv, "`{argv}` has more than `{before}`");
        }
    }
    // What a worker of vLLM computes with, and nothing about the endpoint.
    let mut full = native();
    fill(&mut full);
    let worker = command(&full, 1);
    for flag in ["--max-num-seqs", "--quantization", "--speculative-config", "--enable-expert-parallel"] {
        assert!(worker.contains(flag), "`{flag}` is not in `{worker}`");
    }
    for flag in ["--chat-template", "--tool-call-parser", "--port ", "--host", "--served-model-name"] {
        assert!(!worker.contains(flag), "`{flag}` is in `{worker}`");
    }
}

/// Copies meet at the head's fabric address; how many there are on a node follows from the nodes.
#[test]
fn copies_of_a_model() {
    let mut profile = native();
    (profile.engine.tensor_parallel, profile.engine.data_parallel) = (1, 2);
    for rank in [0, 1] {
        let argv = command(&profile, rank);
        let wanted = "--tensor-parallel-size 1 --data-parallel-size 2 --data-parallel-address 192.168.200.12 --data-parallel-rpc-port 29550";
        assert!(argv.contains(wanted), "{argv}");
        assert!(argv.contains(&format!("--nnodes 2 --node-rank {rank}")), "{argv}");
    }
    assert!(ports(&profile, 0).iter().any(|port| port.number == 29550));
}

#[test]
fn ports_follow_launch_and_rank() {
    let numbers =
        |profile: &Profile, rank| ports(profile, rank).iter().map(|port| port.number).collect::<Vec<_>>();
    let mut alone = profile();
    alone.cluster.nodes.truncate(1);
    assert_eq!(numbers(&alone, 0), [30000]);
    assert_eq!((numbers(&profile(), 0), numbers(&profile(), 1)), (vec![30000, 6379], vec![]));
    assert_eq!((numbers(&native(), 0), numbers(&native(), 1)), (vec![30000, 29499, 29501], vec![]));
    assert_eq!((numbers(&sglang(), 0), numbers(&sglang(), 1)), (vec![30000, 29499, 29501], vec![30000]));
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
}

#[test]
fn each_engine_has_its_own_variables() {
    let set = |profile: &Profile| specs(profile, &members())[1].env.clone();
    let (ray, native, sglang) = (set(&profile()), set(&native()), set(&sglang()));
    assert_eq!(sglang["SGLANG_HOST_IP"], "192.168.200.13");
    assert_eq!(native["VLLM_HOST_IP"], "192.168.200.13");
    assert!(!native.contains_key("SGLANG_HOST_IP") && !sglang.contains_key("VLLM_HOST_IP"));
    let is_rays = |name: &String| name.starts_with("RAY_");
    assert!(ray.keys().any(is_rays) && !native.keys().any(is_rays) && !sglang.keys().any(is_rays));
    for common in
        ["MASTER_ADDR", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "PYTHONUNBUFFERED"]
    {
        assert_eq!(native[common], sglang[common]);
    }
    for profile in variants() {
        for name in specs(&profile, &members())[0].env.keys() {
            assert!(env::reserved(&profile.engine, name).is_some(), "a profile may set {name}");
        }
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
