//! Placed files, commands ahead of the engine, and secrets, as the engine and a curious neighbour see them.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, eventually};

const RANKS: [(&str, &str); 2] = [("spark1", "sparkctl-rig-stub-0"), ("spark2", "sparkctl-rig-stub-1")];
const STATE: &str = "/home/spark/.local/state/sparkctl/rig-stub";
const TOKEN: &str = "hf_Zq81RtYxWv";

/// What every rank reads at a path in its container.
fn read(rig: &Rig, path: &str) -> [String; 2] {
    RANKS.map(|(node, container)| rig.on(node, &format!("docker exec {container} cat {path}")))
}

/// An operator with files beside the profile.
fn operator_with(engine: &str, rest: &str) -> Operator {
    let mut operator = Operator::with("rig-stub");
    operator.edit("  tool_parser: hermes\n", &format!("  tool_parser: hermes\n{engine}"));
    operator.edit("serve:", &format!("{rest}serve:"));
    operator
}

fn write(operator: &Operator, name: &str, content: &str) {
    std::fs::write(operator.folder.path().join(name), content).expect("it is written");
}

#[test]
fn files_are_placed_change_and_come_back() {
    let rig = Rig::clean();
    let operator = operator_with("", "files: [{ source: chat.jinja, target: /sparkctl/chat.jinja }]\n");
    let file = operator.file();
    operator.run(&["deploy", &file]).ended(2).saying("there is no file").saying("profile.yaml:18:19");
    assert!(rig.containers("spark1").is_empty());

    write(&operator, "chat.jinja", "one");
    operator.deploy().ended(0).saying("release 1 serves");
    assert_eq!(read(&rig, "/sparkctl/chat.jinja"), ["one", "one"]);
    for (node, container) in RANKS {
        let modes = rig.on(node, &format!("stat -c '%a %U' {STATE}/files {STATE}/files/*"));
        assert_eq!(modes, "700 spark\n444 spark");
        let as_nobody = format!("docker exec -u 65534 {container} cat /sparkctl/chat.jinja");
        assert_eq!(rig.on(node, &as_nobody), "one", "whoever the container's user is");
        let written = rig
            .on(node, &format!("docker exec {container} sh -c 'echo x > /sparkctl/chat.jinja' 2>&1 || true"));
        assert!(written.contains("Read-only file system"), "{written}");
    }
    operator.run(&["plan", "--exit-code", &file]).ended(0).saying("nothing to do");

    write(&operator, "chat.jinja", "two");
    operator
        .run(&["plan", "--exit-code", &file])
        .ended(10)
        .saying("spark2: file /sparkctl/chat.jinja changed");
    operator.deploy().ended(0).saying("release 2 serves");
    assert_eq!(read(&rig, "/sparkctl/chat.jinja"), ["two", "two"]);
    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    assert_eq!(read(&rig, "/sparkctl/chat.jinja"), ["one", "one"]);
    answers_rightly();

    // A node that lost a file gets it from the other one, whatever became of the operator's.
    write(&operator, "chat.jinja", "three");
    rig.on("spark2", &format!("for f in {STATE}/files/*; do grep -q two $f && rm -f $f; done; true"));
    operator.run(&["rollback", "--to", "2"]).ended(0).saying("release 2 serves");
    assert_eq!(read(&rig, "/sparkctl/chat.jinja"), ["two", "two"]);
}

#[test]
fn a_command_ahead_of_the_engine_that_fails_is_named() {
    let rig = Rig::clean();
    let good = operator_with("  before: [[sh, -c, 'echo patched > /tmp/patched']]\n", "");
    good.deploy().ended(0).saying("release 1 serves");
    assert_eq!(read(&rig, "/tmp/patched"), ["patched", "patched"]);
    good.run(&["logs"]).ended(0).saying("sparkctl: ahead of the engine, 1 of 1: sh -c");

    // It fails on the worker alone.
    let fails = "test $VLLM_HOST_IP = 192.168.200.11 || { echo no such patch >&2; exit 3; }";
    let bad = operator_with(&format!("  before: [[echo, first], [sh, -c, \"{fails}\"]]\n"), "");
    bad.deploy()
        .ended(4)
        .saying("ready failed on spark2: rank 1 on spark2 ended (exit status 3)")
        .saying("spark2  no such patch")
        .saying("cause: `engine.before[1]` failed with exit status 3: sh -c")
        .saying("restored: release 1 serves again, verified");
    answers_rightly();
    // Docker starts a container anew by itself: the commands run again.
    rig.on("spark2", "docker exec sparkctl-rig-stub-1 rm /tmp/patched");
    rig.on("spark1", "docker restart sparkctl-rig-stub-0");
    rig.on("spark2", "docker restart sparkctl-rig-stub-1");
    eventually("the group is back", Duration::from_secs(60), || good.status().0 == Some(0));
    assert_eq!(read(&rig, "/tmp/patched"), ["patched", "patched"]);
}

