//! What is made of a report: files, tables, the page and the plots in a terminal.

use super::metrics::{Goodput, metrics};
use super::result::{FailureKind, Load, Note, Report, RequestFailure, Run};
use super::test_reports::{DEPLOY, Random, Simulated, report};
use super::{page, sketch, table, vllm_result};

/// Three loads, a request that failed, and names that nobody should have.
fn sample() -> Report {
    let simulated = Simulated { requests: 24, within: 0.08, ..DEPLOY };
    let mut sample = report(simulated, &[1, 4, 16], &mut Random(5));
    for point in &mut sample.points {
        // As a machine does it: with more at once each is slower.
        let Load::Concurrency(most) = point.load else { panic!("closed loops") };
        let slower = f64::from(most).powf(0.3);
        for run in &mut point.runs {
            run.seconds *= slower;
            for request in &mut run.requests {
                let tpot = (request.seconds - request.ttft.unwrap()) / 255.0;
                request.itls = vec![tpot; 255];
                request.start *= slower;
                request.seconds *= slower;
                request.ttft = request.ttft.map(|ttft| ttft * slower);
                request.itls.iter_mut().for_each(|gap| *gap *= slower);
            }
        }
    }
    sample.subject.model = "Owner/<Model>&'\"1".to_owned();
    sample.begun = "2026-03-01T09:00:00Z".parse().unwrap();
    let failed = &mut sample.points[2].runs[0].requests[3];
    failed.failure = Some(RequestFailure {
        kind: FailureKind::Status,
        message: "HTTP 500, <script>alert(1)</script>".to_owned(),
    });
    (failed.ttft, failed.output_tokens) = (None, None);
    sample.notes.push(Note { id: "cache".to_owned(), message: "<img src=x> 40 % of the prompts".to_owned() });
    sample
}

#[test]
fn a_report_survives_its_file() {
    let sample = sample();
    let text = serde_json::to_string(&sample).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), sample);
}

/// The keys of `vllm bench serve --save-result --save-detailed --percentile-metrics ttft,tpot,itl,e2el`, but for
/// `generated_texts` and `rtfx`, which sparkctl does not know.
#[test]
fn a_run_is_a_document_as_vllm_writes_it() {
    let sample = sample();
    let documents = vllm_result::documents(&sample, &Goodput { ttft_ms: Some(1000.0), ..Goodput::default() });
    assert_eq!(documents.len(), 9, "a document a run");
    let names: Vec<_> = documents.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[0], "openai-chat-infqps-concurrency1-<Model>&'\"1-20260301-090000-run1.json");
    let document = &documents[6].1;
    for key in [
        "date",
        "endpoint_type",
        "backend",
        "label",
        "model_id",
        "tokenizer_id",
        "num_prompts",
        "request_rate",
        "burstiness",
        "max_concurrency",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "request_goodput",
        "output_throughput",
        "total_token_throughput",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "start_times",
        "errors",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
        "mean_ttft_ms",
        "median_ttft_ms",
        "std_ttft_ms",
        "p99_ttft_ms",
        "mean_tpot_ms",
        "median_tpot_ms",
        "std_tpot_ms",
        "p99_tpot_ms",
        "mean_itl_ms",
        "median_itl_ms",
        "std_itl_ms",
        "p99_itl_ms",
        "mean_e2el_ms",
        "median_e2el_ms",
        "std_e2el_ms",
        "p99_e2el_ms",
    ] {
        assert!(document.get(key).is_some(), "no `{key}`");
    }
    assert_eq!(document["completed"], 23);
    assert_eq!(document["failed"], 1);
    assert_eq!(document["total_output_tokens"], 23 * 256);
    assert_eq!(document["request_rate"], "inf");
    assert_eq!(document["max_concurrency"], 16);
    assert_eq!((&document["output_lens"][3], document["ttfts"][3].as_f64()), (&0.into(), Some(0.0)));
    assert!(document["errors"][3].as_str().unwrap().starts_with("HTTP 500"));
    let tpot = document["median_tpot_ms"].as_f64().unwrap();
    let wanted = 36.6 * 16f64.powf(0.3);
    assert!((tpot / wanted - 1.0).abs() < 0.1, "{tpot} ms, and {wanted} was simulated");
    let rate = Load::Rate { per_second: 2.5, burstiness: None, max_concurrency: None };
    let mut open = sample.clone();
    open.points.truncate(1);
    open.points[0].load = rate;
    let (_, open) = vllm_result::documents(&open, &Goodput::default()).remove(0);
    assert_eq!((&open["request_rate"], &open["burstiness"]), (&2.5.into(), &"inf".into()));
    assert!(open["max_concurrency"].is_null() && open["request_goodput"].is_null());
}

