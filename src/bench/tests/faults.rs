//! The whole load against a server that has one fault: it ends, and tells what was wrong.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::server::{STREAM, Step, chunk, document, good, serve, usage};
use crate::bench::load::{BenchError, Progress, Target, run};
use crate::bench::result::{FailureKind, Load, Report, Subject};
use crate::bench::workload::{Endpoint, Length, Limits, Order, Workload};

fn order() -> Order {
    let (input, output) = (Length::fixed(60), Some(Length::fixed(4)));
    Order {
        workload: Workload { input, output, ..Workload::default() },
        loads: vec![Load::Concurrency(2)],
        requests: Some(4),
        duration: None,
        repeat: 1,
        warmup: Some(0),
        limits: Limits {
            connect: Duration::from_secs(2),
            stall: Duration::from_millis(300),
            retry: Duration::from_secs(1),
            total: Duration::from_secs(20),
        },
    }
}

fn target(address: impl std::fmt::Display) -> Target {
    let subject = Subject {
        url: format!("http://{address}/v1"),
        model: "m".to_owned(),
        deployment: None,
        release: None,
    };
    Target { subject, socket: None, key: Some("k3y".to_owned().into()) }
}

/// The report of a bench of a server that answers the requests of the load so, and those ahead of it well.
async fn measured(order: &Order, answer: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Report {
    let address = serve(move |path, body| match path {
        "/v1/chat/completions" if body.contains("\"max_tokens\":2,") => good(2),
        "/v1/chat/completions" => answer(body),
        _ => document("404 Not Found", "", "{}"),
    });
    run(order, &target(address.await), |_| {}).await.expect("something was measured")
}

fn kinds(report: &Report) -> Vec<Option<FailureKind>> {
    let requests = report.points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.requests);
    requests.map(|request| request.failure.as_ref().map(|failure| failure.kind)).collect()
}

#[tokio::test]
async fn every_fault_is_counted_and_explained() {
    let send = |text: String| vec![Step::Send(text)];
    let piece = chunk("data: {\"choices\":[{\"delta\":{\"content\":\"w \"}}]}\n\n");
    let begun = format!("{STREAM}{piece}");
    let end = "0\r\n\r\n";
    let then = |text: &str, step: Step| vec![Step::Send(text.to_owned()), step];
    let cases: Vec<(&str, Vec<Step>, FailureKind, &str)> = vec![
        ("no answer", vec![Step::Silence], FailureKind::Stalled, "no byte for 300ms"),
        ("silence in a stream", then(&begun, Step::Silence), FailureKind::Stalled, "fell silent"),
        ("half closed at once", vec![Step::HalfClose], FailureKind::Cut, "before an answer"),
        ("half closed in a stream", then(&begun, Step::HalfClose), FailureKind::Cut, "after 1 events"),
        ("closed in a stream", then(&begun, Step::Close), FailureKind::Cut, "after 1 events"),
        ("ended in a stream", send(format!("{begun}{end}")), FailureKind::Cut, "no `finish_reason`"),
        ("a chunk of no length", send(format!("{STREAM}zz\r\n")), FailureKind::Cut, "chunk"),
        ("no HTTP", send("hello\r\n\r\n".to_owned()), FailureKind::Cut, "before an answer"),
        (
            "malformed",
            send(format!("{begun}{}{end}", chunk("data: {oops\n\n"))),
            FailureKind::Malformed,
            "{oops",
        ),
        (
            "an error",
            send(format!("{begun}{}{end}", chunk("data: {\"error\": {\"message\": \"engine died\"}}\n\n"))),
            FailureKind::Error,
            "engine died",
        ),
        (
            "a status",
            document("500 Internal Server Error", "", "{\"error\": {\"message\": \"no memory\"}}"),
            FailureKind::Status,
            "HTTP 500: no memory",
        ),
        (
            "busy for long",
            document("503 Service Unavailable", "Retry-After: 3600\r\n", "{}"),
            FailureKind::Status,
            "asks to wait 3600s",
        ),
        (
            "no stream",
            document("200 OK", "", "{\"choices\": []}"),
            FailureKind::NotStreamed,
            "a whole answer",
        ),
        ("nothing", send(format!("{STREAM}{end}")), FailureKind::Empty, "empty answer"),
        (
            "no usage",
            send(format!(
                "{STREAM}{}{}{end}",
                chunk("data: {\"choices\":[{\"delta\":{\"content\":\"w\"},\"finish_reason\":\"stop\"}]}\n\n"),
                chunk("data: [DONE]\n\n")
            )),
            FailureKind::NoUsage,
            "no `usage`",
        ),
    ];
    for (name, steps, kind, words) in cases {
        let mut order = order();
        order.requests = Some(2);
        let report = measured(&order, move |_| steps.clone()).await;
        assert_eq!(kinds(&report), [Some(kind); 2], "{name}");
        let told = report.notes.iter().find(|note| note.message.contains("2 of 2 requests failed"));
        let told = told.unwrap_or_else(|| panic!("{name}: {:?}", report.notes));
        assert!(told.message.contains(words), "{name}: {}", told.message);
    }
}

