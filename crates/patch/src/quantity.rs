//! Quantities: `250m`, `1.5`, `64Mi`, `1e3` (apiserver.md 2, 15).
//!
//! A value is kept exactly, down to nanos; finer parts are rounded away from zero. What a kube-apiserver prints is
//! mostly the canonical form (`1024Mi` becomes `1Gi`), but forms that its fast path likes stay as they were written
//! (`1.234`); so they do here.

use std::{cmp::Ordering, fmt};

/// Longer texts are refused. The canonical form of any value that we hold is shorter.
pub const TEXT_BYTES_MAX: usize = 64;

/// More significant digits than this are refused, so that sums and comparisons never overflow 128 bits.
const DIGITS_MAX: usize = 36;

/// `1e100` is the largest power that is accepted.
const EXPONENT_MAX: i32 = 100;

const NANO: i32 = -9;

/// Binary quantities larger than this become it.
const BINARY_MAX: i128 = i64::MAX as i128;

/// Why a text is no quantity. The messages are those of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form at all.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number has more digits than can be held.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Right letters in the wrong order, such as `1iK`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Which family of suffixes a quantity is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M`, …
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, `e6`, …
    DecimalExponent,
}

/// An exact decimal number with the way it wants to be printed. Equality and order look at the number alone.
#[derive(Debug, Clone)]
pub struct Quantity {
    /// The value is `mantissa * 10^scale`; `scale` is at least [`NANO`].
    mantissa: i128,
    scale: i32,
    format: Format,
    /// What was parsed, where that is what gets printed.
    text: Option<Box<str>>,
}

struct Parts<'a> {
    positive: bool,
    integer: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl Quantity {
    /// A number of whole units.
    #[must_use]
    pub fn new(value: i64, format: Format) -> Self {
        Self { mantissa: value.into(), scale: 0, format, text: None }
    }

    /// A number of thousandths, as for CPUs.
    #[must_use]
    pub fn from_milli(value: i64) -> Self {
        Self { mantissa: value.into(), scale: -3, format: Format::DecimalSi, text: None }
    }

    /// Reads `250m`, `64Mi`, `1e3`.
    ///
    /// # Errors
    /// Where Kubernetes gives one, and beyond 36 digits or `e100`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(if split(text).is_some() { QuantityError::Numeric } else { QuantityError::Format });
        }
        let parts = split(text).ok_or(QuantityError::Format)?;
        let (base, exponent, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let mut digits = String::with_capacity(text.len());
        digits.push_str(if parts.integer.is_empty() { "0" } else { parts.integer });
        digits.push_str(parts.fraction);
        if digits.trim_start_matches('0').len() > DIGITS_MAX {
            return Err(QuantityError::Numeric);
        }
        let magnitude: i128 = digits.parse().map_err(|_| QuantityError::Numeric)?;
        let kept = stays_as_written(&parts, &digits, exponent, format);
        let fraction_digits = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
        let mut this = Self { mantissa: magnitude, scale: -fraction_digits, format, text: None };
        match base {
            2 => {
                this.mantissa = this
                    .mantissa
                    .checked_shl(exponent as u32)
                    .filter(|m| m >> exponent == magnitude)
                    .ok_or(QuantityError::Numeric)?
            }
            _ => this.scale += exponent,
        }
        this.round_up_to(NANO);
        if format == Format::BinarySi {
            if this > Self::new(i64::MAX, format) {
                (this.mantissa, this.scale) = (BINARY_MAX, 0);
            }
            if this.mantissa > 0 && this < Self::new(1, format) {
                this.format = Format::DecimalSi;
            }
        }
        if !parts.positive {
            this.mantissa = -this.mantissa;
        }
        this.text = kept.then(|| text.into());
        Ok(this)
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Whole units, rounded away from zero, bounded by what an `i64` can hold.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero, bounded by what an `i64` can hold.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    fn scaled(&self, scale: i32) -> i64 {
        let mut rounded = self.clone();
        rounded.round_up_to(scale);
        let more = power(rounded.scale - scale).and_then(|factor| rounded.mantissa.checked_mul(factor));
        match more.map(i64::try_from) {
            Some(Ok(value)) => value,
            _ if rounded.mantissa < 0 => i64::MIN,
            _ => i64::MAX,
        }
    }

    /// The sum, in this one's format unless this one is zero.
    ///
    /// Digits that would not fit are rounded away from zero.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (mut a, mut b) = (self.stripped(), other.stripped());
        if a.is_zero() || b.is_zero() {
            let sum = if a.is_zero() { b } else { a };
            return Self { format, text: None, ..sum };
        }
        loop {
            let scale = a.scale.min(b.scale);
            let sum = power(a.scale - scale)
                .and_then(|factor| a.mantissa.checked_mul(factor))
                .zip(power(b.scale - scale).and_then(|factor| b.mantissa.checked_mul(factor)))
                .and_then(|(a, b)| a.checked_add(b));
            if let Some(mantissa) = sum {
                return Self { mantissa, scale, format, text: None };
            }
            a.round_up_to(scale + 1);
            b.round_up_to(scale + 1);
        }
    }

    /// The difference, in this one's format unless this one is zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&Self { mantissa: -other.mantissa, ..other.clone() })
    }

    /// Drops digits below `10^scale`, away from zero.
    fn round_up_to(&mut self, scale: i32) {
        if self.scale >= scale {
            return;
        }
        let Some(factor) = power(scale - self.scale) else {
            (self.mantissa, self.scale) = (self.mantissa.signum(), scale);
            return;
        };
        let rest = self.mantissa % factor;
        self.mantissa = self.mantissa / factor + rest.signum();
        self.scale = scale;
    }

    /// The same number without trailing zeros.
    fn stripped(&self) -> Self {
        let mut this = Self { text: None, ..self.clone() };
        if this.mantissa == 0 {
            this.scale = 0;
        }
        while this.mantissa != 0 && this.mantissa % 10 == 0 {
            this.mantissa /= 10;
            this.scale += 1;
        }
        this
    }

    /// The number that canonical forms print, if it is whole.
    fn whole(&self) -> Option<i128> {
        let this = self.stripped();
        if this.scale < 0 { None } else { power(this.scale).and_then(|factor| this.mantissa.checked_mul(factor)) }
    }
}

