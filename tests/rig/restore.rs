//! Deploys that go wrong: the release before comes back, the cause is told, no log is lost.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, chat, eventually};

#[test]
fn a_failed_deploy_restores_the_release_before() {
    let rig = Rig::clean();
    let good = Operator::with("rig-stub");
    good.deploy().ended(0);
    // What the engine does, and what the user is told of it.
    let cases = [
        ("crash-at=load", "rank 0 on spark1 ended"),
        ("worker-crash", "ended"),
        ("oom", "137"),
        ("hang", "nothing has moved for"),
        ("wrong-model", "the endpoint lists"),
        ("completions-hang", "nothing has moved for"),
        ("wrong-answer", "the model answered"),
        ("no-reasoning", "engine.reasoning_parser"),
        ("no-tools", "engine.tool_parser"),
    ];
    for (release, (scenario, told)) in (2..).zip(cases) {
        // A deploy of new weights fails no differently: the files stay, the old group comes back, and that is told.
        if release == 3 {
            rig.on("spark1", "cd /home/spark/models/tiny && echo new > README.md && chown spark: README.md");
        }
        let mut bad = Operator::with("rig-stub");
        bad.edit("stall: 15s", "stall: 6s").set_env("STUB_SCENARIO", scenario);
        let mut said = bad.deploy().ended(4);
        if release == 3 {
            said = said.saying("is not what release 1 was served from");
        }
        let said = said.saying(told).saying("restored: release 1 serves again, verified");
        assert!(said.stderr.contains("cause:"), "{scenario}: no cause is told\n{}", said.stderr);
        answers_rightly();
        assert_eq!(
            rig.inspect("spark1", "sparkctl-rig-stub-0", "{{index .Config.Labels \"sparkctl.release\"}}"),
            "1"
        );
        // The log of the failed engine is on the node, and with the operator, with the facts.
        let runs = bad.folder.path().join("sparkctl/rig-stub/runs");
        let run = std::fs::read_dir(&runs)
            .expect("records")
            .next()
            .expect("a record")
            .expect("it can be read")
            .path();
        let names = ["events.jsonl", "facts.json"].map(str::to_owned);
        let logs = ["spark1", "spark2"]
            .iter()
            .zip(0..)
            .map(|(node, rank)| format!("release-{release}-rank-{rank}-{node}.log"));
        for name in names.into_iter().chain(logs) {
            assert!(
                std::fs::metadata(run.join(&name)).is_ok_and(|file| file.len() > 0),
                "{scenario}: no {name}"
            );
        }
        let kept = rig.on(
            "spark1",
            &format!("cat /home/spark/.local/state/sparkctl/rig-stub/releases/{release:04}/rank-0.*.log"),
        );
        assert!(kept.contains("vLLM") || kept.contains("ray"), "{scenario}: {kept}");
        bad.run(&["releases"]).ended(0).saying("failed");
    }
}

#[test]
fn a_first_deploy_that_fails_leaves_nothing_running() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.set_env("STUB_SCENARIO", "crash-at=kv");
    operator.deploy().ended(5).saying("nothing ran before");
    assert!(rig.containers("spark1").is_empty() && rig.containers("spark2").is_empty());
    operator.run(&["logs", "--release", "1"]).ended(0).saying("Traceback");

    let mut keep = Operator::with("rig-stub");
    keep.set_env("STUB_SCENARIO", "crash-at=kv").edit("ready:", "on_failure: keep\nready:");
    keep.deploy().ended(5).saying("on_failure: keep");
    assert_eq!(rig.containers("spark1"), ["sparkctl-rig-stub-0 exited"]);
}

#[test]
fn a_dead_worker_is_told() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    rig.on("spark2", "docker kill sparkctl-rig-stub-1");
    let said = operator.run(&["status"]).ended(8);
    assert!(
        said.stdout.lines().next().unwrap_or_default().contains("DEGRADED: rank 1 (spark2) ended"),
        "{}",
        said.stdout
    );
    operator.deploy().ended(0).saying("release 2 serves");
    answers_rightly();

    // A node that cannot be asked is unknown, never down.
    rig.run(&["kill", "spark2"]);
    let said = operator.run(&["status"]);
    assert!(
        said.stdout.contains("rank 1 (spark2) cannot be asked: cannot connect to spark2"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("worker  unknown") && !said.stdout.contains("ended"), "{}", said.stdout);
    operator.deploy().ended(7).saying("cannot connect to spark2").saying("nothing was changed");
}

