//! Other outcomes of applying a file: the order in which the scheduler takes workloads that compete for the same
//! clusters is not known before, nor is how fast the controllers are beside whoever applies the objects, and what waits
//! may be placed once copies that go have freed their capacity.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use ironclad_api::{
    ResourceList,
    cluster::Cluster,
    quantity::Amount,
    work::{ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{ClusterName, ObjectKey, count::count};
use ironclad_propagation::quota::usage::{self, Amounts};
use ironclad_scheduling::estimator::Workload;
use serde::Serialize;

use super::{CopyChange, Detected, Followed, Question, Seeing, TemplateChange, change, is_cluster};

/// Most competing workloads whose orders are all tried; of more, each is tried as the first and as the last.
const PERMUTED_MAX: usize = 4;
/// Most orders that are tried, and most schedules of all of them together.
const ORDERS_MAX: usize = 40;
const SCHEDULES_MAX: usize = 800;

/// Course of events that the planned outcome does not assume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Course {
    /// True if the controllers see all objects of the file before they act on the first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seen_at_once: bool,
    /// True if the scheduler has followed the changed clusters before it sees the rest of the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clusters_first: bool,
    /// The order of scheduling, if another one than the planned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<ObjectKey>,
    /// True if it is about the time after the copies that go have freed their capacity.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub freed: bool,
}

/// Another outcome for a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// The course of events that leads to it.
    #[serde(flatten)]
    pub course: Course,
    /// The copies then.
    pub copies: BTreeMap<ClusterName, CopyChange>,
}

impl Alternative {
    /// Clusters and replicas then.
    fn outcome(copies: &BTreeMap<ClusterName, CopyChange>) -> Vec<(&ClusterName, i32)> {
        copies.iter().filter_map(|(cluster, copy)| Some((cluster, copy.after?))).collect()
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.seen_at_once {
            parts.push("if the controllers see all objects of the file before they act on the first".to_owned());
        }
        if self.clusters_first {
            parts.push("if the scheduler follows the changed clusters before it sees the rest of the file".to_owned());
        }
        match self.order.as_slice() {
            [] => {}
            [first, .., last] if self.order.len() > PERMUTED_MAX => parts.push(format!(
                "if the scheduler takes {} first and {} last of {}",
                first.name,
                last.name,
                count(self.order.len(), "competing workload")
            )),
            order => {
                let names: Vec<&str> = order.iter().map(|key| &*key.name).collect();
                parts.push(format!("if the scheduler takes {}", names.join(" before ")));
            }
        }
        if self.freed {
            parts.push("once the copies that go have freed their capacity".to_owned());
        }
        f.write_str(&parts.join(", and "))
    }
}

/// Adds the other outcomes to the changes of the planned one. Returns the clusters, too, whose nodes decide on any of
/// them, and that were not asked for them.
pub(super) fn add(
    question: &Question<'_>,
    detected: &Detected<'_>,
    planned: Followed<'_>,
) -> (BTreeMap<ObjectKey, TemplateChange>, BTreeSet<ClusterName>) {
    let (mut changes, mut unasked) = (planned.changes.clone(), BTreeSet::new());
    let mut take = |mut followed: Followed<'_>, course: &Course| {
        unasked.append(&mut followed.unasked);
        let freed = freed(question, &mut followed);
        merge(&mut changes, followed.changes, course);
        merge(&mut changes, freed, &Course { freed: true, ..course.clone() });
    };
    let orders_of_planned = orders(&planned.competing);
    take(planned, &Course::default());
    for order in orders_of_planned {
        take(detected.followed(question, &order), &Course { order, ..Course::default() });
    }
    let at_once = Detected::of(question, Seeing::AtOnce);
    let mut others = Vec::new();
    if at_once.claims() != detected.claims() {
        others.push((at_once, Course { seen_at_once: true, ..Course::default() }));
    }
    let clusters = question.applied.iter().filter(|object| is_cluster(object)).count();
    if 0 < clusters && clusters < question.applied.len() {
        let course = Course { clusters_first: true, ..Course::default() };
        others.push((Detected::of(question, Seeing::ClustersFirst), course));
    }
    for (detected, course) in others {
        let followed = detected.followed(question, &detected.order());
        let orders = orders(&followed.competing);
        take(followed, &course);
        for order in orders {
            take(detected.followed(question, &order), &Course { order, ..course.clone() });
        }
    }
    (changes, unasked)
}

