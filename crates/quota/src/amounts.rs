//! Amounts of resources, by name.

use std::collections::BTreeMap;

use ironclad_quantity::{Format, Quantity};
use serde_json::{Map, Value};

/// Amounts by the name of the resource, as in `spec.hard` of a quota.
pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a list of amounts. Values that are not quantities are left out: validation refuses them.
pub(crate) fn read(list: Option<&Value>) -> Amounts {
    let quantity = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    };
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// Writes a list of amounts.
pub fn to_json(amounts: &Amounts) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect::<Map<_, _>>())
}

pub(crate) fn count(number: usize) -> Quantity {
    Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
}

pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or_else(|| amount.clone(), |have| (**have + **amount).into());
        to.insert(name.clone(), sum);
    }
}

/// Raises each amount to that of the second list where that is larger.
pub(crate) fn raise(to: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if to.get(name).is_none_or(|have| have < amount) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// Returns the amounts by which the first list is larger, without zeros.
pub(crate) fn growth(new: &Amounts, old: &Amounts) -> Amounts {
    let grown = |(name, amount): (&String, &Quantity)| {
        let rest: Quantity = old.get(name).map_or_else(|| amount.clone(), |before| (**amount - **before).into());
        (!rest.is_zero() && !rest.is_negative()).then(|| (name.clone(), rest))
    };
    new.iter().filter_map(grown).collect()
}

/// Returns the amounts that the second list names.
pub(crate) fn masked(amounts: &Amounts, names: &Amounts) -> Amounts {
    amounts.iter().filter(|(name, _)| names.contains_key(*name)).map(|(n, a)| (n.clone(), a.clone())).collect()
}

/// Prints amounts as Kubernetes' refusals do.
pub(crate) fn listed(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn amounts(list: &[(&str, &str)]) -> Amounts {
        list.iter().map(|(name, amount)| ((*name).to_owned(), Quantity::parse(amount).unwrap())).collect()
    }

    #[test]
    fn unreadable_amounts_are_left_out() {
        assert_eq!(
            read(Some(&json!({"cpu": "1", "memory": "much", "pods": 2}))),
            amounts(&[("cpu", "1"), ("pods", "2")])
        );
        assert_eq!(read(None), Amounts::new());
    }

    #[test]
    fn growth_is_never_negative() {
        for (name, new, old, want) in
            [("more", "3", "1", Some("2")), ("the same", "1", "1", None), ("less", "1", "3", None)]
        {
            let want: Vec<(&str, &str)> = want.map(|amount| ("cpu", amount)).into_iter().collect();
            assert_eq!(growth(&amounts(&[("cpu", new)]), &amounts(&[("cpu", old)])), amounts(&want), "{name}");
        }
        assert_eq!(growth(&amounts(&[("cpu", "1")]), &Amounts::new()), amounts(&[("cpu", "1")]), "new");
    }

    #[test]
    fn amounts_print_in_their_own_format() {
        let mut sum = amounts(&[("cpu", "900m"), ("memory", "1Gi")]);
        add(&mut sum, &amounts(&[("cpu", "100m"), ("memory", "512Mi"), ("pods", "1")]));
        assert_eq!(listed(&sum), "cpu=1,memory=1536Mi,pods=1");
        assert_eq!(to_json(&sum), json!({"cpu": "1", "memory": "1536Mi", "pods": "1"}));
    }
}