/// Killed anywhere, the next deploy converges; the lock does not stay.
#[test]
fn a_killed_deploy_is_continued() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    let mut context = 2048;
    for milliseconds in [300, 900, 1500, 2200, 3000, 4000] {
        operator.edit(&format!("context_length: {context}"), &format!("context_length: {}", context - 1));
        context -= 1;
        let mut run = operator.command(&["deploy", &operator.file()]).spawn().expect("sparkctl starts");
        std::thread::sleep(Duration::from_millis(milliseconds));
        run.kill().expect("it can be killed");
        run.wait().expect("it ends");
        let mut last = None;
        eventually("the lock is free", Duration::from_secs(20), || {
            let said = operator.deploy();
            let free = said.code != Some(6);
            last = Some(said);
            free
        });
        last.expect("it ran").ended(0);
        answers_rightly();
        assert!(rig.argv("spark1", "sparkctl-rig-stub-0").contains(&format!("--max-model-len {context}")));
        operator.run(&["plan", "--exit-code", &operator.file()]).ended(0);
    }
    assert_eq!(rig.containers("spark1"), ["sparkctl-rig-stub-0 running"]);
}

#[test]
fn two_operators_do_not_meet() {
    let _rig = Rig::clean();
    let mut first = Operator::with("rig-stub");
    first.set_env("STUB_LOAD_SECONDS", "6");
    let mut run = first.command(&["deploy", &first.file()]).spawn().expect("sparkctl starts");
    std::thread::sleep(Duration::from_secs(3));
    let second = Operator::with("rig-stub");
    second.deploy().ended(6).saying("another operation holds the lock").saying("`deploy`");
    assert!(run.wait().expect("it ends").success());
    answers_rightly();
}

/// An interrupt in the middle brings the release before back, and says so.
#[test]
fn an_interrupt_restores() {
    let _rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    operator.set_env("STUB_LOAD_SECONDS", "30");
    let run = operator.command(&["deploy", &operator.file()]).spawn().expect("sparkctl starts");
    eventually("the switch began", Duration::from_secs(30), || chat("Hello!").is_err());
    std::thread::sleep(Duration::from_secs(1));
    let pid = run.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("release 1 serves again, verified"), "{said}");
    answers_rightly();
}

/// The way to a node is lost for a while in the middle of the switch: the release before comes back.
#[test]
fn a_lost_connection_in_the_switch_is_made_anew() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    operator.set_env("STUB_LOAD_SECONDS", "60").edit("stall: 15s", "stall: 90s");
    let run = operator.command(&["deploy", &operator.file()]).spawn().expect("sparkctl starts");
    eventually("the switch began", Duration::from_secs(30), || chat("Hello!").is_err());
    std::thread::sleep(Duration::from_secs(2));
    rig.run(&["cut-lan", "spark2"]);
    std::thread::sleep(Duration::from_secs(25));
    rig.run(&["heal", "spark2"]);
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("lost the connection to spark2"), "{said}");
    assert!(said.contains("restored: release 1 serves again, verified"), "{said}");
    answers_rightly();
}

/// The operator's machine falls asleep and closes no connection: the lock ends by itself.
#[test]
fn the_lock_ends_without_signs_of_life() {
    let rig = Rig::clean();
    let mut asleep = Operator::with("rig-stub");
    asleep.set_env("STUB_LOAD_SECONDS", "100").edit("stall: 15s", "stall: 90s");
    let mut run = asleep.command(&["deploy", &asleep.file()]).spawn().expect("sparkctl starts");
    eventually("the engine starts", Duration::from_secs(30), || {
        rig.containers("spark1").contains(&"sparkctl-rig-stub-0 running".to_owned())
    });
    let signal = |name: &str| std::process::Command::new("kill").args([name, &run.id().to_string()]).status();
    assert!(signal("-STOP").expect("kill runs").success());
    let next = Operator::with("rig-stub");
    next.deploy().ended(6).saying("another operation holds the lock");
    let mut last = None;
    eventually("the lock is free", Duration::from_secs(60), || {
        let said = next.deploy();
        let free = said.code != Some(6);
        last = Some(said);
        free
    });
    run.kill().expect("it can be killed");
    run.wait().expect("it ends");
    last.expect("it ran").ended(0);
    answers_rightly();
}

