mod example;
mod hostile;
mod language;
mod mutations;
mod schema;

use std::io::Write as _;

use super::*;

/// The profile that ships with sparkctl.
const GOOD: &str = include_str!("../../profiles/qwen35-122b.yaml");
const ANNOTATED: &str = include_str!("../../examples/annotated.yaml");

/// The good profile, with each `from` (which has to be there) replaced by `to`.
fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "`{from}` is not in the profile");
        text.replacen(from, to, 1)
    })
}

fn error(text: &str) -> ConfigError {
    parse("profiles/x.yaml", text).expect_err("this text was taken for a profile")
}

/// The only mistake of the edited profile.
fn only(from: &str, to: &str) -> Mistake {
    let error = error(&edited(&[(from, to)]));
    assert_eq!(error.problems().len(), 1, "{error}");
    error.problems()[0].clone()
}

#[test]
fn the_shipped_profiles_are_good() {
    for (name, text) in [("qwen35-122b", GOOD), ("annotated", ANNOTATED)] {
        let profile = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name.as_str(), "qwen35-122b");
        assert_eq!(profile.engine.memory_fraction, Some(0.8));
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let profile = parse("x", GOOD).unwrap();
    let written = serde_json::to_string_pretty(&profile).unwrap();
    // JSON is YAML.
    assert_eq!(parse("x", &written).unwrap(), profile);
}

/// Every report that people are likely to meet, whole.
#[test]
fn reports() {
    let snapshot = |name: &str, text: &str| insta::assert_snapshot!(name, error(text).to_string());
    let edit = |name: &str, edits: &[(&str, &str)]| snapshot(name, &edited(edits));
    edit("unknown_key", &[("context_length", "contxt_length")]);
    edit("unknown_key_with_nothing_near", &[("  reasoning_parser: qwen3", "  color: blue")]);
    edit("duplicate_key", &[("  kind: vllm\n", "  kind: vllm\n  context_length: 16384\n")]);
    edit("wrong_type", &[("context_length: 32768", "context_length: 32k")]);
    edit("number_for_text", &[("env: {}", "env:\n    NCCL_DEBUG_LEVEL: 1\n    FOO: true")]);
    edit(
        "missing_keys",
        &[(", fabric: 192.168.200.13", ""), ("  kind: vllm\n", ""), ("tensor_parallel", "tp")],
    );
    edit("missing_section", &[("image:\n  reference: hellohal2064/vllm-qwen3.5-gb10:latest\n", "")]);
    edit("bad_choice", &[("kind: vllm", "kind: vlm"), ("launch: ray", "launch: slurm")]);
    edit("bad_duration", &[("timeout: 45m", "timeout: 45 min"), ("stall: 10m", "stall: 600")]);
    edit("port_out_of_range", &[("port: 30000", "port: 70000")]);
    edit("same_address_twice", &[("192.168.200.13", "192.168.200.12"), ("10.1.230.181", "10.1.230.180")]);
    edit("loopback", &[("host: 10.1.230.180", "host: 127.0.0.1"), ("192.168.200.13", "127.0.0.1")]);
    edit("more_gpus_than_there_are", &[("tensor_parallel: 2", "tensor_parallel: 4")]);
    edit(
        "reserved",
        &[("args: []", "args: [\"-tp\", \"2\", --port=8000]"), ("env: {}", "env: { NCCL_IB_HCA: roce }")],
    );
    edit("tab", &[("  kind: vllm", "\tkind: vllm")]);
    edit("quote_not_closed", &[("path: /home", "path: \"/home")]);
    edit("bracket_not_closed", &[("[1, 4]", "[1, 4")]);
    edit("no_space_after_colon", &[("version: 1", "version:1")]);
    edit("alias", &[("host: 10.1.230.180", "host: *head")]);
    edit(
        "several_at_once",
        &[
            ("name: spark2", "name: Spark 2"),
            ("fabric: 192.168.200.12", "fabric: 192.168.200.12/24"),
            ("engine:", "engin:"),
            ("port: 30000", "port: \"30000\""),
            ("chat: true", "chat: yes"),
        ],
    );
    snapshot("not_yaml", "#!/bin/sh\nset -e\ndocker run --rm \"$IMAGE\" {\n");
    snapshot("not_a_profile", "- spark1\n- spark2\n");
    snapshot("empty", "# nothing here yet\n");
    snapshot("two_documents", "version: 1\n---\nversion: 1\n");
}

