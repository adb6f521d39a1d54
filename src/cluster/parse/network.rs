//! The network: `ip -j addr`, the kernel's files of interfaces, `ip -j route`, pings, `ss`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use serde::Deserialize;

use super::first_line;
use crate::cluster::facts::{Interface, InterfaceAddress, InterfaceKind, Listener, Missing, Peer, Route};

/// What `ip -j addr` prints; other keys are ignored, as versions differ.
#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    addr_info: Vec<LinkAddress>,
}

#[derive(Deserialize)]
struct LinkAddress {
    #[serde(default)]
    family: String,
    #[serde(default)]
    local: String,
    #[serde(default)]
    prefixlen: u8,
}

/// Interfaces with what the kernel's files say of each: `/sys/class/net/enP7s7/speed:1000`.
pub(super) fn interfaces(
    json: &str,
    files: &str,
    rdma: &HashMap<String, BTreeSet<String>>,
) -> Result<Vec<Interface>, String> {
    let links: Vec<Link> = serde_json::from_str(json).map_err(|error| {
        let said = first_line(json);
        format!("`ip -j addr` (package iproute2) gave no list of addresses ({error}): {said}")
    })?;
    let files = kernel_files(files);
    let none = BTreeMap::new();
    let interface = |link: Link| {
        let addresses =
            link.addr_info.iter().filter(|address| address.family == "inet").filter_map(|address| {
                Some(InterfaceAddress { address: address.local.parse().ok()?, prefix: address.prefixlen })
            });
        let has = |wanted: &str| link.flags.iter().any(|flag| flag == wanted);
        let said = files.get(link.ifname.as_str()).unwrap_or(&none);
        let value = |key: &str| said.get(key).map(|value| (*value).to_owned());
        Interface {
            addresses: addresses.collect(),
            mtu: link.mtu,
            up: has("UP") && has("LOWER_UP"),
            enabled: has("UP"),
            rdma: rdma.get(&link.ifname).into_iter().flatten().cloned().collect(),
            kind: if has("LOOPBACK") { InterfaceKind::Loopback } else { kind(said) },
            // Some drivers say -1, or all bits, for a speed that they do not know.
            speed: value("speed").and_then(|speed| speed.parse().ok()).filter(|speed| *speed != u32::MAX),
            driver: value("device/uevent DRIVER"),
            mac: value("address").filter(|mac| mac != "00:00:00:00:00:00"),
            phys_port_name: value("phys_port_name"),
            phys_switch_id: value("phys_switch_id"),
            pci: value("device/uevent PCI_SLOT_NAME"),
            name: link.ifname,
        }
    };
    // Some versions print an empty object for a link that is filtered out.
    Ok(links.into_iter().filter(|link| !link.ifname.is_empty()).map(interface).collect())
}

/// Contents by interface and by path below it; the lines of `uevent` files by path and key.
fn kernel_files(text: &str) -> HashMap<&str, BTreeMap<String, &str>> {
    let mut files = HashMap::<_, BTreeMap<_, _>>::new();
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("/sys/class/net/").and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let Some((path, value)) = rest.split_once(':') else { continue };
        let of = files.entry(name).or_default();
        if path.ends_with("uevent") {
            of.insert(path.to_owned(), "");
            if let Some((key, value)) = value.split_once('=') {
                of.insert(format!("{path} {key}"), value.trim());
            }
        } else {
            of.insert(path.to_owned(), value.trim());
        }
    }
    files
}

fn kind(said: &BTreeMap<String, &str>) -> InterfaceKind {
    let device_type = said.get("uevent DEVTYPE").copied().unwrap_or_default();
    // ARPHRD_INFINIBAND; ARPHRD_NONE, tunnels of several sorts.
    let link_type = said.get("type").copied().unwrap_or_default();
    match (device_type, link_type) {
        ("wlan", _) => InterfaceKind::Wireless,
        ("bridge", _) => InterfaceKind::Bridge,
        ("bond", _) => InterfaceKind::Bond,
        ("vlan", _) => InterfaceKind::Vlan,
        ("wireguard" | "vxlan" | "geneve" | "gre" | "ip6gre", _)
        | (_, "65534" | "768" | "769" | "776" | "778") => InterfaceKind::Tunnel,
        (_, "32") => InterfaceKind::Infiniband,
        _ if said.contains_key("tun_flags") => InterfaceKind::Tunnel,
        _ if said.contains_key("device/uevent") => InterfaceKind::Ethernet,
        _ => InterfaceKind::Virtual,
    }
}

