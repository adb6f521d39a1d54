//! Results as `vllm bench serve --save-result --save-detailed` writes them, for plots and dashboards that read those.
//! Pure.
//!
//! A document is one measurement there, so each run has its own. What sparkctl does not know (the texts of the answers,
//! the tokenizer) is left out rather than made up.

use serde_json::{Map, Value, json};

use super::figure::Latency;
use super::metrics::{Goodput, metrics};
use super::result::{Load, Report, Run};

/// Percentiles of each latency.
const PERCENTILES: [u8; 5] = [50, 90, 95, 99, 25];

/// A document of each run, with the name of its file.
pub fn documents(report: &Report, goodput: &Goodput) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for point in &report.points {
        for (number, run) in point.runs.iter().enumerate() {
            let run_of = if point.runs.len() > 1 { format!("-run{}", number + 1) } else { String::new() };
            let date = date(report);
            let model = report.subject.model.rsplit('/').next().unwrap_or_default();
            let (rate, _, most) = traffic(&point.load);
            let rate = rate.as_f64().map_or("inf".to_owned(), |rate| rate.to_string());
            let most = most.map_or_else(String::new, |most| format!("-concurrency{most}"));
            let name = format!("{}-{rate}qps{most}-{model}-{date}{run_of}.json", backend(report));
            all.push((name.replace(['/', '\\'], "_"), document(report, &point.load, run, goodput)));
        }
    }
    all
}

fn backend(report: &Report) -> &'static str {
    if report.workload.starts_with("completions") { "openai" } else { "openai-chat" }
}

fn date(report: &Report) -> String {
    report.begun.strftime("%Y%m%d-%H%M%S").to_string()
}

/// Rate, burstiness and most at once, as vLLM writes them: everything at once is a rate of `inf`.
fn traffic(load: &Load) -> (Value, Value, Option<u32>) {
    match load {
        Load::Concurrency(most) => (json!("inf"), json!(1.0), Some(*most)),
        Load::Rate { per_second, burstiness, max_concurrency } => {
            let shape = burstiness.map_or(json!("inf"), |shape| json!(shape));
            (json!(per_second), shape, *max_concurrency)
        }
    }
}

fn document(report: &Report, load: &Load, run: &Run, goodput: &Goodput) -> Value {
    let figures = metrics(run, goodput);
    let (rate, burstiness, most) = traffic(load);
    let backend = backend(report);
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| {
        all.insert(key.to_owned(), value);
    };
    put("date", json!(date(report)));
    put("endpoint_type", json!(backend));
    put("backend", json!(backend));
    put("label", Value::Null);
    put("model_id", json!(report.subject.model));
    put("tokenizer_id", Value::Null);
    put("num_prompts", json!(run.requests.len()));
    put("request_rate", rate);
    put("burstiness", burstiness);
    put("max_concurrency", json!(most));
    put("duration", json!(run.seconds));
    put("completed", json!(figures.completed));
    put("failed", json!(figures.failed));
    put("total_input_tokens", json!(figures.input_tokens));
    put("total_output_tokens", json!(figures.output_tokens));
    put("request_throughput", json!(figures.request_throughput));
    put("request_goodput", json!(figures.request_goodput));
    put("output_throughput", json!(figures.output_throughput));
    put("total_token_throughput", json!(figures.total_token_throughput));
    let each =
        |value: fn(&super::result::Request) -> Value| -> Value { run.requests.iter().map(value).collect() };
    put("input_lens", each(|request| json!(request.input_tokens.unwrap_or(0))));
    put(
        "output_lens",
        each(|request| match request.failure {
            // As there: a request that failed has no tokens.
            Some(_) => json!(0),
            None => json!(request.output_tokens.unwrap_or(0)),
        }),
    );
    put("ttfts", each(|request| json!(request.ttft.unwrap_or(0.0))));
    put("itls", each(|request| json!(request.itls)));
    put("start_times", each(|request| json!(request.start)));
    put(
        "errors",
        each(|request| json!(request.failure.as_ref().map_or("", |failure| failure.message.as_str()))),
    );
    put("max_output_tokens_per_s", json!(figures.max_output_tokens_per_second));
    put("max_concurrent_requests", json!(figures.max_concurrent_requests));
    if let Some(speculation) = &run.speculation {
        let share = if speculation.drafted > 0.0 { speculation.accepted / speculation.drafted } else { 0.0 };
        put("spec_decode_acceptance_rate", json!(share * 100.0));
        put("spec_decode_draft_tokens", json!(speculation.drafted.round()));
        put("spec_decode_accepted_tokens", json!(speculation.accepted.round()));
    }
    for latency in Latency::ALL {
        let (key, values) = (latency.key(), latency.of(&figures));
        let milliseconds = |value: Option<f64>| json!(value.unwrap_or(0.0) * 1000.0);
        put(&format!("mean_{key}_ms"), milliseconds(values.mean()));
        put(&format!("median_{key}_ms"), milliseconds(values.median()));
        put(&format!("std_{key}_ms"), milliseconds(values.std()));
        for percent in PERCENTILES {
            put(&format!("p{percent}_{key}_ms"), milliseconds(values.percentile(f64::from(percent))));
        }
    }
    Value::Object(all)
}
