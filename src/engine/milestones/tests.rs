use proptest::prelude::*;

use super::StartStage::{self, *};
use super::*;

/// The stages that a log shows, each where the greatest so far grows.
fn reached(log: &str) -> Vec<StartStage> {
    let mut stages: Vec<StartStage> = Vec::new();
    for milestone in log.lines().filter_map(of_any) {
        if stages.last().is_none_or(|last| *last < milestone.stage) {
            stages.push(milestone.stage);
        }
    }
    stages
}

macro_rules! log {
    ($name:literal) => {
        include_str!(concat!("../../../tests/data/logs/", $name, ".log"))
    };
}

#[test]
fn real_logs_show_their_stages_in_order() {
    let cases: &[(&str, &[StartStage])] = &[
        (
            log!("healthy.rank0"),
            &[Config, Engine, Rendezvous, Groups, GroupsReady, LoadingWeights, Memory, Warming, Serving],
        ),
        (log!("healthy.rank1"), &[Config, Engine, Rendezvous, Groups, GroupsReady, LoadingWeights, Memory]),
        (
            log!("cuda-healthy.rank0"),
            &[
                Config,
                Engine,
                Rendezvous,
                Groups,
                GroupsReady,
                LoadingWeights,
                WeightsLoaded,
                Compiling,
                Memory,
                CapturingGraphs,
                GraphsCaptured,
                Warming,
                Serving,
            ],
        ),
        (log!("hang.rank0"), &[Config, Engine, Rendezvous, Groups]),
        (log!("hang.rank1"), &[Config, Engine, Rendezvous, Groups]),
        (log!("cuda-hang.rank0"), &[Config, Engine, Rendezvous, Groups]),
        (log!("cuda-hang.rank1"), &[Config, Engine, Rendezvous, Groups]),
        (
            log!("ray-memory-monitor"),
            &[Config, Engine, Rendezvous, Groups, GroupsReady, LoadingWeights, WeightsLoaded],
        ),
        (
            log!("cuda-module-missing.rank0"),
            &[Config, Engine, Rendezvous, Groups, GroupsReady, LoadingWeights, WeightsLoaded],
        ),
        (log!("gloo-interface.rank0"), &[Config, Engine, Rendezvous]),
        (log!("shard-missing"), &[Config, Engine, Rendezvous, GroupsReady, LoadingWeights]),
        (log!("port-in-use"), &[Config]),
    ];
    for (log, stages) in cases {
        assert_eq!(reached(log), *stages, "{}", log.lines().next().unwrap());
    }
}

#[test]
fn lines_carry_figures() {
    let check = |line: &str, stage: StartStage, figure: Option<&str>, fraction: Option<f32>| {
        let wanted = Milestone { stage, figure: figure.map(str::to_owned), fraction };
        assert_eq!(vllm(line), Some(wanted), "{line}");
    };
    check("sparkctl: ray has 1 of 2 nodes", Gathering, Some("1 of 2 nodes"), Some(0.5));
    check(
        "\u{1b}[36m(RayWorkerProc pid=9, ip=10.0.0.2)\u{1b}[0m (Worker_TP1 pid=9) Loading safetensors checkpoint shards:  25% Completed | 10/39 [00:09<00:27]",
        LoadingWeights,
        Some("25 %"),
        Some(10.0 / 39.0),
    );
    check(
        "Loading safetensors using Fastsafetensor loader:  50% Completed | 1/2 [00:01<00:01]",
        LoadingWeights,
        Some("50 %"),
        Some(0.5),
    );
    check(
        "Capturing CUDA graphs (PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]Capturing CUDA graphs (PIECEWISE):  14%|█▎        | 7/51 [00:00<00:00, 63.62it/s]",
        CapturingGraphs,
        Some("7/51"),
        Some(7.0 / 51.0),
    );
    check(
        "[AutoTuner]: Tuning fp4_gemm:   4%|▍         | 1/23 [00:00<00:04]",
        Tuning,
        Some("1/23"),
        Some(1.0 / 23.0),
    );
    check("GPU KV cache size: 1,234,567 tokens", Memory, Some("1.2 M tokens"), None);
    check("GPU KV cache size: 34,567 tokens", Memory, Some("35 k tokens"), None);
    check("Explicitly set (1.0/14.84) GiB for KV cache on node 0.", Memory, Some("1.0 GiB"), None);
    check("Model loading took 63.24 GiB memory and 71.2 seconds", WeightsLoaded, Some("63.2 GiB"), None);
    check("Graph capturing finished in 12 secs, took 0.31 GiB", GraphsCaptured, Some("12 s"), None);
    check("Waiting for creating a placement group of specs for 40 seconds.", Engine, Some("40 s"), None);
    check("JIT kernel warmup starting.", Tuning, None, None);
}

#[test]
fn a_warm_up_that_is_off_is_no_stage() {
    assert_eq!(vllm("Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup."), None);
    assert_eq!(vllm("Skipping CuTeDSL warmup because no compile units were requested."), None);
    assert_eq!(vllm(""), None);
}

#[test]
fn stages_are_said_in_words() {
    assert_eq!(
        format!("{LoadingWeights} / {CapturingGraphs:<20}|"),
        "loading weights / capturing graphs    |"
    );
}

proptest! {
    #[test]
    fn no_text_panics(line in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = vllm(&line);
        let _ = vllm(&String::from_utf8_lossy(&bytes));
        for (done, all) in [("0", "0"), ("99999999999999999999", "1")] {
            let _ = vllm(&format!("Loading safetensors checkpoint shards: 1% Completed | {done}/{all}"));
        }
    }
}
