//! Records of releases, and what their operations are at.

use serde::Deserialize;

use super::Sections;
use crate::profile::DeploymentName;
use crate::release::journal::{Entry, Holder};
use crate::release::{FORMAT, Release, ReleaseNumber, format};

/// What lies in a deployment's folder.
#[derive(Default)]
pub(super) struct Releases {
    /// Oldest first.
    pub read: Vec<Release>,
    pub unreadable: Vec<String>,
    pub highest: Option<ReleaseNumber>,
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
            let release = release(json)?;
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
    seen.read.sort_by_key(|release| release.number);
    seen
}

/// The journal's lines. One that was cut, or is not understood, is passed over.
pub(super) fn journal(text: &str) -> Vec<Entry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Who holds the lock: the beginning of the token, and words.
pub(super) fn holder(text: &str) -> Option<Holder> {
    let (family, words) = text.lines().next()?.split_once(' ')?;
    Some(Holder { family: family.to_owned(), words: words.to_owned() })
}

fn release(json: &[u8]) -> Result<Release, String> {
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
    // The format first: what a newer record lacks is no damage.
    let Format { format: of } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let (release, unknown) = format::read::<Release>(json).map_err(|why| {
        if of <= FORMAT {
            return why;
        }
        format!("it was written by a newer sparkctl (format {of}; this one reads up to {FORMAT}): {why}")
    })?;
    Ok(Release { unknown, ..release })
}
