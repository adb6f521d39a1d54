//! Guards on a machine in memory: what is given them, and what they do when their time has passed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::cluster::State;
use super::kept;
use super::machine::{FakeContainer, Machine, now};
use super::scripts::{bad, good};
use crate::container::{ContainerSpec, ImageContent, LABEL_RELEASE, LABEL_SPEC, Mount};
use crate::guard::Outcome;
use crate::host::{NewContainer, Output, Script};
use crate::profile::NodeName;
use crate::release::ReleaseNumber;

/// A guard, until it is ended or acts.
#[derive(Debug, Clone)]
pub struct FakeGuard {
    pub deployment: String,
    /// The release that it watches over.
    pub release: ReleaseNumber,
    /// What it was given.
    data: Value,
    /// When it acts; never where its program is gone.
    pub(super) ends: Option<Instant>,
}

impl FakeGuard {
    /// Its time passes now, whatever signs of life came.
    pub fn passes(&mut self) {
        self.ends = Some(Instant::now());
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.data["lease_seconds"].as_u64().unwrap_or_default())
    }
}

/// Runs one of these scripts; `None` where it is another.
pub(super) fn run(machine: &mut Machine, script: &Script) -> Option<Output> {
    let argument = |at: usize| script.args.get(at).map_or("", String::as_str);
    let deployment = argument(0);
    let is_it = |guard: &FakeGuard| {
        guard.deployment == deployment
            && (argument(1) == "any" || argument(1).parse::<ReleaseNumber>() == Ok(guard.release))
    };
    let acted = |machine: &Machine| {
        let of_it = machine.guarded.contains_key(deployment);
        good(if of_it { "acted\n" } else { "gone\n" })
    };
    Some(match script.name {
        "guard-arm" => {
            machine.guarded.remove(deployment);
            machine.guard = None;
            let Ok(data) = serde_json::from_slice::<Value>(&script.input) else {
                return Some(bad("no JSON"));
            };
            let (sudo, lingers) = (machine.user.sudo == Some(true), machine.user.lingering);
            // Lingering is anybody's to switch on for himself; where it is not known of, there is no logind.
            let way = match (sudo, lingers) {
                (true, _) => "armed system\n",
                (false, Some(true)) => "armed user\n",
                (false, Some(false)) => "armed lingering\n",
                (false, None) => return Some(good("absent units of the user end with the login\n")),
            };
            if !machine.tools.contains_key("python3") {
                return Some(good("absent python3 is not installed\n"));
            }
            if !sudo {
                machine.user.lingering = Some(true);
            }
            let mut guard = FakeGuard {
                deployment: deployment.to_owned(),
                release: argument(1).parse().unwrap_or(ReleaseNumber(0)),
                data,
                ends: None,
            };
            guard.ends = Some(Instant::now() + guard.lease());
            machine.guard = Some(guard);
            good(way)
        }
        "guard-beat" => match machine.guard.as_mut().filter(|guard| is_it(guard)) {
            Some(guard) => {
                guard.ends = guard.ends.map(|_| Instant::now() + guard.lease());
                good("armed\n")
            }
            None => acted(machine),
        },
        "guard-end" => match machine.guard.take_if(|guard| is_it(guard)) {
            Some(_) => good("ended\n"),
            None => acted(machine),
        },
        _ => return None,
    })
}

/// What `gather.sh` prints of them.
pub(super) fn section(machine: &Machine, deployment: &str) -> String {
    let armed = machine.guard.iter().filter(|guard| guard.deployment == deployment).map(|guard| {
        let lives = if guard.ends.is_some() { "lives" } else { "gone" };
        format!("armed {:04} {lives}\n", guard.release.0)
    });
    let outcome = machine.guarded.get(deployment);
    let outcome = outcome.map(|outcome| serde_json::to_string(outcome).unwrap_or_default() + "\n");
    armed.chain(outcome).collect()
}

impl State {
    /// Guards whose time has passed act.
    pub(super) fn guards(&mut self, present: Instant) {
        let due = |machine: &Machine| {
            machine.guard.as_ref().is_some_and(|guard| guard.ends.is_some_and(|ends| ends <= present))
        };
        let nodes: Vec<_> =
            self.machines.iter().filter(|(_, machine)| due(machine)).map(|(node, _)| node.clone()).collect();
        for node in nodes {
            let Some(guard) = self.machine(&node).guard.take() else { continue };
            let why = self.go_back(&node, &guard).err();
            let before = guard.data["before"].as_u64().and_then(|number| u32::try_from(number).ok());
            let outcome = Outcome::new(guard.release, before.map(ReleaseNumber), now(), why);
            self.machine(&node).guarded.insert(guard.deployment, outcome);
        }
    }

