//! Other people's containers in the way, with `conflicts: stop`.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, chat, eventually};

/// A container on the head's GPU that always comes back.
fn comfy(rig: &Rig) {
    rig.on("spark1", "docker run -d --name comfy --gpus all --restart always --entrypoint sleep sparkctl-rig/stub-engine:1 1000");
}

fn operator() -> Operator {
    let mut operator = Operator::with("rig-stub");
    operator.edit("ready:", "conflicts: stop\nready:");
    operator
}

fn policy(rig: &Rig, container: &str) -> String {
    rig.inspect(
        "spark1",
        container,
        "{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}",
    )
}

#[test]
fn a_stranger_is_stopped_stays_so_over_a_reboot_and_comes_back_by_release_0() {
    let rig = Rig::clean();
    comfy(&rig);
    rig.on("spark1", "docker run -d --name web --restart on-failure:3 -p 30000:80 --entrypoint sleep sparkctl-rig/stub-engine:1 1000");
    let operator = operator();
    let plan = operator.run(&["plan", &operator.file()]).ended(0);
    plan.saying("comfy (image sparkctl-rig/stub-engine:1, since 20").saying("web (image");
    operator.deploy().ended(0).saying("release 1 serves");
    assert_eq!(rig.containers("spark1"), ["comfy exited", "sparkctl-rig-stub-0 running", "web exited"]);
    assert_eq!([policy(&rig, "comfy"), policy(&rig, "web")], ["no:0", "no:0"]);
    operator.run(&["status"]).ended(0).saying("stopped for it on spark1: comfy");

    rig.run(&["reboot", "spark1"]);
    eventually("the endpoint answers after a reboot", Duration::from_secs(180), || chat("Hello!").is_ok());
    assert_eq!(rig.containers("spark1"), ["comfy exited", "sparkctl-rig-stub-0 running", "web exited"]);
    operator.deploy().ended(0).saying("nothing to do");
    answers_rightly();

    operator.run(&["rollback", "--to", "0"]).ended(0).saying("started again as it was: comfy, web");
    assert_eq!(rig.containers("spark1"), ["comfy running", "web running"]);
    assert!(rig.containers("spark2").is_empty());
    assert_eq!([policy(&rig, "comfy"), policy(&rig, "web")], ["always:0", "on-failure:3"]);
}

#[test]
fn a_stranger_comes_back_when_the_deploy_fails() {
    let rig = Rig::clean();
    comfy(&rig);
    let mut operator = operator();
    operator.set_env("STUB_SCENARIO", "crash-at=kv");
    operator.deploy().ended(4).saying("started again as it was: comfy");
    assert_eq!(rig.containers("spark1"), ["comfy running"]);
    assert_eq!(policy(&rig, "comfy"), "always:0");
    operator.run(&["releases"]).ended(0).saying("failed");
}

#[test]
fn a_stranger_that_would_be_gone_is_left_alone() {
    let rig = Rig::clean();
    rig.on(
        "spark1",
        "docker run -d --rm --name comfy --gpus all --entrypoint sleep sparkctl-rig/stub-engine:1 1000",
    );
    operator().deploy().ended(3).saying("started with --rm").saying("gone for good");
    assert_eq!(rig.containers("spark1"), ["comfy running"]);
}
