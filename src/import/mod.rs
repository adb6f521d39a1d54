//! Recipes of spark-vllm-docker and sparkrun become profiles. Pure, but for [`folder`].
//!
//! The way of a recipe: its file is read ([`recipe`]), its template filled ([`template`]), the script taken apart
//! ([`shell`], [`command`]), the engine's flags sorted into fields and arguments ([`flags`], [`draft`]), and the whole
//! held against what a profile may be ([`repair`]). Nothing is dropped in silence: what has no place in a profile is
//! in the [`Report`] with its line and the reason. Left out on purpose: fetching anything.

mod ahead;
mod build;
mod command;
mod draft;
mod flags;
pub mod folder;
mod include;
mod model;
mod mods;
mod recipe;
mod repair;
mod report;
mod shell;
mod speculative;
mod template;
mod topology;
pub mod write;

use crate::config::{ConfigError, any};
use crate::profile::{Cluster, DeploymentName, Profile};

pub use mods::{Beside, Folder};
pub use recipe::Format;
pub use report::{Item, Refused, Report};

/// What the person who imports says beyond the recipe.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The deployment's name; left out, one from the file's.
    pub name: Option<DeploymentName>,
    /// The nodes; left out, stand-ins that a person has to fill.
    pub cluster: Option<Cluster>,
    /// The folder of all models on the nodes.
    pub models: String,
}

/// A recipe as a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub profile: Profile,
    pub format: Format,
    /// What the recipe says of itself.
    pub description: Option<String>,
    /// Whether the nodes are stand-ins, to be written as `${SPARK1_HOST}` and the like.
    pub stand_ins: bool,
    pub report: Report,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Yaml(#[from] ConfigError),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Makes a profile of the recipe in `text`; `file_name` is what messages call it.
///
/// # Errors
///
/// Where no profile can be made: not a recipe, no model, an engine that sparkctl has not.
pub fn import(
    file_name: &str,
    text: &str,
    wanted: &Wanted,
    beside: &dyn Beside,
) -> Result<Imported, ImportError> {
    let (tree, wrong) = any::read(file_name, text)?;
    let mut report = Report::default();
    for mistake in wrong {
        // Of a key that is there twice, the later counts, as in both tools.
        report.ask(format!(
            "line {}: {}: see whether that is meant",
            mistake.line.unwrap_or(1),
            mistake.message
        ));
    }
    let tree = include::resolve(tree, beside, &mut report)?;
    let recipe = recipe::read(&tree, &mut report)?;
    Ok(build::build(recipe, file_name, wanted, beside, report)?)
}
