//! How far figures differ by chance alone: spread, resampling, and Student's distribution. Pure, and the same each
//! time: what is drawn at random is drawn from a fixed seed.

use serde::{Deserialize, Serialize};

/// How often requests are drawn anew to see how far a figure of theirs spreads.
const RESAMPLES: u32 = 200;

/// A figure, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The median over the runs.
    pub value: f64,
    /// Its standard error; absent where there is too little to know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Degrees of freedom of that error.
    pub freedom: f64,
    /// Runs that it is of.
    pub runs: u32,
}

/// The mean of some values; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count(values.len()) }
}

/// The standard deviation of a sample (divided by n - 1); 0 where there are not two values.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / count(values.len() - 1)).sqrt()
}

/// The standard error of the median of some runs' figures, and its degrees of freedom. Three runs say little of how far
/// runs spread, so what is usual counts as well, like [`USUAL_WEIGHT`] more runs: a moderated t (Smyth 2004).
pub fn of_runs(values: &[f64], usual_spread: f64) -> (f64, f64) {
    let own = count(values.len().saturating_sub(1));
    let usual = usual_spread * mean(values);
    let seen = deviation(values).powi(2);
    let both = (USUAL_WEIGHT * usual.powi(2) + own * seen) / (USUAL_WEIGHT + own);
    // A machine that is seen to be more restless than usual is not talked out of it.
    let variance = both.max(seen);
    (MEDIAN_TO_MEAN * (variance / count(values.len().max(1))).sqrt(), USUAL_WEIGHT + own)
}

/// Degrees of freedom that the usual spread is worth.
const USUAL_WEIGHT: f64 = 2.0;
/// How much farther a median spreads than a mean, of a bell curve: the root of pi / 2.
const MEDIAN_TO_MEAN: f64 = 1.2533;

/// A number of things, to reckon with.
pub(super) fn count(number: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^52 here")]
    let number = number as f64;
    number
}

/// How far `statistic` of a sample of `size` spreads when the sample is drawn anew from itself; `None` where it is too
/// small to say. `statistic` is given the places of the drawn members.
pub fn resampled(size: usize, statistic: impl Fn(&[usize]) -> Option<f64>) -> Option<f64> {
    if size < 2 {
        return None;
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut drawn = vec![0; size];
    let mut seen = Vec::new();
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| random.below(size));
        seen.extend(statistic(&drawn));
    }
    // A small sample drawn from itself spreads too little by this factor.
    (seen.len() > 1).then(|| deviation(&seen) * (count(size) / count(size - 1)).sqrt())
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        usize::try_from((u128::from(mixed) * limit as u128) >> 64).unwrap_or_default()
    }
}

/// Standard error of the difference of two means, and its degrees of freedom, where the two errors differ (Welch,
/// Satterthwaite); `None` where either is not known.
pub fn welch(one: &Measured, other: &Measured) -> Option<(f64, f64)> {
    let (a, b) = (one.error?.powi(2), other.error?.powi(2));
    let below = a.powi(2) / one.freedom + b.powi(2) / other.freedom;
    let freedom = if below > 0.0 { (a + b).powi(2) / below } else { one.freedom + other.freedom };
    Some(((a + b).sqrt(), freedom))
}

/// How many standard errors a difference of nothing exceeds with the chance `chance` alone, to either side.
pub fn student(chance: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if beyond(middle, freedom) > chance { low = middle } else { high = middle }
    }
    high
}

/// The chance that a Student-distributed value is farther from 0 than `t`.
fn beyond(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let ahead = a * x.ln() + b * (1.0 - x).ln() + log_gamma(a + b) - log_gamma(a) - log_gamma(b);
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut upper = 1.0;
    let mut lower = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = lower;
    for step in 1..300 {
        let step = f64::from(step);
        let even = step * (b - step) * x / ((a + 2.0 * step - 1.0) * (a + 2.0 * step));
        let odd = -(a + step) * (a + b + step) * x / ((a + 2.0 * step) * (a + 2.0 * step + 1.0));
        for term in [even, odd] {
            lower = 1.0 / away(1.0 + term * lower);
            upper = away(1.0 + term / upper);
            sum *= upper * lower;
        }
        if (upper * lower - 1.0).abs() < 1e-12 {
            break;
        }
    }
    ahead.exp() * sum / a
}

/// The logarithm of the gamma function: Stirling's series, after a shift to where it is exact enough.
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse / 1260.0)) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided critical values of Student's distribution, from any table of it.
    #[test]
    fn student_is_as_in_the_tables() {
        for (chance, freedom, wanted) in [
            (0.05, 1.0, 12.706),
            (0.05, 2.0, 4.303),
            (0.05, 4.0, 2.776),
            (0.01, 4.0, 4.604),
            (0.01, 10.0, 3.169),
            (0.05, 120.0, 1.980),
            (0.001, 30.0, 3.646),
        ] {
            let t = student(chance, freedom);
            assert!((t - wanted).abs() < 0.001, "{chance} with {freedom}: {t}, not {wanted}");
        }
    }

    /// The standard error of a mean is known without any resampling.
    #[test]
    fn resampling_finds_the_error_of_a_mean() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 40)).collect();
        let known = deviation(&values) / 40f64.sqrt();
        let seen = resampled(values.len(), |places| {
            Some(mean(&places.iter().map(|place| values[*place]).collect::<Vec<_>>()))
        });
        assert!((seen.expect("it is large enough") / known - 1.0).abs() < 0.1, "{seen:?} and {known}");
        assert_eq!(resampled(1, |_| Some(1.0)), None);
    }
}
