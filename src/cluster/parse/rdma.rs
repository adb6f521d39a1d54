//! RDMA devices: the kernel's files below `/sys/class/infiniband`, else `ibdev2netdev`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cluster::facts::{Gid, GidKind, RdmaDevice, RdmaPort};

/// Names of devices by their interfaces.
type ByInterface = HashMap<String, BTreeSet<String>>;

/// The devices, and their names by interface. `pairs` are lines of device and interface; `files` are
/// paths with their contents: `/sys/class/infiniband/rocep1s0f0/ports/1/state:4: ACTIVE`.
pub(super) fn devices(pairs: &str, files: &str, ibdev2netdev: &str) -> (Vec<RdmaDevice>, ByInterface) {
    let mut by_interface = ByInterface::new();
    let mut devices = BTreeMap::<&str, Device>::new();
    let mut pair = |device: &str, interface: &str| {
        by_interface.entry(interface.to_owned()).or_default().insert(device.to_owned());
    };
    for (device, interface) in pairs.lines().filter_map(|line| line.trim().split_once(' ')) {
        devices.entry(device).or_default();
        pair(device, interface);
    }
    for line in files.lines() {
        let Some((path, value)) =
            line.strip_prefix("/sys/class/infiniband/").and_then(|rest| rest.split_once(':'))
        else {
            continue;
        };
        let Some((name, path)) = path.split_once('/') else { continue };
        let value = value.trim();
        if path.contains("/gid_attrs/ndevs/") && !value.is_empty() {
            pair(name, value);
        }
        devices.entry(name).or_default().take(path, value);
    }
    if by_interface.is_empty() {
        // `rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)`
        for line in ibdev2netdev.lines() {
            let Some((device, interface)) = line.split_once("==>") else { continue };
            let (device, interface) = (device.split_whitespace().next(), interface.split_whitespace().next());
            if let (Some(device), Some(interface)) = (device, interface) {
                devices.entry(device).or_default();
                by_interface.entry(interface.to_owned()).or_default().insert(device.to_owned());
            }
        }
    }
    let devices = devices.into_iter().map(|(name, device)| device.told(name)).collect();
    (devices, by_interface)
}

#[derive(Default)]
struct Device {
    pci: Option<String>,
    firmware: Option<String>,
    ports: BTreeMap<u32, Port>,
}

#[derive(Default)]
struct Port {
    state: Option<String>,
    physical: Option<String>,
    rate: Option<u32>,
    link_layer: Option<String>,
    gids: BTreeMap<u32, String>,
    kinds: BTreeMap<u32, GidKind>,
    interfaces: BTreeMap<u32, String>,
}

impl Device {
    /// Takes what a file says, by its path below the device.
    fn take(&mut self, path: &str, value: &str) {
        if path == "device/uevent" {
            if let Some(pci) = value.strip_prefix("PCI_SLOT_NAME=") {
                self.pci = Some(pci.to_owned());
            }
            return;
        }
        if path == "fw_ver" {
            self.firmware = Some(value.to_owned());
            return;
        }
        let Some((port, path)) = path.strip_prefix("ports/").and_then(|rest| rest.split_once('/')) else {
            return;
        };
        let Ok(port) = port.parse() else { return };
        let port = self.ports.entry(port).or_default();
        // `4: ACTIVE`
        let word = || value.split_once(": ").map(|(_, word)| word.to_owned());
        let (folder, index) = path.rsplit_once('/').unwrap_or((path, ""));
        match (folder, index.parse::<u32>()) {
            ("state", _) => port.state = word(),
            ("phys_state", _) => port.physical = word(),
            // `200 Gb/sec (4X HDR)`
            ("rate", _) => port.rate = value.split(['.', ' ']).next().and_then(|rate| rate.parse().ok()),
            ("link_layer", _) => port.link_layer = Some(value.to_owned()),
            ("gids", Ok(index)) => drop(port.gids.insert(index, value.to_owned())),
            ("gid_attrs/ndevs", Ok(index)) => drop(port.interfaces.insert(index, value.to_owned())),
            ("gid_attrs/types", Ok(index)) => {
                let kind = match value {
                    "RoCE v2" => GidKind::RoceV2,
                    "IB/RoCE v1" => GidKind::IbOrRoceV1,
                    _ => return,
                };
                port.kinds.insert(index, kind);
            }
            _ => {}
        }
    }

    fn told(self, name: &str) -> RdmaDevice {
        let gid = |port: &Port, index: u32, gid: &str| {
            let gid: std::net::Ipv6Addr =
                gid.parse().ok().filter(|gid: &std::net::Ipv6Addr| !gid.is_unspecified())?;
            let (kind, interface) = (port.kinds.get(&index).copied(), port.interfaces.get(&index).cloned());
            Some(Gid { index, gid, kind, interface })
        };
        let port = |(number, port): (u32, Port)| RdmaPort {
            port: number,
            gids: port.gids.iter().filter_map(|(index, text)| gid(&port, *index, text)).collect(),
            state: port.state,
            physical: port.physical,
            rate: port.rate,
            link_layer: port.link_layer,
        };
        let ports = self.ports.into_iter().map(port).collect();
        RdmaDevice { name: name.to_owned(), pci: self.pci, firmware: self.firmware, ports }
    }
}
