//! Pods as autoscalers count them: what decisions need of a Pod, without the rest.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_quantity::Amount;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, Pod as CorePod},
    apimachinery::pkg::api::resource::Quantity,
};

/// Amounts by resource, in thousandths.
pub type Amounts = BTreeMap<Arc<str>, i64>;

/// Cluster and name of a pod; all pods of an autoscaler are in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// The cluster. Two clusters may have pods of the same name.
    pub cluster: Arc<str>,
    pub name: Arc<str>,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.name)?;
        if self.cluster.is_empty() { Ok(()) } else { write!(to, " of cluster {}", self.cluster) }
    }
}

/// Phase of a pod, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// `Pending`.
    Pending,
    /// `Running`.
    Running,
    /// `Failed`.
    Failed,
    /// Any other, or none yet.
    Other,
}

impl Phase {
    /// The phase of this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Failed" => Self::Failed,
            _ => Self::Other,
        }
    }
}

/// Condition `Ready` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// True if it is `True`, false if it is `False`, and absent if it is `Unknown`.
    pub is_ready: Option<bool>,
    /// Time of its last transition, if it has one.
    pub since: Option<Timestamp>,
}

/// Requests of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// Name of the container.
    pub container: Arc<str>,
    /// Its requests.
    pub amounts: Amounts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub labels: BTreeMap<String, String>,
    /// True if it is being deleted.
    pub is_deleted: bool,
    pub phase: Phase,
    /// Condition `Ready`.
    pub ready: Option<Readiness>,
    /// Its start, by the clock of its cluster.
    pub started: Option<Timestamp>,
    /// Requests of its containers and of its sidecars (init containers that are always restarted).
    pub requests: Vec<Requests>,
    /// Requests of the pod as a whole, if it has any; they take the place of those of its containers.
    pub whole: Option<Amounts>,
}

impl From<&CorePod> for Pod {
    fn from(pod: &CorePod) -> Self {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let condition = status.and_then(|status| status.conditions.as_ref());
        let condition = condition.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
        let stays = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        let sidecars = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).filter(stays);
        let containers = spec.iter().flat_map(|spec| &spec.containers).chain(sidecars);
        let requests = |container: &Container| Requests {
            container: container.name.as_str().into(),
            amounts: container.resources.iter().flat_map(|all| &all.requests).map(amounts).next().unwrap_or_default(),
        };
        let whole = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref()).filter(|all| !all.is_empty());
        Self {
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            is_deleted: pod.metadata.deletion_timestamp.is_some(),
            phase: Phase::of(status.and_then(|status| status.phase.as_deref()).unwrap_or_default()),
            ready: condition.map(|condition| Readiness {
                is_ready: match condition.status.as_str() {
                    "True" => Some(true),
                    "False" => Some(false),
                    _ => None,
                },
                since: condition.last_transition_time.as_ref().map(|time| time.0),
            }),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            requests: containers.map(requests).collect(),
            whole: whole.map(amounts),
        }
    }
}

impl Pod {
    /// True if the pod runs and is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Running && self.ready.is_some_and(|ready| ready.is_ready == Some(true))
    }

    /// Returns what the pod, or one container of it, requests, in thousandths.
    ///
    /// # Errors
    /// A message, without the name of the pod, if a counted container requests nothing of the resource, or there is no
    /// container of that name.
    pub fn request(&self, resource: &str, container: Option<&str>) -> Result<i64, String> {
        if let (Some(whole), None) = (&self.whole, container) {
            return whole
                .get(resource)
                .copied()
                .ok_or_else(|| format!("missing pod-level request for {resource} in Pod"));
        }
        let counted: Vec<&Requests> =
            self.requests.iter().filter(|of| container.is_none_or(|name| *of.container == *name)).collect();
        if let (Some(name), true) = (container, counted.is_empty()) {
            return Err(format!("container {name} not found in Pod"));
        }
        counted.into_iter().try_fold(0_i64, |sum, of| {
            let missing = || format!("missing request for {resource} in container {} of Pod", of.container);
            Ok(sum.saturating_add(*of.amounts.get(resource).ok_or_else(missing)?))
        })
    }
}

/// Returns the amounts of a resource list; those that are no quantities are left out.
#[must_use]
pub fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    list.iter().filter_map(|(name, quantity)| Some((name.as_str().into(), milli(&quantity.0)?))).collect()
}

/// Returns thousandths of a quantity, rounded up and limited to what fits.
pub(crate) fn milli(text: &str) -> Option<i64> {
    Amount::parse(text.trim()).ok().map(Amount::milli_value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        let pod: CorePod = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        Pod::from(&pod)
    }

    #[test]
    fn requests_of_pods() {
        let asks = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let sidecar = json!({"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "30m"}}});
        let setup = json!({"name": "setup", "resources": {"requests": {"cpu": "900m"}}});
        for (name, spec, container, want) in [
            ("the sum of its containers", json!({"containers": [asks("a", "100m"), asks("b", "1")]}), None, Ok(1_100)),
            ("of one container", json!({"containers": [asks("a", "100m"), asks("b", "1")]}), Some("a"), Ok(100)),
            (
                "sidecars count, other init containers do not",
                json!({"containers": [asks("a", "100m")], "initContainers": [sidecar, setup]}),
                None,
                Ok(130),
            ),
            (
                "requests of the pod as a whole come first",
                json!({"resources": {"requests": {"cpu": "2"}}, "containers": [asks("a", "100m")]}),
                None,
                Ok(2_000),
            ),
            (
                "but not for one container",
                json!({"resources": {"requests": {"cpu": "2"}}, "containers": [asks("a", "100m")]}),
                Some("a"),
                Ok(100),
            ),
            (
                "a container without a request",
                json!({"containers": [asks("a", "100m"), {"name": "b"}]}),
                None,
                Err("missing request for cpu in container b of Pod"),
            ),
            (
                "no such container",
                json!({"containers": [asks("a", "1")]}),
                Some("c"),
                Err("container c not found in Pod"),
            ),
            (
                "a request that is no quantity",
                json!({"containers": [asks("a", "NaN")]}),
                None,
                Err("missing request for cpu in container a of Pod"),
            ),
        ] {
            assert_eq!(pod(spec).request("cpu", container), want.map_err(str::to_owned), "{name}");
        }
    }
}
