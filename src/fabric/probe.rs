//! Asking the nodes: a listener on each, then from each the way to all others, all at once.
//!
//! Both ends are programs of this probe. The listener takes one address of each other node and who
//! knows a secret of this probe, on ports that the kernel picks, and ends with its standard input. A
//! healthy fabric answers within a second; a node that does not answer costs 2 s.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::links::{Link, Links, PathMtu, Reach, Trouble, Way};
use super::measure::{self, Tell};
use super::store;
use crate::error::in_full;
use crate::host::{Host, HostError, Running, Script};
use crate::transfer::ends::{ended, secret, words};
use crate::transfer::python;

/// How long a listener may take to listen.
const LISTEN: Duration = Duration::from_secs(10);
/// How long all ways from a node may take: 2 s for a connection, 4 s for a strange MTU, and the start.
const REACH: Duration = Duration::from_secs(15);
/// How long a line that a listener has printed may take to come here.
const GRACE: Duration = Duration::from_millis(100);

/// A node that takes part.
pub struct Member<'a> {
    pub host: &'a dyn Host,
    /// Its addresses on the fabric, one a rail; those of two nodes at the same place belong together.
    pub addresses: Vec<Ipv4Addr>,
}

/// A line that a program of the probe prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Told {
    Listening { address: Ipv4Addr, tcp: u16, udp: u16 },
    Failed { address: Ipv4Addr, why: String },
    Ready {},
    Arrived { from: Ipv4Addr, to: Ipv4Addr },
    Counted { session: String, bytes: u64, seconds: f64 },
    Way(ToldWay),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToldWay {
    from: Ipv4Addr,
    to: Ipv4Addr,
    route: Option<Way>,
    reach: Reach,
    mtu: Option<PathMtu>,
}

/// A node's listener.
pub(super) struct Listener {
    /// Lines that it prints. Dropped, it ends.
    pub lines: Mutex<mpsc::Receiver<String>>,
    /// Ports by address, for TCP and UDP.
    ports: BTreeMap<Ipv4Addr, (u16, u16)>,
    /// Addresses at which it could not listen, and why.
    failed: BTreeMap<Ipv4Addr, String>,
}

impl Listener {
    /// The ports at an address, for TCP and UDP; else why there are none.
    pub fn at(&self, address: Ipv4Addr) -> Result<(u16, u16), String> {
        self.ports.get(&address).copied().ok_or_else(|| {
            let why = self.failed.get(&address).map_or("it did not say why", String::as_str);
            format!("cannot listen on {address}: {why}")
        })
    }
}

/// A link that is to be probed, by the places of its nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub from: usize,
    pub to: usize,
    rail: usize,
    pub from_address: Ipv4Addr,
    pub to_address: Ipv4Addr,
}

