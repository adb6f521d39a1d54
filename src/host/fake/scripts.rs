//! What the scripts do on a machine in memory, and what they print.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::cluster::{FakeCluster, FakeLock, Giver, State, Taker, alive, lost};
use super::machine::{FakeContainer, content};
use super::{FakeHost, PACE, gather, kept, leftovers, links};
use crate::cluster::facts::ModelFile;
use crate::container::hex;
use crate::host::{HostError, Output, Running, Script};
use crate::profile::NodeName;

/// Whether a script changes its node.
pub(super) fn changes(name: &str) -> bool {
    let reads = [
        "gather",
        "read-logs",
        "read-bench",
        "ray-nodes",
        "native-ranks",
        "lock",
        "check-image",
        "evidence",
        "serve-weights",
        "take-kept",
        "read-secrets",
        "compare-secrets",
        "inventory",
        "image-software",
        "rank-environ",
    ];
    !reads.contains(&name) && !links::reads(name)
}

/// Runs a script that ends by itself.
pub(super) fn run(state: &mut State, node: &NodeName, script: &Script) -> Output {
    let argument = |at: usize| script.args.get(at).map_or("", String::as_str);
    let folder = (argument(0).to_owned(), argument(1).to_owned());
    match script.name {
        "gather" => {
            let noise = state.machine(node).user.greeting.clone().unwrap_or_default();
            Output { noise, ..good(gather::print(state, node, &script.args)) }
        }
        "write-release" => {
            let there = state.machine(node).releases.entry(folder).or_default();
            let changed = there.record.as_ref() != Some(&script.input);
            there.record = Some(script.input.clone());
            good(if changed { "changed\n" } else { "unchanged\n" })
        }
        "write-bench" => {
            let there = state.machine(node).releases.entry(folder).or_default();
            there.bench = Some(script.input.clone());
            good("changed\n")
        }
        "write-journal" => {
            let machine = state.machine(node);
            let now = Timestamp::now().saturating_add(machine.clock_ahead).unwrap_or_default();
            let time = format!("\"time\":\"{now:.0}\"");
            let lines = String::from_utf8_lossy(&script.input).replace("\"time\":null", &time);
            machine.journals.entry(argument(0).to_owned()).or_default().push_str(&lines);
            good("")
        }
        "read-bench" => {
            let bench = state.machine(node).releases.get(&folder).and_then(|there| there.bench.clone());
            good(bench.unwrap_or_default())
        }
        "save-log" => {
            let machine = state.machine(node);
            let Some(container) = machine.container(argument(3)) else {
                return bad("Error response from daemon: No such container");
            };
            let log = container.log.join("\n") + "\n";
            let log = kept::redacted(machine, argument(0), &log);
            let there = machine.releases.entry(folder).or_default();
            let rank = argument(2).parse().unwrap_or_default();
            there.logs.entry(rank).or_default().push_str(&log);
            good("")
        }
        "read-logs" => {
            let logs = state.machine(node).releases.get(&folder).map(|there| &there.logs);
            let text = logs.into_iter().flatten().map(|(rank, log)| format!("== rank {rank}\n{log}\n"));
            good(text.collect::<String>())
        }
        "ray-nodes" | "native-ranks" => match state.alive_ranks(node, argument(0)) {
            Some(alive) => {
                good(alive.iter().map(|address| format!("{address}\n")).collect::<Vec<_>>().concat())
            }
            None => bad("Error response from daemon: No such container"),
        },
        "image-software" => match state.machine(node).software.get(argument(0)) {
            Some(software) => good(serde_json::to_vec(software).expect("software is always JSON")),
            None => bad("the image has no Python"),
        },
        "rank-environ" => match state.machine(node).container(argument(0)) {
            Some(container) => good(environ(container, &script.args[1..])),
            None => bad("Error response from daemon: No such container"),
        },
        "check-image" => match state.machine(node).image(argument(0)) {
            Some(_) => good(""),
            None => bad("Error response from daemon: No such image"),
        },
        "evidence" => good(r#"{"addresses": [], "connecting": [], "stacks": ""}"#),
        "untag-image" => {
            let machine = state.machine(node);
            machine.untag(argument(0));
            machine.images.retain(|image| !image.references.is_empty());
            good("")
        }
        "drop-cache" => {
            let system = &mut state.machine(node).system;
            let before = system.memory_free.unwrap_or(0);
            let cached = system.memory_cached.replace(0).unwrap_or(0);
            system.memory_free = Some(before + cached);
            good(format!("files 41\nfree {} {}\n", before / 1024, (before + cached) / 1024))
        }
        "remove-files" => {
            let input = String::from_utf8_lossy(&script.input).into_owned();
            if let Some(there) = state.machine(node).folders.get_mut(argument(0)) {
                there.files.retain(|file| !input.split('\0').any(|path| path == file.path));
            }
            good("")
        }
        "fabric-reach" => links::reach(state, node, script),
        "fabric-send" => links::send(state, script),
        other => {
            let machine = state.machine(node);
            kept::run(machine, script)
                .or_else(|| leftovers::run(machine, script))
                .or_else(|| links::figures(machine, script))
                .unwrap_or_else(|| bad(&format!("the fake machine knows no script `{other}`")))
        }
    }
}

/// What the engine's process of a container has of these variables: what its container was given.
fn environ(container: &FakeContainer, names: &[String]) -> String {
    let given = container.spec.iter().flat_map(|spec| &spec.env);
    let mut env: BTreeMap<_, _> = given.chain(&container.strays).collect();
    env.retain(|name, _| names.contains(name));
    let process = serde_json::json!({ "pid": 7, "command": "VLLM::EngineCore", "env": env });
    format!("{process}\n")
}

pub(super) fn good(text: impl Into<Vec<u8>>) -> Output {
    Output { code: Some(0), stdout: text.into(), stderr: Vec::new(), noise: String::new() }
}

pub(super) fn bad(why: &str) -> Output {
    Output { code: Some(1), stderr: why.as_bytes().to_vec(), ..good("") }
}

/// Starts a script whose lines are wanted, and that ends when nobody wants them any more.
pub(super) fn start(host: &FakeHost, state: &mut State, script: Script) -> Running {
    let (lines, receiver) = mpsc::channel(64);
    let (cluster, node) = (host.cluster.clone(), host.node.clone());
    let end = match script.name {
        "lock" => lock(cluster, state, node, &script, lines),
        "serve-weights" => serve_weights(cluster, state, node, &script, lines),
        "receive-image" => receive_image(cluster, state, node, &script, lines),
        "build-image" => {
            let name = script.args[1].clone();
            let machine = state.machine(&node);
            let architecture = if machine.system.architecture == "x86_64" { "amd64" } else { "arm64" };
            machine.put_image(&content(&name), &name, architecture, 1_000_000_000);
            tokio::spawn(async move { Ok(good("")) })
        }
        "fabric-listen" => {
            links::listen(state, &node, &script, &lines);
            tokio::spawn(ending(cluster, node, lines, std::future::pending()))
        }
        "pull-weights" => tokio::spawn(ending(cluster.clone(), node.clone(), lines.clone(), async move {
            pull_weights(&cluster, &node, &script, &lines).await
        })),
        "send-image" => tokio::spawn(ending(cluster.clone(), node.clone(), lines.clone(), async move {
            let left_out = script.input.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
            let left_out = String::from_utf8_lossy(left_out).matches("blobs/sha256/").count();
            let output = send_image(&cluster, &node, &script).await?;
            let _ = lines.send(format!("left-out {left_out} 0")).await;
            Ok(output)
        })),
        other => {
            let why = format!("the fake machine cannot start a script `{other}`");
            tokio::spawn(async move { Ok(bad(&why)) })
        }
    };
    Running { lines: receiver, end }
}

/// What a container uses, again and again: CPU time, where its engine computes.
pub(super) fn look(host: &FakeHost, script: &Script) -> Running {
    let (lines, receiver) = mpsc::channel(64);
    let (cluster, node) = (host.cluster.clone(), host.node.clone());
    let container = script.args.first().cloned().unwrap_or_default();
    let pace = script.args.get(2).and_then(|pace| pace.parse().ok()).map_or(PACE, Duration::from_secs);
    let looks = async move {
        let mut cpu = 0.0;
        loop {
            cpu += cluster.state().cores(&node, &container) * pace.as_secs_f64();
            if lines.send(format!("{{\"cpu\": {cpu}}}")).await.is_err() {
                return good("");
            }
            tokio::time::sleep(pace).await;
        }
    };
    let (cluster, node) = (host.cluster.clone(), host.node.clone());
    let end = tokio::spawn(async move {
        tokio::select! {
            () = cluster.unreachable(&node) => Err(lost(&node, "run a script")),
            output = looks => Ok(output),
        }
    });
    Running { lines: receiver, end }
}

/// A script's end: by itself, because nobody listens any more, or with the connection.
async fn ending(
    cluster: FakeCluster,
    node: NodeName,
    lines: mpsc::Sender<String>,
    work: impl Future<Output = Result<Output, HostError>>,
) -> Result<Output, HostError> {
    tokio::select! {
        biased;
        () = cluster.unreachable(&node) => Err(lost(&node, "run a script")),
        () = lines.closed() => Ok(Output { code: Some(1), ..good("") }),
        output = work => output,
    }
}

type End = tokio::task::JoinHandle<Result<Output, HostError>>;

fn lock(
    cluster: FakeCluster,
    state: &mut State,
    node: NodeName,
    script: &Script,
    lines: mpsc::Sender<String>,
) -> End {
    let (holder, token) = (script.args[1].clone(), script.args[3].clone());
    if let Some(held) = state.locks.get(&node).filter(|held| alive(&held.line)) {
        let answer =
            if held.token == token { "inherited".to_owned() } else { format!("held {}", held.holder) };
        let _ = lines.try_send(answer);
        return tokio::spawn(async { Ok(good("")) });
    }
    let (end, ended) = oneshot::channel();
    state.locks.insert(node.clone(), FakeLock { holder, token, line: lines.downgrade(), _end: end });
    let _ = lines.try_send("locked".to_owned());
    tokio::spawn(ending(cluster, node, lines, async {
        let _ = ended.await;
        Ok(good(""))
    }))
}

fn serve_weights(
    cluster: FakeCluster,
    state: &mut State,
    node: NodeName,
    script: &Script,
    lines: mpsc::Sender<String>,
) -> End {
    let port = state.port();
    let giver = Giver {
        node: node.clone(),
        secret: secret(script),
        folder: script.args[0].clone(),
        admitted: script.args[2].clone(),
        lines: lines.downgrade(),
    };
    state.givers.insert((script.args[1].clone(), port), giver);
    let _ = lines.try_send(format!("port {port}"));
    tokio::spawn(ending(cluster, node, lines, std::future::pending()))
}

fn receive_image(
    cluster: FakeCluster,
    state: &mut State,
    node: NodeName,
    script: &Script,
    lines: mpsc::Sender<String>,
) -> End {
    let port = state.port();
    let (done, ended) = oneshot::channel();
    let taker = Taker {
        node: node.clone(),
        secret: secret(script),
        admitted: script.args[1].clone(),
        lines: lines.downgrade(),
        done,
    };
    state.takers.insert((script.args[0].clone(), port), taker);
    let _ = lines.try_send(format!("port {port}"));
    tokio::spawn(ending(cluster, node, lines, async {
        Ok(match ended.await {
            Ok(Ok(())) => good(""),
            Ok(Err(why)) => bad(&why),
            Err(_) => bad("the stream was cut after 0 bytes"),
        })
    }))
}

pub(super) fn secret(script: &Script) -> String {
    String::from_utf8_lossy(&script.input).lines().next().unwrap_or_default().to_owned()
}

/// Half of the files come, and then the other half, so that a fault may come between.
async fn pull_weights(
    cluster: &FakeCluster,
    node: &NodeName,
    script: &Script,
    lines: &mpsc::Sender<String>,
) -> Result<Output, HostError> {
    let [folder, _way, _streams, address, port, own, ..] = &script.args[..] else { return Ok(bad("usage")) };
    let input = String::from_utf8_lossy(&script.input).into_owned();
    let mut parts = input.splitn(3, '\n');
    let (secret, wish) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    let Ok(wish) = serde_json::from_str::<Value>(wish) else { return Ok(bad("usage")) };
    let files = wish["files"].as_array().into_iter().flatten();
    let paths: Vec<&str> = files.filter_map(|file| file["path"].as_str()).collect();
    let cut = |_: &str| HostError::Failed {
        node: node.clone(),
        what: "rsync".to_owned(),
        why: "the connection was reset".to_owned(),
    };
    let mut all = Came::default();
    for (what, some) in ["pull-weights: half", "pull-weights: whole"].into_iter().zip(halves(&paths)) {
        let pulled = cluster.effect(node, what.to_owned(), true, cut, |state| {
            let key = (address.clone(), port.parse().unwrap_or_default());
            let giver = state.givers.get(&key).filter(|giver| alive(&giver.lines));
            let Some(giver) = giver else { return Ok(Err(format!("cannot reach {address} from {own}"))) };
            if giver.secret != secret || &giver.admitted != own || !on_fabric(state, node, own) {
                return Ok(Err(format!("cannot reach {address} from {own}: it closed the connection")));
            }
            let (from, source) = (giver.node.clone(), giver.folder.clone());
            Ok(take_files(state, &from, &source, node, folder, some))
        });
        match pulled.await {
            Ok(Ok(came)) => {
                all.bytes += came.bytes;
                all.files += came.files;
                all.hashes.extend(came.hashes);
            }
            Ok(Err(why)) | Err(HostError::Failed { why, .. }) => return Ok(bad(&why)),
            Err(error) => return Err(error),
        }
        let _ = lines.send(format!("bytes {}", all.bytes)).await;
    }
    for (path, sha256) in all.hashes {
        let _ = lines.send(format!("hash {sha256} {path}")).await;
    }
    let _ = lines.send(format!("moved {} {}", all.bytes, all.files)).await;
    Ok(good(""))
}

fn halves<'a, 'b>(paths: &'b [&'a str]) -> [&'b [&'a str]; 2] {
    let (first, second) = paths.split_at(paths.len() / 2);
    [first, second]
}

