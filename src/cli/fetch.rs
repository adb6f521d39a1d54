//! `fetch`: the model from the Hub to the head, by the head itself.

use std::env;

use clap::Args;

use super::{Global, change, known, session};
use crate::config::Loaded;
use crate::delivery::Secret;
use crate::error::{CommandError, Exit};
use crate::model::hub::{Access, CONNECTIONS, Fetch};
use crate::operation;

/// The profile's model from the Hub to the head: `model.source` into `model.path`.
///
/// The head downloads, not this machine: several ranges at once, continued where a fetch before was cut, each file
/// verified against the hash that the Hub has of it. Files that are there and right are not fetched again. Without
/// --include it takes all files of the repository but the same weights in other forms: where there are safetensors,
/// `*.bin`, `*.pth`, `*.ckpt`, `*.gguf`, `*.h5`, `*.msgpack`, `*.ot`, `*.onnx`, `*.tflite`, `*.mlmodel`, the folders
/// `original`, `onnx`, `openvino`, `coreml`, `metal`, and `consolidated*.safetensors` beside other safetensors; where
/// there are none, the same but `*.bin` and `*.pth`.
///
/// `HF_TOKEN` and `HF_ENDPOINT` are those of this machine's environment; where it has none, the head's own, and the
/// token that `hf auth login` left there. The proxy (`https_proxy`) and certificates (`SSL_CERT_FILE`) are the head's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl fetch profiles/qwen35-122b.yaml\n  \
    HF_TOKEN=$(pass hf) sparkctl fetch my.yaml --exclude '*.png'\n  \
    sparkctl fetch my.yaml --set model.source=hf:Qwen/Qwen3.5-122B-A10B-FP8@main")]
pub struct FetchArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
    /// Only files that match, also such as are left out otherwise; `*` takes in `/`, and a `/` at the end means a folder;
    /// may be repeated.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// No files that match; may be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Ranges that come at once.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
}

/// `sparkctl fetch`.
pub async fn run(args: FetchArgs, global: &Global) -> Result<Exit, CommandError> {
    let Loaded { profile, places } = known::load(&args.profile)?;
    let given =
        |name| env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let access = Access { endpoint: given("HF_ENDPOINT"), token: given("HF_TOKEN").map(Secret::from) };
    let fetch = Fetch::of(&profile.model, access).map_err(|wrong| {
        let frame = places.frame(wrong.path).map_or_else(String::new, |frame| format!("\n{frame}"));
        CommandError::new(Exit::Usage, format!("error: {}{}", wrong.message, frame.trim_end()))
            .hint(wrong.hint)
    })?;
    let fetch =
        Fetch { include: args.include, exclude: args.exclude, connections: args.connections, ..fetch };
    let head = profile.head();
    change::told(&profile, Some(places), "fetch", Vec::new(), global, async |events, cancel| {
        match session::connect_head(&profile, global).await {
            Ok(host) => operation::fetch(&profile.name, host.as_ref(), &fetch, events, cancel).await,
            Err(error) => change::unreachable(&profile, &[(head.name.clone(), error)], events).await,
        }
    })
    .await
}