#[test]
fn the_csv_has_a_line_a_run_and_as_many_cells_as_heads() {
    let csv = table::csv(&sample());
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
    let column = lines[0].iter().position(|head| *head == "output_throughput").unwrap();
    let run: &Run = &sample().points[1].runs[2];
    let wanted = metrics(run, &Goodput::default()).output_throughput;
    assert_eq!(lines[6][column].parse::<f64>().unwrap().to_bits(), wanted.to_bits());
}

#[test]
fn tables_for_people() {
    let sample = sample();
    let mut one = sample.clone();
    one.points.truncate(1);
    insta::assert_snapshot!("markdown", table::markdown(&sample));
    insta::assert_snapshot!("llama_benchy_one", table::llama_benchy(&one, 0));
    insta::assert_snapshot!("llama_benchy_several", table::llama_benchy(&sample, 512));
    insta::assert_snapshot!("sketch", sketch::sketch(&sample, 72));
}

#[test]
fn plots_keep_to_the_width() {
    let sample = sample();
    for width in [40, 72, 200] {
        for line in sketch::sketch(&sample, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn the_page_fetches_nothing_and_takes_no_markup_from_what_it_shows() {
    let sample = sample();
    let page = page::html(&sample, None);
    if let Some(file) = option_env!("SPARKCTL_SHOW_PAGE") {
        std::fs::write(file, &page).unwrap();
    }
    for forbidden in ["<script", "<img", "<link", "<iframe", "@import", "url(", "NaN", "http-equiv=\"refresh"]
    {
        assert!(!page.contains(forbidden), "`{forbidden}` is in the page");
    }
    assert!(page.contains("Owner/&lt;Model&gt;&amp;&#39;&quot;1"));
    let plots = page.matches("role=\"img\"").count();
    assert_eq!(plots, 6);
    for part in ["<title id=", "<desc id=", "<figcaption>", "<h2>"] {
        assert!(page.matches(part).count() >= plots, "not every plot has its `{part}`");
    }
    assert!(page.matches("<table>").count() > plots, "numbers stand beside every plot");
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

/// A bench in which nothing was answered has a page, tables and plots as well.
#[test]
fn where_nothing_was_answered_it_is_told() {
    let mut sample = sample();
    let failure = RequestFailure { kind: FailureKind::Connect, message: "refused".to_owned() };
    for request in
        sample.points.iter_mut().flat_map(|point| &mut point.runs).flat_map(|run| &mut run.requests)
    {
        *request = super::result::Request { failure: Some(failure.clone()), ..Default::default() };
    }
    let page = page::html(&sample, None);
    assert!(!page.contains("NaN"), "{page}");
    let summary = super::summary::Summary::of(&sample);
    assert!(summary.line().starts_with("c1 nothing answered (72 of 72 failed)"), "{}", summary.line());
    for text in [table::markdown(&sample), table::csv(&sample), table::llama_benchy(&sample, 0)] {
        assert!(!text.contains("NaN"), "{text}");
    }
    assert!(sketch::sketch(&sample, 80).contains("throughput"));
}
