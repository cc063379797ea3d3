use std::{
    cmp::Ordering,
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign},
};

use crate::{Malformed, QuantityError, parse::Parts};

/// Exponent of the smallest unit that is kept: billionths.
pub(crate) const NANO: i32 = -9;

const NANOS: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

/// Family of suffixes that a quantity is printed with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// `100m`, `5`, `2k`.
    #[default]
    DecimalSi,
    /// `2Ki`, `1536Mi`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

/// The number of a quantity, and the format of its canonical form. Equality and order compare the number alone.
///
/// Numbers up to 1.7e29 are exact to billionths. Larger ones keep at least 37 digits; what does not fit is rounded away
/// from zero.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// The number is `mantissa * 10^scale`. The scale is the smallest from [`NANO`] on with which the mantissa fits, so
    /// that each number has one representation.
    mantissa: i128,
    scale: i32,
    format: Format,
}

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self::new(0, Format::DecimalSi);

    /// Creates a whole number.
    pub const fn new(value: i64, format: Format) -> Self {
        Self { mantissa: value as i128 * NANOS, scale: NANO, format }
    }

    /// Creates a number of thousandths, as for CPU.
    pub const fn from_milli(milli: i64) -> Self {
        Self { mantissa: milli as i128 * MILLI, scale: NANO, format: Format::DecimalSi }
    }

    /// Reads a text. More than nine decimal places are rounded away from zero; with a binary suffix, numbers above
    /// 2^63-1 become that.
    ///
    /// # Errors
    /// The text is not a quantity, or exceeds a bound of this crate.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::try_parse(text).map_err(|reason| QuantityError::new(text, reason))
    }

    fn try_parse(text: &str) -> Result<Self, Malformed> {
        Parts::split(text)?.amount()
    }

    /// Creates `mantissa * 10^scale`; the scale is at least [`NANO`].
    pub(crate) fn from_parts(mantissa: i128, scale: i32, format: Format) -> Self {
        let mut this = Self { mantissa, scale, format };
        if mantissa == 0 {
            this.scale = NANO;
        } else if let Some(mantissa) = power(scale - NANO).and_then(|factor| mantissa.checked_mul(factor)) {
            (this.mantissa, this.scale) = (mantissa, NANO);
        } else {
            while let Some(mantissa) = this.mantissa.checked_mul(10) {
                (this.mantissa, this.scale) = (mantissa, this.scale - 1);
            }
        }
        this
    }

    /// Returns the same number with another format.
    pub const fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Returns whole units, rounded away from zero and limited to what fits.
    pub fn value(self) -> i64 {
        self.in_steps_of(NANOS)
    }

    /// Returns thousandths, rounded away from zero and limited to what fits.
    pub fn milli_value(self) -> i64 {
        self.in_steps_of(MILLI)
    }

    fn in_steps_of(self, nanos: i128) -> i64 {
        // A number with another scale is larger than any i64.
        let steps = if self.scale == NANO { divide_up(self.mantissa, nanos) } else { self.mantissa };
        saturate(steps)
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        if self.scale == NANO { self.mantissa as f64 / 1e9 } else { self.mantissa as f64 * 10_f64.powi(self.scale) }
    }

    /// Returns `true` for zero.
    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// Returns `true` below zero.
    pub fn is_negative(self) -> bool {
        self.mantissa < 0
    }

    /// Returns `true` for whole numbers.
    pub fn is_whole(self) -> bool {
        self.whole().is_some() || self.scale >= 0
    }

    /// Returns the number if it is whole and fits.
    fn whole(self) -> Option<i128> {
        let (mantissa, scale) = self.stripped();
        power(scale).and_then(|factor| mantissa.checked_mul(factor))
    }

    /// Returns how many times `one` fits, rounded down; `None` if `one` is not above zero.
    pub fn times(self, one: Self) -> Option<i64> {
        let scale = self.scale.max(one.scale);
        let (this, one) = (self.at_scale(scale), one.at_scale(scale));
        (one > 0).then(|| saturate(this.div_euclid(one)))
    }

    /// The mantissa at a larger scale, rounded away from zero.
    fn at_scale(self, scale: i32) -> i128 {
        if scale == self.scale {
            return self.mantissa;
        }
        power(scale - self.scale).map_or(self.mantissa.signum(), |divisor| divide_up(self.mantissa, divisor))
    }

    /// Mantissa and scale without trailing zeros.
    fn stripped(self) -> (i128, i32) {
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        if mantissa == 0 {
            return (0, 0);
        }
        for (factor, zeros) in [(1_000, 3), (10, 1)] {
            while mantissa % factor == 0 {
                mantissa /= factor;
                scale += zeros;
            }
        }
        (mantissa, scale)
    }
}

