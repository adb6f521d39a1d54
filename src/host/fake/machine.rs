//! A machine in memory: what a node has and what lies on it, all of it open to tests.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::cluster::facts::{
    Container, ContainerState, ContainerToolkit, Disk, Docker, Gpu, Image, ImageStore, Interface, Layer,
    Listener, ModelFolder, ModelScan, NoDocker, Nvidia, Ours, Process, RdmaDevice, Route, Software, Sshd,
    System, User,
};
use crate::container::{
    self, ContainerSpec, ImageContent, LABEL_DEPLOYMENT, LABEL_FORMAT, LABEL_RANK, LABEL_RELEASE, LABEL_SPEC,
    hex,
};
use crate::host::NewContainer;
use sha2::{Digest, Sha256};

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    pub system: System,
    /// How far its clock is ahead of this machine's.
    pub clock_ahead: SignedDuration,
    pub user: User,
    pub interfaces: Vec<Interface>,
    pub routes: Option<Vec<Route>>,
    pub rdma_devices: Vec<RdmaDevice>,
    pub gpus: Vec<Gpu>,
    pub nvidia: Nvidia,
    pub infiniband: bool,
    /// Listeners beside those of the containers.
    pub listeners: Vec<Listener>,
    pub processes: Option<Vec<Process>>,
    /// What the images have in them, by their content.
    pub software: BTreeMap<String, Software>,
    /// Model folders by their path.
    pub folders: BTreeMap<String, ModelFolder>,
    /// Addresses of the fabric that do not answer from here.
    pub lost_peers: Vec<std::net::Ipv4Addr>,
    /// The disk of the model folders.
    pub model_disk: Disk,
    /// What a search for models finds.
    pub models: Option<ModelScan>,
    pub tools: BTreeMap<String, String>,
    pub docker: Docker,
    /// Set where Docker cannot be used.
    pub no_docker: Option<NoDocker>,
    pub toolkit: Option<ContainerToolkit>,
    pub sshd: Option<Sshd>,
    pub images: Vec<Image>,
    /// Containers by name.
    pub containers: BTreeMap<String, FakeContainer>,
    /// Release folders by deployment and folder name.
    pub releases: BTreeMap<(String, String), ReleaseFolder>,
    /// Journals by deployment.
    pub journals: BTreeMap<String, String>,
    /// Placed files and secrets, by their path below `~/.local/state/sparkctl/`.
    pub kept: BTreeMap<String, Vec<u8>>,
    /// Names of Docker's volumes.
    pub volumes: BTreeSet<String>,
}

/// A container, and what a machine needs to know of it beyond what it tells.
#[derive(Debug, Clone)]
pub struct FakeContainer {
    pub container: Container,
    /// `None` for one that sparkctl did not make.
    pub spec: Option<ContainerSpec>,
    /// Lines with Docker's time stamp.
    pub log: Vec<String>,
    /// Variables that its processes have by themselves, whatever they were given.
    pub strays: BTreeMap<String, String>,
    pub(super) started: Option<Instant>,
    /// When it ends by itself, and with which status.
    pub(super) ends: Option<(Instant, i64)>,
    /// A head: its group was once whole.
    pub(super) formed: bool,
    /// A head: its group was whole and is not any more.
    pub(super) broken: bool,
}

/// What lies in a release's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseFolder {
    pub record: Option<Vec<u8>>,
    /// The benchmark beside it.
    pub bench: Option<Vec<u8>>,
    /// Kept logs by rank.
    pub logs: BTreeMap<u32, String>,
}

impl FakeContainer {
    /// A container of somebody else's, running.
    pub fn foreign(name: &str, image: &str, gpus: bool) -> Self {
        let state = ContainerState { status: "running".to_owned(), running: true, ..created() };
        Self::new(Container {
            id: format!("foreign-{name}"),
            name: name.to_owned(),
            image: image.to_owned(),
            state,
            restart: "always".to_owned(),
            gpus,
            ..Container::default()
        })
    }

    pub(super) fn created(new: &NewContainer, id: String) -> Self {
        let mut made = Self::new(Container {
            id,
            name: new.name.clone(),
            image: new.image.clone(),
            state: created(),
            restart: "no".to_owned(),
            gpus: new.spec.gpus,
            ours: ours(&new.labels),
            ..Container::default()
        });
        made.spec = Some(new.spec.clone());
        made
    }

    /// As it was seen on a node.
    pub(super) fn seen(container: Container) -> Self {
        Self::new(container)
    }

    fn new(container: Container) -> Self {
        Self {
            container,
            spec: None,
            log: Vec::new(),
            strays: BTreeMap::new(),
            started: None,
            ends: None,
            formed: false,
            broken: false,
        }
    }

    /// Writes a line to its log.
    pub(super) fn say(&mut self, line: &str) {
        self.log.push(format!("{} {line}", now().strftime("%Y-%m-%dT%H:%M:%S.%9fZ")));
    }

