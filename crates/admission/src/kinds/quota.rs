//! FederatedResourceQuota (specification/admission.md 5.1).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{ResourceList, policy::FederatedResourceQuota, quantity::Amount};
use ironclad_patch::names;
use ironclad_propagation::quota::usage::{COUNTED_KINDS, PODS};
use serde_json::Value;

use super::lens::at;
use crate::{
    Denial,
    field::{Findings, Path},
    request::{Cx, decode},
};

/// Resources with integer amounts, beside [`COUNTED_KINDS`].
const COUNTED: [&str; 3] = [PODS, NODE_PORTS, LOAD_BALANCERS];
const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";
/// The other resources without a domain prefix.
const MEASURED: [&str; 10] = [
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.storage",
];

const NAME_BYTES_MAX: usize = 63;

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let quota: FederatedResourceQuota = decode(object)?;
    let name = quota.metadata.name.as_deref().unwrap_or_default();
    if name.len() > NAME_BYTES_MAX {
        out.invalid("metadata.name", name, "must be no more than 63 characters: it becomes the value of a label");
    }
    let path = Path::new("spec");
    amounts(&quota.spec.overall, &path.child("overall"), out);
    for key in quota.spec.overall.keys().filter(|key| !is_enforced(key)) {
        out.warn(format!(
            "{}: {key} is not enforced over clusters: bindings carry the requests and the number of their replicas, neither limits \
             nor storage nor ports; staticAssignments limit it in each cluster",
            path.child("overall").key(key)
        ));
    }
    let (mut seen, mut assigned) = (BTreeSet::new(), BTreeMap::<&str, Amount>::new());
    for (i, assignment) in quota.spec.static_assignments.iter().enumerate() {
        let at = path.child("staticAssignments").index(i);
        cluster_name(&assignment.cluster_name, &at.child("clusterName"), out);
        if !seen.insert(assignment.cluster_name.as_str()) {
            out.duplicate(at.child("clusterName"), &assignment.cluster_name);
        }
        amounts(&assignment.hard, &at.child("hard"), out);
        for (key, quantity) in &assignment.hard {
            if !quota.spec.overall.contains_key(key) {
                out.invalid(at.child("hard").key(key), &quantity.0, "must be in overall, too");
            }
            let amount = Amount::try_from(quantity).unwrap_or(Amount::ZERO);
            let sum = assigned.entry(key).or_insert(Amount::ZERO);
            *sum += amount;
        }
    }
    for (key, quantity) in &quota.spec.overall {
        let Some(sum) = assigned.get(key.as_str()) else { continue };
        if Amount::try_from(quantity).is_ok_and(|overall| overall < *sum) {
            let detail = format!("overall is less than assigned: {sum} are assigned to clusters");
            out.invalid(path.child("overall").key(key), &quantity.0, &detail);
        }
    }
    let status = quota.status.unwrap_or_default();
    amounts(&status.overall, &Path::new("status.overall"), out);
    amounts(&status.overall_used, &Path::new("status.overallUsed"), out);
    for (i, cluster) in status.aggregated_status.iter().enumerate() {
        let at = Path::new("status.aggregatedStatus").index(i);
        amounts(&cluster.hard, &at.child("hard"), out);
        amounts(&cluster.used, &at.child("used"), out);
    }
    if at(object, "/spec/overall").as_object().is_some_and(serde_json::Map::is_empty) {
        out.warn("spec.overall is empty: nothing is limited");
    }
    Ok(())
}

/// Validates a cluster name.
pub(crate) fn cluster_name(name: &str, path: &Path, out: &mut Findings) {
    for mistake in cluster_name_mistakes(name) {
        out.invalid(path, name, &mistake);
    }
}

/// Returns why a text cannot be the name of a cluster.
pub(crate) fn cluster_name_mistakes(name: &str) -> Vec<String> {
    use ironclad_api::cluster::NAME_LENGTH_MAX;
    if name.is_empty() {
        return vec!["must be not empty".to_owned()];
    }
    if name.len() > NAME_LENGTH_MAX {
        return vec![format!("must be no more than {NAME_LENGTH_MAX} characters")];
    }
    names::dns1123_label(name)
}

fn amounts(list: &ResourceList, path: &Path, out: &mut Findings) {
    for (key, quantity) in list {
        let at = path.key(key);
        let mistakes = names::label_key(key);
        let unknown = mistakes.is_empty() && !key.contains('/') && !is_standard(key);
        out.texts(&at, key, mistakes);
        if unknown {
            out.invalid(&at, key, "must be a standard resource for quota");
        }
        match Amount::try_from(quantity) {
            Err(error) => out.invalid(&at, &quantity.0, &error.to_string()),
            Ok(amount) if amount.is_negative() => {
                out.invalid(&at, &quantity.0, "must be greater than or equal to 0");
            }
            Ok(amount) if is_counted(key) && !amount.is_whole() => {
                out.invalid(&at, &quantity.0, "must be an integer");
            }
            Ok(_) => {}
        }
    }
}

fn is_standard(key: &str) -> bool {
    let pages = key.strip_prefix("requests.").unwrap_or(key).strip_prefix("hugepages-");
    is_count(key) || MEASURED.contains(&key) || pages.is_some_and(|size| Amount::parse(size).is_ok())
}

fn is_count(key: &str) -> bool {
    COUNTED.contains(&key) || COUNTED_KINDS.contains(&key)
}

/// Returns true for resources that bindings are charged with: the requests of their replicas, these as pods, and their
/// copies.
fn is_enforced(key: &str) -> bool {
    ![NODE_PORTS, LOAD_BALANCERS, "requests.storage"].contains(&key) && !key.starts_with("limits.")
}

/// Resources with integer amounts: counts, and extended resources such as `example.com/gpu`.
fn is_counted(key: &str) -> bool {
    let extended = key.strip_prefix("requests.").unwrap_or(key);
    is_count(key) || (extended.contains('/') && !extended.contains("kubernetes.io/"))
}
