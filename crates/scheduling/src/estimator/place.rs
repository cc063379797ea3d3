//! Pods on nodes: how many fit on one, and first fit over several (specification/scheduling.md 10.4, 10.6).

use super::{PodTemplate, SetPart};
use crate::capacity::demand::Units;

/// Largest number of complete sets that is computed; larger answers are cut to it.
pub(super) const SETS_MAX: i64 = 256;

/// Equal nodes, as far as these templates can tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// For each template of the question: true if the nodes admit it.
    pub(super) admits: Vec<bool>,
    /// Free resources of each node; negative where requests exceed what is allocatable.
    pub(super) left: Units,
    /// Pod slots that are left on each node.
    pub(super) pods: i64,
    /// Number of nodes.
    pub(super) count: i64,
}

/// Returns whether the resource limits where a pod fits. Kubernetes ignores native resources that it does not know.
pub(crate) fn is_counted(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || resource.contains('/')
        || resource.starts_with("hugepages-")
        || resource.starts_with("attachable-volumes-")
}

/// Number of pods with this request that fit into what is left of one node.
pub(super) fn per_node(left: &Units, pods: i64, request: &Units) -> i64 {
    let named = request.iter().filter(|(resource, amount)| **amount > 0 && is_counted(resource));
    let fits = named.map(|(resource, amount)| left.get(resource).copied().unwrap_or(0).max(0) / amount);
    fits.fold(pods, i64::min).max(0)
}

/// Share of a node that is free beside one more pod, in thousandths of each resource of the request that limits, or
/// else of its pod slots.
pub(super) fn free_share(request: &Units, left: &Units, slots: i64, allocatable: &Units) -> i64 {
    let of = |left: i64, all: i64| left.saturating_mul(1_000) / all.max(1);
    let named = request.iter().filter(|(resource, amount)| **amount > 0 && is_counted(resource));
    let amount = |of: &Units, resource: &str| of.get(resource).copied().unwrap_or(0);
    let free = |resource: &str, asked: i64| amount(left, resource).saturating_sub(asked);
    let shares = named.map(|(resource, asked)| of(free(resource, *asked), amount(allocatable, resource)));
    shares.reduce(i64::saturating_add).unwrap_or_else(|| of(slots, amount(allocatable, "pods")))
}

/// Subtracts pods with this request.
pub(super) fn take(left: &mut Units, request: &Units, pods: i64) {
    for (resource, amount) in left {
        let taken = request.get(resource).map_or(0, |asked| asked.saturating_mul(pods));
        *amount = amount.saturating_sub(taken);
    }
}

/// Number of complete sets that fit: each component is spread over the nodes that admit it, first fit. `at_most` bounds
/// the answer, and [`SETS_MAX`] does.
pub(super) fn sets(mut groups: Vec<Group>, parts: &[SetPart], at_most: i64) -> i64 {
    let at_most = at_most.min(SETS_MAX);
    let whole = |groups: &mut Vec<Group>| {
        parts.iter().enumerate().all(|(at, part)| place(groups, at, &part.template, part.replicas) == part.replicas)
    };
    (0..at_most).find(|_| !whole(&mut groups)).unwrap_or(at_most)
}

/// Places pods of one template on the nodes that admit it, first fit. Returns how many fit.
fn place(groups: &mut Vec<Group>, at: usize, template: &PodTemplate, pods: i64) -> i64 {
    let mut rest = pods;
    let mut after: Vec<Group> = Vec::with_capacity(groups.len() + 2);
    for group in std::mem::take(groups) {
        let each = per_node(&group.left, group.pods, &template.request);
        if rest <= 0 || each == 0 || !group.admits[at] {
            join(&mut after, group);
            continue;
        }
        let full = (rest / each).min(group.count);
        rest -= full * each;
        let part = if full < group.count { rest } else { 0 };
        rest -= part;
        let one = i64::from(part > 0);
        for (count, pods) in [(full, each), (one, part), (group.count - full - one, 0)] {
            if count > 0 {
                let mut changed = Group { count, pods: group.pods - pods, ..group.clone() };
                take(&mut changed.left, &template.request, pods);
                join(&mut after, changed);
            }
        }
    }
    *groups = after;
    pods - rest.max(0)
}

/// Appends a group; joins it with the last one if the nodes are equal.
pub(super) fn join(groups: &mut Vec<Group>, next: Group) {
    match groups.last_mut() {
        Some(last) if last.left == next.left && last.pods == next.pods && last.admits == next.admits => {
            last.count += next.count;
        }
        _ => groups.push(next),
    }
}
