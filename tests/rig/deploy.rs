//! Deploys that go well, and what a user can see of them.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Operator, Rig, answers_rightly, chat};

const HEAD: &str = "sparkctl-rig-stub-0";
const WORKER: &str = "sparkctl-rig-stub-1";

#[test]
fn deploy_change_and_rollback() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    let file = operator.file();
    operator.run(&["plan", "--exit-code", &file]).ended(10).saying("spark1 → spark2");
    operator.deploy().ended(0).saying("rig-stub release 1 serves at http://10.77.0.11:30000/v1");
    answers_rightly();
    operator.run(&["status"]).ended(0).saying("release 1, serving").saying("Ray 2 of 2 nodes");

    // Nothing differs: nothing is done, and the containers are the same ones.
    let id = rig.inspect("spark1", HEAD, "{{.Id}}");
    operator.run(&["plan", "--exit-code", &file]).ended(0).saying("nothing to do");
    operator.deploy().ended(0).saying("already deployed, nothing to do");
    assert_eq!(rig.inspect("spark1", HEAD, "{{.Id}}"), id);

    operator.edit("context_length: 2048", "context_length: 1024");
    operator.run(&["plan", &operator.file()]).ended(0).saying("--max-model-len 2048 → --max-model-len 1024");
    operator.deploy().ended(0).saying("release 2 serves");
    answers_rightly();
    assert!(rig.argv("spark1", HEAD).contains("--max-model-len 1024"));

    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    answers_rightly();
    assert!(rig.argv("spark1", HEAD).contains("--max-model-len 2048"));
    operator.run(&["releases"]).ended(0).saying("runs").saying("deployed");
    // There is nothing before release 1.
    operator.run(&["rollback"]).ended(3).saying("there is no release before the one that runs");
    operator.run(&["rollback", "--to", "2"]).ended(0).saying("release 2 serves");

    operator.run(&["stop"]).ended(0).saying("stopped (release 2)");
    assert!(rig.containers("spark1").is_empty() && rig.containers("spark2").is_empty());
    assert!(chat("Hello!").is_err());
    operator.run(&["status"]).ended(8).saying("stopped");
    // The log of a container that is gone.
    operator
        .run(&["logs", "--release", "2"])
        .ended(0)
        .saying("Application startup complete")
        .saying("spark2 1");
}

/// The head has the model as a Hub's cache keeps it: links in a snapshot, files in `blobs`.
#[test]
fn a_model_in_a_hub_cache_is_served() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    let script = r"
        set -e
        cache=/home/spark/.cache/huggingface/hub/models--rig--tiny
        rm -rf $cache
        mkdir -p $cache/snapshots/0123abcd $cache/blobs
        cd /home/spark/models/tiny
        for file in *; do
          cp $file $cache/blobs/blob-of-$file
          ln -s ../../blobs/blob-of-$file $cache/snapshots/0123abcd/$file
        done
        chown -R spark: /home/spark/.cache";
    rig.on("spark1", script);
    operator.edit(
        "path: /home/spark/models/tiny",
        "path: /home/spark/.cache/huggingface/hub/models--rig--tiny/snapshots/0123abcd",
    );
    operator.deploy().ended(0).saying("release 1 serves");
    answers_rightly();
    operator.run(&["plan", "--exit-code", &operator.file()]).ended(0).saying("nothing to do");
}