/// A deploy of release 2 that is in the middle of its switch: the engine takes its time.
fn in_the_switch(rig: &Rig, operator: &mut Operator) -> std::process::Child {
    operator.set_env("STUB_LOAD_SECONDS", "600").edit("stall: 15s", "stall: 900s");
    let run = operator.command(&["deploy", &operator.file()]).spawn().expect("sparkctl starts");
    eventually("the switch began", Duration::from_secs(60), || {
        rig.containers("spark1").contains(&"sparkctl-rig-stub-0 running".to_owned())
            && rig.inspect("spark1", "sparkctl-rig-stub-0", RELEASE) == "2"
    });
    run
}

const RELEASE: &str = "{{index .Config.Labels \"sparkctl.release\"}}";
/// What a guard waits, and some.
const BY_ITSELF: Duration = Duration::from_secs(240 + 90);

/// Lets units of the nodes' user outlive the login, or not.
fn linger(rig: &Rig, word: &str) {
    for node in ["spark1", "spark2"] {
        rig.on(node, &format!("loginctl {word}-linger spark"));
    }
}

/// The operator is killed in the switch, and the way to the nodes is gone for good: they go back by themselves.
#[test]
fn nodes_that_nobody_reaches_any_more_restore_by_themselves() {
    let rig = Rig::clean();
    linger(&rig, "enable");
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    let mut run = in_the_switch(&rig, &mut operator);
    let units = rig.on("spark1", "runuser -u spark -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user list-units 'sparkctl-guard-*' --no-legend");
    assert!(units.contains("sparkctl-guard-rig-stub-0002"), "{units}");
    run.kill().expect("it can be killed");
    run.wait().expect("it ends");
    for node in ["spark1", "spark2"] {
        rig.run(&["cut-lan", node]);
    }
    let restored = |node: &str, rank: u32| {
        let name = format!("sparkctl-rig-stub-{rank}");
        rig.containers(node).contains(&format!("{name} running")) && rig.inspect(node, &name, RELEASE) == "1"
    };
    eventually("the nodes are back at release 1", BY_ITSELF, || {
        restored("spark1", 0) && restored("spark2", 1)
    });
    rig.run(&["heal"]);
    let mut said = None;
    eventually("the group serves again", Duration::from_secs(90), || {
        let status = operator.run(&["status"]);
        let well = status.code == Some(0);
        said = Some(status);
        well
    });
    said.expect("it ran").saying("the nodes restored release 1 by themselves");
    answers_rightly();
    assert_eq!(
        rig.inspect("spark1", "sparkctl-rig-stub-0", "{{.HostConfig.RestartPolicy.Name}}"),
        "unless-stopped"
    );
    // The log of what did not come to serve is there.
    let kept = rig.on("spark1", "cat /home/spark/.local/state/sparkctl/rig-stub/releases/0002/rank-0.*.log");
    assert!(!kept.is_empty());
    // And the next one tells it, and goes on.
    let good = Operator::with("rig-stub");
    good.deploy().ended(0).saying("the nodes restored release 1 by themselves");
    linger(&rig, "disable");
}

/// The user's units end with the login and nobody may change that: the deploy goes on, and says what is lost.
#[test]
fn without_a_guard_a_deploy_says_what_is_lost() {
    let rig = Rig::clean();
    linger(&rig, "disable");
    let operator = Operator::with("rig-stub");
    let said = operator.deploy().ended(0).saying("no node restores anything by itself");
    assert!(said.stderr.contains("guard-absent") && said.stderr.contains("enable-linger"), "{}", said.stderr);
    let left = rig.on("spark1", "ls /home/spark/.local/state/sparkctl/rig-stub/guard");
    assert!(!left.contains("armed"), "{left}");
    answers_rightly();
}

/// A deploy that goes well leaves no guard.
#[test]
fn a_guard_ends_with_its_deploy() {
    let rig = Rig::clean();
    linger(&rig, "enable");
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    operator.edit("context_length: 2048", "context_length: 2047");
    operator.deploy().ended(0).saying("a unit of the user").saying("release 2 serves");
    eventually("the guards have ended", Duration::from_secs(10), || {
        rig.on("spark1", "pgrep -f guard.py || true").is_empty()
    });
    linger(&rig, "disable");
}
