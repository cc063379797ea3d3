//! FederatedHPA (specification/admission.md 4.1), validated as Kubernetes validates HorizontalPodAutoscaler, and
//! HorizontalPodAutoscalers that are distributed (4.3).

use ironclad_api::{annotations, autoscaling::FederatedHPA, labels, quantity::Amount};
use ironclad_fleet::gates::Gate;
use ironclad_patch::names;
use serde_json::{Map, Value, json};

use super::lens::{at, label, list, text};
use crate::{
    Denial, Need, Request, Resource,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode},
};

const FEDERATED: Resource =
    Resource { group: "autoscaling.karmada.io", version: "v1alpha1", kind: "FederatedHPA", plural: "federatedhpas" };
const DISTRIBUTED: Resource = Resource {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
};

const BINDINGS: Resource =
    Resource { group: "work.karmada.io", version: "v1alpha2", kind: "ResourceBinding", plural: "resourcebindings" };
/// Kinds of Kubernetes that have a scale subresource.
const SCALABLE: [Resource; 3] = [
    Resource { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" },
    Resource { group: "apps", version: "v1", kind: "StatefulSet", plural: "statefulsets" },
    Resource { group: "apps", version: "v1", kind: "ReplicaSet", plural: "replicasets" },
];
/// Groups and kinds of Kubernetes that run Pods and have none.
const NOT_SCALABLE: [(&str, &str); 4] = [("apps", "DaemonSet"), ("batch", "Job"), ("batch", "CronJob"), ("", "Pod")];

const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

/// The types of metrics and the block of each.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn all(resource: Resource, namespace: &str) -> Need {
    Need::List { resource, namespace: namespace.to_owned() }
}

/// Sets the defaults that Kubernetes sets.
pub(crate) fn mutate(object: &mut Value, _: &Cx<'_>) -> Result<(), Denial> {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err(Denial::undecodable("missing field `spec`"));
    };
    or_else(spec, "minReplicas", || json!(1));
    if spec.get("metrics").is_none_or(|m| m.is_null() || m.as_array().is_some_and(Vec::is_empty)) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert("metrics".into(), json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return Ok(()) };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        or_else(behavior, direction, || json!({}));
        let Some(rules) = behavior.get_mut(direction).and_then(Value::as_object_mut) else { continue };
        if direction == "scaleUp" {
            or_else(rules, "stabilizationWindowSeconds", || json!(0));
        }
        or_else(rules, "selectPolicy", || json!("Max"));
        or_else(rules, "policies", || policies);
    }
    Ok(())
}

fn or_else(map: &mut Map<String, Value>, key: &str, value: impl FnOnce() -> Value) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value());
    }
}

/// Looks up the autoscalers that may have the same target, and the target itself.
pub(crate) fn needs(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    needs.insert(all(DISTRIBUTED, request.namespace));
    needs.extend(request.object.and_then(|object| target_of(object, request.namespace)));
}

