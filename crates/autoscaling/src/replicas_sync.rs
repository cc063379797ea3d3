//! Replicas of a Deployment whose members decide them, copied to the template (specification/autoscaling.md 5), so that
//! the scheduler divides what really runs.

use std::collections::BTreeSet;

use ironclad_api::{
    labels,
    policy::ReplicaSchedulingType,
    work::{AggregatedStatusItem, ResourceBinding},
};
use serde_json::Value;

/// Change of the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// None.
    Nothing,
    /// Its status is not complete or not recent: look again soon.
    Wait,
    /// Set its replicas.
    Set(i64),
}

/// Decides over a Deployment with its binding. `is_distributed` is true if an autoscaler of the distributed design
/// scales it: a write of replicas would look like a user's.
#[must_use]
pub fn decide(template: &Value, binding: Option<&ResourceBinding>, is_distributed: bool) -> Action {
    let number = |pointer: &str| template.pointer(pointer).and_then(Value::as_i64);
    let is_labelled = template["metadata"]["labels"][labels::RETAIN_REPLICAS] == labels::TRUE;
    let Some(binding) = binding.filter(|_| is_labelled && !is_distributed) else { return Action::Nothing };
    let placement = binding.spec.placement.as_ref();
    // In every other mode the sum of the members is not what the template says.
    if placement.is_none_or(|placement| placement.replica_scheduling_type() != ReplicaSchedulingType::Divided) {
        return Action::Nothing;
    }
    let (wanted, running) = (number("/spec/replicas").unwrap_or(1), number("/status/replicas").unwrap_or(0));
    // Zero would switch the autoscalers of the members off for good.
    if wanted == running || running == 0 {
        return Action::Nothing;
    }
    let status = binding.status.as_ref();
    let is_scheduled = wanted == i64::from(binding.spec.replicas)
        && status.is_some_and(|status| Some(status.scheduler_observed_generation) == binding.metadata.generation);
    let reported = status.map_or(&[][..], |status| &status.aggregated_status);
    let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<BTreeSet<String>>();
    let targets = names(&mut binding.spec.clusters.iter().map(|target| &target.name));
    let is_complete = targets == names(&mut reported.iter().map(|item| &item.cluster_name));
    let generation = number("/metadata/generation").unwrap_or(0);
    let replicas = reported.iter().map(|item| recent_replicas(item, generation));
    let sum: Option<i64> = replicas.sum();
    if is_scheduled && is_complete && sum == Some(running) { Action::Set(running) } else { Action::Wait }
}

/// Returns the replicas that a member reported, unless it has not seen the latest template.
fn recent_replicas(item: &AggregatedStatusItem, generation: i64) -> Option<i64> {
    let status = item.status.as_ref()?.value();
    let of = |field: &str| status.get(field).and_then(Value::as_i64);
    let is_recent = of("observedGeneration").unwrap_or(0) >= of("generation").unwrap_or(0)
        && of("resourceTemplateGeneration").unwrap_or(0) >= generation;
    is_recent.then(|| of("replicas").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(label: &str, wanted: i64, running: i64) -> Value {
        json!({
            "metadata": {"name": "web", "generation": 3, "labels": {labels::RETAIN_REPLICAS: label}},
            "spec": {"replicas": wanted}, "status": {"replicas": running},
        })
    }

    fn item(cluster: &str, replicas: i64, template_generation: i64) -> Value {
        json!({"clusterName": cluster, "status": {"replicas": replicas, "generation": 2, "observedGeneration": 2,
            "resourceTemplateGeneration": template_generation}})
    }

    fn binding(type_: &str, replicas: i64, generation: i64, items: &[Value]) -> ResourceBinding {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "n", "generation": generation},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "web"},
                "replicas": replicas, "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
                "placement": {"replicaScheduling": {"replicaSchedulingType": type_}},
            },
            "status": {"schedulerObservedGeneration": 4, "aggregatedStatus": items},
        }))
        .unwrap()
    }

    #[test]
    fn what_members_run_is_copied_once_all_have_reported() {
        let both = [item("m1", 5, 3), item("m2", 2, 3)];
        let divided = || binding("Divided", 4, 4, &both);
        for (name, template, binding, is_distributed, want) in [
            ("members run more", template("true", 4, 7), divided(), false, Action::Set(7)),
            ("they run as many", template("true", 7, 7), divided(), false, Action::Nothing),
            ("the label has another value", template("yes", 4, 7), divided(), false, Action::Nothing),
            ("duplicated", template("true", 4, 7), binding("Duplicated", 4, 4, &both), false, Action::Nothing),
            ("of the distributed design", template("true", 4, 7), divided(), true, Action::Nothing),
            ("the binding has another number", template("true", 5, 7), divided(), false, Action::Wait),
            (
                "the scheduler has not seen it",
                template("true", 4, 7),
                binding("Divided", 4, 5, &both),
                false,
                Action::Wait,
            ),
            (
                "a member has not reported",
                template("true", 4, 5),
                binding("Divided", 4, 4, &both[..1]),
                false,
                Action::Wait,
            ),
            (
                "a member reported an older template",
                template("true", 4, 7),
                binding("Divided", 4, 4, &[item("m1", 5, 3), item("m2", 2, 2)]),
                false,
                Action::Wait,
            ),
            ("the status is older than the reports", template("true", 4, 6), divided(), false, Action::Wait),
            (
                "one member runs none",
                template("true", 4, 5),
                binding("Divided", 4, 4, &[item("m1", 5, 3), item("m2", 0, 3)]),
                false,
                Action::Set(5),
            ),
            (
                "nothing runs anywhere",
                template("true", 4, 0),
                binding("Divided", 4, 4, &[item("m1", 0, 3), item("m2", 0, 3)]),
                false,
                Action::Nothing,
            ),
        ] {
            assert_eq!(decide(&template, Some(&binding), is_distributed), want, "{name}");
        }
        assert_eq!(decide(&template("true", 4, 7), None, false), Action::Nothing, "no binding");
    }
}
