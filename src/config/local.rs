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
