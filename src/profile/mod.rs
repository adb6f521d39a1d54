//! The profile: what to serve and where, as a person writes it.
//!
//! Every field, its default and its documentation stand here and only here; the annotated example
//! in `examples/` is tested against them. Names are neutral: how an engine spells its own flags is
//! the business of `engine`. The types are strict: an unknown key is an error. Reading YAML,
//! places in the file and snippets are `config`'s; what can be wrong beyond types is `validate`'s.

mod checked;
mod duration;
mod secret;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use checked::{DeploymentName, FormatVersion, ImageReference, NodeName, Port};
pub use duration::parse as duration_from_words;
pub use secret::{EnvValue, SecretSource, is_env_value, is_local_path, is_verbatim};
pub use validate::{Problem, not_for_ssh, validate};

/// A deployment: one model, on the nodes of one cluster, served at one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of this file's format: 1.
    pub version: FormatVersion,
    /// Name of the deployment; also in the names of its containers.
    pub name: DeploymentName,
    /// The nodes and how to reach them.
    pub cluster: Cluster,
    /// The weights.
    pub model: Model,
    /// The engine's container image.
    pub image: Image,
    /// The engine and what it is told.
    pub engine: Engine,
    /// Files of this machine that every node gets, for the engine's containers to read, at most 16 MiB each. They are
    /// part of the release: another content is another release, and a rollback brings the content of then back.
    #[serde(default)]
    pub files: Vec<PlacedFile>,
    /// Where the answers are served.
    pub serve: Serve,
    /// How long the engine may take to become ready.
    #[serde(default)]
    pub ready: Ready,
    /// What has to be answered rightly before a deploy counts as done.
    #[serde(default)]
    pub verify: Verify,
    /// The short benchmark after a deploy.
    #[serde(default)]
    pub bench: Bench,
    /// What happens when a deploy fails: `restore` brings the release before it back, `keep` leaves
    /// the failed containers as they are.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// What becomes of other people's containers that hold the GPU, or a port that the engine needs: `refuse` refuses the
    /// deploy, `stop` stops them. They come back when the deploy fails, and by `sparkctl rollback --to 0`.
    #[serde(default)]
    pub conflicts: Conflicts,
    /// Commands of this machine that run at moments of a deploy or a rollback.
    #[serde(default)]
    pub hooks: Hooks,
}

impl Profile {
    /// The first node: rank 0, where the endpoint is.
    pub fn head(&self) -> &Node {
        &self.cluster.nodes[0]
    }

    /// Where the answers are served, for people: the head as `ssh` knows it, or the one address that answers.
    pub fn endpoint(&self) -> String {
        let head = self.head();
        let host = match self.serve.listen {
            Listen::Fabric => head.fabric.to_string(),
            Listen::Lan if !head.is_local() => head.host.clone(),
            Listen::Lan | Listen::Loopback => Ipv4Addr::LOCALHOST.to_string(),
        };
        format!("http://{host}:{}/v1", self.serve.port)
    }

    /// The variables whose values are secrets.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let key = self.serve.api_key.as_ref().map(|_| crate::engine::key_variable(self.engine.kind));
        self.engine.secrets().into_iter().chain(key).collect()
    }

    /// The address of the head by which it is asked from the head itself.
    pub fn door(&self) -> Ipv4Addr {
        match self.serve.listen {
            Listen::Lan | Listen::Loopback => Ipv4Addr::LOCALHOST,
            Listen::Fabric => self.head().fabric,
        }
    }

    /// The model's name in requests.
    pub fn served_name(&self) -> &str {
        self.serve.name.as_deref().unwrap_or(self.name.as_str())
    }
}

/// The machines, and the user who works on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The user to log in as; left out, the one that `ssh` itself picks (its configuration, else
    /// the local user).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The nodes; the first is the head.
    #[schemars(length(min = 1))]
    pub nodes: Vec<Node>,
    /// How weights get from node to node.
    #[serde(default)]
    pub transfer: Transfer,
}

/// How weights get from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Transfer {
    /// `direct`: plain TCP between two fabric addresses, for whoever knows a secret of this one transfer, on all rails;
    /// `ssh`: encrypted (AES-GCM), where others can listen on the fabric. Then each node needs a key that is let in on
    /// the head.
    pub weights: WeightsWay,
    /// Files that are copied at once, to each node.
    #[schemars(range(min = 1, max = 32))]
    pub streams: u32,
}

