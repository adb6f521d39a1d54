//! Comparing simulated benches: noise is not told as a difference, and a difference is not lost in the noise.

use super::*;
use crate::bench::test_reports::{DEPLOY, Random, Simulated, report};

/// Of how many comparisons each figure's verdict is not `equal`.
fn told_apart(then: Simulated, now: Simulated, loads: &[u32], wanted: impl Fn(&Comparison) -> bool) -> f64 {
    let mut random = Random(42);
    let times = 200;
    let seen = (0..times).filter(|_| {
        let (old, new) = (report(then, loads, &mut random), report(now, loads, &mut random));
        wanted(&compare(&Summary::of(&old), &Summary::of(&new)).unwrap())
    });
    f64::from(u32::try_from(seen.count()).unwrap()) / f64::from(times)
}

#[test]
fn two_benches_of_the_same_are_seldom_told_apart() {
    for (what, simulated) in [
        ("a deploy's bench", DEPLOY),
        ("a deploy's bench on a restless machine", Simulated { between: 0.03, within: 0.05, ..DEPLOY }),
        ("single runs", Simulated { runs: 1, requests: 20, ..DEPLOY }),
        ("two runs", Simulated { runs: 2, requests: 10, ..DEPLOY }),
        ("speculative decoding", Simulated { runs: 1, requests: 20, within: 0.15, ..DEPLOY }),
        ("many requests", Simulated { runs: 5, requests: 100, within: 0.1, ..DEPLOY }),
    ] {
        let alarms = told_apart(simulated, simulated, &[1, 4], |seen| seen.verdict() != Verdict::Equal);
        assert!(alarms < 0.05, "{what}: {:.1} % of the comparisons cry wolf", alarms * 100.0);
    }
}

#[test]
fn a_tenth_less_is_seen_and_told_as_worse() {
    for (what, simulated) in [
        ("a deploy's bench", DEPLOY),
        ("single runs", Simulated { runs: 1, requests: 20, ..DEPLOY }),
        ("five runs that spread more", Simulated { runs: 5, requests: 16, between: 0.02, ..DEPLOY }),
        ("speculative decoding, five runs", Simulated { runs: 5, requests: 32, within: 0.15, ..DEPLOY }),
    ] {
        let slower = Simulated { tpot: simulated.tpot / 0.9, ..simulated };
        let is_seen = |seen: &Comparison| {
            seen.rows.iter().any(|row| row.figure == Figure::Throughput && row.verdict == Verdict::Worse)
        };
        let seen = told_apart(simulated, slower, &[1, 4], is_seen);
        assert!(seen > 0.9, "{what}: a tenth less is seen in {:.0} % only", seen * 100.0);
        let faster = told_apart(slower, simulated, &[1, 4], |seen| seen.verdict() == Verdict::Better);
        assert!(faster > 0.9, "{what}: a tenth more is seen in {:.0} % only", faster * 100.0);
    }
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_difference() {
    let mut random = Random(7);
    let then = Summary::of(&report(DEPLOY, &[1, 4], &mut random));
    let other = Summary { workload: "chat, 512 tokens in, 256 out".to_owned(), ..then.clone() };
    assert_eq!(
        compare(&then, &other).unwrap_err().to_string(),
        "the workloads differ: `chat, 1024 tokens in, 256 out` then, `chat, 512 tokens in, 256 out` now"
    );
    let loads = Summary::of(&report(DEPLOY, &[8], &mut random));
    assert_eq!(compare(&then, &loads).unwrap_err().to_string(), "no load is in both: c1, c4 then, c8 now");
    let longer = Summary::of(&report(Simulated { requests: 16, ..DEPLOY }, &[1, 4], &mut random));
    assert_eq!(
        compare(&then, &longer).unwrap_err().to_string(),
        "the runs at c1 differ: 4 requests then, 16 now"
    );
    let more = Summary::of(&report(DEPLOY, &[4, 16], &mut random));
    let seen = compare(&then, &more).unwrap();
    assert_eq!(seen.apart, [Load::Concurrency(1), Load::Concurrency(16)]);
    assert!(seen.rows.iter().all(|row| row.load == Load::Concurrency(4)));
}

#[test]
fn one_request_tells_nothing_of_the_noise() {
    let one = Simulated { runs: 1, requests: 1, ..DEPLOY };
    let mut random = Random(7);
    let then = Summary::of(&report(one, &[1], &mut random));
    let seen = compare(&then, &then).unwrap();
    assert_eq!(seen.verdict(), Verdict::Unknown);
    assert_eq!(seen.words(), "too few requests to compare");
    // What was measured is told all the same.
    assert!(then.line().starts_with("c1 2"), "{}", then.line());
}

#[test]
fn failed_requests_are_told_as_worse() {
    let mut random = Random(7);
    let good = report(DEPLOY, &[4], &mut random);
    let mut bad = good.clone();
    bad.points[0].runs[1].requests[2].failure = Some(crate::bench::result::RequestFailure {
        kind: crate::bench::result::FailureKind::Stalled,
        message: "no byte for 300 s".to_owned(),
    });
    let seen = compare(&Summary::of(&good), &Summary::of(&bad)).unwrap();
    let failed = seen.rows.iter().find(|row| row.figure == Figure::Failed).unwrap();
    assert_eq!((failed.verdict, failed.figure.words(failed.now)), (Verdict::Worse, "8.33 %".to_owned()));
    assert!(seen.words().starts_with("worse: "), "{}", seen.words());
}

/// What a person reads.
#[test]
fn the_table() {
    let mut random = Random(3);
    let then = Summary::of(&report(DEPLOY, &[1, 4], &mut random));
    let slower = Simulated { tpot: DEPLOY.tpot * 1.2, ..DEPLOY };
    let now = Summary::of(&report(slower, &[1, 4, 8], &mut random));
    insta::assert_snapshot!(compare(&then, &now).unwrap().table("release 8"));
}
