//! The JSON Schema (draft 2020-12) of a profile's file, for editors: what the types say, and what the language adds.
//!
//! The language adds `extends`, with which a file may leave out what the other has, and `${NAME}`, which may stand for
//! any single value. Left out: what is wrong beyond types ([`crate::profile::validate`]).

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::fit::EXTENDS;
use crate::profile::Profile;

/// The name of the schema; it is no address.
const ID: &str = "urn:sparkctl:profile:1";
/// Where the schema of `${NAME}` stands.
const VARIABLE: &str = "Variable";

/// The schema of a profile's file.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<Profile>());
    let needed = needed(&mut schema);
    single_values(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("$id".to_owned(), json!(ID));
        root.insert("title".to_owned(), json!("sparkctl profile"));
        root.insert(
            "description".to_owned(),
            json!(
                "A deployment: one model, on the nodes of one cluster, served at one port. A file with `extends` may leave \
                 out what the other file has. A file that is only there to be extended may leave out anything, and is then \
                 not valid by itself."
            ),
        );
        let has_extends = json!({ "required": [EXTENDS] });
        root.insert("if".to_owned(), has_extends);
        root.insert("then".to_owned(), json!(true));
        root.insert("else".to_owned(), needed);
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        let description = "A profile's file that this one extends, relative to this one: sections are merged, and what stands \
                           here wins; lists are replaced whole.";
        properties.insert(
            EXTENDS.to_owned(),
            json!({ "description": description, "type": "string", "minLength": 1 }),
        );
    }
    schema["$defs"][VARIABLE] = json!({
        "description": "A value with `${NAME}` or `${NAME:-default}` in it, from the environment.",
        "type": "string",
        "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
    });
    schema
}

/// Takes the required keys out of all sections that are merged, and gives them back as a schema of their own.
fn needed(root: &mut Value) -> Value {
    let mut needed = Map::new();
    let mut sections = Vec::new();
    for (name, property) in root["properties"].as_object().into_iter().flatten() {
        sections.extend(section(property).map(|section| (name.clone(), section)));
    }
    needed.extend(root.as_object_mut().and_then(|root| root.shift_remove("required")).map(required));
    let mut properties = Map::new();
    for (name, section) in sections {
        let mut below = root["$defs"][&section].take();
        below["$defs"] = root["$defs"].take();
        let inner = self::needed(&mut below);
        root["$defs"] = below["$defs"].take();
        if let Some(below) = below.as_object_mut() {
            below.shift_remove("$defs");
        }
        root["$defs"][&section] = below;
        if inner.as_object().is_some_and(|inner| !inner.is_empty()) {
            properties.insert(name, inner);
        }
    }
    if !properties.is_empty() {
        needed.insert("properties".to_owned(), properties.into());
    }
    Value::Object(needed)
}

fn required(keys: Value) -> (String, Value) {
    ("required".to_owned(), keys)
}

/// The definition that a property refers to, also where it may be null instead.
fn section(property: &Value) -> Option<String> {
    let direct = property["$ref"].as_str();
    let or_null = || property["anyOf"].as_array()?.iter().find_map(|one| one["$ref"].as_str());
    direct.or_else(or_null)?.strip_prefix("#/$defs/").map(str::to_owned)
}

/// Lets `${NAME}` stand wherever a single value has to be more than any text.
fn single_values(schema: &mut Value) {
    if let Value::Array(all) = schema {
        all.iter_mut().for_each(single_values);
        return;
    }
    let Value::Object(map) = schema else { return };
    if let Some(Value::String(description)) = map.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    match map.get("format").and_then(Value::as_str) {
        Some("uint32") => {
            map.shift_remove("format");
            map.insert("maximum".to_owned(), json!(u32::MAX));
        }
        // Words that only programs in Rust know.
        Some("uint64" | "double") => drop(map.shift_remove("format")),
        _ => {}
    }
    if !takes_any_text(map) {
        let mut whole = Map::new();
        for word in ["description", "default"] {
            whole.extend(map.shift_remove(word).map(|value| (word.to_owned(), value)));
        }
        let own = Value::Object(std::mem::take(map));
        whole.insert("anyOf".to_owned(), json!([own, { "$ref": format!("#/$defs/{VARIABLE}") }]));
        *map = whole;
        return;
    }
    for (word, below) in map.iter_mut() {
        match (word.as_str(), below) {
            ("properties" | "$defs", Value::Object(all)) => all.values_mut().for_each(single_values),
            ("items" | "additionalProperties" | "anyOf" | "oneOf", below) => single_values(below),
            _ => {}
        }
    }
}

/// False for a schema of single values that text with a `${NAME}` in it would not fit.
fn takes_any_text(map: &Map<String, Value>) -> bool {
    let words =
        |value: &Value| value.as_array().is_some_and(|all| all.iter().all(|one| one.get("const").is_some()));
    let is = |kind: &str| match &map.get("type") {
        Some(Value::String(own)) => own == kind,
        Some(Value::Array(all)) => all.iter().any(|own| own == kind),
        _ => false,
    };
    let is_narrow = ["pattern", "format", "enum", "const"].iter().any(|word| map.contains_key(*word));
    let is_choice = map.get("oneOf").is_some_and(words);
    !(is("integer") || is("number") || is("boolean") || is_choice || is("string") && is_narrow)
}
