//! Recipes that build on another one: sparkrun's `include`, by its rules of merging.
//!
//! Maps are merged key by key, all else is replaced, a null takes away; a value in `defaults` or `env` is one setting
//! and never merged. Only a recipe beside this one is read; registries are not.

use crate::config::any::{self, Any, AnyValue};

use super::mods::Beside;
use super::report::{Refused, Report};

/// Longer chains are a circle.
const LONGEST: usize = 8;

/// The recipe with all that it builds on.
pub(super) fn resolve(tree: Any, beside: &dyn Beside, report: &mut Report) -> Result<Any, Refused> {
    let mut tree = tree;
    for _ in 0..LONGEST {
        let Some(include) = tree.get("include") else { return Ok(tree) };
        let (line, Some(name)) = (include.line, include.text().map(str::to_owned)) else {
            return Err(Refused::new(include.line, "`include` does not name a recipe"));
        };
        let Some(text) = beside.recipe(&name) else {
            let message = format!("the recipe builds on `{name}`, which is not beside it");
            let hint = "put that recipe into the same folder and name it there, or import what `sparkrun export` prints";
            return Err(Refused::new(line, message).hint(hint));
        };
        let (base, _) = any::read(&name, &text).map_err(|error| {
            let why = error.problems().first().map_or("", |mistake| mistake.message.as_str());
            Refused::new(line, format!("`{name}` cannot be read: {why}"))
        })?;
        report.spare(line, format!("include: {name}"), "that recipe was merged in");
        tree = merge(without_lines(base), tree);
    }
    Err(Refused::new(0, format!("the recipe builds on more than {LONGEST} others, or on itself")))
}

/// `outer` over `base`, which may itself name another.
fn merge(base: Any, outer: Any) -> Any {
    let other_model =
        outer.get("model").is_some_and(|model| base.get("model").map(|m| &m.value) != Some(&model.value));
    let AnyValue::Map(mut merged) = base.value else { return outer };
    // What describes another model says nothing of this one.
    merged.retain(|(key, _)| !(other_model && key == "metadata"));
    let AnyValue::Map(entries) = outer.value else {
        return Any { line: outer.line, value: AnyValue::Map(merged) };
    };
    for (key, value) in entries.into_iter().filter(|(key, _)| key != "include") {
        let atomic = ["defaults", "env"].contains(&key.as_str());
        put(&mut merged, key, value, atomic);
    }
    Any { line: outer.line, value: AnyValue::Map(merged) }
}

fn put(map: &mut Vec<(String, Any)>, key: String, value: Any, atomic: bool) {
    let at = map.iter().position(|(name, _)| *name == key);
    match (at, value.value) {
        (Some(at), AnyValue::Null) => drop(map.remove(at)),
        (None, AnyValue::Null) => {}
        (Some(at), AnyValue::Map(entries)) if matches!(map[at].1.value, AnyValue::Map(_)) => {
            let AnyValue::Map(inner) = &mut map[at].1.value else { return };
            for (key, value) in entries {
                match inner.iter().position(|(name, _)| *name == key) {
                    // One level below `defaults` and `env` a value is a setting of its own.
                    Some(at) if atomic && value.value != AnyValue::Null => inner[at].1 = value,
                    _ => put(inner, key, value, false),
                }
            }
        }
        (Some(at), value_of) => map[at].1 = Any { line: value.line, value: value_of },
        (None, value_of) => map.push((key, Any { line: value.line, value: value_of })),
    }
}

/// Lines of another file would mislead.
fn without_lines(any: Any) -> Any {
    let value = match any.value {
        AnyValue::List(list) => AnyValue::List(list.into_iter().map(without_lines).collect()),
        AnyValue::Map(map) => {
            AnyValue::Map(map.into_iter().map(|(key, value)| (key, without_lines(value))).collect())
        }
        value => value,
    };
    Any { line: 0, value }
}
