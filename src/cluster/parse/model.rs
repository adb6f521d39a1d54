//! The model's folder, what is in its files, and disks.

use serde::de::DeserializeOwned;

use super::{Gaps, Sections, first_line};
use crate::cluster::facts::{Disk, Missing, ModelContent, ModelFile, ModelFolder};

/// The folder; `None` where there is none, or none was asked for.
pub(super) fn folder(sections: &Sections, gaps: &mut Gaps) -> Result<Option<ModelFolder>, String> {
    let text = |name: &str| sections.text(name).unwrap_or_default();
    let bytes = |name: &str| sections.bytes(name).unwrap_or_default();
    if text("model").trim() != "folder" {
        return Ok(None);
    }
    let unreadable = text("model-problems");
    let unreadable = unreadable.lines().map(str::trim).filter(|line| !line.is_empty());
    let content = sections.bytes("model-content");
    let mut content: Option<ModelContent> =
        content.and_then(|json_text| gaps.or_gap("model-content", json(json_text)));
    let mut files = files(bytes("model-files"))?;
    let mut hashes = content.as_mut().map(|content| std::mem::take(&mut content.hashes)).unwrap_or_default();
    for file in &mut files {
        file.sha256 = hashes.remove(&file.path);
    }
    Ok(Some(ModelFolder {
        files,
        dangling: names(bytes("model-dangling")),
        outside: names(bytes("model-outside")),
        partial: text("model-partial")
            .lines()
            .filter_map(|size| size.trim().parse::<u64>().ok())
            .fold(0, u64::saturating_add),
        unreadable: unreadable.map(str::to_owned).collect(),
        content,
    }))
}

/// The last line of what a script in Python printed; no `python3`, no line.
pub(super) fn json<T: DeserializeOwned>(output: &[u8]) -> Result<T, Missing> {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).ok_or(Missing::NoCommand)?;
    serde_json::from_str(last).map_err(|_| Missing::Failed(first_line(last)))
}

/// `270553174016 40954265600`, perhaps below a heading: bytes in all, and free ones.
pub(super) fn disk(text: &str) -> Option<Disk> {
    let mut fields = text.lines().rev().find(|line| !line.trim().is_empty())?.split_whitespace();
    Some(Disk { total: fields.next()?.parse().ok()?, free: fields.next()?.parse().ok()? })
}

/// The entries of a list with a NUL behind each.
fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == 0).filter(|entry| !entry.is_empty())
}

fn files(list: &[u8]) -> Result<Vec<ModelFile>, String> {
    let file = |entry: &[u8]| {
        let lossy = String::from_utf8_lossy(entry);
        let refused = |why: &str| format!("a file of the model has a name that {why}: {lossy:?}");
        let text = std::str::from_utf8(entry).map_err(|_| refused("is not UTF-8"))?;
        let mut fields = text.splitn(3, ' ');
        let (size, mtime, path) = (fields.next(), fields.next(), fields.next());
        let size = size.and_then(|size| size.parse().ok());
        let mtime = mtime.and_then(|mtime| mtime.split('.').next()?.parse().ok());
        let (Some(size), Some(mtime), Some(path)) = (size, mtime, path) else {
            return Err(format!("the list of the model's files has an entry that makes no sense: {text:?}"));
        };
        if path.contains(['\n', '\r']) {
            return Err(refused("has a line break in it"));
        }
        Ok(ModelFile { path: path.to_owned(), size, mtime, sha256: None })
    };
    let mut files = entries(list).map(file).collect::<Result<Vec<_>, _>>()?;
    files.sort();
    Ok(files)
}

fn names(list: &[u8]) -> Vec<String> {
    let mut names: Vec<_> = entries(list).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}
