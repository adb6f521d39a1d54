//! Other ways to launch than vLLM on Ray: vLLM's own, and SGLang's.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, chat, eventually};

const HEAD: &str = "sparkctl-rig-stub-0";
const WORKER: &str = "sparkctl-rig-stub-1";
/// A group that lost a rank has to gather, start and answer again in this time.
const AGAIN: Duration = Duration::from_secs(60);

fn native() -> Operator {
    let mut operator = Operator::with("rig-stub");
    operator.edit("launch: ray", "launch: native");
    operator
}

fn sglang() -> Operator {
    let mut operator = Operator::with("rig-stub");
    operator
        .edit("kind: vllm\n  launch: ray", "kind: sglang")
        .edit("tool_parser: hermes", "tool_parser: qwen");
    operator
}

#[test]
fn from_ray_to_a_native_launch_and_back() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    operator.edit("launch: ray", "launch: native");
    operator
        .run(&["plan", &operator.file()])
        .ended(0)
        .saying("2 ranks gather, then start vLLM by its own launch");
    operator.deploy().ended(0).saying("chat, reasoning, tool call").saying("release 2 serves");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("release 2, serving").saying("native 2 of 2 ranks");
    assert!(rig.argv("spark1", HEAD).contains("--nnodes 2 --node-rank 0 --master-addr 192.168.200.11"));
    let worker = rig.argv("spark2", WORKER);
    assert!(worker.contains("--node-rank 1") && worker.contains("--headless"), "{worker}");
    for (node, container, address) in
        [("spark1", HEAD, "192.168.200.11"), ("spark2", WORKER, "192.168.200.12")]
    {
        let environment = rig.environment(node, container);
        assert!(environment.contains(&format!("VLLM_HOST_IP={address}")), "{environment:#?}");
        assert!(!environment.iter().any(|variable| variable.starts_with("RAY_")), "{environment:#?}");
    }
    operator.run(&["plan", "--exit-code", &operator.file()]).ended(0).saying("nothing to do");

    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("Ray 2 of 2 nodes");
    operator.run(&["stop"]).ended(0);
    assert!(rig.containers("spark1").is_empty() && rig.containers("spark2").is_empty());
}