#[test]
fn every_rank_is_pinned_to_the_fabric() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    let ranks = [
        ("spark1", HEAD, "192.168.200.11", "enp1s0f0np0", "rocep1s0f0"),
        ("spark2", WORKER, "192.168.200.12", "enP2p1s0f1np1", "roceP2p1s0f1"),
    ];
    for (node, container, address, interface, device) in ranks {
        let environment = rig.environment(node, container);
        let wanted = [
            ("VLLM_HOST_IP", address),
            ("MASTER_ADDR", "192.168.200.11"),
            ("NCCL_SOCKET_IFNAME", interface),
            ("GLOO_SOCKET_IFNAME", interface),
            ("TP_SOCKET_IFNAME", interface),
            ("UCX_NET_DEVICES", interface),
            ("NCCL_IB_HCA", device),
            ("RAY_memory_monitor_refresh_ms", "0"),
        ];
        for (name, value) in wanted {
            assert!(
                environment.contains(&format!("{name}={value}")),
                "{node} has no {name}={value}: {environment:#?}"
            );
        }
        let argv = rig.argv(node, container);
        assert!(argv.contains(&format!("--node-ip-address={address}")), "{node}: {argv}");
        let host = rig.inspect(
            node,
            container,
            "{{.HostConfig.NetworkMode}} {{.HostConfig.IpcMode}} {{.HostConfig.Privileged}} {{.HostConfig.AutoRemove}} \
             {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.CapAdd}} {{json .HostConfig.Ulimits}}",
        );
        assert!(host.starts_with("host host false false unless-stopped"), "{node}: {host}");
        assert!(host.contains("IPC_LOCK") && host.contains("67108864"), "{node}: {host}");
        let mounts =
            rig.inspect(node, container, "{{range .Mounts}}{{.Source}}:{{.Destination}}:{{.RW}} {{end}}");
        assert!(mounts.contains("/home/spark/models/tiny:/model:false"), "{node}: {mounts}");
        // The rig's kernel may lower it; what was asked for is what counts.
        let lowered = rig.on(node, "cat /var/log/rig-runc.log 2>/dev/null || true");
        assert!(host.contains("\"memlock\"") || lowered.contains("MEMLOCK"), "{node}: {host}");
    }
    // No engine traffic is on the management LAN: nobody but the endpoint listens there for the world to see.
    let (code, status) = operator.status();
    assert_eq!((code, &status["health"]), (Some(0), &Value::from("serving")), "{status:#}");
}

#[test]
fn weights_and_image_come_to_the_worker_once() {
    let rig = Rig::clean();
    rig.on("spark1", "head -c 30000000 /dev/urandom > /home/spark/models/tiny/extra.bin; chown spark: /home/spark/models/tiny/extra.bin");
    rig.on("spark2", "docker images -q | sort -u | xargs -r docker rmi -f");
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(0).saying("image").saying("weights");
    let sums = "cd /home/spark/models/tiny && find . -type f -not -path './.sparkctl/seen.json' | sort | xargs sha256sum";
    assert_eq!(rig.on("spark1", sums), rig.on("spark2", sums));
    // No daemon, no secret is left behind.
    for node in ["spark1", "spark2"] {
        assert_eq!(rig.on(node, "pgrep -u spark -fa 'rsync|docker|python3' || true"), "", "{node}");
        assert_eq!(rig.on(node, "ls -A /tmp | grep -i sparkctl || true"), "", "{node}");
    }
    let plan = operator.run(&["--output", "json", "plan", &operator.file()]).ended(0);
    let plan: Value = serde_json::from_str(&plan.stdout).expect("a document");
    assert_eq!(plan["plan"]["stages"], serde_json::json!([]), "{plan:#}");
}

/// Killed in the middle of the bytes: nothing is left running, and the next deploy moves only the rest.
#[test]
fn a_cut_transfer_is_continued() {
    let rig = Rig::clean();
    rig.on(
        "spark1",
        "head -c 80000000 /dev/urandom > /home/spark/models/tiny/big.bin; chown spark: /home/spark/models/tiny/big.bin",
    );
    rig.run(&["slow-fabric", "spark2", "100mbit"]);
    let operator = Operator::with("rig-stub");
    let mut first =
        operator.command(&["--output", "json", "deploy", &operator.file()]).spawn().expect("sparkctl starts");
    let events = BufReader::new(first.stdout.take().expect("piped"));
    let came = events.lines().map_while(Result::ok).filter_map(|line| {
        let event: Value = serde_json::from_str(&line).ok()?;
        event["progress"]["bytes"]["done"].as_u64()
    });
    assert!(came.into_iter().any(|bytes| bytes > 30_000_000), "no progress in bytes was told");
    first.kill().expect("it can be killed");
    first.wait().expect("it ends");
    for node in ["spark1", "spark2"] {
        crate::harness::eventually("nothing is left running", Duration::from_secs(10), || {
            rig.on(node, "pgrep -u spark -fa 'rsync|python3' || true").is_empty()
        });
        assert_eq!(rig.on(node, "ls -A /tmp | grep sparkctl || true"), "", "{node}");
    }
    rig.run(&["heal"]);
    let said = operator.run(&["--output", "json", "deploy", &operator.file()]).ended(0);
    let detail = said
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|event| event["event"] == "stage-done" && event["stage"] == "weights")
        .expect("weights were moved")["detail"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let megabytes: u32 =
        detail.split(" MB").next().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{detail}"));
    assert!((10..60).contains(&megabytes), "not only the rest was moved: {detail}");
    let sum = "sha256sum < /home/spark/models/tiny/big.bin";
    assert_eq!(rig.on("spark1", sum), rig.on("spark2", sum));
}

