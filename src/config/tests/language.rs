//! Files that extend others, values of the environment, `--set`, and the effective profile.

use std::path::PathBuf;

use super::*;
use crate::profile::{EnvValue, SecretSource};

/// A folder with these files; the first is the one that is read.
struct Folder {
    folder: tempfile::TempDir,
    first: PathBuf,
}

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { first: folder.path().join(files[0].0), folder }
    }

    fn load(&self, set: &[&str]) -> Result<Loaded, String> {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        load(&self.first, &Given { set: &set, environment: &environment })
            .map_err(|error| self.named(&error.to_string()))
    }

    /// `text` without the folder's own name.
    fn named(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("30001"),
        "HEAD" => Some("10.0.0.1"),
        "WORD" => Some("word"),
        "YES" => Some("true"),
        _ => None,
    }
    .map(str::to_owned)
}

fn wrong(files: &[(&str, &str)], set: &[&str]) -> String {
    Folder::with(files).load(set).expect_err("this was taken for a profile")
}

#[test]
fn a_file_over_the_one_that_it_extends() {
    let folder = Folder::with(&[
        (
            "mine/child.yaml",
            "extends: ../base.yaml\nname: child\nengine: { context_length: null, args: [--x], env: { A: b } }\n\
             serve: { port: 1234 }\n",
        ),
        (
            "base.yaml",
            &edited(&[("env: {}", "env: { B: c, A: { file: x } }"), ("args: []", "args: [--y, --z]")]),
        ),
    ]);
    let profile = folder.load(&[]).unwrap().profile;
    let base = parse("x", GOOD).unwrap();
    assert_eq!((profile.name.as_str(), profile.serve.port.get()), ("child", 1234));
    // Sections are merged, key by key; what the child does not name is the parent's.
    assert_eq!((&profile.cluster, &profile.serve.name), (&base.cluster, &base.serve.name));
    assert_eq!(profile.engine.memory_fraction, Some(0.8));
    // Lists are replaced, `null` takes back, and a secret is one value.
    assert_eq!((profile.engine.args, profile.engine.context_length), (vec!["--x".to_owned()], None));
    let env: Vec<_> = profile.engine.env.iter().map(|(name, value)| (name.as_str(), value.text())).collect();
    assert_eq!(env, [("A", Some("b")), ("B", Some("c"))]);
}

/// A path on this machine begins where it is written.
#[test]
fn local_paths() {
    let text = edited(&[
        ("env: {}", "env: { A: { file: a }, B: { file: ~/b }, C: { file: /c }, D: d, E: { command: [e] } }"),
        ("restore", "restore\nfiles: [{ source: ../f, target: /f }]"),
    ]);
    let folder = Folder::with(&[
        ("mine/child.yaml", "extends: ../base/base.yaml\nengine: { env: { F: { file: f } } }\n"),
        ("base/base.yaml", &text),
    ]);
    let profile = folder.load(&["engine.env.G={ file: g }"]).unwrap().profile;
    let here = folder.folder.path().display().to_string();
    let cwd = std::env::current_dir().unwrap().display().to_string();
    let expected = serde_json::json!({
        "A": { "file": format!("{here}/mine/../base/a") }, "B": { "file": "~/b" }, "C": { "file": "/c" }, "D": "d",
        "E": { "command": ["e"] }, "F": { "file": format!("{here}/mine/f") }, "G": { "file": format!("{cwd}/g") },
    });
    assert_eq!(serde_json::to_value(&profile.engine.env).unwrap(), expected);
    assert_eq!(profile.files[0].source, format!("{here}/mine/../base/../f"));
}

#[test]
fn no_file_of_a_chain_need_be_whole() {
    let (first, second) = GOOD.split_at(GOOD.find("image:").unwrap());
    let folder = Folder::with(&[
        ("a.yaml", "extends: b.yaml\n"),
        ("b.yaml", &format!("extends: ${{NONE:-c}}.yaml\n{first}")),
        ("c.yaml", second),
    ]);
    assert_eq!(folder.load(&[]).unwrap().profile, parse("x", GOOD).unwrap());
}

