//! What can be wrong with a profile beyond types: found all at once, each with the field it is at.
//!
//! Only what cannot work is refused, and only what the profile itself shows. Whether the nodes exist, the
//! model fits and the image is there are questions for the nodes.

mod delivered;
mod engine;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::{Bench, Build, Image, Listen, Model, Node, PlacedFile, Profile, Ready};
use crate::bench::gate::Gate;

/// One thing that is wrong, at a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, e.g. `cluster.nodes[1].fabric`.
    pub path: String,
    /// What is wrong, in one line, without the place.
    pub message: String,
    /// What to do, where there is something to say beyond the message.
    pub hint: Option<String>,
    /// Whether it is the field's key that is wrong, and not its value.
    pub is_in_key: bool,
}

/// Every problem of `profile`, in the order of the fields; none means that it may be planned.
pub fn validate(profile: &Profile) -> Vec<Problem> {
    let mut problems = Problems(Vec::new());
    cluster(profile, &mut problems);
    model(&profile.model, &mut problems);
    image(&profile.image, &mut problems);
    engine::check(profile, &mut problems);
    delivered::files(&profile.files, &mut problems);
    delivered::hooks(&profile.hooks, &mut problems);
    serve(profile, &mut problems);
    times(profile, &mut problems);
    bench(profile, &mut problems);
    problems.0
}

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>, hint: &str) {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        self.0.push(Problem { path: path.into(), message: message.into(), hint, is_in_key: false });
    }

    fn add_in_key(&mut self, path: String, message: String, hint: &str) {
        self.add(path, message, hint);
        if let Some(last) = self.0.last_mut() {
            last.is_in_key = true;
        }
    }
}

fn cluster(profile: &Profile, problems: &mut Problems) {
    let nodes = &profile.cluster.nodes;
    if let Some(user) = &profile.cluster.user
        && let Some(why) = no_ssh_word(user, "")
    {
        problems.add("cluster.user", format!("`{user}` cannot be a user: {why}"), "");
    }
    let streams = profile.cluster.transfer.streams;
    if !(1..=32).contains(&streams) {
        let message = format!("{streams} streams cannot be: at least 1, at most 32");
        problems.add("cluster.transfer.streams", message, "leave it out: 4 keep a link busy");
    }
    if nodes.is_empty() {
        problems.add("cluster.nodes", "there are no nodes", "list at least one; the first is the head");
    }
    let mut names = BTreeMap::new();
    let mut hosts = BTreeMap::new();
    let mut fabrics = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let at = |field: &str| format!("cluster.nodes[{index}].{field}");
        if names.insert(&node.name, index).is_some() {
            problems.add(at("name"), format!("two nodes are called `{}`", node.name), "");
        }
        host(node, &at("host"), problems);
        if let Some(other) = hosts.insert(node.host.to_lowercase(), &node.name) {
            let name = &node.name;
            if node.is_local() {
                let message =
                    format!("`{name}` and `{other}` are both `local`, and only one node can be this machine");
                problems.add(at("host"), message, "");
            } else {
                let message = format!("`{name}` and `{other}` have the same host `{}`", node.host);
                problems.add(at("host"), message, "each node is a machine of its own");
            }
        }
        if let Some(what) = no_machine(node.fabric) {
            let message = format!("`{}` is {what}, and no other node can reach a machine by it", node.fabric);
            problems.add(at("fabric"), message, "write the node's own address on the fast network");
        } else if let Some(other) = fabrics.insert(node.fabric, &node.name) {
            let message =
                format!("`{}` and `{other}` have the same fabric address `{}`", node.name, node.fabric);
            problems.add(at("fabric"), message, "");
        }
    }
}

/// `host` becomes an argument of `ssh`.
fn host(node: &Node, path: &str, problems: &mut Problems) {
    let host = &node.host;
    if let Some(why) = not_for_ssh(host) {
        problems.add(path, format!("`{host}` cannot be a host: {why}"), "");
    } else if let Some((user, name)) = host.rsplit_once('@') {
        let hint =
            format!("write `{name}` here, and `{user}` as `cluster.user` or in your ssh configuration");
        problems.add(path, format!("`{host}` has a user in it"), &hint);
    } else if is_this_machine(host) {
        problems.add(path, format!("`{host}` is this machine"), "write `host: local` for this machine");
    } else if let Some((name, port)) = host.split_once(':')
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        let hint =
            format!("write `{name}`, and the port in your ssh configuration (`Host {name}`, `Port {port}`)");
        problems.add(
            path,
            format!("`{host}` has a port in it, and ssh takes it for a part of the name"),
            &hint,
        );
    }
}

