use proptest::prelude::*;

use super::*;

macro_rules! log {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/logs/", $name, ".log"))
    };
}

fn rank(rank: u32, log: &str, end: Option<End>) -> RankEvidence {
    let node = format!("spark{}", rank + 1).parse().unwrap();
    RankEvidence { node, rank, lines: log.lines().map(LogLine::parse).collect(), end, stuck: None }
}

#[expect(clippy::unnecessary_wraps, reason = "every use needs the option")]
fn exited(code: i64) -> Option<End> {
    Some(End { code, oom_killed: false, error: String::new() })
}

#[test]
fn real_failures_are_known() {
    // The rank that failed, what the cause names, and what the hint names.
    let cases: &[(&[&str], &str, u32, &str, &str)] = &[
        (&[log!("architecture")], "MODEL-ARCH", 0, "FooBarForCausalLM", "image.reference"),
        (&[log!("context-too-long")], "MEM-DERIVED", 0, "2048", "`engine.context_length` to 2048"),
        (&[log!("port-in-use")], "PORT-USE", 0, "port", "serve.port"),
        (&[log!("tool-parser")], "TOOL-PARSER", 0, "`nope`", "hermes"),
        (&[log!("no-such-path")], "MODEL-PATH", 0, "/models/does-not-exist", "model.path"),
        (&[log!("shard-missing")], "MODEL-SHARD", 0, "model-00002-of-00002", "model.path"),
        (&[log!("cuda-module-missing.rank0")], "IMAGE-MODULE", 0, "flashinfer", "image.reference"),
        (&[log!("ray-memory-monitor"), ""], "RAY-OOM", 1, "memory monitor", "engine.memory_fraction"),
        (
            &[log!("gloo-interface.rank0"), log!("gloo-interface.rank1")],
            "GLOO-IF",
            0,
            "nope0",
            "GLOO_SOCKET_IFNAME",
        ),
    ];
    for (logs, id, failed, cause, hint) in cases {
        let evidence: Vec<_> = (0..).zip(*logs).map(|(number, log)| rank(number, log, exited(1))).collect();
        let diagnosis = diagnose(&evidence);
        assert_eq!(diagnosis.id, Some(*id), "{diagnosis:#?}");
        assert_eq!(diagnosis.rank, Some(*failed), "{diagnosis:#?}");
        assert!(diagnosis.cause.as_ref().unwrap().contains(cause), "{diagnosis:#?}");
        assert!(diagnosis.hint.as_ref().unwrap().contains(hint), "{diagnosis:#?}");
        check_telling(&diagnosis);
        assert!(diagnosis.telling.len() <= 4, "{diagnosis:#?}");
    }
}

fn check_telling(diagnosis: &Diagnosis) {
    assert!(diagnosis.telling.len() <= MOST_TOLD);
    for Telling { text, .. } in &diagnosis.telling {
        assert!(text.chars().count() <= 200 && !text.contains(char::is_control), "{text}");
    }
}

#[test]
fn silent_hangs_are_known() {
    for (head, worker, announced) in [
        (log!("hang.rank0"), log!("hang.rank1"), "172.30.5.11"),
        (log!("cuda-hang.rank0"), log!("cuda-hang.rank1"), "10.79.1.2"),
    ] {
        let diagnosis = diagnose(&[rank(0, head, None), rank(1, worker, None)]);
        assert_eq!((diagnosis.id, diagnosis.rank), (Some("MQ-HANG"), Some(0)), "{diagnosis:#?}");
        assert!(diagnosis.cause.as_ref().unwrap().contains(announced), "{diagnosis:#?}");
        assert!(diagnosis.hint.as_ref().unwrap().contains("VLLM_HOST_IP"));
        assert!(diagnosis.telling.iter().any(|line| line.text.contains("mq_connect_ip")), "{diagnosis:#?}");
        assert!(diagnosis.telling.iter().any(|line| line.node.as_str() == "spark2"));
        check_telling(&diagnosis);
    }
    let met = "(Worker pid=1) INFO 11-30 13:07:17 [p.py:1] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://10.99.0.1:29501 backend=nccl";
    let diagnosis = diagnose(&[rank(0, met, None), rank(1, "", None)]);
    assert_eq!(diagnosis.id, Some("RENDEZVOUS-HANG"));
    assert!(diagnosis.cause.unwrap().contains("10.99.0.1:29501"));
    let diagnosis = diagnose(&[rank(0, "sparkctl: ray has 1 of 2 nodes", None), rank(1, "", None)]);
    assert_eq!(diagnosis.cause.unwrap(), "only 1 of 2 nodes joined the Ray cluster");
    let alone = "sparkctl: native has 1 of 2 nodes, missing 192.168.200.12";
    let diagnosis = diagnose(&[rank(0, alone, None), rank(1, "", None)]);
    assert_eq!(diagnosis.id, Some("NATIVE-GATHER"));
    assert_eq!(diagnosis.cause.unwrap(), "only 1 of 2 nodes came to the head");
    let begun = "[2026-09-21 13:37:04 TP0] Init torch distributed begin.";
    let diagnosis = diagnose(&[rank(0, begun, None), rank(1, begun, None)]);
    assert_eq!(diagnosis.id, Some("RENDEZVOUS-HANG"), "{diagnosis:#?}");
}

