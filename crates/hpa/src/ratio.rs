//! Exact ratios of a measured value to its target (specification/autoscaling.md 2.5).
//!
//! Nothing here is a floating-point number: `ceil` of an inexact product would be one replica off.

use std::fmt;

use ironclad_quantity::Amount;

use crate::calibration::Calibration;

/// Millionths of one.
const MILLION: i128 = 1_000_000;

/// Distance from ratio 1 within which nothing is scaled, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance(i64);

impl Tolerance {
    /// `--horizontal-pod-autoscaler-tolerance` if it is not given.
    pub const DEFAULT: Self = Self(100_000);

    /// Reads a number that is not below zero, such as `0.1` or `50m`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let amount = Amount::parse(text.trim()).ok().filter(|amount| !amount.is_negative())?;
        amount.times(Amount::parse("1u").ok()?).map(Self)
    }

    /// Returns millionths.
    #[must_use]
    pub fn millionths(self) -> i64 {
        self.0
    }
}

/// The number, without a fraction of zeros.
impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{part:06}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Tolerances of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerances {
    /// Above ratio 1.
    pub up: Tolerance,
    /// Below ratio 1.
    pub down: Tolerance,
}

/// A measured value over its target, which is above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// The measured value.
    pub actual: i128,
    /// The target, above zero.
    pub target: i128,
}

impl Ratio {
    /// True above 1.
    #[must_use]
    pub fn is_above(self) -> bool {
        self.actual > self.target
    }

    /// True below 1.
    #[must_use]
    pub fn is_below(self) -> bool {
        self.actual < self.target
    }

    /// True if one of the ratios is above 1 and the other below.
    #[must_use]
    pub fn is_opposed_to(self, other: Self) -> bool {
        self.is_above() && other.is_below() || self.is_below() && other.is_above()
    }

    /// True if the ratio differs from 1 by no more than the tolerance.
    #[must_use]
    pub fn is_within(self, tolerances: Tolerances) -> bool {
        let actual = self.actual.saturating_mul(MILLION);
        let bound = |millionths: i128| self.target.saturating_mul(millionths);
        actual >= bound(MILLION - i128::from(tolerances.down.0))
            && actual <= bound(MILLION + i128::from(tolerances.up.0))
    }

    /// Returns the replicas of a template that `count` pods times the ratio correspond to, rounded up and limited to
    /// what fits; none below zero.
    #[must_use]
    pub fn replicas(self, count: i128, calibration: Calibration) -> i32 {
        let wanted = self.actual.saturating_mul(count).saturating_mul(calibration.of());
        ceil_to_i32(wanted, self.target.saturating_mul(calibration.per()))
    }

    /// Returns thousandths of the ratio, rounded down, for people.
    #[must_use]
    pub fn thousandths(self) -> i128 {
        self.actual.saturating_mul(1_000).div_euclid(self.target.max(1))
    }
}

/// Divides by a number above zero and rounds up; negative results become zero, and large ones what fits.
fn ceil_to_i32(value: i128, by: i128) -> i32 {
    let by = by.max(1);
    let up = value.div_euclid(by) + i128::from(value.rem_euclid(by) > 0);
    i32::try_from(up.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_printed_as_they_are_read() {
        for (text, want) in [("0.1", "0.1"), ("50m", "0.05"), ("0", "0"), ("1", "1"), ("1u", "0.000001"), ("10", "10")]
        {
            let tolerance = Tolerance::parse(text).unwrap();
            assert_eq!(tolerance.to_string(), want, "{text}");
            assert_eq!(Tolerance::parse(want), Some(tolerance), "{text}");
        }
    }

    #[test]
    fn tolerances_include_their_bounds() {
        let tolerance = |text: &str| Tolerance::parse(text).unwrap();
        for (name, actual, up, down, within) in [
            ("at the upper bound", 1_100, "0.1", "0.1", true),
            ("above it", 1_101, "0.1", "0.1", false),
            ("at the lower bound", 900, "0.1", "0.1", true),
            ("below it", 899, "0.1", "0.1", false),
            ("each direction has its own", 1_040, "0.05", "0.01", true),
            ("each direction has its own: below", 980, "0.05", "0.01", false),
            ("as a quantity", 1_050, "50m", "0", true),
            ("zero tolerates the target alone", 1_000, "0", "0", true),
            ("zero tolerates nothing else", 1_001, "0", "0", false),
        ] {
            let ratio = Ratio { actual, target: 1_000 };
            assert_eq!(ratio.is_within(Tolerances { up: tolerance(up), down: tolerance(down) }), within, "{name}");
        }
        for text in ["-0.1", "", "NaN", "ten"] {
            assert_eq!(Tolerance::parse(text), None, "{text}");
        }
    }

    #[test]
    fn replicas_are_rounded_up_exactly() {
        for (name, actual, target, count, want) in [
            ("a whole number stays", 7, 100, 100, 7),
            ("a fraction is rounded up", 7_001, 100_000, 100, 8),
            ("nothing is below zero", -5, 1, 3, 0),
            ("what does not fit is limited", i128::from(i64::MAX), 1, i128::from(i32::MAX), i32::MAX),
        ] {
            assert_eq!(Ratio { actual, target }.replicas(count, Calibration::ONE), want, "{name}");
        }
    }
}
