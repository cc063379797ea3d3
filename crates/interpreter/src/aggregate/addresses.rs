//! Union of the members' load balancer addresses (specification/propagation.md 17, Service and Ingress).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Reports;
use crate::lens;

/// One address with the fields by which upstream distinguishes them. Sorted in this order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    hostname: String,
    ip: String,
    mode: String,
}

/// `{loadBalancer: {ingress}}` with each address once and its ports merged. With `with_mode`, addresses of different
/// `ipMode` are distinct.
pub(super) fn union(reports: &Reports<'_>, with_mode: bool) -> Value {
    let mut found: BTreeMap<Address, BTreeMap<(i64, String), Value>> = BTreeMap::new();
    for (_, status) in reports.reported() {
        for ingress in lens::items(status, "/loadBalancer/ingress") {
            let of = |pointer: &str| lens::text(ingress, pointer).to_owned();
            let mode = if with_mode { of("/ipMode") } else { String::new() };
            let ports = found.entry(Address { hostname: of("/hostname"), ip: of("/ip"), mode }).or_default();
            for port in lens::items(ingress, "/ports") {
                let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
                ports.entry((number, lens::text(port, "/protocol").to_owned())).or_insert_with(|| port.clone());
            }
        }
    }
    let ingress: Vec<Value> = found
        .into_iter()
        .map(|(address, ports)| {
            let mut entry = Map::new();
            for (field, value) in [("hostname", address.hostname), ("ip", address.ip), ("ipMode", address.mode)] {
                if !value.is_empty() {
                    entry.insert(field.into(), value.into());
                }
            }
            if !ports.is_empty() {
                entry.insert("ports".into(), ports.into_values().collect());
            }
            Value::Object(entry)
        })
        .collect();
    if ingress.is_empty() { json!({"loadBalancer": {}}) } else { json!({"loadBalancer": {"ingress": ingress}}) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::run;

    fn report(ingress: Value) -> Option<Value> {
        Some(json!({"loadBalancer": {"ingress": ingress}}))
    }

    #[test]
    fn union_is_sorted_with_merged_ports() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}, "status": {"conditions": [{}]}});
        let a = report(
            json!([{"ip": "2.2.2.2", "ipMode": "VIP", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "z"}]),
        );
        let b = report(
            json!([{"ip": "1.1.1.1"}, {"ip": "2.2.2.2", "ipMode": "VIP", "ports": [{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]},
            {"ip": "2.2.2.2", "ipMode": "Proxy"}]),
        );
        assert_eq!(
            run(&service, &[("a", a.clone()), ("b", b.clone())], &["a", "b"]),
            json!({"loadBalancer": {"ingress": [
                {"ip": "1.1.1.1"}, {"ip": "2.2.2.2", "ipMode": "Proxy"},
                {"ip": "2.2.2.2", "ipMode": "VIP", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]},
                {"hostname": "z"}]}})
        );
        assert_eq!(
            run(&service, &[("a", b), ("b", a)], &["a", "b"])["loadBalancer"]["ingress"].as_array().unwrap().len(),
            4
        );
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"});
        assert_eq!(
            run(
                &ingress,
                &[("a", report(json!([{"ip": "1.1.1.1"}]))), ("b", report(json!([{"ip": "1.1.1.1"}])))],
                &["a", "b"]
            ),
            json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}})
        );
    }

    #[test]
    fn services_without_load_balancer_are_unchanged() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {}}});
        assert_eq!(run(&service, &[("a", report(json!([{"ip": "1.1.1.1"}])))], &["a"]), json!({"loadBalancer": {}}));
    }

    #[test]
    fn missing_addresses_change_nothing() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}});
        assert_eq!(run(&service, &[("a", None)], &["a"]), json!({}));
    }
}
