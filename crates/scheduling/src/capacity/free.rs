//! Free capacity of a cluster by its own summary: the general estimator (specification/scheduling.md 10.2, 10.3).

use ironclad_api::cluster::Cluster;
use ironclad_fleet::gates::{Gate, Gates};

use super::{
    demand::{self, Demand, Part, Units, units},
    models::{Bound, Nodes},
};

/// Resource that counts pods.
pub(super) const PODS: &str = "pods";

/// Use of resource models: gate `CustomizedClusterResourceModeling`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Modelling {
    /// Models and summary limit the estimate.
    #[default]
    On,
    /// The summary alone limits the estimate.
    Off,
    /// Each node counts with the most that its grade allows, and pods that wait for a node take nothing, so that what
    /// does not fit certainly does not start. For those who explain; no scheduler estimates by it.
    Most,
}

impl Modelling {
    /// Use of models with these gates.
    #[must_use]
    pub fn of(gates: &Gates) -> Self {
        if gates.enabled(Gate::CustomizedClusterResourceModeling) { Self::On } else { Self::Off }
    }
}

/// Free resources of a cluster, read once per change of its status. A cluster without a summary has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FreeCapacity {
    /// True if the cluster reports a summary.
    has_summary: bool,
    pods: i64,
    /// By resource of the allocatable list; negative where requests exceed it.
    free: Units,
    /// The allocatable list.
    allocatable: Units,
    nodes: Option<Nodes>,
}

/// Replicas assumed for workloads that no summary shows yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Assumed {
    pub(super) pods: i64,
    /// Total request.
    pub(super) amounts: Units,
}

impl Assumed {
    /// Adds replicas or sets of these parts.
    pub(super) fn add(&mut self, parts: &[Part], count: i64) {
        self.pods = self.pods.saturating_add(demand::pods(parts).saturating_mul(count));
        for (resource, amount) in demand::total(parts) {
            let all = self.amounts.entry(resource).or_default();
            *all = all.saturating_add(amount.saturating_mul(count));
        }
    }
}

impl FreeCapacity {
    /// Reads a cluster's status.
    #[must_use]
    pub(super) fn of(cluster: &Cluster, modelling: Modelling) -> Self {
        let Some(summary) = cluster.status.as_ref().and_then(|status| status.resource_summary.as_ref()) else {
            return Self::default();
        };
        let allocatable = units(&summary.allocatable);
        let mut free = allocatable.clone();
        let waiting = if modelling == Modelling::Most { Units::default() } else { units(&summary.allocating) };
        for taken in [units(&summary.allocated), waiting] {
            for (resource, amount) in &mut free {
                *amount = amount.saturating_sub(taken.get(resource).copied().unwrap_or(0));
            }
        }
        let nodes = match modelling {
            Modelling::On => Nodes::new(&cluster.spec.resource_models, &summary.allocatable_modelings, Bound::Least),
            Modelling::Most => Nodes::new(&cluster.spec.resource_models, &summary.allocatable_modelings, Bound::Most),
            Modelling::Off => None,
        };
        Self { has_summary: true, pods: free.get(PODS).copied().unwrap_or(0), free, allocatable, nodes }
    }

    /// Returns whether the cluster reports a summary.
    pub(super) fn has_summary(&self) -> bool {
        self.has_summary
    }

    /// Free amount of a resource less the taken one; negative where requests exceed what is allocatable.
    pub(super) fn left(&self, resource: &str, taken: &Assumed) -> i64 {
        let (free, taken) = if resource == PODS {
            (self.pods, taken.pods)
        } else {
            let taken = taken.amounts.get(resource).copied().unwrap_or(0);
            (self.free.get(resource).copied().unwrap_or(0), taken)
        };
        free.saturating_sub(taken)
    }

    /// Allocatable amount of a resource.
    pub(super) fn allocatable(&self, resource: &str) -> i64 {
        self.allocatable.get(resource).copied().unwrap_or(0)
    }

