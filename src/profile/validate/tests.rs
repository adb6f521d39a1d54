mod engines;

use super::*;
use crate::config;

const GOOD: &str = include_str!("../../../profiles/qwen35-122b.yaml");

/// The profile with `from` replaced by `to`, read past its own validation.
fn problems(edits: &[(&str, &str)]) -> Vec<Problem> {
    let mut profile = serde_json::to_value(config::parse("x", GOOD).unwrap()).unwrap();
    for (pointer, value) in edits {
        let value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{value}: {error}"));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match profile.pointer_mut(parent).unwrap() {
            serde_json::Value::Object(map) => drop(map.insert(key.to_owned(), value)),
            list => list[key.parse::<usize>().unwrap()] = value,
        }
    }
    validate(&serde_json::from_value(profile).unwrap())
}

/// The one edit leads to the one problem, at the path, whose message and hint have these words in them.
fn check(pointer: &str, value: &str, path: &str, message: &str, hint: &str) {
    let problems = problems(&[(pointer, value)]);
    let [problem] = problems.as_slice() else { panic!("{pointer} = {value}: {problems:?}") };
    assert_eq!(problem.path, path, "{pointer} = {value}");
    assert!(problem.message.contains(message), "{pointer} = {value}: {}", problem.message);
    let said = problem.hint.as_deref().unwrap_or_default();
    assert!(said.contains(hint) && (said.is_empty() == hint.is_empty()), "{pointer} = {value}: {said}");
}