    /// It ends.
    pub(super) fn end(&mut self, code: i64) {
        self.container.state.running = false;
        "exited".clone_into(&mut self.container.state.status);
        self.container.state.exit_code = code;
        self.container.state.finished = Some(now());
        (self.started, self.ends, self.formed, self.broken) = (None, None, false, false);
    }

    /// The value of a flag of its command line.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let argv = &self.spec.as_ref()?.argv;
        let at = argv.iter().position(|argument| argument == name)?;
        argv.get(at + 1).map(String::as_str)
    }
}

impl Machine {
    /// An image under a name that is then its alone, as Docker has it.
    pub fn put_image(&mut self, content: &ImageContent, reference: &str, architecture: &str, size: u64) {
        self.untag(reference);
        if let Some(image) = self.images.iter_mut().find(|image| &image.content == content) {
            image.references.push(reference.to_owned());
            return;
        }
        self.images.push(Image {
            id: self.image_id(content),
            references: vec![reference.to_owned()],
            content: content.clone(),
            architecture: architecture.to_owned(),
            size,
            layers: vec![Layer { diff_id: format!("sha256:{}", content.0), size }],
            entrypoint: Vec::new(),
            command: Vec::new(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            created: None,
            software: None,
        });
    }

    /// Loads an archive of an image that another machine has, without the layers of these names; the bytes that came, or
    /// why not.
    pub(super) fn load(&mut self, image: &Image, reference: &str, without: &[&str]) -> Result<u64, String> {
        let name = |layer: &Layer| format!("blobs/sha256/{}", layer.diff_id.trim_start_matches("sha256:"));
        let left_out = |layer: &&Layer| without.contains(&name(layer).as_str());
        let last = image.layers.iter().rposition(|layer| left_out(&layer));
        let (needed, classic) = (last.map_or(0, |at| at + 1), self.docker.store == ImageStore::Classic);
        let begins = |other: &Image| other.layers.get(..needed) == image.layers.get(..needed);
        if let Some(at) = last
            && !(classic && self.images.iter().any(begins))
        {
            let missing = name(&image.layers[at]);
            return Err(format!("docker load: open {missing}: no such file or directory"));
        }
        self.put_image(&image.content, reference, &image.architecture, image.size);
        if let Some(loaded) = self.image(reference) {
            loaded.layers.clone_from(&image.layers);
        }
        let of_these: u64 = image.layers.iter().filter(left_out).map(|layer| layer.size).sum();
        Ok(image.size - of_these)
    }

    /// The ID of an image: of its content in the classic store, of this machine in the containerd store.
    fn image_id(&self, content: &ImageContent) -> String {
        let digest = match self.docker.store {
            ImageStore::Classic => Sha256::digest(&content.0),
            ImageStore::Containerd => Sha256::digest(format!("{} {}", self.system.hostname, content.0)),
        };
        format!("sha256:{}", hex(&digest))
    }

    /// Takes a name from whichever image has it.
    pub fn untag(&mut self, reference: &str) {
        for image in &mut self.images {
            image.references.retain(|name| name != reference);
        }
    }

    /// An image by its ID or one of its names.
    pub(super) fn image(&mut self, name: &str) -> Option<&mut Image> {
        self.images.iter_mut().find(|image| image.id == name || image.references.iter().any(|r| r == name))
    }

    /// A container by name or ID.
    pub(super) fn container(&mut self, name: &str) -> Option<&mut FakeContainer> {
        self.containers.values_mut().find(|c| c.container.name == name || c.container.id == name)
    }

    /// Whether a container of this name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.containers.get(name).is_some_and(|found| found.container.state.running)
    }

    /// A container ends by itself, and Docker does not bring it back.
    pub fn kill(&mut self, name: &str) {
        if let Some(container) = self.container(name) {
            container.end(137);
        }
    }
}

/// What Docker's labels say, as `docker inspect` is read.
fn ours(labels: &BTreeMap<String, String>) -> Option<Ours> {
    labels.get(LABEL_FORMAT)?;
    Some(Ours {
        deployment: labels.get(LABEL_DEPLOYMENT)?.parse().ok()?,
        release: labels.get(LABEL_RELEASE)?.parse().ok()?,
        rank: labels.get(LABEL_RANK)?.parse().ok()?,
        spec: labels.get(LABEL_SPEC)?.clone(),
    })
}

fn created() -> ContainerState {
    ContainerState { status: "created".to_owned(), ..ContainerState::default() }
}

/// A content of an image, made of a word.
pub fn content(word: &str) -> ImageContent {
    container::ImageContent(hex(&Sha256::digest(word)))
}

/// The machines' clock: tokio's, so that a test can pause it.
pub(super) fn now() -> Timestamp {
    // 2026-03-01 09:00 UTC, and as many seconds as tokio's clock has run since it was first asked.
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = Instant::now();
    let first = FIRST.get_or_init(|| now);
    let since = i64::try_from(now.saturating_duration_since(*first).as_millis()).unwrap_or_default();
    Timestamp::from_millisecond(1_772_355_600_000 + since).unwrap_or_default()
}
