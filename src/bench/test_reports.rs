//! Simulated benches, for tests: what a machine may bear, and how far it spreads.

use super::result::{ClientDelay, FORMAT, Load, Point, Report, Request, Run, Subject};

/// A bench as it may be: how it was measured, and how far it spreads.
#[derive(Clone, Copy)]
pub struct Simulated {
    pub runs: u32,
    /// Requests of a run.
    pub requests: u32,
    /// Spread of one run from another, a part.
    pub between: f64,
    /// Spread of one request from another, a part.
    pub within: f64,
    /// Seconds per token.
    pub tpot: f64,
}

/// The short bench of a deploy on a quiet machine, at two loads.
pub const DEPLOY: Simulated = Simulated { runs: 3, requests: 4, between: 0.01, within: 0.02, tpot: 0.0366 };

pub struct Random(pub u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / 2f64.powi(32)
    }

    /// A factor around 1, of a bell curve.
    fn factor(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        1.0 + (sum - 6.0) * spread
    }
}

pub fn report(simulated: Simulated, loads: &[u32], random: &mut Random) -> Report {
    let point = |load: u32, random: &mut Random| Point {
        load: Load::Concurrency(load),
        runs: (0..simulated.runs).map(|_| run(simulated, load, random)).collect(),
    };
    Report {
        format: FORMAT,
        sparkctl: "0".to_owned(),
        begun: jiff::Timestamp::UNIX_EPOCH,
        subject: Subject {
            url: "http://spark1:30000/v1".to_owned(),
            model: "m".to_owned(),
            deployment: None,
            release: None,
        },
        workload: "chat, 1024 tokens in, 256 out".to_owned(),
        points: loads.iter().map(|load| point(*load, random)).collect(),
        notes: Vec::new(),
    }
}

fn run(simulated: Simulated, load: u32, random: &mut Random) -> Run {
    let (speed, prefill) = (random.factor(simulated.between), random.factor(2.0 * simulated.between));
    let mut free = vec![0.0; load as usize];
    let mut requests = Vec::new();
    for number in 0..simulated.requests.max(load) {
        let place = (number % load) as usize;
        let ttft = 0.31 * prefill * random.factor(3.0 * simulated.within.min(0.05));
        let tpot = simulated.tpot * speed * random.factor(simulated.within);
        let seconds = ttft + 255.0 * tpot;
        requests.push(Request {
            start: free[place],
            ttft: Some(ttft),
            seconds,
            input_tokens: Some(1024),
            output_tokens: Some(256),
            ..Request::default()
        });
        free[place] += seconds;
    }
    let seconds = free.into_iter().fold(0.0, f64::max);
    Run { seconds, requests, client: ClientDelay::default(), prefix_cache: None, speculation: None }
}
