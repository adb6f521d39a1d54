//! Weights between real nodes: several streams, cuts, damage, and ssh.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::harness::{Operator, Rig};

const SUMS: &str = "cd /home/spark/models/tiny && find . -type f -not -path '*/.*' | sort | xargs sha256sum";

/// A turn with three files of 70 MB beside the tiny model.
fn with_large_files() -> Rig {
    let rig = Rig::clean();
    rig.on(
        "spark1",
        "cd /home/spark/models/tiny; for i in 1 2 3; do head -c 70000000 /dev/urandom > part-$i.bin; done; \
         chown spark: part-*",
    );
    rig
}

/// What a sync with JSON told last.
fn outcome(stdout: &str) -> Value {
    let last = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

#[test]
fn only_what_is_wrong_is_sent_again() {
    let rig = with_large_files();
    let operator = Operator::with("rig-stub");
    let file = operator.file();
    operator.run(&["sync", &file]).ended(0).saying("verified on 2 nodes; 216 MB moved");
    assert_eq!(rig.on("spark1", SUMS), rig.on("spark2", SUMS));
    operator.run(&["sync", &file]).ended(0).saying("unchanged: ").saying("verified earlier");
    for node in ["spark1", "spark2"] {
        assert_eq!(rig.on(node, "pgrep -u spark -fa 'rsync|python3' || true"), "", "{node}");
        assert_eq!(rig.on(node, "ls -A /tmp | grep -i sparkctl || true"), "", "{node}");
    }
    let moved = |args: &[&str]| {
        let said = operator.run(&[&["--output", "json", "sync"], args, &[&file]].concat()).ended(0);
        outcome(&said.stdout)["outcome"]["moved"].as_u64().unwrap_or_else(|| panic!("{said:?}"))
    };
    // A byte that changed and left no trace is found by reading all; one that did, at once.
    rig.on("spark2", "cd /home/spark/models/tiny; touch -r part-1.bin /tmp/then; printf x | dd of=part-1.bin seek=5000 bs=1 conv=notrunc 2>&1; touch -r /tmp/then part-1.bin");
    assert_eq!(moved(&[]), 0);
    assert_eq!(moved(&["--verify"]), 70_000_000);
    rig.on(
        "spark2",
        "cd /home/spark/models/tiny; printf x | dd of=part-2.bin seek=5000 bs=1 conv=notrunc 2>&1",
    );
    assert_eq!(moved(&[]), 70_000_000);
    // Of root: told, and nothing is done.
    rig.on("spark2", "cd /home/spark/models/tiny; chown root part-3.bin");
    operator.run(&["sync", &file]).ended(3).saying("part-3.bin is of root and cannot be written");
    // Cut short, a link to nowhere.
    rig.on("spark2", "cd /home/spark/models/tiny; chown spark part-3.bin; truncate -s 1M part-3.bin; ln -sf nowhere config.json");
    let config =
        rig.on("spark1", "stat -c %s /home/spark/models/tiny/config.json").parse::<u64>().expect("a size");
    assert_eq!(moved(&[]), 70_000_000 + config);
    assert_eq!(rig.on("spark1", SUMS), rig.on("spark2", SUMS));
    // A file beside the model's.
    rig.on("spark2", "touch /home/spark/models/tiny/old.bin");
    operator.run(&["sync", &file]).ended(0).saying("spark2: not of the model: old.bin");
    operator.run(&["sync", "--delete-extra", &file]).ended(0);
    assert_eq!(rig.on("spark1", SUMS), rig.on("spark2", SUMS));
}

#[test]
fn a_sync_that_was_cut_goes_on() {
    let rig = with_large_files();
    let operator = Operator::with("rig-stub");
    let cut = |how: &dyn Fn(&mut std::process::Child)| {
        rig.run(&["slow-fabric", "spark2", "200mbit"]);
        let mut sync = operator
            .command(&["--output", "json", "sync", &operator.file()])
            .spawn()
            .expect("sparkctl starts");
        let lines = BufReader::new(sync.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let mut done = events.filter_map(|event| event["progress"]["bytes"]["done"].as_u64());
        assert!(done.any(|done| done > 30_000_000), "no progress in bytes was told");
        how(&mut sync);
        sync.wait().expect("it ends");
    };
    // The operator's machine, then the giving node.
    cut(&|sync| sync.kill().expect("it can be killed"));
    cut(&|_| drop(rig.run(&["kill", "spark1"])));
    rig.run(&["boot", "spark1"]);
    rig.run(&["heal"]);
    let said = operator.run(&["--output", "json", "sync", &operator.file()]).ended(0);
    let moved = outcome(&said.stdout)["outcome"]["moved"].as_u64().expect("bytes");
    assert!(moved < 170_000_000, "not only the rest was moved: {moved}");
    assert_eq!(rig.on("spark1", SUMS), rig.on("spark2", SUMS));
}

#[test]
fn weights_travel_by_ssh_where_the_nodes_have_keys() {
    let rig = with_large_files();
    let mut operator = Operator::with("rig-stub");
    operator.edit("  nodes:", "  transfer: { weights: ssh, streams: 2 }\n  nodes:");
    let said = operator.run(&["sync", &operator.file()]).ended(5);
    said.saying("cannot log in to 192.168.200.11 by ssh").saying("cluster.transfer.weights: direct");
    let key = rig.on("spark2", "su spark -c 'mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N \"\" -C rig-test -f ~/.ssh/id_ed25519; ssh-keyscan 192.168.200.11 > ~/.ssh/known_hosts 2>/dev/null; cat ~/.ssh/id_ed25519.pub'");
    rig.on("spark1", &format!("echo '{key}' >> /home/spark/.ssh/authorized_keys"));
    let said = operator.run(&["sync", &operator.file()]);
    rig.on("spark1", "sed -i /rig-test/d /home/spark/.ssh/authorized_keys");
    rig.on("spark2", "rm -f /home/spark/.ssh/id_ed25519* /home/spark/.ssh/known_hosts");
    said.ended(0).saying("216 MB moved");
    assert_eq!(rig.on("spark1", SUMS), rig.on("spark2", SUMS));
}
