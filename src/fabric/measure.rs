//! How fast bytes arrive: a short transfer in each direction of each link, counted where it arrives.
//!
//! One link at a time on each node, so that no transfer takes from another; pairs of nodes that have
//! nothing in common go at once, since a fabric of more than two nodes has a switch. Four streams: one
//! is enough for a link between two containers (26 Gb/s there with 1 to 16), and a fast card spreads
//! several over its queues and the processor's cores. Neither end copies the bytes, else the figure
//! would be the processor's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::time::timeout;

use super::links::{Link, Rate, Reach};
use super::probe::{Listener, Member, Pair, Told};
use crate::error::in_full;
use crate::host::{Host, Script};
use crate::profile::NodeName;
use crate::transfer::ends::{secret as random, words};
use crate::transfer::python;

/// How long bytes are sent in one direction; the end that takes them leaves out the first quarter second.
const SEND: Duration = Duration::from_secs(2);
/// How long connecting and starting may take beside.
const START: Duration = Duration::from_secs(8);
/// How long the count may take to come: a stream that stands still is given up after 3 s.
const COUNT: Duration = Duration::from_secs(4);
const STREAMS: u32 = 4;

/// Who is told of each link as soon as its speed was measured, or was not.
pub type Tell<'a> = &'a (dyn Fn(&Measured) + Send + Sync);

/// A link whose speed was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured<'a> {
    pub from: &'a NodeName,
    pub to: &'a NodeName,
    /// The figure, or why there is none.
    pub rate: &'a Result<Rate, String>,
    /// How many links are done, this one among them, and of how many.
    pub done: usize,
    pub all: usize,
}

/// Measures every link that was reached. `pairs` and `links` belong together by their places.
pub(super) async fn measure(
    members: &[Member<'_>],
    pairs: &[Pair],
    listeners: &[Result<Listener, String>],
    secret: &str,
    links: &mut [Link],
    tell: Tell<'_>,
) {
    let (all, count) =
        (links.iter().filter(|link| link.reach == Reach::Connected).count(), AtomicUsize::new(0));
    let reached: Vec<_> = links.iter().map(|link| link.reach == Reach::Connected).collect();
    for round in rounds(members.len()) {
        let at_once = round.into_iter().map(|(one, other)| {
            let ours = move |pair: &Pair| [(one, other), (other, one)].contains(&(pair.from, pair.to));
            let places = (0..pairs.len()).filter(|&place| ours(&pairs[place]) && reached[place]);
            let places: Vec<_> = places.collect();
            let count = &count;
            async move {
                let mut rates = Vec::new();
                for place in places {
                    let pair = pairs[place];
                    let rate = match &listeners[pair.to] {
                        Ok(listener) => transfer(members[pair.from].host, pair, listener, secret).await,
                        Err(why) => Err(why.clone()),
                    };
                    let (from, to) = (members[pair.from].host.node(), members[pair.to].host.node());
                    let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                    tell(&Measured { from, to, rate: &rate, done, all });
                    rates.push((place, rate));
                }
                rates
            }
        });
        for (place, rate) in join_all(at_once).await.into_iter().flatten() {
            match rate {
                Ok(rate) => links[place].rate = Some(rate),
                Err(why) => links[place].rate_failed = Some(why),
            }
        }
    }
}

/// Every pair of `count` nodes once, in rounds in which no node comes twice: the first stays at its
/// place, the others go around it.
fn rounds(count: usize) -> Vec<Vec<(usize, usize)>> {
    let places = count + count % 2;
    let at = |round: usize, place: usize| {
        if place == 0 { 0 } else { (place - 1 + round) % (places - 1) + 1 }
    };
    (0..places.saturating_sub(1))
        .map(|round| {
            let pairs = (0..places / 2).map(|place| (at(round, place), at(round, places - 1 - place)));
            pairs.filter(|&(one, other)| one < count && other < count).collect()
        })
        .collect()
}

/// One transfer. The error is words.
async fn transfer(host: &dyn Host, pair: Pair, listener: &Listener, secret: &str) -> Result<Rate, String> {
    let (port, _) = listener.at(pair.to_address)?;
    let random = random().map_err(|error| format!("no random numbers: {error}"))?;
    let session = &random[..16];
    let arguments = [
        pair.from_address.to_string(),
        pair.to_address.to_string(),
        port.to_string(),
        session.to_owned(),
        STREAMS.to_string(),
        SEND.as_secs_f64().to_string(),
    ];
    let script = Script::new("fabric-send", python!("begin.py", "send.py"), arguments);
    let at = Timestamp::now();
    let output = host.run(script.input(format!("{secret}\n")).timeout(START + SEND)).await;
    let output = output.map_err(|error| in_full(&error))?;
    if let Some(said) = words(&output) {
        return Err(said);
    }
    let mut lines = listener.lines.lock().await;
    let counted = timeout(COUNT, async {
        while let Some(line) = lines.recv().await {
            match serde_json::from_str(&line) {
                Ok(Told::Counted { session: of, bytes, seconds }) if of == session => {
                    return Some((bytes, seconds));
                }
                _ => {}
            }
        }
        None
    });
    match counted.await {
        Ok(Some((bytes, seconds))) if bytes > 0 && seconds >= 0.1 => {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a figure for people, far below 2^53"
            )]
            let bytes_per_second = (bytes as f64 / seconds) as u64;
            Ok(Rate { bytes_per_second, seconds, streams: STREAMS, at })
        }
        Ok(Some(_)) => Err("the connection stood still as soon as bytes were to come".to_owned()),
        Ok(None) | Err(_) => Err("the other end did not say how much had come".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_comes_once_and_no_node_twice_at_once() {
        for count in 0..=8 {
            let mut all = BTreeSet::new();
            for round in rounds(count) {
                let nodes: Vec<_> = round.iter().flat_map(|&(one, other)| [one, other]).collect();
                assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "{count}: {round:?}");
                for (one, other) in round {
                    assert!(all.insert((one.min(other), one.max(other))), "{count}: {one}-{other} twice");
                }
            }
            assert_eq!(all.len(), count * count.saturating_sub(1) / 2, "{count}");
        }
        assert_eq!(rounds(4).len(), 3);
        assert_eq!(rounds(3).len(), 3);
    }
}