/// Each mistake stands where the value does, in whichever file.
#[test]
fn reports_through_files() {
    let broken =
        edited(&[("kind: vllm", "kind: vlm"), ("spark2", "spark1"), ("  tool_parser", "  tol_parser")]);
    insta::assert_snapshot!(
        "extended",
        wrong(
            &[
                ("a.yaml", "extends: b.yaml\nserve:\n  port: x\n"),
                ("b.yaml", "extends: c.yaml\nengine:\n  memory_fraction: 80\n"),
                ("c.yaml", &broken),
            ],
            &["engine.context_length=32k", "bench.inptu_tokens=1", "cluster.nodes[0].fabric=127.0.0.1"]
        )
    );
    for (files, told) in [
        (
            &[("a.yaml", "extends: b.yaml\n"), ("b.yaml", "extends: ./a.yaml\n")][..],
            "a file cannot extend itself: a.yaml -> b.yaml -> ./a.yaml\n --> b.yaml:1:10",
        ),
        (&[("a.yaml", "extends: a.yaml\n")], "itself: a.yaml -> a.yaml\n --> a.yaml:1:10"),
        (
            &[("a.yaml", "name: x\nextends: no.yaml\n")],
            "`no.yaml`: cannot read the file: no such file or directory\n --> a.yaml:2:10",
        ),
        (&[("a.yaml", "extends: [b, c]\n")], "expected the path of one file\n --> a.yaml:1:10"),
        (&[("a.yaml", "extends:\n")], "expected the path of one file\n --> a.yaml:1:1"),
        (&[("a.yaml", "extends: ${NONE}\n")], "`NONE` is not set in the environment\n --> a.yaml:1:10"),
        (
            &[("a.yaml", "extends: b.yaml\n"), ("b.yaml", "# x\n")],
            "`b.yaml`: the file is empty: nothing but white space and comments\n --> a.yaml:1:10",
        ),
        (
            &[("a.yaml", "extends: b.yaml\n"), ("b.yaml", "- x\n")],
            "such as `version: 1`\n --> b.yaml:1:1\n  |\n1 | - x\n  | ^\n  = extended by a.yaml:1",
        ),
        (&[("a.yaml", "extends: b.yaml\n"), ("b.yaml", "a: [\n")], " --> b.yaml:1:"),
        (
            &[("a.yaml", "extend: b.yaml\n"), ("b.yaml", GOOD)],
            "unknown key `extend` at the top level\n --> a.yaml:1:1",
        ),
    ] {
        let said = wrong(files, &[]);
        // No file is there to say what is missing.
        assert!(said.contains(told) && said.ends_with(": 1 error"), "{said}");
    }
    let chain: Vec<_> = (0..9).map(|n| (format!("{n}.yaml"), format!("extends: {}.yaml\n", n + 1))).collect();
    let chain: Vec<_> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let said = wrong(&chain, &[]);
    assert!(said.contains("more than 8 files extend each other\n --> 7.yaml:1:10"), "{said}");
}

#[test]
fn an_extended_file_that_cannot_be_read_hides_no_mistake_of_the_other() {
    let said = wrong(&[("a.yaml", "extends: no.yaml\nserve: { port: x }\n")], &[]);
    assert!(
        said.contains("cannot read") && said.contains("found the text `x`") && said.ends_with(": 2 errors"),
        "{said}"
    );
}

#[test]
fn values_of_the_environment() {
    let text = edited(&[
        ("port: 30000", "port: ${PORT}"),
        ("host: 10.1.230.180", "host: \"${HEAD}\""),
        ("chat: true", "chat: ${YES}"),
        ("32768", "${LENGTH:-8192}"),
        ("args: []", "args: [\"--${WORD}\", \"$HOME\", \"$${X}\", '{\"a\": 1}']"),
        (
            "env: {}",
            "env: { \"${WORD}\": \"${PORT}\", E: \"${NONE:-}\", T: { file: \"${WORD}/t\" }, C: { command: [sh, \"${WORD} $$\"] } }",
        ),
        ("restore", "${FAILURE:-keep}"),
    ]);
    let folder = Folder::with(&[("a.yaml", &text)]);
    let profile = folder.load(&[]).unwrap().profile;
    assert_eq!((profile.serve.port.get(), profile.head().host.as_str()), (30001, "10.0.0.1"));
    assert_eq!((profile.verify.chat, profile.engine.context_length), (true, Some(8192)));
    assert_eq!(profile.engine.args, ["--word", "$HOME", "${X}", "{\"a\": 1}"]);
    assert_eq!(profile.on_failure, crate::profile::OnFailure::Keep);
    // Keys are left alone, and so is what a secret is fetched by; a file's path is not.
    let env = serde_json::to_value(&profile.engine.env).unwrap();
    let file = folder.folder.path().join("word/t");
    let expected = serde_json::json!({
        "${WORD}": "30001", "E": "", "T": { "file": file }, "C": { "command": ["sh", "${WORD} $$"] },
    });
    assert_eq!(env, expected);
}

#[test]
fn values_that_the_environment_does_not_have() {
    insta::assert_snapshot!(
        "variables",
        wrong(
            &[(
                "a.yaml",
                &edited(&[
                    ("port: 30000", "port: \"${PORT}\""),
                    ("32768", "${WORD}"),
                    ("0.80", "${NONE}"),
                    ("args: []", "args: [\"a ${NONE} ${OTHER} ${PORT}\", \"${PORT\"]"),
                    ("name: spark2", "name: ${NO-NAME}"),
                ])
            )],
            &["serve.name=${UNSET}"]
        )
    );
    // What is replaced is not asked for.
    let folder = Folder::with(&[
        ("a.yaml", "extends: b.yaml\nserve: { port: 1 }\n"),
        ("b.yaml", &edited(&[("port: 30000", "port: ${NONE}"), ("0.80", "${NONE}")])),
    ]);
    let profile = folder.load(&["engine.memory_fraction=0.5"]).unwrap().profile;
    assert_eq!((profile.serve.port.get(), profile.engine.memory_fraction), (1, Some(0.5)));
}