impl Default for Transfer {
    fn default() -> Self {
        Self { weights: WeightsWay::Direct, streams: 4 }
    }
}

/// What weights travel by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WeightsWay {
    Direct,
    Ssh,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What the node is called in output and records.
    pub name: NodeName,
    /// What `ssh` understands: an address, a name, an alias of the ssh configuration; or `local`,
    /// the machine that sparkctl runs on.
    pub host: String,
    /// The node's IPv4 address on the fabric. Interface and RoCE device are looked up by it.
    pub fabric: Ipv4Addr,
}

/// The `host` that is the machine that sparkctl runs on.
pub const LOCAL: &str = "local";

impl Node {
    /// Whether the node is the machine that sparkctl runs on.
    pub fn is_local(&self) -> bool {
        self.host == LOCAL
    }
}

/// The weights of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Absolute path of the model's folder, the same on every node.
    #[schemars(regex(pattern = "^/"))]
    pub path: String,
    /// Where the weights come from: `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^hf:[^/@]+/[^/@]+(@.+)?$"))]
    pub source: Option<String>,
}

impl Model {
    /// The repository (`OWNER/NAME`) and the revision that `source` names; `None` where there is no source.
    pub fn hub_source(&self) -> Option<(&str, Option<&str>)> {
        let rest = self.source.as_deref()?.strip_prefix("hf:")?;
        Some(rest.split_once('@').map_or((rest, None), |(repository, revision)| (repository, Some(revision))))
    }

    /// Where the path names a snapshot in a Hub's cache (`.../models--OWNER--NAME/snapshots/REVISION`): the folder of the
    /// model in that cache, and the snapshot's path below it. Its files are links to `blobs` in that folder, so the
    /// engine has to see the whole of it.
    pub fn hub_cache(&self) -> Option<(&str, &str)> {
        let path = self.path.trim_end_matches('/');
        let (rest, revision) = path.rsplit_once('/')?;
        let (folder, snapshots) = rest.rsplit_once('/')?;
        let (_, name) = folder.rsplit_once('/')?;
        let is_one = snapshots == "snapshots" && name.starts_with("models--") && !revision.is_empty();
        is_one.then(|| (folder, &path[folder.len() + 1..]))
    }
}

/// The engine's image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Name and tag, as `docker images` shows them; at least one node has it. With `build` it is a name without a tag.
    pub reference: ImageReference,
    /// Builds the image on the head, with that node's Docker; left out, nothing is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
}

/// How the image is built. Its tag is made of all that goes into it, so that a deploy builds only where that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// A folder of this machine with a `Dockerfile`, at most 64 MiB; all of it is sent to the head, a `.dockerignore` is
    /// not read. A relative one begins at the folder of the file that it is written in.
    pub folder: String,
    /// Build arguments by name. One that names an image of the head stands for that image's content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
}

/// A file that is put on every node, under sparkctl's own folder, and mounted read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedFile {
    /// Path on this machine; a relative one begins at the folder of the file that it is written in.
    pub source: String,
    /// Absolute path in the container.
    #[schemars(regex(pattern = "^/"))]
    pub target: String,
}

