//! Placement of policies (specification/admission.md 2.3).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    Toleration,
    policy::{
        ClusterAffinityTerm, DynamicWeight, Placement, ReplicaDivisionPreference, ReplicaSchedulingType, SpreadByField,
        SpreadConstraint, WorkloadAffinity,
    },
};
use ironclad_patch::names;
use serde_json::json;

use super::affinity;
use crate::field::{Findings, Path};

/// Validates a placement.
pub(crate) fn placement(placement: &Placement, path: &Path, out: &mut Findings) {
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        out.invalid(path, placement, "clusterAffinities cannot co-exist with clusterAffinity");
    }
    if let Some(affinity) = &placement.cluster_affinity {
        affinity::affinity(affinity, &path.child("clusterAffinity"), out);
    }
    terms(placement, &path.child("clusterAffinities"), out);
    spread(&placement.spread_constraints, &path.child("spreadConstraints"), out);
    unkept_bounds(placement, &path.child("spreadConstraints"), out);
    if let Some(workloads) = &placement.workload_affinity {
        workload_affinity(workloads, &path.child("workloadAffinity"), out);
    }
    tolerations(&placement.cluster_tolerations, &path.child("clusterTolerations"), out);
    weights(placement, &path.child("replicaScheduling"), out);
}

fn terms(placement: &Placement, path: &Path, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (i, term) in placement.cluster_affinities.iter().enumerate() {
        let at = path.index(i);
        affinity::label_key(&at, &term.affinity_name, out);
        if !seen.insert(term.affinity_name.as_str()) {
            out.invalid(path, &term.affinity_name, "each affinity term in a policy must have a unique name");
        }
        affinity::affinity(&term.affinity, &at, out);
        overflow(placement, term, &at.child("overflowAffinities"), out);
    }
}

/// Overflow terms require a replica division by available replicas, and a first term that is limited.
fn overflow(placement: &Placement, term: &ClusterAffinityTerm, path: &Path, out: &mut Findings) {
    if term.overflow_affinities.is_empty() {
        return;
    }
    if !knows_capacity(placement) {
        let detail = "overflowAffinities need replicaSchedulingType Divided with replicaDivisionPreference Aggregated or a \
                      dynamicWeight: only these divide by available replicas";
        out.invalid(path, &term.overflow_affinities, detail);
    }
    if affinity::is_empty(&term.affinity) {
        let detail =
            "the affinity itself must choose clusters: an empty one takes all of them and nothing ever overflows";
        out.invalid(path, &term.overflow_affinities, detail);
    }
    let mut seen = BTreeSet::from([term.affinity_name.as_str()]);
    for (j, tier) in term.overflow_affinities.iter().enumerate() {
        let at = path.index(j);
        let name = at.child("affinityName");
        affinity::label_key(&name, &tier.affinity_name, out);
        if !seen.insert(tier.affinity_name.as_str()) {
            out.invalid(
                &name,
                &tier.affinity_name,
                "must differ from the names of its affinity and of the other tiers",
            );
        }
        affinity::affinity(&tier.affinity, &at, out);
    }
}

fn knows_capacity(placement: &Placement) -> bool {
    let Some(strategy) = &placement.replica_scheduling else { return false };
    let dynamic = strategy.weight_preference.as_ref().and_then(|weights| weights.dynamic_weight);
    placement.replica_scheduling_type() == ReplicaSchedulingType::Divided
        && (strategy.replica_division_preference == Some(ReplicaDivisionPreference::Aggregated)
            || dynamic == Some(DynamicWeight::AvailableReplicas))
}

fn spread(constraints: &[SpreadConstraint], path: &Path, out: &mut Findings) {
    let mut fields: BTreeMap<SpreadByField, usize> = BTreeMap::new();
    for (i, constraint) in constraints.iter().enumerate() {
        let at = path.index(i);
        if constraint.spread_by_field.is_some() && !constraint.spread_by_label.is_empty() {
            out.invalid(&at, constraint, "spreadByLabel should not co-exist with spreadByField");
        } else if !constraint.spread_by_label.is_empty() {
            affinity::label_key(at.child("spreadByLabel"), &constraint.spread_by_label, out);
            if constraints[..i].iter().any(|other| other.spread_by_label == constraint.spread_by_label) {
                let detail =
                    format!("multiple spread constraints by label {} are not allowed", constraint.spread_by_label);
                out.invalid(path, constraints, &detail);
            }
        }
        if constraint.min_groups < 0 {
            out.invalid(&at, constraint, "minGroups lower than 0");
        }
        if constraint.max_groups < 0 {
            out.invalid(&at, constraint, "maxGroups lower than 0");
        }
        if constraint.max_groups > 0 && constraint.max_groups < constraint.min_groups {
            out.invalid(&at, constraint, "maxGroups lower than minGroups");
        }
        if let Some(field) = constraint.spread_by_field {
            let times = fields.entry(field).or_default();
            *times += 1;
            if *times == 2 {
                let name = json!(field);
                let name = name.as_str().unwrap_or_default();
                out.invalid(path, constraints, &format!("multiple {name} spread constraints are not allowed"));
            }
        }
    }
    more_groups_than_clusters(constraints, path, out);
    if !fields.is_empty() && !fields.contains_key(&SpreadByField::Cluster) {
        let detail = "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled";
        out.invalid(path, constraints, detail);
    }
}

