//! The disk around a recipe: mods, files that it copies, the recipe that it builds on. The only part of the import
//! that touches anything, and it only reads.

use std::fs;
use std::path::{Path, PathBuf};

use super::mods::{Beside, Folder};

/// How far up from the recipe a folder of mods is looked for: `recipes/4x-spark-cluster/x.yaml` has them two above.
const LEVELS: usize = 4;
/// Levels of folders in a mod.
const DEEPEST: usize = 8;
/// Files in a mod that are listed; what has more is refused by its reader.
const MOST_FILES: usize = 1000;
/// Entries that are looked at: links in a circle have no end of their own.
const MOST_ENTRIES: usize = 10_000;

/// The folders around one recipe.
#[derive(Debug)]
pub struct Disk {
    /// The recipe's own folder.
    pub recipe: PathBuf,
    /// Folders that have mods in them, looked at first.
    pub mods: Vec<PathBuf>,
    /// The folder that the profile will be in: what is below it is named from there.
    pub profile: Option<PathBuf>,
}

impl Beside for Disk {
    fn recipe(&self, name: &str) -> Option<String> {
        let is_name = !name.contains('/') && !name.starts_with('.');
        let names = [name.to_owned(), format!("{name}.yaml"), format!("{name}.yml")];
        let file = names
            .iter()
            .filter(|_| is_name)
            .map(|name| self.recipe.join(name))
            .find(|path| path.is_file())?;
        fs::read_to_string(file).ok()
    }

    fn find(&self, name: &str) -> Option<Folder> {
        let above = self.recipe.ancestors().take(LEVELS).map(|folder| folder.join("mods"));
        let places = self.mods.iter().cloned().chain([self.recipe.clone()]).chain(above);
        let (place, found) =
            places.map(|place| (place.clone(), place.join(name))).find(|(_, path)| path.exists())?;
        let whole = found.canonicalize().ok()?;
        if !whole.starts_with(place.canonicalize().ok()?) {
            return Some(Folder {
                path: found.to_str()?.to_owned(),
                files: Vec::new(),
                outside: vec![name.to_owned()],
            });
        }
        let mut walk = Walk { root: &whole, files: Vec::new(), outside: Vec::new(), seen: 0 };
        if whole.is_dir() {
            walk.below(&mut PathBuf::new());
            walk.files.sort();
            walk.outside.sort();
            walk.files.first().or(walk.outside.first())?;
        }
        let path =
            self.profile.as_ref().and_then(|profile| whole.strip_prefix(profile).ok()).unwrap_or(&whole);
        Some(Folder { path: path.to_str()?.to_owned(), files: walk.files, outside: walk.outside })
    }
}

/// The way through a mod's folder, whose real path is `root`.
struct Walk<'a> {
    root: &'a Path,
    files: Vec<String>,
    outside: Vec<String>,
    seen: usize,
}

impl Walk<'_> {
    fn below(&mut self, below: &mut PathBuf) {
        let entries = fs::read_dir(self.root.join(&*below)).into_iter().flatten().flatten();
        for entry in entries {
            self.seen += 1;
            if self.files.len() >= MOST_FILES || self.seen > MOST_ENTRIES {
                return;
            }
            below.push(entry.file_name());
            let path = self.root.join(&*below);
            let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
            let is_inside = !is_link || path.canonicalize().is_ok_and(|it| it.starts_with(self.root));
            if !is_inside {
                self.outside.push(below.to_string_lossy().into_owned());
            } else if path.is_dir() {
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                if below.components().count() < DEEPEST && !hidden && entry.file_name() != "__pycache__" {
                    self.below(below);
                }
            } else if let Some(file) = below.to_str() {
                self.files.push(file.to_owned());
            }
            below.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_out_of_a_mod_are_left_out() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let module = root.join("recipes/mods/fix");
        fs::create_dir_all(module.join("sub")).unwrap();
        fs::create_dir(root.join("secret")).unwrap();
        for file in ["secret/key", "recipes/mods/fix/run.sh", "recipes/mods/fix/sub/a"] {
            fs::write(root.join(file), "x").unwrap();
        }
        for (to, link) in [
            (root.join("secret/key"), "key"),
            ("../../../../secret/key".into(), "sub/key"),
            (root.join("secret"), "folder"),
            ("nowhere".into(), "gone"),
            ("run.sh".into(), "start.sh"),
            ("sub".into(), "same"),
            (root.join("secret"), "../whole"),
            (root.join("secret/key"), "../one"),
        ] {
            symlink(to, module.join(link)).unwrap();
        }
        let disk = Disk { recipe: root.join("recipes"), mods: Vec::new(), profile: None };
        let found = disk.find("fix").unwrap();
        assert_eq!(found.files, ["run.sh", "same/a", "start.sh", "sub/a"]);
        assert_eq!(found.outside, ["folder", "gone", "key", "same/key", "sub/key"]);
        for name in ["whole", "one"] {
            let found = disk.find(name).unwrap();
            assert!(found.files.is_empty(), "{name}");
            assert_eq!(found.outside, [name]);
        }
        let recipe = "recipe_version: \"1\"\nmodel: acme/Tiny-8B\ncontainer: acme/serve:1\nmods: [mods/fix, mods/one]\ncommand: vllm serve acme/Tiny-8B\n";
        let wanted = crate::import::Wanted { name: None, cluster: None, models: "/models".to_owned() };
        let imported = crate::import::import("x.yaml", recipe, &wanted, &disk).unwrap();
        assert!(imported.profile.files.iter().all(|file| !file.source.ends_with("/key")));
        let told: Vec<_> = imported.report.not_carried.iter().map(|item| item.what.as_str()).collect();
        assert!(told.contains(&"mods: mods/fix: key") && told.contains(&"mods: mods/one: one"), "{told:?}");
    }
}
