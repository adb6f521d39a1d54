//! What a deploy brings from the operator's machine to every node beside the profile: files, and the values of
//! secrets. Read once before anything is planned, given to the planner as data, carried by the step that writes.
//!
//! On a node both lie in sparkctl's own folder, each under a name of its own for ever, and are mounted into the
//! containers: so a release that comes back finds what it was started with. How secrets are told apart without
//! being shown: see [`secret`].

pub mod context;
pub mod kept;
pub mod read;
pub mod redact;
pub mod secret;
pub mod store;

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::container::hex;
pub use secret::{Secret, Secrets};

/// The largest file that is placed: templates, scripts and patches are far smaller, weights are not for this.
pub const LARGEST_FILE: u64 = 16 * 1024 * 1024;

/// All that a profile's files and secrets hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivery {
    /// In the order of the profile's `files`.
    pub files: Vec<LocalFile>,
    /// Values by variable.
    pub secrets: Secrets,
    /// The folder that the image is built from, as an archive; `None` where none is built.
    pub context: Option<Content>,
}

/// A file of the operator's machine.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalFile {
    /// Absolute path in the container.
    pub target: String,
    pub content: Content,
}

/// Bytes on their way to a node. They may be secret, so that all they show is how many they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Arc<[u8]>);

impl Content {
    /// The bytes themselves.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many they are.
    pub fn size(&self) -> u64 {
        self.0.len() as u64
    }

    /// SHA-256 in hexadecimal.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "‹{} bytes›", self.0.len())
    }
}