#[test]
fn words_for_wrong_values() {
    for (from, to, place, message, help) in [
        ("version: 1", "version: 2", (2, 10), "this sparkctl reads profiles of version 1, not 2", ""),
        ("port: 30000", "port: -1", (24, 16), "expected a whole number that is not negative, found `-1`", ""),
        ("port: 30000", "port: 0", (24, 16), "`0` is not a port: it has to be from 1 to 65535", ""),
        ("port: 30000", "port: 3e4", (24, 16), "expected a whole number, found the number `3e4`", ""),
        (
            "port: 30000",
            "port:",
            (24, 10),
            "expected a whole number, found nothing",
            "write the value behind the `:`",
        ),
        (
            "length: 32768",
            "length: 4294967296",
            (18, 19),
            "expected a whole number from 0 to 4294967295, found `4294967296`",
            "",
        ),
        (
            "length: 32768",
            "length: 99999999999999999999999",
            (18, 19),
            "expected a whole number from 0 to 4294967295, found `99999999999999999999999`",
            "",
        ),
        (
            "fraction: 0.80",
            "fraction: 80%",
            (19, 20),
            "expected a number, found the text `80%`",
            "write `0.8`",
        ),
        (
            "chat: true",
            "chat: yes",
            (26, 17),
            "expected `true` or `false`, found the text `yes`",
            "write `true`",
        ),
        (
            "tools: true",
            "tools: off",
            (26, 47),
            "expected `true` or `false`, found the text `off`",
            "write `false`",
        ),
        (
            "args: []",
            "args: --x",
            (22, 9),
            "expected a list, found the text `--x`",
            "write it as a list: `[--x]`",
        ),
        (
            "env: {}",
            "env:",
            (23, 3),
            "expected a section with keys, found nothing",
            "indent the section's keys below it, or write `{}` if it has none",
        ),
        ("cluster:", "cluster: [1, 2]\nx:", (4, 10), "expected a section with keys, found a list", ""),
        (
            "192.168.200.12",
            "192.168.200",
            (7, 51),
            "`192.168.200` is not an IPv4 address",
            "write it like `192.168.200.12`",
        ),
        ("192.168.200.12", "192.168", (7, 51), "expected an IPv4 address, found the number `192.168`", ""),
        ("restore", "[a]", (28, 13), "expected `restore` or `keep`, found a list", ""),
        (
            "timeout: 45m",
            "timeout: 45",
            (25, 19),
            "expected a duration like `45m`, found the whole number `45`",
            "say the unit too: `45s` for seconds, `m` for minutes, `h` for hours",
        ),
        (
            "name: qwen35-122b",
            "name: Qwen",
            (3, 7),
            "`Qwen` is not a deployment name: only lower-case letters, digits, `-` and `.` may be in it",
            "",
        ),
        (
            "kind: vllm",
            "kind: !!str vllm",
            (15, 9),
            "tags (`!...`) have no meaning in a profile",
            "leave the tag out; put the value in quotes to make it text",
        ),
    ] {
        check(from, to, place, message, help);
    }
}

#[test]
fn words_for_wrong_secrets() {
    for (from, to, place, message, help) in [
        (
            "env: {}",
            "env: { A: 1 }",
            (23, 13),
            "expected text, or a secret like `{ env: NAME }`, found the whole number `1`",
            "put it in quotes: `\"1\"`",
        ),
        (
            "env: {}",
            "env: { A: { fil: x } }",
            (23, 15),
            "unknown key `fil` in `engine.env.A`",
            "did you mean `file`?",
        ),
        (
            "env: {}",
            "env: { A: { env: x, file: y } }",
            (23, 13),
            "a secret comes from one place: keep one of `env`, `file` and `command`",
            "",
        ),
        (
            "env: {}",
            "env: { A: {} }",
            (23, 13),
            "a secret says where it comes from: one of `env`, `file` and `command`",
            "",
        ),
        (
            "env: {}",
            "env: { A: { command: pass } }",
            (23, 24),
            "expected a list, found the text `pass`",
            "write it as a list: `[pass]`",
        ),
    ] {
        check(from, to, place, message, help);
    }
}

