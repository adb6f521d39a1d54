//! Models of a Hub: what a profile's `model.source` names, and what is to be fetched of it into which folder. Pure.

use serde::Serialize;

use crate::delivery::Secret;
use crate::profile::Model;

/// Connections that a fetch uses where nothing else is asked for.
pub const CONNECTIONS: u32 = 8;

/// What is to be fetched, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fetch {
    /// `OWNER/NAME`.
    pub repository: String,
    /// A branch, a tag, or a commit.
    pub revision: String,
    /// Whether the revision is the profile's own choice, and not the newest of the main branch.
    pub pinned: bool,
    /// The folder on the node.
    pub path: String,
    /// The commit that `path` is the snapshot of, where it is one of a Hub's cache.
    pub snapshot: Option<String>,
    /// Only files that match one of these, where there are any.
    pub include: Vec<String>,
    /// No file that matches one of these.
    pub exclude: Vec<String>,
    /// Ranges that come at once.
    pub connections: u32,
    pub access: Access,
}

/// How the Hub is reached, as far as the operator says so; else as the node does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Another Hub than huggingface.co: `HF_ENDPOINT`.
    pub endpoint: Option<String>,
    /// `HF_TOKEN`.
    pub token: Option<Secret>,
}

/// Why a profile names nothing that can be fetched; `path` is the field that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSource {
    pub path: &'static str,
    pub message: String,
    pub hint: String,
}

impl Fetch {
    /// What a profile's model is fetched from and to.
    ///
    /// A snapshot in a Hub's cache has its commit in its path. Where `model.source` names no revision, that commit is
    /// meant; it is up to the Hub to say whether one that is named is the same.
    pub fn of(model: &Model, access: Access) -> Result<Self, NoSource> {
        let Some((repository, revision)) = model.hub_source() else {
            return Err(NoSource {
                path: "model",
                message: "the profile does not say where its model comes from".to_owned(),
                hint: "add `source: hf:OWNER/NAME` below `model`".to_owned(),
            });
        };
        let mut snapshot = None;
        if let Some((folder, below)) = model.hub_cache() {
            let cached = folder.rsplit("models--").next().unwrap_or_default().replacen("--", "/", 1);
            if cached != repository {
                return Err(NoSource {
                    path: "model.source",
                    message: format!("`model.path` lies in the cache of {cached}, not of {repository}"),
                    hint: "correct `model.path` or `model.source`".to_owned(),
                });
            }
            snapshot = below.rsplit('/').next().map(str::to_owned);
        }
        let meant = revision.map(str::to_owned).or_else(|| snapshot.clone());
        Ok(Self {
            repository: repository.to_owned(),
            pinned: meant.is_some(),
            revision: meant.unwrap_or_else(|| "main".to_owned()),
            path: model.path.clone(),
            snapshot,
            include: Vec::new(),
            exclude: Vec::new(),
            connections: CONNECTIONS,
            access,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, source: Option<&str>) -> Result<(String, String, Option<String>), String> {
        let model = Model { path: path.to_owned(), source: source.map(str::to_owned) };
        let fetch = Fetch::of(&model, Access::default()).map_err(|wrong| wrong.message)?;
        Ok((fetch.repository, fetch.revision, fetch.snapshot))
    }

    #[test]
    fn a_source_and_a_snapshot_say_which_revision() {
        let cache = "/h/hub/models--O--N/snapshots/abc";
        let is = |revision: &str, snapshot: Option<&str>| {
            Ok(("O/N".to_owned(), revision.to_owned(), snapshot.map(str::to_owned)))
        };
        assert_eq!(of("/m", Some("hf:O/N")), is("main", None));
        assert_eq!(of("/m", Some("hf:O/N@refs/pr/7")), is("refs/pr/7", None));
        assert_eq!(of(cache, Some("hf:O/N")), is("abc", Some("abc")));
        assert_eq!(of(cache, Some("hf:O/N@main")), is("main", Some("abc")));
        let wrong = "`model.path` lies in the cache of O/N, not of O/M".to_owned();
        assert_eq!(of(cache, Some("hf:O/M")), Err(wrong));
        assert_eq!(of("/m", None), Err("the profile does not say where its model comes from".to_owned()));
    }
}