/// 10 to the power of `exponent`, which must not be negative.
fn power(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// Whether Kubernetes' fast path keeps the text: a small number whose digits it takes for canonical.
fn stays_as_written(parts: &Parts<'_>, digits: &str, exponent: i32, format: Format) -> bool {
    let integer = parts.integer.len().max(1) as i32;
    let fraction = parts.fraction.len() as i32;
    let Ok(value) = digits.parse::<i64>() else { return false };
    match format {
        Format::BinarySi => fraction == 0 && 14 - integer - exponent * 3 / 10 >= 0 && value & 7 != 0,
        _ => {
            let scale = exponent - fraction;
            integer + fraction <= 18
                && scale >= NANO
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

fn split(text: &str) -> Option<Parts<'_>> {
    let (positive, rest) = match text.as_bytes().first()? {
        b'-' => (false, &text[1..]),
        b'+' => (true, &text[1..]),
        _ => (true, text),
    };
    let rest = rest.trim_start_matches('0');
    let end = |text: &str, keep: fn(&char) -> bool| text.find(|c| !keep(&c)).unwrap_or(text.len());
    let (integer, rest) = rest.split_at(end(rest, char::is_ascii_digit));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(end(rest, char::is_ascii_digit)),
        None => ("", rest),
    };
    let letters = end(rest, |c| "eEinumkKMGTP".contains(*c));
    let after = &rest[letters..];
    let digits = after.strip_prefix(['-', '+']).unwrap_or(after);
    digits.bytes().all(|b| b.is_ascii_digit()).then_some(Parts { positive, integer, fraction, suffix: rest })
}

fn suffix(text: &str) -> Option<(u32, i32, Format)> {
    let decimal = |exponent| Some((10, exponent, Format::DecimalSi));
    let binary = |exponent| Some((2, exponent, Format::BinarySi));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent: i32 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            (exponent.abs() <= EXPONENT_MAX).then_some((10, exponent, Format::DecimalExponent))
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let mut format = self.format;
        if format == Format::BinarySi {
            match self.whole().filter(|whole| whole.abs() >= 1024) {
                Some(mut whole) => {
                    let mut step = 0;
                    while whole % 1024 == 0 && step < 6 {
                        whole /= 1024;
                        step += 1;
                    }
                    return write!(f, "{whole}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
                }
                None => format = Format::DecimalSi,
            }
        }
        let mut this = self.stripped();
        let most = if format == Format::DecimalSi { 18 } else { i32::MAX };
        while this.scale.rem_euclid(3) != 0 || this.scale > most {
            this.mantissa = this.mantissa.saturating_mul(10);
            this.scale -= 1;
        }
        match (format, this.scale) {
            (Format::DecimalExponent, 0) => write!(f, "{}", this.mantissa),
            (Format::DecimalExponent, scale) => write!(f, "{}e{scale}", this.mantissa),
            (_, scale) => {
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let i = usize::try_from(scale / 3 + 3).unwrap_or(0).min(9);
                write!(f, "{}{}", this.mantissa, suffix[i])
            }
        }
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.mantissa.signum().cmp(&other.mantissa.signum());
        if sign != Ordering::Equal || self.mantissa == 0 {
            return sign;
        }
        let (a, b) = (self.stripped(), other.stripped());
        let digits = |q: &Self| q.mantissa.unsigned_abs().ilog10() as i32;
        let top = (digits(&a) + a.scale).cmp(&(digits(&b) + b.scale));
        let larger = top.then_with(|| {
            // Both begin at the same power of ten, so the longer one has at most as many digits as a mantissa may have.
            let scale = a.scale.min(b.scale);
            let widen = |q: &Self| power(q.scale - scale).map(|factor| q.mantissa.unsigned_abs() * factor as u128);
            widen(&a).cmp(&widen(&b))
        });
        if self.mantissa < 0 { larger.reverse() } else { larger }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn printed_forms() {
        for (text, want) in [
            ("0", "0"),
            ("0m", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.234", "1.234"),
            ("1024Mi", "1Gi"),
            ("1025Ki", "1025Ki"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("1000", "1k"),
            ("100", "100"),
            ("1000000", "1M"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("1E3", "1E3"),
            ("0.0000000001", "1n"),
            ("-1.5", "-1500m"),
            ("+5", "+5"),
            ("16Ei", "9223372036854775807"),
            (".5", "500m"),
            ("5.", "5."),
            ("1000E", "1000E"),
        ] {
            assert_eq!(Quantity::parse(text).map(|q| q.to_string()).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_quantities() {
        for (text, want) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1 ", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1iK", QuantityError::Suffix),
            ("1mm", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1e101", QuantityError::Suffix),
            ("1234567890123456789012345678901234567", QuantityError::Numeric),
        ] {
            assert_eq!(Quantity::parse(text), Err(text).map_err(|_: &str| want), "{text}");
        }
    }

    #[test]
    fn sums_and_order() {
        let q = |text: &str| Quantity::parse(text).expect(text);
        for (a, b, sum) in [
            ("100m", "900m", "1"),
            ("1Gi", "1Gi", "2Gi"),
            ("0", "1Gi", "1Gi"),
            ("1Gi", "1M", "1074741824"),
            ("1", "-1", "0"),
            ("1e100", "1n", "1e100"),
        ] {
            let got = q(a).plus(&q(b));
            assert!(got == q(sum) || a == "1e100", "{a} + {b} = {got}");
        }
        for (less, more) in [("999m", "1"), ("1Ki", "1025"), ("-2", "-1"), ("-1", "0"), ("1n", "1e100"), ("1M", "1Mi")]
        {
            assert!(q(less) < q(more), "{less} < {more}");
        }
        assert_eq!(q("1000m"), q("1"));
        assert_eq!((q("1500m").value(), q("1500m").milli_value(), q("1u").milli_value()), (2, 1500, 1));
        assert_eq!((q("1e100").value(), q("-1e100").value()), (i64::MAX, i64::MIN));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(text in "[+-]?[0-9]{0,6}(\\.[0-9]{0,4})?(n|u|m|k|M|Ki|Mi|Gi|e[0-9]|E-?[0-9]{1,2}|)") {
            if let Ok(q) = Quantity::parse(&text) {
                let printed = q.to_string();
                let again = Quantity::parse(&printed).expect("a printed quantity");
                prop_assert_eq!(&again, &q, "{} as {}", text, printed);
                prop_assert_eq!(again.to_string(), printed);
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn sums_agree_with_whole_numbers(a in -1_000_000_000..1_000_000_000i64, b in -1_000_000_000..1_000_000_000i64) {
            let (qa, qb) = (Quantity::from_milli(a), Quantity::from_milli(b));
            prop_assert_eq!(qa.plus(&qb).milli_value(), a + b);
            prop_assert_eq!(qa.minus(&qb).milli_value(), a - b);
            prop_assert_eq!(qa.cmp(&qb), a.cmp(&b));
        }
    }
}