/// Warns of a maximum of clusters that the minimum of other groups exceeds.
fn more_groups_than_clusters(constraints: &[SpreadConstraint], path: &Path, out: &mut Findings) {
    let clusters = constraints.iter().find(|constraint| constraint.spread_by_field == Some(SpreadByField::Cluster));
    let Some(most) = clusters.map(|clusters| clusters.max_groups).filter(|most| *most > 0) else { return };
    for constraint in constraints.iter().filter(|constraint| constraint.min_groups > most) {
        let (groups, group) = match constraint.spread_by_field {
            Some(SpreadByField::Region) => ("regions".to_owned(), "region"),
            Some(SpreadByField::Zone) => ("zones".to_owned(), "zone"),
            Some(SpreadByField::Provider) => ("providers".to_owned(), "provider"),
            None if !constraint.spread_by_label.is_empty() => {
                (format!("values of label {}", constraint.spread_by_label), "value")
            }
            Some(SpreadByField::Cluster) | None => continue,
        };
        out.warn(format!(
            "{path}: {} {groups} are asked for and at most {most} clusters: one cluster of each {group} is selected",
            constraint.min_groups
        ));
    }
}

/// Warns of bounds that the scheduler does not keep.
fn unkept_bounds(placement: &Placement, path: &Path, out: &mut Findings) {
    let is_bounded = |constraint: &SpreadConstraint| constraint.min_groups > 1 || constraint.max_groups > 0;
    if !placement.ignores_spread() {
        return;
    }
    for (i, _) in placement.spread_constraints.iter().enumerate().filter(|(_, c)| is_bounded(c)) {
        let at = path.index(i);
        out.warn(format!(
            "{at}: minGroups and maxGroups have no effect with static weights, nor where replicas are divided \
             without weights: every cluster of the weights gets its share"
        ));
    }
}

fn workload_affinity(workloads: &WorkloadAffinity, path: &Path, out: &mut Findings) {
    let key =
        |term: &Option<ironclad_api::policy::WorkloadAffinityTerm>| term.as_ref().map(|t| t.group_by_label_key.clone());
    let (together, apart) = (key(&workloads.affinity), key(&workloads.anti_affinity));
    for (field, key) in [("affinity", &together), ("antiAffinity", &apart)] {
        if let Some(key) = key {
            affinity::label_key(path.child(field).child("groupByLabelKey"), key, out);
        }
    }
    if together.is_some() && together == apart {
        out.invalid(path, workloads, "affinity and antiAffinity must not use the same groupByLabelKey");
    }
}

/// Effects of taints of clusters, and that of nodes, which no cluster has.
const EFFECTS: [&str; 4] = ["NoExecute", "NoSchedule", "PreferNoExecute", "PreferNoSchedule"];

fn tolerations(tolerations: &[Toleration], path: &Path, out: &mut Findings) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = path.index(i);
        let operator = toleration.operator.as_deref().unwrap_or_default();
        let key = toleration.key.as_deref().unwrap_or_default();
        let value = toleration.value.as_deref().unwrap_or_default();
        if !key.is_empty() {
            affinity::label_key(at.child("key"), key, out);
        }
        match operator {
            "Exists" if !value.is_empty() => {
                out.invalid(at.child("operator"), operator, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "" | "Equal" if key.is_empty() => {
                let detail =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                out.invalid(at.child("operator"), operator, detail);
            }
            "" | "Equal" => out.texts(at.child("operator"), value, names::label_value(value)),
            _ => out.not_supported(at.child("operator"), operator, &["", "Exists", "Equal"]),
        }
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            out.not_supported(at.child("effect"), effect, &EFFECTS);
        }
        if ["PreferNoSchedule", "PreferNoExecute"].contains(&effect) {
            out.warn(format!("{at}: no toleration is asked for taints of effect {effect}, so this one has no effect"));
        }
        if effect == "NoSchedule" && toleration.toleration_seconds.is_some() {
            out.warn(format!("{at}: tolerationSeconds has no effect for taints of effect NoSchedule"));
        }
    }
}

/// Validates static weights, which select clusters as affinities do.
fn weights(placement: &Placement, path: &Path, out: &mut Findings) {
    let Some(weights) = placement.replica_scheduling.as_ref().and_then(|s| s.weight_preference.as_ref()) else {
        return;
    };
    let path = path.child("weightPreference");
    for (i, weight) in weights.static_weight_list.iter().enumerate() {
        affinity::affinity(
            &weight.target_cluster,
            &path.child("staticWeightList").index(i).child("targetCluster"),
            out,
        );
    }
    if weights.dynamic_weight.is_some() && !weights.static_weight_list.is_empty() {
        out.warn(format!("{path}: staticWeightList has no effect beside dynamicWeight"));
    }
}
