//! The program itself, with a Docker Engine that is a socket and a list.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

/// A container of the engine.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    name: String,
    release: String,
    running: bool,
    restart: String,
}

#[derive(Default)]
struct Engine {
    containers: Vec<Seen>,
    asked: Vec<String>,
}

fn labels(release: &str) -> Value {
    json!({
        "sparkctl.format": "1", "sparkctl.deployment": "demo", "sparkctl.rank": "0",
        "sparkctl.release": release, "sparkctl.spec": format!("spec-{release}"),
    })
}

impl Engine {
    fn find(&mut self, name: &str) -> Option<&mut Seen> {
        self.containers.iter_mut().find(|container| container.name == name)
    }

    fn answer(&mut self, method: &str, path: &str, body: &Value) -> (u16, Vec<u8>) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.asked.push(format!("{method} {path}"));
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let none = (404, json!({ "message": "No such container" }).to_string().into_bytes());
        match (method, &parts[..]) {
            ("GET", ["_ping"]) => (200, b"OK".to_vec()),
            ("GET", ["containers", "json"]) => {
                assert!(query.contains("sparkctl.deployment%3Ddemo"), "{query}");
                let all = self.containers.iter().map(|container| {
                    json!({ "Id": container.name, "Names": [format!("/{}", container.name)], "Labels": labels(&container.release) })
                });
                (200, Value::from_iter(all).to_string().into_bytes())
            }
            ("POST", ["containers", "create"]) => {
                let name = query.strip_prefix("name=").expect("a name").to_owned();
                let release = body["Labels"]["sparkctl.release"].as_str().expect("a release").to_owned();
                self.containers.push(Seen { name, release, running: false, restart: "no".to_owned() });
                (201, b"{}".to_vec())
            }
            ("DELETE", ["containers", name]) => {
                let running = self.find(name).is_none_or(|container| container.running);
                self.containers.retain(|container| container.name != *name);
                (if running { 409 } else { 204 }, Vec::new())
            }
            ("GET", ["containers", _, "logs"]) => {
                // One line in two frames, one of each stream.
                let frame = |stream: u8, text: &[u8]| {
                    let size = u32::try_from(text.len()).expect("short").to_be_bytes();
                    [&[stream, 0, 0, 0], &size[..], text].concat()
                };
                (200, [frame(1, b"key is sk-123"), frame(1, b"45678\n"), frame(2, b"the end")].concat())
            }
            (_, ["containers", name, what]) => {
                let Some(container) = self.find(name) else { return none };
                match *what {
                    "json" => {
                        let state = json!({ "State": { "Running": container.running, "ExitCode": 0 } });
                        return (200, state.to_string().into_bytes());
                    }
                    "update" => {
                        let policy = body["RestartPolicy"]["Name"].as_str().expect("a policy");
                        policy.clone_into(&mut container.restart);
                    }
                    "stop" => container.running = false,
                    "start" | "restart" => container.running = true,
                    other => panic!("{other} is not known"),
                }
                (204, Vec::new())
            }
            _ => panic!("{method} {path} is not known"),
        }
    }
}

fn serve(mut stream: UnixStream, engine: &Mutex<Engine>) {
    let mut read = Vec::new();
    let head = loop {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).expect("a request");
        read.extend_from_slice(&some[..count]);
        if let Some(at) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
        assert!(count > 0, "half a request");
    };
    let text = String::from_utf8_lossy(&read[..head]).into_owned();
    let length = text.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a number"))
    });
    while read.len() < head + length.unwrap_or(0) {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).expect("a body");
        assert!(count > 0, "half a body");
        read.extend_from_slice(&some[..count]);
    }
    let mut words = text.split(' ');
    let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
    let body = serde_json::from_slice(&read[head..]).unwrap_or(Value::Null);
    let (status, body) = engine.lock().expect("the engine").answer(method, path, &body);
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let answer = format!("HTTP/1.1 {status} X\r\n{length}Connection: close\r\n\r\n");
    let _ = stream.write_all(&[answer.as_bytes(), &body].concat());
}

/// A node's folder, with a guard of release 2 over release 1 that waits for two seconds.
struct Node {
    folder: tempfile::TempDir,
    engine: Arc<Mutex<Engine>>,
}