/// A rank that stood still, and what was seen of it.
fn stuck(number: u32, log: &str, connecting: &[&str], stacks: &str) -> RankEvidence {
    let own = |net: &str| format!("{net}.{}", 11 + number).parse().unwrap();
    let stuck = Stuck {
        silence: std::time::Duration::from_secs(150),
        stage: None,
        fabric: own("192.168.200"),
        addresses: vec![own("192.168.200"), own("10.77.0")],
        connecting: connecting.iter().map(|to| to.parse().unwrap()).collect(),
        stacks: stacks.to_owned(),
    };
    RankEvidence { stuck: Some(stuck), ..rank(number, log, None) }
}

/// What both ranks wrote, where the worker connects to and is: the failure, the rank to blame, words of cause and hint.
type Case = (&'static str, &'static str, &'static str, &'static str, Option<u32>, &'static str, &'static str);

#[test]
fn which_hang_it_is_shows_in_sockets_and_stacks() {
    const GROUPS: &str = "(Worker pid=1) WARNING 11-30 13:07:29 [c.py:1] Custom allreduce is disabled because this process group spans across nodes.";
    const MET: &str = "(Worker pid=1) INFO 11-30 13:07:17 [p.py:1] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://192.168.200.11:29501 backend=gloo";
    const NCCL: &str = "(Worker pid=1) INFO 11-30 13:07:18 [pynccl.py:1] vLLM is using nccl==2.28.9";
    const BEGUN: &str =
        "g1:312:312 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 commId 0x2 - Init START";
    const LOADS: &str = "Loading safetensors checkpoint shards:  43% Completed | 43/100 [00:09<00:27]";
    const LAN: &str = "10.77.0.11:41327";
    const FABRIC: &str = "192.168.200.11:41327";
    const INTERNET: &str = "34.120.1.2:443";
    let queue = "    wait_until_ready (vllm/distributed/device_communicators/shm_broadcast.py:517)";
    let nccl = "    ncclCommInitRank (vllm/distributed/device_communicators/pynccl_wrapper.py:400)";
    let gloo = "    new_group (torch/distributed/distributed_c10d.py:5000)";
    let load = "    load_weights (vllm/model_executor/models/qwen3.py:300)";
    let cases: &[Case] = &[
        (
            GROUPS,
            LAN,
            "",
            "MQ-HANG",
            Some(0),
            "rank 1 on spark2 connects to 10.77.0.11:41327",
            "VLLM_HOST_IP",
        ),
        (
            GROUPS,
            LAN,
            queue,
            "MQ-HANG",
            Some(0),
            "the message queue of a rank announces a wrong address",
            "VLLM_HOST_IP",
        ),
        // A connection to the fabric that is not answered is a firewall's doing, one to the internet nobody's business.
        (GROUPS, FABRIC, "", "MQ-HANG", None, "a firewall is in the way", "VLLM_HOST_IP"),
        (GROUPS, INTERNET, queue, "MQ-HANG", None, "a firewall is in the way", "VLLM_HOST_IP"),
        (GROUPS, "", nccl, "NCCL-HANG", None, "NCCL does not get the ranks connected", "NCCL"),
        (NCCL, LAN, "", "NCCL-HANG", Some(0), "10.77.0.11:41327, which is no `fabric` address", "NCCL"),
        (BEGUN, "", "", "NCCL-HANG", None, "NCCL", "NCCL"),
        (GROUPS, "", gloo, "GLOO-HANG", None, "Gloo", "GLOO_SOCKET_IFNAME"),
        (
            MET,
            LAN,
            "",
            "GLOO-HANG",
            Some(0),
            "rank 1 on spark2 is told to connect to 10.77.0.11:41327",
            "GLOO_SOCKET_IFNAME",
        ),
        (MET, FABRIC, "", "RENDEZVOUS-HANG", None, "192.168.200.11:29501", "firewall"),
        (
            LOADS,
            "",
            load,
            "LOAD-HANG",
            None,
            "stood still at 43 %: for 2 min 30 s nothing was read",
            "journalctl",
        ),
        (
            "Loading safetensors using Fastsafetensor loader:   0% Completed | 0/2",
            "",
            "",
            "LOAD-HANG",
            None,
            "at 0 %",
            "fastsafetensors",
        ),
        (
            "Capturing CUDA graphs",
            "",
            "",
            "ENGINE-HANG",
            None,
            "stood still at `capturing graphs`",
            "--enforce-eager",
        ),
        (
            "Application startup complete",
            "",
            "",
            "ENGINE-HANG",
            None,
            "is up and answers no request",
            "py-spy",
        ),
    ];
    for (log, to, stacks, id, blamed, cause, hint) in cases {
        let to: Vec<_> = (!to.is_empty()).then_some(*to).into_iter().collect();
        let diagnosis = diagnose(&[stuck(0, log, &[], ""), stuck(1, log, &to, stacks)]);
        assert_eq!((diagnosis.id, diagnosis.rank), (Some(*id), *blamed), "{log}: {diagnosis:#?}");
        assert!(diagnosis.cause.as_ref().unwrap().contains(cause), "{diagnosis:#?}");
        assert!(diagnosis.hint.as_ref().unwrap().contains(hint), "{diagnosis:#?}");
        let told = diagnosis.telling.iter().any(|line| line.text.contains("SYN-SENT"));
        assert_eq!(told, !to.is_empty(), "{diagnosis:#?}");
        check_telling(&diagnosis);
    }
    // Nothing is said of a later stage where nobody saw that it stands still: a wrong answer comes from one that runs.
    assert_eq!(diagnose(&[rank(0, "Application startup complete", None)]).id, None);
}

