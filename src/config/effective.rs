//! The effective profile, as YAML or for programs: complete, with defaults, and where each value comes from.
//!
//! The YAML is a profile again, and the same one. A secret is in it as where it comes from, never as what it is.

use serde_json::{Map, Value, json};

use super::places::{Loaded, Origin};
use super::tree::{self, Step};
use super::{variables, write};
use crate::profile::is_verbatim;

/// The profile as YAML, in the order of its types; with a comment behind each value that says where it comes from.
pub fn yaml(loaded: &Loaded, with_origins: bool) -> String {
    let text = |path: &[Step], text: &str| {
        if is_verbatim(&tree::names(path)) { text.to_owned() } else { variables::escape(text) }
    };
    let comment = |path: &[Step]| with_origins.then(|| loaded.places.origin(path).to_string());
    write::write(&whole(loaded), &text, &comment)
}

/// Text as a single value in a profile's file: in quotes where YAML needs them, and with no variable in it.
pub fn single(text: &str) -> String {
    write::quoted(&variables::escape(text))
}

/// The profile for programs: `profile`, and with origins `origins`, by path.
pub fn document(loaded: &Loaded, with_origins: bool) -> Value {
    let profile = whole(loaded);
    if !with_origins {
        return json!({ "profile": profile });
    }
    let mut origins = Vec::new();
    collect(&profile, &mut Vec::new(), loaded, &mut origins);
    let origins: Map<String, Value> = origins
        .into_iter()
        .map(|(path, origin)| (path, serde_json::to_value(origin).unwrap_or(Value::Null)))
        .collect();
    json!({ "profile": profile, "origins": origins })
}

fn whole(loaded: &Loaded) -> Value {
    serde_json::to_value(&loaded.profile).expect("a profile is always JSON")
}

/// The origins of all single values and empty collections.
fn collect(value: &Value, path: &mut Vec<Step>, loaded: &Loaded, origins: &mut Vec<(String, Origin)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(Step::Key(key.clone()));
                collect(value, path, loaded, origins);
                path.pop();
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, value) in list.iter().enumerate() {
                path.push(Step::Index(index));
                collect(value, path, loaded, origins);
                path.pop();
            }
        }
        _ => origins.push((tree::written(path), loaded.places.origin(path))),
    }
}