/// Bytes come first, while the old release serves: whoever asks sees no gap before the switch.
#[test]
fn the_old_release_serves_while_bytes_are_staged() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    rig.on("spark1", "head -c 60000000 /dev/urandom > /home/spark/models/tiny/new.bin; chown spark: /home/spark/models/tiny/new.bin");
    rig.run(&["slow-fabric", "spark2", "100mbit"]);
    operator.edit("context_length: 2048", "context_length: 1024");

    let done = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let client = std::thread::spawn({
        let done = done.clone();
        move || {
            let mut answers = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let asked = began.elapsed();
                answers.push((asked, chat("Reply with the word pong.")));
                std::thread::sleep(Duration::from_millis(50));
            }
            answers
        }
    });
    let mut deploy =
        operator.command(&["--output", "json", "deploy", &operator.file()]).spawn().expect("sparkctl starts");
    let (mut weights, mut stop) = (None, None);
    for line in BufReader::new(deploy.stdout.take().expect("piped")).lines() {
        let event: Value = serde_json::from_str(&line.expect("text")).expect("a line of JSON");
        if event["event"] == "stage-started" {
            match event["stage"].as_str() {
                Some("weights") => weights = Some(began.elapsed()),
                Some("stop") => stop = Some(began.elapsed()),
                _ => {}
            }
        }
    }
    assert!(deploy.wait().expect("it ends").success());
    done.store(true, Ordering::Relaxed);
    let answers = client.join().expect("the client ends");
    let (weights, stop) = (weights.expect("bytes were staged"), stop.expect("the old release was stopped"));
    assert!(stop > weights + Duration::from_secs(3), "the bytes were too few to tell");
    let during: Vec<_> = answers
        .iter()
        .filter(|(asked, _)| *asked > weights && *asked + Duration::from_millis(200) < stop)
        .collect();
    assert!(during.len() > 20, "only {} questions were asked while bytes were staged", during.len());
    for (asked, answer) in during {
        assert_eq!(
            answer.as_deref(),
            Ok("pong"),
            "{asked:?} after the start, {:?} before the switch",
            stop.saturating_sub(*asked)
        );
    }
    answers_rightly();
}

/// The tag moved on; the release before is still what it was.
#[test]
fn rollback_goes_to_the_same_image_although_its_tag_moved() {
    let rig = Rig::clean();
    rig.run(&["load", "spark1", "stub", "sparkctl-rig/moving:1"]);
    let mut operator = Operator::with("rig-stub");
    operator.edit("sparkctl-rig/stub-engine:1", "sparkctl-rig/moving:1");
    operator.deploy().ended(0);
    let moved =
        |node, container| rig.inspect(node, container, "{{json .Config.Labels}}").contains("rig.moved");
    assert!(!moved("spark1", HEAD));
    rig.on(
        "spark1",
        "printf 'FROM sparkctl-rig/stub-engine:1\nLABEL rig.moved=yes\n' | \
         DOCKER_BUILDKIT=0 docker build -q -t sparkctl-rig/moving:1 -",
    );
    operator.run(&["plan", &operator.file()]).ended(0).saying("image").saying("→");
    operator.deploy().ended(0).saying("release 2 serves");
    assert!(moved("spark1", HEAD) && moved("spark2", WORKER));
    operator.run(&["rollback"]).ended(0).saying("release 1 serves");
    assert!(!moved("spark1", HEAD) && !moved("spark2", WORKER));
    answers_rightly();
}

/// A group comes back by itself after its nodes were switched off and on.
#[test]
fn the_group_comes_back_after_a_reboot() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    rig.run(&["reboot", "spark1"]);
    rig.run(&["reboot", "spark2"]);
    crate::harness::eventually("the endpoint answers again", Duration::from_secs(60), || {
        chat("Hello!").is_ok()
    });
    answers_rightly();
    operator.deploy().ended(0).saying("nothing to do");
}
