//! A new profile's file: whole or not at all, never over another one unasked, and the schema beside it for editors.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::config;
use crate::error::{CommandError, Exit};

/// What the schema is called beside a profile.
pub const SCHEMA: &str = "profile.schema.json";

/// Refuses, before any work, a file that cannot be made or is there already.
pub fn refuse_early(file: &Path, force: bool) -> Result<(), CommandError> {
    let folder = folder(file);
    if !folder.is_dir() {
        let message = format!("error: there is no folder {}, and nothing was written", folder.display());
        return Err(
            CommandError::new(Exit::Usage, message).hint("make it, or name a file elsewhere by -o FILE")
        );
    }
    refuse_to_overwrite(file, force)
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refuse_to_overwrite(file: &Path, force: bool) -> Result<(), CommandError> {
    if force || fs::symlink_metadata(file).is_err() {
        return Ok(());
    }
    let message = format!("error: {} is there already, and nothing was written", file.display());
    Err(CommandError::new(Exit::Refused, message)
        .hint("name another file by -o FILE, or write over it by --force"))
}

/// Writes the whole file or nothing.
pub fn put(file: &Path, text: &str, force: bool) -> Result<(), CommandError> {
    let write = || -> io::Result<tempfile::NamedTempFile> {
        let mut temporary = tempfile::Builder::new().permissions(readable()).tempfile_in(folder(file))?;
        temporary.write_all(text.as_bytes())?;
        Ok(temporary)
    };
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new(Exit::Refused, format!("error: cannot write {}: {error}", file.display()))
    };
    let temporary = write().map_err(|error| failed(&error))?;
    if force {
        temporary.persist(file).map_err(|error| failed(&error.error))?;
        return Ok(());
    }
    match temporary.persist_noclobber(file) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => refuse_to_overwrite(file, false),
        Err(error) => Err(failed(&error.error)),
    }
}

/// A profile has no secrets: others may read it, as far as the umask lets them.
fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}

/// The schema beside the profile, for editors, unless one is there; its name, where it was written.
pub fn put_schema(profile: &Path) -> Result<Option<String>, CommandError> {
    let file = profile.with_file_name(SCHEMA);
    if fs::symlink_metadata(&file).is_ok() {
        return Ok(None);
    }
    put(&file, &format!("{:#}\n", config::schema()), false)?;
    Ok(Some(file.display().to_string()))
}
