//! The small life of the containers: started ones run; the head of a group forms it once all of its
//! ranks run, loads, and then answers; a group that loses a rank is broken until it starts anew.
//!
//! What a group is stands in the head's own command line, as a real engine would read it.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Behaviour, State};
use super::kept;
use super::machine::{FakeContainer, now};
use crate::cluster::facts::ModelFile;
use crate::host::{Door, HostError, HttpAnswer};
use crate::profile::NodeName;

/// What the head of a group is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub release: u32,
    /// Where the head runs.
    pub node: NodeName,
    /// The name that the endpoint lists.
    pub model: String,
    /// Whether it completes requests, and not only lists the model.
    pub completes: bool,
    pub behaviour: Behaviour,
}

impl State {
    /// Brings the containers up to the present.
    pub(super) fn settle(&mut self) {
        let present = Instant::now();
        for container in self.machines.values_mut().flat_map(|m| m.containers.values_mut()) {
            if let Some((_, status)) = container.ends.filter(|(end, _)| *end <= present) {
                if status == 1 {
                    container.say("RuntimeError: Engine core initialization failed.");
                }
                container.end(status);
            }
        }
        let seen = self.heads().map(|(node, head)| (node, head, self.group(head).is_some()));
        let turned = seen.filter(|(_, head, whole)| *whole != head.formed && !head.broken);
        let turned: Vec<_> =
            turned.map(|(node, head, whole)| (node.clone(), head.container.name.clone(), whole)).collect();
        let behaviours = self.behaviours.clone();
        for (node, name, whole) in turned {
            let head = self.machine(&node).container(&name).expect("it was just seen");
            if whole {
                head.formed = true;
                let (launch, all) = (if is_native(head) { "native" } else { "ray" }, addresses(head).len());
                if all > 1 {
                    head.say(&format!("sparkctl: {launch} has {all} of {all} nodes"));
                }
                let told = match behaviours.get(&release_of(head)) {
                    Some(Behaviour::NeverConnected) => {
                        &["Custom allreduce is disabled because of the nodes"][..]
                    }
                    Some(Behaviour::CompilesLong) => &["Dynamo bytecode transform time: 9.1 s"],
                    _ => &[
                        "INFO: Loading safetensors checkpoint shards: 100% Completed | 39/39",
                        "INFO: Model loading took 63.24 GiB memory and 71.2 seconds",
                        "INFO: GPU KV cache size: 1,234,567 tokens",
                    ],
                };
                for line in told {
                    head.say(line);
                }
            } else if is_native(head) {
                // Its script ends the engine, and Docker starts the container again where its policy says so.
                head.say("sparkctl: rank 1 is gone: ending the engine of rank 0");
                let again = head.container.restart == "unless-stopped";
                head.end(1);
                if again {
                    self.start(&node, &name);
                }
            } else {
                head.broken = true;
            }
        }
    }

    /// The running heads of all groups.
    fn heads(&self) -> impl Iterator<Item = (&NodeName, &FakeContainer)> {
        self.machines.iter().flat_map(|(node, machine)| {
            machine
                .containers
                .values()
                .filter(|c| c.container.state.running)
                .filter(|c| c.container.ours.as_ref().is_some_and(|ours| ours.rank == 0))
                .map(move |container| (node, container))
        })
    }

    /// When the last rank of a head's group was started; `None` while not all of them run.
    fn group(&self, head: &FakeContainer) -> Option<Instant> {
        let mut last = head.started?;
        for (rank, address) in (0..).zip(addresses(head)) {
            last = last.max(self.member(head, rank, address)?.started?);
        }
        Some(last)
    }

    /// The running container of a rank of a head's group.
    fn member(&self, head: &FakeContainer, rank: u32, address: Ipv4Addr) -> Option<&FakeContainer> {
        let ours = head.container.ours.as_ref()?;
        let (_, machine) = self.by_address(address)?;
        machine.containers.values().filter(|c| c.container.state.running).find(|container| {
            container.container.ours.as_ref().is_some_and(|of| {
                (&of.deployment, of.release, of.rank) == (&ours.deployment, ours.release, rank)
            })
        })
    }

