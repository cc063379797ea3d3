//! Workloads that come to a cluster once they are scheduled anew, as after its recovery (specification/operations.md
//! 2.20).

use std::collections::BTreeSet;

use ironclad_fleet::{BindingKey, ClusterName};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    Fleet,
    schedule::{State, schedule, unasked},
    world::patched_binding,
};

/// The answer of [`coming_to`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coming {
    pub bindings: BTreeSet<BindingKey>,
    /// Clusters whose nodes decide, and that were not asked for them.
    pub unasked: BTreeSet<ClusterName>,
}

/// Those of these bindings that have nothing in a cluster now, and to which the scheduler would give something there in
/// a fresh scheduling. Each is asked about by itself.
#[must_use]
pub fn coming_to<'k>(
    fleet: &Fleet,
    keys: impl IntoIterator<Item = &'k BindingKey>,
    cluster: &ClusterName,
    now: Timestamp,
) -> Coming {
    let (mut state, mut coming) = (State::of_fleet(fleet, now), Coming::default());
    let options = &fleet.settings.scheduler;
    for key in keys {
        let is_there = |name: &str| *name == *cluster.0;
        let Some(binding) = fleet.world.binding(key) else { continue };
        if binding.spec().clusters.iter().any(|target| is_there(&target.name)) {
            continue;
        }
        let anew = patched_binding(&binding, &json!({"spec": {"rescheduleTriggeredAt": now}}));
        state.ask(anew.view(), options);
        let found = schedule(&anew, &fleet.world.clusters, &state, options, now);
        coming.unasked.extend(unasked(fleet, anew.view(), &found));
        if found.failure.is_none() && found.result.iter().any(|target| is_there(&target.name)) {
            coming.bindings.insert(key.clone());
        }
    }
    coming
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::world_of;

    const FLEET: &str = "
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {syncMode: Push}
status:
  apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
  conditions: [{type: Ready, status: 'True', reason: ClusterReady, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {syncMode: Push}
status:
  apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
  conditions: [{type: Ready, status: 'True', reason: ClusterReady, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]
";

    const POLICY: &str = ironclad_api::labels::PROPAGATION_POLICY_PERMANENT_ID;

    fn binding(name: &str, affinity: &str, clusters: &str, more: &str) -> String {
        format!(
            "
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {{name: {name}-deployment, namespace: shop, uid: {name}, generation: 1, labels: {{{POLICY}: p}}}}
spec:
  resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: {name}}}
  replicas: 4
  placement:
    clusterAffinity: {{clusterNames: [{affinity}]}}
    replicaScheduling: {{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}
  clusters: [{clusters}]
  {more}
status: {{lastScheduledTime: '2026-01-01T00:00:00Z', schedulerObservedGeneration: 1}}"
        )
    }

    #[test]
    fn workloads_that_a_fresh_scheduling_places_there() {
        let everything = "{name: m1, replicas: 4}";
        let world = world_of(
            &[
                FLEET.to_owned(),
                binding("left", "m1, m2", everything, ""),
                binding("there", "m1, m2", "{name: m1, replicas: 2}, {name: m2, replicas: 2}", ""),
                binding("elsewhere", "m1", everything, ""),
                binding("suspended", "m1, m2", everything, "suspension: {scheduling: true}"),
            ]
            .concat(),
        );
        let keys: Vec<BindingKey> = world.bindings.keys().cloned().collect();
        assert_eq!(keys.len(), 4);
        let fleet = Fleet { world, ..Fleet::default() };
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let names = |cluster: &str| -> Vec<String> {
            let coming = coming_to(&fleet, &keys, &cluster.into(), now);
            coming.bindings.iter().map(|key| key.name.to_string()).collect()
        };
        assert_eq!(names("m2"), ["left-deployment"]);
        assert_eq!(names("m1"), [""; 0]);
        assert_eq!(names("m9"), [""; 0], "there is no such cluster");
    }
}
