//! Records of releases.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Sections;
use crate::profile::DeploymentName;
use crate::release::{Ended, EndedFile, FORMAT, Release, ReleaseNumber};

/// What lies in a deployment's folder.
#[derive(Default)]
pub(super) struct Releases {
    /// Oldest first.
    pub read: Vec<Release>,
    pub unreadable: Vec<String>,
    pub highest: Option<ReleaseNumber>,
    /// What must not run any more on nodes that were away.
    pub ended: Vec<Ended>,
}

/// From the sections `release NNNN`. A folder's number counts even where its record does not.
pub(super) fn releases(sections: &Sections, deployment: Option<&DeploymentName>) -> Releases {
    let mut seen = Releases::default();
    for (folder, json) in sections.beginning("release ") {
        let number = folder.parse::<ReleaseNumber>();
        if let Ok(number) = number {
            seen.highest = seen.highest.max(Some(number));
        }
        let release = number.and_then(|number| {
            let release: Release = document(json)?;
            if release.number != number {
                return Err(format!("it says that it is release {}", release.number));
            }
            if Some(&release.deployment) != deployment {
                return Err(format!("it says that it is of deployment `{}`", release.deployment));
            }
            Ok(release)
        });
        match release {
            Ok(release) => seen.read.push(release),
            Err(why) => seen.unreadable.push(format!("releases/{folder}: {why}")),
        }
    }
    if let Some(json) = sections.bytes("ended") {
        match document::<EndedFile>(json) {
            Ok(file) => seen.ended = file.nodes,
            Err(why) => seen.unreadable.push(format!("ended.json: {why}")),
        }
    }
    seen.read.sort_by_key(|release| release.number);
    seen
}

fn document<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err("the record is empty".to_owned());
    }
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(String::from_utf8_lossy(json).trim().to_owned());
    }
    // The format first: a newer record may have fields that are unknown here.
    let Format { format } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if format > FORMAT {
        return Err(format!(
            "it was written by a newer sparkctl (format {format}; this one reads up to {FORMAT})"
        ));
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}
