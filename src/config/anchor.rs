//! Relative paths of the operator's machine: each begins at the folder of the file that it is written in, also where that
//! file is one that the profile extends; one of the command line begins at the current folder.

use std::path::{Path, PathBuf};

use super::places::Places;
use crate::profile::{EnvValue, Profile, SecretSource};

/// Makes the paths absolute, so that they mean the same wherever the profile is remembered. `~/` stays.
pub(super) fn anchor(profile: &mut Profile, places: &Places) {
    for (index, file) in profile.files.iter_mut().enumerate() {
        file.source = absolute(&file.source, places, &format!("files[{index}].source"));
    }
    for (name, value) in &mut profile.engine.env {
        if let EnvValue::Secret(SecretSource::File(path)) = value {
            *path = absolute(path, places, &format!("engine.env.{name}.file"));
        }
    }
}

fn absolute(path: &str, places: &Places, field: &str) -> String {
    if path.starts_with("~/") {
        return path.to_owned();
    }
    let whole = folder(places, field).join(path);
    // Where there is no current folder any more, the path stays as it is.
    std::path::absolute(&whole).unwrap_or(whole).display().to_string()
}

/// The folder of the file that the value is written in.
fn folder(places: &Places, field: &str) -> PathBuf {
    let source = places.tree.find(field).place.source;
    if places.sources.is_argument(source) {
        return PathBuf::new();
    }
    Path::new(places.sources.path(source)).parent().map(Path::to_owned).unwrap_or_default()
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
