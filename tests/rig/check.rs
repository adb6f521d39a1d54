//! `check` on the rig: a healthy one has nothing wrong, and what is done to it is found; nothing is changed on the nodes.

use std::sync::Arc;

use serde_json::Value;
use sparkctl::event::Events;
use sparkctl::execute::{Cancel, Hosts, execute};
use sparkctl::host::{Host, SshHost, SshOptions};
use sparkctl::plan::{Action, Plan, Stage, StageKind, Step};
use sparkctl::profile::NodeName;

use crate::harness::{Operator, Rig, ssh_config};

/// What `check` says: its exit status and the document.
fn checked(operator: &Operator) -> (Option<i32>, Value) {
    let said = operator.run(&["--output", "json", "check", &operator.file()]);
    let document = serde_json::from_str(&said.stdout);
    (said.code, document.unwrap_or_else(|error| panic!("{error}: {said:?}")))
}

/// Findings of a document as `SEVERITY NODE ID`, those of notes apart.
fn told(document: &Value, notes: bool) -> Vec<String> {
    let findings = document["check"]["findings"].as_array().expect("findings");
    let wanted = findings.iter().filter(|finding| (finding["severity"] == "note") == notes);
    wanted
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap_or("-").to_owned();
            assert!(finding["hint"].is_string(), "no remedy: {finding}");
            format!("{} {} {}", text("severity"), text("node"), text("id"))
        })
        .collect()
}

/// What could have been changed on both nodes.
fn state(rig: &Rig) -> Vec<String> {
    let command = "docker ps -aq --no-trunc | sort; docker images -q | sort; \
                   find /home/spark/models /home/spark/.local -not -path '*/state/sparkctl*' -not -name state -printf '%p %s %T@\\n' 2>/dev/null | sort";
    ["spark1", "spark2"].map(|node| rig.on(node, command)).into()
}

/// A fault: on which node it is made by which command and undone by which, and what is told of it.
struct Fault {
    node: &'static str,
    done: &'static str,
    undone: &'static str,
    told: &'static str,
}

const fn fault(node: &'static str, done: &'static str, undone: &'static str, told: &'static str) -> Fault {
    Fault { node, done, undone, told }
}

const SHARD: &str = "/home/spark/models/tiny/model-00002-of-00003.safetensors";

/// Changes sshd's configuration until it is undone.
macro_rules! sshd {
    ($line:literal, $told:literal) => {
        fault(
            "spark2",
            concat!(
                "cp -a /etc/ssh/sshd_config /tmp/sshd_config.kept; (echo '",
                $line,
                "'; cat /tmp/sshd_config.kept) > /etc/ssh/sshd_config; systemctl reload ssh"
            ),
            "mv /tmp/sshd_config.kept /etc/ssh/sshd_config; systemctl reload ssh",
            $told,
        )
    };
}

#[test]
fn a_healthy_rig_has_nothing_wrong() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(0), Vec::new()), "{document:#}");
    operator.deploy().ended(0);
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(0), Vec::new()), "{document:#}");
    drop(rig);
}

