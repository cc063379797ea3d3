//! Resource amounts as the pod scheduler adds them up: thousandths of a core for cpu, whole units for all else.

use std::collections::BTreeMap;

use ironclad_quantity::Amount;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, i64>;

/// The resource whose amounts are thousandths.
pub const CPU: &str = "cpu";
/// The number of pods on a node.
pub const PODS: &str = "pods";

/// Returns the amount of the resource, rounded up; `None` if the text is no quantity.
pub fn parse(resource: &str, text: &str) -> Option<i64> {
    let amount = Amount::parse(text.trim()).ok()?;
    Some(if resource == CPU { amount.milli_value() } else { amount.value() })
}

/// Returns the amounts of a resource list; invalid ones are left out.
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

/// Subtracts the second from the first.
pub fn subtract(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let rest = from.entry(name.clone()).or_insert(0);
        *rest = rest.saturating_sub(*amount);
    }
}

/// Raises each amount of the first to that of the second where that is larger.
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
            ("memory", "9999999999E", Some(i64::MAX)),
        ] {
            assert_eq!(parse(resource, text), want, "{resource} {text}");
        }
    }
}
