//! What lies on a machine in memory that nothing may need: the scripts that list and remove it.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::scripts::{bad, good};
use crate::host::{Output, Script};
use crate::prune::{Inventory, Record};
use crate::release::Release;

/// Runs one of these scripts; `None` where it is another.
pub(super) fn run(machine: &mut Machine, script: &Script) -> Option<Output> {
    match script.name {
        "inventory" => {
            let said = serde_json::to_string(&inventory(machine, &script.args[1..]));
            Some(good(said.unwrap_or_default()))
        }
        "remove" => Some(remove(machine, script).map_or_else(|why| bad(&why), |()| good(""))),
        _ => None,
    }
}

fn inventory(machine: &Machine, models: &[String]) -> Inventory {
    let mut records: BTreeMap<String, BTreeMap<String, Record>> = BTreeMap::new();
    for ((deployment, number), folder) in &machine.releases {
        let read = folder.record.as_ref().and_then(|json| serde_json::from_slice::<Release>(json).ok());
        let logs: usize = folder.logs.values().map(String::len).sum();
        let record = Record {
            bytes: (folder.record.as_ref().map_or(0, Vec::len) + logs) as u64,
            image: read.as_ref().map(|release| release.image.content.0.clone()),
            model: read.map(|release| release.profile.model.path),
        };
        records.entry(deployment.clone()).or_default().insert(number.clone(), record);
    }
    let there = || models.iter().filter_map(|path| Some((path, machine.folders.get(path)?)));
    let whole = there().filter(|(_, folder)| folder.file("config.json").is_some());
    Inventory {
        records,
        partial: there()
            .filter(|(_, folder)| folder.partial > 0)
            .map(|(path, folder)| (format!("{path}/.sparkctl/incoming"), folder.partial))
            .collect(),
        models: whole
            .map(|(path, folder)| (path.clone(), folder.files.iter().map(|file| file.size).sum()))
            .collect(),
        volumes: machine.volumes.iter().cloned().collect(),
    }
}

/// As the script does: an image that a container uses keeps its last name.
fn remove(machine: &mut Machine, script: &Script) -> Result<(), String> {
    let argument = |at: usize| script.args.get(at).map_or("", String::as_str);
    let (kind, name) = (argument(0), argument(1));
    match kind {
        "image" => {
            let image = machine.image(name).cloned().ok_or(format!("No such image: {name}"))?;
            let is_it = |name: &str| name == image.id || image.references.iter().any(|held| held == name);
            let used = machine.containers.values().any(|c| is_it(&c.container.image));
            if used && image.references.len() == 1 {
                return Err(format!(
                    "conflict: unable to remove repository reference \"{name}\" (must force)"
                ));
            }
            machine.untag(name);
            machine.images.retain(|image| !image.references.is_empty());
        }
        "volume" => {
            machine.volumes.remove(name);
        }
        "files" | "secrets" => {
            machine.kept.remove(&format!("{name}/{kind}/{}", argument(2)));
        }
        "partial" => {
            let folder = name.strip_suffix("/.sparkctl/incoming").ok_or("it is no folder of sparkctl's")?;
            if let Some(folder) = machine.folders.get_mut(folder) {
                folder.partial = 0;
            }
        }
        "weights" => {
            machine.folders.remove(name);
        }
        "release" => {
            machine.releases.remove(&(name.to_owned(), argument(2).to_owned()));
        }
        other => return Err(format!("nothing of kind {other} is known")),
    }
    Ok(())
}
