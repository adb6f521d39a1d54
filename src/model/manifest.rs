//! A model's manifest: every file with its size and SHA-256, and which of them were seen to be so. Pure.
//!
//! Two files lie in the folder `.sparkctl` of the model's folder: `manifest.json`, which says what the model is, and
//! `seen.json`, which says of which files on this node the hash was computed, and in which state they were then. A file
//! counts as there only where its size, modification time and inode are those of that moment.
//!
//! Of a snapshot in a Hub's cache the folder is `models--OWNER--NAME/.sparkctl/REVISION`: the Hub's own tools look into
//! `blobs`, `refs` and `snapshots` alone. Where the user may not write there, both files lie in
//! `~/.local/state/sparkctl/.models/SHA256-OF-PATH`; who reads looks at both places, and believes the latter. The programs on
//! the nodes that read and write them share `transfer/seen.py`; what a Hub said (`source`) is not written over by a copy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Format number that both files are written with.
pub const FORMAT: u32 = 1;

/// What a model is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// Where it came from, as a profile writes it (`hf:OWNER/NAME`); `None` where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The commit of that source, 40 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// By path below the model's folder.
    pub files: BTreeMap<String, ManifestFile>,
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// What was seen on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    pub format: u32,
    /// By path below the model's folder.
    pub files: BTreeMap<String, SeenFile>,
}

/// A file at the moment when its hash was computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
    pub inode: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}
