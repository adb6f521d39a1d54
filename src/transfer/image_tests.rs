use super::*;
use crate::host::{LocalHost, Output};

/// Puts a folder with a stand-in for `docker` before the node's own.
macro_rules! with_docker {
    ($file:literal) => {
        concat!("PATH=\"$1:$PATH\"; export PATH; shift\n", python!($file))
    };
}

/// A stand-in for `docker`, in a folder of its own.
fn stand_in(docker: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("docker");
    std::fs::write(&program, format!("#!/bin/sh\ncd {}\n{docker}", folder.path().display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

const LOCAL: &str = "127.0.0.1";

/// The taking end on this machine, which needs Python for it, with a stand-in for `docker`; and its port.
async fn taking_end(docker: &tempfile::TempDir, secret: &str) -> (Running, String) {
    let host = LocalHost::new("here".parse().unwrap());
    let place = docker.path().to_str().unwrap();
    let arguments = [place, LOCAL, LOCAL, "image:1"];
    let receive = Script::new("receive-image", with_docker!("receive-image.py"), arguments);
    listen(&host, receive.input(format!("{secret}\n")), "receiving").await.unwrap()
}

/// The giving end likewise, to these ports, without the members of these names.
async fn giving_end(docker: &tempfile::TempDir, ports: &[&String], names: &str, secret: &str) -> Running {
    let host = LocalHost::new("here".parse().unwrap());
    let place = docker.path().to_str().unwrap();
    let arguments = [place, "image:1", LOCAL].map(str::to_owned);
    let arguments = arguments.into_iter().chain(ports.iter().map(|port| format!("{LOCAL}:{port}")));
    let send = Script::new("send-image", with_docker!("send-image.py"), arguments);
    host.start(send.input(format!("{secret}\n{names}\n"))).await.unwrap()
}

/// Both ends. Gives how they ended, and the bytes that `docker load` got if it came to their end.
async fn both_ends(docker: &str, secrets: (&str, &str)) -> (Output, Output, Option<Vec<u8>>) {
    let folder = stand_in(docker);
    let (load, port) = taking_end(&folder, secrets.0).await;
    let save = giving_end(&folder, &[&port], "", secrets.1).await;
    let sent = save.end.await.unwrap().unwrap();
    if secrets.0 != secrets.1 {
        drop(load.lines);
    }
    let ended = load.end.await.unwrap().unwrap();
    (sent, ended, std::fs::read(folder.path().join("loaded")).ok())
}

/// What `docker load` stands for: the whole of its input, or nothing.
const LOAD: &str = "load) cat > part && mv part loaded && echo 'Loaded image: image:1';;";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn an_image_arrives_whole() {
    let docker = format!("case $1 in save) [ \"$2\" = image:1 ] && head -c 5000000 /dev/zero;; {LOAD} esac");
    let (sent, received, loaded) = both_ends(&docker, ("s", "s")).await;
    assert_eq!((sent.code, received.code), (Some(0), Some(0)), "{} {}", stderr(&sent), stderr(&received));
    assert_eq!(loaded.unwrap().len(), 5_000_000);
}

#[tokio::test]
async fn a_save_that_fails_never_becomes_an_image() {
    let docker =
        format!("case $1 in save) head -c 5000000 /dev/zero; echo 'no such layer' >&2; exit 1;; {LOAD} esac");
    let (sent, received, loaded) = both_ends(&docker, ("s", "s")).await;
    assert_eq!((sent.code, received.code), (Some(1), Some(1)));
    assert_eq!(stderr(&sent), "docker save: no such layer\n");
    assert!(stderr(&received).starts_with("the stream was cut after "), "{}", stderr(&received));
    assert_eq!(loaded, None);
}

#[tokio::test]
async fn a_load_that_fails_is_told_in_its_own_words() {
    let docker = "case $1 in save) head -c 50000000 /dev/zero;; load) head -c 10 >/dev/null; echo 'no space left on device' >&2; exit 1;; esac";
    let (sent, received, _) = both_ends(docker, ("s", "s")).await;
    assert_eq!(stderr(&received), "docker load: no space left on device\n");
    assert!(stderr(&sent).starts_with("the other side closed the connection"), "{}", stderr(&sent));
}

#[tokio::test]
async fn who_does_not_know_the_secret_gives_nothing() {
    let docker = format!("case $1 in save) echo x;; {LOAD} esac");
    let (sent, received, loaded) = both_ends(&docker, ("right", "wrong")).await;
    assert_ne!(sent.code, Some(0));
    assert_eq!(stderr(&received), "stopped: the connection to sparkctl is gone\n");
    assert_eq!(loaded, None);
}

/// Makes `archive.tar` beside the stand-in: two layers and a manifest that names both.
fn archive(folder: &tempfile::TempDir, with: &[&str]) {
    let place = folder.path();
    std::fs::create_dir_all(place.join("blobs/sha256")).unwrap();
    std::fs::write(place.join("blobs/sha256/a"), vec![b'a'; 3_000_000]).unwrap();
    std::fs::write(place.join("blobs/sha256/b"), vec![b'b'; 40_000]).unwrap();
    let manifest = r#"[{"Config": "c", "Layers": ["blobs/sha256/a", "blobs/sha256/b"]}]"#;
    std::fs::write(place.join("manifest.json"), manifest).unwrap();
    let mut tar = std::process::Command::new("tar");
    let made = tar.current_dir(place).args(["-cf", "archive.tar"]).args(with).status();
    assert!(made.unwrap().success());
}

/// The names of what a node took.
fn taken(folder: &tempfile::TempDir) -> String {
    let listed = std::process::Command::new("tar").arg("-tf").arg(folder.path().join("loaded")).output();
    String::from_utf8(listed.unwrap().stdout).unwrap()
}

const MEMBERS: [&str; 3] = ["blobs/sha256/a", "blobs/sha256/b", "manifest.json"];

#[tokio::test]
async fn what_is_to_be_left_out_does_not_travel_and_the_rest_arrives_whole() {
    let folder = stand_in(&format!("case $1 in save) cat archive.tar;; {LOAD} esac"));
    archive(&folder, &MEMBERS);
    let (load, port) = taking_end(&folder, "s").await;
    let mut save = giving_end(&folder, &[&port], "not-there blobs/sha256/a", "s").await;
    let told = save.lines.recv().await.unwrap();
    assert_eq!(told, "left-out 1 3000832", "a header of 512 bytes, and the layer in blocks of 512");
    assert_eq!(ended_well(save).await, (Some(0), String::new()));
    assert_eq!(ended_well(load).await, (Some(0), String::new()));
    assert_eq!(taken(&folder), "blobs/sha256/b\nmanifest.json\n");
    assert!(std::fs::metadata(folder.path().join("loaded")).unwrap().len() < 60_000);
}

async fn ended_well(running: Running) -> (Option<i32>, String) {
    let output = running.end.await.unwrap().unwrap();
    (output.code, stderr(&output))
}

#[tokio::test]
async fn of_several_nodes_one_that_dies_keeps_no_other_from_its_image() {
    let good = stand_in(&format!("case $1 in save) cat archive.tar;; {LOAD} esac"));
    archive(&good, &MEMBERS);
    let bad = stand_in(
        "case $1 in load) head -c 10 > /dev/null; echo 'no space left on device' >&2; exit 1;; esac",
    );
    let (dies, first) = taking_end(&bad, "s").await;
    let (lives, second) = taking_end(&good, "s").await;
    let save = giving_end(&good, &[&first, &second], "", "s").await;
    let (sent, dead) = (ended_well(save).await, ended_well(dies).await);
    assert_eq!(sent, (Some(0), String::new()));
    assert_eq!(dead, (Some(1), "docker load: no space left on device\n".to_owned()));
    assert_eq!(ended_well(lives).await.0, Some(0));
    assert_eq!(taken(&good), "blobs/sha256/a\nblobs/sha256/b\nmanifest.json\n");
}

#[tokio::test]
async fn an_image_that_lacks_layers_where_it_comes_from_is_no_image() {
    let folder = stand_in(&format!("case $1 in save) cat archive.tar;; {LOAD} esac"));
    archive(&folder, &MEMBERS[1..]);
    let (load, port) = taking_end(&folder, "s").await;
    let save = giving_end(&folder, &[&port], "", "s").await;
    let (code, words) = ended_well(save).await;
    assert_eq!(code, Some(1));
    assert!(words.contains("1 of its layers are missing"), "{words}");
    assert_eq!(ended_well(load).await.0, Some(1));
    assert!(!folder.path().join("loaded").exists());
}

/// The containerd store gives the name away although it could not unpack what came.
#[tokio::test]
async fn a_name_that_a_failed_load_moved_is_put_back_although_nobody_listens_any_more() {
    let folder = stand_in(
        "case $1 in save) cat archive.tar; sleep 60;;
load) echo bad > holder; sleep 60;;
image) cat holder;;
rmi) rm holder;;
tag) echo $2 > holder;;
esac",
    );
    archive(&folder, &MEMBERS);
    std::fs::write(folder.path().join("holder"), "good\n").unwrap();
    let (load, port) = taking_end(&folder, "s").await;
    let save = giving_end(&folder, &[&port], "", "s").await;
    let holder = || std::fs::read_to_string(folder.path().join("holder")).unwrap_or_default();
    while holder() != "bad\n" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Sparkctl is killed: all that the scripts see of it is the end of their input.
    drop(load.lines);
    drop(save.lines);
    let _ = tokio::join!(load.end, save.end);
    assert_eq!(holder(), "good\n");
}