    fn go_back(&mut self, node: &NodeName, guard: &FakeGuard) -> Result<(), String> {
        self.next_id += 1;
        let id = format!("{:064x}", self.next_id);
        let machine = self.machine(node);
        if machine.no_docker.is_some() {
            return Err("the Docker Engine does not answer".to_owned());
        }
        let bring: Vec<_> = guard.data["bring"].as_array().into_iter().flatten().cloned().collect();
        let remove: Vec<_> = guard.data["remove"].as_array().into_iter().flatten().collect();
        let ours = |container: &FakeContainer| {
            container.container.ours.clone().filter(|ours| ours.deployment.as_str() == guard.deployment)
        };
        let all: Vec<_> =
            machine.containers.values().filter_map(|c| Some((c.container.name.clone(), ours(c)?))).collect();
        for (name, ours) in all {
            let wanted = bring.iter().find(|one| one["name"] == name.as_str());
            let labels = wanted.map(|one| &one["body"]["Labels"]);
            let same = labels.is_some_and(|labels| {
                labels[LABEL_RELEASE] == ours.release.to_string().as_str()
                    && labels[LABEL_SPEC] == ours.spec.as_str()
            });
            if same {
                continue;
            }
            if remove.iter().any(|release| release.as_u64() == Some(u64::from(ours.release.0))) {
                let Some(mut ended) = machine.containers.remove(&name) else { continue };
                ended.say("INFO: Shutting down");
                let log = kept::redacted(machine, &guard.deployment, &(ended.log.join("\n") + "\n"));
                let folder = (guard.deployment.clone(), format!("{:04}", ours.release.0));
                let there = machine.releases.entry(folder).or_default();
                there.logs.entry(ours.rank).or_default().push_str(&log);
            } else if wanted.is_some() {
                return Err(format!("`{name}` is of release {}, which is none of this switch", ours.release));
            }
        }
        for one in &bring {
            let name = one["name"].as_str().unwrap_or_default().to_owned();
            let machine = self.machine(node);
            if !machine.containers.contains_key(&name) {
                let new = new_container(machine, &name, &one["body"])?;
                machine.containers.insert(name.clone(), FakeContainer::created(&new, id.clone()));
            }
            if let Some(container) = machine.container(&name) {
                one["restart"].as_str().unwrap_or("no").clone_into(&mut container.container.restart);
                // What was left running may have lost a rank of its group.
                if container.container.state.running {
                    container.end(0);
                }
            }
            self.start(node, &name);
        }
        Ok(())
    }
}

/// As the Docker Engine reads a request.
fn new_container(machine: &mut Machine, name: &str, body: &Value) -> Result<NewContainer, String> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let image = body["Image"].as_str().unwrap_or_default().to_owned();
    let content = machine.image(&image).map(|image| image.content.clone());
    let content: ImageContent = content.ok_or(format!("No such image: {image}"))?;
    let labels = body["Labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let variable = |text: String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let host = &body["HostConfig"];
    let mounts = host["Mounts"].as_array().into_iter().flatten().map(|mount| Mount {
        source: mount["Source"].as_str().unwrap_or_default().to_owned(),
        target: mount["Target"].as_str().unwrap_or_default().to_owned(),
        read_only: mount["ReadOnly"] == true,
    });
    let spec = ContainerSpec {
        image: content,
        argv: [words(&body["Entrypoint"]), words(&body["Cmd"])].concat(),
        env: words(&body["Env"]).into_iter().filter_map(variable).collect(),
        mounts: mounts.collect(),
        devices: Vec::new(),
        gpus: host["DeviceRequests"].as_array().is_some_and(|requests| !requests.is_empty()),
        capabilities: words(&host["CapAdd"]),
        ulimits: BTreeMap::new(),
    };
    if let Some(source) = machine.lacks(&spec) {
        return Err(format!("bind source path does not exist: {source}"));
    }
    Ok(NewContainer { name: name.to_owned(), image, labels: labels.collect(), spec })
}