#[test]
fn faults_are_found_and_nothing_is_changed() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    let faults = [
        // By its name: the rig has no fish, and sshd lets nobody in whose shell does not exist.
        fault(
            "spark2",
            "ln -s /bin/bash /usr/local/bin/fish; usermod -s /usr/local/bin/fish spark",
            "usermod -s /bin/bash spark; rm /usr/local/bin/fish",
            "note spark2 ssh-shell",
        ),
        fault(
            "spark1",
            "cp -a /home/spark/.bashrc /tmp/bashrc.kept; sed -i '1i echo welcome' /home/spark/.bashrc",
            "mv /tmp/bashrc.kept /home/spark/.bashrc",
            "note spark1 ssh-noise",
        ),
        // Both nodes are containers on one kernel and share its clock: what the node says of it is another.
        fault(
            "spark2",
            "printf '#!/bin/sh\\nexec /bin/date -d \"+40 seconds\" \"$@\"\\n' > /usr/local/bin/date; chmod +x /usr/local/bin/date",
            "rm /usr/local/bin/date",
            "warning spark2 clock-skew",
        ),
        sshd!("AllowTcpForwarding no", "error spark2 ssh-forwarding"),
        sshd!("DisableForwarding yes", "error spark2 ssh-forwarding"),
        sshd!("MaxSessions 2", "error spark2 ssh-sessions"),
        fault(
            "spark2",
            "gpasswd -d spark docker",
            "gpasswd -a spark docker",
            "error spark2 docker-forbidden",
        ),
        fault(
            "spark2",
            "mv /usr/bin/rsync /usr/bin/rsync.kept",
            "mv /usr/bin/rsync.kept /usr/bin/rsync",
            "error spark2 tool-absent",
        ),
        fault(
            "spark1",
            "systemd-run --unit=in-the-way --quiet python3 -m http.server 30000; sleep 1",
            "systemctl stop in-the-way",
            "error spark1 port-taken",
        ),
        fault(
            "spark1",
            "touch /home/spark/models/tiny/x.incomplete",
            "rm /home/spark/models/tiny/x.incomplete",
            "warning spark1 model-incomplete",
        ),
        fault(
            "spark1",
            "chown root /home/spark/models/tiny/tokenizer.json; chmod 600 /home/spark/models/tiny/tokenizer.json",
            "chown spark /home/spark/models/tiny/tokenizer.json; chmod 644 /home/spark/models/tiny/tokenizer.json",
            "error spark1 model-unreadable",
        ),
        fault(
            "spark2",
            "ip link set enP2p1s0f1np1 mtu 1500",
            "ip link set enP2p1s0f1np1 mtu 9000",
            "warning - fabric-mtu",
        ),
        fault(
            "spark1",
            "docker run -d --name sglang-old --gpus all --entrypoint sleep sparkctl-rig/stub-engine:1 600",
            "docker rm -f sglang-old",
            "error spark1 gpu-taken",
        ),
    ];
    let mut missed = Vec::new();
    for Fault { node, done, undone, told: wanted } in faults {
        rig.on(node, done);
        let before = state(&rig);
        let (code, document) = checked(&operator);
        let after = state(&rig);
        rig.on(node, undone);
        assert_eq!(before, after, "{wanted}: a check changed something");
        let found = [told(&document, false), told(&document, true)].concat();
        if !found.iter().any(|found| found == wanted) {
            missed.push(format!("{wanted} after `{done}`: {code:?} {found:?}"));
        }
    }
    // What `hf download` noted of the files, against what the profile names.
    let notes = "/home/spark/models/tiny/.cache/huggingface/download";
    let commit = "4f3c2b1a".repeat(5);
    rig.on("spark1", &format!("mkdir -p {notes} && echo {commit} > {notes}/config.json.metadata"));
    operator.edit(
        "{ path: /home/spark/models/tiny }",
        "{ path: /home/spark/models/tiny, source: 'hf:a/b@0a1b2c3d4e' }",
    );
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(3), vec!["error spark1 model-revision".to_owned()]));
    operator.edit("@0a1b2c3d4e", "@4f3c2b1a4f3c");
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(0), Vec::new()));
    // The shard last: it is put back by the rig.
    rig.on("spark1", &format!("truncate -s -100 {SHARD}"));
    let (_, document) = checked(&operator);
    let found = told(&document, false);
    assert!(found.contains(&"error spark1 model-truncated".to_owned()), "{found:?}");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_node_that_lets_nobody_in_is_one_finding_of_several() {
    let _rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.edit("host: 10.77.0.12", "host: 10.77.0.99");
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(7), vec!["error spark2 ssh-unreachable".to_owned()]));
    operator.edit("models/tiny", "models/none");
    let (code, document) = checked(&operator);
    let found = told(&document, false);
    assert_eq!(code, Some(3), "{found:?}");
    assert!(found.contains(&"error spark1 model-absent".to_owned()), "{found:?}");
}

/// Which key of which kind stands in which file, where a node has another one now.
#[test]
fn a_host_key_that_changed() {
    let _rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    let known = operator.folder.path().join("known_hosts");
    let config = std::fs::read_to_string(ssh_config()).expect("the rig's configuration");
    let old = config.lines().find_map(|line| line.trim().strip_prefix("UserKnownHostsFile "));
    let keys = std::fs::read_to_string(old.expect("a file of keys")).expect("the keys");
    // As if spark2 had been installed anew since: its names stand beside spark1's key.
    let first = keys.lines().find_map(|line| Some(line.strip_prefix("spark1,")?.split_once(' ')?.1));
    let line = |line: &str| match line.split_once(' ') {
        Some((names, _)) if names.starts_with("spark2,") => {
            format!("{names} {}\n", first.unwrap_or_default())
        }
        _ => format!("{line}\n"),
    };
    std::fs::write(&known, keys.lines().map(line).collect::<String>()).expect("the file is written");
    let file = operator.folder.path().join("ssh_config");
    let other = config.replace(old.unwrap_or_default(), &known.display().to_string());
    std::fs::write(&file, other).expect("the file is written");
    let config = file.display().to_string();
    let said = operator.run(&["--ssh-config", &config, "--output", "json", "check", &operator.file()]);
    let document: Value = serde_json::from_str(&said.stdout).expect("a document");
    assert_eq!((said.code, told(&document, false)), (Some(7), vec!["error spark2 ssh-host-key".to_owned()]));
    let message = document["check"]["findings"][0]["message"].as_str().unwrap_or_default();
    let place = format!("ED25519 host key is not the one in `{}:", known.display());
    assert!(message.contains(&place), "{message}");
    let hint = document["check"]["findings"][0]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("ssh-keygen -R 10.77.0.12"), "{hint}");
}

