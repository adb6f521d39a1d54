//! `init` on the rig: what it writes deploys as it is, what is there is told, and nothing is taken that does not work.

use crate::harness::{Operator, Rig, answers_rightly};

const IMAGE: &str = "sparkctl-rig/stub-engine:1";

/// An operator, the file that is to be written, and the arguments that write it.
fn operator() -> (Operator, String) {
    let operator = Operator::with("rig-stub");
    let file = operator.folder.path().join("written.yaml").display().to_string();
    (operator, file)
}

#[test]
fn what_init_writes_deploys_as_it_is() {
    let rig = Rig::clean();
    let (operator, file) = operator();
    // The model is found; the name is the one that the test's questions ask for.
    let init = ["init", "spark1", "spark2", "--image", IMAGE, "--name", "tiny", "-o", &file];
    let said = operator.run(&init).ended(0);
    let said = said.saying("192.168.200.0/24").saying("192.168.200.11").saying("enP2p1s0f1np1 (roceP2p1s0f1");
    let said = said.saying("/home/spark/models/tiny: it is the only complete model on the nodes");
    said.saying("profile.schema.json").saying(&format!("sparkctl deploy {file}"));
    let text = std::fs::read_to_string(&file).expect("it was written");
    for line in [
        "    - { name: spark1, host: spark1, fabric: 192.168.200.11 }",
        "    - { name: spark2, host: spark2, fabric: 192.168.200.12 }",
        "  path: /home/spark/models/tiny",
        "  tool_parser: hermes",
        "  reasoning_parser: qwen3",
        "  tensor_parallel: 2",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    operator.run(&["deploy", &file]).ended(0).saying("release 1 serves");
    answers_rightly();

    // It runs now, and is told; what was written stays.
    operator.run(&init).ended(3).saying("is there already").saying("--force");
    let forced = [&init[..], &["--force"]].concat();
    operator
        .run(&forced)
        .ended(0)
        .saying("deployment `tiny` (container `sparkctl-tiny-0`)")
        .saying("sparkctl stop tiny");
    drop(rig);
}

#[test]
fn a_stranger_is_told_with_what_it_serves() {
    let rig = Rig::clean();
    rig.on(
        "spark1",
        &format!(
            "docker run -d --name vllm_node --gpus all --restart unless-stopped -v /home/spark/models:/weights --entrypoint sh \
             {IMAGE} -c 'sleep 1000; vllm serve /weights/tiny --max-model-len 512 --api-key sk-very-secret'"
        ),
    );
    let (operator, file) = operator();
    let said = operator.run(&["init", "spark1", "spark2", "--image", IMAGE, "-o", &file]).ended(0);
    let told = format!("{}{}", said.stdout, std::fs::read_to_string(&file).expect("it was written"));
    for word in [
        "container `vllm_node`",
        "restart policy unless-stopped",
        &format!("image {IMAGE}"),
        "docker update --restart no vllm_node && docker stop vllm_node",
        "Container `vllm_node` has: engine.context_length: 512",
    ] {
        assert!(told.contains(word), "{word:?} is not told:\n{told}");
    }
    assert!(!told.contains("sk-very-secret"), "a secret is told:\n{told}");
    assert_eq!(rig.containers("spark1"), ["vllm_node running"]);
}

#[test]
fn a_fabric_that_does_not_work_is_not_taken() {
    let rig = Rig::clean();
    let (operator, file) = operator();
    let nothing_written = || assert!(!std::path::Path::new(&file).exists(), "a profile was written");
    let init = ["init", "spark1", "spark2", "--image", IMAGE, "-o", &file];
    rig.run(&["cut-fabric", "spark2"]);
    let said = operator.run(&init);
    rig.run(&["heal", "spark2"]);
    said.ended(3)
        .saying("no fabric was chosen")
        .saying("does not answer")
        .saying("--fabric 192.168.200.0/24");
    nothing_written();

    // Without addresses there, only the LAN is left.
    let interface = "enp1s0f0np0";
    rig.on("spark1", &format!("ip addr flush dev {interface}"));
    let (bare, lan) =
        (operator.run(&init), operator.run(&[&init[..], &["--fabric", "10.77.0.0/24"]].concat()));
    rig.on("spark1", &format!("ip addr add 192.168.200.11/24 brd + dev {interface}"));
    bare.ended(3).saying(&format!("spark1 has a cable and no address on {interface}"));
    lan.ended(0).saying("warning: the fabric that was named: no RDMA device is on enP7s7 of spark1");
    assert!(std::fs::read_to_string(&file).expect("it was written").contains("fabric: 10.77.0.12"));
}

#[test]
fn a_node_that_cannot_be_reached_leaves_what_the_others_say() {
    let _rig = Rig::clean();
    let (operator, file) = operator();
    let said = operator.run(&["init", "spark1", "10.77.0.99", "-o", &file]).ended(7);
    said.saying("NVIDIA GB10").saying("/home/spark/models/tiny").saying("10.77.0.99");
    assert!(!std::path::Path::new(&file).exists(), "a profile was written");
    // Named twice, by two names.
    operator.run(&["init", "spark1", "10.77.0.11", "-o", &file]).ended(2).saying("are the same machine");
    // Nobody is there to be asked.
    operator.run(&["init"]).ended(2).saying("your ssh configuration has: spark1, 10.77.0.11, spark2");
}
