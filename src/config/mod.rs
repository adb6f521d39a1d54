//! Reads a profile from YAML and says all that is wrong with it, each with its place.
//!
//! The only door to YAML. What a profile may hold is decided by the types in [`crate::profile`]; this
//! module has no list of fields. On the way from text to profile: the file is read into a tree that knows its places
//! ([`reader`]); the files that it extends are merged below it ([`extend`]); `--set` puts its values in ([`set`]); so do
//! variables of the environment ([`variables`]); paths on this machine become absolute ([`local`]); the tree is fitted to the types, and every mistake is noted
//! ([`fit`]). The places are kept for what is found out later ([`places`]). Back to YAML: [`effective`], [`write`].
//!
//! Left out: looking for files; reading the environment, which the caller lends; fetching secrets.

pub mod any;
mod effective;
mod extend;
mod fit;
mod local;
mod places;
mod reader;
mod report;
mod scalar;
mod schema;
mod set;
mod source;
mod syntax;
mod tree;
mod value;
mod variables;
mod words;
mod write;

use std::path::Path;

pub use effective::{document, single, yaml};
pub use places::{Loaded, Origin, Places};
pub use report::{ConfigError, Mistake};
pub use schema::schema;
pub use variables::Environment;

use crate::profile::{Cluster, Profile};

/// What is given beside the file.
pub struct Given<'a> {
    /// `PATH=VALUE`, each over what stands in the file; the last wins.
    pub set: &'a [String],
    /// The environment that `${NAME}` is looked up in.
    pub environment: Environment<'a>,
}

impl Given<'_> {
    /// Nothing but the file.
    pub const NOTHING: Given<'static> = Given { set: &[], environment: &|_| None };
}

/// Reads the profile in the file at `path`.
///
/// # Errors
///
/// Everything that is wrong with the file, and with those that it extends.
pub fn load(path: &Path, given: &Given<'_>) -> Result<Loaded, ConfigError> {
    read(&path.display().to_string(), &extend::text(path)?, given)
}

/// Reads the profile in `text`; `file_name` is what messages call it, and what files that it extends are relative to.
///
/// # Errors
///
/// Everything that is wrong with the text.
pub fn parse(file_name: &str, text: &str) -> Result<Profile, ConfigError> {
    read(file_name, text, &Given::NOTHING).map(|loaded| loaded.profile)
}

/// Reads the nodes alone, of a profile or of a file that profiles extend.
///
/// # Errors
///
/// Everything that is wrong with them.
pub fn cluster(path: &Path, environment: Environment<'_>) -> Result<Cluster, ConfigError> {
    let extend::Merged { sources, mut tree, mut known, .. } =
        extend::read(&path.display().to_string(), &extend::text(path)?, environment)?;
    variables::substitute(&mut tree, &mut Vec::new(), environment, &mut known.mistakes);
    fit::cluster(&tree, known).map_err(|mistakes| ConfigError::new(sources, mistakes))
}

fn read(name: &str, text: &str, given: &Given<'_>) -> Result<Loaded, ConfigError> {
    let extend::Merged { mut sources, folders, mut tree, mut known } =
        extend::read(name, text, given.environment)?;
    for argument in given.set {
        set::set(&mut tree, argument, &mut sources, &mut known);
    }
    variables::substitute(&mut tree, &mut Vec::new(), given.environment, &mut known.mistakes);
    local::paths(&mut tree, &mut Vec::new(), &folders);
    match fit::fit(&tree, known) {
        Ok(profile) => Ok(Loaded { profile, places: Places { sources, tree } }),
        Err(mistakes) => Err(ConfigError::new(sources, mistakes)),
    }
}

#[cfg(test)]
mod tests;