/// The engine and what it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// `vllm` or `sglang`.
    pub kind: EngineKind,
    /// How the engine spreads over several nodes: on a `ray` cluster or by its own `native` launch; left out, `ray` for
    /// vLLM and `native` for SGLang, which has no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// GPUs that share each layer. Times `pipeline_parallel` and `data_parallel` it is the number of nodes, with one
    /// GPU a node.
    #[schemars(range(min = 1))]
    pub tensor_parallel: u32,
    /// Stages that the layers are cut into, one after another.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub pipeline_parallel: u32,
    /// Copies of the model that share the requests.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub data_parallel: u32,
    /// Whether whole experts are spread over the GPUs, instead of each expert's matrices being cut.
    #[serde(default)]
    pub expert_parallel: bool,
    /// Longest context, in tokens; left out, the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub context_length: Option<u32>,
    /// Part of a node's GPU memory that the engine may take, 0 to 1; left out, the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub memory_fraction: Option<f64>,
    /// Requests that are computed at once; left out, the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_requests: Option<u32>,
    /// How the weights are quantised, in the engine's word; left out, as the model's own configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Type of the KV cache, in the engine's word, e.g. `fp8`; left out, the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_cache_type: Option<String>,
    /// Whether prompts that begin alike share their cache; left out, the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_caching: Option<bool>,
    /// Speculative decoding; left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative: Option<Speculative>,
    /// Whether code that comes with the model may run.
    #[serde(default)]
    pub trust_remote_code: bool,
    /// Path of a chat template in the container, e.g. the `target` of one of `files`; left out, the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<String>,
    /// Adapters (`LoRA`) that are served beside the model; left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
    /// Most pieces of each kind in one request, by kind: `image`, `video`, `audio`; left out, the engine's default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub multimodal: BTreeMap<Modality, u32>,
    /// The engine's name for the parser that splits reasoning from the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_parser: Option<String>,
    /// The engine's name for the parser of tool calls; setting it turns automatic tool choice on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_parser: Option<String>,
    /// Commands that run ahead of the engine, one after another, in the container of every rank; each is a list of
    /// words. They have the engine's environment, and run at every start of a container, also after a reboot. What they
    /// print is in the container's log. One that fails ends the start.
    #[serde(default)]
    pub before: Vec<Vec<String>>,
    /// Further arguments for the engine, passed through as they are; refused where one repeats a
    /// flag that sparkctl sets.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further environment variables of the engine's containers, the same on every rank; refused
    /// where one repeats a variable that sparkctl sets for each node. A secret is not written here: in place of the
    /// text stands where it comes from, `{ env: NAME }`, `{ file: PATH }` or `{ command: [WORD, ...] }`. It is fetched
    /// by `plan` and `deploy`, lies on the nodes in a file for its owner alone, and a rollback has the value of then. In
    /// logs that sparkctl keeps or shows, a value of 8 characters or more is left out.
    #[serde(default)]
    pub env: BTreeMap<String, EnvValue>,
}

impl Engine {
    /// How the engine spreads over several nodes: as the profile says, else as the engine does it.
    pub fn launch(&self) -> Launch {
        self.launch.unwrap_or(match self.kind {
            EngineKind::Vllm => Launch::Ray,
            EngineKind::Sglang => Launch::Native,
        })
    }

    /// Parts that the model is computed in, each by one GPU.
    pub fn parts(&self) -> u64 {
        let of = |parts: u32| u64::from(parts);
        of(self.tensor_parallel)
            .saturating_mul(of(self.pipeline_parallel))
            .saturating_mul(of(self.data_parallel))
    }

    /// The variables whose values are secrets.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let is_secret = |(_, value): &(&String, &EnvValue)| matches!(value, EnvValue::Secret(_));
        self.env.iter().filter(is_secret).map(|(name, _)| name.as_str()).collect()
    }
}

/// Speculative decoding: a cheap guess at the next tokens, which the model then checks at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Speculative {
    /// The engine's word for how tokens are guessed, e.g. `mtp`, `ngram`, `eagle3`.
    pub method: String,
    /// Tokens that are guessed at a time.
    #[schemars(range(min = 1))]
    pub tokens: u32,
    /// Path of the draft model in the container, for methods that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Adapters that are served beside the model, each under a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// The adapters.
    #[schemars(length(min = 1))]
    pub adapters: Vec<Adapter>,
    /// The largest rank of any of them; left out, the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_rank: Option<u32>,
}

/// An adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Its name in requests, in place of the model's.
    pub name: String,
    /// Path of its folder in the container, e.g. below `/model`.
    pub path: String,
}

/// What can come in beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    Image,
    Video,
    Audio,
}

fn one() -> u32 {
    1
}

/// Where the answers are served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// TCP port of the endpoint on the head.
    pub port: Port,
    /// The model's name in requests; left out, the deployment's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which of the head's addresses answer: `lan` all of them, `fabric` only its address on the fabric, `loopback` only
    /// the head itself. On `lan` there has to be an `api_key`, or `open: true`.
    #[serde(default)]
    pub listen: Listen,
    /// Whether everybody who reaches the port may use it, without a key.
    #[serde(default)]
    pub open: bool,
    /// The key that requests need (`Authorization: Bearer KEY`): where it comes from, `{ env: NAME }`, `{ file: PATH }` or
    /// `{ command: [WORD, ...] }`. It is brought to the nodes as a secret of `engine.env` is, and a deploy proves that a
    /// request without it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretSource>,
}

/// Which of the head's addresses answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Listen {
    /// All of them.
    #[default]
    Lan,
    /// Its address on the fabric.
    Fabric,
    /// None but the head itself.
    Loopback,
}

