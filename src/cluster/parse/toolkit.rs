//! NVIDIA's container toolkit, and the tools that sparkctl runs on nodes.

use std::collections::BTreeMap;

use crate::cluster::facts::ContainerToolkit;

/// From `nvidia-ctk --version`, the runtime's configuration, and paths of CDI specifications.
pub(super) fn toolkit(version: &str, config: &str, cdi: &str) -> Option<ContainerToolkit> {
    // `NVIDIA Container Toolkit CLI version 1.18.0`
    let version = version.lines().find_map(|line| line.split_once("version ")?.1.split_whitespace().next());
    let cdi_files: Vec<_> = cdi.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if version.is_none() && config.trim().is_empty() && cdi_files.is_empty() {
        return None;
    }
    Some(ContainerToolkit { version: version.map(str::to_owned), mode: mode(config), cdi_files })
}

/// `mode = "auto"` in the table `[nvidia-container-runtime]`.
fn mode(toml: &str) -> Option<String> {
    let mut table = "";
    for line in toml.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            table = name.split(']').next().unwrap_or_default().trim();
        } else if table == "nvidia-container-runtime"
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "mode"
        {
            let value = value.split('#').next().unwrap_or_default();
            return Some(value.trim().trim_matches(['"', '\'']).to_owned());
        }
    }
    None
}

/// `rsync rsync  version 3.2.7  protocol version 32`: the first word that looks like a version.
pub(super) fn tools(text: &str) -> BTreeMap<String, String> {
    let tool = |line: &str| {
        let (name, said) = line.split_once(' ')?;
        let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        Some((name.to_owned(), version.unwrap_or("unknown").to_owned()))
    };
    text.lines().filter_map(tool).collect()
}