#[test]
fn fields_that_are_set() {
    let folder = Folder::with(&[("a.yaml", GOOD)]);
    let profile = |set: &[&str]| folder.load(set).unwrap_or_else(|error| panic!("{set:?}: {error}")).profile;
    let base = profile(&[]);
    for (set, pointer, value) in [
        ("engine.memory_fraction=0.75", "/engine/memory_fraction", "0.75"),
        ("name=x", "/name", "\"x\""),
        ("cluster.nodes[1].host=x", "/cluster/nodes/1/host", "\"x\""),
        ("cluster.nodes[spark2].host=x", "/cluster/nodes/1/host", "\"x\""),
        ("bench.concurrency=[1, 8]", "/bench/concurrency", "[1,8]"),
        ("bench.concurrency[1]=8", "/bench/concurrency", "[1,8]"),
        ("engine.env={A: \"1\"}", "/engine/env", "{\"A\":\"1\"}"),
        ("engine.env.A=b=c", "/engine/env", "{\"A\":\"b=c\"}"),
        ("engine.env[A.B]=", "/engine/env", "?"),
        ("engine.env.A='1'", "/engine/env", "{\"A\":\"1\"}"),
        (
            "engine.speculative={method: mtp, tokens: 2}",
            "/engine/speculative",
            "{\"method\":\"mtp\",\"tokens\":2}",
        ),
        ("serve.port=${PORT}", "/serve/port", "30001"),
        ("verify.chat=false", "/verify/chat", "false"),
        ("serve.name=null", "/serve", "{\"port\":30000,\"listen\":\"lan\",\"open\":true}"),
    ] {
        if value == "?" {
            assert!(folder.load(&[set]).unwrap_err().contains("found nothing"), "{set}");
            continue;
        }
        let mut expected = serde_json::to_value(&base).unwrap();
        let value = serde_json::from_str(value).unwrap();
        match expected.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => drop(expected["engine"].as_object_mut().unwrap().insert("speculative".to_owned(), value)),
        }
        assert_eq!(serde_json::to_value(profile(&[set])).unwrap(), expected, "{set}");
    }
    // The last wins; a section that nobody wrote is made.
    assert_eq!(profile(&["serve.port=1", "serve.port=2"]).serve.port.get(), 2);
    let set = ["engine.speculative.method=ngram", "engine.speculative.tokens=3"];
    assert_eq!(profile(&set).engine.speculative.unwrap().tokens, 3);
}

#[test]
fn what_cannot_be_set() {
    for (set, told) in [
        (
            "engine.memory=0.7",
            "unknown key `memory` in `engine`\n --> --set\n  |\n  | engine.memory=0.7\n  |        ^^^^^^\n  = help: did you mean `memory_fraction`?",
        ),
        ("engin.kind=vllm", "  | ^^^^^\n  = help: did you mean `engine`?"),
        (
            "cluster.nodes[sparc2].host=x",
            "is called `sparc2`\n --> --set\n  |\n  | cluster.nodes[sparc2].host=x\n  |               ^^^^^^\n  = help: did you mean `spark2`?",
        ),
        (
            "cluster.nodes[2].host=x",
            "`cluster.nodes` has no element 2\n --> --set\n  |\n  | cluster.nodes[2].host=x\n  |               ^\n  = help: it has 2, from 0 to 1",
        ),
        ("cluster.nodes.spark2.host=x", "`cluster.nodes` is a list"),
        ("name.x=1", "`name` is a single value, and nothing is below it"),
        ("engine.context_length=32k", "  | engine.context_length=32k\n  |                       ^^^"),
        (
            "engine.memory_fraction=80",
            "  | engine.memory_fraction=80\n  |                        ^^\n  = help: write `0.8` for 80 %",
        ),
        ("engine.env.A=1", "  = help: put it in quotes: `\"1\"`"),
        ("engine.args=- x", "a value is a scalar, or stands in brackets"),
        ("engine.args=a: b", "a value is a scalar, or stands in brackets"),
        ("engine.args=[x", "is not closed before this place"),
        ("engine.args={a: 1, a: 2}", "the key `a` is there twice"),
        ("engine.args", "no value is set"),
        ("extends=x.yaml", "`extends` cannot be set"),
        (
            "engine.speculative.method=ngram",
            "missing key `tokens` in `engine.speculative`\n --> --set\n  |\n  | engine.speculative.method=ngram\n  |        ^^^^^^^^^^^",
        ),
    ] {
        let said = wrong(&[("a.yaml", GOOD)], &[set]);
        assert!(said.contains(told) && said.ends_with("a.yaml: 1 error"), "{set}:\n{said}");
    }
}

