//! A release under load: measured after the deploy, compared with another, and held to limits.

use std::io::{Read, Write};

use crate::harness::{Operator, Rig, answers_rightly};

const BENCH: &str = "bench: { concurrency: [1, 2], input_tokens: 64, output_tokens: 32 }";

/// An operator whose deploys are measured, of an engine that takes so long for a token.
fn operator(seconds_a_token: &str) -> Operator {
    let mut operator = Operator::with("rig-stub");
    operator.edit("bench: { concurrency: [] }", BENCH).set_env("STUB_TOKEN_SECONDS", seconds_a_token);
    operator
}

/// The throughput of a result at one of its loads.
fn tokens_a_second(result: &str, load: usize) -> f64 {
    let document: serde_json::Value = serde_json::from_str(result).expect("it is JSON");
    let point = &document["bench"]["points"][load];
    point["figures"]["output_throughput"]["median"].as_f64().unwrap_or_else(|| panic!("{point:#}"))
}

#[test]
fn a_release_is_measured_and_compared() {
    let _rig = Rig::clean();
    let mut operator = operator("0.01");
    operator.deploy().ended(0).saying("c1 ").saying("c2 ").saying("release 1 serves");
    operator.run(&["releases", "-v"]).ended(0).saying("TOK/S");

    let file = |name: &str| operator.folder.path().join(name).display().to_string();
    let load = ["--concurrency", "1,2", "--requests", "4", "--repeat", "3"];
    let bench = |operator: &Operator, more: &[&str]| {
        operator.run(&[&["bench", "rig-stub"], &load[..], more].concat())
    };
    let said = bench(&operator, &["--output", "json", "--save", &file("one.json")]).ended(0);
    // A token in 10 ms, and the first after 10: 32 take 0.32 s, and no machine makes that faster.
    let rates = [0, 1].map(|load| tokens_a_second(&said.stdout, load));
    assert!((50.0..=100.0).contains(&rates[0]), "{rates:?}");
    assert!(rates[1] > 1.5 * rates[0], "{rates:?}");

    let said = bench(&operator, &["--compare", &file("one.json"), "--gate", "throughput@c1>20"])
        .ended(0)
        .saying("equal");
    assert!(!said.stdout.contains("through ssh"), "{}", said.stdout);
    bench(&operator, &["--gate", "tpot_p50<1ms", "--report", &file("page.html")]).ended(8).saying("tpot_p50");
    let page = std::fs::read_to_string(file("page.html")).expect("the page is written");
    assert!(page.contains("<svg") && page.contains("default-src 'none'"), "{page}");

    // Half as fast: the deploy says so beside the release before, and keeps it, as no limit forbids it.
    operator.edit("STUB_TOKEN_SECONDS: \"0.01\"", "STUB_TOKEN_SECONDS: \"0.03\"");
    operator.deploy().ended(0).saying("worse").saying("release 2 serves");
    operator.run(&["bench", "--compare", "1"]).ended(0).saying("worse");
    operator.run(&["bench", "--compare", "last-good"]).ended(0).saying("worse");
    operator.run(&["bench", "--compare", "7"]).ended(2).saying("there is no release 7");
    // Refused before anything is measured: two requests a run then.
    operator.run(&["bench", "--compare", "1", "--requests", "64"]).ended(2).saying("64 are no match");
}

#[test]
fn a_release_that_is_too_slow_is_taken_back() {
    let _rig = Rig::clean();
    let mut operator = operator("0.005");
    operator.edit("32 }", "32, gate: ['throughput@c1>40'] }");
    operator.deploy().ended(0).saying("release 1 serves");
    operator.edit("STUB_TOKEN_SECONDS: \"0.005\"", "STUB_TOKEN_SECONDS: \"0.05\"");
    let said = operator.deploy().ended(4);
    said.saying("throughput").saying("restored: release 1 serves again, verified");
    answers_rightly();
}

#[test]
fn an_endpoint_that_only_its_node_reaches_is_measured_through_ssh() {
    let _rig = Rig::clean();
    let mut operator = operator("0.001");
    operator.edit(", open: true", ", listen: loopback, api_key: { file: key }");
    std::fs::write(operator.folder.path().join("key"), "sk-rig-bench-key\n").expect("it is written");
    operator.deploy().ended(0).saying("release 1 serves at http://127.0.0.1:30000");
    // The endpoint's address leads to this machine from here, where another listens.
    let stranger = std::net::TcpListener::bind("127.0.0.1:30000").expect("the port is free");
    let asked = std::thread::spawn(move || {
        let mut asked = String::new();
        for connection in stranger.incoming() {
            let mut connection = connection.expect("it is accepted");
            let mut head = [0; 4096];
            let read = connection.read(&mut head).expect("it is read");
            if read == 0 {
                return asked;
            }
            asked.push_str(&String::from_utf8_lossy(&head[..read]));
            let page = "HTTP/1.1 200 OK\r\nContent-Length: 34\r\nConnection: close\r\n\r\nprocess_start_time_seconds 1.5e9\n\n";
            connection.write_all(page.as_bytes()).expect("it is written");
        }
        asked
    });
    let said = operator.run(&["bench", "--concurrency", "2", "--requests", "4", "--repeat", "1"]).ended(0);
    said.saying("all went through ssh");
    // A connection without a word ends it.
    drop(std::net::TcpStream::connect("127.0.0.1:30000"));
    let asked = asked.join().expect("it ended well");
    assert!(asked.starts_with("GET /metrics") && asked.matches("HTTP/1.1").count() == 1, "{asked}");
    assert!(!asked.to_lowercase().contains("authorization"), "{asked}");
}
