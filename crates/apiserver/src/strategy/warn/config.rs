//! What is unwise in Services, Ingresses and volumes.

use ironclad_quantity::Quantity;
use serde_json::Value;

use crate::object;

/// Texts for whoever wrote the object; what only concerns a new one while it has no predecessor.
pub(super) fn warnings(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    // Of a status nothing is said.
    if old.is_some_and(|old| old["spec"] == object["spec"] && old["status"] != object["status"]) {
        return vec![];
    }
    match kind {
        "Service" => service(object),
        "Ingress" if old.is_none() => annotated(object, "kubernetes.io/ingress.class")
            .then(|| {
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                    .to_owned()
            })
            .into_iter()
            .collect(),
        "PersistentVolume" => volume(object),
        "PersistentVolumeClaim" => claim(object),
        "EndpointSlice" if object["addressType"] == "FQDN" && old.is_none() => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        "CSIDriver" if old.is_none() => driver(object),
        _ => vec![],
    }
}

const VOLUME_ANNOTATIONS: [(&str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead"),
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];

fn annotated(object: &Value, key: &str) -> bool {
    object::metadata(object).get("annotations").is_some_and(|a| a.get(key).is_some())
}

fn annotations_of_volumes(object: &Value, deprecated: &[(&str, &str)]) -> Vec<String> {
    let given = deprecated.iter().filter(|(key, _)| annotated(object, key));
    given.map(|(key, why)| format!("metadata.annotations[{key}]: {why}")).collect()
}

fn claim(claim: &Value) -> Vec<String> {
    let mut out = annotations_of_volumes(claim, &VOLUME_ANNOTATIONS[..1]);
    let asked = claim.pointer("/spec/resources/requests/storage").and_then(Value::as_str);
    if let Some(text) = asked.filter(|text| Quantity::parse(text).is_ok_and(|n| n.milli_value() % 1_000 != 0)) {
        out.push(format!(
            "spec.resources.requests[storage]: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
    out
}

fn driver(driver: &Value) -> Vec<String> {
    let spec = &driver["spec"];
    let asks = spec["tokenRequests"].as_array().is_some_and(|tokens| !tokens.is_empty());
    let open = asks && spec["serviceAccountTokenInSecrets"].is_null();
    open.then(|| "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned())
        .into_iter()
        .collect()
}

fn volume(volume: &Value) -> Vec<String> {
    let mut out = annotations_of_volumes(volume, &VOLUME_ANNOTATIONS);
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
        out.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    out
}

fn service(service: &Value) -> Vec<String> {
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
            assert_eq!(service(&json!({"spec": spec})), want, "{name}");
        }
        let old = json!({"spec": {"type": "NodePort", "externalName": "a.b"}});
        let mut new = old.clone();
        new["status"] = json!({"loadBalancer": {}});
        assert!(warnings("Service", &new, Some(&old)).is_empty(), "a status");
        assert_eq!(warnings("Service", &old, Some(&old)).len(), 1);
    }
}