/// Why `text` cannot be a host, or a user, for `ssh`.
pub fn not_for_ssh(text: &str) -> Option<&'static str> {
    no_ssh_word(text, "$\\")
}

/// Why `text` cannot be a user or a host for `ssh`. New releases of it refuse these themselves; older ones hand them
/// to a shell where the configuration says so. `also` has further characters that are refused.
fn no_ssh_word(text: &str, also: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.starts_with('-') {
        Some("it begins with `-`, and ssh would take it for an option")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("it has white space or a control character in it")
    } else if text.contains(|c: char| "'`\";&|<>(){}".contains(c) || also.contains(c)) {
        Some("it has a character in it that a shell would act on")
    } else {
        None
    }
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    let named =
        ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"].contains(&bare.as_str());
    let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
    named || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

/// What an address is that belongs to no machine.
fn no_machine(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.octets()[0] == 0 {
        Some("an unspecified address")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if address.is_broadcast() {
        Some("the broadcast address")
    } else {
        None
    }
}

fn model(model: &Model, problems: &mut Problems) {
    let path = model.path.as_str();
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
    let wrong = if path.starts_with('~') {
        Some(("is not an absolute path", "`~` is not expanded here: write the whole path"))
    } else if !path.starts_with('/') {
        Some(("is not an absolute path", "begin it with `/`; it is the same on every node"))
    } else if parts.peek().is_none() {
        Some(("is the root of the file system", "name the model's own folder"))
    } else if parts.any(|part| part == "..") {
        Some(("has `..` in it", "write the path without it"))
    } else if path.contains(|c: char| c.is_control()) {
        Some(("has a control character in it", "write it on one line"))
    } else if path.contains([':', ',']) {
        Some(("has `:` or `,` in it, which container mounts cannot have", "rename the folder"))
    } else {
        None
    };
    if let Some((what, hint)) = wrong {
        problems.add("model.path", format!("`{path}` {what}"), hint);
    }
    if let Some(source) = &model.source
        && !is_hub_source(source)
    {
        let bare = source
            .trim_start_matches("https://")
            .trim_start_matches("huggingface.co/")
            .trim_start_matches("hf.co/")
            .trim_end_matches('/');
        let likely = format!("hf:{bare}");
        let hint = if is_hub_source(&likely) { format!("did you mean `{likely}`?") } else { String::new() };
        let message =
            format!("`{source}` is not a source: write `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`");
        problems.add("model.source", message, &hint);
    }
}

fn image(image: &Image, problems: &mut Problems) {
    let Some(Build { folder, args }) = &image.build else { return };
    let reference = image.reference.as_str();
    let last = reference.rsplit('/').next().unwrap_or(reference);
    if last.contains([':', '@']) {
        let message = format!("`{reference}` has a tag, and a built image gets its own");
        problems.add(
            "image.reference",
            message,
            "write the name alone: the tag is made of what goes into the image",
        );
    }
    if folder.trim().is_empty() || folder.contains('\0') {
        problems.add(
            "image.build.folder",
            "there is no path in it",
            "write the path of a folder with a Dockerfile",
        );
    }
    for (name, value) in args {
        let path = format!("image.build.args.{name}");
        if let Some(why) = engine::no_variable(name) {
            problems.add_in_key(path, format!("`{name}` cannot be an argument's name: {why}"), "");
        } else if value.contains('\0') {
            problems.add(path, "a NUL character cannot be in it", "");
        }
    }
}

fn is_hub_source(source: &str) -> bool {
    let word = |text: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        text.bytes().all(plain) && !text.starts_with(['.', '-']) && !text.is_empty()
    };
    let Some(rest) = source.strip_prefix("hf:") else { return false };
    let (repository, revision) = rest.split_once('@').unwrap_or((rest, "main"));
    let names = repository.split_once('/').is_some_and(|(owner, name)| word(owner) && word(name));
    names && revision.split('/').all(word)
}

fn serve(profile: &Profile, problems: &mut Problems) {
    let port = profile.serve.port.get();
    let taken = crate::engine::ports(profile, 0)
        .into_iter()
        .find(|known| known.number == port && known.what != "serve.port");
    if let Some(taken) = taken {
        let message = format!("port {port} on the head is the one that the ranks meet at ({})", taken.what);
        problems.add("serve.port", message, "choose another port, e.g. 30000");
    }
    match (&profile.serve.api_key, profile.serve.open, profile.serve.listen) {
        (None, false, Listen::Lan) => problems.add(
            "serve",
            "everybody who reaches the head could use the endpoint: it listens on all addresses and asks for no key",
            "write `api_key: { file: PATH }` (or `env`, `command`) for a key, or `open: true` where it may be so",
        ),
        (Some(_), true, _) => problems.add(
            "serve.open",
            "an endpoint with an `api_key` is not open",
            "leave one of the two out",
        ),
        _ => {}
    }
    if let Some(source) = &profile.serve.api_key {
        engine::secret(source, "serve.api_key", problems);
    }
    if let Some(name) = &profile.serve.name
        && let Some(why) = no_value(name)
    {
        problems.add("serve.name", format!("`{name}` cannot be a model's name: {why}"), "");
    }
}

/// Why `text` cannot be the value of an engine's flag.
fn no_value(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("it is empty")
    } else if text.starts_with('-') {
        Some("it begins with `-`, and the engine would take it for a flag")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("it has white space or a control character in it")
    } else {
        None
    }
}

