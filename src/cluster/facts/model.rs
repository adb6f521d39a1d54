//! The model's folder and what is in its files; models that lie elsewhere; disks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub total: u64,
    /// What an ordinary user can still write.
    pub free: u64,
}

/// The model's folder: every regular file below it that is not hidden, links followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFolder {
    pub files: Vec<ModelFile>,
    /// Links that lead nowhere, by their path in the folder.
    pub dangling: Vec<String>,
    /// Links that lead to files outside the folder, by their whole path.
    pub outside: Vec<String>,
    /// Bytes that a cut transfer left in the folder, and that the next one goes on with.
    pub partial: u64,
    /// What of the folder could not be read, in the words of `find`: the list of files has holes then.
    #[serde(default)]
    pub unreadable: Vec<String>,
    /// What is in its files; `None` where that was not asked or there is no `python3`.
    pub content: Option<ModelContent>,
}

impl ModelFolder {
    /// A file by its path in the folder.
    pub fn file(&self, path: &str) -> Option<&ModelFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Path below the model's folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970, as the file system keeps it.
    pub mtime: i64,
    /// SHA-256 in hexadecimal, where it was computed on this node of the file in its present state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl ModelFile {
    /// Whether this is known to be the same file with the same content as another: both hashes were seen.
    pub fn is_surely(&self, other: &Self) -> bool {
        self.path == other.path && self.sha256.is_some() && self.sha256 == other.sha256
    }

    /// The same as far as can be told: by their hashes where both were seen, else by size and time.
    pub fn is_like(&self, other: &Self) -> bool {
        match (&self.sha256, &other.sha256) {
            (Some(own), Some(other_hash)) => self.path == other.path && own == other_hash,
            _ => (&self.path, self.size, self.mtime) == (&other.path, other.size, other.mtime),
        }
    }
}

/// What is in a model's files, read on the node without reading the weights themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelContent {
    /// The text of `config.json`; `None` where there is none, or it is larger than 1 MiB.
    pub config: Option<String>,
    /// What `model.safetensors.index.json` says; `None` where there is none.
    pub index: Option<ShardIndex>,
    /// Every `.safetensors` file directly in the folder, by name.
    pub safetensors: Vec<Safetensors>,
    /// Names of files that a download left unfinished (`.incomplete`), anywhere below the folder, also where hidden.
    pub incomplete: Vec<String>,
    /// Files and folders that are not this user's own; at most 100.
    pub foreign: Vec<ForeignFile>,
    /// What could not be read or made sense of: a path in the folder, and why.
    pub problems: BTreeMap<String, String>,
    /// Where the files came from; `None` where nothing in the folder tells.
    pub origin: Option<ModelOrigin>,
    /// SHA-256 of the files that are still as they were when it was computed, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hashes: BTreeMap<String, String>,
}

/// Where a model's files came from, as they themselves or their place tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOrigin {
    /// What tells it, for people: `the Hub's cache`.
    pub told_by: String,
    /// `OWNER/NAME` on the Hub.
    pub repo: Option<String>,
    /// The commits that the files are of: one, unless a download was cut between two.
    pub revisions: Vec<String>,
    /// Names of branches and tags, as the Hub's cache knows them, and their commits.
    pub refs: BTreeMap<String, String>,
}

impl ModelContent {
    /// Shards that the index names and that are not in the folder.
    pub fn missing_shards(&self) -> Vec<&str> {
        let there = |name: &&String| self.safetensors.iter().any(|file| &&file.path == name);
        let named = self.index.iter().flat_map(|index| &index.shards);
        named.filter(|name| !there(name)).map(String::as_str).collect()
    }

    /// Bytes of all tensors by their type, over all files.
    pub fn bytes_by_type(&self) -> BTreeMap<&str, u64> {
        let mut sum = BTreeMap::new();
        for (kind, bytes) in self.safetensors.iter().flat_map(|file| &file.bytes_by_type) {
            *sum.entry(kind.as_str()).or_default() += bytes;
        }
        sum
    }

    /// Bytes of all tensors by the part of the model that they are of, over all files.
    pub fn bytes_by_part(&self) -> BTreeMap<&str, u64> {
        let mut sum = BTreeMap::new();
        for (part, bytes) in self.safetensors.iter().flat_map(|file| &file.bytes_by_part) {
            *sum.entry(part.as_str()).or_default() += bytes;
        }
        sum
    }
}

/// The index of a model whose weights lie in several files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardIndex {
    /// Bytes of all tensors, as its `metadata.total_size` says.
    pub total_size: Option<u64>,
    /// The files that it names, each once, in order.
    pub shards: Vec<String>,
    /// How many tensors it names.
    pub tensors: u64,
}

/// A file of weights, by its header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Safetensors {
    /// Path below the model's folder.
    pub path: String,
    /// Bytes that the file has.
    pub size: u64,
    /// Bytes that it should have by its header; `None` where the header cannot be read.
    pub expected: Option<u64>,
    /// How many tensors it holds.
    pub tensors: u64,
    /// Bytes by the tensors' type, in the format's word: `BF16`, `F8_E4M3`, `U8`.
    pub bytes_by_type: BTreeMap<String, u64>,
    /// Bytes by the part of the model that the tensors are of. That is the beginning of their names to the first number,
    /// else to the last word: `model.layers.61`, `model.visual.blocks.3`, `mtp.layers.0`, `model.embed_tokens`, `lm_head`.
    pub bytes_by_part: BTreeMap<String, u64>,
}

impl Safetensors {
    /// Whether the file is as long as its header says.
    pub fn is_whole(&self) -> bool {
        self.expected == Some(self.size)
    }
}

/// A file or folder that is not this user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignFile {
    /// Path below the model's folder; empty for the folder itself.
    pub path: String,
    pub uid: u32,
    /// Whether this user can read it.
    pub readable: bool,
    /// Whether this user can write to it.
    pub writable: bool,
}

/// Models that were found in the usual places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelScan {
    /// By path.
    pub models: Vec<FoundModel>,
    /// The folders that were looked through.
    pub folders: Vec<String>,
    /// Folders that exist and could not be read, and why.
    pub unreadable: BTreeMap<String, String>,
    /// Whether the time ran out before all was seen.
    pub cut: bool,
}

/// A model that lies on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundModel {
    /// The folder with `config.json`: a snapshot's, in a Hub's cache. The cache's own folder where it has no snapshot.
    pub path: String,
    pub form: ModelForm,
    /// `OWNER/NAME` on the Hub, where the place tells.
    pub repo: Option<String>,
    /// The commit, where the place tells.
    pub revision: Option<String>,
    /// Whether everything that its index names is there, none of it empty or unfinished.
    pub complete: bool,
    /// Why it is not complete, at most a few lines.
    pub lacks: Vec<String>,
    /// Bytes of its files, links followed.
    pub bytes: u64,
    /// The first of `architectures` in `config.json`.
    pub architecture: Option<String>,
    /// `quantization_config.quant_method` in `config.json`.
    pub quantization: Option<String>,
    /// Owner of the folder.
    pub uid: u32,
    /// Whether this user can read all of its files.
    pub readable: bool,
    /// Whether this user can write to the folder.
    pub writable: bool,
}

/// How a model lies on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelForm {
    /// A folder of plain files.
    Plain,
    /// A folder of plain files that `hf download --local-dir` made, with its notes in `.cache/huggingface`.
    LocalFolder,
    /// A snapshot in a Hub's cache, whose files are links to `blobs`: a container needs the whole `models--` folder.
    HubCache,
    /// A Hub's cache that has notes of the model and no snapshot of it.
    HubNotes,
}
