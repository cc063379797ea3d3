//! Services.

use crate::kinds::shared::warnings;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, either, items, label_text, name, number, or_none, plain},
            fields::text,
        },
    },
    names,
    registry::strategy::Strategy,
};

mod allocate;
mod defaults;
mod validate;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: defaults::service,
        prepare_update: defaults::keep_addresses,
        validate: validate::service,
        validate_name: names::dns_label,
        warnings: |o, old| if warnings::is_status_update(o, old) { vec![] } else { warn(o) },
        columns: &[
            NAME,
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            AGE,
            ("Selector", "string", 1),
        ],
        cells,
        selectable_fields: &["spec.clusterIP", "spec.type"],
        ..Strategy::NONE
    },
    hooks: Hooks { allocate: allocate::allocate, reservations: allocate::reservations, ..Hooks::NONE },
    ..Kind::new("v1 services Service N short=svc all put +proxy +status")
};

fn warn(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let is_named = spec["type"] == "ExternalName";
    let headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let given = |key: &str| spec[key].as_str().is_some_and(|text| !text.is_empty());
    let ips = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    let all = [
        (headless && given("loadBalancerIP"), "spec.loadBalancerIP is ignored for headless services"),
        (headless && ips, "spec.externalIPs is ignored for headless services"),
        (headless && spec["sessionAffinity"] != "None", "spec.SessionAffinity is ignored for headless services"),
        (
            ips && !headless && !is_named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (is_named && ips, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (!is_named && given("externalName"), "spec.externalName is ignored when spec.type is not \"ExternalName\""),
        (
            spec["trafficDistribution"] == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, text)| text.to_owned()).collect()
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let kind = text(o, "/spec/type");
    let balancers: Vec<&str> =
        items(o, "/status/loadBalancer/ingress").map(|i| either(i, "/ip", "/hostname")).collect();
    let external: Vec<&str> = items(o, "/spec/externalIPs").filter_map(Value::as_str).collect();
    let external = match kind {
        "ExternalName" => text(o, "/spec/externalName").to_owned(),
        "LoadBalancer" if balancers.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => [balancers, external].concat().join(","),
        _ => external.join(","),
    };
    let ports: Vec<String> = items(o, "/spec/ports")
        .map(|p| match number(p, "/nodePort") {
            0 => format!("{}/{}", plain(&p["port"]), text(p, "/protocol")),
            node => format!("{}:{node}/{}", plain(&p["port"]), text(p, "/protocol")),
        })
        .collect();
    vec![
        name(o),
        json!(kind),
        or_none(text(o, "/spec/clusterIP")),
        or_none(external),
        or_none(ports.join(",")),
        created(o, now),
        or_none(label_text(o.pointer("/spec/selector"))),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services() {
        for (name, spec, want) in [
            ("nothing", json!({"type": "ClusterIP", "sessionAffinity": "None"}), vec![]),
            (
                "a name that nobody asks for",
                json!({"type": "NodePort", "externalName": "a.b"}),
                vec!["spec.externalName is ignored when spec.type is not \"ExternalName\""],
            ),
            (
                "nobody sticks to one of many",
                json!({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP"}),
                vec!["spec.SessionAffinity is ignored for headless services"],
            ),
        ] {
            assert_eq!(warn(&json!({"spec": spec})), want, "{name}");
        }
        let old = json!({"spec": {"type": "NodePort", "externalName": "a.b"}});
        let mut new = old.clone();
        new["status"] = json!({"loadBalancer": {}});
        assert!((KIND.strategy.warnings)(&new, Some(&old)).is_empty(), "a status");
        assert_eq!((KIND.strategy.warnings)(&old, Some(&old)).len(), 1);
    }
}
