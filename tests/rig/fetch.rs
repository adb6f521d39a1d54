//! A model from a Hub on this machine to the head, and from there to many nodes, which pass it on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{Operator, Rig, answers_rightly};

/// Where the model goes on the nodes.
const TARGET: &str = "/home/spark/models/fetched";
/// Bytes of each of its large files.
const LARGE: usize = 300_000_000;

/// A Hub on the rig's management LAN, until it is dropped.
struct Hub {
    process: Child,
    endpoint: String,
}

impl Hub {
    /// Serves a folder as `rig/tiny`.
    fn serve(folder: &Path) -> Self {
        let mut process = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hub/server.py"))
            .args(["10.77.0.1", "0", &format!("rig/tiny={}", folder.display())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut endpoint = String::new();
        let said = process.stdout.take().expect("standard output was piped");
        BufReader::new(said).read_line(&mut endpoint).expect("the Hub says where it is");
        Self { process, endpoint: endpoint.trim().to_owned() }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn four_nodes_have_a_model_from_the_hub() {
    let rig = Rig::clean();
    rig.run(&["up", "4"]);
    let model = tempfile::tempdir().expect("a temporary folder");
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny-model");
    for file in fs::read_dir(tiny).expect("the tiny model is there").flatten() {
        fs::copy(file.path(), model.path().join(file.file_name())).expect("a file is copied");
    }
    for name in ["one.dat", "two.dat", "three.dat"] {
        let pattern: Vec<u8> = (0..=250).cycle().take(LARGE).collect();
        fs::write(model.path().join(name), [name.as_bytes(), &pattern].concat()).expect("a file is written");
    }
    let hub = Hub::serve(model.path());
    let mut operator = Operator::with("rig-stub");
    operator.edit("/home/spark/models/tiny", &format!("{TARGET}, source: hf:rig/tiny"));
    let more = "\n    - { name: spark3, host: 10.77.0.13, fabric: 192.168.200.13 }\n    \
                - { name: spark4, host: 10.77.0.14, fabric: 192.168.200.14 }\nmodel:";
    operator.edit("\nmodel:", more).edit("tensor_parallel: 2", "tensor_parallel: 4");
    let file = operator.file();
    operator.run(&["check", &file]).ended(3).saying("`sparkctl fetch PROFILE` brings hf:rig/tiny there");
    let fetched = operator.command(&["fetch", &file]).env("HF_ENDPOINT", &hub.endpoint).output();
    let fetched = fetched.expect("sparkctl starts");
    let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
    assert!(fetched.status.success(), "{said}");
    assert!(rig.on("spark1", &format!("cat {TARGET}/.sparkctl/manifest.json")).contains("hf:rig/tiny"));
    drop(hub);

    let plan = operator.run(&["plan", &file]).ended(0);
    let line = plan.stdout.lines().find(|line| line.contains("→ spark4")).unwrap_or_default();
    assert!(
        line.contains("spark2") || line.contains("spark3"),
        "spark4 has all from the head: {}",
        plan.stdout
    );
    operator.deploy().ended(0).saying("passed on from node to node").saying("release 1 serves");
    answers_rightly();
    let sums = |node: &str| rig.on(node, &format!("cd {TARGET} && sha256sum * | sort"));
    let wanted = sums("spark1");
    assert!(wanted.lines().count() > 5, "{wanted}");
    for node in ["spark2", "spark3", "spark4"] {
        assert_eq!(sums(node), wanted, "{node}");
    }
    operator.run(&["stop"]).ended(0);
}
