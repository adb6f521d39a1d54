//! How a group of several nodes comes together, whatever the engine: on Ray, or by the engine's own launch.
//!
//! Either way a script of ours stands before the engine in each container. The head's waits until every node is
//! there at its fabric address, and says so in its log; the workers' wait for the head. So no order of starting
//! is needed, also when the nodes boot, and a node that is missing is named. `ray symmetric-run` cannot be used:
//! it refuses `--node-ip-address`.

use super::{MASTER_PORT, Member, RAY_PORT};

/// Runs in the head's container: `ADDRESS,ADDRESS VARIABLE,VARIABLE -- ray start ... -- vllm serve ...`.
const RAY_HEAD: &str = include_str!("ray_head.py");
/// Runs in a worker's container: `HEAD_ADDRESS PORT -- ray start ...`.
const RAY_WORKER: &str = include_str!("ray_worker.py");
/// Runs in every rank's container: `ADDRESS,ADDRESS RANK PORT FILE -- ENGINE_COMMAND`.
const NATIVE: &str = include_str!("native.py");

/// The port where the scripts of a native launch meet on the head's fabric address.
pub const GATHER_PORT: u16 = 29_499;

/// Where the head's container of a native launch has the addresses of the ranks that are there.
pub const RANKS_FILE: &str = "/tmp/sparkctl-ranks";

/// Bytes of Ray's object store: vLLM hardly uses it, and by default Ray takes 30 % of the memory.
const OBJECT_STORE_BYTES: u64 = 512 * 1024 * 1024;

/// A rank on Ray; `own` are the variables whose values are each node's own. The head's script becomes `engine`: so the engine's log is the container's log, and its end the
/// container's end. The workers are Ray nodes, and Ray starts the engine's processes there.
pub(super) fn ray(engine: Vec<String>, members: &[Member], rank: usize, own: &[&str]) -> Vec<String> {
    let head = members[0].address;
    if rank == 0 {
        let mut argv = python(RAY_HEAD);
        argv.extend([addresses(members), own.join(","), "--".to_owned()]);
        argv.extend(["ray", "start", "--head"].map(str::to_owned));
        argv.push(format!("--port={RAY_PORT}"));
        argv.extend(["--include-dashboard=false", "--disable-usage-stats"].map(str::to_owned));
        argv.extend(ray_node(&members[0]));
        argv.push("--".to_owned());
        argv.extend(engine);
        argv
    } else {
        let mut argv = python(RAY_WORKER);
        argv.extend([head.to_string(), RAY_PORT.to_string(), "--".to_owned()]);
        argv.extend(["ray", "start"].map(str::to_owned));
        argv.push(format!("--address={head}:{RAY_PORT}"));
        argv.push("--block".to_owned());
        argv.extend(ray_node(&members[rank]));
        argv
    }
}

/// The flags that every `ray start` takes. One GPU a node is a count that Ray places ranks by.
fn ray_node(member: &Member) -> [String; 3] {
    [
        format!("--node-ip-address={}", member.address),
        "--num-gpus=1".to_owned(),
        format!("--object-store-memory={OBJECT_STORE_BYTES}"),
    ]
}

/// A rank by the engine's own launch. The script stays: it ends its engine when another rank ends. Engines alone do
/// not: an idle head does not notice that a worker died, and a worker may wait for a lost head for ever.
pub(super) fn native(engine: Vec<String>, members: &[Member], rank: usize) -> Vec<String> {
    let mut argv = python(NATIVE);
    argv.extend([addresses(members), rank.to_string(), GATHER_PORT.to_string()]);
    argv.extend([RANKS_FILE, "--"].map(str::to_owned));
    argv.extend(engine);
    argv
}

/// Where the ranks of a native launch meet.
pub(super) fn master(members: &[Member]) -> String {
    format!("{}:{MASTER_PORT}", members[0].address)
}

fn addresses(members: &[Member]) -> String {
    let all: Vec<_> = members.iter().map(|member| member.address.to_string()).collect();
    all.join(",")
}

fn python(script: &str) -> Vec<String> {
    ["python3", "-u", "-c", script].map(str::to_owned).to_vec()
}
