//! `fetch` as a command, on this machine as the head, from a Hub for tests. What the script does under faults is tested
//! beside it, in `tests/hub/test_fetch.py`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

/// A Hub that serves a model of three files and the same weights in another form, until it is dropped.
struct Hub {
    process: Child,
    endpoint: String,
    folder: tempfile::TempDir,
}

impl Hub {
    fn serve(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = folder.path().join("hub");
        fs::create_dir(&model).expect("the folder can be written");
        let files =
            [("config.json", 30), ("a.safetensors", 400_000), ("b.safetensors", 900_000), ("a.bin", 20_000)];
        for (name, size) in files {
            fs::write(model.join(name), vec![name.as_bytes()[0]; size]).expect("the folder can be written");
        }
        let mut process = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hub/server.py"))
            .args(["127.0.0.1", "0"])
            .args(arguments)
            .arg(format!("open/model={}", model.display()))
            .arg(format!("shut/model={},gated", model.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut endpoint = String::new();
        let said = process.stdout.take().expect("standard output was piped");
        BufReader::new(said).read_line(&mut endpoint).expect("the Hub says where it is");
        Self { process, endpoint: endpoint.trim().to_owned(), folder }
    }

    /// Where the model goes.
    fn target(&self) -> PathBuf {
        self.folder.path().join("models/target")
    }

    fn command(&self, source: &str, arguments: &[&str]) -> Command {
        let profile = self.folder.path().join("profile.yaml");
        let text = include_str!("../profiles/rig-stub.yaml");
        fs::write(&profile, text).expect("the folder can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sparkctl"));
        command
            .arg("fetch")
            .arg(&profile)
            .args(["--set", "cluster.nodes[spark1].host=local", "--set", &format!("model.source={source}")])
            .args(["--set", &format!("model.path={}", self.target().display())])
            .args(arguments)
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("HOME", self.folder.path())
            .env("HF_ENDPOINT", &self.endpoint)
            .env_remove("HF_TOKEN")
            .env("no_proxy", "*")
            .stdin(Stdio::null());
        command
    }

    fn fetch(&self, source: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        told(self.command(source, arguments).output().expect("sparkctl starts"))
    }

    fn whole(&self) -> bool {
        let same = |name: &str| {
            let read = |folder: &Path| fs::read(folder.join(name)).ok();
            read(&self.target()) == read(&self.folder.path().join("hub"))
        };
        same("config.json") && same("a.safetensors") && same("b.safetensors")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("sparkctl writes UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// All that lies below a folder, as one text.
fn all_below(folder: &Path) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.push_str(&all_below(&path));
        } else {
            found.push_str(&String::from_utf8_lossy(&fs::read(&path).expect("the record can be read")));
        }
    }
    found
}

#[test]
fn a_model_comes_once_and_is_told() {
    let hub = Hub::serve(&[]);
    let (code, stdout, stderr) = hub.fetch("hf:open/model", &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(hub.whole() && !hub.target().join("a.bin").exists());
    let line = |text: &str| stdout.lines().next().is_some_and(|line| line.contains(text));
    assert!(line(": hf:open/model at ") && line(": 3 files, 1.3 MB, all verified"), "{stdout}");
    assert!(stdout.contains("next: `sparkctl deploy`"), "{stdout}");
    for part in [
        "3 files, 1.3 MB",
        "left out: 1 of its files, 20 kB",
        "source: hf:open/model@",
        "1.3 MB to spark1 in",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let (code, stdout, _) = hub.fetch("hf:open/model", &["--output", "json"]);
    let last: Value = serde_json::from_str(stdout.lines().last().expect("an outcome")).expect("JSON");
    assert_eq!((code, &last["outcome"]["outcome"]), (Some(0), &"fetched".into()));
    assert_eq!((&last["outcome"]["received"], &last["outcome"]["files"]), (&0.into(), &3.into()));
    // It is no deployment yet, so nothing is known by its name.
    assert!(!all_below(&hub.folder.path().join("state")).contains("profile.json"));
}

#[test]
fn what_the_hub_refuses_is_told_and_the_token_is_not() {
    let hub = Hub::serve(&[]);
    let (code, _, stderr) = hub.fetch("hf:shut/model", &[]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("error: fetch failed on spark1: shut/model is gated"), "{stderr}");
    assert!(stderr.contains("hint:  accept the terms at http"), "{stderr}");
    assert!(stderr.contains("then set HF_TOKEN"), "{stderr}");
    let mut command = hub.command("hf:shut/model", &["-vv"]);
    let (code, stdout, stderr) =
        told(command.env("HF_TOKEN", "hf_secret").output().expect("sparkctl starts"));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("does not accept the token (HF_TOKEN of the operator)"), "{stderr}");
    let record = all_below(&hub.folder.path().join("state"));
    assert!(record.contains("does not accept the token"));
    assert!(![stdout, stderr, record].concat().contains("hf_secret"));
    let (code, _, stderr) = hub.fetch("hf:open/model", &["--set", "model.source=null"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("add `source: hf:OWNER/NAME`"), "{stderr}");
}

#[test]
fn interrupted_it_ends_on_the_node_and_goes_on_the_next_time() {
    let hub = Hub::serve(&["rate=150000"]);
    let child = hub.command("hf:open/model", &["--connections", "2"]).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("sparkctl starts");
    let part = || {
        let parts = fs::read_dir(hub.target().join(".sparkctl/fetch")).into_iter().flatten().flatten();
        parts.filter_map(|part| part.metadata().ok()).map(|part| part.len()).sum::<u64>()
    };
    let begun = Instant::now();
    while part() < 200_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing came");
        thread::sleep(Duration::from_millis(20));
    }
    let ended = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(ended.expect("kill starts").success());
    assert_eq!(child.wait().expect("sparkctl ends").code(), Some(130));
    let lock = hub.target().join(".sparkctl/fetch.lock");
    let free = Command::new("flock").args(["-w", "10"]).arg(&lock).arg("true").status();
    assert!(free.expect("flock starts").success(), "the script goes on on the node");
    assert!(!hub.whole());
    let (code, _, stderr) = hub.fetch("hf:open/model", &["--connections", "8"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("are there already"), "{stderr}");
    assert!(hub.whole());
}