impl Default for Amount {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Display for Amount {
    /// Writes the canonical form: no precision lost, no fraction, the largest suffix that allows both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let Some(mut number) = self.whole().filter(|number| number.abs() >= 1024)
        {
            let mut steps = 0;
            while number % 1024 == 0 && steps < BINARY.len() - 1 {
                (number, steps) = (number / 1024, steps + 1);
            }
            return write!(f, "{number}{}", BINARY[steps]);
        }
        let (mantissa, scale) = self.stripped();
        let largest = if self.format == Format::DecimalExponent { i32::MAX } else { 18 };
        let exponent = (scale.div_euclid(3) * 3).min(largest);
        let zeros = usize::try_from(scale - exponent).unwrap_or(0);
        write!(f, "{mantissa}{:0<zeros$}", "")?;
        match self.format {
            Format::DecimalExponent if exponent == 0 => Ok(()),
            Format::DecimalExponent => write!(f, "e{exponent}"),
            _ => f.write_str(usize::try_from(exponent / 3 + 3).map_or("", |step| DECIMAL[step])),
        }
    }
}

impl std::str::FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        // The scale is the smallest that is possible, so of two positive numbers the one with the larger scale is
        // larger.
        let magnitude = |amount: &Self| (amount.scale, amount.mantissa.unsigned_abs());
        let sign = self.mantissa.signum();
        sign.cmp(&other.mantissa.signum()).then_with(|| {
            let ordering = magnitude(self).cmp(&magnitude(other));
            if sign < 0 { ordering.reverse() } else { ordering }
        })
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Amount {}

impl Add for Amount {
    type Output = Self;

    /// Returns the sum in the format of the left side, or of the right side if the left one is zero.
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let at = |scale| self.at_scale(scale).checked_add(other.at_scale(scale)).map(|sum| (sum, scale));
        let (sum, scale) = (self.scale.max(other.scale)..).find_map(at).expect("it fits where both are 1");
        Self::from_parts(sum, scale, format)
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Amount {
    type Output = Self;

    fn neg(self) -> Self {
        Self::from_parts(self.mantissa.checked_neg().unwrap_or(i128::MAX), self.scale, self.format)
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<i64> for Amount {
    type Output = Self;

    fn mul(self, factor: i64) -> Self {
        let factor = i128::from(factor);
        let at = |scale| self.at_scale(scale).checked_mul(factor).map(|product| (product, scale));
        let (product, scale) = (self.scale..).find_map(at).expect("it fits where this is 1");
        Self::from_parts(product, scale, self.format)
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

#[cfg(feature = "k8s-openapi")]
impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Amount {
    type Error = QuantityError;

    fn try_from(quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, QuantityError> {
        Self::parse(&quantity.0)
    }
}

#[cfg(feature = "k8s-openapi")]
impl From<Amount> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(amount: Amount) -> Self {
        Self(amount.to_string())
    }
}

/// 10 to the power of the exponent, if that is not negative and fits.
fn power(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

fn divide_up(number: i128, divisor: i128) -> i128 {
    number / divisor + (number % divisor).signum()
}

fn saturate(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}
