//! The JSON Schema, held against the committed copy, the profiles at hand, and wrong ones.

use serde_json::{Value as Json, json};

use super::super::tree::{Node, Value};
use super::*;

/// A file as it is written, before the language looks at it.
fn as_written(text: &str) -> Json {
    fn json(node: &Node) -> Json {
        match &node.value {
            Value::Null | Value::StandIn(_) => Json::Null,
            Value::Bool(is) => (*is).into(),
            Value::Int(whole) => i64::try_from(*whole).unwrap().into(),
            Value::Float(number, _) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(list) => list.iter().map(json).collect(),
            Value::Map(map) => map.iter().map(|(key, node)| (key.clone(), json(node))).collect(),
        }
    }
    let read = reader::read(text).expect("it is YAML");
    json(&read.root.expect("it is not empty"))
}

fn validator() -> jsonschema::Validator {
    jsonschema::options().should_validate_formats(true).build(&schema()).expect("it is a schema")
}

#[test]
fn the_committed_copy_is_the_programs() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/profile.schema.json");
    let committed = std::fs::read_to_string(file).unwrap();
    assert!(committed == format!("{:#}\n", schema()), "run `sparkctl schema > schema/profile.schema.json`");
}

#[test]
fn every_profile_at_hand_is_valid() {
    let validator = validator();
    let mut count = 0;
    for folder in ["profiles", "examples"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let instance = as_written(&std::fs::read_to_string(&path).unwrap());
                let errors: Vec<_> =
                    validator.iter_errors(&instance).map(|error| error.to_string()).collect();
                assert_eq!(errors, [""; 0], "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn what_the_language_adds_is_valid() {
    let validator = validator();
    for (from, to) in [
        ("port: 30000", "port: ${PORT}"),
        ("0.80", "${FRACTION:-0.8}"),
        ("kind: vllm", "kind: ${KIND}"),
        ("fabric: 192.168.200.13", "fabric: 192.168.${NET}.13"),
        ("name: spark2", "name: spark${N}"),
        ("chat: true", "chat: ${CHAT}"),
        ("[1, 4]", "[${ONE}, 4]"),
        ("timeout: 45m", "timeout: ${MINUTES}m"),
        ("env: {}", "env: { A: { env: A }, B: { file: ~/b }, C: { command: [pass, c] }, D: d }"),
        ("0.80", "null"),
        ("source: hf:Qwen/Qwen3.5-122B-A10B-FP8", "source:"),
    ] {
        let instance = as_written(&edited(&[(from, to)]));
        let errors: Vec<_> = validator.iter_errors(&instance).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{to}");
    }
    for text in ["extends: a.yaml", "extends: a.yaml\nengine: { args: [] }\ncluster: { user: x }"] {
        assert!(validator.is_valid(&as_written(text)), "{text}");
    }
}

#[test]
fn what_is_wrong_is_not_valid() {
    let validator = validator();
    for (from, to) in [
        ("version: 1", "version: 2"),
        ("port: 30000", "port: 70000"),
        ("port: 30000", "port: \"30000\""),
        ("port: 30000", "prt: 30000"),
        ("kind: vllm", "kind: vlm"),
        ("kind: vllm", "launch: ray #"),
        ("0.80", "80"),
        ("0.80", "0"),
        ("32768", "0"),
        ("32768", "4294967296"),
        ("name: spark2", "name: Spark 2"),
        ("fabric: 192.168.200.13", "fabric: 192.168.200"),
        (", fabric: 192.168.200.13", ""),
        ("timeout: 45m", "timeout: 45"),
        ("timeout: 45m", "timeout: 45 min"),
        ("restore", "retry"),
        ("env: {}", "env: { A: 1 }"),
        ("env: {}", "env: { A: { env: A, file: b } }"),
        ("env: {}", "env: { A: { enf: A } }"),
        ("path: /home", "path: home"),
        ("chat: true", "chat: \"true\""),
        ("chat: true", "chat: $YES"),
        ("model:", "modl:"),
    ] {
        assert!(!validator.is_valid(&as_written(&edited(&[(from, to)]))), "{to}");
        assert!(parse("x", &edited(&[(from, to)])).is_err(), "{to}: the schema is stricter than the program");
    }
    // With `extends` keys may be missing, but not in the elements of lists, which are replaced whole.
    let partial = "extends: a.yaml\ncluster: { nodes: [{ name: a }] }";
    assert!(!validator.is_valid(&as_written(partial)));
    assert!(!validator.is_valid(&json!({})));
}

/// Every field has its documentation, as an editor shows it.
#[test]
fn every_field_is_explained() {
    fn walk(schema: &Json, path: &str, count: &mut usize) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = property["description"].as_str().is_some_and(|text| text.len() > 5);
            assert!(described, "{path} has no description");
            *count += 1;
        }
        for (name, below) in schema["$defs"].as_object().into_iter().flatten() {
            walk(below, &format!("{path}.{name}"), count);
        }
    }
    let mut count = 0;
    walk(&schema(), "", &mut count);
    assert!(count > 45, "{count}");
}
