//! Pod templates: requirements of one replica (specification/propagation.md 7.5) and referenced objects
//! (specification/propagation.md 8.3).

use std::collections::BTreeMap;

use ironclad_api::quantity::{Amount, Format};
use serde_json::{Map, Value};

use crate::{
    dependencies::Dependency,
    lens::{self, ShapeError, shape},
};

/// The requirements of one pod of the template at `pointer` (the object with a `spec`), as a `ReplicaRequirements` in
/// JSON; `None` if it has none.
///
/// # Errors
/// If the pod spec is malformed or a quantity cannot be parsed.
pub fn requirements(object: &Value, pointer: &str) -> Result<Option<Value>, ShapeError> {
    let at = format!("{pointer}/spec");
    let Some(spec) = object.pointer(&at) else { return Ok(None) };
    let mut all = Map::new();
    let claim = node_claim(spec);
    if !claim.is_empty() {
        all.insert("nodeClaim".into(), Value::Object(claim));
    }
    let request = resource_request(object, &at)?;
    if !request.is_empty() {
        all.insert("resourceRequest".into(), Value::Object(request));
    }
    Ok((!all.is_empty()).then_some(Value::Object(all)))
}

fn node_claim(spec: &Value) -> Map<String, Value> {
    let mut claim = Map::new();
    let mut take = |name: &str, value: Option<&Value>| {
        let Some(value) = value else { return };
        let filled = match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => false,
        };
        if filled {
            claim.insert(name.into(), value.clone());
        }
    };
    take("hardNodeAffinity", spec.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"));
    take("nodeSelector", spec.get("nodeSelector"));
    take("tolerations", spec.get("tolerations"));
    claim
}

/// Sum over the containers, at least the largest init container, plus overhead.
fn resource_request(object: &Value, spec: &str) -> Result<Map<String, Value>, ShapeError> {
    let mut total: BTreeMap<String, Amount> = BTreeMap::new();
    let containers = format!("{spec}/containers");
    for (i, container) in lens::list(object, &containers)?.iter().enumerate() {
        for (name, amount) in container_requests(object, container, &format!("{containers}/{i}"))? {
            add(&mut total, name, amount);
        }
    }
    let containers = format!("{spec}/initContainers");
    for (i, container) in lens::list(object, &containers)?.iter().enumerate() {
        for (name, amount) in container_requests(object, container, &format!("{containers}/{i}"))? {
            total.entry(name).and_modify(|t| *t = (*t).max(amount)).or_insert(amount);
        }
    }
    for (name, amount) in quantities(object, object.pointer(&format!("{spec}/overhead")), &format!("{spec}/overhead"))?
    {
        add(&mut total, name, amount);
    }
    Ok(total
        .into_iter()
        .filter_map(|(name, amount)| {
            let amount = counted(&name, amount)?;
            (!amount.is_zero()).then(|| (name, Value::String(amount.to_string())))
        })
        .collect())
}

fn add(total: &mut BTreeMap<String, Amount>, name: String, amount: Amount) {
    total.entry(name).and_modify(|t| *t += amount).or_insert(amount);
}

/// Requests of a container; limits replace missing requests.
fn container_requests(object: &Value, container: &Value, at: &str) -> Result<BTreeMap<String, Amount>, ShapeError> {
    let part = |name: &str| {
        quantities(object, container.pointer(&format!("/resources/{name}")), &format!("{at}/resources/{name}"))
    };
    let mut requests = part("requests")?;
    for (name, limit) in part("limits")? {
        requests.entry(name).or_insert(limit);
    }
    Ok(requests)
}

fn quantities(object: &Value, map: Option<&Value>, at: &str) -> Result<BTreeMap<String, Amount>, ShapeError> {
    let map = match map {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(shape(object, at, "a map of quantities")),
    };
    map.iter()
        .map(|(name, value)| match amount(value).filter(|amount| !amount.is_negative()) {
            Some(amount) => Ok((name.clone(), amount)),
            None => Err(shape(
                object,
                format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                "a quantity of at least 0, like 100m or 64Mi",
            )),
        })
        .collect()
}

/// Parses a quantity from JSON, which may be a number.
fn amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(text) => Amount::parse(text).ok(),
        Value::Number(number) => Amount::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// The amount in the unit and format that upstream uses for the resource; `None` for resources that it ignores.
fn counted(name: &str, amount: Amount) -> Option<Amount> {
    Some(match name {
        "cpu" => Amount::from_milli(amount.milli_value()),
        "memory" | "ephemeral-storage" => Amount::new(amount.value(), Format::BinarySi),
        "pods" => Amount::new(amount.value(), Format::DecimalSi),
        _ if name.starts_with("hugepages-") => Amount::new(amount.value(), Format::BinarySi),
        _ if name.starts_with("attachable-volumes-") => Amount::new(amount.value(), Format::DecimalSi),
        _ if name.contains('/') && !name.starts_with("requests.") => Amount::new(amount.value(), Format::DecimalSi),
        _ => return None,
    })
}