fn times(profile: &Profile, problems: &mut Problems) {
    for (field, time) in [("timeout", profile.ready.timeout), ("stall", profile.ready.stall)] {
        if time == Duration::ZERO {
            problems.add(
                format!("ready.{field}"),
                format!("`{field}` has to be longer than 0"),
                "write it like `45m`",
            );
        }
    }
    let Ready { timeout, stall, .. } = profile.ready;
    // A stall that nobody wrote is no mistake of whoever wrote a short timeout.
    if timeout > Duration::ZERO && stall > timeout && stall != Ready::default().stall {
        let message = "`stall` is longer than `ready.timeout`, and would never be reached";
        problems.add("ready.stall", message, "make it shorter than `ready.timeout`");
    }
}

fn bench(profile: &Profile, problems: &mut Problems) {
    let bench = &profile.bench;
    for (index, requests) in bench.concurrency.iter().enumerate() {
        if *requests == 0 {
            problems.add(
                format!("bench.concurrency[{index}]"),
                "a benchmark has at least 1 request at once",
                "take it out of the list",
            );
        }
    }
    for (field, tokens) in [("input_tokens", bench.input_tokens), ("output_tokens", bench.output_tokens)] {
        if tokens == 0 {
            let hint = "write `concurrency: []` for no benchmark";
            problems.add(format!("bench.{field}"), format!("`{field}` has to be at least 1"), hint);
        }
    }
    gate(bench, problems);
    let request = u64::from(bench.input_tokens) + u64::from(bench.output_tokens);
    if let Some(context) = profile.engine.context_length.filter(|context| *context > 0)
        && request > u64::from(context)
        && !bench.concurrency.is_empty()
        // A benchmark that nobody wrote is no mistake of whoever wrote a short context.
        && *bench != Bench::default()
    {
        let message =
            format!("a request of the benchmark has {request} tokens, and the context is {context}");
        let hint = "lower `bench.input_tokens` or `bench.output_tokens`";
        problems.add("engine.context_length", message, hint);
    }
}

/// Limits that can be read, and that something is measured for.
fn gate(bench: &Bench, problems: &mut Problems) {
    for (index, text) in bench.gate.iter().enumerate() {
        let path = format!("bench.gate[{index}]");
        match text.parse::<Gate>() {
            Err(why) => problems.add(path, why, ""),
            Ok(Gate(limits)) => {
                for limit in limits {
                    let measured = |load: &u32| limit.concurrency.is_none_or(|wanted| wanted == *load);
                    if !bench.concurrency.iter().any(measured) {
                        let message = format!("the limit `{limit}` is of a load that is not measured");
                        problems.add(&path, message, "name it in `bench.concurrency`");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
