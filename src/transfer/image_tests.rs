use super::*;
use crate::host::{LocalHost, Output};

#[test]
fn names() {
    assert!(same_name("docker.io/library/a:1", "a:1"));
    assert!(same_name("docker.io/owner/a", "owner/a:latest"));
    assert!(!same_name("a:1", "a:2"));
    assert!(!same_name("localhost:5000/a", "a"));
}

/// Puts a folder with a stand-in for `docker` before the node's own.
macro_rules! with_docker {
    ($file:literal) => {
        concat!("PATH=\"$1:$PATH\"; export PATH; shift\n", python!($file))
    };
}

/// Both ends on this machine, with a stand-in for `docker`; `None` where Python is absent. Gives
/// how they ended, and the bytes that `docker load` got if it came to their end.
async fn both_ends(docker: &str, secrets: (&str, &str)) -> Option<(Output, Output, Option<Vec<u8>>)> {
    use std::os::unix::fs::PermissionsExt;
    which::which("python3").ok()?;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("docker");
    std::fs::write(&program, format!("#!/bin/sh\ncd {}\n{docker}", folder.path().display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = folder.path().to_str().unwrap();
    let host = LocalHost::new("here".parse().unwrap());
    let local = "127.0.0.1";
    let receive = Script::new("receive-image", with_docker!("receive-image.py"), [place, local, local]);
    let receive = receive.input(format!("{}\n", secrets.0));
    let (load, port) = listen(&host, receive, "receiving").await.unwrap();
    let script =
        Script::new("send-image", with_docker!("send-image.py"), [place, "image:1", local, local, &port]);
    let save = host.start(script.input(format!("{}\n", secrets.1))).await.unwrap();
    let sent = save.end.await.unwrap().unwrap();
    if secrets.0 != secrets.1 {
        drop(load.lines);
    }
    let ended = load.end.await.unwrap().unwrap();
    Some((sent, ended, std::fs::read(folder.path().join("loaded")).ok()))
}

/// What `docker load` stands for: the whole of its input, or nothing.
const LOAD: &str = "load) cat > part && mv part loaded && echo 'Loaded image: image:1';;";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn an_image_arrives_whole() {
    let docker = format!("case $1 in save) [ \"$2\" = image:1 ] && head -c 5000000 /dev/zero;; {LOAD} esac");
    let Some((sent, received, loaded)) = both_ends(&docker, ("s", "s")).await else { return };
    assert_eq!((sent.code, received.code), (Some(0), Some(0)), "{} {}", stderr(&sent), stderr(&received));
    assert_eq!(loaded.unwrap().len(), 5_000_000);
}

#[tokio::test]
async fn a_save_that_fails_never_becomes_an_image() {
    let docker =
        format!("case $1 in save) head -c 5000000 /dev/zero; echo 'no such layer' >&2; exit 1;; {LOAD} esac");
    let Some((sent, received, loaded)) = both_ends(&docker, ("s", "s")).await else { return };
    assert_eq!((sent.code, received.code), (Some(1), Some(1)));
    assert_eq!(stderr(&sent), "docker save: no such layer\n");
    assert!(stderr(&received).starts_with("the stream was cut after "), "{}", stderr(&received));
    assert_eq!(loaded, None);
}

#[tokio::test]
async fn a_load_that_fails_is_told_in_its_own_words() {
    let docker = "case $1 in save) head -c 50000000 /dev/zero;; load) head -c 10 >/dev/null; echo 'no space left on device' >&2; exit 1;; esac";
    let Some((sent, received, _)) = both_ends(docker, ("s", "s")).await else { return };
    assert_eq!(stderr(&received), "docker load: no space left on device\n");
    assert!(stderr(&sent).starts_with("the other side closed the connection"), "{}", stderr(&sent));
}

#[tokio::test]
async fn who_does_not_know_the_secret_gives_nothing() {
    let docker = format!("case $1 in save) echo x;; {LOAD} esac");
    let Some((sent, received, loaded)) = both_ends(&docker, ("right", "wrong")).await else { return };
    assert_ne!(sent.code, Some(0));
    assert_eq!(stderr(&received), "stopped: the connection to sparkctl is gone\n");
    assert_eq!(loaded, None);
}