/// The objects that the pod spec at `pointer` refers to (specification/propagation.md 8.3), sorted and without
/// duplicates.
///
/// # Errors
/// If the pod spec is malformed.
pub fn dependencies(object: &Value, pointer: &str, namespace: &str) -> Result<Vec<Dependency>, ShapeError> {
    let mut found = references(object, pointer, namespace)?;
    Dependency::sort(&mut found);
    Ok(found)
}

/// The ConfigMaps, Secrets, ServiceAccount and claims that the pod spec at `pointer` refers to, unsorted.
pub(crate) fn references(object: &Value, pointer: &str, namespace: &str) -> Result<Vec<Dependency>, ShapeError> {
    let mut found = Vec::new();
    let mut add = |kind: &str, name: &str| {
        if !name.is_empty() {
            found.push(Dependency::named("v1", kind, namespace, name));
        }
    };
    if object.pointer(pointer).is_none() {
        return Ok(found);
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in lens::list(object, &format!("{pointer}/{containers}"))? {
            for from in lens::items(container, "/envFrom") {
                add("ConfigMap", lens::text(from, "/configMapRef/name"));
                add("Secret", lens::text(from, "/secretRef/name"));
            }
            for env in lens::items(container, "/env") {
                add("ConfigMap", lens::text(env, "/valueFrom/configMapKeyRef/name"));
                add("Secret", lens::text(env, "/valueFrom/secretKeyRef/name"));
            }
        }
    }
    for secret in lens::list(object, &format!("{pointer}/imagePullSecrets"))? {
        add("Secret", lens::text(secret, "/name"));
    }
    for volume in lens::list(object, &format!("{pointer}/volumes"))? {
        add("ConfigMap", lens::text(volume, "/configMap/name"));
        add("PersistentVolumeClaim", lens::text(volume, "/persistentVolumeClaim/claimName"));
        for secret in [
            "/secret/secretName", "/azureFile/secretName", "/cephfs/secretRef/name", "/cinder/secretRef/name",
            "/flexVolume/secretRef/name", "/rbd/secretRef/name", "/scaleIO/secretRef/name", "/iscsi/secretRef/name",
            "/storageos/secretRef/name", "/csi/nodePublishSecretRef/name",
        ] {
            add("Secret", lens::text(volume, secret));
        }
        for source in lens::items(volume, "/projected/sources") {
            add("ConfigMap", lens::text(source, "/configMap/name"));
            add("Secret", lens::text(source, "/secret/name"));
        }
    }
    let account = object.pointer(pointer).map_or("", |spec| lens::text(spec, "/serviceAccountName"));
    if account != "default" {
        add("ServiceAccount", account);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_of_one_replica() {
        for (name, spec, want) in [
            ("nothing asked, nothing needed", json!({"containers": [{"name": "a"}]}), None),
            (
                "containers add up",
                json!({"containers": [
                    {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
                    {"resources": {"requests": {"cpu": "0.9", "memory": "64Mi"}}}]}),
                Some(json!({"resourceRequest": {"cpu": "1", "memory": "128Mi"}})),
            ),
            (
                "a limit replaces a missing request",
                json!({"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}}]}),
                Some(json!({"resourceRequest": {"cpu": "1", "memory": "1Gi"}})),
            ),
            (
                "the largest init container is the least",
                json!({"initContainers": [{"resources": {"requests": {"cpu": "3"}}}, {"resources": {"requests": {"cpu": "2", "memory": "1"}}}],
                       "containers": [{"resources": {"requests": {"cpu": "1", "memory": "5"}}}]}),
                Some(json!({"resourceRequest": {"cpu": "3", "memory": "5"}})),
            ),
            (
                "overhead is added to the larger of both",
                json!({"overhead": {"cpu": "250m"}, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}),
                Some(json!({"resourceRequest": {"cpu": "1250m"}})),
            ),
            (
                "only what is counted is kept, zeros are left out",
                json!({"containers": [{"resources": {"requests": {"cpu": 0, "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi",
                       "weird": "1", "requests.nvidia.com/gpu": "1", "ephemeral-storage": "1G"}}}]}),
                Some(
                    json!({"resourceRequest": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1000000000"}}),
                ),
            ),
            (
                "node selector, tolerations and hard affinity are the node claim; soft affinity is not",
                json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu"}],
                       "affinity": {"nodeAffinity": {
                           "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]},
                           "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}),
                Some(json!({"nodeClaim": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu"}],
                       "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": []}]}}})),
            ),
            ("empty node terms are no claim", json!({"nodeSelector": {}, "tolerations": []}), None),
        ] {
            let object = json!({"spec": {"template": {"spec": spec}}});
            assert_eq!(requirements(&object, "/spec/template").unwrap(), want, "{name}");
        }
    }

    #[test]
    fn invalid_quantity_names_object_and_field() {
        for quantity in ["lots", "-1", "-1e-9", ""] {
            let object = json!({"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"template": {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": quantity}}}]}}}});
            assert_eq!(
                requirements(&object, "/spec/template").unwrap_err().to_string(),
                "Deployment shop/web: /spec/template/spec/containers/0/resources/requests/nvidia.com~1gpu must be a quantity of at least 0, like 100m or 64Mi"
            );
        }
    }
}
