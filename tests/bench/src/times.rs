//! Statistics of durations.

use std::time::Duration;

/// Sorted durations.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Sorts the durations.
    #[must_use]
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the `percent` percentile in milliseconds (nearest rank); 0 without samples.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        let at = self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        at.as_secs_f64() * 1e3
    }

    /// Returns the mean in milliseconds; 0 without samples.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<Duration>().as_secs_f64() * 1e3 / self.0.len().max(1) as f64
    }

    /// Returns the points of a plot: milliseconds at each percentile from 0 to 100.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        (0..=100).map(f64::from).map(|percent| (percent, self.percentile(percent))).collect()
    }
}

/// Returns the median; of an even number of values the lower of the middle two.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let times = Times::new((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!([50.0, 99.0, 100.0].map(|percent| times.percentile(percent)), [100.0, 198.0, 200.0]);
        assert_eq!(Times::default().percentile(99.0), 0.0);
        assert_eq!((times.mean(), Times::default().mean()), (100.5, 0.0));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
