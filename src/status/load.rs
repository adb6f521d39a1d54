//! How loaded an engine is, and how well it guesses, from its metrics.

use std::time::Duration;

use serde::Serialize;

use crate::host::Host;
use crate::plan::Endpoint;

/// What the engine says of its load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load {
    pub running: Option<f64>,
    pub waiting: Option<f64>,
    /// Part of the KV cache in use, 0 to 1.
    pub kv_cache: Option<f64>,
    /// Part of the guessed tokens that were right, 0 to 1; since the start, with speculative decoding.
    pub accepted: Option<f64>,
    /// Tokens a step, with speculative decoding.
    pub tokens_a_step: Option<f64>,
}

/// Asks for the metrics; `None` where there are none.
pub(super) async fn ask(head: &dyn Host, endpoint: &Endpoint) -> Option<Load> {
    let answer = head.http(endpoint.port, "/metrics", None, Duration::from_secs(5)).await.ok()?;
    (answer.status == 200).then(|| parse(&String::from_utf8_lossy(&answer.body)))
}

/// The gauges and counters of a Prometheus text that say how loaded the engine is, and how well it guesses.
fn parse(metrics: &str) -> Load {
    let one = |name: &str| -> Option<f64> {
        let is_one = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        metrics.lines().find(is_one)?.rsplit(' ').next()?.parse().ok()
    };
    let gauge = |vllm: &str, sglang: &str| one(vllm).or_else(|| one(sglang));
    // Before the first guess there is no rate.
    let share = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
    let right = one("vllm:spec_decode_num_accepted_tokens_total");
    let guessed = one("vllm:spec_decode_num_draft_tokens_total");
    let drafts = one("vllm:spec_decode_num_drafts_total");
    Load {
        running: gauge("vllm:num_requests_running", "sglang:num_running_reqs"),
        waiting: gauge("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
        kv_cache: gauge("vllm:kv_cache_usage_perc", "sglang:token_usage"),
        accepted: share(right, guessed).or_else(|| one("sglang:spec_accept_rate").filter(|rate| *rate > 0.0)),
        tokens_a_step: share(right, drafts)
            .map(|more| 1.0 + more)
            .or_else(|| one("sglang:spec_accept_length").filter(|length| *length > 0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_tell_the_load_and_how_well_is_guessed() {
        let vllm = "# HELP vllm:num_requests_running x
vllm:num_requests_running{engine=\"0\"} 3.0
vllm:num_requests_waiting{engine=\"0\"} 1.0
vllm:num_requests_waiting_by_reason{engine=\"0\"} 7.0
vllm:kv_cache_usage_perc{engine=\"0\"} 0.25
vllm:spec_decode_num_drafts_total{engine=\"0\"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 150.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 90.0";
        let load = parse(vllm);
        let wanted = Load {
            running: Some(3.0),
            waiting: Some(1.0),
            kv_cache: Some(0.25),
            accepted: Some(0.5),
            tokens_a_step: Some(2.5),
        };
        assert_eq!(load, wanted);
        // Nothing was guessed yet: no rate, and not 0.
        let fresh = vllm.replace("100.0", "0.0").replace("300.0", "0.0").replace("150.0", "0.0");
        assert_eq!((parse(&fresh).accepted, parse(&fresh).tokens_a_step), (None, None));
        let sglang = "sglang:num_running_reqs 2.0\nsglang:spec_accept_rate{tp_rank=\"0\"} 0.62\nsglang:spec_accept_length{tp_rank=\"0\"} 2.9";
        let load = parse(sglang);
        assert_eq!((load.running, load.accepted, load.tokens_a_step), (Some(2.0), Some(0.62), Some(2.9)));
        assert_eq!(parse(""), Load::default());
    }
}
