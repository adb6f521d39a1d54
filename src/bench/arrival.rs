//! When requests begin, at a rate. Pure.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Gamma};

/// Seconds from a run's begin at which its requests are due. As `get_request` of vLLM's `benchmarks/serve.py`: gaps are of a
/// gamma distribution with the shape `burstiness` and the mean `1 / rate` (1 is Poisson), all alike without one; then they
/// are stretched so that `count` requests take `count / rate` seconds, or chance would blur the rate itself.
pub fn due(rate: f64, burstiness: Option<f64>, count: u32, seed: u64) -> Vec<f64> {
    let mean = 1.0 / rate;
    let mut random = SmallRng::seed_from_u64(seed);
    let gamma = burstiness.and_then(|shape| Gamma::new(shape, mean / shape).ok());
    let mut at = 0.0;
    let times = (0..count).map(|_| {
        at += gamma.map_or(mean, |gamma| gamma.sample(&mut random));
        at
    });
    let times: Vec<f64> = times.collect();
    let Some(last) = times.last().copied().filter(|last| *last > 0.0) else { return times };
    let stretch = f64::from(count) * mean / last;
    times.into_iter().map(|time| time * stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::due;

    #[test]
    fn requests_come_at_the_rate_and_as_unevenly_as_wanted() {
        for (burstiness, variation) in [(None, 0.0), (Some(1.0), 1.0), (Some(0.25), 2.0), (Some(4.0), 0.5)] {
            let times = due(5.0, burstiness, 4000, 7);
            assert_eq!(times, due(5.0, burstiness, 4000, 7), "the same seed gives the same");
            assert!((times[3999] - 800.0).abs() < 1e-6, "{burstiness:?}: the last is due at {}", times[3999]);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / 3999.0;
            let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 3999.0;
            // Of a gamma distribution the deviation is the mean over the root of the shape.
            let found = squares.sqrt() / mean;
            assert!((found - variation).abs() < 0.1 * variation.max(0.01), "{burstiness:?}: {found}");
        }
    }
}
