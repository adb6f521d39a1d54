//! Paths on the operator's machine, from the folder of the file that they are written in.
//!
//! An effective profile is kept, and used again from other folders and by other files: its local paths are absolute.
//! What begins with `~/` is left to whoever opens it.

use std::path::{Path, PathBuf, absolute};

use super::tree::{self, Node, Step, Value};
use crate::profile::is_local_path;

/// Makes relative paths absolute. `folders` are those of the sources that are files; a path of the command line begins
/// where sparkctl was called.
pub(super) fn paths(node: &mut Node, path: &mut Vec<Step>, folders: &[PathBuf]) {
    let source = node.place.source;
    match &mut node.value {
        Value::Text(text) if is_relative(text) && is_local_path(&tree::names(path)) => {
            let folder = folders.get(source).map_or(Path::new(""), PathBuf::as_path);
            // Without a folder to be in, a relative path stays what it is.
            if let Ok(whole) = absolute(folder.join(&*text)) {
                *text = whole.display().to_string();
            }
        }
        Value::List(list) => {
            for (index, child) in list.iter_mut().enumerate() {
                path.push(Step::Index(index));
                paths(child, path, folders);
                path.pop();
            }
        }
        Value::Map(map) => {
            for (key, child) in map {
                path.push(Step::Key(key.clone()));
                paths(child, path, folders);
                path.pop();
            }
        }
        _ => {}
    }
}

fn is_relative(text: &str) -> bool {
    !text.is_empty() && text != "~" && !text.starts_with('/') && !text.starts_with("~/")
}

#[cfg(test)]
mod tests {
    use super::super::{Given, load};
    use crate::profile::{EnvValue, SecretSource};

    #[test]
    fn a_path_begins_where_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("base")).unwrap();
        let base = include_str!("../../profiles/qwen35-122b.yaml")
            .replace("  env: {}\n", "  env: { A: { file: a }, H: { file: ~/h }, T: text }\n");
        let base = base + "\nfiles: [{ source: x/one, target: /one }, { source: /abs/two, target: /two }]\n";
        std::fs::write(at("base/base.yaml"), base).unwrap();
        let over = "extends: base/base.yaml\nengine: { env: { B: { file: b } } }\n";
        std::fs::write(at("over.yaml"), over).unwrap();
        let set = ["engine.env.C={ file: c }".to_owned()];
        let profile = load(&at("over.yaml"), &Given { set: &set, ..Given::NOTHING }).unwrap().profile;
        let path = |name: &str| match &profile.engine.env[name] {
            EnvValue::Secret(SecretSource::File(path)) => path.clone(),
            other => panic!("{other:?}"),
        };
        let shown = |name: &str| at(name).display().to_string();
        let here = std::env::current_dir().unwrap().join("c").display().to_string();
        assert_eq!([path("A"), path("B"), path("C")], [shown("base/a"), shown("b"), here]);
        assert_eq!(path("H"), "~/h");
        let sources: Vec<_> = profile.files.iter().map(|file| file.source.as_str()).collect();
        assert_eq!(sources, [shown("base/x/one").as_str(), "/abs/two"]);
    }
}
