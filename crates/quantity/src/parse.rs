//! The grammar of quantities.

use crate::{Amount, Format, amount::NANO};

/// Longest text that is accepted, in bytes.
pub const TEXT_BYTES_MAX: usize = 256;

/// Most digits from the first to the last that is not zero, counted down to billionths.
pub const DIGITS_MAX: usize = 38;

/// Largest exponent that is accepted: `1e1000`. Exponents of any size below zero are accepted.
pub const EXPONENT_MAX: i32 = 1_000;

/// Characters of the text that an error repeats.
const SHOWN_CHARS: usize = 64;

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: a number with an optional suffix such as m, k, M, Gi or e3 is needed")]
pub struct QuantityError {
    /// The beginning of the text.
    pub text: String,
    /// The reason, with the message of a kube-apiserver.
    pub reason: Malformed,
}

/// Reason why a text is not a quantity. The messages are those of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The text does not have the form of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number has too many digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown, such as `iK`, or its exponent is too large.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl QuantityError {
    pub(crate) fn new(text: &str, reason: Malformed) -> Self {
        Self { text: text.chars().take(SHOWN_CHARS).collect(), reason }
    }
}

/// The parts of a text, without leading zeros.
pub(crate) struct Parts<'a> {
    pub(crate) negative: bool,
    pub(crate) integer: &'a str,
    pub(crate) fraction: &'a str,
    pub(crate) suffix: Suffix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suffix {
    /// The power of ten.
    Decimal(i32, Format),
    /// The power of 1024.
    Binary(u32),
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        let decimal = |exponent| Some(Self::Decimal(exponent, Format::DecimalSi));
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
            "Ki" => Some(Self::Binary(1)),
            "Mi" => Some(Self::Binary(2)),
            "Gi" => Some(Self::Binary(3)),
            "Ti" => Some(Self::Binary(4)),
            "Pi" => Some(Self::Binary(5)),
            "Ei" => Some(Self::Binary(6)),
            _ => {
                let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
                let exponent = i32::try_from(exponent.max(-i64::from(EXPONENT_MAX))).ok()?;
                (exponent <= EXPONENT_MAX).then_some(Self::Decimal(exponent, Format::DecimalExponent))
            }
        }
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn split(text: &'a str) -> Result<Self, Malformed> {
        let (negative, rest) = match text.as_bytes().first().ok_or(Malformed::Format)? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let rest = rest.trim_start_matches('0');
        let end = |text: &str, matches: fn(&char) -> bool| text.find(|c| !matches(&c)).unwrap_or(text.len());
        let (integer, rest) = rest.split_at(end(rest, char::is_ascii_digit));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end(rest, char::is_ascii_digit)),
            None => ("", rest),
        };
        let exponent = &suffix[end(suffix, |c| "eEinumkKMGTP".contains(*c))..];
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Malformed::Format);
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(Malformed::Numeric);
        }
        let suffix = Suffix::parse(suffix).ok_or(Malformed::Suffix)?;
        Ok(Self { negative, integer, fraction, suffix })
    }

    /// Returns the number. Digits below billionths are rounded away from zero.
    pub(crate) fn amount(&self) -> Result<Amount, Malformed> {
        let number = || self.integer.bytes().chain(self.fraction.bytes()).map(|b| b - b'0');
        let amount = match self.suffix {
            Suffix::Decimal(exponent, format) => {
                let digits: Vec<u8> = number().collect();
                let (mantissa, scale) =
                    decimal(&digits, self.integer.len() as i32 + exponent).ok_or(Malformed::Numeric)?;
                Amount::from_parts(mantissa, scale, format)
            }
            Suffix::Binary(power) => {
                let mut digits: Vec<u8> = std::iter::repeat_n(0, BINARY_CARRY_DIGITS).chain(number()).collect();
                (0..power).for_each(|_| multiply_by_1024(&mut digits));
                let largest = Amount::new(i64::MAX, Format::BinarySi);
                let amount = decimal(&digits, (BINARY_CARRY_DIGITS + self.integer.len()) as i32)
                    .map_or(largest, |(mantissa, scale)| Amount::from_parts(mantissa, scale, Format::BinarySi))
                    .min(largest);
                // As Kubernetes does, print what is below one unit with a decimal suffix.
                let below_one = !amount.is_zero() && amount < Amount::new(1, Format::BinarySi);
                if below_one { amount.with_format(Format::DecimalSi) } else { amount }
            }
        };
        Ok(if self.negative { -amount } else { amount })
    }
}

/// Digits by which the largest binary suffix can lengthen a number: 2^60 has 19.
const BINARY_CARRY_DIGITS: usize = 19;

/// Multiplies a decimal number in place. Its first digits must be zeros for the carry.
fn multiply_by_1024(digits: &mut [u8]) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        carry += u32::from(*digit) * 1024;
        *digit = (carry % 10) as u8;
        carry /= 10;
    }
    debug_assert_eq!(carry, 0, "there are digits for the carry");
}

/// Returns mantissa and scale of `0.digits * 10^point`, rounded up to billionths; `None` if there are too many digits.
fn decimal(digits: &[u8], point: i32) -> Option<(i128, i32)> {
    let places = usize::try_from(point - NANO).unwrap_or(0);
    let (mut kept, dropped) = digits.split_at(places.min(digits.len()));
    let round_up = dropped.iter().any(|digit| *digit != 0);
    if !round_up {
        let length = kept.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        kept = &kept[..length];
    }
    let scale = if round_up { NANO } else { point - kept.len() as i32 };
    let significant = kept.iter().position(|digit| *digit != 0).map_or(&[][..], |first| &kept[first..]);
    if significant.len() > DIGITS_MAX {
        return None;
    }
    let mantissa = significant.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
    Some((mantissa + i128::from(round_up), scale))
}