#[test]
fn nothing_is_wrong_with_what_can_work() {
    assert_eq!(problems(&[]), []);
    for (pointer, value) in [
        ("/cluster/user", r#""CORP\\aurora""#),
        ("/cluster/nodes/0/host", r#""local""#),
        ("/cluster/nodes/0/host", r#""spark-1.lab_2""#),
        ("/cluster/nodes/0/host", r#""fe80::1%eth0""#),
        ("/cluster/nodes/0/fabric", r#""169.254.3.4""#),
        ("/cluster/nodes/0/fabric", r#""10.1.230.181""#),
        ("/model/path", r#""/srv/big models/a..b""#),
        ("/model/source", r#""hf:Qwen/Qwen3@refs/pr/7""#),
        ("/engine/memory_fraction", "1"),
        // The default benchmark is longer; nobody wrote it.
        ("/engine/context_length", "1024"),
        (
            "/engine/args",
            r#"["--max-num-seqs", "64", "-O3", "--model-impl=auto", "--x={\"a\": 1}", "two words"]"#,
        ),
        ("/engine/env", r#"{"NCCL_DEBUG": "INFO", "EMPTY": "", "with.dot": "a=b"}"#),
        ("/engine/env", r#"{"A": {"env": "B"}, "C": {"file": "~/c"}, "D": {"command": ["pass", ""]}}"#),
        (
            "/files",
            r#"[{"source": "a b", "target": "/sparkctl/a"}, {"source": "a b", "target": "/sparkctl/ab.c"}]"#,
        ),
        (
            "/files",
            r#"[{"source": "x", "target": "/modeling/x"}, {"source": "x", "target": "/run/sparkctl/mine"}]"#,
        ),
        ("/engine/before", r#"[["bash", "-c", "two\nlines"], ["true"]]"#),
        ("/serve/name", r#""Qwen/Qwen3.5""#),
        ("/ready/stall", r#""45m""#),
        // The default stall is longer; nobody wrote it.
        ("/ready/timeout", r#""5m""#),
        ("/bench/concurrency", "[]"),
    ] {
        assert_eq!(problems(&[(pointer, value)]), [], "{pointer} = {value}");
    }
}

/// Who may use the endpoint has to be said, unless few can reach it.
#[test]
fn who_may_use_the_endpoint() {
    let closed = r#"{"port": 30000}"#;
    check("/serve", closed, "serve", "asks for no key", "`api_key: { file: PATH }`");
    for good in [
        r#"{"port": 30000, "open": true}"#,
        r#"{"port": 30000, "listen": "fabric"}"#,
        r#"{"port": 30000, "listen": "loopback"}"#,
        r#"{"port": 30000, "api_key": {"file": "key"}}"#,
        r#"{"port": 30000, "listen": "fabric", "open": true}"#,
    ] {
        assert_eq!(problems(&[("/serve", good)]), [], "{good}");
    }
    let both = r#"{"port": 30000, "open": true, "api_key": {"env": "KEY"}}"#;
    check("/serve", both, "serve.open", "is not open", "leave one of the two out");
    let empty = r#"{"port": 30000, "api_key": {"command": []}}"#;
    check("/serve", empty, "serve.api_key.command", "no command in it", "pass, show");
    check(
        "/engine/env",
        r#"{"VLLM_API_KEY": "x"}"#,
        "engine.env.VLLM_API_KEY",
        "sets",
        "set `serve.api_key`",
    );
}

#[test]
fn a_built_image_has_no_tag_of_its_own() {
    let build = |reference: &str, folder: &str| {
        let image = serde_json::json!({ "reference": reference, "build": { "folder": folder, "args": { "BASE": "a:1" } } });
        problems(&[("/image", &image.to_string())])
    };
    assert_eq!(build("acme/vllm-ray", "docker/engine-ray"), []);
    assert_eq!(build("host:5000/acme/vllm-ray", "docker/engine-ray"), []);
    let [tagged] = build("acme/vllm-ray:1", "x").try_into().unwrap();
    assert!(tagged.path == "image.reference" && tagged.message.contains("has a tag"), "{tagged:?}");
    let [none] = build("acme/vllm-ray", "").try_into().unwrap();
    assert!(none.path == "image.build.folder" && none.message.contains("no path"), "{none:?}");
}

#[test]
fn nodes() {
    let nodes = [("/cluster/nodes", "[]")];
    assert_eq!(problems(&nodes).iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), ["cluster.nodes"]);
    check(
        "/cluster/nodes/1/name",
        r#""spark1""#,
        "cluster.nodes[1].name",
        "two nodes are called `spark1`",
        "",
    );
    let both = "`spark2` and `spark1` have the same";
    check("/cluster/nodes/1/host", r#""10.1.230.180""#, "cluster.nodes[1].host", both, "machine of its own");
    check("/cluster/nodes/1/fabric", r#""192.168.200.12""#, "cluster.nodes[1].fabric", both, "");
    let local = problems(&[("/cluster/nodes/0/host", r#""local""#), ("/cluster/nodes/1/host", r#""local""#)]);
    assert_eq!(local.len(), 1, "{local:?}");
    assert!(local[0].message.contains("`spark2` and `spark1` are both `local`"), "{local:?}");
}

#[test]
fn hosts_and_users() {
    for (host, message, hint) in [
        ("", "it is empty", ""),
        ("-oProxyCommand=x", "it begins with `-`", ""),
        ("a b", "white space", ""),
        ("a\\nb", "white space", ""),
        ("a\\\\b", "a shell would act on", ""),
        ("a;b", "a shell would act on", ""),
        ("$(reboot)", "a shell would act on", ""),
        ("aurora@spark1", "has a user in it", "`aurora` as `cluster.user`"),
        ("127.0.0.1", "is this machine", "host: local"),
        ("127.1.2.3", "is this machine", "host: local"),
        ("LocalHost", "is this machine", "host: local"),
        ("::1", "is this machine", "host: local"),
        ("[::1]", "is this machine", "host: local"),
        ("::ffff:127.0.0.1", "is this machine", "host: local"),
        ("0.0.0.0", "is this machine", "host: local"),
        ("spark1:2222", "has a port in it", "`Port 2222`"),
    ] {
        check("/cluster/nodes/0/host", &format!("\"{host}\""), "cluster.nodes[0].host", message, hint);
    }
    for (user, message) in
        [("", "empty"), ("-l", "begins with `-`"), ("a b", "white space"), ("a`b`", "shell")]
    {
        check("/cluster/user", &format!("\"{user}\""), "cluster.user", message, "");
    }
}

#[test]
fn fabric_addresses() {
    for (address, message) in [
        ("127.0.0.1", "a loopback address"),
        ("0.0.0.0", "an unspecified address"),
        ("0.1.2.3", "an unspecified address"),
        ("224.0.0.1", "a multicast address"),
        ("255.255.255.255", "the broadcast address"),
    ] {
        let hint = "own address on the fast network";
        check("/cluster/nodes/1/fabric", &format!("\"{address}\""), "cluster.nodes[1].fabric", message, hint);
    }
}

#[test]
fn models() {
    for (path, message, hint) in [
        ("models/x", "not an absolute path", "begin it with `/`"),
        ("", "not an absolute path", "begin it with `/`"),
        ("~/models", "not an absolute path", "`~` is not expanded"),
        ("/", "root of the file system", "own folder"),
        ("//./", "root of the file system", "own folder"),
        ("/a/../b", "`..`", "without it"),
        ("/a\\n", "control character", "one line"),
        ("/a\\u0000b", "control character", "one line"),
        ("/a:ro", "container mounts", "rename"),
        ("/a,b", "container mounts", "rename"),
    ] {
        check("/model/path", &format!("\"{path}\""), "model.path", message, hint);
    }
    for (source, hint) in [
        ("Qwen/Qwen3", "did you mean `hf:Qwen/Qwen3`?"),
        ("https://huggingface.co/Qwen/Qwen3/", "did you mean `hf:Qwen/Qwen3`?"),
        ("hf:Qwen", ""),
        ("hf:Qwen/Qwen3@", ""),
        ("hf:a/b/c", ""),
        ("hf:../b", ""),
        ("hf:a/-b", ""),
        ("hf:a/b@x y", ""),
        ("s3://bucket/x", ""),
    ] {
        check("/model/source", &format!("\"{source}\""), "model.source", "is not a source", hint);
    }
}

#[test]
fn engines() {
    let tp = "engine.tensor_parallel";
    for (pointer, value, path, message, hint) in [
        ("/engine/tensor_parallel", "0", tp, "at least 1", ""),
        (
            "/engine/tensor_parallel",
            "1",
            tp,
            "would leave 1 node idle: 2 nodes with one GPU each",
            "set it to 2",
        ),
        (
            "/engine/tensor_parallel",
            "8",
            tp,
            "larger than the GPUs there are: 2 nodes",
            "set it to 2, or add nodes",
        ),
        ("/engine/context_length", "0", "engine.context_length", "at least 1", "leave it out"),
        (
            "/bench/output_tokens",
            "32000",
            "engine.context_length",
            "33024 tokens",
            "lower `bench.input_tokens`",
        ),
        ("/engine/memory_fraction", "0", "engine.memory_fraction", "more than 0", ""),
        ("/engine/memory_fraction", "-0.5", "engine.memory_fraction", "more than 0", ""),
        (
            "/engine/memory_fraction",
            "80",
            "engine.memory_fraction",
            "at most 1, not 80",
            "write `0.8` for 80 %",
        ),
        ("/engine/tool_parser", "\"\"", "engine.tool_parser", "it is empty", ""),
        ("/engine/reasoning_parser", "\"--x\"", "engine.reasoning_parser", "begins with `-`", ""),
        ("/serve/port", "6379", "serve.port", "the ranks meet at (Ray)", "another port"),
        ("/serve/name", "\"  \"", "serve.name", "it is empty", ""),
        ("/serve/name", "\"a b\"", "serve.name", "white space", ""),
        ("/ready/timeout", "\"0s\"", "ready.timeout", "longer than 0", "`45m`"),
        ("/ready/stall", "\"46m\"", "ready.stall", "longer than `ready.timeout`", "make it shorter"),
        ("/engine/args", r#"["--a", ""]"#, "engine.args[1]", "is empty", "take it out"),
        ("/engine/args", r#"["--a", " "]"#, "engine.args[1]", "is empty", "take it out"),
        ("/ready/stall", "\"0m\"", "ready.stall", "longer than 0", "`45m`"),
        ("/bench/concurrency", "[1, 0]", "bench.concurrency[1]", "at least 1 request", "take it out"),
        ("/bench/input_tokens", "0", "bench.input_tokens", "at least 1", "no benchmark"),
        ("/bench/output_tokens", "0", "bench.output_tokens", "at least 1", "no benchmark"),
    ] {
        check(pointer, value, path, message, hint);
    }
    // JSON has no word for it, YAML does.
    let error = config::parse("x", &GOOD.replace("0.80", ".nan")).unwrap_err();
    assert!(error.problems()[0].message.contains("more than 0"), "{error}");
}

#[test]
fn variables_that_sparkctl_sets() {
    for name in [
        "VLLM_HOST_IP",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "NCCL_IB_HCA",
        "RAY_ADDRESS",
        "RAY_memory_monitor_refresh_ms",
    ] {
        let env = serde_json::json!({ name: "x" }).to_string();
        let path = format!("engine.env.{name}");
        check("/engine/env", &env, &path, &format!("sparkctl sets `{name}` itself"), "leave it out");
    }
    for (name, path) in [
        ("", "engine.env."),
        ("A=B", "engine.env.A=B"),
        ("A\0", "engine.env.A\0"),
        ("two words", "engine.env.two words"),
        ("A\t", "engine.env.A\t"),
        ("9A", "engine.env.9A"),
    ] {
        let env = serde_json::json!({ name: "x" }).to_string();
        check("/engine/env", &env, path, "cannot be a variable's name", "NAME: \"value\"");
        assert!(problems(&[("/engine/env", &env)])[0].is_in_key);
    }
    check("/engine/env", r#"{"A": "\u0000"}"#, "engine.env.A", "NUL", "");
}

#[test]
fn secrets_that_come_from_nowhere() {
    for (source, path, message, hint) in [
        (r#"{"env": ""}"#, "engine.env.A.env", "cannot be a variable's name", "HF_TOKEN"),
        (r#"{"env": "A=B"}"#, "engine.env.A.env", "cannot be a variable's name", "HF_TOKEN"),
        (r#"{"file": ""}"#, "engine.env.A.file", "cannot be a file's path", ""),
        (r#"{"command": []}"#, "engine.env.A.command", "there is no command", "[pass, show, hf]"),
        (r#"{"command": ["", "x"]}"#, "engine.env.A.command[0]", "name is empty", ""),
        (r#"{"command": ["x", "\u0000"]}"#, "engine.env.A.command[1]", "NUL", ""),
    ] {
        check("/engine/env", &format!(r#"{{"A": {source}}}"#), path, message, hint);
    }
}

#[test]
fn problems_come_in_the_order_of_the_fields() {
    let problems = problems(&[
        ("/bench/input_tokens", "0"),
        ("/serve/port", "6379"),
        ("/engine/tensor_parallel", "3"),
        ("/model/path", "\"x\""),
        ("/cluster/user", "\"\""),
    ]);
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let expected =
        ["cluster.user", "model.path", "engine.tensor_parallel", "serve.port", "bench.input_tokens"];
    assert_eq!(paths, expected);
}

#[test]
fn placed_files() {
    let check =
        |files: &str, path: &str, message: &str, hint: &str| check("/files", files, path, message, hint);
    let target = |target: &str, message: &str, hint: &str| {
        let file = serde_json::json!([{ "source": "x", "target": target }]).to_string();
        check(&file, "files[0].target", message, hint);
    };
    check(r#"[{"source": " ", "target": "/x"}]"#, "files[0].source", "there is no path", "write the path");
    target("chat.jinja", "is not an absolute path", "begin it with `/`");
    target("", "is not an absolute path", "begin it with `/`");
    target("/", "ends with `/`", "name the file");
    target("/sparkctl/", "ends with `/`", "name the file");
    target("/sparkctl/../model/x", "has `.`, `..` or `//`", "without it");
    target("/sparkctl//x", "has `.`, `..` or `//`", "without it");
    target("/sparkctl/a:b", "has `:` or `,`", "another name");
    target("/sparkctl/a,b", "has `:` or `,`", "another name");
    target("/sparkctl/a\nb", "has a control character", "on one line");
    target("/model/chat.jinja", "would hide `/model`, or be hidden by it", "a path of its own");
    for kernel in ["/proc", "/proc/x", "/sys/x", "/dev/shm/x"] {
        target(kernel, "a file system of the kernel's", "a path of its own");
    }
    target("/model", "would hide `/model`", "a path of its own");
    target("/root", "would hide `/root/.cache`", "a path of its own");
    target("/run/sparkctl/secrets", "would hide `/run/sparkctl/secrets`", "a path of its own");
    let two = |one: &str, other: &str| {
        serde_json::json!([{ "source": "x", "target": one }, { "source": "y", "target": other }]).to_string()
    };
    check(
        &two("/a/b", "/a/b"),
        "files[1].target",
        "is the target of `files[0]` as well",
        "a place of its own",
    );
    check(
        &two("/a/b", "/a/b/c"),
        "files[1].target",
        "`/a/b/c` and `/a/b` of `files[0]` lie in one another",
        "a place",
    );
    check(&two("/a/b/c", "/a/b"), "files[1].target", "lie in one another", "a place");
}

#[test]
fn commands_ahead_of_the_engine_and_names_of_secrets() {
    check(
        "/engine/before",
        r#"[["true"], []]"#,
        "engine.before[1]",
        "there is no command",
        "write its words",
    );
    check("/engine/before", r#"[["", "x"]]"#, "engine.before[0]", "there is no command", "write its words");
    check("/engine/before", r#"[["a", "b\u0000"]]"#, "engine.before[0][1]", "a NUL character", "");
    let one = r#"[["bash /sparkctl/patch.sh"]]"#;
    check(
        "/engine/before",
        one,
        "engine.before[0]",
        "is one word with a space in it",
        "write each word by itself",
    );
    for name in ["with.dot", "a-b"] {
        let env = serde_json::json!({ name: { "env": "X" } }).to_string();
        check("/engine/env", &env, &format!("engine.env.{name}"), "cannot be a secret's variable", "");
    }
}
