//! Faults of the model and of the image.

use sparkctl::cluster::facts::{Disk, ForeignFile, ModelOrigin, Safetensors, ShardIndex};
use sparkctl::host::fake::SEED_MODEL;

use super::{E, Fault, N, W, content, folder, head, worker};

pub const MODEL: &[Fault] = &[
    // The model.
    (|d| head(d, |m| m.folders.clear()), "model-absent", Some("spark1"), E, "correct `model.path`"),
    (
        |d| head(d, |m| folder(m).dangling.push("tokenizer.json".into())),
        "model-absent",
        Some("spark1"),
        E,
        "fetch the model again",
    ),
    (
        |d| head(d, |m| folder(m).unreadable.push("Permission denied".into())),
        "model-unreadable",
        Some("spark1"),
        E,
        "chown",
    ),
    (
        |d| {
            let index = ShardIndex {
                shards: vec!["model-00007-of-00032.safetensors".into()],
                ..ShardIndex::default()
            };
            head(d, |m| content(m).index = Some(index));
        },
        "model-shards",
        Some("spark1"),
        E,
        "hf download",
    ),
    (
        |d| {
            let path = "model-00002-of-00032.safetensors".to_owned();
            let cut =
                Safetensors { path, size: 900, expected: Some(3_718_000_000), ..Safetensors::default() };
            head(d, |m| content(m).safetensors.push(cut));
        },
        "model-truncated",
        Some("spark1"),
        E,
        "fetch it again",
    ),
    (
        |d| {
            let why = "it is too short for a header".to_owned();
            head(d, |m| drop(content(m).problems.insert("model-00001-of-00032.safetensors".into(), why)));
        },
        "model-damaged",
        Some("spark1"),
        E,
        "Git LFS",
    ),
    (
        |d| head(d, |m| content(m).incomplete.push(".cache/huggingface/download/x.incomplete".into())),
        "model-incomplete",
        Some("spark1"),
        W,
        "hf download",
    ),
    (
        |d| {
            let foreign = ForeignFile { path: "config.json".into(), uid: 0, readable: true, writable: false };
            worker(d, |m| content(m).foreign.push(foreign));
        },
        "model-owner",
        Some("spark2"),
        E,
        "chown",
    ),
    (
        |d| {
            let foreign =
                ForeignFile { path: "config.json".into(), uid: 0, readable: false, writable: false };
            head(d, |m| content(m).foreign.push(foreign));
        },
        "model-unreadable",
        Some("spark1"),
        E,
        "chown",
    ),
    (
        |d| head(d, |m| folder(m).files.retain(|file| !file.path.starts_with("tokenizer"))),
        "model-tokenizer",
        Some("spark1"),
        W,
        "tokenizer files",
    ),
    (
        |d| {
            let mut other = d.cluster.machine("spark1", |m| folder(m).clone());
            other.files[0].size += 1;
            worker(d, |m| drop(m.folders.insert(SEED_MODEL.into(), other)));
        },
        "model-differs",
        Some("spark2"),
        W,
        "copies the head's over it",
    ),
    (
        |d| worker(d, |m| m.model_disk = Disk { total: 200, free: 100 }),
        "disk-model",
        Some("spark2"),
        E,
        "free some space",
    ),
    (
        |d| {
            let repo = Some("Qwen/Qwen3.5-122B-A10B".to_owned());
            let told_by = "the Hub's cache".to_owned();
            let origin = ModelOrigin { told_by, repo, ..ModelOrigin::default() };
            head(d, |m| content(m).origin = Some(origin));
        },
        "model-revision",
        Some("spark1"),
        E,
        "hf download Qwen/Qwen3.5-122B-A10B-FP8",
    ),
    (
        |d| {
            let told_by = "the notes of `hf download`".to_owned();
            let revisions = vec!["0123456789abcdef".repeat(3), "fedcba9876543210".repeat(3)];
            let origin = ModelOrigin { told_by, revisions, ..ModelOrigin::default() };
            head(d, |m| content(m).origin = Some(origin));
        },
        "model-revision",
        Some("spark1"),
        W,
        "hf download Qwen/Qwen3.5-122B-A10B-FP8",
    ),
    // The image.
    (|d| head(d, |m| m.images.clear()), "image-absent", None, E, "docker pull"),
    (
        |d| head(d, |m| m.images[0].architecture = "amd64".into()),
        "image-architecture",
        Some("spark2"),
        E,
        "node's architecture",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("NCCL_IB_DISABLE".into(), "1".into()))),
        "image-env",
        None,
        W,
        "engine.env",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("GLOO_SOCKET_IFNAME".into(), "eth0".into()))),
        "image-env",
        None,
        N,
        "nothing to do",
    ),
    (
        |d| head(d, |m| drop(m.images[0].env.insert("CUDA_VERSION".into(), "14.0".into()))),
        "image-cuda",
        Some("spark2"),
        W,
        "update the driver",
    ),
];
