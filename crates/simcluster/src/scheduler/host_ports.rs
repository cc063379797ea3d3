//! Host ports of pods: two pods with the same one do not share a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

/// Address of a port that is open on all addresses of its node.
const ANY: &str = "0.0.0.0";

/// A port of a node that a pod occupies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) port: i32,
    pub(crate) protocol: String,
    pub(crate) ip: String,
}

impl HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.ip == other.ip || self.ip == ANY || other.ip == ANY;
        overlap && self.port == other.port && self.protocol == other.protocol
    }
}

/// Returns the host ports of the pod's containers that run beside each other. The server sets those of pods on the
/// host network.
pub(crate) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    let occupied = ports.filter_map(|port| {
        Some(HostPort {
            port: port.host_port.filter(|port| *port > 0)?,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            ip: port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| ANY.to_owned()),
        })
    });
    occupied.collect()
}

/// Returns `true` if none of these ports conflicts with those that are taken.
pub(crate) fn are_free(wanted: &[HostPort], taken: &BTreeMap<HostPort, usize>) -> bool {
    !wanted.iter().any(|port| taken.keys().any(|other| port.conflicts(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_ports_conflict_on_a_shared_address() {
        let of = |port: serde_json::Value| -> Vec<HostPort> {
            let pod = json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}});
            host_ports(&serde_json::from_value(pod).unwrap())
        };
        let taken = of(json!({"containerPort": 1, "hostPort": 80}));
        let bound = of(json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}));
        for (name, wanted, taken, free) in [
            ("no host port", json!({"containerPort": 80}), &taken, true),
            ("the same", json!({"containerPort": 2, "hostPort": 80}), &taken, false),
            ("another number", json!({"containerPort": 1, "hostPort": 81}), &taken, true),
            ("another protocol", json!({"containerPort": 1, "hostPort": 80, "protocol": "UDP"}), &taken, true),
            ("one address of all", json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}), &taken, false),
            ("all addresses", json!({"containerPort": 1, "hostPort": 80}), &bound, false),
            ("another address", json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}), &bound, true),
            ("the same address", json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}), &bound, false),
        ] {
            let taken = taken.iter().map(|port| (port.clone(), 1)).collect();
            assert_eq!(are_free(&of(wanted), &taken), free, "{name}");
        }
    }

    #[test]
    fn sidecars_have_host_ports_and_other_init_containers_have_none() {
        let init = |policy: serde_json::Value| json!({"name": "i", "restartPolicy": policy, "ports": [{"containerPort": 1, "hostPort": 80}]});
        for (policy, count) in [(json!("Always"), 1), (json!(null), 0)] {
            let pod = json!({"spec": {"containers": [], "initContainers": [init(policy)]}});
            assert_eq!(host_ports(&serde_json::from_value(pod).unwrap()).len(), count);
        }
    }
}
