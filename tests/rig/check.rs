//! `check` on the rig: a healthy one has nothing wrong, and what is done to it is found; nothing is changed on the nodes.

use serde_json::Value;

use crate::harness::{Operator, Rig};

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
                   find /home/spark/models /home/spark/.local -printf '%p %s %T@\\n' 2>/dev/null | sort";
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
    let operator = Operator::with("rig-stub");
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