#[test]
fn where_values_come_from() {
    let folder = Folder::with(&[
        (
            "a.yaml",
            "extends: b.yaml\nname: child\nserve: { port: ${PORT}, name: \"$${x}\" }\nengine:\n  env:\n    \
             T: { env: T }\n    ON: \"yes\"\n  before: [[sh, -c, \"echo a: b\"], [true-ish]]\n",
        ),
        ("b.yaml", GOOD),
    ]);
    let loaded = folder.load(&["cluster.nodes[spark2].host=local"]).unwrap();
    insta::assert_snapshot!("origins", folder.named(&yaml(&loaded, true)));
    let document = document(&loaded, true);
    assert_eq!(document["profile"], serde_json::to_value(&loaded.profile).unwrap());
    let origins = &document["origins"];
    let file = folder.first.display().to_string();
    for (path, origin) in [
        ("name", serde_json::json!({ "from": "file", "file": file, "line": 2 })),
        (
            "serve.port",
            serde_json::json!({ "from": "environment", "variables": ["PORT"], "file": file, "line": 3 }),
        ),
        ("cluster.nodes[1].host", serde_json::json!({ "from": "set" })),
        ("engine.data_parallel", serde_json::json!({ "from": "default" })),
    ] {
        assert_eq!(origins[path], origin, "{path}");
    }
}

/// The effective profile is a profile, and the same one.
#[test]
fn what_is_shown_reads_back() {
    let texts = [
        "",
        "yes",
        "1",
        "0x1",
        "${x}",
        "$$",
        "a: b",
        "# x",
        "two\nlines",
        "é\u{7}\u{2028}",
        "'\"",
        "~",
        "$x",
        " ",
        "-",
    ];
    let mut profile = parse("x", ANNOTATED).unwrap();
    profile.engine.args =
        texts.iter().map(|text| format!("x{text}")).chain(texts.map(str::to_owned)).collect();
    profile.engine.args.retain(|arg| !arg.trim().is_empty());
    profile.engine.before = vec![["sh"].into_iter().chain(texts).map(str::to_owned).collect()];
    profile.engine.env = texts
        .iter()
        .enumerate()
        .flat_map(|(index, text)| {
            let secret = SecretSource::Command(vec!["sh".to_owned(), (*text).to_owned()]);
            [
                (format!("A{index}"), EnvValue::Text((*text).to_owned())),
                (format!("{text}{index}"), EnvValue::Text(String::new())),
                (format!("B{index}"), EnvValue::Secret(secret)),
            ]
        })
        // The names that a variable can have.
        .filter(|(name, _)| {
            !name.contains(|c: char| c.is_whitespace() || c.is_control())
                && !name.starts_with(|c: char| c.is_ascii_digit())
        })
        .collect();
    for profile in [parse("x", GOOD).unwrap(), parse("x", ANNOTATED).unwrap(), profile] {
        let written = serde_json::to_string(&profile).unwrap();
        // Through YAML's own quotes first, as the test has no file for it: `$` is written twice.
        let loaded =
            Loaded { profile: profile.clone(), places: read("x", GOOD, &Given::NOTHING).unwrap().places };
        for with_origins in [false, true] {
            let shown = yaml(&loaded, with_origins);
            let again = parse("shown", &shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
            assert_eq!(serde_json::to_string(&again).unwrap(), written);
        }
    }
}

/// What is found out later of a field is shown at its place.
#[test]
fn places_of_fields() {
    let folder = Folder::with(&[("a.yaml", "extends: b.yaml\nname: child\n"), ("b.yaml", GOOD)]);
    let places = folder.load(&["serve.port=1"]).unwrap().places;
    let frame = |path: &str| places.frame(path).map(|frame| folder.named(&frame));
    let line = "8 |     - { name: spark2, host: 10.1.230.181, fabric: 192.168.200.13 }";
    let caret = format!("  | {}^^^^^^^^^^^^^^", " ".repeat(50));
    let expected = format!(" --> b.yaml:8:51\n  |\n{line}\n{caret}\n  = extended by a.yaml:1\n");
    assert_eq!(frame("cluster.nodes[1].fabric"), Some(expected));
    assert_eq!(frame("serve.port").unwrap(), " --> --set\n  |\n  | serve.port=1\n  |            ^\n");
    // A field that was left out is shown at its section, and a section that was, nowhere.
    assert!(frame("engine.data_parallel").unwrap().contains("14 | engine:\n"));
    assert_eq!(frame("files"), None);
}