    /// Whether the weights of the group's machines are alike, and a model.
    fn same_weights(&self, head: &FakeContainer) -> bool {
        let Some(path) = model_path(head) else { return false };
        let machines = addresses(head).into_iter().filter_map(|address| self.by_address(address));
        let mut folders = machines.map(|(_, machine)| machine.folders.get(path).map(|folder| &folder.files));
        let first = folders.next();
        first.is_none_or(|first| first.is_some() && folders.all(|folder| alike(first, folder)))
    }

    /// The head that has a port of a node for its endpoint.
    fn listening(&self, node: &NodeName, port: u16) -> Option<&FakeContainer> {
        let mut heads = self.heads().filter(|(at, _)| *at == node).map(|(_, head)| head);
        heads.find(|head| head.flag("--port") == Some(&port.to_string()))
    }

    /// What answers at a port of a node.
    pub(super) fn served(&self, node: &NodeName, port: u16) -> Option<Served> {
        let head = self.listening(node, port)?;
        let release = head.container.ours.as_ref()?.release.0;
        let behaviour = self.behaviours.get(&release).copied().unwrap_or(Behaviour::Healthy);
        let whole_since = self.group(head);
        let load_time = match behaviour {
            Behaviour::CompilesLong => Duration::from_secs(30 * 60),
            _ => self.load_time,
        };
        let loaded = whole_since.is_some_and(|since| since + load_time <= Instant::now());
        let never = matches!(behaviour, Behaviour::NeverReady | Behaviour::NeverConnected);
        // A group that lost a rank goes on listing its model.
        if never || !(loaded || head.broken) {
            return None;
        }
        let model = match behaviour {
            Behaviour::WrongModel => "another-model".to_owned(),
            _ => head.flag("--served-model-name")?.to_owned(),
        };
        let completes = !head.broken && self.same_weights(head);
        Some(Served { release, node: node.clone(), model, completes, behaviour })
    }

    /// How many cores a container keeps busy.
    pub(super) fn cores(&self, node: &NodeName, container: &str) -> f64 {
        let found = self.machines.get(node).and_then(|machine| machine.containers.get(container));
        let found = found.filter(|found| found.container.state.running);
        match found.and_then(|found| self.behaviours.get(&release_of(found))) {
            Some(Behaviour::NeverConnected | Behaviour::CompilesLong) => 1.0,
            _ => 0.0,
        }
    }

    /// Starts a container, whose engine may end soon; notes when a GPU has two of them.
    pub(super) fn start(&mut self, node: &NodeName, name: &str) {
        let behaviours = self.behaviours.clone();
        let machine = self.machine(node);
        let Some(container) = machine.container(name) else { return };
        if container.container.state.running {
            return;
        }
        let name = &container.container.name.clone();
        let state = &mut container.container.state;
        state.running = true;
        "running".clone_into(&mut state.status);
        (state.started, state.finished) = (Some(now()), None);
        container.started = Some(Instant::now());
        let path = model_path(container).map(str::to_owned);
        let ours = container.container.ours.clone();
        let behaviour = ours.as_ref().and_then(|ours| behaviours.get(&ours.release.0));
        let is =
            |of: fn(u32) -> Behaviour| ours.as_ref().is_some_and(|ours| behaviour == Some(&of(ours.rank)));
        let (crashes, before_fails) = (is(Behaviour::CrashAtStart), is(Behaviour::BeforeFails));
        container.say("INFO: starting");
        let lacks = path.as_ref().is_some_and(|path| !machine.folders.contains_key(path));
        let told = kept::tell(machine, &machine.containers[name]);
        let container = machine.container(name).expect("it is there");
        for line in told {
            container.say(&line);
        }
        if before_fails {
            container.say("patch: **** Can't find file to patch");
            container.say("sparkctl: engine.before[0] failed with exit status 3: bash /sparkctl/patch.sh");
            container.ends = Some((Instant::now(), 3));
        } else if crashes || lacks {
            container.say("ValueError: this engine was told to fail");
            container.ends = Some((Instant::now(), 1));
        }
        let on_gpu: Vec<_> = machine
            .containers
            .values()
            .filter(|c| c.container.gpus && c.container.state.running)
            .map(|c| c.container.name.clone())
            .collect();
        if on_gpu.len() > 1 {
            self.violations.push(format!("{node}: {} run on one GPU", on_gpu.join(" and ")));
        }
    }