/// The look-up of the target, if its kind is one of Kubernetes that can be scaled.
fn target_of(object: &Value, namespace: &str) -> Option<Need> {
    let (group, kind, name) = target_key(object);
    let resource = *SCALABLE.iter().find(|resource| (resource.group, resource.kind) == (group, kind))?;
    let is_named = !name.is_empty();
    is_named.then(|| Need::Get { resource, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Group, kind and name of the target.
fn target_key(object: &Value) -> (&str, &str, &str) {
    let group = text(object, "/spec/scaleTargetRef/apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group, text(object, "/spec/scaleTargetRef/kind"), text(object, "/spec/scaleTargetRef/name"))
}

/// Warns about a target that nothing can scale.
fn warn_of_target(object: &Value, cx: &Cx<'_>, out: &mut Findings) {
    let (group, kind, name) = target_key(object);
    if NOT_SCALABLE.contains(&(group, kind)) {
        out.warn(format!("spec.scaleTargetRef: {kind} has no scale subresource: nothing is ever scaled"));
    }
    // The target may come later, and a look-up that failed says nothing.
    let found = target_of(object, cx.request.namespace).and_then(|need| cx.lookups.get(&need));
    if found.is_some_and(<[Value]>::is_empty) {
        out.warn(format!("spec.scaleTargetRef: there is no {kind} {name:?}: nothing is scaled until it is created"));
    }
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    decode::<FederatedHPA>(object)?;
    object_name(object, out);
    let spec = Path::new("spec");
    let least = at(object, "/spec/minReplicas");
    let least_allowed = i64::from(!cx.config.gates.enabled(Gate::HPAScaleToZero));
    if least.as_i64().is_some_and(|n| n < least_allowed) {
        out.invalid(spec.child("minReplicas"), least, &format!("must be greater than or equal to {least_allowed}"));
    }
    let most = at(object, "/spec/maxReplicas").as_i64().unwrap_or(0);
    if most < 1 {
        out.invalid(spec.child("maxReplicas"), &most, "must be greater than 0");
    }
    if least.as_i64().is_some_and(|least| most < least) {
        out.invalid(spec.child("maxReplicas"), &most, "must be greater than or equal to `minReplicas`");
    }
    reference(at(object, "/spec/scaleTargetRef"), &spec.child("scaleTargetRef"), out);
    for (i, metric) in list(object, "/spec/metrics").iter().enumerate() {
        self::metric(metric, &spec.child("metrics").index(i), cx, out);
    }
    let on_demand = |metric: &Value| ["Object", "External"].contains(&text(metric, "/type"));
    if least_allowed == 0 && least.as_i64() == Some(0) && !list(object, "/spec/metrics").iter().any(on_demand) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        out.forbidden(spec.child("metrics"), detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = at(object, "/spec/behavior").get(direction).unwrap_or(&Value::Null);
        behavior(rules, &spec.child("behavior").child(direction), out);
    }
    for field in ["currentReplicas", "desiredReplicas"] {
        let count = at(object, "/status").get(field).unwrap_or(&Value::Null);
        if count.as_i64().is_some_and(|n| n < 0) {
            out.invalid(Path::new("status").child(field), count, "must be greater than or equal to 0");
        }
    }
    warn_of_target(object, cx, out);
    let others = cx.lookups.get(&all(DISTRIBUTED, cx.request.namespace)).unwrap_or_default();
    if let Some(other) = others.iter().find(|other| is_distributed(other) && same_target(other, object)) {
        let detail = format!(
            "the target has the distributed HorizontalPodAutoscaler {:?}: two autoscalers would fight; remove its label {} first",
            text(other, "/metadata/name"),
            labels::FEDERATED_HPA_ENABLED
        );
        out.invalid(spec.child("scaleTargetRef"), at(object, "/spec/scaleTargetRef"), &detail);
    }
    Ok(())
}

/// Validates an object name: a DNS subdomain.
pub(crate) fn object_name(object: &Value, out: &mut Findings) {
    let name = text(object, "/metadata/name");
    out.texts("metadata.name", name, names::dns1123_subdomain(name));
}

/// Validates the scale target reference.
pub(crate) fn reference(target: &Value, path: &Path, out: &mut Findings) {
    for field in ["kind", "name"] {
        segment(text(target, &format!("/{field}")), &path.child(field), out);
    }
}

/// Validates a text that becomes a segment of a path.
fn segment(text: &str, path: &Path, out: &mut Findings) {
    if text.is_empty() {
        out.required(path, "");
    } else if text == "." || text == ".." {
        out.invalid(path, text, &format!("may not be '{text}'"));
    } else {
        for c in ['/', '%'] {
            if text.contains(c) {
                out.invalid(path, text, &format!("may not contain '{c}'"));
            }
        }
    }
}

fn metric(metric: &Value, path: &Path, cx: &Cx<'_>, out: &mut Findings) {
    let kind = text(metric, "/type");
    let external = cx.config.gates.enabled(Gate::FederatedHPAExternalMetrics);
    let known: Vec<&str> = SOURCES.iter().map(|(kind, _)| *kind).filter(|k| external || *k != "External").collect();
    if kind.is_empty() {
        out.required(path.child("type"), "must specify a metric source type");
        return;
    }
    if !known.contains(&kind) {
        return out.not_supported(path.child("type"), kind, &known);
    }
    for (other, block) in SOURCES {
        let given = metric.get(block).is_some_and(|block| !block.is_null());
        if other == kind && !given {
            out.required(path.child(block), &format!("must populate information for the given metric source {kind:?}"));
        } else if other != kind && given {
            out.forbidden(path.child(block), &format!("must populate the given metric source only, which is {kind:?}"));
        }
    }
    let of = |block: &str| metric.get(block).filter(|block| !block.is_null());
    match kind {
        "Object" => {
            let Some(source) = of("object") else { return };
            let path = path.child("object");
            reference(at(source, "/describedObject"), &path.child("describedObject"), out);
            segment(text(source, "/metric/name"), &path.child("metric.name"), out);
            target(at(source, "/target"), &path.child("target"), out);
            if missing(source, "value") && missing(source, "averageValue") {
                out.required(path.child("target.averageValue"), "must specify either value or averageValue");
            }
        }
        "External" => {
            let Some(source) = of("external") else { return };
            let path = path.child("external");
            segment(text(source, "/metric/name"), &path.child("metric.name"), out);
            target(at(source, "/target"), &path.child("target"), out);
            match (missing(source, "value"), missing(source, "averageValue")) {
                (true, true) => {
                    out.required(
                        path.child("target.averageValue"),
                        "must specify either a target for metric or a per-pod target",
                    );
                }
                (false, false) => {
                    out.forbidden(
                        path.child("target.value"),
                        "may not set both a target value for metric and a per-pod target",
                    );
                }
                _ => {}
            }
        }
        "Pods" => {
            let Some(source) = of("pods") else { return };
            let path = path.child("pods");
            segment(text(source, "/metric/name"), &path.child("metric.name"), out);
            target(at(source, "/target"), &path.child("target"), out);
            if missing(source, "averageValue") {
                out.required(path.child("target.averageValue"), "must specify a positive target averageValue");
            }
        }
        "Resource" => {
            let Some(source) = of("resource") else { return };
            resource(source, &path.child("resource"), out);
        }
        _ => {
            let Some(source) = of("containerResource") else { return };
            let path = path.child("containerResource");
            let container = text(source, "/container");
            if container.is_empty() {
                out.required(path.child("container"), "must specify a container");
            } else {
                out.texts(path.child("container"), container, names::dns1123_label(container));
            }
            resource(source, &path, out);
        }
    }
}

fn missing(source: &Value, field: &str) -> bool {
    at(source, "/target").get(field).is_none_or(Value::is_null)
}

fn resource(source: &Value, path: &Path, out: &mut Findings) {
    let name = text(source, "/name");
    if name.is_empty() {
        out.required(path.child("name"), "must specify a resource name");
    } else if !is_container_resource(name) {
        out.invalid(path.child("name"), name, "must be a standard resource for containers");
    }
    target(at(source, "/target"), &path.child("target"), out);
    let (percent, value) = (missing(source, "averageUtilization"), missing(source, "averageValue"));
    if percent && value {
        out.required(
            path.child("target.averageUtilization"),
            "must specify either a raw averageValue or averageUtilization",
        );
    } else if !percent && !value {
        out.forbidden(path.child("target.averageValue"), "may not set both averageValue and averageUtilization");
    }
}

/// True for cpu, memory, ephemeral-storage, huge pages, and every name with a domain prefix.
fn is_container_resource(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name)
        || name.strip_prefix("hugepages-").is_some_and(|size| Amount::parse(size).is_ok())
        || (name.contains('/') && names::label_key(name).is_empty())
}

fn target(target: &Value, path: &Path, out: &mut Findings) {
    match text(target, "/type") {
        "" => out.required(path.child("type"), "must specify a metric target type"),
        "Utilization" | "Value" | "AverageValue" => {}
        other => out.invalid(path.child("type"), other, "must be either Utilization, Value, or AverageValue"),
    }
    for field in ["value", "averageValue"] {
        let Some(given) = target.get(field).filter(|value| !value.is_null()) else { continue };
        let printed = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        if Amount::parse(&printed).is_ok_and(|amount| amount <= Amount::ZERO) {
            out.invalid(path.child(field), given, "must be positive");
        }
    }
    let percent = at(target, "/averageUtilization");
    if percent.as_i64().is_some_and(|n| n < 1) {
        out.invalid(path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn behavior(rules: &Value, path: &Path, out: &mut Findings) {
    if rules.is_null() {
        return;
    }
    let window = at(rules, "/stabilizationWindowSeconds");
    let at_window = path.child("stabilizationWindowSeconds");
    match window.as_i64() {
        Some(..0) => out.invalid(at_window, window, "must be greater than or equal to zero"),
        Some(n) if n > WINDOW_SECONDS_MAX => {
            out.invalid(at_window, window, &format!("must be less than or equal to {WINDOW_SECONDS_MAX}"));
        }
        _ => {}
    }
    let tolerance = at(rules, "/tolerance");
    let printed = tolerance.as_str().map_or_else(|| tolerance.to_string(), str::to_owned);
    if Amount::parse(&printed).is_ok_and(Amount::is_negative) {
        out.invalid(path.child("tolerance"), tolerance, "must be greater than or equal to zero");
    }
    let select = text(rules, "/selectPolicy");
    if !select.is_empty() && !["Disabled", "Max", "Min"].contains(&select) {
        out.not_supported(path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]);
    }
    let policies = list(rules, "/policies");
    if policies.is_empty() {
        out.required(path.child("policies"), "must specify at least one Policy");
    }
    for (j, policy) in policies.iter().enumerate() {
        let path = path.child("policies").index(j);
        let kind = text(policy, "/type");
        if !["Percent", "Pods"].contains(&kind) {
            out.not_supported(path.child("type"), kind, &["Percent", "Pods"]);
        }
        let (value, period) =
            (at(policy, "/value").as_i64().unwrap_or(0), at(policy, "/periodSeconds").as_i64().unwrap_or(0));
        if value <= 0 {
            out.invalid(path.child("value"), &value, "must be greater than zero");
        }
        if period <= 0 {
            out.invalid(path.child("periodSeconds"), &period, "must be greater than zero");
        } else if period > PERIOD_SECONDS_MAX {
            let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            out.invalid(path.child("periodSeconds"), &period, &detail);
        }
    }
}

fn is_distributed(autoscaler: &Value) -> bool {
    label(autoscaler, labels::FEDERATED_HPA_ENABLED) == labels::TRUE
}

/// Returns true if two autoscalers scale the same object. API versions are ignored.
fn same_target(a: &Value, b: &Value) -> bool {
    target_key(a) == target_key(b)
}

/// Looks up the autoscalers that may have the same target as a distributed one, and the target's binding.
pub(crate) fn needs_of_distributed(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    needs.insert(all(DISTRIBUTED, request.namespace));
    needs.insert(all(FEDERATED, request.namespace));
    needs.extend(request.object.and_then(|object| binding_of(object, request.namespace)));
}

/// The look-up of the target's binding.
fn binding_of(object: &Value, namespace: &str) -> Option<Need> {
    let (_, kind, name) = target_key(object);
    let is_named = !kind.is_empty() && !name.is_empty();
    let binding = || ironclad_api::names::binding_name(kind, name);
    is_named.then(|| Need::Get { resource: BINDINGS, namespace: namespace.to_owned(), name: binding() })
}

/// Warns about an upper bound that leaves less than one replica for each cluster (specification/autoscaling.md 6.4).
fn warn_of_maximum(object: &Value, cx: &Cx<'_>, out: &mut Findings) {
    let is_per_cluster = at(object, "/metadata/annotations")
        .get(annotations::FEDERATED_HPA_SPLIT)
        .and_then(|split| serde_json::from_str::<Value>(split.as_str()?).ok())
        .is_some_and(|split| split.get("mode").and_then(Value::as_str) == Some("PerCluster"));
    let bindings = binding_of(object, cx.request.namespace).and_then(|need| cx.lookups.get(&need));
    let clusters = bindings.unwrap_or_default().first().map_or(0, |binding| list(binding, "/spec/clusters").len());
    let Some(most) = at(object, "/spec/maxReplicas").as_u64() else { return };
    if !is_per_cluster && usize::try_from(most).is_ok_and(|most| most < clusters) {
        out.warn(format!(
            "spec.maxReplicas: {most} is below the {clusters} clusters of the target: each keeps one replica, so there are {clusters}"
        ));
    }
}

/// Validates a HorizontalPodAutoscaler that is labelled as distributed.
pub(crate) fn validate_distributed(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    if !is_distributed(object) {
        return Ok(());
    }
    let target = Path::new("spec.scaleTargetRef");
    let name = text(object, "/metadata/name");
    for (resource, remedy) in [(FEDERATED, "delete one of them"), (DISTRIBUTED, "take the label off one of them")] {
        let others = cx.lookups.get(&all(resource, cx.request.namespace)).unwrap_or_default();
        let fights = |other: &&Value| {
            let itself = resource.kind == DISTRIBUTED.kind && text(other, "/metadata/name") == name;
            !itself && (resource.kind == FEDERATED.kind || is_distributed(other)) && same_target(other, object)
        };
        if let Some(other) = others.iter().find(fights) {
            let detail = format!(
                "the target has the {} {:?}: two autoscalers would fight; {remedy}",
                resource.kind,
                text(other, "/metadata/name")
            );
            out.invalid(&target, at(object, "/spec/scaleTargetRef"), &detail);
        }
    }
    distributed_annotations(object, out);
    warn_of_maximum(object, cx, out);
    Ok(())
}

/// Validates the annotations of a distributed autoscaler.
fn distributed_annotations(object: &Value, out: &mut Findings) {
    let path = Path::new("metadata.annotations");
    let of = |key: &str| at(object, "/metadata/annotations").get(key).and_then(Value::as_str);
    for key in [annotations::FEDERATED_HPA_STRICT_MAX, annotations::FEDERATED_HPA_REBALANCE] {
        if let Some(value) = of(key).filter(|value| !["true", "false"].contains(value)) {
            out.not_supported(path.key(key), value, &["true", "false"]);
        }
    }
    if let Some(value) = of(annotations::FEDERATED_HPA_ON_DELETE).filter(|value| *value != "Reset") {
        out.not_supported(path.key(annotations::FEDERATED_HPA_ON_DELETE), value, &["Reset"]);
    }
    if let Some(value) = of(annotations::FEDERATED_HPA_SPLIT)
        && !is_split(value)
    {
        let detail = r#"must be {"mode":"Weighted"}, {"mode":"Even"}, {"mode":"PerCluster"} or {"mode":"Static","weights":{"cluster":1}}"#;
        out.invalid(path.key(annotations::FEDERATED_HPA_SPLIT), value, detail);
    }
}

fn is_split(text: &str) -> bool {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else { return false };
    let weights = map.get("weights").and_then(Value::as_object);
    let weighed = weights.is_some_and(|w| !w.is_empty() && w.values().all(|v| v.as_i64().is_some_and(|n| n >= 0)));
    match map.get("mode").and_then(Value::as_str) {
        Some("Weighted" | "Even" | "PerCluster") => map.len() == 1,
        Some("Static") => map.len() == 2 && weighed,
        _ => false,
    }
}