/// What is said first of the edited profile.
fn check(from: &str, to: &str, place: (usize, usize), message: &str, help: &str) {
    let error = error(&edited(&[(from, to)]));
    let mistake = &error.problems()[0];
    assert_eq!(mistake.message, message, "{error}");
    assert_eq!((mistake.line, mistake.column), (Some(place.0), Some(place.1)), "{error}");
    assert_eq!(mistake.help.as_deref().unwrap_or_default(), help, "{error}");
}

#[test]
fn near_keys_are_suggested() {
    for (key, wrong) in [
        ("tensor_parallel", "tensor-parallel"),
        ("tensor_parallel", "tensor_parallel_size"),
        ("memory_fraction", "Memory_Fraction"),
        ("memory_fraction", "memry"),
        ("context_length", "context"),
        ("tool_parser", "tool_call_parser"),
        ("on_failure", "on_fail"),
        ("stall", "stal"),
    ] {
        let error = error(&edited(&[(&format!("{key}:"), &format!("{wrong}:"))]));
        let help = error.problems().iter().find_map(|mistake| mistake.help.clone()).unwrap_or_default();
        assert_eq!(help, format!("did you mean `{key}`?"), "{error}");
    }
}

/// A wrong value hides no other one: break every value, one pair after the other.
#[test]
fn two_wrong_values_are_two_mistakes() {
    let breaks = [
        ("version: 1\n", "version: [1]\n"),
        ("name: qwen35-122b", "name: []"),
        ("user: aurora", "user: [a]"),
        ("name: spark1", "name: {}"),
        ("host: 10.1.230.180", "host: 1"),
        ("fabric: 192.168.200.13", "fabric: x"),
        ("path: /home", "path: 1 #"),
        ("reference: hello", "reference: 1 #"),
        ("kind: vllm", "kind: x"),
        ("launch: ray", "launch: 1"),
        ("tensor_parallel: 2", "tensor_parallel: x"),
        ("32768", "x"),
        ("0.80", "x"),
        ("args: []", "args: {}"),
        ("env: {}", "env: []"),
        ("port: 30000", "port: x"),
        ("timeout: 45m", "timeout: 1"),
        ("stall: 10m", "stall: x"),
        ("chat: true", "chat: x"),
        ("[1, 4]", "[x, 4]"),
        ("input_tokens: 1024", "input_tokens: x"),
        ("restore", "x"),
    ];
    for (index, first) in breaks.iter().enumerate() {
        for second in &breaks[index + 1..] {
            let error = error(&edited(&[*first, *second]));
            assert_eq!(error.problems().len(), 2, "{error}");
        }
    }
    let error = error(&edited(&breaks));
    assert_eq!(error.problems().len(), breaks.len(), "{error}");
    let lines: Vec<_> = error.problems().iter().map(|mistake| mistake.line).collect();
    assert!(lines.is_sorted(), "{lines:?}");
}