/// How long the engine may take to become ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// From the start of the containers to the first completion.
    #[serde(with = "duration")]
    #[schemars(with = "String", extend("pattern" = duration::PATTERN))]
    pub timeout: Duration,
    /// How long nothing at all may move before the start counts as hung: no line of a log, no computing, no reading of
    /// disks, nothing over the fabric. Where ranks connect to each other it is at most 150 seconds.
    #[serde(with = "duration")]
    #[schemars(with = "String", extend("pattern" = duration::PATTERN))]
    pub stall: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        // A first start on a new topology may compile for more than half an hour.
        Self { timeout: Duration::from_secs(45 * 60), stall: Duration::from_secs(10 * 60) }
    }
}

/// What has to be answered rightly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own, in the user's file")]
pub struct Verify {
    /// A short known answer, and a sum.
    pub chat: bool,
    /// The reasoning comes in its own field, not in the answer; only asked where `engine.reasoning_parser` is set.
    pub reasoning: bool,
    /// A tool is called with the right arguments; only asked where `engine.tool_parser` is set.
    pub tools: bool,
    /// An answer comes in pieces, and at its end the number of its tokens.
    pub stream: bool,
}

impl Default for Verify {
    fn default() -> Self {
        Self { chat: true, reasoning: true, tools: true, stream: true }
    }
}

/// The short benchmark after a deploy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bench {
    /// Requests at once, one load each; `[]` means no benchmark.
    #[schemars(inner(range(min = 1)))]
    pub concurrency: Vec<u32>,
    /// Tokens of each prompt.
    #[schemars(range(min = 1))]
    pub input_tokens: u32,
    /// Tokens of each answer.
    #[schemars(range(min = 1))]
    pub output_tokens: u32,
    /// Limits that have to be kept, as `bench --gate` takes them: `tpot_p50<40ms`, `throughput@c4>75`. Where one is not,
    /// the deploy has failed. Left out, a benchmark is told and never fails a deploy.
    pub gate: Vec<String>,
}

impl Default for Bench {
    fn default() -> Self {
        Self { concurrency: vec![1, 4], input_tokens: 1024, output_tokens: 256, gate: Vec::new() }
    }
}

/// What happens when a deploy fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The release before comes back.
    #[default]
    Restore,
    /// The failed containers stay, stopped or not, to be looked at.
    Keep,
}

/// What becomes of other people's containers that are in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Conflicts {
    /// They are left alone, and the deploy is refused.
    #[default]
    Refuse,
    /// They are stopped, and do not come back with the node; what they were is remembered.
    Stop,
}

/// Commands of this machine that run at moments of a deploy or a rollback. Each finds in its environment
/// `SPARKCTL_HOOK`, `SPARKCTL_COMMAND`, `SPARKCTL_DEPLOYMENT`, and where known `SPARKCTL_RELEASE`, `SPARKCTL_ENDPOINT`
/// and `SPARKCTL_OUTCOME`; the same as JSON is on its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// When it is known what will be done, ahead of the first change. One that fails refuses the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_deploy: Option<Hook>,
    /// When the new release is ready and verified, and not yet recorded. One that fails brings the release before back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_ready: Option<Hook>,
    /// When the new release is recorded. One that fails is told, and changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_deploy: Option<Hook>,
    /// When the run failed, and what can be brought back is back. One that fails is told, and changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Hook>,
}

impl Hooks {
    /// The command of a moment.
    pub fn at(&self, moment: Moment) -> Option<&Hook> {
        match moment {
            Moment::PreDeploy => self.pre_deploy.as_ref(),
            Moment::PostReady => self.post_ready.as_ref(),
            Moment::PostDeploy => self.post_deploy.as_ref(),
            Moment::OnFailure => self.on_failure.as_ref(),
        }
    }
}

/// A moment that hooks run at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    PreDeploy,
    PostReady,
    PostDeploy,
    OnFailure,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PreDeploy => "pre_deploy",
            Self::PostReady => "post_ready",
            Self::PostDeploy => "post_deploy",
            Self::OnFailure => "on_failure",
        })
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Program and arguments; no shell is between.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// How long it may take before it is ended.
    #[serde(default = "a_minute", with = "duration")]
    #[schemars(with = "String", extend("pattern" = duration::PATTERN))]
    pub timeout: Duration,
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}

/// Which engine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

/// How the engine spreads over several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// On a Ray cluster that sparkctl brings up.
    Ray,
    /// By the engine's own multi-node launch.
    Native,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        })
    }
}
