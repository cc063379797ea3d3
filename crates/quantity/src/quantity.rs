//! A quantity as a kube-apiserver stores it.

use std::{cmp::Ordering, fmt, ops::Deref};

use crate::{
    Amount, Format, QuantityError,
    amount::NANO,
    parse::{Parts, Suffix},
};

/// An [`Amount`] that prints as a kube-apiserver prints what it read: mostly in the canonical form (`1024Mi` becomes
/// `1Gi`), but some texts stay as they were written (`1.234`).
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    /// The text that was read, where it is printed as it was written.
    text: Option<Box<str>>,
}

impl Quantity {
    /// Creates a whole number.
    pub const fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::new(value, format), text: None }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As [`Amount::parse`].
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let read = || {
            let parts = Parts::split(text)?;
            let amount = parts.amount()?;
            Ok(Self { amount, text: stays_as_written(&parts).then(|| text.into()) })
        };
        read().map_err(|reason| QuantityError::new(text, reason))
    }
}

/// Returns `true` if the fast path of Kubernetes' parser keeps the text: a small number whose digits it takes for
/// canonical.
fn stays_as_written(parts: &Parts<'_>) -> bool {
    let integer = if parts.integer.is_empty() { "0" } else { parts.integer };
    let (digits, fraction) = (format!("{integer}{}", parts.fraction), parts.fraction.len() as i32);
    let Ok(value) = digits.parse::<i64>() else { return false };
    match parts.suffix {
        // 1Mi is 2^20 and has about six decimal digits: three per power of 1024.
        Suffix::Binary(power) => fraction == 0 && 14 - integer.len() as i32 - power as i32 * 3 >= 0 && value & 7 != 0,
        Suffix::Decimal(exponent, _) => {
            let scale = exponent - fraction;
            digits.len() <= 18
                && scale >= NANO
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

impl Deref for Quantity {
    type Target = Amount;

    fn deref(&self) -> &Amount {
        &self.amount
    }
}

impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Self {
        Self { amount, text: None }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => self.amount.fmt(f),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}
