//! Facts that were recorded, for planning without connecting. Pure.
//!
//! Nodes are called otherwise on another desk, so recorded facts are taken in the order of the
//! profile's nodes, or by their names where they have the same. All else is as it was seen: the
//! fabric's addresses have to be the profile's own.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::facts::NodeFacts;
use crate::profile::NodeName;

/// Format number of the document that `sparkctl facts` prints.
pub const FORMAT: u32 = 1;

/// Reads facts for these nodes: a list of facts, a map of them by node, or the document that
/// `sparkctl facts` prints. The error is words.
pub fn read(json: &str, nodes: &[NodeName]) -> Result<Vec<NodeFacts>, String> {
    let document: Value = serde_json::from_str(json).map_err(|error| format!("it is not JSON: {error}"))?;
    let recorded = match document {
        Value::Array(list) => list,
        Value::Object(fields) if fields.contains_key("format") => listed(Value::Object(fields))?,
        Value::Object(fields) => {
            let names: HashSet<_> = fields.keys().map(String::as_str).collect();
            if nodes.iter().all(|node| names.contains(node.as_str())) {
                nodes.iter().map(|node| fields[node.as_str()].clone()).collect()
            } else {
                fields.into_iter().map(|(_, facts)| facts).collect()
            }
        }
        _ => return Err("it is neither a list of facts nor a map of them by node".to_owned()),
    };
    if recorded.len() != nodes.len() {
        return Err(format!("it has facts of {} nodes, the profile has {}", recorded.len(), nodes.len()));
    }
    let read = |(node, facts): (&NodeName, Value)| {
        let facts: NodeFacts = serde_path_to_error::deserialize(facts).map_err(|error| {
            format!("the facts for {node} make no sense at `{}`: {}", error.path(), error.inner())
        })?;
        Ok(NodeFacts { node: node.clone(), ..facts })
    };
    nodes.iter().zip(recorded).map(read).collect()
}

/// The nodes of a document with a format number.
fn listed(document: Value) -> Result<Vec<Value>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        format: u32,
        nodes: Vec<Value>,
    }
    let Document { format, nodes } = serde_json::from_value(document).map_err(|error| error.to_string())?;
    if format > FORMAT {
        return Err(format!(
            "it was written by a newer sparkctl (format {format}; this one reads up to {FORMAT})"
        ));
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = include_str!("../../tests/data/facts/spark-pair.json");

    fn nodes(names: &[&str]) -> Vec<NodeName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn in_order_or_by_name() {
        let list: Value = serde_json::from_str(PAIR).unwrap();
        let check = |json: &Value, names: &[&str], wanted: &[&str]| {
            let facts = read(&json.to_string(), &nodes(names)).unwrap();
            let told: Vec<_> = facts.iter().map(|facts| facts.system.hostname.as_str()).collect();
            assert_eq!(told, wanted);
            let called: Vec<_> = facts.iter().map(|facts| facts.node.as_str()).collect();
            assert_eq!(called, names);
        };
        check(&list, &["a", "b"], &["spark1", "spark2"]);
        check(&list, &["spark2", "spark1"], &["spark1", "spark2"]);
        let map = serde_json::json!({ "spark1": list[0], "spark2": list[1] });
        check(&map, &["spark2", "spark1"], &["spark2", "spark1"]);
        check(&map, &["spark2"], &["spark2"]);
        check(&map, &["a", "b"], &["spark1", "spark2"]);
        check(&serde_json::json!({ "format": 1, "nodes": list }), &["a", "b"], &["spark1", "spark2"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |json: &str, wanted: &str| {
            let why = read(json, &nodes(&["a", "b"])).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        };
        check("", "it is not JSON");
        check("3", "neither a list of facts nor a map");
        check("[]", "it has facts of 0 nodes, the profile has 2");
        check("{\"format\": 2, \"nodes\": []}", "written by a newer sparkctl");
        check(&PAIR.replacen("\"kernel\"", "\"kernal\"", 1), "the facts for a make no sense at `system.");
        check(&PAIR.replacen("\"mtu\": 9000", "\"mtu\": \"9000\"", 1), "at `interfaces[");
    }
}
