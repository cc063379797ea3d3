//! Arithmetic on quantities, exact to 10^-9, with Kubernetes' rounding, cap and canonical form.
//!
//! On the wire a quantity stays the text that it was; this module is for whoever has to compute.

use std::{
    cmp::Ordering,
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign},
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::ResourceList;

/// Longest text that is read as a quantity.
pub const TEXT_BYTES_MAX: usize = 256;

const NANOS: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// The largest magnitude of a quantity that is read; larger ones become this.
const LARGEST: i128 = i64::MAX as i128 * NANOS;
/// No exponent beyond this changes anything: the result is the cap or the smallest step.
const EXPONENT_MAX: i32 = 400;

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: a number with an optional suffix such as m, k, M, Gi or e3 is needed")]
pub struct QuantityError {
    /// The text, cut to what is bearable in a message.
    pub text: String,
}

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `100m`, `5`, `2k`.
    #[default]
    DecimalSi,
    /// `2Ki`, `1536Mi`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

/// A quantity as a number. Comparison and equality look at the value alone, not at how it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    nanos: i128,
    format: Format,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A whole number.
    #[must_use]
    pub const fn new(value: i64, format: Format) -> Self {
        Self { nanos: value as i128 * NANOS, format }
    }

    /// A number of thousandths, as for CPU.
    #[must_use]
    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * MILLI, format: Format::DecimalSi }
    }

    /// Reads a text. More than nine decimal places are rounded away from zero, magnitudes above 2^63-1 are cut.
    ///
    /// # Errors
    /// When the text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.chars().take(64).collect() };
        if text.len() > TEXT_BYTES_MAX {
            return Err(error());
        }
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let suffix_at = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(suffix_at);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(error());
        }
        let scale = Scale::of(suffix).ok_or_else(error)?;
        let nanos = scale.nanos(whole, fraction).min(LARGEST);
        let format = match scale {
            Scale::Decimal(_, format) => format,
            // Kubernetes writes small fractions of binary units in decimal ones.
            Scale::Binary(_) if nanos < NANOS && nanos > 0 => Format::DecimalSi,
            Scale::Binary(_) => Format::BinarySi,
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// The whole number, rounded away from zero.
    #[must_use]
    pub fn value(self) -> i64 {
        clamp(divide_up(self.nanos, NANOS))
    }

    /// Thousandths, rounded away from zero.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        clamp(divide_up(self.nanos, MILLI))
    }

    /// Exact billionths.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below nothing.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// How often `one` fits into this, rounded down; `None` when `one` is not above zero.
    #[must_use]
    pub fn times(self, one: Self) -> Option<i64> {
        (one.nanos > 0).then(|| clamp(self.nanos.div_euclid(one.nanos)))
    }
}

impl TryFrom<&Quantity> for Amount {
    type Error = QuantityError;

    fn try_from(quantity: &Quantity) -> Result<Self, QuantityError> {
        Self::parse(&quantity.0)
    }
}

impl From<Amount> for Quantity {
    /// In canonical form.
    fn from(amount: Amount) -> Self {
        Self(amount.to_string())
    }
}

impl fmt::Display for Amount {
    /// The canonical form: no precision lost, no fraction, the largest suffix that does both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let binary = self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0;
        if binary {
            let (mantissa, times) = strip(self.nanos / NANOS, 1024, BINARY.len() - 1);
            return write!(f, "{mantissa}{}", BINARY[times]);
        }
        let (mantissa, times) = strip(self.nanos, 1000, DECIMAL.len() - 1);
        match (self.format, times) {
            (Format::DecimalExponent, 3) | (_, 3) => write!(f, "{mantissa}"),
            (Format::DecimalExponent, times) => write!(f, "{mantissa}e{}", 3 * times as i64 - 9),
            (_, times) => write!(f, "{mantissa}{}", DECIMAL[times]),
        }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Amount {
    type Output = Self;

    /// The sum, written as the left side is, unless that is nothing.
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
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
        Self { nanos: -self.nanos, format: self.format }
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
        Self { nanos: self.nanos.saturating_mul(i128::from(factor)), format: self.format }
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// Adds the amounts of one list to another, resource by resource, and leaves the sums in canonical form.
///
/// # Errors
/// When an amount is not a quantity; `into` then holds the sums that came before.
pub fn add_to(into: &mut ResourceList, list: &ResourceList) -> Result<(), QuantityError> {
    for (resource, quantity) in list {
        let amount = Amount::try_from(quantity)?;
        let sum = match into.get(resource) {
            Some(old) => Amount::try_from(old)? + amount,
            None => amount,
        };
        into.insert(resource.clone(), sum.into());
    }
    Ok(())
}

/// What a suffix multiplies by.
enum Scale {
    /// A power of ten.
    Decimal(i32, Format),
    /// A power of two.
    Binary(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let si = |exponent| Some(Self::Decimal(exponent, Format::DecimalSi));
        match suffix {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Some(Self::Binary(10)),
            "Mi" => Some(Self::Binary(20)),
            "Gi" => Some(Self::Binary(30)),
            "Ti" => Some(Self::Binary(40)),
            "Pi" => Some(Self::Binary(50)),
            "Ei" => Some(Self::Binary(60)),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                let size = digits.parse::<i32>().map_or(EXPONENT_MAX, |size| size.min(EXPONENT_MAX));
                let exponent = if exponent.starts_with('-') { -size } else { size };
                Some(Self::Decimal(exponent, Format::DecimalExponent))
            }
        }
    }

    /// The number in billionths, rounded up, or something above the cap when it is larger than that.
    fn nanos(&self, whole: &str, fraction: &str) -> i128 {
        match *self {
            Self::Decimal(exponent, _) => {
                // The point moves right by the exponent and by nine more places; what is left of it counts.
                let digits = || whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
                let places = whole.len() as i64 + i64::from(exponent) + 9;
                let zeros = usize::try_from(places).unwrap_or(0).saturating_sub(whole.len() + fraction.len());
                let kept = digits().chain(std::iter::repeat_n(0, zeros)).take(usize::try_from(places).unwrap_or(0));
                let nanos = kept.fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(digit));
                let rest = digits().skip(usize::try_from(places).unwrap_or(0)).any(|digit| digit != 0);
                nanos.saturating_add(i128::from(rest))
            }
            Self::Binary(power) => {
                let factor = 1_i128 << power;
                let number = |digits: &str| {
                    digits.bytes().fold(0_i128, |sum, b| sum.saturating_mul(10).saturating_add(i128::from(b - b'0')))
                };
                let whole = number(whole).saturating_mul(factor).saturating_mul(NANOS);
                // Beyond 18 places a fraction of 2^60 is below half a unit of 2^-30: kept as "a little more".
                let (near, far) = fraction.split_at(fraction.len().min(18));
                let scaled = number(near) * factor;
                let far_counts = i128::from(far.bytes().any(|b| b != b'0'));
                let part = divide_up_scaled(scaled + far_counts, 10_i128.pow(near.len() as u32));
                whole.saturating_add(part)
            }
        }
    }
}

