//! What an engine counts itself, from its Prometheus text: use of the prefix cache and of speculation. Pure.

use super::result::{PrefixCache, Speculation};

/// Counters at one moment; what an engine does not have is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    asked: Option<f64>,
    hit: Option<f64>,
    drafted: Option<f64>,
    accepted: Option<f64>,
}

/// Reads them.
pub fn read(metrics: &str) -> Counters {
    let sum = |names: &[&str]| names.iter().find_map(|name| total(metrics, name));
    Counters {
        asked: sum(&[
            "vllm:prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries_total",
            "sglang:prompt_tokens_total",
        ]),
        hit: sum(&[
            "vllm:prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_hits_total",
            "sglang:cached_tokens_total",
        ]),
        drafted: sum(&["vllm:spec_decode_num_draft_tokens_total"]),
        accepted: sum(&["vllm:spec_decode_num_accepted_tokens_total"]),
    }
}

/// The sum over all sets of labels: several engines behind one endpoint count apart.
fn total(metrics: &str, name: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

impl Counters {
    /// The prefix cache since `before`; `None` where nothing was asked, or an engine began anew.
    pub fn prefix_cache_since(&self, before: &Self) -> Option<PrefixCache> {
        let (asked, hit) = (self.asked? - before.asked?, self.hit? - before.hit.unwrap_or(0.0));
        (asked > 0.0 && hit >= 0.0).then_some(PrefixCache { asked, hit })
    }

    /// Speculation since `before`.
    pub fn speculation_since(&self, before: &Self) -> Option<Speculation> {
        let drafted = self.drafted? - before.drafted.unwrap_or(0.0);
        let accepted = self.accepted? - before.accepted.unwrap_or(0.0);
        (drafted > 0.0 && accepted >= 0.0).then_some(Speculation { drafted, accepted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_engines_and_told_by_difference() {
        let before = read(
            "# TYPE vllm:prefix_cache_queries_total counter\n\
             vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"a } b\"} 100.0\n\
             vllm:prefix_cache_queries_total{engine=\"1\"} 50.0\n\
             vllm:prefix_cache_queries_total_more 7\nvllm:prefix_cache_hits_total 10\n",
        );
        let after =
            read("vllm:prefix_cache_queries_total 1.35e3\nvllm:prefix_cache_hits_total 310 1700000000\n");
        let cache = after.prefix_cache_since(&before);
        assert_eq!(cache, Some(PrefixCache { asked: 1200.0, hit: 300.0 }));
        assert_eq!(after.speculation_since(&before), None, "an engine that does not guess");
        assert_eq!(before.prefix_cache_since(&after), None, "an engine that began anew");
    }
}
