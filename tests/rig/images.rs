//! The image on its way between two image stores, alone; and what nothing needs any more.

use std::time::Duration;

use serde_json::Value;

use crate::harness::{Operator, Rig, answers_rightly, eventually};

/// An image upon the stub engine's with some megabytes of its own, made on a node.
fn build(rig: &Rig, node: &str, tag: &str, megabytes: u32) {
    let steps = format!(
        "FROM sparkctl-rig/stub-engine:1\\nRUN head -c {megabytes}000000 /dev/urandom > /own-bytes\\n"
    );
    let build = "DOCKER_BUILDKIT=0 docker build -q --no-cache";
    rig.on(node, &format!("printf '{steps}' | {build} -t {tag} -"));
}

/// Pushes; the bytes that were moved.
fn push(operator: &Operator) -> u64 {
    let said = operator.run(&["--output", "json", "push", &operator.file()]).ended(0);
    let last: Value = serde_json::from_str(said.stdout.lines().last().unwrap_or_default()).expect("JSON");
    assert_eq!(last["outcome"]["outcome"], "pushed", "{last}");
    last["outcome"]["bytes"].as_u64().expect("bytes")
}

/// The bytes of a whole archive that a node makes of an image.
fn archive(rig: &Rig, node: &str, tag: &str) -> u64 {
    rig.on(node, &format!("docker save {tag} | wc -c")).parse().expect("a number")
}

fn own_bytes(rig: &Rig, node: &str, image: &str) -> String {
    rig.on(node, &format!("docker run --rm --network none --entrypoint sha256sum {image} /own-bytes"))
}

fn kept(rig: &Rig, node: &str) -> Vec<String> {
    let listed = rig.on(node, "docker images -q --no-trunc sparkctl/kept --format '{{.Tag}}' | sort");
    listed.lines().map(|tag| format!("sparkctl/kept:{tag}")).collect()
}

#[test]
fn a_classic_store_takes_a_part_and_a_containerd_store_the_whole() {
    let rig = Rig::clean();
    for node in ["spark1", "spark2"] {
        // By name: an image that others were built on cannot be removed by its ID.
        rig.on(
            node,
            "docker images --format '{{.Repository}}:{{.Tag}}' sparkctl/kept | xargs -r docker rmi -f; true",
        );
    }
    rig.run(&["load", "spark1", "stub"]);
    rig.run(&["load", "spark2", "stub"]);
    let mut operator = Operator::with("rig-stub");
    operator.edit("sparkctl-rig/stub-engine:1", "sparkctl-rig/pushed:1");

    // From the containerd store of spark2 to the classic one of spark1.
    build(&rig, "spark2", "sparkctl-rig/pushed:1", 5);
    let moved = push(&operator);
    assert!((5_000_000..5_500_000).contains(&moved), "{moved} bytes for a layer of 5 MB");
    let name = kept(&rig, "spark1").pop().expect("it has our name");
    assert_eq!(own_bytes(&rig, "spark1", &name), own_bytes(&rig, "spark2", "sparkctl-rig/pushed:1"));
    assert!(archive(&rig, "spark1", &name) > 100_000_000, "it can be passed on");
    assert_eq!(push(&operator), 0);
    operator.run(&["push", &operator.file()]).ended(0).saying("already: 0 bytes moved");

    // From the classic store to the containerd one: first onto a full disk.
    operator.edit("sparkctl-rig/pushed:1", "sparkctl-rig/pushed:2");
    build(&rig, "spark1", "sparkctl-rig/pushed:2", 6);
    let before = kept(&rig, "spark2");
    let pushing = operator.command(&["push", &operator.file()]).spawn().expect("sparkctl starts");
    eventually("the image is on its way", Duration::from_secs(60), || {
        !rig.on("spark2", "pgrep -f '[d]ocker load' || true").is_empty()
    });
    rig.run(&["fill-disk", "spark2", "20M"]);
    let output = pushing.wait_with_output().expect("it ends");
    let after = kept(&rig, "spark2");
    rig.run(&["heal", "spark2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("the disk is full") && said.contains("what runs was not touched"), "{said}");
    assert_eq!(after, before, "a half image has our name");
    let said = operator.run(&["push", &operator.file()]).ended(0).saying("in full");
    let name = kept(&rig, "spark2").into_iter().find(|name| !before.contains(name)).expect("it has our name");
    assert_eq!(
        own_bytes(&rig, "spark2", &name),
        own_bytes(&rig, "spark1", "sparkctl-rig/pushed:2"),
        "{said:?}"
    );
    assert!(archive(&rig, "spark2", &name) > 100_000_000, "it is not hollow");
    for node in ["spark1", "spark2"] {
        let ours =
            "docker images --format '{{.Repository}}:{{.Tag}}' | grep -E '^sparkctl(/kept|-rig/pushed):'";
        rig.on(node, &format!("{ours} | xargs -r docker rmi; true"));
    }
}

#[test]
fn what_no_release_needs_goes() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    let first = kept(&rig, "spark2");
    build(&rig, "spark1", "sparkctl-rig/pushed:3", 1);
    operator.edit("sparkctl-rig/stub-engine:1", "sparkctl-rig/pushed:3");
    operator.deploy().ended(0);
    let there = |node: &str| rig.on(node, "ls ~spark/.local/state/sparkctl/rig-stub/releases");
    operator.run(&["prune", "--dry-run"]).ended(0).saying("nothing to remove");
    operator.run(&["prune", "--keep", "1"]).ended(2).saying("--dry-run");
    assert_eq!(there("spark2"), "0001\n0002");
    operator
        .run(&["prune", "--keep", "1", "--yes"])
        .ended(0)
        .saying("release   1, records and logs")
        .saying("removed");
    assert_eq!((there("spark1"), there("spark2")), ("0002".to_owned(), "0002".to_owned()));
    let now = kept(&rig, "spark2");
    assert!(first.iter().any(|name| !now.contains(name)), "{first:?} {now:?}");
    let names = rig.on("spark1", "docker images --format '{{.Repository}}:{{.Tag}}'");
    assert!(names.contains("sparkctl-rig/stub-engine:1"), "a name of somebody else's went: {names}");
    answers_rightly();
    operator.run(&["prune", "--keep", "1", "--yes"]).ended(0).saying("nothing to remove");
    operator.run(&["rollback"]).ended(3).saying("there is no release before");
    operator.deploy().ended(0).saying("nothing to do");
}
