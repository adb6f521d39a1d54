//! Failures, findings and outcomes as people read them.

use super::*;
use crate::config;
use crate::diagnose::{Diagnosis, Telling};
use crate::release::ReleaseNumber;

#[test]
fn a_failure_shows_what_where_why_and_what_to_do() {
    let node: NodeName = "spark2".parse().unwrap();
    let failure = Failure {
        stage: StageKind::Ready,
        node: Some(node.clone()),
        chain: vec!["ready failed on spark1".to_owned(), "rank 1 on spark2 ended (exit status 1)".to_owned()],
        diagnosis: Some(Diagnosis {
            id: Some("PORT-USE"),
            cause: Some("the port is taken".to_owned()),
            hint: Some("end what listens there".to_owned()),
            rank: Some(1),
            telling: vec![Telling {
                node,
                time: Some("2026-11-12T14:03:12Z".parse().unwrap()),
                text: "OSError: [Errno 98] Address already in use".to_owned(),
            }],
        }),
        hints: vec!["look at the port".to_owned()],
    };
    assert_eq!(
        failure_lines(&failure),
        [
            "error: ready failed on spark1: rank 1 on spark2 ended (exit status 1)",
            "  spark2  OSError: [Errno 98] Address already in use  14:03:12",
            "cause: the port is taken",
            "hint:  look at the port",
            "hint:  end what listens there",
        ]
    );
    // What is not known is said so, and nothing is invented.
    let unknown = Failure { diagnosis: Some(Diagnosis::default()), hints: Vec::new(), ..failure };
    assert!(failure_lines(&unknown).last().unwrap().starts_with("cause: unknown"));
}

#[test]
fn errors_come_after_warnings_and_hints_under_each() {
    let finding = |severity, message: &str| Finding {
        id: "x",
        severity,
        node: None,
        path: None,
        message: message.to_owned(),
        hint: Some(format!("mend {message}")),
    };
    let note = finding(Severity::Note, "c");
    assert_eq!(finding_lines(std::slice::from_ref(&note), None), ["note: c (x)", "  hint: mend c"]);
    // Beside an error a note is left out.
    let lines = finding_lines(&[finding(Severity::Error, "a"), finding(Severity::Warning, "b"), note], None);
    assert_eq!(lines, ["warning: b (x)", "  hint: mend b", "error: a (x)", "  hint: mend a"]);
}

#[test]
fn a_finding_shows_the_line_of_the_profile_that_it_is_about() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, include_str!("../../../profiles/qwen35-122b.yaml")).unwrap();
    let places = config::load(file.path(), &config::Given::NOTHING).unwrap().places;
    let finding = Finding {
        id: "heads",
        severity: Severity::Error,
        node: None,
        path: Some("engine.tensor_parallel".to_owned()),
        message: "32 heads cannot be shared by 3".to_owned(),
        hint: Some("take 2".to_owned()),
    };
    let expected = [
        "error: 32 heads cannot be shared by 3 (heads)".to_owned(),
        format!("  --> {}:17:20", file.path().display()),
        "   |".to_owned(),
        "17 |   tensor_parallel: 2            # one GPU a node".to_owned(),
        "   |                    ^".to_owned(),
        "  hint: take 2".to_owned(),
    ];
    assert_eq!(finding_lines(std::slice::from_ref(&finding), Some(&places)), expected);
    // Of a release's own profile no file is known.
    assert_eq!(finding_lines(&[finding], None), [expected[0].as_str(), expected[5].as_str()]);
}

#[test]
fn the_last_line_says_what_serves() {
    let (one, two) = (ReleaseNumber(1), ReleaseNumber(2));
    let endpoint = "http://h:1/v1".to_owned();
    let cases = [
        (
            RunOutcome::Deployed { release: two, endpoint: endpoint.clone(), outage_seconds: Some(393.0) },
            "m release 2 serves at http://h:1/v1 (outage 6 min 33 s)",
        ),
        (
            RunOutcome::NothingToDo { release: Some(one), endpoint: Some(endpoint) },
            "m release 1 serves at http://h:1/v1: already deployed, nothing to do",
        ),
        (
            RunOutcome::Restored { failed: two, release: one },
            "restored: release 1 serves again, verified; release 2 failed",
        ),
        (RunOutcome::Unchanged { serving: Some(one) }, "m: failed; release 1 still serves, untouched"),
        (
            RunOutcome::Down { failed: Some(two), why: "no way back".to_owned() },
            "m: release 2 failed: no way back",
        ),
    ];
    for (outcome, line) in cases {
        assert_eq!(outcome_line("m", &outcome), line);
    }
}