impl Node {
    fn new(containers: &[(&str, &str, bool)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("secrets")).expect("a folder");
        std::fs::create_dir_all(folder.path().join("guard")).expect("a folder");
        let value = crate::container::hex(b"sk-12345678");
        std::fs::write(folder.path().join("secrets/0001"), format!("KEY {value}\n")).expect("a file");
        let seen = |(name, release, running): &(&str, &str, bool)| Seen {
            name: (*name).to_owned(),
            release: (*release).to_owned(),
            running: *running,
            restart: "no".to_owned(),
        };
        let engine = Arc::new(Mutex::new(Engine {
            containers: containers.iter().map(seen).collect(),
            asked: Vec::new(),
        }));
        let listener = UnixListener::bind(folder.path().join("docker.sock")).expect("a socket");
        let shared = engine.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &shared);
            }
        });
        let node = Self { folder, engine };
        let before = Before { release: ReleaseNumber(1), ranks: Vec::new() };
        let guard = Guard {
            deployment: "demo".parse().expect("a name"),
            release: ReleaseNumber(2),
            others: Vec::new(),
            before: Some(before),
            lease: Duration::from_secs(2),
        };
        let data = guard.data([("demo-0".to_owned(), json!({ "Image": "i", "Labels": labels("1") }))]);
        std::fs::write(node.guard("0002.armed"), data.to_string()).expect("a file");
        node
    }

    fn guard(&self, name: &str) -> PathBuf {
        self.folder.path().join("guard").join(name)
    }

    fn start(&self) -> Child {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guard/guard.py");
        let mut command = Command::new("python3");
        command.arg(program).arg(self.folder.path().join("guard")).arg("0002");
        command.env("SPARKCTL_GUARD_SOCKET", self.folder.path().join("docker.sock"));
        command.stdin(Stdio::null()).spawn().expect("python3")
    }

    fn run(&self) -> Duration {
        let began = Instant::now();
        assert!(self.start().wait().expect("it ends").success());
        began.elapsed()
    }

    fn containers(&self) -> Vec<Seen> {
        self.engine.lock().expect("the engine").containers.clone()
    }

    fn outcome(&self) -> Option<Outcome> {
        let text = std::fs::read_to_string(self.guard("outcome.json")).ok()?;
        GuardFacts::parse(&text).outcome
    }
}

fn first() -> Vec<Seen> {
    let restart = "unless-stopped".to_owned();
    vec![Seen { name: "demo-0".to_owned(), release: "1".to_owned(), running: true, restart }]
}

#[test]
fn when_its_time_has_passed_it_brings_the_release_before_back() {
    let node = Node::new(&[("demo-0", "2", true)]);
    assert!(node.run() >= Duration::from_secs(2));
    assert_eq!(node.containers(), first());
    let outcome = node.outcome().expect("it says what it did");
    assert_eq!(
        (outcome.failed, outcome.release, outcome.why),
        (ReleaseNumber(2), Some(ReleaseNumber(1)), None)
    );
    let log = node.folder.path().join("releases/0002/rank-0.demo-0.log");
    let log = std::fs::read_to_string(log).expect("the log is kept");
    assert_eq!(log, "key is ‹secret KEY›\nthe end");
    assert!(!node.guard("0002.armed").exists() && !node.guard("0002.acting").exists());
    // Once more, as after a program that was killed in the middle: nothing is made twice.
    std::fs::rename(node.guard("outcome.json"), node.guard("before.json")).expect("it is there");
    let data = json!({
        "deployment": "demo", "release": 2, "before": 1, "remove": [2], "lease_seconds": 2,
        "bring": [{ "name": "demo-0", "restart": "unless-stopped", "body": { "Labels": labels("1") } }],
    });
    std::fs::write(node.guard("0002.acting"), data.to_string()).expect("a file");
    node.run();
    assert_eq!(node.containers(), first());
    assert!(node.outcome().is_some_and(|outcome| outcome.why.is_none()));
}

/// Between stop and start there is no container at all; one that still runs may have lost its peers.
#[test]
fn whatever_is_there_the_release_before_runs_anew() {
    for containers in [&[][..], &[("demo-0", "1", true)], &[("demo-0", "1", false)]] {
        let node = Node::new(containers);
        node.run();
        assert_eq!(node.containers(), first(), "{containers:?}");
        let asked = node.engine.lock().expect("the engine").asked.clone();
        let began = asked.iter().any(|path| path.ends_with("/restart") || path.ends_with("/start"));
        assert!(began, "{asked:?}");
    }
}

#[test]
fn a_container_that_is_none_of_its_business_is_left_alone() {
    let node = Node::new(&[("demo-0", "3", true)]);
    // It tries again for half a minute; what it says then is not waited for here.
    let mut program = node.start();
    std::thread::sleep(Duration::from_secs(4));
    program.kill().expect("it can be killed");
    program.wait().expect("it ends");
    let all = node.containers();
    assert_eq!((all.len(), all[0].release.as_str(), all[0].running), (1, "3", true));
}

#[test]
fn a_sign_of_life_puts_it_off_and_who_takes_its_file_away_ends_it() {
    let node = Node::new(&[("demo-0", "2", true)]);
    let beat = include_str!("beat.sh")
        .replace("$HOME/.local/state/sparkctl/$1/guard", &format!("{}/guard", node.folder.path().display()));
    let end = include_str!("end.sh")
        .replace("$HOME/.local/state/sparkctl/$1/guard", &format!("{}/guard", node.folder.path().display()));
    let say = |script: &str, number: &str| {
        let output = Command::new("sh").args(["-c", script, "sh", "demo", number]).output().expect("sh");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let mut program = node.start();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(say(&beat, "0002"), "armed");
    }
    assert!(node.guard("0002.alive").exists(), "it says that it lives");
    assert_eq!(say(&end, "0002"), "ended");
    assert_eq!(say(&end, "any"), "gone");
    assert!(program.wait().expect("it ends").success());
    assert_eq!((node.containers()[0].release.as_str(), node.outcome()), ("2", None));
    assert_eq!(say(&beat, "0002"), "gone");
    std::fs::write(node.guard("0002.acting"), "{}").expect("a file");
    assert_eq!((say(&beat, "0002"), say(&end, "any")), ("acting".to_owned(), "acting".to_owned()));
}
