//! Real vLLM that does not come up, as users spoil it: it is told which hang or mistake it is, and what served before comes
//! back. That is the stub here, under the same name: it is back in seconds.

use crate::harness::{Operator, Rig, Said, answers_rightly};

/// The stub serves as `rig-vllm`, by vLLM's own launch; real vLLM is on the head.
fn served_by_the_stub() -> Rig {
    let rig = Rig::clean();
    rig.run(&["load", "spark1", "vllm"]);
    let mut before = vllm();
    before.edit("vllm-cpu:0.32.0", "stub-engine:1");
    before.deploy().ended(0);
    rig
}

/// Real vLLM by its own launch, which may stand still for a minute.
fn vllm() -> Operator {
    let mut operator = Operator::with("rig-vllm");
    operator.edit("launch: ray", "launch: native").edit("stall: 4m", "stall: 1m");
    operator
}

/// Python code that runs ahead of everything in every process of the engine, as a patch of an image might.
fn spoil(operator: &mut Operator, code: &str) {
    std::fs::write(operator.folder.path().join("sitecustomize.py"), code).expect("it is written");
    let file = "files: [{ source: sitecustomize.py, target: /sparkctl/spoil/sitecustomize.py }]\nserve:";
    operator.set_env("PYTHONPATH", "/sparkctl/spoil").edit("serve:", file);
}

fn restored(operator: &Operator) -> Said {
    let said = operator.deploy().ended(4).saying("restored: release 1 serves again, verified");
    answers_rightly();
    said
}

/// The head's address in the environment of its processes is that of the LAN: the silent hang.
#[test]
fn a_wrong_host_address_is_told_by_its_hang() {
    let _rig = served_by_the_stub();
    let wrong = "import os
if os.environ.get('VLLM_HOST_IP') == '192.168.200.11':
    os.environ['VLLM_HOST_IP'] = '10.77.0.11'
";
    let mut operator = vllm();
    spoil(&mut operator, wrong);
    restored(&operator)
        .saying("nothing has moved for 1 min")
        .saying("the message queue of rank 0 announces 10.77.0.11")
        .saying("SYN-SENT")
        .saying("hint:  take `VLLM_HOST_IP` out of the image");
    let runs = std::fs::read_dir(operator.folder.path().join("sparkctl/rig-vllm/runs")).expect("records");
    let run = runs.last().expect("a record").expect("it can be read").path();
    let events = std::fs::read_to_string(run.join("events.jsonl")).expect("events");
    let of = |event: &str| events.lines().filter(|line| line.contains(event)).count();
    assert_eq!((of("\"event\":\"stuck\""), of("\"event\":\"last-lines\"")), (2, 2), "{events}");
}