    /// Ports that the machine's running heads listen on.
    pub(super) fn ports(&self, node: &NodeName) -> Vec<u16> {
        let heads = self.heads().filter(|(at, _)| *at == node).map(|(_, container)| container);
        let number = |text: &str| text.rsplit(':').next().and_then(|port| port.parse().ok());
        heads
            .flat_map(|head| {
                let ray = head.spec.iter().flat_map(|spec| &spec.argv);
                let ray = ray.filter_map(|argument| number(argument.strip_prefix("--port=")?));
                let words: Vec<_> = head.spec.iter().flat_map(|spec| &spec.argv).collect();
                let at = words.iter().position(|word| list(word).is_some()).filter(|_| is_native(head));
                let native = at.and_then(|at| number(words.get(at + 2)?));
                let flags = ["--port", "--master-port", "--dist-init-addr"].into_iter();
                let flags = flags.filter_map(|flag| number(head.flag(flag)?));
                ray.chain(native).chain(flags).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Addresses of the ranks that a head's container counts, on Ray or by a native launch.
    pub(super) fn alive_ranks(&self, node: &NodeName, container: &str) -> Option<Vec<Ipv4Addr>> {
        let head = self.machines[node].containers.get(container)?;
        head.container.state.running.then_some(())?;
        let all = (0..).zip(addresses(head));
        Some(
            all.filter(|(rank, address)| self.member(head, *rank, *address).is_some())
                .map(|(_, address)| address)
                .collect(),
        )
    }

    /// The endpoint's answer.
    pub(super) fn http(
        &self,
        node: &NodeName,
        door: &Door,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, HostError> {
        let port = door.port;
        let hears = |head: &&FakeContainer| {
            let host = head.flag("--host").unwrap_or("127.0.0.1");
            host == "0.0.0.0" || host == door.address.to_string()
        };
        let (Some(served), Some(head)) = (self.served(node, port), self.listening(node, port).filter(hears))
        else {
            return Err(HostError::NotListening { node: node.clone(), port });
        };
        let answer = |status, body: Value| Ok(HttpAnswer { status, body: body.to_string().into_bytes() });
        let key = self.machines.get(node).and_then(|machine| kept::key(machine, head));
        if path.starts_with("/v1/")
            && served.behaviour != Behaviour::IgnoresKey
            && key.is_some()
            && key != door.key
        {
            return answer(401, json!({ "error": "Unauthorized" }));
        }
        let of_served_model = body.is_none_or(|body| body["model"] == served.model.as_str());
        match path {
            "/v1/models" => {
                let length = head.flag("--max-model-len").or(head.flag("--context-length"));
                let length = length.and_then(|length| length.parse::<u64>().ok());
                answer(200, json!({ "data": [{ "id": served.model, "max_model_len": length }] }))
            }
            "/metrics" => {
                let text = if is_sglang(head) {
                    "sglang:num_running_reqs{model_name=\"m\"} 1.0\nsglang:num_queue_reqs 0.0\n"
                } else {
                    "vllm:num_requests_running{engine=\"0\"} 1.0\nvllm:num_requests_waiting 0.0\n"
                };
                Ok(HttpAnswer { status: 200, body: text.as_bytes().to_vec() })
            }
            _ if !served.completes => answer(500, json!({ "error": "EngineDeadError" })),
            _ if !of_served_model => answer(404, json!({ "error": "The model does not exist." })),
            "/v1/completions" => answer(200, json!({ "choices": [{ "text": " world" }] })),
            "/v1/chat/completions" => {
                let body = body.unwrap_or(&Value::Null);
                let said = chat(head, body, served.behaviour == Behaviour::WrongAnswers);
                if body["stream"] == true {
                    return Ok(HttpAnswer { status: 200, body: streamed(&said).into_bytes() });
                }
                answer(200, said)
            }
            _ => answer(404, json!({ "error": "Not Found" })),
        }
    }
}

/// The release that a container is of; 0 for one that is not ours.
fn release_of(container: &FakeContainer) -> u32 {
    container.container.ours.as_ref().map_or(0, |ours| ours.release.0)
}

/// What the model says, and how the engine's parsers cut it.
fn chat(head: &FakeContainer, body: &Value, wrongly: bool) -> Value {
    let asked = body["messages"][0]["content"].as_str().unwrap_or_default();
    let (thought, said) = match asked {
        _ if wrongly => ("Hm.", "!!!!!!"),
        _ if asked.contains("17 + 25") => ("17 and 25 make 42.", "\n\n42"),
        _ if asked.contains("capital of France") => ("They ask for Paris.", "\n\nParis"),
        _ => ("I do not know.", "I do not know."),
    };
    if body["tools"].is_array() && !wrongly && head.flag("--tool-call-parser").is_some() {
        let call = json!({ "name": "get_weather", "arguments": "{\"city\": \"Paris\"}" });
        let message = json!({ "content": null, "tool_calls": [{ "type": "function", "function": call }] });
        return json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
    }
    let message = if head.flag("--reasoning-parser").is_some() {
        let field = if is_sglang(head) { "reasoning_content" } else { "reasoning" };
        json!({ "content": said, field: thought })
    } else {
        json!({ "content": format!("<think>{thought}</think>{said}") })
    };
    json!({ "choices": [{ "message": message, "finish_reason": "stop" }] })
}

/// The same answer in pieces, as server-sent events.
fn streamed(said: &Value) -> String {
    let choice = &said["choices"][0];
    let pieces = [
        json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] }),
        json!({ "choices": [{ "delta": choice["message"], "finish_reason": choice["finish_reason"] }] }),
        json!({ "choices": [], "usage": { "completion_tokens": 7 } }),
    ];
    let pieces = pieces.iter().map(|piece| format!("data: {piece}\n\n"));
    pieces.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// Whether its group came together by the engine's own launch.
fn is_native(head: &FakeContainer) -> bool {
    head.flag("--nnodes").is_some()
}

fn is_sglang(head: &FakeContainer) -> bool {
    head.spec.iter().flat_map(|spec| &spec.argv).any(|word| word == "sglang.launch_server")
}

/// The addresses of all ranks, head first, as the head was told them; none for a single node.
fn addresses(head: &FakeContainer) -> Vec<Ipv4Addr> {
    let mut argv = head.spec.iter().flat_map(|spec| &spec.argv);
    argv.find_map(|argument| list(argument)).unwrap_or_default()
}

/// The addresses in an argument that is a list of them.
fn list(argument: &str) -> Option<Vec<Ipv4Addr>> {
    let list: Option<Vec<_>> = argument.split(',').map(|address| address.parse().ok()).collect();
    list.filter(|list| list.len() > 1)
}

/// The folder on the node that the container has the model from.
fn model_path(container: &FakeContainer) -> Option<&str> {
    let mounts = container.spec.iter().flat_map(|spec| &spec.mounts);
    mounts.filter(|mount| mount.source.starts_with('/')).map(|mount| mount.source.as_str()).next()
}

/// Whether two folders have the same model in them.
fn alike(one: Option<&Vec<ModelFile>>, other: Option<&Vec<ModelFile>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_like(other))
}