#[test]
fn a_native_launch_or_sglang_that_fails_is_restored() {
    // What the engine does, what the user is told of it, and of its cause.
    type Case = (fn() -> Operator, &'static str, &'static str, &'static str);
    let cases: [Case; 8] = [
        (native, "crash-at=load", "ended", "model"),
        (native, "worker-crash", "ended", "memory"),
        (native, "worker-oom", "137", "killed"),
        (native, "hang", "nothing has moved for", "the ranks met, but do not get connected"),
        (sglang, "crash-at=kv", "ended", "raise `engine.memory_fraction`"),
        (sglang, "worker-crash", "ended", "memory"),
        (sglang, "hang", "nothing has moved for", "the ranks never met"),
        (sglang, "wrong-answer", "the model answered", "cause:"),
    ];
    let _rig = Rig::clean();
    Operator::with("rig-stub").deploy().ended(0);
    for (engine, scenario, told, cause) in cases {
        let mut bad = engine();
        bad.edit("stall: 15s", "stall: 6s").set_env("STUB_SCENARIO", scenario);
        let said = bad.deploy().ended(4).saying(told).saying(cause);
        let said = said.saying("restored: release 1 serves again, verified");
        assert!(said.stderr.contains("cause:"), "{scenario}: no cause is told\n{}", said.stderr);
        answers_rightly();
    }
}

/// An idle engine notices nothing, and its endpoint goes on saying that all is well: that the group ends and starts
/// again as one is the launch script's doing.
#[test]
fn a_group_that_loses_a_rank_starts_again_as_one() {
    for operator in [native(), sglang()] {
        let rig = Rig::clean();
        operator.deploy().ended(0);
        // The last process is the engine, behind Docker's init and the script.
        let ends = |container: &str| {
            format!("kill -9 $(docker top {container} -eo pid,args | tail -1 | awk '{{print $1}}')")
        };
        for (node, container) in [("spark2", WORKER), ("spark1", HEAD)] {
            let starts = |container, node| rig.inspect(node, container, "{{.State.StartedAt}}");
            let before = [starts(HEAD, "spark1"), starts(WORKER, "spark2")];
            rig.on(node, &ends(container));
            eventually("both ranks start anew", AGAIN, || {
                starts(HEAD, "spark1") != before[0] && starts(WORKER, "spark2") != before[1]
            });
            eventually("the endpoint answers again", AGAIN, || chat("Hello!").is_ok());
            answers_rightly();
        }
        operator.run(&["status"]).ended(0).saying("native 2 of 2 ranks");

        // One that is gone for good.
        rig.on("spark2", &format!("docker kill {WORKER}"));
        eventually("the endpoint is closed", AGAIN, || chat("Hello!").is_err());
        let said = operator.run(&["status"]).ended(8);
        let first = said.stdout.lines().next().unwrap_or_default();
        assert!(first.contains("DEGRADED: rank 1 (spark2) ended"), "{}", said.stdout);
        // Docker takes its time to start the head's container again; until then it cannot be asked.
        eventually("the head counts its ranks again", AGAIN, || {
            operator.run(&["status"]).stdout.contains("native 1 of 2 ranks")
        });
        operator.deploy().ended(0).saying("release 2 serves");
        answers_rightly();
    }
}

/// The fabric of a node is lost, with no end of any connection: that is noticed, too.
#[test]
fn a_group_whose_node_is_cut_off_starts_again() {
    let rig = Rig::clean();
    let operator = native();
    operator.deploy().ended(0);
    rig.run(&["cut-fabric", "spark2"]);
    eventually("the endpoint is closed", Duration::from_secs(90), || chat("Hello!").is_err());
    rig.run(&["heal", "spark2"]);
    eventually("the endpoint answers again", AGAIN, || chat("Hello!").is_ok());
    answers_rightly();
    rig.run(&["reboot", "spark2"]);
    eventually("the endpoint answers after a reboot", AGAIN, || chat("Hello!").is_ok());
    operator.run(&["status"]).ended(0).saying("native 2 of 2 ranks");
}

#[test]
fn sglang_on_two_nodes_and_on_one() {
    let rig = Rig::clean();
    let mut operator = sglang();
    operator.deploy().ended(0).saying("chat, reasoning, tool call").saying("release 1 serves");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("native 2 of 2 ranks").saying("running 0, waiting 0");
    for (node, container, address) in
        [("spark1", HEAD, "192.168.200.11"), ("spark2", WORKER, "192.168.200.12")]
    {
        let environment = rig.environment(node, container);
        assert!(environment.contains(&format!("SGLANG_HOST_IP={address}")), "{environment:#?}");
        let argv = rig.argv(node, container);
        assert!(argv.contains("--dist-init-addr 192.168.200.11:29501"), "{argv}");
    }
    // What the worker's own server says of itself is nothing to go by.
    operator.run(&["stop"]).ended(0);
    assert!(rig.containers("spark1").is_empty() && rig.containers("spark2").is_empty());

    let second = "    - { name: spark2, host: 10.77.0.12, fabric: 192.168.200.12 }\n";
    operator.edit(second, "").edit("tensor_parallel: 2", "tensor_parallel: 1");
    operator.deploy().ended(0).saying("release 2 serves");
    answers_rightly();
    let argv = rig.argv("spark1", HEAD);
    assert!(argv.contains("sglang.launch_server") && !argv.contains("--nnodes"), "{argv}");
    assert!(rig.containers("spark2").is_empty());
    operator.run(&["status"]).ended(0).saying("release 2, serving");
}

/// A flag that the engine does not have ends the start, and that is told.
#[test]
fn a_flag_with_a_spelling_mistake() {
    let _rig = Rig::clean();
    for mut operator in [native(), sglang()] {
        operator.edit("tensor_parallel: 2", "tensor_parallel: 2\n  args: [\"--max-runing-requests\", \"4\"]");
        operator.deploy().ended(5).saying("--max-runing-requests").saying("cause:");
    }
}
