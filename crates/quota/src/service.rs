//! Use of resources by Services.

use serde_json::Value;

use crate::amounts::{Amounts, count};

const NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

/// Returns `true` if Services are charged for the resource of this name.
pub(crate) fn is_charged(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns what a Service uses. Node ports count by intent: they may not be allocated yet.
pub(crate) fn usage(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = || spec["ports"].as_array().into_iter().flatten();
    let (node_ports, load_balancers) = match spec["type"].as_str() {
        Some("NodePort") => (ports().count(), 0),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            (ports().filter(|port| port["nodePort"].as_i64().is_some_and(|number| number != 0)).count(), 1)
        }
        Some("LoadBalancer") => (ports().count(), 1),
        _ => (0, 0),
    };
    NAMES.into_iter().map(str::to_owned).zip([1, 1, node_ports, load_balancers].map(count)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::amounts::listed;

    #[test]
    fn services_use_node_ports_and_load_balancers() {
        let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30_000}]);
        for (name, spec, node_ports, load_balancers) in [
            ("within the cluster", json!({"type": "ClusterIP", "ports": ports}), 0, 0),
            ("an external name", json!({"type": "ExternalName"}), 0, 0),
            ("node ports", json!({"type": "NodePort", "ports": ports}), 2, 0),
            ("a load balancer has node ports", json!({"type": "LoadBalancer", "ports": ports}), 2, 1),
            (
                "unless it does without, but for those that it names",
                json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}),
                1,
                1,
            ),
        ] {
            let want = format!(
                "count/services=1,services=1,services.loadbalancers={load_balancers},services.nodeports={node_ports}"
            );
            assert_eq!(listed(&usage(&json!({"spec": spec}))), want, "{name}");
        }
    }
}