/// Probes all links between these nodes; with `measure`, who is told of each, also their speed, about 5 s a pair and
/// rail, and remembers it on the nodes. What a node does not tell is said in the links, so this never fails.
pub async fn probe(members: &[Member<'_>], measure: Option<Tell<'_>>) -> Links {
    let pairs = pairs(members);
    if pairs.is_empty() {
        return Links::default();
    }
    let secret = match secret() {
        Ok(secret) => secret,
        Err(error) => return unknown(members, &pairs, &format!("no random numbers: {error}")),
    };
    let listening = join_all((0..members.len()).map(|node| listen(members, &pairs, node, &secret)));
    let remembering = join_all(members.iter().map(|member| store::read(member.host)));
    let (listeners, figures) = tokio::join!(listening, remembering);
    let reaching = (0..members.len()).map(|node| reach(members, &pairs, node, &listeners, &secret));
    let ways: Vec<_> = join_all(reaching).await;
    let arrived = arrived(&listeners, &ways).await;

    let mut links = Links::default();
    for pair in &pairs {
        let mut link = unprobed(members, *pair);
        match (&listeners[pair.to], &ways[pair.from]) {
            (Ok(listener), Ok(ways)) => match listener.at(pair.to_address) {
                Ok(_) => ways.iter().for_each(|way| tell(&mut link, way, &arrived)),
                Err(why) => link.reach = Reach::Unknown(format!("{} {why}", link.to)),
            },
            (_, Err(why)) | (Err(why), _) => link.reach = Reach::Unknown(why.clone()),
        }
        if let Ok(figures) = &figures[pair.from] {
            link.before = figures.before(pair.from_address, pair.to_address);
        }
        links.links.push(link);
    }
    if let Some(tell) = measure {
        measure::measure(members, &pairs, &listeners, &secret, &mut links.links, tell).await;
    }
    for (member, figures) in members.iter().zip(figures) {
        let node = member.host.node();
        let measured = links.links.iter().filter(|link| &link.from == node);
        let measured: Vec<_> = measured.filter_map(|link| Some((link, link.rate?))).collect();
        let kept = match figures {
            Ok(mut figures) if !measured.is_empty() => {
                for (link, rate) in measured {
                    figures.note(link.from_address, link.to_address, rate);
                }
                store::write(member.host, &figures).await
            }
            Ok(_) => Ok(()),
            Err(why) => Err(why),
        };
        if let Err(what) = kept {
            links.troubles.push(Trouble { node: node.clone(), what });
        }
    }
    links
}

/// All links: each rail of each ordered pair of nodes.
fn pairs(members: &[Member<'_>]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (from, one) in members.iter().enumerate() {
        for (to, other) in members.iter().enumerate().filter(|(to, _)| *to != from) {
            for (rail, (&from_address, &to_address)) in one.addresses.iter().zip(&other.addresses).enumerate()
            {
                pairs.push(Pair { from, to, rail, from_address, to_address });
            }
        }
    }
    pairs
}

/// Nothing could be asked.
fn unknown(members: &[Member<'_>], pairs: &[Pair], why: &str) -> Links {
    let link = |pair: &Pair| Link { reach: Reach::Unknown(why.to_owned()), ..unprobed(members, *pair) };
    Links { links: pairs.iter().map(link).collect(), troubles: Vec::new() }
}

fn unprobed(members: &[Member<'_>], pair: Pair) -> Link {
    let from = members[pair.from].host.node().clone();
    Link {
        reach: Reach::Unknown(format!("{from} told nothing of this link")),
        from,
        to: members[pair.to].host.node().clone(),
        rail: pair.rail,
        from_address: pair.from_address,
        to_address: pair.to_address,
        route: None,
        arrives: None,
        mtu: None,
        rate: None,
        rate_failed: None,
        before: None,
    }
}

/// Puts what a node told into the link that it is about.
fn tell(link: &mut Link, way: &ToldWay, arrived: &[(Ipv4Addr, Ipv4Addr)]) {
    if (way.from, way.to) != (link.from_address, link.to_address) {
        return;
    }
    link.route.clone_from(&way.route);
    link.reach = way.reach.clone();
    link.mtu = way.mtu;
    link.arrives = Some(way.reach == Reach::Connected || arrived.contains(&(way.from, way.to)));
}

/// Starts the listener of a node. The error is words.
async fn listen(
    members: &[Member<'_>],
    pairs: &[Pair],
    node: usize,
    secret: &str,
) -> Result<Listener, String> {
    let host = members[node].host;
    let mut admitted = BTreeMap::<_, Vec<_>>::new();
    for pair in pairs.iter().filter(|pair| pair.to == node) {
        admitted.entry(pair.to_address).or_default().push(pair.from_address.to_string());
    }
    let arguments = admitted.iter().map(|(own, admitted)| format!("{own}={}", admitted.join(",")));
    let script = Script::new("fabric-listen", python!("begin.py", "listen.py"), arguments);
    let script = script.input(format!("{secret}\n")).timeout(Duration::from_secs(3600));
    let mut running = host.start(script).await.map_err(|error| in_full(&error))?;
    let (mut ports, mut failed) = (BTreeMap::new(), BTreeMap::new());
    let ready = timeout(LISTEN, async {
        while let Some(line) = running.lines.recv().await {
            match serde_json::from_str(&line) {
                Ok(Told::Listening { address, tcp, udp }) => drop(ports.insert(address, (tcp, udp))),
                Ok(Told::Failed { address, why }) => drop(failed.insert(address, why)),
                Ok(Told::Ready {}) => return true,
                _ => {}
            }
        }
        false
    });
    let node = host.node();
    match ready.await {
        Ok(true) => {
            let Running { lines, end: _ } = running;
            Ok(Listener { lines: Mutex::new(lines), ports, failed })
        }
        Ok(false) => Err(match ended(running).await {
            Ok(said) => {
                format!("{node}: {}", said.unwrap_or_else(|| "the listener ended at once".to_owned()))
            }
            Err(error) => in_full(&error),
        }),
        Err(_) => Err(format!("{node}: the listener did not listen within {} s", LISTEN.as_secs())),
    }
}

/// All ways from a node to the listeners that there are. The error is words.
async fn reach(
    members: &[Member<'_>],
    pairs: &[Pair],
    node: usize,
    listeners: &[Result<Listener, String>],
    secret: &str,
) -> Result<Vec<ToldWay>, String> {
    let argument = |pair: &Pair| {
        let (tcp, udp) = listeners[pair.to].as_ref().ok()?.at(pair.to_address).ok()?;
        Some(format!("{},{},{tcp},{udp}", pair.from_address, pair.to_address))
    };
    let arguments: Vec<_> = pairs.iter().filter(|pair| pair.from == node).filter_map(argument).collect();
    if arguments.is_empty() {
        return Ok(Vec::new());
    }
    let host = members[node].host;
    let script = Script::new("fabric-reach", python!("begin.py", "reach.py"), arguments);
    let output = host.run(script.input(format!("{secret}\n")).timeout(REACH)).await;
    let output = output.map_err(|error: HostError| in_full(&error))?;
    if let Some(said) = words(&output) {
        return Err(format!("{}: {said}", host.node()));
    }
    let way = |line: &str| match serde_json::from_str(line) {
        Ok(Told::Way(way)) => Ok(way),
        _ => Err(format!("{}: the probe said what makes no sense: {line}", host.node())),
    };
    String::from_utf8_lossy(&output.stdout).lines().map(way).collect()
}

/// From which address to which other a datagram arrived. Only wanted where something did not connect:
/// seconds have passed then, and every line is on its way.
async fn arrived(
    listeners: &[Result<Listener, String>],
    ways: &[Result<Vec<ToldWay>, String>],
) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let mut arrived = Vec::new();
    if ways.iter().flatten().flatten().all(|way| way.reach == Reach::Connected) {
        return arrived;
    }
    tokio::time::sleep(GRACE).await;
    for listener in listeners.iter().flatten() {
        let mut lines = listener.lines.lock().await;
        while let Ok(line) = lines.try_recv() {
            if let Ok(Told::Arrived { from, to }) = serde_json::from_str(&line) {
                arrived.push((from, to));
            }
        }
    }
    arrived
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