    /// The resources that the cluster offers.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        self.allocatable.keys()
    }

    /// Nodes counted by the cluster's models.
    pub(super) fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref()
    }

    /// Returns whether a workload that did not fit before may fit now: more of any resource, or other nodes.
    #[must_use]
    pub(super) fn has_grown_since(&self, before: &Self) -> bool {
        let more = |(resource, amount): (&str, &i64)| *amount > before.free.get(resource).copied().unwrap_or(0);
        self.pods > before.pods || self.free.iter().any(more) || self.nodes != before.nodes
    }

    /// Number of replicas or sets that fit beside the assumed ones; `nodes` are the models' nodes with the assumed
    /// pods.
    #[must_use]
    pub(super) fn fits(&self, demand: &Demand, assumed: &Assumed, nodes: Option<&Nodes>) -> i64 {
        let pods = self.pods.saturating_sub(assumed.pods).max(0);
        if pods == 0 {
            return 0;
        }
        match demand {
            Demand::Pod => pods,
            Demand::Replica(request) => {
                let bound = self.by_summary(request, assumed).map_or(pods, |bound| bound.min(pods));
                nodes.map_or(bound, |nodes| nodes.replicas(request).min(bound))
            }
            Demand::Set(parts) => self.sets(parts, pods, assumed, nodes),
        }
    }

    fn sets(&self, parts: &[Part], pods: i64, assumed: &Assumed, nodes: Option<&Nodes>) -> i64 {
        let in_set = demand::pods(parts);
        if in_set == 0 {
            return pods;
        }
        let bound = pods / in_set;
        let bound = self.by_summary(&demand::total(parts), assumed).map_or(bound, |sets| sets.min(bound));
        nodes.map_or(bound, |nodes| nodes.sets(parts, bound))
    }

    /// Number of requests that the free amounts satisfy; `None` if nothing is requested.
    fn by_summary(&self, request: &Units, assumed: &Assumed) -> Option<i64> {
        let often = |(resource, amount): (&str, &i64)| {
            let taken = assumed.amounts.get(resource).copied().unwrap_or(0);
            let free = self.free.get(resource).copied().unwrap_or(0).saturating_sub(taken);
            free.max(0) / amount
        };
        request.iter().filter(|(_, amount)| **amount > 0).map(often).min()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::cluster;

    fn free(summary: &Value, models: &Value) -> FreeCapacity {
        let mut cluster = cluster("m1");
        cluster.status.as_mut().unwrap().resource_summary = serde_json::from_value(summary.clone()).unwrap();
        cluster.spec.resource_models = serde_json::from_value(models.clone()).unwrap();
        FreeCapacity::of(&cluster, Modelling::On)
    }

    fn list(rows: &[(&str, &str)]) -> Units {
        let list: Value =
            rows.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect::<serde_json::Map<_, _>>().into();
        units(&serde_json::from_value(list).unwrap())
    }

    fn fits(free: &FreeCapacity, demand: &Demand) -> i64 {
        free.fits(demand, &Assumed::default(), free.nodes())
    }

    #[test]
    fn replicas_by_the_summary() {
        let replica = |rows: &[(&str, &str)]| Demand::Replica(list(rows));
        for (name, summary, demand, want) in [
            (
                "the scarcest resource decides",
                json!({"allocatable": {"cpu": "10", "memory": "20Gi", "pods": "110"},
                       "allocated": {"cpu": "4", "memory": "4Gi", "pods": "10"}, "allocating": {"cpu": "1", "pods": "2"}}),
                replica(&[("cpu", "500m"), ("memory", "1Gi")]),
                10,
            ),
            (
                "no pod left",
                json!({"allocatable": {"cpu": "9", "pods": "5"}, "allocated": {"pods": "5"}}),
                replica(&[("cpu", "1")]),
                0,
            ),
            (
                "a resource that the cluster lacks",
                json!({"allocatable": {"cpu": "10", "pods": "110"}}),
                replica(&[("nvidia.com/gpu", "1")]),
                0,
            ),
            ("best effort", json!({"allocatable": {"pods": "20"}, "allocated": {"pods": "3"}}), Demand::Pod, 17),
            ("an empty request", json!({"allocatable": {"pods": "20"}}), replica(&[]), 20),
            ("a request of zero", json!({"allocatable": {"pods": "20"}}), replica(&[("nvidia.com/gpu", "0")]), 20),
            ("no summary", json!(null), Demand::Pod, 0),
            (
                "more assumed than allocatable",
                json!({"allocatable": {"cpu": "1", "pods": "9"}, "allocated": {"cpu": "2"}}),
                replica(&[("cpu", "1")]),
                0,
            ),
            (
                "negative number of pods",
                json!({"allocatable": {"pods": "3"}, "allocated": {"pods": "2"}, "allocating": {"pods": "2"}}),
                Demand::Pod,
                0,
            ),
            ("cpu in thousandths", json!({"allocatable": {"cpu": "1", "pods": "99"}}), replica(&[("cpu", "333m")]), 3),
            (
                "decimal against binary",
                json!({"allocatable": {"memory": "1Gi", "pods": "99"}}),
                replica(&[("memory", "100M")]),
                10,
            ),
            (
                "an unreadable quantity",
                json!({"allocatable": {"cpu": "many", "pods": "9"}}),
                replica(&[("cpu", "1")]),
                0,
            ),
        ] {
            assert_eq!(fits(&free(&summary, &json!([])), &demand), want, "{name}");
        }
    }

    #[test]
    fn models_and_summary_both_bound_the_answer() {
        let models = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]}]);
        let summary = |cpu: &str, pods: &str, count: i64| json!({"allocatable": {"cpu": cpu, "pods": pods}, "allocatableModelings": [{"grade": 0, "count": count}]});
        let asked = Demand::Replica(list(&[("cpu", "1")]));
        for (name, summary, want) in [
            ("models count small nodes", summary("100", "110", 3), 6),
            ("the summary reports less in total", summary("5", "110", 3), 5),
            ("pods bound both", summary("100", "4", 3), 4),
            ("negative count: the summary alone", summary("9", "110", -1), 9),
        ] {
            assert_eq!(fits(&free(&summary, &models), &asked), want, "{name}");
        }
        let mut off = cluster("m1");
        off.status.as_mut().unwrap().resource_summary = serde_json::from_value(summary("9", "110", 1)).unwrap();
        off.spec.resource_models = serde_json::from_value(models).unwrap();
        assert_eq!(fits(&FreeCapacity::of(&off, Modelling::Off), &asked), 9, "the gate is off");
    }

    #[test]
    fn sets_by_the_summary() {
        let set = |rows: &[(i64, &[(&str, &str)])]| {
            Demand::Set(rows.iter().map(|(replicas, rows)| Part { replicas: *replicas, request: list(rows) }).collect())
        };
        let job = set(&[(1, &[("cpu", "1"), ("memory", "1Gi")]), (4, &[("cpu", "500m"), ("memory", "2Gi")])]);
        let of = |cpu: &str, memory: &str, pods: &str| {
            free(&json!({"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}), &json!([]))
        };
        for (name, free, demand, want) in [
            ("cpu: 3 a set", of("10", "100Gi", "110"), &job, 3),
            ("memory: 9Gi a set", of("99", "20Gi", "110"), &job, 2),
            ("pods: 5 a set", of("99", "999Gi", "14"), &job, 2),
            ("nothing free", of("0", "999Gi", "110"), &job, 0),
            ("memory of any format is in bytes", of("99", "20000000Ki", "110"), &job, 2),
            ("a set without pods", of("1", "1Gi", "7"), &set(&[(0, &[("cpu", "1")])]), 7),
            ("sums that leave 64 bits", of("10", "8Ei", "110"), &set(&[(i64::MAX, &[("memory", "8Ei")])]), 0),
        ] {
            assert_eq!(fits(&free, demand), want, "{name}");
        }
        let models = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]}]);
        let small = json!({"allocatable": {"cpu": "9", "memory": "99Gi", "pods": "110"}, "allocatableModelings": [{"grade": 0, "count": 2}]});
        assert_eq!(fits(&free(&small, &models), &job), 1, "three sets fit by the sum, one by the nodes");
    }

    #[test]
    fn free_capacity_grows_with_any_resource() {
        let of = |cpu: &str, pods: &str| free(&json!({"allocatable": {"cpu": cpu, "pods": pods}}), &json!([]));
        for (name, before, after, want) in [
            ("nothing changed", of("4", "9"), of("4", "9"), false),
            ("more of a resource", of("4", "9"), of("4001m", "9"), true),
            ("more pods", of("4", "9"), of("4", "10"), true),
            ("less of one, more of the other", of("4", "9"), of("3", "10"), true),
            ("less", of("4", "9"), of("3", "8"), false),
            ("the first summary", free(&json!(null), &json!([])), of("1", "1"), true),
            ("no summary any more", of("1", "1"), free(&json!(null), &json!([])), false),
        ] {
            assert_eq!(after.has_grown_since(&before), want, "{name}");
        }
    }
}
