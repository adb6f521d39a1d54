//! Bad input and bad nodes: a clear error, the right exit status, and nothing lost.

use crate::harness::{Operator, Rig, answers_rightly};

/// A profile that is wrong, what is told, and the exit status.
fn check(operator: &mut Operator, from: &str, to: &str, code: i32, told: &[&str]) {
    let good = operator.profile.clone();
    operator.edit(from, to);
    for command in ["plan", "deploy"] {
        let mut said = operator.run(&[command, &operator.file()]).ended(code);
        for text in told {
            said = said.saying(text);
        }
    }
    operator.profile = good;
}

#[test]
fn bad_input_is_told_and_loses_nothing() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    let before = [rig.containers("spark1"), rig.containers("spark2")];

    operator.run(&["deploy", "no/such/file.yaml"]).ended(2).saying("cannot read the file");
    let o = &mut operator;
    check(o, "version: 1", "][", 2, &["profile.yaml:"]);
    check(o, "context_length:", "contxt_length:", 2, &["unknown key", "did you mean `context_length`"]);
    check(o, "name: rig-stub", "name: rig-stub\nname: twice", 2, &["profile.yaml:4:1", "name"]);
    check(o, "tensor_parallel: 2", "tensor_parallel: two", 2, &["whole number"]);
    check(o, "host: 10.77.0.12", "host: 127.0.0.1", 2, &["host: local"]);
    check(o, "host: 10.77.0.12", "host: 10.77.0.11", 2, &["spark1", "spark2"]);
    check(o, "fabric: 192.168.200.12", "fabric: 192.168.200.11", 2, &["spark1", "spark2"]);
    check(o, "tensor_parallel: 2", "tensor_parallel: 4", 2, &["larger than the GPUs there are"]);
    check(o, "port: 30000", "port: 70000", 2, &["65535"]);
    // All at once.
    check(
        o,
        "context_length: 2048",
        "contxt_length: 2048\n  launch: rey",
        2,
        &["contxt_length", "rey", "errors"],
    );

    check(o, "user: spark", "user: nobody-here", 7, &["spark1", "Permission denied"]);
    check(o, "host: 10.77.0.12", "host: 10.77.0.99", 7, &["spark2"]);
    check(o, "stub-engine:1", "no-such-engine:1", 3, &["is on no node", "docker pull"]);
    check(o, "models/tiny", "models/none", 3, &["there is no folder `/home/spark/models/none`"]);
    check(
        o,
        "fabric: 192.168.200.12",
        "fabric: 192.168.200.77",
        3,
        &["no interface has the fabric address 192.168.200.77", "192.168.200.12 on enP2p1s0f1np1"],
    );
    check(
        o,
        "fabric: 192.168.200.12",
        "fabric: 10.77.0.11",
        3,
        &["the fabric address 10.77.0.11 is not in 192.168.200.0/24, the network of spark1's"],
    );

    assert_eq!([rig.containers("spark1"), rig.containers("spark2")], before);
    answers_rightly();
    operator.deploy().ended(0).saying("nothing to do");
}

#[test]
fn a_port_that_a_stranger_holds_is_refused() {
    let rig = Rig::clean();
    rig.on("spark1", "python3 -m http.server 30000 >/dev/null 2>&1 & sleep 1");
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(3).saying("port 30000 (serve.port) is taken").saying("spark1");
    assert!(rig.containers("spark1").is_empty());
    rig.on("spark1", "pkill -f '[h]ttp.server 30000'");
}

#[test]
fn a_stranger_that_holds_the_gpu_is_refused() {
    let rig = Rig::clean();
    rig.on("spark1", "docker run -d --name comfy --gpus all --restart always --entrypoint sleep sparkctl-rig/stub-engine:1 1000");
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(3).saying("container `comfy`").saying("docker update --restart no comfy");
    assert_eq!(rig.containers("spark1"), ["comfy running"]);
}

#[test]
fn a_dead_fabric_and_a_name_that_is_taken_are_refused() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    rig.run(&["cut-fabric", "spark2"]);
    let said = operator.deploy();
    rig.run(&["heal", "spark2"]);
    said.ended(3).saying("spark1: does not reach spark2 (192.168.200.12)").saying("check cable");
    rig.on("spark1", "docker create --name sparkctl-rig-stub-0 --entrypoint true sparkctl-rig/stub-engine:1");
    operator
        .deploy()
        .ended(3)
        .saying("spark1: a container named `sparkctl-rig-stub-0`")
        .saying("docker rename");
    assert_eq!(rig.containers("spark1"), ["sparkctl-rig-stub-0 created"]);
}

#[test]
fn docker_that_cannot_be_used_is_told() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    rig.run(&["stop-dockerd", "spark2"]);
    operator
        .deploy()
        .ended(7)
        .saying("Docker on spark2 cannot be used")
        .saying("systemctl enable --now docker");
    // Not installed: neither its socket nor its programs.
    let programs = "for f in /usr/bin/docker /usr/bin/dockerd /usr/sbin/dockerd";
    rig.on("spark2", &format!("rm -f /run/docker.sock; {programs}; do [ ! -e $f ] || mv $f $f.away; done"));
    let said = operator.deploy();
    rig.on("spark2", &format!("{programs}; do [ ! -e $f.away ] || mv $f.away $f; done"));
    said.ended(7).saying("Docker on spark2 cannot be used").saying("not installed");
    rig.run(&["heal", "spark2"]);
    rig.on("spark2", "gpasswd -d spark docker");
    let said = operator.deploy();
    rig.on("spark2", "gpasswd -a spark docker");
    said.ended(7).saying("Docker on spark2 cannot be used").saying("usermod -aG docker spark");
}

#[test]
fn a_full_disk_is_told_and_the_old_release_serves() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    rig.on("spark1", "head -c 40000000 /dev/urandom > /home/spark/models/tiny/more.bin; chown spark: /home/spark/models/tiny/more.bin");
    rig.run(&["fill-disk", "spark2", "20M"]);
    operator.edit("context_length: 2048", "context_length: 1024");
    operator.deploy().ended(3).saying("are free there");
    answers_rightly();
    rig.run(&["heal", "spark2"]);
    operator.deploy().ended(0);
}