#[tokio::test]
async fn what_is_odd_and_right_is_answered() {
    let finish = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"},\"finish_reason\":\"stop\"}]}\r\n\r\n";
    let all = format!(": hello\r\n\r\n{finish}{}data: [DONE]\r\n\r\n", usage(4));
    let bytes: String = all.chars().map(|letter| chunk(&letter.to_string())).collect();
    let wait = Step::Wait(Duration::from_millis(200));
    let ping = Step::Send(chunk(": ping\n\n"));
    let cases: Vec<(&str, Vec<Step>)> = vec![
        ("a byte a chunk", vec![Step::Send(format!("{STREAM}{bytes}0\r\n\r\n"))]),
        (
            "names of chunks, and a trailer",
            vec![Step::Send(format!(
                "{STREAM}{:X};name=value\r\n{all}\r\n0\r\nX-After: 1\r\n\r\n",
                all.len()
            ))],
        ),
        (
            "until the connection ends",
            vec![
                Step::Send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{all}")),
                Step::Close,
            ],
        ),
        (
            "longer than the limit on silence, kept alive",
            vec![
                Step::Send(STREAM.to_owned()),
                wait.clone(),
                ping.clone(),
                wait.clone(),
                ping,
                wait,
                Step::Send(chunk(&all)),
                Step::Send("0\r\n\r\n".to_owned()),
            ],
        ),
        ("no end behind the end", vec![Step::Send(format!("{STREAM}{}", chunk(&all))), Step::Silence]),
    ];
    for (name, steps) in cases {
        let report = measured(&order(), move |_| steps.clone()).await;
        assert_eq!(kinds(&report), [None; 4], "{name}: {:?}", report.notes);
    }
}

#[tokio::test]
async fn a_busy_server_is_waited_for_and_counted() {
    let count = AtomicU32::new(0);
    let order = order();
    let report = measured(&order, move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => document("429 Too Many Requests", "Retry-After: 0\r\n", "{}"),
        1 => document("503 Service Unavailable", "retry-after: 0.05\r\n", "{}"),
        _ => good(4),
    });
    let report = report.await;
    assert_eq!(kinds(&report), [None; 4]);
    let retries: u32 = report.points[0].runs[0].requests.iter().map(|request| request.retries).sum();
    assert_eq!(retries, 2);
    assert!(report.notes.iter().any(|note| note.id == "retried"), "{:?}", report.notes);
}

#[tokio::test]
async fn fields_that_are_refused_are_left_out_and_told() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = seen.clone();
    let address = serve(move |path, body| {
        kept.lock().expect("no test panicked").push(format!("{path} {body}"));
        if body.contains("min_tokens") || body.contains("ignore_eos") {
            return document("400 Bad Request", "", "{\"error\": \"Unrecognized request argument\"}");
        }
        good(3)
    });
    let report = run(&order(), &target(address.await), |_| {}).await.expect("something was measured");
    assert_eq!(kinds(&report), [None; 4]);
    let note = report.notes.iter().find(|note| note.id == "fields-refused").expect("it is told");
    assert!(note.message.contains("`ignore_eos`, `min_tokens`"), "{}", note.message);
}

