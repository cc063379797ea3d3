//! Amounts of resources as the pod scheduler adds them up: thousandths of a core for cpu, whole units for all else.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by the resource's name.
pub type Amounts = BTreeMap<String, i64>;

/// The resource that is counted in thousandths.
pub const CPU: &str = "cpu";
/// The number of pods of a node.
pub const PODS: &str = "pods";

/// The amount that a quantity of this resource is, rounded up. `None` for text that is no quantity.
#[must_use]
pub fn parse(resource: &str, text: &str) -> Option<i64> {
    let text = text.trim();
    let split = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    // Thousandths of thousandths, so that a suffix below one still comes out whole.
    let mut value = decimal(number)?;
    let (times, divide): (i128, i128) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    };
    value.units = value.units.checked_mul(times)?.checked_mul(if resource == CPU { 1_000 } else { 1 })?;
    let divisor = value.scale.checked_mul(divide)?;
    let rounded = value.units.div_euclid(divisor) + i128::from(value.units.rem_euclid(divisor) > 0);
    i64::try_from(rounded).ok()
}

struct Decimal {
    units: i128,
    scale: i128,
}

fn decimal(text: &str) -> Option<Decimal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let digits = format!("{}{fraction}", whole.trim_start_matches(['+', '-']));
    if digits.is_empty() || digits.len() > 30 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let units: i128 = digits.parse().ok()?;
    Some(Decimal {
        units: if negative { -units } else { units },
        scale: 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?,
    })
}

/// The amounts of a resource list; what can't be read is left out.
#[must_use]
pub fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let each = list.into_iter().flatten();
    each.filter_map(|(name, quantity)| Some((name.clone(), parse(name, &quantity.0)?))).collect()
}

/// Adds the second to the first.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_insert(0);
        *sum = sum.saturating_add(*amount);
    }
}

/// Takes the second from the first.
pub fn subtract(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let rest = from.entry(name.clone()).or_insert(0);
        *rest = rest.saturating_sub(*amount);
    }
}

/// Raises the first to the second where that is larger.
pub fn raise(to: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let most = to.entry(name.clone()).or_insert(0);
        *most = (*most).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (resource, text, want) in [
            ("cpu", "2", Some(2_000)),
            ("cpu", "100m", Some(100)),
            ("cpu", "0.5", Some(500)),
            ("cpu", "1u", Some(1)),
            ("memory", "1Gi", Some(1 << 30)),
            ("memory", "1.5Ki", Some(1_536)),
            ("memory", "100m", Some(1)),
            ("memory", "1e3", Some(1_000)),
            ("memory", "2E", Some(2_000_000_000_000_000_000)),
            ("pods", "110", Some(110)),
            ("cpu", "", None),
            ("cpu", "x", None),
            ("cpu", "1.2.3", None),
            ("memory", "9999999999E", None),
        ] {
            assert_eq!(parse(resource, text), want, "{resource} {text}");
        }
    }
}
