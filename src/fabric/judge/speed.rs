//! The largest packet, and how fast bytes arrive.

use super::{Finding, Link, Seen, Severity, finding, on_rail, severity, target};
use crate::cluster::facts::{Interface, InterfaceKind};
use crate::fabric::links::{MtuBy, PathMtu, Rate};

/// Mb/s that a link carries at most, whatever its nominal speed. A Spark's port has 200 Gb/s on two
/// halves of about 100 each at the PCI bus, and one rail is one half: 92 to 111 Gb/s are seen by TCP and RDMA alike.
/// Links of other machines that are faster still are not filled by four TCP streams either.
const USABLE: u64 = 100_000;
/// Percent of the usable speed. TCP reaches more than 90 where nothing is wrong.
const SLOW: u64 = 60;
/// Percent of the usable speed. The known fault gives 13 Gb/s of 200.
const CRIPPLED: u64 = 25;
/// Percent of the fastest transfer before; a third less is no noise.
const SLOWER: u64 = 70;

pub(super) fn judge(seen: &Seen, findings: &mut Vec<Finding>) {
    for (link, back) in seen.couples() {
        let mtu = [cut(seen, link), cut(seen, back)];
        match mtu {
            // No more exact than that is what passes known.
            [Some(there), Some(from)] if there.passed.abs_diff(from.passed) <= 4 && there.by == from.by => {
                let least = PathMtu { passed: there.passed.min(from.passed), ..there };
                findings.push(mtu_finding(link, least, " in both directions"));
            }
            [there, from] => {
                findings.extend(there.map(|mtu| mtu_finding(link, mtu, "")));
                findings.extend(from.map(|mtu| mtu_finding(back, mtu, "")));
            }
        }
        let stuck = mtu.iter().any(Option::is_some);
        match (speed(seen, link), speed(seen, back)) {
            (Some(there), Some(from)) if (there.id, there.severity) == (from.id, from.severity) => {
                findings.push(there.told(Some(&from)));
            }
            (there, from) => findings.extend([there, from].iter().flatten().map(|slow| slow.told(None))),
        }
        for link in [link, back] {
            let Some(why) = link.rate_failed.as_ref().filter(|_| !stuck) else { continue };
            findings.push(finding(
                severity(link),
                "fabric-slow",
                &link.from,
                format!("the speed to {}{} could not be measured: {why}", target(link), on_rail(link)),
                "repeat it; a connection that carries no bytes fails the engine, too",
            ));
        }
    }
}

/// Packets that do not arrive. Where the other end's own interface takes no more, TCP agrees on less, and
/// the facts tell that the MTUs differ.
fn cut(seen: &Seen, link: &Link) -> Option<PathMtu> {
    let mtu = link.mtu.filter(|mtu| mtu.passed < mtu.expected)?;
    let other = seen.to(link).map_or(u32::MAX, |interface| interface.mtu);
    (link.rail > 0 || mtu.passed + 4 < other.min(mtu.expected)).then_some(mtu)
}

fn mtu_finding(link: &Link, mtu: PathMtu, directions: &str) -> Finding {
    let PathMtu { expected, passed, by } = mtu;
    let to = format!("{}{}{directions}", target(link), on_rail(link));
    let (severity, message) = match by {
        MtuBy::Datagrams => (
            severity(link),
            format!(
                "packets of more than {passed} bytes do not arrive at {to}, but the interface sends {expected}"
            ),
        ),
        MtuBy::Segments => (
            Severity::Warning,
            format!(
                "connections to {to} use packets of {passed} bytes, but the interface sends {expected} (no datagram arrives, so this is all that can be seen)"
            ),
        ),
    };
    let hint = format!(
        "give every interface and switch port on the way an MTU of {expected}, or the interfaces {passed}: connections hang as soon as much is to be sent"
    );
    finding(severity, "fabric-mtu-path", &link.from, message, &hint)
}

/// A link that is too slow.
struct Slow<'a> {
    link: &'a Link,
    rate: Rate,
    id: &'static str,
    severity: Severity,
    compared: String,
    hint: String,
}

