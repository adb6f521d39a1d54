//! The annotated example, held against the types.

use super::*;

/// The example names every field of the types, and shows the true defaults.
#[test]
fn the_annotated_example_is_whole() {
    fn keys(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(format!("{path}{key}"));
                keys(value, &format!("{path}{key}."), found);
            }),
            serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, path, found)),
            _ => {}
        }
    }
    let profile = parse("annotated", ANNOTATED).unwrap();
    let mut fields = Vec::new();
    keys(&serde_json::to_value(&profile).unwrap(), "", &mut fields);
    // Had a field been left out of the example, it would be the default's, or not in the list at all.
    let known: Vec<String> = known_fields();
    for field in &known {
        assert!(fields.contains(field), "the example doesn't show `{field}`");
    }
    for field in &fields {
        let key = field.rsplit('.').next().unwrap();
        let is_there = ANNOTATED
            .lines()
            .any(|line| line.trim_start().trim_start_matches("- ").starts_with(&format!("{key}:")));
        assert!(is_there, "the example doesn't show `{field}`");
    }
    let without: String = ANNOTATED
        .lines()
        .filter(|line| !line.ends_with("# default"))
        .fold(String::new(), |text, line| text + line + "\n");
    let without = without
        .replace("\nready:", "\nready: {}")
        .replace("\n  transfer:", "\n  transfer: {}")
        .replace("\nverify:", "\nverify: {}");
    let without = without.replace("\nbench:", "\nbench: {}");
    assert_eq!(parse("without", &without).unwrap_or_else(|error| panic!("{error}")), profile);

    let least = without.lines().filter(|line| !line.ends_with("# optional"));
    let least = parse("least", &least.fold(String::new(), |text, line| text + line + "\n")).unwrap();
    let mut shown = Vec::new();
    keys(&serde_json::to_value(&least).unwrap(), "", &mut shown);
    let optional = ["cluster.user", "model.source", "engine.context_length", "engine.memory_fraction"];
    assert!(optional.iter().all(|field| !shown.contains(&(*field).to_owned())), "{shown:?}");
}

/// The fields of every section, as the types themselves list them when they meet a key that they don't know.
fn known_fields() -> Vec<String> {
    let sections = [
        "",
        "cluster",
        "cluster.nodes",
        "model",
        "image",
        "engine",
        "serve",
        "ready",
        "verify",
        "bench",
        "hooks",
        "hooks.on_failure",
    ];
    let mut fields = Vec::new();
    for section in sections {
        let text = match section {
            "" => "zz: 1".to_owned(),
            "cluster.nodes" => "cluster: { nodes: [{ zz: 1 }] }".to_owned(),
            "hooks.on_failure" => "hooks: { on_failure: { zz: 1 } }".to_owned(),
            _ => format!("{section}: {{ zz: 1 }}"),
        };
        let error = error(&text);
        let unknown = error.problems().iter().find(|mistake| mistake.message.starts_with("unknown key `zz`"));
        let help = unknown.and_then(|mistake| mistake.help.clone()).unwrap();
        let listed = help.split(" are ").nth(1).unwrap().split('`').skip(1).step_by(2);
        fields.extend(
            listed.map(|key| if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }),
        );
    }
    assert!(fields.len() > 35, "{fields:?}");
    fields
}
