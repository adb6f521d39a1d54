//! Whether a start still moves: what is seen of every rank, and the judgement over all of them. Pure.
//!
//! A log says little: a first start may compile for half an hour without a line. So all signs are taken together: the
//! log, the CPU time of the container's processes, what the node reads from its disks, what passes over the fabric, how
//! busy the GPU is. Which of them count depends on how far the rank has come: where NCCL connects ranks a busy
//! CPU says nothing, as they may spin while they wait; where weights are read or kernels compiled it says all.
//!
//! Promised: a group stands still only when no rank has moved by any sign that counts for it. A sign that cannot be had
//! is no sign. Left out: why it stands still, which is `diagnose`'s.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Deserialize;

use crate::engine::milestones::StartStage;

/// How long ranks that look for each other may be silent: it is a matter of seconds, and nothing is compiled meanwhile.
const MEETING: Duration = Duration::from_secs(150);
/// Cores in use, above which a container computes. Ray's own processes take about a tenth of one.
const COMPUTES: f64 = 0.25;
/// Bytes a second, above which a disk is read for a reason.
const READS: f64 = 1e6;
/// Bytes a second, above which the fabric carries more than signs of life.
const CARRIES: f64 = 2e5;
/// Per cent of the GPU's time.
const GPU_WORKS: u8 = 5;

/// One look at a rank's node: what was used so far. What could not be had is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Look {
    /// Seconds of CPU time of the container's processes.
    pub cpu: Option<f64>,
    /// Bytes that the node read from its disks.
    pub read: Option<u64>,
    /// Bytes in and out of the fabric's interface, and by RDMA.
    pub fabric: Option<u64>,
    /// Per cent of the last second in which the GPU was busy.
    pub gpu: Option<u8>,
}

/// A sign that something moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Log,
    Cpu,
    Disk,
    Fabric,
    Gpu,
}

const SIGNS: [Sign; 5] = [Sign::Log, Sign::Cpu, Sign::Disk, Sign::Fabric, Sign::Gpu];

impl Sign {
    /// Whether it says anything of a rank that has come so far.
    fn counts(self, stage: Option<StartStage>) -> bool {
        match stage {
            // Who waits for others asks again and again, and so takes CPU time.
            Some(StartStage::Gathering) => matches!(self, Self::Log | Self::Disk),
            // NCCL spins, on the CPU and on the GPU. All ranks are there by then; who waits for one that still comes up
            // sleeps, so that at the rendezvous all counts.
            Some(StartStage::Groups) => matches!(self, Self::Log | Self::Fabric),
            _ => true,
        }
    }
}

/// What is known of a group's start.
#[derive(Debug)]
pub struct Pulse {
    ranks: Vec<Rank>,
    /// Whether the head's log has the lines of all ranks, as on Ray.
    head_tells_all: bool,
    stall: Duration,
}

#[derive(Debug, Clone, Default)]
struct Rank {
    stage: Option<StartStage>,
    /// When each sign was last seen, from the beginning on.
    moved: [Duration; SIGNS.len()],
    last: Option<(Duration, Look)>,
}

/// What all signs amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Something moves, or did so just now.
    Moving,
    /// Nothing has moved for so long.
    Quiet(Duration),
    /// Nothing has moved for longer than the stage may take.
    Hung(Duration),
}

/// For how long nothing has to move until it is worth a word.
const QUIET: Duration = Duration::from_secs(60);

impl Pulse {
    /// Of `ranks` ranks; `stall` is the longest silence that any stage may have.
    pub fn new(ranks: usize, head_tells_all: bool, stall: Duration) -> Self {
        Self { ranks: vec![Rank::default(); ranks], head_tells_all, stall }
    }

    /// How often to look: a silence has to be seen several times before it is one.
    pub fn pace(&self) -> Duration {
        (self.stall / 4).clamp(Duration::from_secs(1), Duration::from_secs(12))
    }

    /// A rank wrote a line that is not merely about waiting, `at` this time since the beginning.
    pub fn said(&mut self, rank: usize, at: Duration) {
        self.moved(rank, Sign::Log, at);
    }

    /// A rank has come this far. Stages are a partial order: an earlier one says nothing new.
    pub fn reached(&mut self, rank: usize, stage: StartStage) {
        if let Some(rank) = self.ranks.get_mut(rank) {
            rank.stage = rank.stage.max(Some(stage));
        }
    }

    /// A look at a rank's node.
    pub fn looked(&mut self, rank: usize, at: Duration, look: Look) {
        let before = self.ranks.get_mut(rank).and_then(|rank| rank.last.replace((at, look)));
        if look.gpu.is_some_and(|gpu| gpu >= GPU_WORKS) {
            self.moved(rank, Sign::Gpu, at);
        }
        let Some((then, before)) = before else { return };
        let seconds = at.saturating_sub(then).as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?) as f64 / seconds);
        if look.cpu.zip(before.cpu).is_some_and(|(now, then)| (now - then) / seconds >= COMPUTES) {
            self.moved(rank, Sign::Cpu, at);
        }
        if rate(look.read, before.read).is_some_and(|rate| rate >= READS) {
            self.moved(rank, Sign::Disk, at);
        }
        if rate(look.fabric, before.fabric).is_some_and(|rate| rate >= CARRIES) {
            self.moved(rank, Sign::Fabric, at);
        }
    }

    /// How far the group has come, by the rank that has come furthest.
    pub fn stage(&self) -> Option<StartStage> {
        self.ranks.iter().filter_map(|rank| rank.stage).max()
    }

    /// How far a rank has come.
    pub fn stage_of(&self, rank: usize) -> Option<StartStage> {
        let own = self.ranks.get(rank)?.stage;
        // While the nodes gather each rank is still on its own: a worker may be at a command ahead of the engine.
        let of_head =
            self.ranks[0].stage.filter(|stage| self.head_tells_all && *stage > StartStage::Gathering);
        own.max(of_head)
    }

    /// What all signs amount to, `at` this time since the beginning.
    pub fn judge(&self, at: Duration) -> Verdict {
        let moved = (0..self.ranks.len()).map(|rank| {
            let stage = self.stage_of(rank);
            let counted = SIGNS.iter().filter(|sign| sign.counts(stage));
            counted.map(|sign| self.ranks[rank].moved[*sign as usize]).max().unwrap_or_default()
        });
        let silence = at.saturating_sub(moved.max().unwrap_or_default());
        if silence > self.limit() {
            Verdict::Hung(silence)
        } else if silence >= QUIET {
            Verdict::Quiet(silence)
        } else {
            Verdict::Moving
        }
    }

    /// The longest silence that the group's stage may have.
    fn limit(&self) -> Duration {
        match self.stage() {
            Some(StartStage::Rendezvous | StartStage::Groups) => MEETING.min(self.stall),
            _ => self.stall,
        }
    }

    fn moved(&mut self, rank: usize, sign: Sign, at: Duration) {
        if let Some(rank) = self.ranks.get_mut(rank) {
            rank.moved[sign as usize] = at;
        }
    }
}