impl Slow<'_> {
    /// The finding, of both directions where the other is slow as well.
    fn told(&self, back: Option<&Self>) -> Finding {
        let rate = match back {
            Some(back) => format!("{} there and {} back", gigabits(self.rate), gigabits(back.rate)),
            None => gigabits(self.rate),
        };
        let message = format!("{rate} to {}{}; {}", target(self.link), on_rail(self.link), self.compared);
        finding(self.severity, self.id, &self.link.from, message, &self.hint)
    }
}

fn speed<'a>(seen: &Seen, link: &'a Link) -> Option<Slow<'a>> {
    let rate = link.rate?;
    let megabits = rate.bytes_per_second / 125_000;
    let nominal = seen.from(link).and_then(nominal).into_iter().chain(seen.to(link).and_then(nominal)).min();
    if let Some(nominal) = nominal {
        let percent = megabits * 100 / nominal.clamp(1, USABLE);
        if percent < SLOW {
            let crippled = percent < CRIPPLED;
            return Some(Slow {
                link,
                rate,
                id: "fabric-slow",
                severity: if crippled { severity(link) } else { Severity::Warning },
                compared: format!("the link has {} Gb/s", tenths(nominal)),
                hint: causes(seen, link, crippled),
            });
        }
    }
    let best = link.before?.best;
    (megabits * 100 < best.bytes_per_second / 125_000 * SLOWER).then(|| Slow {
        link,
        rate,
        id: "fabric-slower",
        severity: Severity::Warning,
        compared: format!("it was {} on {}", gigabits(best), best.at.strftime("%Y-%m-%d")),
        hint: format!(
            "{}; if it is to stay so, remove ~/.local/state/sparkctl/fabric.json on {}",
            causes(seen, link, false),
            link.from
        ),
    })
}

/// Mb/s that a card is sold with. What is made of software claims a speed that says nothing.
fn nominal(interface: &Interface) -> Option<u64> {
    let claims = matches!(
        interface.kind,
        InterfaceKind::Ethernet | InterfaceKind::Infiniband | InterfaceKind::Bond | InterfaceKind::Vlan
    );
    interface.speed.filter(|&speed| claims && speed > 0).map(u64::from)
}

/// What to look at, the likeliest first.
fn causes(seen: &Seen, link: &Link, crippled: bool) -> String {
    let (own, other) = (seen.from(link), seen.to(link));
    let mut causes = Vec::new();
    if let (Some(here), Some(there)) = (own.and_then(nominal), other.and_then(nominal))
        && here != there
    {
        causes.push(format!(
            "the two ends run at {} and {} Gb/s: check cable and port",
            tenths(here),
            tenths(there)
        ));
    }
    let mellanox = own.is_some_and(|own| own.driver.as_deref() == Some("mlx5_core"));
    if crippled && mellanox {
        causes.push(
            "a ConnectX-7 that took the 27 W limit at power-on carries 13 Gb/s: shut both nodes down, unplug them for a minute, start again"
                .to_owned(),
        );
    }
    if let Some(mtu) =
        [own, other].into_iter().flatten().map(|interface| interface.mtu).min().filter(|mtu| *mtu < 9000)
    {
        causes.push(format!("the MTU is {mtu}: set 9000 at both ends"));
    }
    if let Some(own) = own {
        causes.push(format!("check cable and port with `ethtool {}`", own.name));
        if let Some(pci) = &own.pci {
            causes.push(format!("and the PCIe width with `sudo lspci -vvs {pci} | grep LnkSta`"));
        }
    }
    causes.push("see that nothing else uses the link".to_owned());
    causes.join("; ")
}

fn gigabits(rate: Rate) -> String {
    format!("{} Gb/s", tenths(rate.bytes_per_second / 125_000))
}

/// Mb/s as Gb/s: `200`, `13.2`, `0.2`.
fn tenths(megabits: u64) -> String {
    match (megabits / 1000, megabits % 1000 / 100) {
        (whole, 0) if whole > 0 => whole.to_string(),
        (0, _) => format!("0.{megabits:03}").trim_end_matches('0').to_owned(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}