/// What `ip -j route` prints; other keys are ignored, as versions differ.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    dst: String,
    #[serde(default)]
    dev: Option<String>,
    #[serde(default)]
    gateway: Option<String>,
    #[serde(default)]
    prefsrc: Option<String>,
    #[serde(default)]
    metric: u32,
    /// Set where packets are not sent on: `unreachable`, `blackhole`; and `local`.
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

fn address(text: Option<&String>) -> Option<Ipv4Addr> {
    text?.parse().ok()
}

pub(super) fn routes(json: &str) -> Result<Vec<Route>, Missing> {
    // With no route at all, some versions print nothing.
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    let lines: Vec<Line> = serde_json::from_str(json).map_err(|_| Missing::Failed(first_line(json)))?;
    let route = |line: Line| {
        Some(Route {
            gateway: address(line.gateway.as_ref()),
            source: address(line.prefsrc.as_ref()),
            interface: line.dev?,
            destination: Some(line.dst).filter(|dst| !dst.is_empty())?,
            metric: line.metric,
        })
    };
    let sends = |line: &Line| line.kind.as_deref().is_none_or(|kind| kind == "unicast");
    Ok(lines.into_iter().filter(sends).filter_map(route).collect())
}

/// `192.168.200.12 yes 0.213 yes [{"dst":"192.168.200.12","dev":"enp1s0f0np0",...}]`: whether it
/// answers, milliseconds, whether a whole packet passes, and what `ip -j route get` says; `-` is not known.
pub(super) fn peer(line: &str) -> Option<Peer> {
    let mut fields = line.splitn(5, ' ');
    let peer = fields.next()?.parse().ok()?;
    let answers = super::yes_no(fields.next())?;
    let milliseconds: Option<f64> = fields.next().and_then(|text| text.parse().ok());
    let whole_packets = super::yes_no(fields.next());
    let lines: Vec<Line> = fields.next().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let route = lines.into_iter().next();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded just before")]
    let microseconds = |ms: f64| (ms * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    Some(Peer {
        address: peer,
        answers,
        interface: route.as_ref().and_then(|route| route.dev.clone()),
        source: route.as_ref().and_then(|route| address(route.prefsrc.as_ref())),
        gateway: route.as_ref().and_then(|route| address(route.gateway.as_ref())),
        round_trip_us: milliseconds.filter(|ms| ms.is_finite()).map(microseconds),
        whole_packets,
    })
}

/// `LISTEN 0 4096 127.0.0.53%lo:53 0.0.0.0:* users:(("systemd-resolve",pid=1,fd=17))`
pub(super) fn listeners(text: &str, containers: &HashMap<u32, String>) -> Result<Vec<Listener>, String> {
    if text.lines().any(|line| line == "ss failed") {
        let said = first_line(text);
        return Err(format!("`ss` (package iproute2) gave no list of listening ports: {said}"));
    }
    let listener = |line: &str| {
        let mut fields = line.split_whitespace().skip_while(|field| *field != "LISTEN").skip(3);
        let (address, port) = fields.next()?.rsplit_once(':')?;
        let process = line.split_once("users:((\"").and_then(|(_, rest)| rest.split_once('"'));
        let pid = process.and_then(|(_, rest)| rest.split_once("pid=")?.1.split(',').next()?.parse().ok());
        Some(Listener {
            port: port.parse().ok()?,
            address: address.split('%').next().unwrap_or(address).to_owned(),
            process: process.map(|(name, _)| name.to_owned()),
            pid,
            container: pid.and_then(|pid| containers.get(&pid).cloned()),
        })
    };
    Ok(text.lines().filter_map(listener).collect())
}
