//! Preview of taints: the bindings that they evict from a cluster, and when (specification/failover.md 9.1).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::Taint;
use ironclad_failover::{
    Flags,
    taint_manager::{
        pre_scheduling_check::{Snapshot, has_target, peers},
        verdict::{FailoverSettings, Verdict, judge},
    },
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, count::count};
use ironclad_scheduling::Peers;
use jiff::Timestamp;

/// Number of bindings that taints evict from one cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Impact {
    /// Bindings that are evicted immediately.
    pub at_once: usize,
    /// Bindings that are evicted later.
    pub later: usize,
    /// Time of the last eviction.
    pub last: Option<Timestamp>,
    /// Bindings that are not evicted.
    pub stay: usize,
    /// Bindings that wait until another cluster can take them.
    pub parked: usize,
}

/// Input of the decision on evictions besides the binding.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    pub clusters: &'a Clusters,
    /// Flags of the leader, or the defaults.
    pub flags: &'a Flags,
    /// Current time.
    pub now: Timestamp,
}

impl Impact {
    /// Number of evicted bindings.
    #[must_use]
    pub fn evicted(&self) -> usize {
        self.at_once + self.later
    }
}

/// Counts bindings that are listed page by page. Members of groups of workloads are kept and counted at the end, since
/// where one can go depends on the others.
#[derive(Debug)]
pub struct Counter<'a> {
    cluster: &'a str,
    taints: &'a [Taint],
    fleet: &'a Fleet<'a>,
    impact: Impact,
    grouped: BTreeMap<BindingKey, Binding>,
}

impl<'a> Counter<'a> {
    /// Counts what this cluster loses with these taints.
    #[must_use]
    pub fn new(cluster: &'a str, taints: &'a [Taint], fleet: &'a Fleet<'a>) -> Self {
        Self { cluster, taints, fleet, impact: Impact::default(), grouped: BTreeMap::new() }
    }

    /// Counts a binding by the decision of the taint manager and the pre-scheduling check.
    pub fn add(&mut self, binding: &Binding) {
        let is_grouped = self.fleet.flags.scheduler.workload_affinity
            && matches!(binding, Binding::Namespaced(_))
            && binding.spec().workload_affinity_groups.is_some();
        if is_grouped {
            self.grouped.insert(binding.key(), binding.clone());
        } else {
            self.count(binding, None);
        }
    }

    /// Numbers of all bindings.
    #[must_use]
    pub fn finish(mut self) -> Impact {
        let grouped = std::mem::take(&mut self.grouped);
        let Some(peers) = peers(&self.fleet.flags.scheduler, grouped.values()) else { return self.impact };
        for (key, binding) in &grouped {
            let due = self.due(binding);
            // Those that leave the cluster no later do not keep this one there.
            let staying = peers.without(key, |other| {
                let leaves = grouped.get(other).is_some_and(|other| {
                    self.due(other).is_some_and(|at| due.is_some_and(|due| at <= due)) && self.has_target(other, None)
                });
                leaves.then(|| self.cluster.into()).into_iter().collect()
            });
            self.count(binding, Some(&staying));
        }
        self.impact
    }

    /// Time at which the taints evict a binding from the cluster; `None` if it stays.
    fn due(&self, binding: &Binding) -> Option<Timestamp> {
        binding.spec().target(self.cluster)?;
        let (flags, now) = (self.fleet.flags, self.fleet.now);
        // What can't be read is not evicted (IR-9).
        let settings = FailoverSettings::of(binding).ok()?;
        match judge(&settings, self.taints, |_| now, &flags.eviction) {
            Verdict::Goes { causes, .. } => Some(causes.due()),
            Verdict::Stays(_) => None,
        }
    }

    fn has_target(&self, binding: &Binding, peers: Option<&Peers>) -> bool {
        let Fleet { clusters, flags, now } = *self.fleet;
        let left_out = BTreeSet::from([ClusterName::from(self.cluster)]);
        let snapshot = Snapshot { clusters, scheduler: &flags.scheduler, peers, now };
        has_target(binding, &left_out, &snapshot, flags.eviction.pre_scheduling_check).is_ok()
    }

