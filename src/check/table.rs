//! The table of checks: every id that a finding can have, what is expected, and why it matters. Ids stay.

use std::fmt::Write;

use super::Severity;
use Severity::{Error as E, Note as N, Warning as W};

/// A check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// What its findings are called, for `--only` and `--skip`.
    pub id: &'static str,
    /// What it is about: `ssh`, `docker`, `fabric`.
    pub topic: &'static str,
    /// The worst that its findings are.
    pub worst: Severity,
    /// Whether nothing can be deployed where it fails, so that it cannot be skipped there.
    pub vital: bool,
    /// What should be so.
    pub expected: &'static str,
    /// What happens where it is not.
    pub why: &'static str,
}

/// The check of an id.
pub fn of(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}

/// One that `--skip` can pass over.
const fn check(
    topic: &'static str,
    id: &'static str,
    worst: Severity,
    expected: &'static str,
    why: &'static str,
) -> Check {
    Check { id, topic, worst, vital: false, expected, why }
}

/// One without which nothing can be deployed.
const fn vital(
    topic: &'static str,
    id: &'static str,
    worst: Severity,
    expected: &'static str,
    why: &'static str,
) -> Check {
    Check { id, topic, worst, vital: true, expected, why }
}

/// The table as a document: docs/checks.md.
pub fn document() -> String {
    let mut out = String::from(HEAD);
    let mut topic = "";
    for check in CHECKS {
        if check.topic != topic {
            topic = check.topic;
            let _ = writeln!(
                out,
                "\n## {topic}\n\n| id | worst | what is expected | why it matters |\n|---|---|---|---|"
            );
        }
        let vital = if check.vital { ", cannot be skipped" } else { "" };
        let _ =
            writeln!(out, "| `{}` | {}{vital} | {} | {} |", check.id, check.worst, check.expected, check.why);
    }
    out
}

const HEAD: &str = "\
# Checks

What `sparkctl check PROFILE` looks at, and every `deploy` before it changes anything. All nodes are asked at once.

- An **error** refuses a deploy; a **warning** may go badly; a **note** (shown by `-v`) works.
- `--only ID` and `--skip ID` take an id or a topic, and may be repeated. `deploy --skip ID` passes over a check, and the
  release's record names what was skipped. What cannot be skipped is what nothing can be deployed without.
- `--measure` also measures how fast bytes go over the fabric. `--output json` has every finding with what was seen (`message`),
  what was expected, what to do (`hint`) and why it matters, and the nodes side by side.
- Exit status: 0 without an error, 3 with one, 7 where all that is wrong is that a node cannot be reached or lets nobody in. The
  other nodes are examined all the same. That a node or its Docker cannot be asked is told whatever `--only` and `--skip` say, and
  what could not be examined is marked `·`, never as well.
- Where a fact cannot be had, nothing is claimed: without a GPU driver that is loaded, nothing is said about NVIDIA's toolkit.

This file is made from the table in `src/check/table.rs`, and a test holds them equal: `UPDATE_DOCS=1 cargo test --test check`.
";

