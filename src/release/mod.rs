//! Releases: the record of one deploy, kept on every node of the group.
//!
//! A record holds all that is needed to start the same group again: each rank's specification with
//! the image by content. What runs is read from the nodes, never from here.

pub mod format;
pub mod journal;
pub mod lock;
pub mod store;

use std::fmt;

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::bench::summary::Summary;
use crate::cluster::facts::Software;
use crate::container::{ImageContent, Rank};
use crate::engine::figures::EngineFigures;
use crate::profile::{DeploymentName, Profile};

/// Format number that new records are written with.
pub const FORMAT: u32 = 1;

/// Number of a release; counts up within a deployment, on all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReleaseNumber(pub u32);

impl ReleaseNumber {
    /// The number after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for ReleaseNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::str::FromStr for ReleaseNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if number > 0 => Ok(Self(number)),
            _ => Err(format!("`{text}` is not a release number")),
        }
    }
}

/// The record of one deploy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Format of this record.
    pub format: u32,
    pub deployment: DeploymentName,
    pub number: ReleaseNumber,
    /// When it was begun, by the operator's clock: shown, never compared.
    pub begun: Timestamp,
    /// Who deployed: user and machine of the operator.
    pub operator: String,
    /// Version of the sparkctl that wrote it.
    pub sparkctl: String,
    /// The effective profile.
    pub profile: Profile,
    /// Name and tag that the image had, and its content.
    pub image: RecordedImage,
    /// SHA-256 over path, size and modification time of the model's files, in hexadecimal.
    pub weights: String,
    /// SHA-256 over path and SHA-256 of each of the model's files, in hexadecimal; `None` where not every hash was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_content: Option<String>,
    /// Every rank with its whole specification.
    #[serde(deserialize_with = "some_ranks")]
    pub ranks: Vec<Rank>,
    pub outcome: Outcome,
    /// Checks that were skipped by wish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// What was measured.
    #[serde(default)]
    pub figures: Figures,
    /// Fields of the record that this sparkctl does not know, by their path.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

impl Release {
    /// Whether the record was written by a newer sparkctl: writing it over would lose what is not known here.
    pub fn is_newer(&self) -> bool {
        self.format > FORMAT || !self.unknown.is_empty()
    }

    /// Whether how its ranks start is known in part only.
    pub fn is_known_in_part(&self) -> bool {
        self.unknown.iter().any(|field| field.starts_with("ranks"))
    }

    /// What is told of a record that a newer sparkctl wrote.
    pub fn newer_words(&self) -> Option<String> {
        let fields = match &self.unknown[..] {
            [] => String::new(),
            fields => format!("; not known here: {}", fields.join(", ")),
        };
        self.is_newer().then(|| {
            format!(
                "the record of release {} is of a newer sparkctl (format {}; this one knows up to {FORMAT}){fields}",
                self.number, self.format
            )
        })
    }
}

/// A release without ranks would be one that runs already, whatever runs.
fn some_ranks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Rank>, D::Error> {
    let ranks = Vec::deserialize(from)?;
    if ranks.is_empty() { Err(D::Error::custom("the record names no rank")) } else { Ok(ranks) }
}

/// The image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedImage {
    pub reference: String,
    pub content: ImageContent,
    /// What was in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
}

/// How a deploy ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Begun; nothing later was recorded. Where no deploy is under way, one was killed.
    Begun,
    /// Ready and verified.
    Deployed,
    /// Not ready, or not verified; what failed, in a line.
    Failed(String),
}

/// What was measured in a deploy; seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Figures {
    /// From the start of the containers to the first completion.
    pub start_seconds: Option<f64>,
    /// From the stop of the release before to the first completion.
    pub outage_seconds: Option<f64>,
    /// Time of the first completion.
    pub first_completion_seconds: Option<f64>,
    /// What the engine said of its start.
    pub engine: EngineFigures,
    /// The benchmark after it, in short; the whole of it lies beside the record on the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bench: Option<Summary>,
}
