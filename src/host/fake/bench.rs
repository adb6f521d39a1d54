//! What an endpoint in memory bears under load: 27 tokens a second for one request, half of it where its release is slow.

use jiff::Timestamp;

use super::cluster::Behaviour;
use super::engine::Served;
use crate::bench::load::Progress;
use crate::bench::result::{
    ClientDelay, FORMAT, FailureKind, Load, Point, Report, Request, RequestFailure, Run, Subject,
};
use crate::bench::workload::Order;

/// Seconds to the first token.
const TTFT: f64 = 0.31;
/// Seconds of each further token, for one request.
const TPOT: f64 = 0.036;

/// The report of `order` on what serves.
pub(super) fn report(
    order: &Order,
    subject: &Subject,
    served: Option<&Served>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Report {
    let slower = if served.is_some_and(|served| served.behaviour == Behaviour::Slow) { 2.0 } else { 1.0 };
    let dies = served.is_some_and(|served| served.behaviour == Behaviour::DiesUnderLoad);
    let answers = served.is_some_and(|served| {
        served.completes && served.model == subject.model && served.behaviour != Behaviour::NotUnderLoad
    });
    let point = |load: &Load| {
        let at_once = if let Load::Concurrency(most) = load { *most } else { 1 };
        progress(Progress::Begun { load: *load, run: 1 });
        let runs = (0..order.repeat)
            .map(|number| run(order, at_once, number, slower, answers && !(dies && number > 0)));
        Point { load: *load, runs: runs.collect() }
    };
    Report {
        format: FORMAT,
        sparkctl: env!("CARGO_PKG_VERSION").to_owned(),
        begun: Timestamp::UNIX_EPOCH,
        subject: subject.clone(),
        workload: order.workload.to_string(),
        points: order.loads.iter().map(point).collect(),
        notes: Vec::new(),
    }
}

/// Waves of requests; each run a little faster than the one before.
fn run(order: &Order, at_once: u32, number: u32, slower: f64, answers: bool) -> Run {
    let tokens = order.workload.output.map_or(1, |output| output.most);
    // Four at once are each a third slower than one.
    let tpot = TPOT * slower * f64::from(at_once).powf(0.2) * (1.0 - 0.002 * f64::from(number));
    let each = if answers { TTFT + tpot * f64::from(tokens.saturating_sub(1)) } else { 0.0 };
    let request = |at: u32| Request {
        start: f64::from(at / at_once) * each,
        ttft: answers.then_some(TTFT),
        seconds: each,
        input_tokens: answers.then_some(order.workload.input.most),
        output_tokens: answers.then_some(tokens),
        failure: (!answers).then(|| RequestFailure {
            kind: FailureKind::Status,
            message: "HTTP 500: EngineDeadError".to_owned(),
        }),
        ..Request::default()
    };
    let requests: Vec<_> = (0..order.requests.unwrap_or(at_once)).map(request).collect();
    let seconds = requests.last().map_or(0.0, |last| last.start + last.seconds);
    Run { seconds, requests, client: ClientDelay::default(), prefix_cache: None, speculation: None }
}
