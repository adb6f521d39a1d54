//! Who takes which part of the model from whom, where several nodes lack it: a node that has a part serves it onward. Pure.
//!
//! Copied from the head alone, a model takes as many times longer as there are nodes that lack it. Served onward, it takes
//! little longer than for one node: the head gives each part away once, and while it does, the others pass on what they
//! have. The schedule is what a greedy match makes of it, event by event: whoever can send gives the part that fewest
//! nodes have to the node that has least. It is not always the shortest one; the tests say how near it comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One part on its way from one node to another. Times are those of the schedule, in bytes that one lane carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    pub part: usize,
    pub from: usize,
    pub to: usize,
    pub begin: u64,
    pub end: u64,
}

/// The passages after which every node has every part, in the order in which they begin.
///
/// `has` says of each node, head first, which parts are there; `sizes` are those of the parts in bytes. A node sends, and
/// receives, at most `lanes` parts at a time, each at the same rate. A part that is nowhere goes nowhere.
pub fn schedule(has: &[Vec<bool>], sizes: &[u64], lanes: usize) -> Vec<Passage> {
    let mut state = State::new(has, sizes, lanes);
    let mut passages: Vec<Passage> = Vec::new();
    // What is under way, the first to end on top.
    let mut under_way = BinaryHeap::new();
    let mut now = 0;
    loop {
        for (from, to, part) in state.matches() {
            // A part without bytes takes a moment as well: time has to go on.
            let end = now + sizes[part].max(1);
            under_way.push(Reverse((end, passages.len())));
            passages.push(Passage { part, from, to, begin: now, end });
        }
        let Some(Reverse((end, _))) = under_way.peek().copied() else { return passages };
        now = end;
        while let Some(Reverse((end, index))) = under_way.peek().copied()
            && end == now
        {
            under_way.pop();
            state.arrived(&passages[index]);
        }
    }
}

/// Files in parts: large ones alone, small ones together, none of the parts much smaller than `least` but the last. The
/// largest come first, so that what is left at the end is soon everywhere. Each part is the places of its files in `sizes`.
pub fn parts(sizes: &[u64], least: u64) -> Vec<Vec<usize>> {
    let mut order: Vec<_> = (0..sizes.len()).collect();
    order.sort_by_key(|file| (Reverse(sizes[*file]), *file));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for file in order {
        match parts.last_mut() {
            Some(part) if room > 0 => part.push(file),
            _ => {
                parts.push(vec![file]);
                room = least;
            }
        }
        room = room.saturating_sub(sizes[file]);
    }
    parts
}

struct State<'a> {
    sizes: &'a [u64],
    lanes: usize,
    has: Vec<Vec<bool>>,
    /// By node and part: there, or under way.
    claimed: Vec<Vec<bool>>,
    /// By node: bytes that are there or under way.
    bytes: Vec<u64>,
    sending: Vec<usize>,
    receiving: Vec<usize>,
    /// By part: nodes that have it, or soon will.
    copies: Vec<usize>,
}

impl<'a> State<'a> {
    fn new(has: &[Vec<bool>], sizes: &'a [u64], lanes: usize) -> Self {
        let held =
            |node: &Vec<bool>| sizes.iter().zip(node).filter(|(_, has)| **has).map(|(size, _)| size).sum();
        Self {
            sizes,
            lanes: lanes.max(1),
            has: has.to_vec(),
            claimed: has.to_vec(),
            bytes: has.iter().map(held).collect(),
            sending: vec![0; has.len()],
            receiving: vec![0; has.len()],
            copies: (0..sizes.len()).map(|part| has.iter().filter(|node| node[part]).count()).collect(),
        }
    }

    /// What begins now: sender, receiver, part.
    fn matches(&mut self) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        let mut takers: Vec<_> =
            (0..self.has.len()).filter(|node| self.receiving[*node] < self.lanes).collect();
        takers.sort_by_key(|node| (self.bytes[*node], *node));
        // By part, those who lack it, the neediest first; who took another part meanwhile is passed over.
        let mut lacking: Vec<Vec<usize>> = (0..self.sizes.len())
            .map(|part| takers.iter().rev().copied().filter(|node| !self.claimed[*node][part]).collect())
            .collect();
        let mut rarest: Vec<_> = (0..self.sizes.len()).filter(|part| !lacking[*part].is_empty()).collect();
        if rarest.is_empty() {
            return found;
        }
        // The head has all, and nobody else has what it has not given away yet: it chooses first.
        for from in 0..self.has.len() {
            while self.sending[from] < self.lanes {
                rarest.sort_by_key(|part| (self.copies[*part], Reverse(self.sizes[*part]), *part));
                let Some((to, part)) = self.best(from, &rarest, &mut lacking) else { break };
                self.sending[from] += 1;
                self.receiving[to] += 1;
                self.claimed[to][part] = true;
                self.bytes[to] += self.sizes[part];
                self.copies[part] += 1;
                found.push((from, to, part));
            }
        }
        found
    }

    /// The rarest part that `from` can give to somebody, and to whom.
    fn best(&self, from: usize, rarest: &[usize], lacking: &mut [Vec<usize>]) -> Option<(usize, usize)> {
        for &part in rarest.iter().filter(|part| self.has[from][**part]) {
            while let Some(&to) = lacking[part].last() {
                if self.receiving[to] < self.lanes && !self.claimed[to][part] {
                    return Some((to, part));
                }
                lacking[part].pop();
            }
        }
        None
    }

    fn arrived(&mut self, passage: &Passage) {
        self.sending[passage.from] -= 1;
        self.receiving[passage.to] -= 1;
        self.has[passage.to][passage.part] = true;
    }
}

#[cfg(test)]
mod tests;
