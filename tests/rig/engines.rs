//! What the image has in it, who may use the endpoint, what the ranks run with, and an image that is built on the head.

use crate::harness::{Operator, Rig, answers_rightly, chat};

const KEY: &str = "sk-5f1c2d3e4a5b6c7d";
const RANKS: [(&str, &str); 2] = [("spark1", "sparkctl-rig-stub-0"), ("spark2", "sparkctl-rig-stub-1")];

/// The status of a request to the head, with a key or without.
fn asked(rig: &Rig, key: &str) -> String {
    let header = if key.is_empty() { String::new() } else { format!("-H 'Authorization: Bearer {key}'") };
    rig.on(
        "spark1",
        &format!(
            "curl -s -o /dev/null -w '%{{http_code}}' {header} http://10.77.0.11:30000/v1/models || true"
        ),
    )
}

/// The key is nowhere where a neighbour could read it.
fn key_is_hidden(rig: &Rig) {
    for (node, container) in RANKS {
        let seen = [rig.argv(node, container), rig.on(node, &format!("docker inspect {container}"))].concat();
        assert!(
            !seen.contains(KEY),
            "{node}: the key is in a command line or in the container's description"
        );
        let records = rig.on(node, "cat /home/spark/.local/state/sparkctl/rig-stub/releases/*/release.json");
        assert!(!records.contains(KEY), "{node}: a record has the key");
    }
}

#[test]
fn the_version_is_told_and_a_key_is_asked_for_by_both_engines() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.edit(", open: true", "");
    operator
        .run(&["plan", &operator.file()])
        .ended(2)
        .saying("asks for no key")
        .saying("api_key")
        .saying("open: true");
    operator.edit("name: tiny }", "name: tiny, api_key: { file: key } }");
    std::fs::write(operator.folder.path().join("key"), format!("{KEY}\n")).expect("it is written");
    let said = operator.run(&["plan", "--env", &operator.file()]).ended(0);
    let said = said.saying("vLLM 0.32.0 with Ray 2.60.0 (RayExecutorV2)");
    for row in [
        "VLLM_HOST_IP=192.168.200.12",
        "VLLM_API_KEY=‹secret›",
        "sparkctl: the address that vLLM tells",
        "  image",
    ] {
        assert!(said.stdout.contains(row), "{row}: {}", said.stdout);
    }
    // It was asked of the image once, and is told from what the node remembers.
    assert_eq!(rig.on("spark1", "ls /home/spark/.local/state/sparkctl/images | wc -l"), "1");
    let facts = operator.run(&["facts", &operator.file()]).ended(0).saying("\"ray\": \"2.60.0\"");
    std::fs::write(operator.folder.path().join("facts.json"), &facts.stdout).expect("it is written");
    let recorded = operator.folder.path().join("facts.json").display().to_string();
    operator.run(&["plan", &operator.file(), "--facts", &recorded]).ended(0).saying("vLLM 0.32.0");

    let said = operator.deploy().ended(0).saying("chat, reasoning, tool call").saying("release 1 serves");
    assert!(!said.stderr.contains("environment"), "{}", said.stderr);
    assert_eq!([asked(&rig, ""), asked(&rig, "sk-wrong"), asked(&rig, KEY)], ["401", "401", "200"]);
    assert!(chat("Hello!").is_err_and(|why| why.contains("401")));
    key_is_hidden(&rig);
    let said = operator.run(&["status"]).ended(0).saying("release 1, serving").saying("one token in");
    assert!(!said.stdout.contains("warning"), "{}", said.stdout);
    let lists = "cat /root/.config/vllm/ray_non_carry_over_env_vars.json";
    let lists = rig.on("spark1", &format!("docker exec {} {lists}", RANKS[0].1));
    assert!(lists.contains("\"VLLM_HOST_IP\"") && lists.contains("\"NCCL_SOCKET_IFNAME\""), "{lists}");

    operator
        .edit("kind: vllm\n  launch: ray", "kind: sglang")
        .edit("tool_parser: hermes", "tool_parser: qwen");
    operator.edit("api_key:", "listen: fabric, api_key:");
    operator.deploy().ended(0).saying("release 2 serves at http://192.168.200.11:30000");
    key_is_hidden(&rig);
    assert!(rig.argv("spark1", RANKS[0].1).contains("sglang.launch_server"));
    assert_eq!(asked(&rig, KEY), "000", "the LAN's address does not answer");
    operator.run(&["status"]).ended(0).saying("release 2, serving");
}

#[test]
fn an_image_is_built_on_the_head_and_refused_where_it_lacks_ray() {
    let rig = Rig::clean();
    // A run before this one may have built the same.
    for node in ["spark1", "spark2"] {
        rig.on(node, "docker images -q rig/built | xargs -r docker rmi -f");
    }
    let mut operator = Operator::with("rig-stub");
    operator.edit(
        "image: { reference: \"sparkctl-rig/stub-engine:1\" }",
        "image: { reference: rig/built, build: { folder: built, args: { BASE: \"sparkctl-rig/stub-engine:1\" } } }",
    );
    let folder = operator.folder.path().join("built");
    std::fs::create_dir(&folder).expect("it is made");
    let dockerfile = |text: &str| std::fs::write(folder.join("Dockerfile"), text).expect("it is written");
    std::fs::write(folder.join("note"), "one").expect("it is written");

    dockerfile("ARG BASE\nFROM ${BASE}\nRUN echo a telling line && exit 7\n");
    operator.run(&["plan", "--exit-code", &operator.file()]).ended(10).saying("is built on spark1 first");
    let said = operator.deploy().ended(5).saying("a telling line");
    assert!(said.stderr.contains("build failed on spark1"), "{}", said.stderr);

    dockerfile("ARG BASE\nFROM ${BASE}\nRUN rm -rf /opt/stub-engine/ray /opt/stub-engine/ray-*\n");
    operator.deploy().ended(3).saying("and no Ray").saying("launch: native").saying("docker/engine-ray");
    assert!(rig.containers("spark1").is_empty());

    dockerfile("ARG BASE\nFROM ${BASE}\nCOPY note /note\n");
    operator.deploy().ended(0).saying("build").saying("release 1 serves");
    answers_rightly();
    for (node, container) in RANKS {
        assert_eq!(rig.on(node, &format!("docker exec {container} cat /note")), "one");
    }
    let images = rig.on("spark1", "docker images -q rig/built | wc -l");
    let said = operator.deploy().ended(0).saying("nothing to do");
    assert!(!said.stderr.contains("build"), "{}", said.stderr);
    assert_eq!(rig.on("spark1", "docker images -q rig/built | wc -l"), images);
}
