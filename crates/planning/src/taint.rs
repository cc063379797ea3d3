//! Preview of taints: the bindings that they evict from a cluster, and when (specification/failover.md 9.1).

use std::collections::BTreeSet;

use ironclad_api::Taint;
use ironclad_failover::{
    Flags,
    taint_manager::{
        pre_scheduling_check::{Snapshot, has_target},
        verdict::{FailoverSettings, Verdict, judge},
    },
};
use ironclad_fleet::{Binding, ClusterName, Clusters};
use jiff::Timestamp;

use ironclad_fleet::count::count;

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
    /// All clusters.
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

    /// Counts a binding by the decision of the taint manager and the pre-scheduling check.
    pub fn count(&mut self, cluster: &str, binding: &Binding, taints: &[Taint], fleet: &Fleet<'_>) {
        if binding.spec().target(cluster).is_none() {
            return;
        }
        let (flags, now) = (fleet.flags, fleet.now);
        let verdict = FailoverSettings::of(binding).map(|settings| judge(&settings, taints, |_| now, &flags.eviction));
        // What can't be read is not evicted (IR-9).
        let Ok(Verdict::Goes { causes, .. }) = verdict else {
            self.stay += 1;
            return;
        };
        let left_out = BTreeSet::from([ClusterName::from(cluster)]);
        let snapshot = Snapshot { clusters: fleet.clusters, scheduler: &flags.scheduler, peers: None, now };
        if has_target(binding, &left_out, &snapshot, flags.eviction.pre_scheduling_check).is_err() {
            self.parked += 1;
        } else if causes.due() <= now {
            self.at_once += 1;
        } else {
            self.later += 1;
            self.last = self.last.max(Some(causes.due()));
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
        work::{ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster},
    };

    use super::*;
    use crate::testkit::world_of;

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
        let fleet = |text: &str| {
            world_of(&text.replace("READY", "{apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: \"True\", reason: ClusterReady, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}")).clusters
        };
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
            let mut impact = Impact::default();
            let fleet = Fleet { clusters, flags: &flags, now };
            all.iter().for_each(|binding| impact.count("m1", binding, &taints, &fleet));
            impact
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
}
