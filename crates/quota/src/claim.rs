//! Use of resources by PersistentVolumeClaims.

use std::collections::BTreeSet;

use ironclad_quantity::{Amount, Quantity};
use serde_json::Value;

use crate::amounts::{Amounts, count, read};

const COUNT: &str = "count/persistentvolumeclaims";
const NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Returns `true` if claims are charged for the resource of this name.
pub(crate) fn is_charged(name: &str) -> bool {
    let plain = name.rsplit_once(OF_CLASS).map_or(name, |(_, plain)| plain);
    name == COUNT || NAMES.contains(&plain)
}

/// Returns what a claim uses, also by its storage class.
pub(crate) fn usage(claim: &Value) -> Amounts {
    let mut out = Amounts::from([(COUNT.to_owned(), count(1))]);
    let class = class_of(claim);
    let mut charge = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            out.insert(format!("{class}{OF_CLASS}{name}"), amount.clone());
        }
        out.insert(name.to_owned(), amount);
    };
    charge(NAMES[0], count(1));
    if let Some(storage) = storage(claim) {
        charge(NAMES[1], storage);
    }
    out
}

/// The class, also where only the annotation of old names it.
fn class_of(claim: &Value) -> &str {
    let old = claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    old.or_else(|| claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

/// Storage in whole bytes: what is asked for, or what is allocated if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let asked = read(claim["spec"]["resources"].get("requests")).remove("storage")?;
    let allocated = read(claim["status"].get("allocatedResources")).remove("storage");
    let most = allocated.filter(|allocated| *allocated > asked).unwrap_or(asked);
    Some(if most.is_whole() { most } else { Amount::new(most.value(), ironclad_quantity::Format::DecimalSi).into() })
}

/// Returns the VolumeAttributesClasses that a claim has, or will have.
pub(crate) fn attributes_classes(claim: &Value) -> BTreeSet<&str> {
    let at = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    at.iter().filter_map(|at| claim.pointer(at)?.as_str()).filter(|name| !name.is_empty()).collect()
}

/// Returns `true` if a change of the status changes what quotas count.
pub(crate) fn status_counts(old: &Value, new: &Value) -> bool {
    old.pointer("/status/allocatedResources/storage") != new.pointer("/status/allocatedResources/storage")
        || attributes_classes(old) != attributes_classes(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::amounts::listed;

    #[test]
    fn claims_use_storage_of_their_class() {
        let claim = |class: Value, storage: &str, status: Value| json!({"metadata": {}, "spec": {"storageClassName": class, "resources": {"requests": {"storage": storage}}}, "status": status});
        let mut old = claim(Value::Null, "1Gi", json!({}));
        old["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "old"});
        for (name, claim, want) in [
            (
                "without a class",
                claim(Value::Null, "1Gi", json!({})),
                "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=1Gi",
            ),
            (
                "of a class",
                claim(json!("gold"), "1Gi", json!({})),
                "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi",
            ),
            (
                "of a class in the old annotation",
                old,
                "count/persistentvolumeclaims=1,old.storageclass.storage.k8s.io/persistentvolumeclaims=1,old.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi",
            ),
            (
                "more is allocated than asked for",
                claim(Value::Null, "1Gi", json!({"allocatedResources": {"storage": "2Gi"}})),
                "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2Gi",
            ),
            (
                "parts of a byte are rounded up",
                claim(Value::Null, "1500m", json!({})),
                "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2",
            ),
        ] {
            assert_eq!(listed(&usage(&claim)), want, "{name}");
        }
    }

    #[test]
    fn names_of_claims() {
        for (name, want) in [
            ("persistentvolumeclaims", true),
            ("requests.storage", true),
            ("count/persistentvolumeclaims", true),
            ("gold.storageclass.storage.k8s.io/requests.storage", true),
            ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", true),
            ("gold.storageclass.storage.k8s.io/other", false),
            ("storage", false),
        ] {
            assert_eq!(is_charged(name), want, "{name}");
        }
    }
}