/// `number * NANOS / divisor`, rounded up, for non-negative numbers whose product would not fit.
fn divide_up_scaled(number: i128, divisor: i128) -> i128 {
    let (whole, rest) = (number / divisor, number % divisor);
    whole.saturating_mul(NANOS).saturating_add(divide_up(rest * NANOS, divisor))
}

/// Division that rounds away from zero.
fn divide_up(number: i128, divisor: i128) -> i128 {
    let quotient = number / divisor;
    if number % divisor == 0 { quotient } else { quotient + number.signum() }
}

fn clamp(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// Divides as often as nothing is lost, at most `most` times.
fn strip(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % base == 0 {
        number /= base;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).unwrap()
    }

    #[test]
    fn canonical_forms() {
        for (text, want) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("1.", "1"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e-1", "1200e-3"),
            ("1e0", "1"),
            ("1E", "1E"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("0.0001Ki", "102400u"),
            ("1000Ki", "1000Ki"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("100E", "9223372036854775807"),
            ("-100E", "-9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("1e999999999999", "9223372036854775807e0"),
            ("1e-999999999999", "1e-9"),
        ] {
            let want = want.strip_suffix("e0").unwrap_or(want);
            assert_eq!(amount(text).to_string(), want, "{text}");
        }
    }

    #[test]
    fn refusals() {
        for text in ["", "-", ".", "1..2", "1.2.3", "m", "1 ", " 1", "1mi", "1KI", "1e", "1e+", "1e1.5", "0x10", "1,5"]
        {
            assert!(Amount::parse(text).is_err(), "{text:?}");
        }
        assert!(Amount::parse(&"1".repeat(TEXT_BYTES_MAX)).is_ok());
        assert!(Amount::parse(&"1".repeat(TEXT_BYTES_MAX + 1)).is_err());
        assert_eq!(
            Amount::parse("two").unwrap_err().to_string(),
            "\"two\" is not a quantity: a number with an optional suffix such as m, k, M, Gi or e3 is needed"
        );
    }

    #[test]
    fn whole_and_milli_values_round_away_from_zero() {
        for (text, value, milli) in [
            ("1", 1, 1000),
            ("1100m", 2, 1100),
            ("-1100m", -2, -1100),
            ("1u", 1, 1),
            ("0", 0, 0),
            ("1Gi", 1 << 30, 1000 << 30),
            ("9223372036854775807", i64::MAX, i64::MAX),
        ] {
            assert_eq!((amount(text).value(), amount(text).milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn arithmetic() {
        for (name, got, want) in [
            ("the left side says how a sum is written", amount("1Gi") + amount("1024"), "1048577Ki"),
            ("unless it is nothing", Amount::ZERO + amount("1Gi"), "1Gi"),
            ("differences may be negative", amount("1") - amount("1500m"), "-500m"),
            ("products", amount("250m") * 3, "750m"),
            ("sums", ["1", "500m", "500m"].iter().map(|t| amount(t)).sum(), "2"),
        ] {
            assert_eq!(got.to_string(), want, "{name}");
        }
        assert_eq!(amount("1k"), amount("1000"));
        assert!(amount("1Ki") > amount("1k"));
        assert_eq!(amount("4").times(amount("1500m")), Some(2));
        assert_eq!(amount("-1").times(amount("1")), Some(-1));
        assert_eq!(amount("4").times(Amount::ZERO), None);
    }

    #[test]
    fn lists_add_up() {
        let list = |pairs: &[(&str, &str)]| -> ResourceList {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned()))).collect()
        };
        let mut sum = list(&[("cpu", "500m")]);
        add_to(&mut sum, &list(&[("cpu", "1.5"), ("memory", "1024Mi")])).unwrap();
        assert_eq!(sum, list(&[("cpu", "2"), ("memory", "1Gi")]));
        assert!(add_to(&mut sum, &list(&[("cpu", "many")])).is_err());
    }
}