/// Schedules those that wait again, once the copies that go have freed their capacity. Returns their changes.
fn freed(question: &Question<'_>, followed: &mut Followed<'_>) -> BTreeMap<ObjectKey, TemplateChange> {
    let waits = |change: &TemplateChange| change.scheduling.as_ref().is_some_and(|one| one.failure.is_some());
    let waiting: Vec<ObjectKey> =
        followed.changes.iter().filter(|(_, change)| waits(change)).map(|(key, _)| key.clone()).collect();
    if waiting.is_empty() {
        return BTreeMap::new();
    }
    let mut freed: BTreeMap<&ClusterName, ResourceList> = BTreeMap::new();
    let mut gone = Vec::new();
    for (key, change) in &followed.changes {
        let Some(binding) = question.before.world.binding_of(key) else { continue };
        for (cluster, copy) in &change.copies {
            let fewer = i64::from(copy.before.unwrap_or(0)) - i64::from(copy.after.unwrap_or(0));
            if fewer > 0 {
                let taken = ResourceBindingSpec {
                    clusters: vec![TargetCluster {
                        replicas: i32::try_from(fewer).unwrap_or(i32::MAX),
                        ..TargetCluster::default()
                    }],
                    ..binding.spec().clone()
                };
                gone.push((cluster, Workload::from(&taken.resource), fewer));
                // An amount that can't be read frees nothing that is known.
                add_amounts(freed.entry(cluster).or_default(), usage::of_binding(&taken).unwrap_or_default());
            }
        }
    }
    if freed.is_empty() {
        return BTreeMap::new();
    }
    for (cluster, amounts) in freed {
        followed.replay.change_cluster(cluster, |cluster| free(cluster, amounts));
    }
    for (cluster, workload, pods) in gone {
        followed.replay.forget_pods(cluster, workload, pods);
    }
    let again = |key: &ObjectKey| {
        let placement = followed.replay.template(key);
        let change = change(question, &followed.replay.fleet, key, Vec::new(), placement.scheduling);
        (key.clone(), change)
    };
    waiting.iter().map(again).collect()
}

fn add_amounts(sum: &mut ResourceList, more: Amounts) {
    for (resource, amount) in more {
        let before = sum.get(&resource).and_then(|quantity| Amount::try_from(quantity).ok());
        sum.insert(resource, (before.unwrap_or(Amount::ZERO) + amount).into());
    }
}

/// Frees these amounts in a cluster, pods that wait for a node first. On which nodes is not known, so resource models
/// are left out.
fn free(cluster: &mut Cluster, amounts: ResourceList) {
    cluster.spec.resource_models.clear();
    let Some(summary) = cluster.status.as_mut().and_then(|status| status.resource_summary.as_mut()) else { return };
    for (resource, amount) in &amounts {
        let Ok(amount) = Amount::try_from(amount) else { continue };
        let left = take(&mut summary.allocating, resource, amount);
        take(&mut summary.allocated, resource, left);
    }
}

/// Takes an amount of a resource out of a list. Returns the part that is not there.
fn take(list: &mut ResourceList, resource: &str, amount: Amount) -> Amount {
    let Some(present) = list.get_mut(resource) else { return amount };
    let Ok(before) = Amount::try_from(&*present) else { return amount };
    let taken = before.min(amount);
    *present = (before + taken * -1).into();
    amount + taken * -1
}

