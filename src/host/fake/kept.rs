//! Placed files and secrets on a machine in memory: the scripts that write, read and compare them.

use super::machine::{FakeContainer, Machine};
use super::scripts::{bad, good};
use crate::delivery::redact::Redactor;
use crate::delivery::{Secret, secret};
use crate::host::{Output, Script};

/// Runs one of these scripts; `None` where it is another.
pub(super) fn run(machine: &mut Machine, script: &Script) -> Option<Output> {
    let deployment = script.args.first().map_or("", String::as_str);
    Some(match script.name {
        "put-kept" => {
            let before = machine.kept.insert(script.args.join("/"), script.input.clone());
            good(if before.as_ref() == Some(&script.input) { "unchanged\n" } else { "changed\n" })
        }
        "take-kept" => match machine.kept.get(&script.args.join("/")) {
            Some(content) => good(content.clone()),
            None => bad("cat: No such file or directory"),
        },
        "read-secrets" => good(secrets(machine, deployment).map(|(_, text)| text).collect::<String>()),
        "compare-secrets" => {
            let wanted = String::from_utf8_lossy(&script.input);
            let mut told = String::new();
            for (file, text) in secrets(machine, deployment) {
                let same = text.lines().filter(|line| wanted.lines().any(|other| other == *line));
                told.extend(same.filter_map(|line| Some(format!("{file} {}\n", line.split_once(' ')?.0))));
            }
            good(told)
        }
        _ => return None,
    })
}

/// What `gather.sh` prints of them.
pub(super) fn section(machine: &Machine, deployment: &str) -> String {
    let front = format!("{deployment}/files/");
    let files = machine.kept.iter().filter_map(|(path, content)| Some((path.strip_prefix(&front)?, content)));
    let files = files.map(|(sha256, content)| format!("files {sha256} {}\n", content.len()));
    let secrets = secrets(machine, deployment).flat_map(|(file, text)| {
        let names = text.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name.to_owned());
        names.map(|name| format!("secrets {file} {name}\n")).collect::<Vec<_>>()
    });
    files.chain(secrets).collect()
}

/// A log as it is kept: without the secrets of the deployment.
pub(super) fn redacted(machine: &Machine, deployment: &str, log: &str) -> String {
    let all: String = secrets(machine, deployment).map(|(_, text)| text).collect();
    Redactor::of(secret::read_files(&all)).redact(log).into_owned()
}

/// Name and text of a deployment's files of secrets.
fn secrets(machine: &Machine, deployment: &str) -> impl Iterator<Item = (String, String)> {
    let front = format!("{deployment}/secrets/");
    machine.kept.iter().filter_map(move |(path, content)| {
        Some((path.strip_prefix(&front)?.to_owned(), String::from_utf8_lossy(content).into_owned()))
    })
}

impl Machine {
    /// What a container reads at one of its mounts that sparkctl keeps.
    pub fn reads(&self, container: &str, target: &str) -> Option<Vec<u8>> {
        let spec = self.containers.get(container)?.spec.as_ref()?;
        let mount = spec.mounts.iter().find(|mount| mount.target == target)?;
        self.kept.get(mount.source.strip_prefix(&self.state_folder())?).cloned()
    }

    /// Sparkctl's folder, with a slash behind.
    fn state_folder(&self) -> String {
        format!("{}/.local/state/sparkctl/", self.system.home)
    }

    /// A mount's source that is not on the machine; the model's folder is looked for by the engine.
    pub(super) fn lacks<'a>(&self, spec: &'a crate::container::ContainerSpec) -> Option<&'a str> {
        let folder = self.state_folder();
        let ours =
            |source: &str| source.strip_prefix(&folder).is_some_and(|path| !self.kept.contains_key(path));
        spec.mounts.iter().map(|mount| mount.source.as_str()).find(|source| ours(source))
    }
}

/// The key that a container's engine asks for.
pub(super) fn key(machine: &Machine, container: &FakeContainer) -> Option<Secret> {
    let mut mounts = container.spec.iter().flat_map(|spec| &spec.mounts);
    let secrets = mounts.find(|mount| mount.source.contains("/secrets/"))?;
    let file = machine.reads(&container.container.name, &secrets.target)?;
    let values = secret::read_files(&String::from_utf8_lossy(&file));
    values.into_iter().find(|(name, _)| name.ends_with("_API_KEY")).map(|(_, key)| key)
}

/// What a careless engine writes into its log: every secret.
pub(super) fn tell(machine: &Machine, container: &FakeContainer) -> Vec<String> {
    let mounts = container.spec.iter().flat_map(|spec| &spec.mounts);
    let files = mounts.filter(|mount| mount.source.contains("/secrets/"));
    let files = files.filter_map(|mount| machine.reads(&container.container.name, &mount.target));
    let values = files.flat_map(|file| secret::read_files(&String::from_utf8_lossy(&file)));
    values.map(|(name, value)| format!("DEBUG: {name}={}", value.reveal())).collect()
}