#[test]
fn lines_about_waiting_are_no_sign_of_life() {
    for line in [
        "(EngineCore pid=1) INFO 11-30 13:07:17 [ray_utils.py:1] Waiting for creating a placement group of specs for 40 seconds.",
        "(EngineCore pid=1) INFO 11-30 13:07:17 [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds.",
        "INFO:     127.0.0.1:43350 - \"GET /v1/models HTTP/1.1\" 404 Not Found",
        "(APIServer pid=1) INFO 11-30 13:12:28 [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs",
    ] {
        assert!(only_waits(line), "{line}");
    }
    for line in [
        "Loading safetensors checkpoint shards:  43% Completed | 43/100 [00:09<00:27]",
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 10.4 tokens/s",
    ] {
        assert!(!only_waits(line), "{line}");
    }
}

#[test]
fn a_command_ahead_of_the_engine_that_fails_is_the_cause() {
    let log = "2026-03-01T09:00:00Z sparkctl: ahead of the engine, 1 of 1: pip install flash-attn
2026-03-01T09:00:01Z Collecting flash-attn
2026-03-01T09:00:09Z ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
2026-03-01T09:00:20Z sparkctl: engine.before[0] failed with exit status 1: pip install flash-attn";
    let head = "2026-03-01T09:00:21Z sparkctl: ray has 1 of 2 nodes, missing 192.168.200.13";
    let diagnosis = diagnose(&[rank(0, head, None), rank(1, log, exited(1))]);
    assert_eq!((diagnosis.id, diagnosis.rank), (Some("BEFORE-FAILED"), Some(1)), "{diagnosis:#?}");
    let cause = "`engine.before[0]` failed with exit status 1: pip install flash-attn";
    assert_eq!(diagnosis.cause.as_deref(), Some(cause));
    let told: Vec<_> =
        diagnosis.telling.iter().map(|line| (line.node.as_str(), line.text.as_str())).collect();
    assert_eq!(
        told[2].1,
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    );
    assert!(told[..4].iter().all(|(node, _)| *node == "spark2"), "{told:?}");
    check_telling(&diagnosis);
}

#[test]
fn healthy_logs_have_no_cause() {
    let healthy = [
        [log!("healthy.rank0"), log!("healthy.rank1")],
        [log!("cuda-healthy.rank0"), "sparkctl: ray has 2 of 2 nodes"],
    ];
    for [head, worker] in healthy {
        for end in [None, exited(0), exited(1)] {
            let evidence = [rank(0, head, end.clone()), rank(1, worker, end)];
            assert!(findings(&evidence).is_empty());
            let diagnosis = diagnose(&evidence);
            assert_eq!((diagnosis.id, &diagnosis.cause), (None, &None));
            assert!(!diagnosis.telling.is_empty());
            check_telling(&diagnosis);
        }
    }
}