/// Pages of the model's files that are in a node's page cache.
fn cached(rig: &Rig, node: &str) -> u64 {
    const COUNT: &str = r#"
import ctypes, mmap, os
total = 0
for name in os.listdir("/home/spark/models/tiny"):
    path = "/home/spark/models/tiny/" + name
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    if size >= mmap.PAGESIZE:
        with open(path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), size)
        view = ctypes.c_char.from_buffer(mapped)
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(size), pages)
        total += sum(page & 1 for page in pages)
print(total)
"#;
    rig.run(&["exec", node, "python3", "-c", COUNT]).trim().parse().expect("a count")
}

/// An image whose entrypoint and variables would defeat ours, the page cache ahead of its start, and a container that
/// loses its GPU while it serves.
#[test]
fn around_a_start() {
    const IMAGE: &str = "sparkctl-rig/baked:1";
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    rig.on(
        "spark1",
        &format!(
            "docker create --name bake sparkctl-rig/stub-engine:1 true && docker commit \
             --change 'ENV GLOO_SOCKET_IFNAME=eth0' --change 'ENV NCCL_IB_DISABLE=1' \
             --change 'ENTRYPOINT [\"/bin/false\"]' bake {IMAGE} && docker rm bake"
        ),
    );
    operator.edit("sparkctl-rig/stub-engine:1", IMAGE);
    let (code, document) = checked(&operator);
    assert_eq!((code, told(&document, false)), (Some(0), vec!["warning - image-env".to_owned()]));
    let all = document["check"]["findings"].to_string();
    assert!(all.contains("the image sets NCCL_IB_DISABLE=1"), "{all}");
    assert!(
        all.contains("the image sets GLOO_SOCKET_IFNAME=eth0, and what sparkctl or the profile sets holds")
    );

    // Nodes whose GPU shares the system's memory: the cache is dropped where nothing of ours runs.
    operator.run(&["plan", &operator.file()]).ended(0).saying("spark2   drop the page cache");
    let node = "spark1".parse().expect("a node's name");
    let action = Action::DropCache { path: "/home/spark/models/tiny".to_owned(), whole: false };
    let plan = Plan {
        deployment: "rig-stub".parse().expect("a name"),
        release: None,
        running: None,
        engine: None,
        nodes: vec![node],
        stages: vec![Stage {
            kind: StageKind::Memory,
            steps: vec![Step { node: "spark1".parse().expect("a node's name"), action }],
        }],
        differences: Vec::new(),
        last_start_seconds: None,
        endpoint: None,
    };
    rig.on("spark1", "cat /home/spark/models/tiny/* > /dev/null");
    let before = cached(&rig, "spark1");
    carry_out(&plan);
    let after = cached(&rig, "spark1");
    assert!(before > 1000 && after < before / 10, "{before} pages, then {after}");

    let said = operator.run(&["--output", "json", "deploy", &operator.file()]).ended(0);
    let memory = said.stdout.lines().find(|line| line.contains("stage-done") && line.contains("\"memory\""));
    let memory = memory.unwrap_or_else(|| panic!("{}", said.stdout));
    for part in ["spark1: MemFree ", "spark2: MemFree ", " files)"] {
        assert!(memory.contains(part), "{memory}");
    }
    let environment = rig.environment("spark2", "sparkctl-rig-stub-1");
    assert!(environment.contains(&"GLOO_SOCKET_IFNAME=enP2p1s0f1np1".to_owned()), "{environment:?}");

    // As after a `systemctl daemon-reload`, which takes the devices from the container's cgroup.
    rig.on(
        "spark2",
        "docker exec -u 0 sparkctl-rig-stub-1 sh -c 'printf \"#!/bin/sh\\necho Failed to initialize NVML: Unknown \
         Error\\nexit 255\\n\" > /usr/local/bin/nvidia-smi && chmod +x /usr/local/bin/nvidia-smi'",
    );
    let (_, document) = checked(&operator);
    assert_eq!(told(&document, false), ["warning spark2 gpu-lost", "warning - image-env"]);
    operator.run(&["status"]).ended(8).saying("rank 1 (spark2) lost the GPU").saying("Unknown Error");

    operator.run(&["stop"]).ended(0);
    for node in ["spark1", "spark2"] {
        let images = "docker images --format '{{.Repository}}:{{.Tag}}' | grep -E 'baked|sparkctl/kept' | xargs -r docker rmi -f";
        rig.on(node, images);
    }
}

/// Carries out a plan for spark1 alone.
fn carry_out(plan: &Plan) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let node: NodeName = "spark1".parse().expect("a node's name");
        let options = SshOptions { config_file: Some(ssh_config()) };
        let host =
            SshHost::connect(node.clone(), "spark1", None, &options).await.expect("the node is reached");
        let hosts = Hosts::from([(node, Arc::new(host) as Arc<dyn Host>)]);
        let (events, _listener) = Events::channel();
        let (_switch, cancel) = Cancel::new();
        execute(plan, &hosts, &events, &cancel, &sparkctl::release::journal::Journal::default())
            .await
            .expect("the plan is carried out");
    });
}
