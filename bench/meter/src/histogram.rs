//! Latencies in constant memory.

/// Steps a power of two: a value is known to 1.6 %.
const STEPS: usize = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Counts values (nanoseconds, say) in buckets whose width grows with the value.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; STEPS * (u64::BITS - STEP_BITS) as usize], count: 0 }
    }
}

impl Histogram {
    /// Counts a value; those below 64 count as 64.
    pub fn add(&mut self, value: u64) {
        let value = value.max(STEPS as u64);
        let shift = value.ilog2() - STEP_BITS;
        let step = (value >> shift) as usize - STEPS;
        self.buckets[shift as usize * STEPS + step] += 1;
        self.count += 1;
    }

    /// The lower bound of the bucket that holds the quantile `q` in `0.0..=1.0`; 0 if nothing was counted.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = (self.count as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((STEPS + at % STEPS) as u64) << (at / STEPS);
            }
        }
        0
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_one_step_below_the_value() {
        for value in [64, 65, 127, 128, 1_000, 71_234, 1 << 40, u64::MAX] {
            let mut histogram = Histogram::default();
            histogram.add(value);
            let told = histogram.quantile(0.5);
            assert!(told <= value && value - told <= value / STEPS as u64, "{value}: {told}");
        }
    }

    #[test]
    fn quantiles_divide_what_was_counted_and_nothing_is_left_after_clearing() {
        let mut histogram = Histogram::default();
        for value in 1..=1000 {
            histogram.add(value * 1000);
        }
        for (q, value) in [(0.0, 1_000), (0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let told = histogram.quantile(q);
            assert!(told <= value && value - told <= value / 60, "{q}: {told}");
        }
        histogram.clear();
        assert_eq!(histogram.quantile(0.5), 0);
    }
}