fn on_fabric(state: &State, node: &NodeName, own: &str) -> bool {
    own.parse::<Ipv4Addr>().is_ok_and(|own| state.by_address(own).is_some_and(|(at, _)| at == node))
}

/// What came in one go.
#[derive(Default)]
struct Came {
    bytes: u64,
    files: u64,
    hashes: Vec<(String, String)>,
}

/// The content of a file in memory, by what is known of it.
fn content_of(file: &ModelFile) -> String {
    let state = format!("{} {} {}", file.path, file.size, file.mtime);
    file.sha256.clone().unwrap_or_else(|| hex(&Sha256::digest(state)))
}

/// Files come from a folder to a folder, unless they are there, and are hashed on both; or why not.
fn take_files(
    state: &mut State,
    from: &NodeName,
    source: &str,
    to: &NodeName,
    folder: &str,
    paths: &[&str],
) -> Result<Came, String> {
    let giving = state.machine(from).folders.entry(source.to_owned()).or_default();
    let mut files = Vec::new();
    for file in giving.files.iter_mut().filter(|file| paths.contains(&file.path.as_str())) {
        file.sha256 = Some(content_of(file));
        files.push(file.clone());
    }
    let machine = state.machine(to);
    let target = machine.folders.entry(folder.to_owned()).or_default();
    let mut came = Came::default();
    for file in files {
        let there = target.files.iter().find(|old| old.path == file.path);
        if !there.is_some_and(|old| old.size == file.size && Some(content_of(old)) == file.sha256) {
            if machine.model_disk.free < file.size {
                return Err("rsync: write failed: No space left on device (28)".to_owned());
            }
            machine.model_disk.free -= file.size;
            came.bytes += file.size;
            came.files += 1;
        }
        came.hashes.extend(file.sha256.clone().map(|sha256| (file.path.clone(), sha256)));
        target.files.retain(|old| old.path != file.path);
        target.files.push(file);
    }
    target.files.sort();
    Ok(came)
}

