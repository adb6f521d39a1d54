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
        let found = places.map(|place| place.join(name)).find(|path| path.exists())?;
        let mut files = Vec::new();
        if found.is_dir() {
            walk(&found, &mut PathBuf::new(), &mut files);
            files.sort();
            files.first()?;
        }
        let whole = found.canonicalize().unwrap_or(found);
        let path =
            self.profile.as_ref().and_then(|profile| whole.strip_prefix(profile).ok()).unwrap_or(&whole);
        Some(Folder { path: path.to_str()?.to_owned(), files })
    }
}

fn walk(root: &Path, below: &mut PathBuf, files: &mut Vec<String>) {
    let entries = fs::read_dir(root.join(&*below)).into_iter().flatten().flatten();
    for entry in entries {
        if files.len() >= MOST_FILES {
            return;
        }
        below.push(entry.file_name());
        if root.join(&*below).is_dir() {
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if below.components().count() < DEEPEST && !hidden && entry.file_name() != "__pycache__" {
                walk(root, below, files);
            }
        } else if let Some(file) = below.to_str() {
            files.push(file.to_owned());
        }
        below.pop();
    }
}
