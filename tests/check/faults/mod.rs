//! One fault each on a healthy pair, and how it is told.

mod fabric;
mod machines;
mod model;

use std::net::Ipv4Addr;

use sparkctl::check::Severity;
use sparkctl::cluster::facts::{Listener, ModelContent, ModelFolder};
use sparkctl::host::fake::{Machine, SEED_MODEL};

use crate::desk::Desk;

pub const HEAD: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 12);
pub const WORKER: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 13);

/// A fault: what is done to the pair, the finding that tells it, its node, its severity, and a word of the remedy.
pub type Fault = (fn(&Desk), &'static str, Option<&'static str>, Severity, &'static str);

pub fn on(desk: &Desk, node: &str, change: impl FnOnce(&mut Machine)) {
    desk.cluster.machine(node, change);
}

pub fn head(desk: &Desk, change: impl FnOnce(&mut Machine)) {
    on(desk, "spark1", change);
}

pub fn worker(desk: &Desk, change: impl FnOnce(&mut Machine)) {
    on(desk, "spark2", change);
}

pub fn folder(machine: &mut Machine) -> &mut ModelFolder {
    machine.folders.entry(SEED_MODEL.to_owned()).or_default()
}

pub fn content(machine: &mut Machine) -> &mut ModelContent {
    folder(machine).content.get_or_insert_default()
}

pub fn sshd(machine: &mut Machine) -> &mut sparkctl::cluster::facts::Sshd {
    machine.sshd.as_mut().unwrap()
}

pub fn listener(port: u16) -> Listener {
    Listener { port, address: "0.0.0.0".to_owned(), ..Listener::default() }
}

pub const E: Severity = Severity::Error;
pub const W: Severity = Severity::Warning;
pub const N: Severity = Severity::Note;

/// All of them.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    [machines::MACHINES, model::MODEL, fabric::FABRIC].into_iter().flatten()
}