#[test]
fn ends_speak_where_logs_do_not() {
    let check =
        |head: (&str, Option<End>), worker: (&str, Option<End>), id: Option<&str>, failed: Option<u32>| {
            let diagnosis = diagnose(&[rank(0, head.0, head.1.clone()), rank(1, worker.0, worker.1.clone())]);
            assert_eq!((diagnosis.id, diagnosis.rank), (id, failed), "{head:?} {worker:?} {diagnosis:#?}");
        };
    let oom = Some(End { code: 137, oom_killed: true, error: String::new() });
    let refused = |error: &str| Some(End { code: 128, oom_killed: false, error: error.to_owned() });
    let closed = "NCCL WARN socketProgress: Connection closed by remote peer spark2<41327>";
    let full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB";
    check((closed, exited(1)), ("", oom.clone()), Some("MEM-KILL"), Some(1));
    check((full, exited(1)), ("", oom), Some("MEM-KILL"), Some(1));
    check((closed, exited(1)), ("", exited(137)), Some("EXIT-137"), Some(1));
    check((full, exited(1)), ("", exited(137)), Some("MEM-CUDA"), Some(0));
    check((full, exited(137)), ("", None), Some("MEM-CUDA"), Some(0));
    check((closed, exited(1)), ("", exited(139)), Some("EXIT-139"), Some(1));
    check((closed, exited(1)), ("", exited(143)), Some("NCCL-CONNECT"), Some(0));
    check(("", exited(143)), ("", None), Some("EXIT-143"), Some(0));
    check(("", exited(1)), ("", None), None, Some(0));
    check(
        ("", None),
        ("", refused("could not select device driver \"\" with capabilities: [[gpu]]")),
        Some("DOCKER-GPU"),
        Some(1),
    );
    check(("", refused("no such thing")), ("", None), Some("DOCKER-START"), Some(0));
}

#[test]
fn the_earliest_cause_counts_and_within_a_second_the_deeper_one() {
    let check = |lines: &[(u32, &str)], id: &str, failed: u32| {
        let log = |number| {
            let own = lines.iter().filter(|(owner, _)| *owner == number);
            own.map(|(_, line)| format!("2026-11-30T15:02:{line}")).collect::<Vec<_>>().join("\n")
        };
        let diagnosis = diagnose(&[rank(0, &log(0), exited(1)), rank(1, &log(1), exited(1))]);
        assert_eq!((diagnosis.id, diagnosis.rank), (Some(id), Some(failed)), "{lines:?}");
    };
    let closed = "NCCL WARN Connection closed by remote peer spark2<41327>";
    let full = "torch.OutOfMemoryError: CUDA out of memory.";
    let wrapper = "RuntimeError: Engine core initialization failed. See root cause above.";
    let waits =
        "INFO 11-30 15:02:01 [x.py:1] No available shared memory broadcast block found in 60 seconds.";
    check(&[(0, &format!("10.0Z {full}")), (1, &format!("11.5Z {closed}"))], "MEM-CUDA", 0);
    check(&[(0, &format!("10.0Z {closed}")), (1, &format!("10.9Z {full}"))], "MEM-CUDA", 1);
    check(&[(0, &format!("10.0Z {closed}")), (1, &format!("20.0Z {full}"))], "NCCL-CONNECT", 0);
    check(&[(0, &format!("10.0Z {wrapper}")), (1, &format!("20.0Z {full}"))], "MEM-CUDA", 1);
    check(&[(0, &format!("10.0Z {waits}")), (1, &format!("50.0Z {full}"))], "MEM-CUDA", 1);
    check(&[(0, &format!("10.0Z {waits}")), (1, &format!("50.0Z {wrapper}"))], "MQ-WAIT", 0);
}

#[test]
fn nothing_is_made_up() {
    let log = "\
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] WorkerProc failed to start.
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] Traceback (most recent call last):
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953]   File \"x.py\", line 1, in f
(EngineCore pid=7) something else meanwhile
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] KeyError: 'first'
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953]
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] During handling of the above exception, another exception occurred:
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953]
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] Traceback (most recent call last):
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953]     f()
(Worker_TP1 pid=9) ERROR 11-30 13:09:55 [multiproc_executor.py:953] FlyingPigError: \u{1b}[31mthe pig does not fly\u{1b}[0m
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 348.41it/s]
Traceback (most recent call last):
  File \"y.py\", line 1, in g
RuntimeError: Engine core initialization failed. See root cause above.
";
    let diagnosis = diagnose(&[rank(0, "all is well here", None), rank(1, log, exited(1))]);
    assert_eq!((diagnosis.id, &diagnosis.cause, diagnosis.rank), (None, &None, Some(1)));
    let told: Vec<_> = diagnosis.telling.iter().map(|line| line.text.as_str()).collect();
    assert!(told[0].ends_with("FlyingPigError: the pig does not fly"), "{told:#?}");
    assert!(told.iter().all(|line| !line.contains("Completed") && !line.contains("File \"")), "{told:#?}");
    assert!(told.iter().all(|line| !line.contains("all is well")), "{told:#?}");
    assert_eq!(diagnosis.hint.as_deref(), Some("look further up, in the logs of all ranks"));
}