/// All checks, by topic.
pub const CHECKS: &[Check] = &[
    vital(
        "ssh",
        "ssh-auth",
        E,
        "the node lets sparkctl in by a key, without a question",
        "sparkctl asks for no password, so nothing can be done on the node",
    ),
    vital(
        "ssh",
        "ssh-host-key",
        E,
        "the node's host key is the one that `known_hosts` has",
        "a key that changed is a machine that was installed anew, or another machine in between",
    ),
    vital(
        "ssh",
        "ssh-unreachable",
        E,
        "the node answers on its SSH port",
        "nothing can be done on a node that does not answer",
    ),
    vital(
        "ssh",
        "ssh-unasked",
        E,
        "the node answers all that it is asked",
        "what is not known of a node cannot be planned for",
    ),
    check(
        "ssh",
        "ssh-sessions",
        E,
        "sshd allows 8 sessions a connection (`MaxSessions`)",
        "transfers, logs and the lock share one connection, and sshd refuses one session too many in the middle of a deploy",
    ),
    check(
        "ssh",
        "ssh-startups",
        W,
        "sshd takes at least 3 connections under way at once (`MaxStartups`)",
        "sshd drops logins at random, and a deploy that lost its connection cannot come back to mend things",
    ),
    check(
        "ssh",
        "ssh-forwarding",
        E,
        "sshd forwards to Docker's socket and to the endpoint's port",
        "without it Docker cannot be reached, or the first completion can never be asked for",
    ),
    check(
        "ssh",
        "ssh-shell",
        N,
        "the login shell is a Bourne shell",
        "sparkctl starts `sh` itself and does not mind; commands that are typed from a hint may read otherwise in another shell",
    ),
    check(
        "ssh",
        "ssh-noise",
        N,
        "a login without a terminal prints nothing",
        "sparkctl skips such lines; rsync, scp and scripts of others stumble over them",
    ),
    vital("docker", "docker-absent", E, "Docker Engine is installed", "every engine runs in a container"),
    vital("docker", "docker-stopped", E, "Docker Engine runs", "every engine runs in a container"),
    vital(
        "docker",
        "docker-forbidden",
        E,
        "the user may use Docker's socket",
        "containers are made and watched through it",
    ),
    vital(
        "docker",
        "docker-failing",
        E,
        "Docker Engine answers",
        "what runs on the node is not known otherwise",
    ),
    check(
        "docker",
        "docker-rootless",
        W,
        "Docker runs as root",
        "without root a container gets neither the fabric's devices nor unlimited locked memory, so RDMA fails at the start",
    ),
    check(
        "docker",
        "docker-cdi",
        E,
        "Docker and NVIDIA's toolkit agree on how a container gets a GPU",
        "the container does not start, or starts without a GPU",
    ),
    check(
        "docker",
        "docker-cgroup",
        N,
        "a `systemctl daemon-reload` does not take the GPU from running containers",
        "with systemd's cgroups and the toolkit's legacy way a daemon-reload, as a package update does, ends CUDA in a container that serves",
    ),
    check(
        "docker",
        "docker-cgroup-version",
        N,
        "cgroup version 2",
        "limits of memory are counted otherwise in version 1, and newer engines drop it",
    ),
    check(
        "docker",
        "disk-image",
        E,
        "Docker's data root has room for the image to come",
        "a load that fills the disk stops every container of the node",
    ),
    check(
        "docker",
        "disk-low",
        W,
        "Docker's data root has 5 GB left",
        "logs and the engine's compiled kernels fill it, and then Docker stops answering",
    ),
    check("host", "architecture", E, "all nodes are of one architecture", "one image cannot run on both"),
    vital(
        "host",
        "same-machine",
        E,
        "each node is a machine of its own",
        "two ranks would fight for one GPU",
    ),
    check(
        "host",
        "tool-absent",
        E,
        "the tools that move weights and images are installed",
        "a copy between nodes fails after the plan was begun",
    ),
    check(
        "host",
        "tool-old",
        E,
        "rsync is 3.1 and Python 3.7 at least",
        "older ones do not know what the copy asks of them",
    ),
    check(
        "host",
        "clock-skew",
        W,
        "the nodes' clocks agree to 2 s",
        "logs of ranks cannot be put in order, and what is compared by time, tokens among it, is refused",
    ),
    check(
        "host",
        "clock-unsynchronised",
        N,
        "the clock is kept by a time server",
        "clocks drift apart until something compares them",
    ),
    check(
        "host",
        "kernel-cma",
        W,
        "the kernel counts its contiguous memory rightly (`CmaFree` is not above `CmaTotal`)",
        "a kernel with this fault cannot register memory for RDMA: NCCL ends with ENOMEM at its first connection",
    ),
    check(
        "host",
        "earlyoom",
        W,
        "no earlyoom watches the memory",
        "on unified memory the weights look like a leak, and earlyoom kills the engine while it loads",
    ),
    check(
        "host",
        "swap-used",
        W,
        "swap is not in use",
        "on unified memory a node that swaps stands still for minutes, and the other ranks give up on it",
    ),
    check(
        "host",
        "memlock",
        W,
        "memory may be locked where Docker runs without root",
        "RDMA locks the memory that it sends from",
    ),
    check(
        "host",
        "reboot-required",
        N,
        "no update waits for a reboot",
        "the next reboot brings another kernel or driver, at a time that nobody chose",
    ),
    check(
        "host",
        "leftovers",
        N,
        "nothing is left of earlier runs",
        "it takes space, and is cleared by the next deploy",
    ),
    check(
        "host",
        "unanswered",
        W,
        "every question to the node is answered in time",
        "a command that hangs is the first sign of a driver or a disk that fails",
    ),
    check(
        "host",
        "release-unreadable",
        W,
        "records of releases can be read",
        "a rollback cannot go to a release whose record is not understood",
    ),
    check(
        "host",
        "release-newer",
        N,
        "no record of a release is of a newer sparkctl",
        "such a record is read as far as it is known here and never written over, so an outcome may be missing in it",
    ),
    check("gpu", "gpu-absent", E, "`nvidia-smi` reports a GPU", "the engine needs one"),
    check(
        "gpu",
        "gpu-driver",
        E,
        "driver, its library and `nvidia-smi` work together",
        "no container gets the GPU until they do",
    ),
    check(
        "gpu",
        "gpu-count",
        E,
        "there are as many GPUs as the model is spread over",
        "ranks without a GPU end at the start",
    ),
    check(
        "gpu",
        "gpu-taken",
        E,
        "nobody else holds the GPU",
        "two engines do not fit in one memory: the second ends while it loads, or takes the first one with it",
    ),
    check(
        "gpu",
        "gpu-claimed",
        W,
        "no stopped container comes back for the GPU",
        "after the next reboot two engines fight for one memory",
    ),
    check(
        "gpu",
        "gpu-slow",
        W,
        "the GPU's clocks are not held down",
        "a GPU with a cap or too little power answers at a fraction of its speed, and a group is as slow as its slowest node",
    ),
    check(
        "gpu",
        "gpu-capped",
        N,
        "no limit of the GPU's clocks or power is set",
        "a cap that was set against heat or power cuts costs speed by as much; what a cap allows shows only under load, so an idle GPU is judged by what sets it",
    ),
    check(
        "gpu",
        "gpu-lost",
        W,
        "the containers that run can still open the GPU",
        "a `systemctl daemon-reload`, as a package update does, can take the GPU from a running container: it serves until it next opens a device",
    ),
    check(
        "gpu",
        "gpu-persistence",
        N,
        "the driver stays loaded (persistence mode)",
        "loading it again adds seconds to each start",
    ),
    check(
        "gpu",
        "toolkit-absent",
        E,
        "NVIDIA's container toolkit is installed",
        "Docker cannot give a container the GPU without it",
    ),
    vital(
        "model",
        "model-absent",
        E,
        "the model's folder is there and is a model",
        "there is nothing to serve",
    ),
    check(
        "model",
        "model-unreadable",
        E,
        "every file of the model can be read",
        "what cannot be read can neither be compared nor copied nor served",
    ),
    check(
        "model",
        "model-shards",
        E,
        "every shard that the index names is there",
        "the engine ends minutes into loading",
    ),
    check(
        "model",
        "model-truncated",
        E,
        "every file of weights is as long as its header says",
        "the engine ends minutes into loading, or loads noise",
    ),
    check(
        "model",
        "model-damaged",
        E,
        "the headers and `config.json` make sense",
        "the engine ends while it reads them",
    ),
    check(
        "model",
        "model-incomplete",
        W,
        "no download was left unfinished",
        "the folder may miss what was still to come",
    ),
    check(
        "model",
        "model-revision",
        E,
        "the files are of the model and the revision that `model.source` names",
        "another revision may answer otherwise, or need another version of the engine, and nothing else would tell",
    ),
    check(
        "model",
        "model-owner",
        E,
        "the user may write where weights are to be copied to",
        "rsync fails in the middle of the stage, or leaves files that the user cannot replace",
    ),
    check(
        "model",
        "model-tokenizer",
        W,
        "the model has a tokenizer",
        "the engine ends at the start, or fetches one from the Internet",
    ),
    check(
        "model",
        "model-differs",
        W,
        "nodes that have the model have the same model",
        "the head's is copied over the other, which may be one that somebody still needs",
    ),
    check(
        "model",
        "disk-model",
        E,
        "there is room for the weights to come",
        "a copy that fills the disk stops more than the copy",
    ),
    check(
        "model",
        "weights-changed",
        E,
        "the model is the one that the release was served from",
        "a rollback to other weights is another release",
    ),
    check(
        "model",
        "memory-fit",
        E,
        "the model fits the memory of each node",
        "the engine ends after minutes of loading, or freezes a node of unified memory",
    ),
    check(
        "model",
        "memory-free",
        W,
        "as much memory is free as the engine may take",
        "vLLM refuses to start where less is free",
    ),
    check(
        "model",
        "heads-divide",
        E,
        "the model's heads can be cut as the profile asks",
        "the engine ends at the start",
    ),
    check(
        "model",
        "context-model",
        E,
        "the context is no longer than the model is made for",
        "the engine ends at the start, or answers noise beyond it where it was told to go on",
    ),
    vital("image", "image-absent", E, "the image is on a node", "there is nothing to start"),
    check(
        "image",
        "image-architecture",
        E,
        "the image is of the nodes' architecture",
        "it does not start: exec format error",
    ),
    check(
        "image",
        "image-env",
        W,
        "the image sets no variable that steers engine or network",
        "it holds wherever sparkctl sets none, on every node alike, so a name that is right on one machine breaks another",
    ),
    check(
        "image",
        "image-cuda",
        W,
        "the driver can do the image's CUDA",
        "CUDA ends with `driver version is insufficient` at the start",
    ),
    check(
        "engine",
        "engine-absent",
        W,
        "the image has the engine that `engine.kind` names",
        "there is no such command in it, and the container ends at once",
    ),
    check(
        "engine",
        "engine-ray",
        E,
        "the image has Ray where the group is launched on it",
        "vLLM's wheels and NVIDIA's images have none, and the ranks cannot find one another",
    ),
    check(
        "engine",
        "engine-version",
        E,
        "the engine's version has the launch, and is one that sparkctl was held against",
        "a launch or a flag that a version has not ends it at the start, after the release before was stopped",
    ),
    check(
        "engine",
        "engine-flag",
        E,
        "the engine's version has every flag of `engine.args`",
        "engines end at a flag that they do not know",
    ),
    check(
        "engine",
        "engine-word",
        W,
        "the engine's version knows the parsers, the quantisation and the cache's type",
        "it ends at a word that it does not know, unless a plugin brings it",
    ),
    check(
        "engine",
        "engine-parallel",
        E,
        "the model can be spread as the profile says",
        "engines refuse stages without layers, and experts to be spread where there are none",
    ),
    vital(
        "fabric",
        "fabric-address",
        E,
        "each node has its fabric address",
        "the ranks cannot find one another",
    ),
    check(
        "fabric",
        "fabric-subnet",
        E,
        "all fabric addresses are in one network",
        "packets would take another way, or none",
    ),
    check("fabric", "fabric-down", E, "each fabric interface is up", "the ranks cannot reach one another"),
    check(
        "fabric",
        "fabric-unreachable",
        E,
        "each node reaches each other over the fabric",
        "the group hangs until it runs into a timeout",
    ),
    check(
        "fabric",
        "fabric-route",
        E,
        "packets leave by the fabric's interface",
        "the group runs over the slow network, or hangs",
    ),
    check(
        "fabric",
        "fabric-mtu",
        W,
        "all fabric interfaces have one MTU",
        "the larger packets are lost or cut, and connections hang as soon as much is sent",
    ),
    check(
        "fabric",
        "fabric-mtu-path",
        E,
        "a packet as large as the MTU arrives in one piece",
        "connections come about and then hang as soon as much is sent",
    ),
    check(
        "fabric",
        "fabric-speed",
        W,
        "both ends of the fabric run at one speed",
        "the slower end is the speed of the group",
    ),
    check(
        "fabric",
        "fabric-slow",
        E,
        "bytes arrive at the link's speed (`--measure`)",
        "each token waits for the fabric several times",
    ),
    check(
        "fabric",
        "fabric-slower",
        W,
        "bytes arrive as fast as they did before (`--measure`)",
        "a link that became slow is a fault that is growing",
    ),
    check(
        "fabric",
        "fabric-unprobed",
        W,
        "the ways between the nodes could be probed",
        "what was not tried is not known to work",
    ),
    check(
        "fabric",
        "fabric-figures",
        W,
        "measured speeds can be kept on the nodes",
        "a link that became slow is not noticed",
    ),
    check(
        "fabric",
        "rails",
        W,
        "both halves of a port are used",
        "one half carries half of the port's speed",
    ),
    check(
        "fabric",
        "rdma-inactive",
        E,
        "the RoCE device of the fabric is active",
        "NCCL falls back to TCP, or fails, as its settings say",
    ),
    check(
        "fabric",
        "gid-absent",
        E,
        "the RoCE device has a GID of the fabric's address",
        "NCCL finds no way for RDMA and ends",
    ),
    check(
        "ports",
        "port-taken",
        E,
        "the ports of the engine are free",
        "the engine cannot listen and ends after loading",
    ),
    vital("ports", "name-taken", E, "the containers' names are free", "the container cannot be made"),
    check(
        "parity",
        "parity-driver",
        W,
        "all nodes have one GPU driver",
        "ranks that differ in driver fail in NCCL or differ in speed",
    ),
    check(
        "parity",
        "parity-gpu",
        W,
        "all nodes have the same GPUs",
        "the slowest and the smallest holds for the group",
    ),
    check(
        "parity",
        "parity-kernel",
        N,
        "all nodes run one kernel",
        "faults of one kernel look like faults of one node",
    ),
    check(
        "parity",
        "parity-docker",
        N,
        "all nodes have one version of Docker and of NVIDIA's toolkit",
        "faults of one version look like faults of one node",
    ),
    check(
        "parity",
        "parity-firmware",
        W,
        "machines, GPUs and fabric cards have one firmware",
        "firmware sets limits of power and links: the node with the other one may be slow, or lose its link, and nothing else tells why",
    ),
    check("parity", "parity-memory", W, "all nodes have the same memory", "the smallest holds for the group"),
    vital(
        "release",
        "cluster-changed",
        E,
        "the release that runs is of these nodes",
        "it would be left running on a node that nobody looks at any more",
    ),
    vital(
        "release",
        "release-absent",
        E,
        "there is a release to go back to",
        "there is nothing to go back to",
    ),
    vital(
        "release",
        "release-failed",
        E,
        "the release to go back to has served",
        "what never served would not serve now",
    ),
    vital(
        "release",
        "file-absent",
        E,
        "the files of the release are on a node",
        "it would not be the same release",
    ),
    vital(
        "release",
        "secrets-absent",
        E,
        "the secrets of the release are on a node",
        "the engine would start without them",
    ),
    check(
        "release",
        "secrets-not-compared",
        W,
        "it is known whether the secrets changed",
        "a plan against recorded facts takes them as unchanged",
    ),
];
