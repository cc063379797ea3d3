//! Replicas that members scale (specification/autoscaling.md 6): what the binding assigns are weights.

use std::collections::BTreeMap;

use ironclad_api::work::ResourceBinding;
use ironclad_fleet::BindingKey;

use super::Rules;

/// Checks that nobody takes assigned replicas back without assigning them elsewhere: the clusters and the replicas of
/// the workload are the same, and the sum is smaller.
pub(super) fn see(
    key: &BindingKey,
    old: Option<&ResourceBinding>,
    new: Option<&ResourceBinding>,
    rules: &Rules,
    broken: &mut Vec<String>,
) {
    let (Some(old), Some(new)) = (old, new) else { return };
    if !rules.scaled_in_members.contains(key) || old.spec.replicas != new.spec.replicas {
        return;
    }
    let assigned = |binding: &ResourceBinding| -> BTreeMap<String, i32> {
        binding.spec.clusters.iter().map(|target| (target.name.clone(), target.replicas)).collect()
    };
    let (before, after) = (assigned(old), assigned(new));
    if before.keys().eq(after.keys()) && after.values().sum::<i32>() < before.values().sum() {
        broken.push(format!(
            "members scale {key}, and its assigned replicas were taken back: {before:?}, then {after:?}"
        ));
    }
}
