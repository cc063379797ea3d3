//! Validation of answers about replicas, the same for every source: what a binding cannot store, or what would count
//! against nothing, is an error of the interpretation.

use std::collections::BTreeSet;

use ironclad_api::{ResourceList, quantity::Amount, work::Component};

use crate::Replicas;

/// Longest name of a component in a binding, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Components of one answer. The binding that stores them has room for no more by far.
const COMPONENTS_MAX: usize = 1_000;

/// Validates replicas and the requirements of one replica.
///
/// # Errors
/// The field that is wrong.
pub fn checked_replicas(answer: Replicas) -> Result<Replicas, String> {
    if answer.replicas < 0 {
        return Err(format!("it has {} replicas, which must be between 0 and {}", answer.replicas, i32::MAX));
    }
    if let Some(requirements) = &answer.requirements {
        quantities(&requirements.resource_request, "its replica requirements")?;
    }
    Ok(answer)
}

/// Validates components: names of 1 to 32 bytes without doubles, replicas and quantities of at least 0.
///
/// # Errors
/// The component and its field that is wrong.
pub fn checked_components(components: Vec<Component>) -> Result<Vec<Component>, String> {
    if components.len() > COMPONENTS_MAX {
        return Err(format!("it has {} components, at most {COMPONENTS_MAX} are possible", components.len()));
    }
    let mut names = BTreeSet::new();
    for (i, component) in components.iter().enumerate() {
        let name = &component.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let length = name.len();
            return Err(format!(
                "component {} has a name of {length} bytes, which must be 1 to {NAME_BYTES_MAX}",
                i + 1
            ));
        }
        if !names.insert(name) {
            return Err(format!("there are two components {name}"));
        }
        if component.replicas < 0 {
            return Err(format!("component {name} has {} replicas, which must be at least 0", component.replicas));
        }
        if let Some(requirements) = &component.replica_requirements {
            quantities(&requirements.resource_request, &format!("component {name}"))?;
        }
    }
    Ok(components)
}

fn quantities(list: &ResourceList, of: &str) -> Result<(), String> {
    for (name, quantity) in list {
        match Amount::try_from(quantity) {
            Err(error) => return Err(format!("{of}: resource {name}: {error}")),
            Ok(amount) if amount.is_negative() => {
                return Err(format!("{of}: resource {name}: {} is negative", quantity.0));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn absurd_answers_are_errors() {
        let component = |name: &str, replicas: i32, cpu: &str| json!({"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
        let long = "x".repeat(33);
        for (name, components, want) in [
            ("well", json!([component("a", 0, "0"), component(&"x".repeat(32), i32::MAX, "1e18")]), Ok(())),
            (
                "negative replicas",
                json!([component("a", -1000, "1")]),
                Err("component a has -1000 replicas, which must be at least 0"),
            ),
            (
                "a negative quantity",
                json!([component("a", 1, "-100")]),
                Err("component a: resource cpu: -100 is negative"),
            ),
            (
                "no quantity",
                json!([component("a", 1, "much")]),
                Err("component a: resource cpu: \"much\" is not a quantity"),
            ),
            (
                "no name",
                json!([component("", 1, "1")]),
                Err("component 1 has a name of 0 bytes, which must be 1 to 32"),
            ),
            (
                "a long name",
                json!([component(&long, 1, "1")]),
                Err("component 1 has a name of 33 bytes, which must be 1 to 32"),
            ),
            (
                "a double name",
                json!([component("a", 1, "1"), component("a", 1, "1")]),
                Err("there are two components a"),
            ),
            (
                "too many",
                Value::Array((0..1001).map(|i| component(&format!("c{i}"), 1, "1")).collect()),
                Err("it has 1001 components, at most 1000 are possible"),
            ),
        ] {
            let got = checked_components(serde_json::from_value(components).unwrap()).map(drop);
            match (&got, want) {
                (Err(got), Err(want)) => assert!(got.starts_with(want), "{name}: {got}"),
                (got, want) => assert_eq!(*got, want.map_err(str::to_owned), "{name}"),
            }
        }
        for (replicas, cpu, want) in [
            (3, "100m", Ok(())),
            (-1, "1", Err("it has -1 replicas, which must be between 0 and 2147483647")),
            (1, "-1n", Err("its replica requirements: resource cpu: -1n is negative")),
        ] {
            let requirements = serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}})).unwrap();
            let got = checked_replicas(Replicas { replicas, requirements: Some(requirements) }).map(drop);
            assert_eq!(got, want.map_err(str::to_owned), "{replicas} {cpu}");
        }
    }
}
