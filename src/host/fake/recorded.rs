//! Machines in memory made of recorded facts: what was seen on a node comes back as a node.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::cluster::FakeCluster;
use super::machine::{FakeContainer, Machine, ReleaseFolder};
use crate::cluster::facts::{Disk, Docker, DockerFacts, ImageStore, NodeFacts};

impl FakeCluster {
    /// The machines of which these are facts; the model, where there is one, lies at `model_path`.
    pub fn recorded(facts: &[NodeFacts], model_path: &str) -> Self {
        Self::new(facts.iter().map(|facts| (facts.node.clone(), Machine::recorded(facts, model_path))))
    }
}

impl Machine {
    /// The machine of which these are facts.
    pub fn recorded(facts: &NodeFacts, model_path: &str) -> Self {
        let facts = facts.clone();
        let lost_peers = facts.lost_peers().collect();
        let (docker, no_docker) = match facts.docker {
            DockerFacts::Running(docker) => (*docker, None),
            DockerFacts::Unusable(why) => (nothing_known(), Some(why)),
        };
        let record = |release: &crate::release::Release| {
            let json = serde_json::to_vec(release).unwrap_or_default();
            let key = (release.deployment.to_string(), format!("{:04}", release.number.0));
            (key, ReleaseFolder { record: Some(json), ..ReleaseFolder::default() })
        };
        let containers = facts.containers.into_iter();
        let containers = containers.map(|found| (found.name.clone(), FakeContainer::seen(found)));
        Self {
            system: facts.system,
            clock_ahead: SignedDuration::ZERO,
            user: facts.user,
            interfaces: facts.interfaces,
            routes: facts.routes,
            rdma_devices: facts.rdma_devices,
            gpus: facts.gpus,
            nvidia: facts.nvidia,
            infiniband: facts.infiniband,
            listeners: facts.listeners,
            processes: facts.processes,
            // Facts have it at the image; the script answers from here.
            software: facts
                .images
                .iter()
                .filter_map(|image| Some((image.content.0.clone(), image.software.clone()?)))
                .collect(),
            folders: facts.model.into_iter().map(|folder| (model_path.to_owned(), folder)).collect(),
            lost_peers,
            model_disk: facts.model_disk.unwrap_or(Disk { total: 0, free: 0 }),
            models: facts.models,
            tools: facts.tools,
            docker,
            no_docker,
            toolkit: facts.toolkit,
            sshd: facts.sshd,
            images: facts.images,
            containers: containers.collect(),
            releases: facts.releases.iter().map(record).collect(),
            journals: BTreeMap::new(),
            // What lies there is known by name only.
            kept: BTreeMap::new(),
            volumes: BTreeSet::new(),
        }
    }
}

/// An engine that nobody could ask.
fn nothing_known() -> Docker {
    Docker {
        version: String::new(),
        store: ImageStore::Classic,
        root: "/var/lib/docker".to_owned(),
        disk: None,
        api: None,
        storage_driver: None,
        cgroup_driver: None,
        cgroup_version: None,
        runtimes: None,
        default_runtime: None,
        cdi_folders: None,
        cdi_devices: None,
        rootless: None,
        live_restore: None,
    }
}
