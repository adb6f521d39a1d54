//! Real vLLM on real Ray, over two nodes: TP=2 on the CPU, with a model that knows what it is asked.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, chat, eventually};

#[test]
fn real_vllm_is_deployed_changed_and_rolled_back() {
    let rig = Rig::clean();
    rig.run(&["load", "spark1", "vllm"]);
    let mut operator = Operator::with("rig-vllm");
    operator
        .deploy()
        .ended(0)
        .saying("verify")
        .saying("chat, reasoning, tool call")
        .saying("release 1 serves");
    answers_rightly();
    let said =
        operator.run(&["status", "-v"]).ended(0).saying("release 1, serving").saying("Ray 2 of 2 nodes");
    said.saying("at its start: engine 0.32.0 · KV cache");

    let guesses = "context_length: 1024\n  speculative: { method: ngram, tokens: 3 }";
    operator.edit("context_length: 2048", guesses);
    operator
        .deploy()
        .ended(0)
        .saying("--max-model-len 2048 → --max-model-len 1024")
        .saying("ready: ranks joined: Ray 2 of 2 nodes, at 192.168.200.11, 192.168.200.12")
        .saying("release 2 serves");
    answers_rightly();
    chat("Count from 1 to 30.").expect("it counts");
    let said = operator.run(&["status"]).ended(0);
    assert!(said.stdout.contains("% right") && said.stdout.contains("tokens a step"), "{}", said.stdout);

    // A worker that is frozen while it serves: the endpoint goes on saying that all is well, and status does not.
    rig.on("spark2", "docker pause sparkctl-rig-vllm-1");
    let said = operator.run(&["status"]).ended(8).saying("reached: model listed");
    assert!(said.stdout.contains("DEGRADED: the endpoint does not complete a request"), "{}", said.stdout);
    let health = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30000/health";
    assert_eq!(rig.on("spark1", health), "200");
    rig.on("spark2", "docker unpause sparkctl-rig-vllm-1");

    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    answers_rightly();
    assert!(rig.argv("spark1", "sparkctl-rig-vllm-0").contains("--max-model-len 2048"));

    rig.on("spark2", "docker kill sparkctl-rig-vllm-1");
    let said = operator.run(&["status"]).ended(8);
    assert!(said.stdout.contains("DEGRADED: rank 1 (spark2) ended"), "{}", said.stdout);
    operator.run(&["stop"]).ended(0);
    assert!(chat("Hello!").is_err());
    assert!(rig.containers("spark1").is_empty() && rig.containers("spark2").is_empty());
}

/// vLLM's own launch over two nodes, then on Ray, and back.
#[test]
fn real_vllm_by_its_own_launch() {
    let rig = Rig::clean();
    rig.run(&["load", "spark1", "vllm"]);
    let mut operator = Operator::with("rig-vllm");
    operator.edit("launch: ray", "launch: native");
    operator.deploy().ended(0).saying("chat, reasoning, tool call").saying("release 1 serves");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("release 1, serving").saying("native 2 of 2 ranks");

    operator.edit("launch: native", "launch: ray");
    operator.deploy().ended(0).saying("release 2 serves");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("Ray 2 of 2 nodes");

    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    answers_rightly();
    rig.on("spark2", "docker kill sparkctl-rig-vllm-1");
    eventually("the endpoint is closed", Duration::from_secs(60), || chat("Hello!").is_err());
    let said = operator.run(&["status"]).ended(8);
    assert!(said.stdout.contains("DEGRADED: rank 1 (spark2) ended"), "{}", said.stdout);
    eventually("the head counts its ranks again", Duration::from_secs(60), || {
        operator.run(&["status"]).stdout.contains("native 1 of 2 ranks")
    });
}
