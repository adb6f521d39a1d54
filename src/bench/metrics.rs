//! From requests to figures. Pure.
//!
//! The definitions are those of `vllm bench serve` (`calculate_metrics` in vLLM's `benchmarks/serve.py`), so that figures
//! may be laid beside its own. Only answered requests have latencies; failed ones are counted, and give no tokens.
//! Tokens are the server's `usage`, never the pieces of a stream: a piece may hold several tokens, or none.

use super::result::{Request, Run};

/// Limits on latencies, in milliseconds; a request within all of them is a good one. As `--goodput` of `vllm bench serve`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Goodput {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
}

impl Goodput {
    /// Whether any limit is set.
    pub fn any(&self) -> bool {
        self.ttft_ms.is_some() || self.tpot_ms.is_some() || self.e2el_ms.is_some()
    }

    /// Whether an answered request is within the limits. An answer of one token has no TPOT; it counts as 0.
    fn met_by(&self, request: &Request) -> bool {
        let within = |limit: Option<f64>, seconds: f64| limit.is_none_or(|limit| seconds * 1000.0 <= limit);
        within(self.ttft_ms, request.ttft.unwrap_or(request.seconds))
            && within(self.tpot_ms, tpot(request).unwrap_or(0.0))
            && within(self.e2el_ms, request.seconds)
    }
}

/// The figures of one run. Times are seconds; rates are per second of the whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// Answered requests.
    pub completed: usize,
    pub failed: usize,
    /// Tokens of the prompts of answered requests.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Answered requests a second.
    pub request_throughput: f64,
    /// Requests a second that met the limits; `None` where there are none.
    pub request_goodput: Option<f64>,
    /// Tokens of answers a second.
    pub output_throughput: f64,
    /// Tokens of prompts and answers a second.
    pub total_token_throughput: f64,
    /// Most tokens in any one second. A stream does not tell which piece held which tokens: those of an answer are spread
    /// evenly over its pieces. (`vllm bench serve` counts pieces; without speculation that is the same.)
    pub max_output_tokens_per_second: f64,
    /// Most requests that were under way in any one second, as `max_concurrent_requests`.
    pub max_concurrent_requests: usize,
    /// Time to first token: from the begin to the first piece that carries something of the answer.
    pub ttft: Distribution,
    /// Time per output token without the first: (E2EL - TTFT) / (tokens - 1); answers of one token have none.
    pub tpot: Distribution,
    /// Inter-token latency: every gap between two pieces of a stream, of all requests. With speculative decoding a piece
    /// holds several tokens, so that this is more than TPOT.
    pub itl: Distribution,
    /// End-to-end latency: from the begin to the last piece with a token.
    pub e2el: Distribution,
}

/// Values of one kind, in order of size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    sorted: Vec<f64>,
}

impl Distribution {
    /// Of values in any order; what is not a number is left out.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { sorted }
    }

    /// All values, smallest first.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Arithmetic mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sorted.iter().sum::<f64>() / count(self.sorted.len()))
    }

    /// Standard deviation of the values themselves, not of a population guessed from them: `numpy.std`.
    pub fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / count(self.sorted.len())).sqrt())
    }

    pub fn median(&self) -> Option<f64> {
        self.percentile(50.0)
    }

    /// As `numpy.percentile` does by default: linear between the two values beside the place (n - 1) p / 100.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        let place = count(last) * percent.clamp(0.0, 100.0) / 100.0;
        let below = floor(place).min(last);
        let above = (below + 1).min(last);
        let (low, high) = (self.sorted[below], self.sorted[above]);
        Some(low + (high - low) * (place - count(below)))
    }
}

/// One figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    /// Of a figure of several runs; `None` where no run has it.
    pub fn of(figures: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let all = Distribution::new(figures.into_iter().flatten());
        let (lowest, highest) = (*all.values().first()?, *all.values().last()?);
        Some(Self { median: all.median()?, lowest, highest })
    }

    /// Half the distance between the extremes, as a fraction of the median: the noise.
    pub fn noise(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.highest - self.lowest) / 2.0 / self.median.abs() }
    }
}

/// The figures of a run.
pub fn metrics(run: &Run, goodput: &Goodput) -> Metrics {
    let answered: Vec<&Request> = run.requests.iter().filter(|request| request.failure.is_none()).collect();
    let sum = |tokens: fn(&Request) -> Option<u32>| {
        answered.iter().filter_map(|request| tokens(request)).map(u64::from).sum::<u64>()
    };
    let (input_tokens, output_tokens) =
        (sum(|request| request.input_tokens), sum(|request| request.output_tokens));
    let rate = |amount: f64| if run.seconds > 0.0 { amount / run.seconds } else { 0.0 };
    let good = answered.iter().filter(|request| goodput.met_by(request)).count();
    let (tokens, requests) = each_second(&answered);
    Metrics {
        completed: answered.len(),
        failed: run.requests.len() - answered.len(),
        input_tokens,
        output_tokens,
        request_throughput: rate(count(answered.len())),
        request_goodput: goodput.any().then(|| rate(count(good))),
        output_throughput: rate(large(output_tokens)),
        total_token_throughput: rate(large(input_tokens + output_tokens)),
        max_output_tokens_per_second: tokens.into_iter().fold(0.0, f64::max),
        max_concurrent_requests: requests.into_iter().max().unwrap_or(0),
        ttft: Distribution::new(answered.iter().filter_map(|request| request.ttft)),
        tpot: Distribution::new(answered.iter().filter_map(|request| tpot(request))),
        itl: Distribution::new(answered.iter().flat_map(|request| request.itls.iter().copied())),
        e2el: Distribution::new(answered.iter().map(|request| request.seconds)),
    }
}

/// Seconds per token of an answer but for its first; `None` for answers of one token.
pub fn tpot(request: &Request) -> Option<f64> {
    let tokens = request.output_tokens.filter(|tokens| *tokens > 1)?;
    Some((request.seconds - request.ttft?) / f64::from(tokens - 1))
}

/// For each second from the first request's begin: tokens that came in it, and requests that were under way in it.
pub fn each_second(answered: &[&Request]) -> (Vec<f64>, Vec<usize>) {
    let begin = answered.iter().map(|request| request.start).fold(f64::INFINITY, f64::min);
    let end = answered.iter().map(|request| request.start + request.seconds).fold(0.0, f64::max);
    if !(begin.is_finite() && end >= begin) {
        return (Vec::new(), Vec::new());
    }
    let seconds = floor((end - begin).ceil()) + 1;
    let (mut tokens, mut requests) = (vec![0.0; seconds], vec![0; seconds]);
    for request in answered {
        let pieces = request.itls.len() + 1;
        let each = f64::from(request.output_tokens.unwrap_or(0)) / count(pieces);
        let mut at = request.start - begin + request.ttft.unwrap_or(request.seconds);
        let gaps = request.itls.iter().copied().chain([0.0]);
        for gap in gaps {
            tokens[floor(at).min(seconds - 1)] += each;
            at += gap;
        }
        let (first, last) =
            (floor(request.start - begin), floor(request.start + request.seconds - begin).min(seconds - 1));
        for under_way in &mut requests[first..=last] {
            *under_way += 1;
        }
    }
    (tokens, requests)
}

/// A count as a factor. Counts here are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a count of requests or pieces is far below 2^52")]
fn count(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a count of tokens is far below 2^52")]
fn large(count: u64) -> f64 {
    count as f64
}

/// The whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is negative becomes 0, what is larger the largest"
)]
fn floor(value: f64) -> usize {
    value as usize
}
