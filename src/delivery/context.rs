//! The folder that an image is built from, as an archive: the same bytes for the same content, whenever and by whomever it
//! is read, so that a digest of it says whether anything changed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Content;
use super::read::place;
use crate::error::system_words;

/// The largest folder that is sent.
pub const LARGEST: u64 = 64 * 1024 * 1024;

/// Reads a folder with a `Dockerfile`. Times and owners are left out; of a file's mode only whether it can be run. The
/// error is words.
pub fn read(folder: &str) -> Result<Content, String> {
    let folder = place(folder);
    let at = |path: &Path, error: &std::io::Error| match error.kind() {
        ErrorKind::NotFound => format!("there is no `{}`", path.display()),
        _ => format!("`{}` cannot be read: {}", path.display(), system_words(error)),
    };
    if !fs::metadata(&folder).map_err(|error| at(&folder, &error))?.is_dir() {
        return Err(format!("`{}` is not a folder", folder.display()));
    }
    if !folder.join("Dockerfile").is_file() {
        return Err(format!("`{}` has no Dockerfile", folder.display()));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for path in entries(&folder).map_err(|(path, error)| at(&path, &error))? {
        let name = path.strip_prefix(&folder).unwrap_or(&path);
        add(&mut archive, &path, name).map_err(|error| at(&path, &error))?;
        if archive.get_ref().len() as u64 > LARGEST {
            return Err(format!("`{}` is larger than {} MiB", folder.display(), LARGEST / 1024 / 1024));
        }
    }
    archive.into_inner().map(Content::from).map_err(|error| at(&folder, &error))
}

/// All below a folder, in one order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, (PathBuf, std::io::Error)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let failed = |error| (folder.clone(), error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn add(archive: &mut tar::Builder<Vec<u8>>, path: &Path, name: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = fs::symlink_metadata(path)?;
    let mut header = tar::Header::new_gnu();
    let runs = metadata.is_dir() || metadata.permissions().mode() & 0o100 != 0;
    header.set_mode(if runs { 0o755 } else { 0o644 });
    header.set_size(0);
    if metadata.is_dir() {
        header.set_entry_type(tar::EntryType::Directory);
        archive.append_data(&mut header, name, std::io::empty())
    } else if metadata.is_symlink() {
        header.set_entry_type(tar::EntryType::Symlink);
        archive.append_link(&mut header, name, fs::read_link(path)?)
    } else if metadata.is_file() {
        if metadata.len() > LARGEST {
            return Err(std::io::Error::new(ErrorKind::FileTooLarge, "it is larger than what is sent"));
        }
        let bytes = fs::read(path)?;
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, bytes.as_slice())
    } else {
        Err(std::io::Error::other("it is neither a file nor a folder nor a link"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_the_same_archive() {
        let folder = |names: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
                fs::write(folder.path().join(name), name).unwrap();
            }
            folder
        };
        let read = |folder: &tempfile::TempDir| read(&folder.path().display().to_string());
        let one = folder(&["Dockerfile", "b/c", "a"]);
        let other = folder(&["a", "b/c", "Dockerfile"]);
        assert_eq!(read(&one).unwrap(), read(&other).unwrap());
        fs::write(other.path().join("b/c"), "other").unwrap();
        assert_ne!(read(&one).unwrap(), read(&other).unwrap());
        let bytes = read(&one).unwrap();
        let mut archive = tar::Archive::new(bytes.bytes());
        let names: Vec<_> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["Dockerfile", "a", "b", "b/c"]);
        assert!(read(&folder(&["a"])).unwrap_err().contains("has no Dockerfile"));
        assert!(super::read("/no/such/folder").unwrap_err().contains("there is no `/no/such/folder`"));
    }
}
