//! Check of observed evictions against the allowed rate.

use std::{fmt, time::Duration};

use ironclad_failover::taint_manager::rate::interval;

#[derive(Debug, Clone, PartialEq)]
pub struct TooFast {
    pub count: usize,
    /// Time from the first to the last of them.
    pub window: Duration,
    /// Number that the rate allows in it.
    pub allowed: usize,
}

impl fmt::Display for TooFast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} evictions within {:?}, where {} are allowed", self.count, self.window, self.allowed)
    }
}

/// Returns the first window with more than `rate` times its length plus one (specification/failover.md 13, invariant
/// 1). Times may be in any order and are rounded to `grain`: times of objects have whole seconds.
pub fn too_fast(moments: &[Duration], rate: f64, grain: Duration) -> Option<TooFast> {
    let mut moments = moments.to_vec();
    moments.sort_unstable();
    for (first, begin) in moments.iter().enumerate() {
        for (last, end) in moments.iter().enumerate().skip(first + 1) {
            let (count, window) = (last - first + 1, *end - *begin);
            let allowed = allowed_in(window + grain, rate);
            if count > allowed {
                return Some(TooFast { count, window, allowed });
            }
        }
    }
    None
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float that is too large saturates")]
fn allowed_in(window: Duration, rate: f64) -> usize {
    ((window.as_secs_f64() * rate + 1e-9).floor() as usize).saturating_add(1)
}

/// Returns the earliest start of the eviction with this number (from 0) after the first one; `None` at
/// rate 0.
pub fn earliest(number: usize, rate: f64) -> Option<Duration> {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    interval(rate).map(|interval| interval.saturating_mul(number))
}

/// Returns a table of measured and earliest times: at most `rows` evictions, including the first and the last.
pub fn table(moments: &[Duration], rate: f64, rows: usize) -> String {
    let mut moments = moments.to_vec();
    moments.sort_unstable();
    let Some(first) = moments.first().copied() else { return "no evictions\n".to_owned() };
    let last = moments.len() - 1;
    let steps = rows.saturating_sub(1).clamp(1, last.max(1));
    let mut text = format!("{:>8} {:>12} {:>12} {:>10}\n", "eviction", "formula s", "measured s", "behind s");
    let mut numbers: Vec<usize> = (0..=steps).map(|step| last * step / steps).collect();
    numbers.dedup();
    for number in numbers {
        let measured = (moments[number] - first).as_secs_f64();
        let formula = earliest(number, rate).map_or(f64::INFINITY, |at| at.as_secs_f64());
        let behind = measured - formula;
        text += &format!("{:>8} {formula:>12.2} {measured:>12.2} {behind:>10.2}\n", number + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(millis: u64, count: u64) -> Vec<Duration> {
        (0..count).map(|n| Duration::from_millis(n * millis)).collect()
    }

    #[test]
    fn windows() {
        let exact = Duration::ZERO;
        let mut late = every(2_000, 10);
        late[4] += Duration::from_millis(1_500);
        for (name, moments, rate, grain, fine) in [
            ("none", vec![], 0.5, exact, true),
            ("one eviction at rate 0", every(1, 1), 0.0, exact, true),
            ("two evictions at rate 0", every(9_000, 2), 0.0, exact, false),
            ("exactly the rate", every(2_000, 50), 0.5, exact, true),
            ("a little faster", every(1_999, 50), 0.5, exact, false),
            ("slower", every(2_700, 50), 0.5, exact, true),
            ("Karmada's three workers at 0.5/s (karmada#7495)", every(667, 20), 0.5, Duration::from_secs(1), false),
            ("the next one comes too soon after a late one", late.clone(), 0.5, exact, false),
            ("a coarser grain allows that", late, 0.5, Duration::from_millis(1_500), true),
            ("whole seconds at one per second", every(1_000, 12), 1.0, Duration::from_secs(1), true),
            ("no limit at all", every(0, 500), 1e9, Duration::from_micros(1), true),
        ] {
            let found = too_fast(&moments, rate, grain);
            assert_eq!(found.is_none(), fine, "{name}: {found:?}");
        }
        let mut shuffled = every(500, 4);
        shuffled.reverse();
        let found = too_fast(&shuffled, 0.5, exact).unwrap();
        assert_eq!(found.to_string(), "2 evictions within 500ms, where 1 are allowed");
    }

    #[test]
    fn the_table_shows_the_first_and_the_last() {
        let text = table(&every(2_100, 21), 0.5, 3);
        let want = "eviction    formula s   measured s   behind s\n       \
                    1         0.00         0.00       0.00\n      \
                    11        20.00        21.00       1.00\n      \
                    21        40.00        42.00       2.00\n";
        assert_eq!(text, want);
        assert_eq!(table(&every(1, 1), 0.5, 5).lines().count(), 2);
        assert_eq!(table(&[], 0.5, 5), "no evictions\n");
    }

    #[test]
    fn the_formula() {
        assert_eq!(earliest(0, 0.5), Some(Duration::ZERO));
        assert_eq!(
            earliest(500, 0.5),
            Some(Duration::from_secs(1_000)),
            "failover.md 6.4: 500 bindings drain in 1000 s"
        );
        assert_eq!(earliest(3, 0.0), None);
    }
}
