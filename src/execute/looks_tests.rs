//! The scripts in earnest, on this machine's own processes and sockets; only Docker is a stand-in.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Evidence;
use crate::pulse::Look;

const LOOK: &str = include_str!("../pulse/look.py");
const EVIDENCE: &str = include_str!("../pulse/evidence.py");

fn python(script: &str, arguments: &[&str], path: Option<String>) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(arguments).envs(path.map(|path| ("PATH", path)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A script, with a `docker` that knows the container `box`, whose first process is `process`, and nothing in it.
fn with_docker(script: &str, arguments: &[&str], process: u32, folder: &Path) -> Child {
    let docker = folder.join("docker");
    let text = format!("#!/bin/sh\n[ \"$1 $4\" = 'inspect box' ] && echo {process}\n");
    std::fs::write(&docker, text).unwrap();
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).unwrap();
    python(script, arguments, Some(format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())))
}

/// The next lines of a program; then its input is closed, and it has to end by that.
fn lines(mut program: Child, count: usize) -> Vec<String> {
    let lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let lines = lines.take(count).map(Result::unwrap).collect();
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    lines
}

fn looks(arguments: &[&str], process: u32, count: usize) -> Vec<Look> {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(with_docker(LOOK, arguments, process, folder.path()), count);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_container_uses_is_seen_and_the_look_ends_with_its_input() {
    // The busy one is a child of the first process.
    let busy = "import os, select\nif os.fork(): os.wait()\nwhile not select.select([0], [], [], 0)[0]: pass";
    let mut busy = python(busy, &[], None);
    let seen = looks(&["box", "127.0.0.1", "0.3"], busy.id(), 4);
    drop(busy.stdin.take());
    busy.wait().unwrap();
    assert!(seen[3].cpu.unwrap() > seen[0].cpu.unwrap(), "{seen:?}");
    assert!(seen[3].fabric.is_some(), "{seen:?}");
    // What cannot be had is left out.
    let nothing = looks(&["other", "203.0.113.1", "0.1"], 1, 1)[0];
    assert_eq!((nothing.cpu, nothing.read, nothing.fabric), (None, None, None));
}

#[test]
fn a_connection_that_nobody_answers_is_seen() {
    // Whoever comes when the queue is full is not answered.
    let full = "import socket
door, callers = socket.create_server(('127.0.0.1', 0), backlog=0), [socket.socket() for _ in range(3)]
for caller in callers:
    caller.setblocking(False)
    caller.connect_ex(door.getsockname())
print('127.0.0.1:%d' % door.getsockname()[1], flush=True)
import sys; sys.stdin.read()";
    let mut full = python(full, &[], None);
    let mut address = String::new();
    BufReader::new(full.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let evidence = with_docker(EVIDENCE, &["box"], std::process::id(), folder.path());
    let seen: Evidence = serde_json::from_str(&lines(evidence, 1)[0]).unwrap();
    drop(full.stdin.take());
    full.wait().unwrap();
    assert!(seen.connecting.contains(&address.trim().parse().unwrap()), "{seen:?}");
    assert!(seen.stacks.is_empty() && !seen.addresses.is_empty(), "{seen:?}");
    assert!(!seen.addresses.iter().any(std::net::Ipv4Addr::is_loopback), "{seen:?}");
}