#[test]
fn long_lines_are_cut_around_what_matters() {
    let log = format!("{} CUDA out of memory. {}", "x".repeat(500), "y".repeat(500));
    let diagnosis = diagnose(&[rank(0, &log, exited(1))]);
    assert!(diagnosis.telling[0].text.starts_with("…CUDA out of memory. yyy"), "{diagnosis:?}");
    let log = format!("(Worker pid=1) ERROR 11-30 13:09:55 [{}.py:9] KeyError: 'x'", "z".repeat(190));
    let diagnosis = diagnose(&[rank(0, &log, exited(1))]);
    assert_eq!(diagnosis.telling[0].text, "…KeyError: 'x'");
    check_telling(&diagnosis);
}

#[test]
fn docker_lines_are_read() {
    let line = LogLine::parse("2026-11-30T15:02:17.510974890Z (APIServer pid=1) INFO: up\r\n");
    assert_eq!(line.time.unwrap().to_string(), "2026-11-30T15:02:17.51097489Z");
    assert_eq!(line.text, "(APIServer pid=1) INFO: up");
    assert_eq!(LogLine::parse("no time here"), LogLine { time: None, text: "no time here".to_owned() });
    assert_eq!(LogLine::parse(""), LogLine { time: None, text: String::new() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_text_panics(
        logs in proptest::collection::vec((any::<String>(), proptest::option::of(any::<(i64, bool, String)>())), 0..4),
        pick in proptest::collection::vec((0..200_usize, 0..200_usize), 0..12),
    ) {
        // Arbitrary text, and lines of the catalogue put together and cut anywhere.
        let examples: Vec<&str> = signatures::all().flat_map(|row| row.examples).copied().collect();
        let woven: Vec<String> = pick
            .iter()
            .map(|(which, cut)| {
                let line = examples[which % examples.len()];
                let cut: String = line.chars().skip(cut % line.len()).collect();
                format!("(Worker_TP1 pid=1) Traceback (most recent call last):\r…\u{1b}[31m{cut}")
            })
            .collect();
        let mut evidence: Vec<_> = (0..)
            .zip(logs)
            .map(|(number, (log, end))| {
                rank(number, &log, end.map(|(code, oom_killed, error)| End { code, oom_killed, error }))
            })
            .collect();
        check_telling(&diagnose(&evidence));
        evidence.push(rank(7, &woven.join("\n"), exited(1)));
        check_telling(&diagnose(&evidence));
    }
}

/// `SGLang` kills itself where one of its processes failed: that it was killed is no cause, and the group's end is none.
#[test]
fn sglang_ends_by_its_own_hand() {
    let failed = "[2026-09-21 13:37:04 TP1] Scheduler hit an exception: Traceback (most recent call last):\n\
        RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n\
        [2026-09-21 13:37:04] Received sigquit from a child process. It usually means the child failed.";
    let gone = "sparkctl: rank 1 at 192.168.200.12 is gone: ending the engine of rank 0";
    let diagnosis = diagnose(&[rank(0, gone, exited(1)), rank(1, failed, exited(137))]);
    assert_eq!((diagnosis.id, diagnosis.rank), (Some("SGL-MEMORY"), Some(1)), "{diagnosis:#?}");

    let unknown = failed.replace("Not enough memory. Please try to increase --mem-fraction-static", "a bug");
    let diagnosis = diagnose(&[rank(0, gone, exited(1)), rank(1, &unknown, exited(137))]);
    assert_eq!(diagnosis.cause, None, "{diagnosis:#?}");
    assert!(diagnosis.telling.iter().any(|line| line.text.contains("a bug")), "{diagnosis:#?}");

    // Killed from outside, it says nothing.
    let killed = "[2026-09-21 13:37:04 TP1] Load weight begin. avail mem=110.20 GB";
    let diagnosis = diagnose(&[rank(0, gone, exited(1)), rank(1, killed, exited(137))]);
    assert_eq!((diagnosis.id, diagnosis.rank), (Some("EXIT-137"), Some(1)), "{diagnosis:#?}");
}