/// What is wrong beyond types is told beside a wrong type, where it is wrong whatever was meant there.
#[test]
fn mistakes_of_meaning_are_not_hidden() {
    const NO_NODES: (&str, &str) = (
        "nodes:                        # the first is the head\n    - { name: spark1, host: 10.1.230.180, \
         fabric: 192.168.200.12 }\n    - { name: spark2, host: 10.1.230.181, fabric: 192.168.200.13 }\n",
        "nodes: x\n",
    );
    let loopback = ("192.168.200.13", "127.0.0.1");
    for (edits, paths) in [
        (&[loopback, ("port: 30000", "port: x")][..], &["cluster.nodes[1].fabric", "serve.port"][..]),
        (&[loopback, ("  kind: vllm\n", "")], &["cluster.nodes[1].fabric", "engine"]),
        (&[loopback, ("version: 1", "version: 2")], &["version", "cluster.nodes[1].fabric"]),
        (&[loopback, ("serve:", "sirve:")], &["cluster.nodes[1].fabric", "sirve"]),
        (&[loopback, ("restore", "restore\ncolour: blue")], &["cluster.nodes[1].fabric", "colour"]),
        (&[loopback, ("port: 30000", "port: ${NONE}")], &["cluster.nodes[1].fabric", "serve.port"]),
        (
            &[("spark2", "spark1"), ("host: 10.1.230.181", "host: 1")],
            &["cluster.nodes[1].name", "cluster.nodes[1].host"],
        ),
        // What hangs on a value that could not be read is not told.
        (&[("tensor_parallel: 2", "tensor_parallel: 3"), NO_NODES], &["cluster.nodes"]),
        (&[("launch: ray", "pipline: 2"), ("tensor_parallel: 2", "tensor_parallel: 1")], &["engine.pipline"]),
        (&[("32768", "512"), ("input_tokens: 1024", "input_tokens: x")], &["bench.input_tokens"]),
        (
            &[("host: 10.1.230.180", "host: 1"), ("host: 10.1.230.181", "host: 1m")],
            &["cluster.nodes[0].host"],
        ),
        (&[("  kind: vllm\n", "  kind: vllm\n  tensor_parallel: 3\n")], &["engine.tensor_parallel"]),
        (
            &[("version: 1", "version: 1\nbensch: { input_tokens: 0 }"), ("input_tokens: 1024, ", "")],
            &["bensch"],
        ),
    ] {
        let error = error(&edited(edits));
        let mut said: Vec<_> = error.problems().iter().map(|mistake| mistake.path.as_str()).collect();
        said.sort_unstable();
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        assert_eq!(said, paths, "{error}");
    }
}

/// A key left out is named once, with all that its section lacks, and hides nothing.
#[test]
fn missing_keys_are_named_together() {
    let error = error("cluster: { nodes: [{}, { host: h, x: 1 }] }\nserve: { port: no, open: true }\n");
    let said: Vec<_> = error.problems().iter().map(|m| (m.path.as_str(), m.message.as_str())).collect();
    assert_eq!(
        said,
        [
            ("", "missing keys `version`, `name`, `model`, `image` and `engine` at the top level"),
            ("cluster.nodes[0]", "missing keys `name`, `host` and `fabric` in `cluster.nodes[0]`"),
            ("cluster.nodes[1]", "missing keys `name` and `fabric` in `cluster.nodes[1]`"),
            ("cluster.nodes[1].x", "unknown key `x` in `cluster.nodes[1]`"),
            ("serve.port", "expected a whole number, found the text `no`"),
        ],
        "{error}"
    );
}

#[test]
fn line_ends_and_byte_order_marks_do_not_matter() {
    let good = parse("x", GOOD).unwrap();
    for text in [GOOD.replace('\n', "\r\n"), format!("\u{feff}{GOOD}"), format!("---\n{GOOD}...\n")] {
        assert_eq!(parse("x", &text).unwrap(), good);
    }
    let error = error(&edited(&[("port: 30000", "port: x")]).replace('\n', "\r\n"));
    assert_eq!((error.problems()[0].line, error.problems()[0].column), (Some(24), Some(16)));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    };
    let large = vec![b'#'; extend::LONGEST + 1];
    for (path, message, line) in [
        (folder.path().join("nowhere.yaml"), "cannot read the file: no such file or directory", None),
        (folder.path().to_owned(), "cannot read the file: is a directory", None),
        (write("latin1.yaml", b"version: 1\nname: caf\xe9\n"), "the file is not UTF-8 text", Some((2, 10))),
        (write("large.yaml", &large), "the file is larger than 1024 KiB, and no profile is", None),
    ] {
        let error = load(&path, &Given::NOTHING).unwrap_err();
        let mistake = &error.problems()[0];
        assert_eq!((mistake.message.as_str(), mistake.line.zip(mistake.column)), (message, line), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    let loaded = load(&write("good.yaml", GOOD.as_bytes()), &Given::NOTHING);
    assert_eq!(loaded.unwrap().profile, parse("x", GOOD).unwrap());
}

#[test]
fn the_list_for_programs() {
    let mistake = only("port: 30000", "port: 70000");
    let json = serde_json::to_value(&mistake).unwrap();
    let expected = serde_json::json!({
        "file": "profiles/x.yaml", "path": "serve.port", "line": 24, "column": 16, "help": null,
        "message": "`70000` is not a port: it has to be from 1 to 65535",
    });
    assert_eq!(json, expected);
}
