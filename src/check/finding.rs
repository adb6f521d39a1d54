//! A finding: one thing that was seen and should be otherwise.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::table;
use crate::profile::NodeName;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Works, and could be better or is worth knowing.
    Note,
    /// May go badly.
    Warning,
    /// Cannot go well: it refuses a deploy.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that was found. What was expected instead and why it matters is the same for all findings of an id, and
/// stands in [`super::CHECKS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A short name that stays: `fabric-address`.
    pub id: &'static str,
    pub severity: Severity,
    pub node: Option<NodeName>,
    /// The field of the profile that it is about, e.g. `cluster.nodes[1].fabric`; none where it is about a node alone.
    pub path: Option<String>,
    /// What was seen.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        severity: Severity,
        id: &'static str,
        node: Option<&NodeName>,
        message: String,
        hint: &str,
    ) -> Self {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Self { id, severity, node: node.cloned(), path: None, message, hint }
    }

    /// Something that refuses the plan.
    pub(crate) fn error(id: &'static str, node: Option<&NodeName>, message: String, hint: &str) -> Self {
        Self::new(Severity::Error, id, node, message, hint)
    }

    /// Something that a person should know.
    pub(crate) fn warning(id: &'static str, node: Option<&NodeName>, message: String, hint: &str) -> Self {
        Self::new(Severity::Warning, id, node, message, hint)
    }

    /// Something that works, and could be better.
    pub(crate) fn note(id: &'static str, node: Option<&NodeName>, message: String, hint: &str) -> Self {
        Self::new(Severity::Note, id, node, message, hint)
    }

    /// The same, about this field of the profile.
    #[must_use]
    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{} ({})", self.message, self.id)
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let check = table::of(self.id);
        let mut fields = serializer.serialize_struct("Finding", 8)?;
        fields.serialize_field("id", self.id)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("node", &self.node)?;
        fields.serialize_field("path", &self.path)?;
        fields.serialize_field("message", &self.message)?;
        fields.serialize_field("expected", &check.map(|check| check.expected))?;
        fields.serialize_field("hint", &self.hint)?;
        fields.serialize_field("why", &check.map(|check| check.why))?;
        fields.end()
    }
}
