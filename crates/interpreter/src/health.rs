//! Health of member objects (specification/propagation.md 18).

use serde_json::Value;

use crate::{
    Health,
    kind::Kind,
    lens::{self, ShapeError},
};

pub(crate) fn health(kind: Kind, object: &Value) -> Result<Health, ShapeError> {
    let at = |pointer: &str| lens::integer(object, pointer);
    let count = |pointer: &str| Ok::<_, ShapeError>(at(pointer)?.unwrap_or(0));
    let observed = count("/status/observedGeneration")? == count("/metadata/generation")?;
    let healthy = match kind {
        Kind::Deployment | Kind::StatefulSet => {
            let updated = count("/status/updatedReplicas")?;
            observed
                && at("/spec/replicas")?.is_none_or(|replicas| updated >= replicas)
                && count("/status/availableReplicas")? >= updated
        }
        Kind::ReplicaSet => {
            let available = count("/status/availableReplicas")?;
            observed && at("/spec/replicas")?.is_none_or(|replicas| available >= replicas)
        }
        Kind::DaemonSet => {
            let updated = count("/status/updatedNumberScheduled")?;
            observed
                && updated >= count("/status/desiredNumberScheduled")?
                && count("/status/numberAvailable")? >= updated
        }
        Kind::Service => lens::text(object, "/spec/type") != "LoadBalancer" || has_address(object),
        Kind::Ingress => has_address(object),
        Kind::PersistentVolumeClaim => lens::text(object, "/status/phase") == "Bound",
        Kind::Pod => match lens::text(object, "/status/phase") {
            "Succeeded" => true,
            "Running" => object.get("status").is_some_and(|status| lens::condition(status, "Ready") == "True"),
            _ => false,
        },
        Kind::PodDisruptionBudget => count("/status/currentHealthy")? >= count("/status/desiredHealthy")?,
        _ => true,
    };
    Ok(if healthy { Health::Healthy } else { Health::Unhealthy })
}

fn has_address(object: &Value) -> bool {
    lens::items(object, "/status/loadBalancer/ingress")
        .iter()
        .any(|i| !lens::text(i, "/hostname").is_empty() || !lens::text(i, "/ip").is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Health::{Healthy, Unhealthy};

    #[test]
    fn health_by_kind() {
        let o = |api_version: &str, kind: &str, spec: Value, status: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "generation": 2}, "spec": spec, "status": status});
        let deployment = |spec, status| o("apps/v1", "Deployment", spec, status);
        for (name, object, want) in [
            (
                "all updated and available",
                deployment(
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2}),
                ),
                Healthy,
            ),
            (
                "not observed",
                deployment(
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}),
                ),
                Unhealthy,
            ),
            (
                "not all updated",
                deployment(
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 2}),
                ),
                Unhealthy,
            ),
            (
                "not all available",
                deployment(
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1}),
                ),
                Unhealthy,
            ),
            ("no number wanted", deployment(json!({}), json!({"observedGeneration": 2})), Healthy),
            (
                "no status at all",
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}}),
                Unhealthy,
            ),
            (
                "stateful set",
                o(
                    "apps/v1",
                    "StatefulSet",
                    json!({"replicas": 1}),
                    json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1}),
                ),
                Healthy,
            ),
            (
                "stateful set not available",
                o(
                    "apps/v1",
                    "StatefulSet",
                    json!({"replicas": 1}),
                    json!({"observedGeneration": 2, "updatedReplicas": 1}),
                ),
                Unhealthy,
            ),
            (
                "replica set",
                o(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 1}),
                    json!({"observedGeneration": 2, "availableReplicas": 1}),
                ),
                Healthy,
            ),
            (
                "replica set short",
                o(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "availableReplicas": 1}),
                ),
                Unhealthy,
            ),
            (
                "daemon set",
                o(
                    "apps/v1",
                    "DaemonSet",
                    json!({}),
                    json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}),
                ),
                Healthy,
            ),
            (
                "daemon set updating",
                o(
                    "apps/v1",
                    "DaemonSet",
                    json!({}),
                    json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 3}),
                ),
                Unhealthy,
            ),
            (
                "daemon set not available",
                o(
                    "apps/v1",
                    "DaemonSet",
                    json!({}),
                    json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}),
                ),
                Unhealthy,
            ),
            ("cluster service", o("v1", "Service", json!({"type": "ClusterIP"}), json!({})), Healthy),
            (
                "load balancer without address",
                o("v1", "Service", json!({"type": "LoadBalancer"}), json!({"loadBalancer": {"ingress": [{}]}})),
                Unhealthy,
            ),
            (
                "load balancer with address",
                o(
                    "v1",
                    "Service",
                    json!({"type": "LoadBalancer"}),
                    json!({"loadBalancer": {"ingress": [{}, {"ip": "1.1.1.1"}]}}),
                ),
                Healthy,
            ),
            (
                "ingress with host",
                o(
                    "networking.k8s.io/v1",
                    "Ingress",
                    json!({}),
                    json!({"loadBalancer": {"ingress": [{"hostname": "h"}]}}),
                ),
                Healthy,
            ),
            ("ingress without", o("networking.k8s.io/v1", "Ingress", json!({}), json!({})), Unhealthy),
            ("claim bound", o("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Bound"})), Healthy),
            ("claim pending", o("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"})), Unhealthy),
            ("pod done", o("v1", "Pod", json!({}), json!({"phase": "Succeeded"})), Healthy),
            (
                "pod ready",
                o(
                    "v1",
                    "Pod",
                    json!({}),
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                ),
                Healthy,
            ),
            (
                "pod not ready",
                o(
                    "v1",
                    "Pod",
                    json!({}),
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),
                ),
                Unhealthy,
            ),
            (
                "budget met",
                o("policy/v1", "PodDisruptionBudget", json!({}), json!({"currentHealthy": 2, "desiredHealthy": 2})),
                Healthy,
            ),
            (
                "budget not met",
                o("policy/v1", "PodDisruptionBudget", json!({}), json!({"currentHealthy": 1, "desiredHealthy": 2})),
                Unhealthy,
            ),
        ] {
            assert_eq!(health(Kind::of(&object).unwrap(), &object).unwrap(), want, "{name}");
        }
    }
}