    fn count(&mut self, binding: &Binding, peers: Option<&Peers>) {
        if binding.spec().target(self.cluster).is_none() {
            return;
        }
        let Some(due) = self.due(binding) else {
            self.impact.stay += 1;
            return;
        };
        if !self.has_target(binding, peers) {
            self.impact.parked += 1;
        } else if due <= self.fleet.now {
            self.impact.at_once += 1;
        } else {
            self.impact.later += 1;
            self.impact.last = self.impact.last.max(Some(due));
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at_once, later, last, stay, parked } = self;
        write!(f, "{} would be evicted at once, {later} later", count(*at_once, "binding"))?;
        if let Some(last) = last {
            write!(f, " (the last at {last})")?;
        }
        write!(f, ", {stay} would stay")?;
        if *parked > 0 {
            write!(f, ", {parked} would wait until another cluster can take them")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_api::{
        Toleration,
        labels::PROPAGATION_POLICY_PERMANENT_ID,
        policy::{ClusterFailoverBehavior, FailoverBehavior, Placement},
        taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
        work::{ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster, WorkloadAffinityGroups},
    };

    use super::*;
    use crate::testkit::world_of;

    const READY: &str = "{apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: \"True\", reason: ClusterReady, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}";

    #[test]
    fn what_is_evicted_and_when() {
        let now = Timestamp::from_second(1_000).unwrap();
        let binding = |tolerates: Option<i64>, opted_in: bool, on: &str| {
            let toleration = Toleration {
                operator: Some("Exists".into()),
                toleration_seconds: tolerates.filter(|seconds| *seconds >= 0),
                ..Toleration::default()
            };
            let failover = FailoverBehavior { cluster: Some(ClusterFailoverBehavior::default()), ..Default::default() };
            let resource = ObjectReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: "b".into(),
                ..ObjectReference::default()
            };
            let spec = ResourceBindingSpec {
                resource,
                clusters: vec![TargetCluster { name: on.into(), replicas: 1, components: Vec::new() }],
                placement: Some(
                    Placement {
                        cluster_tolerations: tolerates.map(|_| toleration).into_iter().collect(),
                        ..Placement::default()
                    }
                    .into(),
                ),
                failover: opted_in.then_some(failover.into()),
                ..ResourceBindingSpec::default()
            };
            let mut binding = ResourceBinding::new("b", spec);
            binding.metadata.labels = Some([(PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "p".to_owned())].into());
            Binding::from(Arc::new(binding))
        };
        let fleet = |text: &str| world_of(&text.replace("READY", READY)).clusters;
        let both = fleet(
            "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: READY}\n---\n\
             {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3}, spec: {syncMode: Push}, status: READY}",
        );
        let alone = fleet(
            "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: READY}",
        );
        let flags = Flags::default();
        let all = [
            binding(None, false, "m1"),
            binding(Some(60), false, "m1"),
            binding(Some(-1), false, "m1"),
            binding(None, true, "m1"),
            binding(None, false, "m2"),
        ];
        let count_in = |clusters: &Clusters, effect: &str| {
            let taints = [Taint { key: "k".into(), effect: effect.into(), ..Taint::default() }];
            let fleet = Fleet { clusters, flags: &flags, now };
            let mut counter = Counter::new("m1", &taints, &fleet);
            all.iter().for_each(|binding| counter.add(binding));
            counter.finish()
        };
        let count = |effect: &str| count_in(&both, effect);
        for (effect, want) in [
            (
                NO_EXECUTE,
                "2 bindings would be evicted at once, 1 later (the last at 1970-01-01T00:17:40Z), 1 would stay",
            ),
            (
                PREFER_NO_EXECUTE,
                "0 bindings would be evicted at once, 1 later (the last at 1970-01-01T00:21:40Z), 3 would stay",
            ),
            ("NoSchedule", "0 bindings would be evicted at once, 0 later, 4 would stay"),
        ] {
            assert_eq!(count(effect).to_string(), want, "{effect}");
        }
        assert_eq!(count(NO_EXECUTE).evicted(), 3);
        assert_eq!(
            count_in(&alone, NO_EXECUTE).to_string(),
            "0 bindings would be evicted at once, 0 later, 1 would stay, 3 would wait until another cluster can take them"
        );
    }

    /// Two workloads of an affinity group follow each other only if both can leave; of an anti-affinity group, one may
    /// block the only other cluster.
    #[test]
    fn members_of_groups_are_counted_together() {
        let clusters = world_of(&["m1", "m2"].map(|name| {
            format!("{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: {name}}}, spec: {{syncMode: Push}}, status: {READY}}}")
        }).join("\n---\n")).clusters;
        let binding = |name: &str, groups: &WorkloadAffinityGroups, on: &str| {
            let spec = ResourceBindingSpec {
                resource: ObjectReference {
                    api_version: "apps/v1".into(),
                    kind: "Deployment".into(),
                    name: name.into(),
                    ..ObjectReference::default()
                },
                clusters: vec![TargetCluster { name: on.into(), replicas: 1, components: Vec::new() }],
                placement: Some(Placement::default().into()),
                workload_affinity_groups: Some(groups.clone()),
                ..ResourceBindingSpec::default()
            };
            let mut binding = ResourceBinding::new(name, spec);
            binding.metadata.labels = Some([(PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "p".to_owned())].into());
            Binding::from(Arc::new(binding))
        };
        let together = WorkloadAffinityGroups { affinity_group: "g".into(), ..WorkloadAffinityGroups::default() };
        let apart = WorkloadAffinityGroups { anti_affinity_group: "g".into(), ..WorkloadAffinityGroups::default() };
        let taints = [Taint { key: "k".into(), effect: NO_EXECUTE.into(), ..Taint::default() }];
        for (name, on, groups, other_on, want) in [
            ("both leave", true, &together, "m1", (2, 0)),
            ("the gate is off", false, &apart, "m2", (1, 0)),
            ("the other one is in the only other cluster", true, &apart, "m2", (0, 1)),
            ("the other one stays where this one would go", true, &together, "m2", (1, 0)),
        ] {
            let mut flags = Flags::default();
            flags.scheduler.workload_affinity = on;
            let now = Timestamp::from_second(1_000).unwrap();
            let fleet = Fleet { clusters: &clusters, flags: &flags, now };
            let mut counter = Counter::new("m1", &taints, &fleet);
            counter.add(&binding("one", groups, "m1"));
            counter.add(&binding("other", groups, other_on));
            let impact = counter.finish();
            assert_eq!((impact.at_once, impact.parked), want, "{name}");
        }
    }
}
