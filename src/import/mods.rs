//! What a recipe puts into the container before the launch: mods, files that it copies, commands.
//!
//! A mod is a folder with a `run.sh`; both tools copy it to `/workspace/mods/NAME` in the container and run it there,
//! with `WORKSPACE_DIR` as the folder that the container begins in. Recipes name files by that path, so it stays.

use std::collections::BTreeMap;

use crate::config::any::Any;
use crate::profile::PlacedFile;

use super::ahead::bash;
use super::recipe::{Format, Placed, Recipe, scalar};
use super::report::Report;
use super::{shell, template};

/// Where both tools put mods in the container.
const MODS: &str = "/workspace/mods";
/// More files than this are no chat template and no patch, and would make an unreadable profile.
const MOST_FILES: usize = 200;

/// A mod's folder as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// How the profile names it.
    pub path: String,
    /// All files in it, by their path in it.
    pub files: Vec<String>,
    /// Links in it that lead out of it, or nowhere: a recipe from elsewhere could name any file of the person by them.
    pub outside: Vec<String>,
}

/// What is beside a recipe. Answers come from a disk, or from a test.
pub trait Beside {
    /// The text of another recipe in the recipe's own folder.
    fn recipe(&self, name: &str) -> Option<String>;
    /// The folder of a mod, or a file's path as the profile names it with no files in it.
    fn find(&self, name: &str) -> Option<Folder>;
}

/// Files and commands that go ahead of the engine.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) files: Vec<PlacedFile>,
    pub(super) before: Vec<Vec<String>>,
}

/// The commands of `pre_exec` and then the mods, as both tools order them.
pub(super) fn ahead(
    recipe: &Recipe,
    values: &BTreeMap<String, String>,
    beside: &dyn Beside,
    report: &mut Report,
) -> Ahead {
    let mut ahead = Ahead::default();
    for entry in &recipe.pre_exec {
        pre_exec(entry, values, beside, &mut ahead, report);
    }
    for module in &recipe.mods {
        put_mod(module, recipe.format, beside, &mut ahead, report);
    }
    ahead
}

fn pre_exec(
    entry: &Any,
    values: &BTreeMap<String, String>,
    beside: &dyn Beside,
    ahead: &mut Ahead,
    report: &mut Report,
) {
    if let Some(script) = scalar(entry) {
        let script = template::shown(&template::fill(&script, values, Format::Sparkrun));
        let commands = shell::commands(&script, entry.line, &BTreeMap::new());
        ahead.before.push(match commands.as_slice() {
            [only] if only.is_plain() && !shell::is_control(only) => {
                only.words.iter().map(|word| word.text.clone()).collect()
            }
            _ => bash(&script),
        });
        return;
    }
    let text = |key| entry.get(key).and_then(scalar);
    match (text("copy"), text("dest")) {
        (Some(source), Some(target)) if target.starts_with('/') => {
            let what = format!("pre_exec: copy {source}");
            match bare(&source).and_then(|source| beside.find(source)) {
                Some(folder) => {
                    tell_outside(&folder, &what, entry.line, report);
                    place(&folder, &target, &what, entry.line, ahead, report);
                }
                None => report.lose(entry.line, what, "there is no such file beside the recipe"),
            }
        }
        _ => report.lose(entry.line, "pre_exec", "it is neither a command nor a file to copy"),
    }
}

fn put_mod(module: &Placed, format: Format, beside: &dyn Beside, ahead: &mut Ahead, report: &mut Report) {
    let what = format!("mods: {}", module.text);
    let Some(name) = bare(&module.text) else {
        return report.lose(module.line, what, "it is not the name of a mod");
    };
    let Some(folder) = beside.find(name) else {
        let repository = match format {
            Format::SparkVllmDocker => "spark-vllm-docker",
            Format::Sparkrun => "the recipe's registry",
        };
        report.lose(module.line, what, "its folder is not beside the recipe, nor in `--mods`");
        return report.ask(format!(
            "fetch the folder of the mod `{name}` from {repository} and import again with `--mods DIR`, where DIR has it"
        ));
    };
    tell_outside(&folder, &what, module.line, report);
    let last = name.rsplit('/').next().unwrap_or(name);
    if !folder.files.iter().any(|file| file == "run.sh") {
        return report.lose(module.line, what, "its folder has no `run.sh`");
    }
    let target = format!("{MODS}/{last}");
    if place(&folder, &target, &what, module.line, ahead, report) {
        ahead
            .before
            .push(bash(&format!("export WORKSPACE_DIR=\"$PWD\" && cd {} && bash run.sh", quoted(&target))));
    }
}

/// A mod's name without its registry and the folder that all are in: `@eugr/mods/drop-caches`, `mods/drop-caches`.
fn bare(name: &str) -> Option<&str> {
    let name = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/')?.1,
        None => name,
    };
    let name = name.strip_prefix("mods/").unwrap_or(name).trim_end_matches('/');
    let is_path = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    (is_path && !name.contains(|c: char| c.is_control() || c == ':')).then_some(name)
}

fn tell_outside(folder: &Folder, what: &str, line: usize, report: &mut Report) {
    for link in &folder.outside {
        let why = "it is a link out of the folder that it is in: put the file itself there";
        report.lose(line, format!("{what}: {link}"), why);
    }
}

/// Puts a folder's files, or a single file, at `target` in the container; false where that cannot be.
fn place(
    folder: &Folder,
    target: &str,
    what: &str,
    line: usize,
    ahead: &mut Ahead,
    report: &mut Report,
) -> bool {
    if folder.files.len() > MOST_FILES {
        report.lose(
            line,
            what,
            format!("its folder has more than {MOST_FILES} files: put them into the image"),
        );
        return false;
    }
    let target = target.trim_end_matches('/');
    if folder.files.is_empty() && folder.outside.is_empty() {
        ahead.files.push(PlacedFile { source: folder.path.clone(), target: target.to_owned() });
    }
    for file in &folder.files {
        ahead.files.push(PlacedFile {
            source: format!("{}/{file}", folder.path.trim_end_matches('/')),
            target: format!("{target}/{file}"),
        });
    }
    true
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mods() {
        for (name, bare_name) in [
            ("mods/fix-x", Some("fix-x")),
            ("fix-x", Some("fix-x")),
            ("@eugr/mods/fix-x", Some("fix-x")),
            ("@reg/fix-x", Some("fix-x")),
            ("mods/a/b/", Some("a/b")),
            ("mods/../../etc", None),
            ("/etc", None),
            ("@reg", None),
            ("", None),
        ] {
            assert_eq!(bare(name), bare_name, "{name}");
        }
    }
}