#[tokio::test]
async fn what_cannot_be_measured_at_all_is_an_error() {
    let refusal = "{\"error\": {\"message\": \"The model `m` does not exist.\"}}";
    let address = serve(move |_, _| document("404 Not Found", "", refusal)).await;
    let error = run(&order(), &target(address), |_| {}).await.expect_err("there is no such model");
    assert!(
        matches!(&error, BenchError::Refused(why) if why == "HTTP 404: The model `m` does not exist."),
        "{error:?}"
    );

    let silent = serve(|_, _| vec![Step::Silence]).await;
    let error = run(&order(), &target(silent), |_| {}).await.expect_err("it does not answer");
    assert!(matches!(&error, BenchError::NoAnswer(why) if why.contains("no byte for 300ms")), "{error:?}");

    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("there is a port");
    let error = run(&order(), &target(nobody), |_| {}).await.expect_err("nobody listens");
    assert!(matches!(&error, BenchError::NoAnswer(why) if why.contains("connection refused")), "{error:?}");
    assert!(!format!("{:?}", target(nobody)).contains("k3y"));
}

/// Neither a stream without end nor one that is kept alive for ever outlasts the time limit.
#[tokio::test]
async fn the_time_limit_ends_everything() {
    let mut order = order();
    order.limits.total = Duration::from_millis(700);
    order.requests = Some(1000);
    order.loads =
        vec![Load::Concurrency(3), Load::Rate { per_second: 0.01, burstiness: None, max_concurrency: None }];
    let ping = || vec![Step::Send(chunk(": ping\n\n")), Step::Wait(Duration::from_millis(50))];
    let report = measured(&order, move |_| {
        let pings = (0..200).flat_map(|_| ping());
        [Step::Send(STREAM.to_owned())].into_iter().chain(pings).collect()
    });
    let report = tokio::time::timeout(Duration::from_secs(10), report).await.expect("it ends");
    assert_eq!(kinds(&report), [Some(FailureKind::Unfinished); 3]);
}

#[tokio::test]
async fn loads_send_what_they_are_to_send() {
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = bodies.clone();
    let mut order = order();
    order.loads = vec![
        Load::Concurrency(3),
        Load::Rate { per_second: 50.0, burstiness: Some(1.0), max_concurrency: Some(2) },
    ];
    order.requests = Some(9);
    order.warmup = Some(3);
    order.repeat = 2;
    order.workload.turns = 3;
    let address = serve(move |path, body| {
        if path != "/v1/chat/completions" || body.contains("\"max_tokens\":2,") {
            return if path == "/v1/chat/completions" {
                good(2)
            } else {
                document("404 Not Found", "", "{}")
            };
        }
        kept.lock().expect("no test panicked").push(body.to_owned());
        let mut steps = vec![Step::Wait(Duration::from_millis(20))];
        steps.extend(good(4));
        steps
    });
    let mut runs = Vec::new();
    let target = target(address.await);
    let report = run(&order, &target, |progress| {
        if let Progress::Begun { run, .. } = progress {
            runs.push(run);
        }
    });
    let report = report.await.expect("something was measured");
    assert_eq!(runs, [0, 1, 2, 0, 1, 2]);
    let lengths: Vec<_> =
        report.points.iter().flat_map(|point| &point.runs).map(|run| run.requests.len()).collect();
    assert_eq!(lengths, [9, 9, 9, 9], "warm-up is not among them");
    let bodies = bodies.lock().expect("no test panicked");
    assert_eq!(bodies.len(), 36 + 6);
    // A later turn carries what was said before it.
    let last = bodies
        .iter()
        .filter(|body| body.matches("\"role\":\"assistant\",\"content\":\"w w w w \"").count() == 2);
    assert_eq!(last.count(), 14);
    let firsts = bodies.iter().filter(|body| !body.contains("assistant"));
    let mut marks: Vec<_> =
        firsts.filter_map(|body| body.split("Request ").nth(1)?.split('.').next()).collect();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), 14, "every conversation begins with a mark of its own");
    assert!(bodies.iter().all(|body| body.contains("\"ignore_eos\":true,\"min_tokens\":4")));
}

#[tokio::test]
async fn completions_are_asked_as_text() {
    let address = serve(|path, body| {
        if path != "/v1/completions" || !body.contains("\"prompt\":\"Request ") || body.contains("messages") {
            return document("404 Not Found", "", "{}");
        }
        let piece = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\n";
        vec![Step::Send(format!(
            "{STREAM}{}{}0\r\n\r\n",
            chunk(piece),
            chunk(&(usage(1) + "data: [DONE]\n\n"))
        ))]
    });
    let mut order = order();
    order.workload.endpoint = Endpoint::Completions;
    let report = run(&order, &target(address.await), |_| {}).await.expect("something was measured");
    assert_eq!(kinds(&report), [None; 4]);
}