/// Takes in the outcomes that are not known yet.
fn merge(
    changes: &mut BTreeMap<ObjectKey, TemplateChange>,
    others: BTreeMap<ObjectKey, TemplateChange>,
    course: &Course,
) {
    for (key, other) in others {
        let known = changes.entry(key).or_insert_with(|| unchanged(&other));
        let alternatives = known.alternatives.iter().map(|one| &one.copies);
        let mut outcomes = std::iter::once(&known.copies).chain(alternatives).map(Alternative::outcome);
        let outcome = Alternative::outcome(&other.copies);
        if outcomes.all(|known| known != outcome) {
            known.alternatives.push(Alternative { course: course.clone(), copies: other.copies });
        }
    }
}

/// The template as it is, where only another outcome changes it.
fn unchanged(other: &TemplateChange) -> TemplateChange {
    let present = other.copies.iter().filter_map(|(cluster, copy)| Some((cluster.clone(), copy.before?)));
    let stays = |before| CopyChange { before: Some(before), after: Some(before), ..CopyChange::default() };
    TemplateChange {
        because: Vec::new(),
        copies: present.map(|(cluster, before)| (cluster, stays(before))).collect(),
        scheduling: None,
        ..other.clone()
    }
}

/// Orders of these workloads other than the given one.
fn orders(keys: &[ObjectKey]) -> Vec<Vec<ObjectKey>> {
    let mut found = Vec::new();
    if keys.len() <= PERMUTED_MAX {
        permutations(&mut Vec::new(), keys, &mut found);
    } else {
        let at_most = (SCHEDULES_MAX / keys.len()).clamp(1, ORDERS_MAX);
        let others = |key: &ObjectKey| keys.iter().filter(|one| *one != key).cloned().collect::<Vec<_>>();
        found.push(keys.iter().rev().cloned().collect());
        for key in keys.iter().rev().take(at_most / 2) {
            found.push([vec![key.clone()], others(key)].concat());
            found.push([others(key), vec![key.clone()]].concat());
        }
        found.truncate(at_most);
    }
    found.retain(|order| order != keys);
    found
}

fn permutations(taken: &mut Vec<ObjectKey>, keys: &[ObjectKey], found: &mut Vec<Vec<ObjectKey>>) {
    if taken.len() == keys.len() {
        found.push(taken.clone());
        return;
    }
    for key in keys {
        if !taken.contains(key) {
            taken.push(key.clone());
            permutations(taken, keys, found);
            taken.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Copies that go are taken out where the cluster counts them: among pods that wait for a node, or among those that
    /// have one.
    #[test]
    fn copies_that_go_free_reported_amounts() {
        for (name, allocating, allocated, freed, want) in [
            ("all pods have a node", json!({}), json!({"cpu": "6"}), "4", (json!({}), json!({"cpu": "2"}))),
            ("none has", json!({"cpu": "4"}), json!({}), "4", (json!({"cpu": "0"}), json!({}))),
            ("some have", json!({"cpu": "1"}), json!({"cpu": "6"}), "4", (json!({"cpu": "0"}), json!({"cpu": "3"}))),
            ("more than is reported", json!({}), json!({"cpu": "1"}), "4", (json!({}), json!({"cpu": "0"}))),
            ("not reported", json!({}), json!({"pods": "1"}), "4", (json!({}), json!({"pods": "1"}))),
        ] {
            let mut cluster: Cluster = serde_json::from_value(json!({
                "metadata": {"name": "m1"},
                "spec": {"syncMode": "Push"},
                "status": {"resourceSummary": {"allocating": allocating, "allocated": allocated}},
            }))
            .unwrap();
            free(&mut cluster, serde_json::from_value(json!({"cpu": freed})).unwrap());
            let summary = cluster.status.and_then(|status| status.resource_summary).unwrap();
            assert_eq!((json!(summary.allocating), json!(summary.allocated)), want, "{name}");
        }
    }
}