/// Whether a process of the container has this variable, as the kernel has it.
fn some_process_has(rig: &Rig, node: &str, container: &str, variable: &str) -> bool {
    let command = format!(
        "for pid in $(docker top {container} -eo pid | tail -n +2); do \
         tr '\\0' '\\n' < /proc/$pid/environ | grep -Fxq '{variable}' && echo yes; done; true"
    );
    rig.on(node, &command).contains("yes")
}

#[test]
fn a_secret_is_in_the_engines_environment_and_nowhere_else() {
    let rig = Rig::clean();
    // The careless command writes it into the container's log.
    let engine =
        "  before: [[sh, -c, 'echo the token is $HF_TOKEN']]\n  env:\n    HF_TOKEN: { file: token }\n";
    let mut operator = operator_with(engine, "");
    write(&operator, "token", &format!("{TOKEN}\n"));
    let mut said = Vec::new();
    let mut run = |operator: &Operator, args: &[&str], code: i32| {
        let all = operator.run(args).ended(code);
        said.extend([all.stdout.clone(), all.stderr.clone()]);
        all
    };
    let file = operator.file();
    run(&operator, &["plan", "-v", &file], 0).saying("secret HF_TOKEN");
    run(&operator, &["-vv", "deploy", &file], 0).saying("release 1 serves");
    run(&operator, &["plan", "--exit-code", &file], 0).saying("nothing to do");
    run(&operator, &["logs"], 0).saying("the token is ‹secret HF_TOKEN›");
    let visible = |node: &str, container: &str| {
        rig.on(node, &format!("docker inspect {container}; docker top {container} -eo args; ps -ef"))
    };
    let mut seen = String::new();
    for (node, container) in RANKS {
        seen += &visible(node, container);
        assert!(some_process_has(&rig, node, container, &format!("HF_TOKEN={TOKEN}")), "{node}");
        assert_eq!(rig.on(node, &format!("stat -c '%a %U' {STATE}/secrets/*")), "600 spark");
    }

    // It is there after a boot, when nobody brings it.
    rig.run(&["reboot", "spark1"]);
    rig.run(&["reboot", "spark2"]);
    eventually("the group is back", Duration::from_secs(90), || operator.status().0 == Some(0));
    for (node, container) in RANKS {
        assert!(some_process_has(&rig, node, container, &format!("HF_TOKEN={TOKEN}")), "{node}");
    }

    // Another value is a change, told by name; it fails, and what is kept of it has no value in it.
    write(&operator, "token", "hf_another_value");
    run(&operator, &["plan", "--exit-code", &operator.file()], 10).saying("spark2: secret HF_TOKEN changed");
    operator.set_env("STUB_SCENARIO", "crash-at=load");
    run(&operator, &["deploy", &operator.file()], 4).saying("restored: release 1 serves again");
    for (node, container) in RANKS {
        assert!(some_process_has(&rig, node, container, &format!("HF_TOKEN={TOKEN}")), "{node}");
        seen += &visible(node, container);
    }
    // What the reference leads to does not matter for going back.
    std::fs::remove_file(operator.folder.path().join("token")).expect("it is removed");
    run(&operator, &["stop"], 0);
    run(&operator, &["rollback", "--to", "1"], 0).saying("release 1 serves");
    run(&operator, &["logs", "--release", "2"], 0).saying("the token is ‹secret HF_TOKEN›");
    run(&operator, &["--output", "json", "releases"], 0);

    let said = said.concat();
    // As they are, and as the nodes keep them.
    for value in [TOKEN, "68665f5a713831527459785776", "hf_another_value", "68665f616e6f746865725f76616c7565"]
    {
        assert!(!said.contains(value), "printed: {value}\n{said}");
        assert!(!seen.contains(value), "seen on a node: {value}");
        let kept =
            std::process::Command::new("grep").args(["-rl", value]).arg(operator.folder.path()).output();
        assert_eq!(
            String::from_utf8_lossy(&kept.expect("grep starts").stdout),
            "",
            "the operator keeps {value}"
        );
        for (node, _) in RANKS {
            let found =
                rig.on(node, &format!("grep -rl '{value}' /home/spark/.local --exclude-dir=secrets || true"));
            assert_eq!(found, "", "{node} keeps {value}");
        }
    }
}
