//! Figures of small runs, worked out by hand.

use crate::bench::metrics::{Distribution, Goodput, Spread, metrics};
use crate::bench::notes::notes;
use crate::bench::result::{
    ClientDelay, FailureKind, Load, Point, PrefixCache, Request, RequestFailure, Run,
};
use crate::bench::workload::Workload;

fn request(start: f64, ttft: f64, itls: &[f64], tokens: u32) -> Request {
    let seconds = ttft + itls.iter().sum::<f64>();
    let (input_tokens, output_tokens) = (Some(10), Some(tokens));
    Request {
        start,
        ttft: Some(ttft),
        itls: itls.to_vec(),
        seconds,
        input_tokens,
        output_tokens,
        ..Request::default()
    }
}

fn failed(start: f64, kind: FailureKind) -> Request {
    let failure = Some(RequestFailure { kind, message: "no".to_owned() });
    Request { start, seconds: 9.0, output_tokens: Some(50), failure, ..Request::default() }
}

fn run(seconds: f64, requests: Vec<Request>) -> Run {
    Run { seconds, requests, client: ClientDelay::default(), prefix_cache: None, speculation: None }
}

#[test]
fn the_figures_are_those_of_the_definitions() {
    // Two answers of 5 and 1 tokens, the first of them in three pieces; a failure that gives neither time nor tokens.
    let run = run(
        4.0,
        vec![request(0.0, 0.5, &[0.25, 0.75], 5), request(1.0, 0.25, &[], 1), failed(2.0, FailureKind::Cut)],
    );
    let goodput = Goodput { ttft_ms: Some(300.0), tpot_ms: Some(100.0), e2el_ms: None };
    let figures = metrics(&run, &goodput);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert_eq!((figures.completed, figures.failed), (2, 1));
    assert_eq!((figures.input_tokens, figures.output_tokens), (20, 6));
    assert_eq!((figures.request_throughput, figures.output_throughput), (0.5, 1.5));
    assert!(close(figures.total_token_throughput, 6.5), "{}", figures.total_token_throughput);
    assert_eq!(figures.ttft.values(), [0.25, 0.5]);
    // (1.5 - 0.5) / 4; an answer of one token has none.
    assert_eq!(figures.tpot.values(), [0.25]);
    assert_eq!(figures.itl.values(), [0.25, 0.75]);
    assert_eq!(figures.e2el.values(), [0.25, 1.5]);
    // The second met its limits: a TPOT that there is not counts as 0.
    assert_eq!(figures.request_goodput, Some(0.25));
    // In the second second the first was still under way.
    assert_eq!(figures.max_concurrent_requests, 2);
    // In the first second two of three pieces, of 5 tokens; in the next the last, and the other's one token.
    assert!(
        close(figures.max_output_tokens_per_second, 10.0 / 3.0),
        "{}",
        figures.max_output_tokens_per_second
    );
}

#[test]
fn nothing_answered_has_no_latencies() {
    let figures = metrics(&run(0.0, vec![failed(0.0, FailureKind::Connect)]), &Goodput::default());
    assert_eq!((figures.completed, figures.failed, figures.output_throughput), (0, 1, 0.0));
    assert_eq!((figures.ttft.median(), figures.ttft.mean(), figures.request_goodput), (None, None, None));
}

/// The values are those of `numpy.percentile([15, 20, 35, 40, 50], p)` and `numpy.std`.
#[test]
fn percentiles_are_numpys() {
    let values = Distribution::new([50.0, 15.0, 40.0, 20.0, 35.0, f64::NAN]);
    for (percent, wanted) in
        [(0.0, 15.0), (5.0, 16.0), (40.0, 29.0), (50.0, 35.0), (99.0, 49.6), (100.0, 50.0)]
    {
        let found = values.percentile(percent).expect("there are values");
        assert!((found - wanted).abs() < 1e-9, "p{percent}: {found}");
    }
    assert!((values.std().expect("there are values") - 12.884_098_726_725_126).abs() < 1e-9);
    let spread = Spread::of([Some(90.0), None, Some(110.0), Some(100.0)]).expect("there are figures");
    assert_eq!((spread.median, spread.lowest, spread.highest, spread.noise()), (100.0, 90.0, 110.0, 0.1));
}

#[test]
fn what_makes_figures_other_than_they_seem_is_told() {
    let even = || run(1.0, vec![request(0.0, 0.1, &[0.1, 0.1, 0.1], 20)]);
    let ids = |runs: Vec<Run>, workload: &Workload| {
        let points = [Point { load: Load::Concurrency(1), runs }];
        notes(&points, workload).into_iter().map(|note| note.id).collect::<Vec<_>>()
    };
    let plain = Workload::default();
    assert!(ids(vec![even(), even()], &plain).is_empty());

    let slow = Run { client: ClientDelay { p99_seconds: 0.2, ..ClientDelay::default() }, ..even() };
    assert_eq!(ids(vec![slow], &plain), ["client-slow"]);
    let busy = Run { client: ClientDelay { cpu_seconds: 0.95, ..ClientDelay::default() }, ..even() };
    assert_eq!(ids(vec![busy], &plain), ["client-slow"]);
    let cached = Run { prefix_cache: Some(PrefixCache { asked: 100.0, hit: 60.0 }), ..even() };
    assert_eq!(ids(vec![cached], &plain), ["prefix-cache"]);
    assert_eq!(ids(vec![run(2.0, even().requests), even()], &plain), ["runs-differ"]);
    assert_eq!(ids(vec![run(1.0, vec![request(0.0, 0.1, &[0.1], 20)])], &plain), ["pieces-withheld"]);
    let retried = Request { retries: 2, ..request(0.0, 0.1, &[0.1, 0.1], 20) };
    assert_eq!(ids(vec![run(1.0, vec![retried])], &plain), ["retried"]);
    let all =
        vec![failed(0.0, FailureKind::Cut), failed(0.0, FailureKind::Stalled), failed(0.0, FailureKind::Cut)];
    assert_eq!(ids(vec![run(1.0, all)], &plain), ["failed-stalled", "failed-cut"]);
}