/// The stream to a node is cut, or the image is there: `docker load` loads a whole archive only.
async fn send_image(cluster: &FakeCluster, node: &NodeName, script: &Script) -> Result<Output, HostError> {
    let [image, own, to @ ..] = &script.args[..] else { return Ok(bad("usage")) };
    let input = String::from_utf8_lossy(&script.input).into_owned();
    let names: Vec<&str> = input.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    let (mut reached, mut why_not) = (false, String::new());
    for taker in to {
        let (address, port) = taker.split_once(':').unwrap_or_default();
        let key = (address.to_owned(), port.parse().unwrap_or_default());
        let Some(taker) = cluster.state().takers.remove(&key).filter(|taker| alive(&taker.lines)) else {
            why_not = format!("cannot reach {address} from {own}: connection refused");
            continue;
        };
        if taker.secret != secret(script) || &taker.admitted != own {
            why_not = format!("{address} closed the connection");
            continue;
        }
        match send_image_to(cluster, node, image, &names, taker).await? {
            None => reached = true,
            Some(why) if why.starts_with("docker save") => return Ok(bad(&why)),
            Some(why) => why_not = format!("the other side closed the connection ({why})"),
        }
    }
    Ok(if reached { good("") } else { bad(&why_not) })
}

/// One of the streams; why it failed, if it did.
async fn send_image_to(
    cluster: &FakeCluster,
    node: &NodeName,
    image: &str,
    names: &[&str],
    taker: Taker,
) -> Result<Option<String>, HostError> {
    let cut = |_: &str| HostError::Failed {
        node: node.clone(),
        what: "docker save".to_owned(),
        why: "docker save: a scripted fault".to_owned(),
    };
    let sent = cluster.effect(node, format!("send-image {image}: stream"), true, cut, |state| {
        let Some(there) = state.machine(node).image(image).cloned() else {
            return Ok(Err(format!("docker save: No such image: {image}")));
        };
        Ok(state.machine(&taker.node).load(&there, image, names))
    });
    match sent.await {
        Ok(Ok(bytes)) => {
            if let Some(lines) = taker.lines.upgrade() {
                let _ = lines.send(format!("bytes {bytes}")).await;
            }
            let _ = taker.done.send(Ok(()));
            Ok(None)
        }
        Ok(Err(why)) if why.starts_with("docker load") => {
            let _ = taker.done.send(Err(why));
            Ok(Some("it was not done".to_owned()))
        }
        Ok(Err(why)) | Err(HostError::Failed { why, .. }) => {
            let _ = taker.done.send(Err("the stream was cut after 0 bytes".to_owned()));
            Ok(Some(why))
        }
        Err(error) => Err(error),
    }
}
